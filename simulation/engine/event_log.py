"""Records the events of a simulation, and finds the first in which two simulations differ (non-determinism)."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple

from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.runs.trace import US_PER_S, name_of

DETAIL_CHARACTERS = 160


class LoggedEvent(NamedTuple):
    """One event that a node handled. `content` is a checksum over the event and its effects."""

    at_us: int
    node_id: int
    kind: str
    detail: str
    content: int

    def __str__(self) -> str:
        return f"{self.at_us / US_PER_S:.6f} s {name_of(self.node_id)} {self.kind} {self.detail}"


class Difference(NamedTuple):
    """The first event in which two simulations differ; None on a side that had ended."""

    number: int
    one: LoggedEvent | None
    other: LoggedEvent | None

    def __str__(self) -> str:
        if self.one is not None and self.other is not None and self.one[:4] == self.other[:4]:
            return f"event {self.number}, {self.one}: the same event with different effects"
        return f"event {self.number}: {self.one or 'the end'}, and then {self.other or 'the end'}"


class EventStream:
    """An observer that records every event."""

    def __init__(self) -> None:
        self.moments: list[LoggedEvent] = []

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """See `Observer.after`."""
        event = repr(step.event)
        content = zlib.crc32(f"{event}{step.effects!r}".encode())
        kind = type(step.event).__name__
        detail = event.removeprefix(kind)[:DETAIL_CHARACTERS]
        self.moments.append(LoggedEvent(cluster.now_us, step.node_id, kind, detail, content))

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """See `Observer.crashed`."""
        self.moments.append(LoggedEvent(cluster.now_us, node_id, "crash", f"lost {lost_bytes}", 0))


def first_difference(one: Iterable[LoggedEvent], other: Iterable[LoggedEvent]) -> Difference | None:
    """Compare two streams."""
    for number, (left, right) in enumerate(_pairs(one, other)):
        if left != right:
            return Difference(number, left, right)
    return None


def _pairs(
    one: Iterable[LoggedEvent], other: Iterable[LoggedEvent]
) -> Iterator[tuple[LoggedEvent | None, LoggedEvent | None]]:
    return zip_longest(one, other)
