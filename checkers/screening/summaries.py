"""Combines the notes of all tasks: the suspect partitions and suspect values of a whole history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from checkers.screening.kernel import EPOCHS, MALFORMED, REPLICA, STRETCH, SUSPECT_PARTITION, SUSPECT_VALUE, WATERMARK

VALUES_OF_A_PARTITION_MAX: Final = 100_000
"""If more values are suspect, the whole partition is: looking each of them up would cost more."""


@dataclass(frozen=True)
class Suspicion:
    """What needs a full check."""

    partition_keys: frozenset[int]
    values: tuple[tuple[int, int], ...]
    """Partition key and value, of partitions that are not suspect as a whole."""
    malformed: bool = False
    """Whether rows of operations, polls or samples are malformed. Those of others make their partition suspect."""


def suspicion_of(notes: pa.Table) -> Suspicion:
    """Put the notes of the kernel together (`checkers.screening.kernel.NOTES_SCHEMA`)."""
    of_kind: dict[int, list[tuple[int, ...]]] = {}
    for note, *rest in zip(*(column.to_pylist() for column in notes.columns), strict=True):
        of_kind.setdefault(note, []).append(tuple(rest))
    partition_keys = {partition_key for partition_key, *_ in of_kind.get(SUSPECT_PARTITION, ())}
    partition_keys |= set(_with_falling_epochs(of_kind.get(EPOCHS, ())))
    watermarks = {
        (partition_key, broker): (low, high) for partition_key, _, broker, low, high, _ in of_kind.get(WATERMARK, ())
    }
    partition_keys |= {partition_key for (partition_key, _), (low, high) in watermarks.items() if low != high}
    partition_keys |= set(_with_holes(of_kind.get(STRETCH, ()), of_kind.get(REPLICA, ()), watermarks))
    values: dict[int, set[int]] = {}
    for partition_key, _, value, *_ in of_kind.get(SUSPECT_VALUE, ()):
        values.setdefault(partition_key, set()).add(value)
    partition_keys |= {
        partition_key for partition_key, suspect in values.items() if len(suspect) > VALUES_OF_A_PARTITION_MAX
    }
    pairs = (
        (partition_key, value)
        for partition_key, suspect in values.items()
        if partition_key not in partition_keys
        for value in suspect
    )
    return Suspicion(frozenset(partition_keys), tuple(sorted(pairs)), MALFORMED in of_kind)


def _with_falling_epochs(stretches: Iterable[tuple[int, ...]]) -> Iterable[int]:
    """Find partitions in which a later stretch has a lower epoch than an earlier one."""
    before: dict[tuple[int, int], int] = {}
    for partition_key, _, kind, least, greatest, _ in sorted(stretches):
        highest = before.get((partition_key, kind), least)
        if least < highest:
            yield partition_key
        before[partition_key, kind] = max(highest, greatest)


def _with_holes(
    stretches: Iterable[tuple[int, ...]],
    replicas: Iterable[tuple[int, ...]],
    watermarks: Mapping[tuple[int, int], tuple[int, int]],
) -> Iterable[int]:
    """Find partitions in which a replica may lack a record below its high watermark that another has.

    A replica is there if any of its log is; it need not have what begins at its high watermark.
    """
    held: dict[int, dict[int, dict[int, int]]] = {}
    for partition_key, stretch, broker, count, _, _ in replicas:
        held.setdefault(partition_key, {}).setdefault(broker, {})[stretch] = count
    for partition_key, stretch, taken, first, _, _ in stretches:
        for broker, counts in held[partition_key].items():
            if counts.get(stretch, 0) != taken and first < watermarks[partition_key, broker][1]:
                yield partition_key
