"""Reads the table `repeats`: which records a client has sent again under a later epoch of its producer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Resent:
    """A record that a client has sent again under a later epoch of its producer, as the logs after the run show.

    A broker recognizes a retry by producer id, epoch and sequence number (KIP-98): it must append what comes in a new
    epoch. So the second copy is the client's doing.
    """

    topic: str
    partition: int
    value: int
    producer_id: int
    copies: tuple[tuple[int, int], ...]
    """Offset and producer epoch of each, in the order of the log: no two of one epoch."""


def resent_records(rows: Iterable[Row], malformed: list[tuple[str, str]]) -> Iterable[Resent]:
    """Yield the records that were sent again; a row that cannot be used goes to `malformed`.

    All replicas that hold several copies must agree on the producer of each, all copies must be of one producer, and
    its epoch must rise from copy to copy.
    """
    copies: dict[tuple[str, int, int], dict[int, set[tuple[int, int] | None]]] = {}
    for row in rows:
        where = row["topic"], row["partition"], row["value"]
        if None in where or row["offset"] is None:
            malformed.append(("repeats", f"value {row['value']} of {row['topic']}-{row['partition']}"))
            continue
        copies.setdefault(where, {}).setdefault(row["offset"], set()).add(_producer(row))
    for (topic, partition, value), written in sorted(copies.items()):
        producers = [producer for _, at in sorted(written.items()) for producer in at]
        known = [producer for producer in producers if producer is not None]
        if not len(known) == len(producers) == len(written):
            continue
        ids, epochs = {producer for producer, _ in known}, [epoch for _, epoch in known]
        if len(ids) == 1 and len(epochs) > 1 and all(earlier < later for earlier, later in pairwise(epochs)):
            yield Resent(topic, partition, value, ids.pop(), tuple(zip(sorted(written), epochs, strict=True)))


def _producer(row: Row) -> tuple[int, int] | None:
    producer, epoch = row["producer_id"], row["producer_epoch"]
    return None if producer is None or epoch is None or producer < 0 or epoch < 0 else (producer, epoch)
