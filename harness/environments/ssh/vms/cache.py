"""Where things are kept that take long to make and can be made again."""

from __future__ import annotations

import os
from pathlib import Path

from harness.store.durable import replacing


def cache_directory() -> Path:
    """The user's cache (XDG Base Directory Specification), Harrow's part of it; made when something is kept there."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "harrow")


def keep(file: Path, data: bytes) -> None:
    """Write a file that others may be writing or reading: they see all of it or nothing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as temporary:
        temporary.write_bytes(data)
