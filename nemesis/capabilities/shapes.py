"""What may be done to the packets of a link that is not cut, and what a look at such a link shows."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Shape:
    """How a link treats packets of its direction. The plain one does nothing to them."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0  # each packet's delay is up to this much more or less; their order stays
    loss_percent: float = 0.0
    duplicate_percent: float = 0.0
    reorder_percent: float = 0.0  # so many packets are overtaken by those behind them
    kbit_per_s: float = 0.0  # 0: as fast as can be; what does not fit waits up to a second, then is lost
    reset: bool = False  # every TCP segment is answered by a reset, to both ends

    def __str__(self) -> str:
        told = [f"{name.replace('_', ' ')} {value:g}" for name, value in asdict(self).items() if value]
        return ", ".join(told).replace("reset 1", "connections reset") or "nothing"


PLAIN = Shape()


def both(one: Shape, other: Shape) -> Shape:
    """What two shapes do to a link together: delays add up, of everything else the worse."""
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
class Sample:
    """What became of some packets that were sent over links one after the other."""

    sent: int
    arrived: int  # different packets
    copies: int  # packets that arrived, duplicates included
    overtaken: int  # packets that came after one that was sent later on the same link
    median_ms: float  # from the sending to the arrival; 0 if none arrived
    kbit_per_s: float  # between the first and the last arrival, the fastest link's; 0 if fewer than two arrived

    @property
    def lost_percent(self) -> float:
        """How many percent did not arrive."""
        return 100 * (self.sent - self.arrived) / self.sent if self.sent else 0.0
