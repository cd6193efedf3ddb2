"""Reads the names that `--faults` accepts: kinds, families of kinds, and `usual`, `all`, `none`.

A family, like `all`, means those of its kinds that can be injected in the run's environment. A kind that is named
must be possible there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, get_args

from common.names import unknown
from nemesis.faults import KINDS, USUAL
from nemesis.kinds import Family
from nemesis.recipes import RECIPES

PARTITION: Final = "partition"
"""The kinds of the family network that cut links."""

ALL: Final = "all"

FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    **{family: tuple(kind.name for kind in KINDS.values() if kind.family == family) for family in get_args(Family)},
    "recipe": tuple(RECIPES),
    PARTITION: tuple(kind.name for kind in KINDS.values() if kind.cuts),
}
"""The names of the kinds of each family, in the order of all kinds."""

OPEN: Final[Mapping[str, tuple[str, ...]]] = {ALL: (*KINDS, *RECIPES), **FAMILIES}
"""Names that mean those of their kinds that can be injected."""

_FIXED: Final[Mapping[str, tuple[str, ...]]] = {"usual": USUAL, "none": ()}

WORDS: Final = (*KINDS, *RECIPES, *FAMILIES, *_FIXED, ALL)
"""All names that `--faults` accepts, separated by commas."""


class FaultsError(ValueError):
    """An invalid value of `--faults`. One line: what was expected, what was found."""


def read(words: Sequence[str]) -> tuple[str, ...]:
    """Expand `usual` into its kinds; families and `all` stay. Raises `FaultsError`."""
    for word in words:
        _check(word, words)
    return tuple(dict.fromkeys(kind for word in words for kind in _FIXED.get(word, (word,))))


def _check(word: str, words: Sequence[str]) -> None:
    if word == "none" and len(words) > 1:
        raise FaultsError(f"faults: expected none alone, found {','.join(words)}")
    together = word.split("+")
    for name in together:
        if len(together) > 1 and name in WORDS and name not in KINDS:
            raise FaultsError(f"faults: expected single faults in {word}, found {name}, which is not one")
        if name not in WORDS:
            raise FaultsError(f"faults: {unknown(name, WORDS, 'the name of a fault', '`harrow faults`')}")


def settle(words: Sequence[str], possible: Collection[str]) -> tuple[str, ...]:
    """Expand families and `all` into those of their kinds that are possible. Kinds that are named stay.

    Raises `FaultsError` for a family of which no kind is possible.
    """
    settled: list[str] = []
    for word in words:
        kinds = [kind for kind in OPEN[word] if kind in possible] if word in OPEN else [word]
        if not kinds:
            raise FaultsError(f"faults: expected a fault of {word} that can be injected, found none of its kinds")
        settled += kinds
    return tuple(dict.fromkeys(settled))
