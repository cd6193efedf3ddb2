"""Degrades links without cutting them: delay, loss, duplication, reordering, little bandwidth, connection resets.

One mechanism (`Network.shape`), one kind of fault for each degradation. Probe packets over the same links verify that a
shape took effect; for connection resets, a counter of the resets that the cluster's own connections received.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nemesis.capabilities.cluster import Capability, Link
from nemesis.capabilities.shapes import LinkSample, Shape
from nemesis.draws import Draws
from nemesis.faults.base import FaultKind, Healing, Injection, Parameters, Site, named
from nemesis.faults.partition import PARTIES, both_ways, others

_NEEDS: frozenset[Capability] = frozenset({"network-shaping"})
_PACKETS = 240
"""How many packets a check sends, over all links together: enough to detect a loss of 3 %."""

_PACKET_BYTES = 256
_THIN_BYTES = 1_000
_WAIT_S = 1.0
"""How long a check waits for packets, beyond the wanted delay."""


@dataclass(frozen=True)
class Shaping:
    """Links of the targets whose packets are shaped."""

    site: Site
    targets: tuple[int, ...]
    links: frozenset[Link]
    shape: Shape
    shows: Callable[[Shape, LinkSample], bool]  # whether a sample shows that the shape took effect
    party: str

    def inject(self) -> str:
        """Shape the links, and check with packets that the shape took effect."""
        resets = self._count("reset")
        self.site.links.shape(self.links, self.shape)
        if self.shape.reset:
            self.site.await_effect(lambda: self._count("reset") > resets, "no connection was reset")
            return f"{self._where()}: {self._count('reset') - resets} segments answered by resets"
        samples: list[LinkSample] = []

        def shown() -> bool:
            samples.append(self._sample())
            return self.shows(self.shape, samples[-1])

        self.site.await_effect(shown, f"packets of {named(self.targets)} pass as before")
        return f"{self._where()}: {self.shape} wanted, {_format(samples[-1])}"

    def undo(self) -> None:
        """Remove the shape from the links."""
        self.site.links.unshape(self.links, self.shape)

    def check_healed(self) -> Healing:
        """Check with packets that the links work normally, and that the living targets serve."""
        network = self.site.cluster.network
        left = self.links - self.site.links.shaped - self.site.links.held
        shaped = left & network.shaped().keys()
        if shaped:
            return Healing(False, f"{len(shaped)} links are still shaped")
        sample = self._sample(left)
        slow = self.shape.delay_ms and sample.median_ms > self.shape.delay_ms / 2
        if left and (sample.arrived < sample.sent or sample.copies > sample.arrived or slow):
            return Healing(False, f"packets do not pass normally: {_format(sample)}")
        alive = tuple(target for target in self.targets if self.site.cluster.nodes[target].is_alive())
        if not alive:
            return Healing(True, _format(sample))
        serving = self.site.serving(alive)
        return serving._replace(evidence=f"{_format(sample)}, {serving.evidence}")

    def _sample(self, links: frozenset[Link] | None = None) -> LinkSample:
        links = self.links if links is None else links
        thin = bool(self.shape.kbit_per_s)
        size = _THIN_BYTES if thin else _PACKET_BYTES
        count = max(2, _PACKETS // len(links)) if links and not thin else 6
        wait_s = _WAIT_S + (self.shape.delay_ms + self.shape.jitter_ms) / 1000
        return self.site.cluster.network.sample(links, count, size, wait_s)

    def _count(self, what: str) -> int:
        return self.site.cluster.network.shaping_counts().get(what, 0)

    def _where(self) -> str:
        return f"{len(self.links)} links between {named(self.targets)} and {self.party}"


def _format(sample: LinkSample) -> str:
    parts = [f"{sample.arrived} of {sample.sent} packets arrived in {sample.median_ms:.1f} ms"]
    if sample.copies > sample.arrived:
        parts.append(f"{sample.copies - sample.arrived} twice")
    if sample.overtaken:
        parts.append(f"{sample.overtaken} overtaken")
    return ", ".join(parts)


def _aim(
    site: Site,
    targets: tuple[int, ...],
    parameters: Parameters,
    shape: Shape,
    shows: Callable[[Shape, LinkSample], bool],
) -> Injection:
    party = parameters.get("from", "all")
    return Shaping(site, targets, both_ways(targets, others(site.cluster, targets, party)), shape, shows, party)


def _number(parameters: Parameters, name: str, default: float) -> float:
    return float(parameters.get(name, default))


def _kind(
    name: str,
    shape: Callable[[Parameters], Shape],
    shows: Callable[[Shape, LinkSample], bool],
    values: dict[str, tuple[int, ...]],
) -> FaultKind:
    """Return a kind whose parameters, besides the party, are drawn from `values`."""

    def draw(draws: Draws) -> dict[str, str]:
        drawn = {parameter: str(draws.choice(of)) for parameter, of in values.items()}
        return {"from": draws.choice(PARTIES)} | drawn

    return FaultKind(
        name=name,
        needs=_NEEDS,
        roles=("leader", "in-sync-follower", "minority", "brokers", "controller"),
        draw=draw,
        aim=lambda site, targets, parameters: _aim(site, targets, parameters, shape(parameters), shows),
        lasts_ms=(3_000, 8_000),
    )


def _slow(parameters: Parameters) -> Shape:
    delay_ms = _number(parameters, "delay-ms", 200)
    return Shape(delay_ms=delay_ms, jitter_ms=delay_ms * _number(parameters, "jitter-percent", 25) / 100)


def _is_slow(shape: Shape, sample: LinkSample) -> bool:
    return sample.arrived > 0 and sample.median_ms >= 0.7 * shape.delay_ms


def _is_lossy(shape: Shape, sample: LinkSample) -> bool:
    return shape.loss_percent / 4 <= sample.lost_percent <= 25 + 2 * shape.loss_percent and sample.lost_percent > 0


def _is_duplicating(_shape: Shape, sample: LinkSample) -> bool:
    return sample.copies > sample.arrived


def _is_reordering(_shape: Shape, sample: LinkSample) -> bool:
    return sample.overtaken > 0


def _is_thin(shape: Shape, sample: LinkSample) -> bool:
    return 0 < sample.kbit_per_s < 2 * shape.kbit_per_s


SLOW_NETWORK = _kind(
    "slow-network",
    _slow,
    _is_slow,
    {"delay-ms": (20, 100, 400, 1_000), "jitter-percent": (0, 25, 75)},
)

PACKET_LOSS = _kind(
    "packet-loss",
    lambda parameters: Shape(loss_percent=_number(parameters, "percent", 10)),
    _is_lossy,
    {"percent": (3, 10, 30, 60)},
)

PACKET_DUPLICATION = _kind(
    "packet-duplication",
    lambda parameters: Shape(duplicate_percent=_number(parameters, "percent", 20)),
    _is_duplicating,
    {"percent": (10, 50)},
)

PACKET_REORDERING = _kind(
    "packet-reordering",
    lambda parameters: Shape(reorder_percent=_number(parameters, "percent", 20)),
    _is_reordering,
    {"percent": (5, 25)},
)

THIN_NETWORK = _kind(
    "thin-network",
    lambda parameters: Shape(kbit_per_s=_number(parameters, "kbit", 500)),
    _is_thin,
    {"kbit": (200, 500, 2_000)},
)

CONNECTION_RESETS = _kind(
    "connection-resets",
    lambda _parameters: Shape(reset=True),
    lambda _shape, _sample: False,  # datagrams cannot be reset: resets are counted instead
    {},
)

SHAPING = (SLOW_NETWORK, PACKET_LOSS, PACKET_DUPLICATION, PACKET_REORDERING, THIN_NETWORK, CONNECTION_RESETS)
