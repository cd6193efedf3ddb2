"""Holds, drops and releases messages for a directed schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.core.messages import FetchRequest
from simulation.engine.transport import CLIENTS_FROM, Envelope

_CONTROLLERS_FROM = 100


def name_of(envelope: Envelope) -> tuple[str, str]:
    """The name of a message in schedules, and its direction.

    The name of a fetch depends on its sender: `Fetch` among brokers, `ConsumerFetch`, `MetadataFetch` of brokers from
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
    """Messages to intercept: which, how many more (-1: all), how many pass first, and whether they are kept."""

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
        """Whether a message matches."""
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
    """All traps by label, and the messages that they hold."""

    traps: dict[str, Trap] = field(default_factory=dict)
    held: dict[str, list[Envelope]] = field(default_factory=dict)
    _passing: bool = False

    def intercept(self, envelope: Envelope) -> bool:
        """See `Transport.intercept`."""
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
        """By trap: how many messages it has taken and not released."""
        return {
            label: len(self.held.get(label, ())) if trap.keeps else trap.taken for label, trap in self.traps.items()
        }

    def open(self, label: str) -> None:
        """Intercept no more messages; those that are held stay held."""
        self.traps[label].left = 0

    def release(self, label: str, count: int | None) -> None:
        """Deliver held messages in order: the first `count`, or all, and then intercept no more."""
        held = self.held.get(label, [])
        if count is None:
            self.open(label)
            count = len(held)
        released, self.held[label] = held[:count], held[count:]
        for envelope in released:
            self._passing = True
            try:
                envelope.deliver()
            finally:
                self._passing = False
