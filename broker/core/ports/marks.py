"""Marks: named events that should happen now and then, so that a sweep can report which never did.

A module declares its marks at import (`RARE = sometimes("…")`) and emits them as effects when they happen
(`runtime.mark(RARE)`). The registry holds only the declarations; the host counts.
"""

from __future__ import annotations

from typing import NamedTuple


class Mark(NamedTuple):
    """An effect that reports that the marked event has happened."""

    name: str


_DECLARED: dict[str, Mark] = {}


def sometimes(name: str) -> Mark:
    """Declare a mark. Names are unique."""
    if name in _DECLARED:
        raise ValueError(f"the mark {name!r} is declared twice")
    _DECLARED[name] = Mark(name)
    return _DECLARED[name]


def declared() -> tuple[str, ...]:
    """All marks of the modules that were imported, sorted."""
    return tuple(sorted(_DECLARED))
