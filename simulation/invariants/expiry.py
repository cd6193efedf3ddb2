"""What a replica knows of producers over time: whether idle ones are forgotten when they must be, and no others (P-D2).

Times are those of the monotonic clock of the broker's process, in ms (`producer.id.expiration.ms`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.log.log import Log
from broker.core.log.producer_state import CachedBatch
from broker.core.ports.marks import sometimes

TAKEN_TWICE = sometimes("idle producers: a batch is committed twice, as its producer had been forgotten")

A_RUN_MS = 3_600_000
"""No simulation lasts longer: with a longer lifetime of producers none is forgotten."""


class Idle(NamedTuple):
    """A producer's last batch in a log."""

    batch: CachedBatch
    since_ms: int
    """When it became the last one."""

    found_ms: int | None = None
    """When the broker first looked for idle producers after that, and after the log was last cut."""


@dataclass(slots=True)
class SeenProducers:
    """The producers that a replica knew after its last step, and those that its broker has forgotten."""

    known: dict[int, Idle] = field(default_factory=dict)
    forgotten: dict[int, int] = field(default_factory=dict)
    """Producer id -> the last offset of its last batch when it was last forgotten: so far the replica may lack it."""

    truncations: int = 0
    """How often the log had been cut."""

    def restart(self) -> None:
        """A new process knows what the log and its snapshots have, maybe without what the earlier one had forgotten."""
        self.known = {}
        self.truncations = 0

    def cut(self, end: int) -> None:
        """The log was cut to `end`: what it had from there on may come again, and is new then."""
        self.known = {producer: idle for producer, idle in self.known.items() if idle.batch.last_offset < end}
        self.forgotten = {producer: min(last, end - 1) for producer, last in self.forgotten.items()}

    def note(self, log: Log, now_ms: int) -> list[int]:
        """Note what the replica knows after a step; the producers that it has forgotten in it, though nobody looked."""
        before, self.known = self.known, {}
        was_cut = log.truncations != self.truncations
        self.truncations = log.truncations
        for producer, state in log.producers.states.items():
            idle = before.get(producer)
            if idle is None or idle.batch != state.batches[-1]:
                idle = Idle(state.batches[-1], now_ms)
            self.known[producer] = idle._replace(found_ms=None) if was_cut else idle
        return [] if was_cut else [producer for producer in before if producer not in self.known]

    def looked_for(self, log: Log, now_ms: int, lifetime_ms: int) -> Iterator[str]:
        """Note what the broker has forgotten now that it has looked for idle producers; what is wrong with that."""
        for producer, idle in list(self.known.items()):
            what = f"producer {producer}, whose last batch ends at {idle.batch.last_offset}"
            if producer not in log.producers.states:
                if now_ms - idle.since_ms < lifetime_ms:
                    yield f"{what} and is there since {idle.since_ms} ms, is forgotten"
                self.forgotten[producer] = idle.batch.last_offset
                del self.known[producer]
            elif idle.found_ms is None:
                self.known[producer] = idle._replace(found_ms=now_ms)
            elif now_ms - idle.found_ms >= lifetime_ms:
                yield f"{what} and was found idle at {idle.found_ms} ms, is not forgotten"

    def must_know(self, producer: int, last_offset: int) -> bool:
        """Whether the replica must know that a batch of its log, which ends at `last_offset`, is of this producer."""
        return last_offset > self.forgotten.get(producer, -1)

    def taken_anew(self, producer: int) -> int | None:
        """If the replica does not know a producer because it was forgotten: the last offset that it had then."""
        return None if producer in self.known else self.forgotten.get(producer)


def is_excused(taken_anew: Mapping[tuple[int, int], int], batch: tuple[int, int], before: int) -> bool:
    """Whether a batch (leader epoch, base offset) may have any sequence number.

    Only where the leader that appended it did not know its producer at that moment, because the producer had been idle
    for so long, and had forgotten it with its last committed batch, which ended at `before`, or with a later one.
    """
    return taken_anew.get(batch, -1) >= before
