"""The rules that Harrow's own broker can follow, by name: generations, and the flaws that may be put into them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from broker.core.rules.flaws import FLAWS
from broker.core.rules.generations import GENERATIONS
from naming import SpecError, unknown

LISTED_BY: Final = "`harrow flaws`"


def check_names(generation: str, flaws: Iterable[str] = ()) -> None:
    """See that there are a generation and flaws of these names. Raises `SpecError`."""
    if generation not in GENERATIONS:
        raise SpecError(f"generation: {unknown(generation, GENERATIONS)}")
    check_flaws(flaws)


def check_flaws(flaws: Iterable[str]) -> None:
    """See that there are flaws of these names. Raises `SpecError`."""
    for flaw in flaws:
        if flaw not in FLAWS:
            raise SpecError(f"flaw: {unknown(flaw, FLAWS, 'the name of a flaw', LISTED_BY)}")


def flaws() -> Mapping[str, str]:
    """All flaws by name, each with one line that says what is wrong with it."""
    return {
        name: f"{flaw.summary} ({flaw.number}; {_range(flaw.generations)}; breaks {flaw.breaks}; {flaw.source})"
        for name, flaw in FLAWS.items()
    }


def _range(generations: Sequence[str]) -> str:
    first, last = generations[0], generations[-1]
    return first if first == last else f"{first} … {last}"
