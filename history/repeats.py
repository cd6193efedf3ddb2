"""Finds values that a replica's log holds more than once, and which producer wrote each copy: the table `repeats`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

Producer: TypeAlias = tuple[int, int, int]
"""Id, epoch, and the record's sequence number."""


class Repeats:
    """The values of one replica's log so far. For each copy of a repeated value there is one row."""

    def __init__(self, broker: int, topic: str, partition: int) -> None:
        self._where = {"broker": broker, "topic": topic, "partition": partition}
        self._first: dict[int, tuple[int, Producer | None]] = {}
        self._repeated: set[int] = set()

    def found(self, value: int | None, offset: int, producer: Producer | None) -> Iterator[Mapping[str, object]]:
        """Yield the rows that the next record adds: none, unless its value was there before.

        `value`: None for a record that no client of the run wrote. `producer`: None if it was not idempotent.
        """
        if value is None:
            return
        first_offset, first_producer = self._first.setdefault(value, (offset, producer))
        if first_offset == offset:
            return
        if value not in self._repeated:
            self._repeated.add(value)
            yield self._row(value, first_offset, first_producer)
        yield self._row(value, offset, producer)

    def _row(self, value: int, offset: int, producer: Producer | None) -> Mapping[str, object]:
        producer_id, epoch, sequence = producer or (None, None, None)
        return {
            **self._where,
            "offset": offset,
            "value": value,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "sequence": sequence,
        }
