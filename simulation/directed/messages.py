"""Holding messages back, dropping them, letting them go: the hands of a directed schedule on the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.core.messages import FetchRequest
from simulation.engine.transport import CLIENTS_FROM, Envelope

_CONTROLLERS_FROM = 100


def name_of(envelope: Envelope) -> tuple[str, str]:
    """What a message is called in schedules, and its direction.

    Fetches are told apart by who fetches: `Fetch` among brokers, `ConsumerFetch`, `MetadataFetch` of brokers from
    controllers, `QuorumFetch` among controllers.
    """
    kind = type(envelope.message).__name__
    direction = "response" if kind.endswith("Response") else "request"
    name = kind.removesuffix("Response").removesuffix("Request")
    if name == "Fetch":
        asker, asked = envelope.source, envelope.target
        if direction == "response":
            asker, asked = asked, asker
        if asker >= CLIENTS_FROM:
            name = "ConsumerFetch"
        elif asked >= _CONTROLLERS_FROM:
            name = "QuorumFetch" if asker >= _CONTROLLERS_FROM else "MetadataFetch"
    return name, direction


@dataclass(slots=True)
class Trap:
    """Messages to be taken: which, how many yet (-1: all), how many pass before, and whether they are kept."""

    message: str
    direction: str
    sources: frozenset[int] | None
    targets: frozenset[int] | None
    offset: int | None
    left: int
    keeps: bool
    skips: int = 0
    taken: int = 0

    def fits(self, envelope: Envelope, name: str, direction: str) -> bool:
        """Whether a message is one of those."""
        return (
            self.left != 0
            and (self.message, self.direction) == (name, direction)
            and (self.sources is None or envelope.source in self.sources)
            and (self.targets is None or envelope.target in self.targets)
            and (self.offset is None or self._at_offset(envelope))
        )

    def _at_offset(self, envelope: Envelope) -> bool:
        request = envelope.message
        return isinstance(request, FetchRequest) and any(
            part.fetch_offset == self.offset for part in request.partitions
        )


@dataclass(slots=True)
class Traps:
    """All traps, by label, and what they hold."""

    traps: dict[str, Trap] = field(default_factory=dict)
    held: dict[str, list[Envelope]] = field(default_factory=dict)
    _passing: bool = False

    def intercept(self, envelope: Envelope) -> bool:
        """See `Mail.intercept`."""
        if self._passing:
            return False
        name, direction = name_of(envelope)
        for label, trap in self.traps.items():
            if trap.fits(envelope, name, direction):
                if trap.skips:
                    trap.skips -= 1
                    return False
                trap.left -= trap.left > 0
                trap.taken += 1
                if trap.keeps:
                    self.held.setdefault(label, []).append(envelope)
                return True
        return False

    def counts(self) -> Mapping[str, int]:
        """How many messages each trap has taken that are not released."""
        return {
            label: len(self.held.get(label, ())) if trap.keeps else trap.taken for label, trap in self.traps.items()
        }

    def open(self, label: str) -> None:
        """Take no more of them; what is held stays so."""
        self.traps[label].left = 0

    def release(self, label: str, count: int | None) -> None:
        """Take no more (unless only so many are let go) and deliver what was held, in order."""
        held = self.held.get(label, [])
        if count is None:
            self.open(label)
            count = len(held)
        going, self.held[label] = held[:count], held[count:]
        for envelope in going:
            self._passing = True
            try:
                envelope.deliver()
            finally:
                self._passing = False
