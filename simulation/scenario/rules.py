"""Checks and lists the names of protocol versions of Harrow's own broker and of the flaws that it can have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from broker.core.rules.flaws import FLAWS
from broker.core.rules.generations import GENERATIONS
from common.names import SpecError, unknown

LISTED_BY: Final = "`harrow flaws`"


def check_names(generation: str, flaws: Iterable[str] = ()) -> None:
    """Check that a protocol version and flaws of these names exist. Raises `SpecError`."""
    if generation not in GENERATIONS:
        raise SpecError(f"generation: {unknown(generation, GENERATIONS)}")
    check_flaws(flaws)


def check_flaws(flaws: Iterable[str]) -> None:
    """Check that flaws of these names exist. Raises `SpecError`."""
    for flaw in flaws:
        if flaw not in FLAWS:
            raise SpecError(f"flaw: {unknown(flaw, FLAWS, 'the name of a flaw', LISTED_BY)}")


def flaws() -> Mapping[str, str]:
    """All flaws by name, each with a description in one line."""
    return {
        name: f"{flaw.summary} ({flaw.number}; {_range(flaw.generations)}; breaks {flaw.breaks}; {flaw.source})"
        for name, flaw in FLAWS.items()
    }


def _range(generations: Sequence[str]) -> str:
    first, last = generations[0], generations[-1]
    return first if first == last else f"{first} … {last}"
