"""Divides rows into blocks, one for each group of stretches of a partition, with columns of few bytes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from checkers.screening.columns import Longs, distinct

GROUP_BITS: Final = 17
"""A group has `1 << GROUP_BITS` offsets of a partition, eight stretches: all of it is in one task, with some seven rows
for each offset."""
VALUE_BITS: Final = 20
"""Values that differ in higher bits alone are in different blocks."""

Place = tuple[str, int]
"""Topic and partition."""
GroupKey = tuple[Place, int]
"""A partition, and a number of a group."""

SENT, ASKED, READ, LOG = range(4)
"""Kinds of blocks: records sent, empty answers and answers on the end, records polled, records in dumped logs."""


class Narrow(NamedTuple):
    """A column of numbers, as the least of them and what each has above it; no array if all are equal."""

    size: int
    least: int
    above: npt.NDArray[Any] | None


@dataclass(frozen=True)
class Block:
    """Rows of one kind at the offsets of a group."""

    key: GroupKey
    kind: int
    columns: Mapping[str, Narrow]


@dataclass(frozen=True)
class Values:
    """Values that were sent, of one range."""

    values: Narrow


@dataclass(frozen=True)
class Layout:
    """Says which task gets what."""

    first_group: Mapping[Place, int]
    """Partitions that are known beforehand, and how many groups those before each of them have."""
    tasks: int
    """That screen groups."""
    shares: int
    """Tasks that judge polls and samples, each those of some partitions."""

    @classmethod
    def of(cls, ends: Mapping[Place, int], tasks: int, shares: int) -> Layout:
        """Spread the groups of partitions with these ends evenly, however unequal the partitions are."""
        groups = [-(-ends[place] // (1 << GROUP_BITS)) for place in sorted(ends)]
        return cls(dict(zip(sorted(ends), accumulate(groups, initial=0), strict=False)), tasks, shares)

    def share_of(self, place: tuple[str | None, int | None]) -> int:
        """Return which share the polls of a partition belong to; rows of no partition are in the first."""
        topic, partition = place
        return 0 if topic is None or partition is None else (zlib.crc32(topic.encode()) + partition) % self.shares

    def task_of_share(self, share: int) -> int:
        """Return the task that judges a share."""
        return self.tasks + share

    def task_of(self, key: GroupKey) -> int:
        """Return the task of a group."""
        place, group = key
        topic, partition = place
        first = self.first_group.get(place)
        return (group + (zlib.crc32(topic.encode()) + partition if first is None else first)) % self.tasks


def narrowed(column: Longs) -> Narrow:
    """Write a column in few bytes."""
    if not column.size:
        return Narrow(0, 0, None)
    least, greatest = int(column.min()), int(column.max())
    if least == greatest:
        return Narrow(column.size, least, None)
    span = greatest - least
    if span > np.iinfo(np.int64).max:
        return Narrow(column.size, 0, column)
    return Narrow(column.size, least, (column - least).astype(np.min_scalar_type(span)))


def widened(columns: Sequence[Narrow]) -> Longs:
    """Put columns together again."""
    whole = np.empty(sum(column.size for column in columns), np.int64)
    begin = 0
    for column in columns:
        piece = whole[begin : begin + column.size]
        piece[:] = 0 if column.above is None else column.above
        piece += column.least
        begin += column.size
    return whole


def blocks_of(kind: int, places: Sequence[Place], partition: Longs, columns: Mapping[str, Longs]) -> Iterator[Block]:
    """Divide rows, which have an `offset` and the number of their partition among `places`."""
    number, examples = distinct(partition, columns["offset"] >> GROUP_BITS)
    for each, rows in _rows_of_numbers(number):
        example = examples[each]
        key = places[int(partition[example])], int(columns["offset"][example]) >> GROUP_BITS
        yield Block(key, kind, {name: narrowed(column[rows]) for name, column in columns.items()})


def values_of(values: Longs) -> Iterator[tuple[int, Values]]:
    """Divide values by range; yield the number of each range too."""
    number, examples = distinct(values >> VALUE_BITS)
    for each, rows in _rows_of_numbers(number):
        yield int(values[examples[each]]) >> VALUE_BITS, Values(narrowed(values[rows]))


def _rows_of_numbers(number: Longs) -> Iterator[tuple[int, slice | Longs]]:
    """Yield each number from 0, and its rows in their order."""
    if not number.size:
        return
    last = int(number.max())
    order: Longs | None = None
    if (number[1:] < number[:-1]).any():
        order = np.argsort(number.astype(np.min_scalar_type(last)), kind="stable")  # few numbers: no comparisons
    bounds = np.cumsum(np.bincount(number))
    begin = 0
    for each, end in enumerate(bounds.tolist()):
        yield each, slice(begin, end) if order is None else order[begin:end]
        begin = end
