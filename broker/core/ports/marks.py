"""Marks: names for what should happen now and then, so that a sweep can say what it never saw.

A module declares its marks at import (`RARE = sometimes("…")`) and hands them to its host as effects when they happen
(`runtime.mark(RARE)`). The registry holds the declarations only; who counts is the host.
"""

from __future__ import annotations

from typing import NamedTuple


class Mark(NamedTuple):
    """An effect that says only: this has happened."""

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
