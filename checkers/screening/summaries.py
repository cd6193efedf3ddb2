"""What the notes of all tasks say together: suspect places and peculiar values of a whole history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from checkers.screening.kernel import EPOCHS, MALFORMED, PECULIAR, REPLICA, STRETCH, SUSPECT, WATERMARK

VALUES_OF_A_PLACE_MAX: Final = 100_000
"""Where more values are peculiar, the place is suspect: looking each of them up would cost more."""


@dataclass(frozen=True)
class Suspicion:
    """What deserves a close look."""

    places: frozenset[int]
    values: tuple[tuple[int, int], ...]
    """Place and value, of places that are not suspect as a whole."""
    malformed: bool = False
    """Whether rows of operations, polls or samples make no sense. Other tables' are at suspect places."""


def suspicion_of(notes: pa.Table) -> Suspicion:
    """Put the notes of the kernel together (`checkers.screening.kernel.NOTES_SCHEMA`)."""
    of_kind: dict[int, list[tuple[int, ...]]] = {}
    for note, *rest in zip(*(column.to_pylist() for column in notes.columns), strict=True):
        of_kind.setdefault(note, []).append(tuple(rest))
    places = {place for place, *_ in of_kind.get(SUSPECT, ())}
    places |= set(_with_falling_epochs(of_kind.get(EPOCHS, ())))
    watermarks = {(place, broker): (low, high) for place, _, broker, low, high, _ in of_kind.get(WATERMARK, ())}
    places |= {place for (place, _), (low, high) in watermarks.items() if low != high}
    places |= set(_with_holes(of_kind.get(STRETCH, ()), of_kind.get(REPLICA, ()), watermarks))
    values: dict[int, set[int]] = {}
    for place, _, value, *_ in of_kind.get(PECULIAR, ()):
        values.setdefault(place, set()).add(value)
    places |= {place for place, peculiar in values.items() if len(peculiar) > VALUES_OF_A_PLACE_MAX}
    pairs = ((place, value) for place, peculiar in values.items() if place not in places for value in peculiar)
    return Suspicion(frozenset(places), tuple(sorted(pairs)), MALFORMED in of_kind)


def _with_falling_epochs(stretches: Iterable[tuple[int, ...]]) -> Iterable[int]:
    """Find places in which a later stretch has a lower epoch than an earlier one."""
    before: dict[tuple[int, int], int] = {}
    for place, _, kind, least, greatest, _ in sorted(stretches):
        highest = before.get((place, kind), least)
        if least < highest:
            yield place
        before[place, kind] = max(highest, greatest)


def _with_holes(
    stretches: Iterable[tuple[int, ...]],
    replicas: Iterable[tuple[int, ...]],
    watermarks: Mapping[tuple[int, int], tuple[int, int]],
) -> Iterable[int]:
    """Find places in which a replica may lack a record below its high watermark that another has.

    A replica is there if any of its log is; it need not have what begins at its high watermark.
    """
    held: dict[int, dict[int, dict[int, int]]] = {}
    for place, stretch, broker, count, _, _ in replicas:
        held.setdefault(place, {}).setdefault(broker, {})[stretch] = count
    for place, stretch, taken, first, _, _ in stretches:
        for broker, counts in held[place].items():
            if counts.get(stretch, 0) != taken and first < watermarks[place, broker][1]:
                yield place
