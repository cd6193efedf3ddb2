"""Links of a suite's documents: relative to its directory, or absolute where the place of that directory is known."""

from __future__ import annotations

from urllib.parse import quote


def linked(path: str, base: str) -> str:
    """The link to a file of the suite; `base` is the address of the suite's directory, or empty."""
    return f"{base.rstrip('/')}/{quote(path)}" if base else quote(path)
