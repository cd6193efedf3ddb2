"""The simulated network: connections that keep order, links that are cut, delays, answers that get lost.

Fault model: messages of one connection arrive in order, those of different connections in any order. A message for a
cut link is held, as TCP would, and arrives late if the link is mended while both processes of its connection still run,
or never. A link can stall, which delays everything and loses nothing. A connection can break after its request was
applied: the answer is lost and the sender learns only that. Between nodes a request may arrive twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simulation.engine.choices import Stream

Endpoint = int


@dataclass(slots=True)
class NetworkFaults:
    """Latencies and how often accidents happen; all zero is the simplest network. Chances are per thousand messages."""

    latency_us_min: int = 200
    latency_us_max: int = 2_000
    slow_of_1000: int = 0
    slow_us_max: int = 300_000
    answer_lost_of_1000: int = 0
    repeated_of_1000: int = 0
    held_survives_of_1000: int = 500


@dataclass(slots=True)
class SimulatedNetwork:
    """Delays and cuts. `last_arrival` keeps the order within a connection's direction.

    A message for a `cut` link is held or lost, one for a `stalled` link is held; answers with metadata are held for
    `uninformed` nodes, so that several changes reach them at once (MD-2).
    """

    stream: Stream
    faults: NetworkFaults = field(default_factory=NetworkFaults)
    cut: set[tuple[Endpoint, Endpoint]] = field(default_factory=set)
    stalled: set[tuple[Endpoint, Endpoint]] = field(default_factory=set)
    uninformed: set[Endpoint] = field(default_factory=set)
    last_arrival: dict[tuple[Endpoint, Endpoint, str], int] = field(default_factory=dict)

    def arrival_us(self, now_us: int, source: Endpoint, target: Endpoint, channel: str) -> int:
        """The virtual time at which a message that is sent now arrives."""
        faults = self.faults
        latency_us = faults.latency_us_min + self.stream.draw(
            "latency", faults.latency_us_max - faults.latency_us_min + 1
        )
        if faults.slow_of_1000 and self.stream.chance("slow", faults.slow_of_1000):
            latency_us += self.stream.draw("slow by", faults.slow_us_max)
        key = (source, target, channel)
        at_us = max(now_us + latency_us, self.last_arrival.get(key, 0))
        self.last_arrival[key] = at_us
        return at_us

    def stops(self, source: Endpoint, target: Endpoint, channel: str) -> bool:
        """Whether a message cannot arrive now."""
        link = (source, target)
        return link in self.cut or link in self.stalled or (channel == "metadata" and target in self.uninformed)

    def answer_is_lost(self) -> bool:
        """Whether the connection breaks before the answer is sent."""
        return bool(self.faults.answer_lost_of_1000) and self.stream.chance(
            "answer lost", self.faults.answer_lost_of_1000
        )

    def is_repeated(self) -> bool:
        """Whether a request between nodes arrives twice."""
        return bool(self.faults.repeated_of_1000) and self.stream.chance("repeated", self.faults.repeated_of_1000)

    def held_message_survives(self, source: Endpoint, target: Endpoint) -> bool:
        """Whether a message that cannot arrive now is held; on a cut link it may be lost instead."""
        return (source, target) not in self.cut or self.stream.chance("held", self.faults.held_survives_of_1000)
