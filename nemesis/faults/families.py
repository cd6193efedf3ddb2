"""What `--faults` may say besides single kinds: families of kinds, and `usual`, `all`, `none`.

A family, like `all`, means those of its kinds that can be injected where the run takes place. A kind that is named
must be one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, get_args

from naming import unknown
from nemesis.faults import KINDS, USUAL
from nemesis.faults.base import Family

PARTITION: Final = "partition"
"""Another name for those kinds of the family network that cut."""

ALL: Final = "all"

FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    **{family: tuple(kind.name for kind in KINDS.values() if kind.family == family) for family in get_args(Family)},
    PARTITION: tuple(kind.name for kind in KINDS.values() if kind.cuts),
}
"""The names of the kinds of each family, in the order of all kinds."""

OPEN: Final[Mapping[str, tuple[str, ...]]] = {ALL: tuple(KINDS), **FAMILIES}
"""Words that mean what can be injected of these kinds."""

_FIXED: Final[Mapping[str, tuple[str, ...]]] = {"usual": USUAL, "none": ()}

WORDS: Final = (*KINDS, *FAMILIES, *_FIXED, ALL)
"""All that may stand between the commas of `--faults`."""


class FaultsError(ValueError):
    """Words for `--faults` that make no sense. One line: what was expected, what was found."""


def read(words: Sequence[str]) -> tuple[str, ...]:
    """Put the kinds of `usual` in its place, and leave families and `all` as they are. Raises `FaultsError`."""
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
    """Put in place of families, and of `all`, those of their kinds that are possible. What is named stays.

    Raises `FaultsError` for a family of which none is.
    """
    settled: list[str] = []
    for word in words:
        kinds = [kind for kind in OPEN[word] if kind in possible] if word in OPEN else [word]
        if not kinds:
            raise FaultsError(f"faults: expected a fault of {word} that can be injected, found none of its kinds")
        settled += kinds
    return tuple(dict.fromkeys(settled))
