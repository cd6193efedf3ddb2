"""Describes how a link degrades packets (`Shape`), and what a probe of such a link measures (`LinkSample`)."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Shape:
    """How a link treats packets of its direction. The default has no effect."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0  # each packet's delay varies by up to this much; the order stays
    loss_percent: float = 0.0
    duplicate_percent: float = 0.0
    reorder_percent: float = 0.0  # share of packets that later ones overtake
    kbit_per_s: float = 0.0  # 0: unlimited; excess packets wait up to a second, then are lost
    reset: bool = False  # every TCP segment is answered by a reset, to both ends

    def __str__(self) -> str:
        effects = [f"{name.replace('_', ' ')} {value:g}" for name, value in asdict(self).items() if value]
        return ", ".join(effects).replace("reset 1", "connections reset") or "nothing"


PLAIN = Shape()


def both(one: Shape, other: Shape) -> Shape:
    """Combine two shapes of a link: delays add up, of everything else the worse applies."""
    slower = min(filter(None, (one.kbit_per_s, other.kbit_per_s)), default=0.0)
    return Shape(
        delay_ms=one.delay_ms + other.delay_ms,
        jitter_ms=one.jitter_ms + other.jitter_ms,
        loss_percent=max(one.loss_percent, other.loss_percent),
        duplicate_percent=max(one.duplicate_percent, other.duplicate_percent),
        reorder_percent=max(one.reorder_percent, other.reorder_percent),
        kbit_per_s=slower,
        reset=one.reset or other.reset,
    )


@dataclass(frozen=True)
class LinkSample:
    """Measurements of packets that were sent over links one after the other."""

    sent: int
    arrived: int  # different packets
    copies: int  # packets that arrived, duplicates included
    overtaken: int  # packets that arrived after one that was sent later on the same link
    median_ms: float  # from sending to arrival; 0 if none arrived
    kbit_per_s: float  # between the first and the last arrival, the fastest link's; 0 if fewer than two arrived

    @property
    def lost_percent(self) -> float:
        """Percentage of packets that did not arrive."""
        return 100 * (self.sent - self.arrived) / self.sent if self.sent else 0.0
