"""Flapping: links that are cut and mended in turns, faster than anybody's timeout or about as fast."""

from __future__ import annotations

from dataclasses import dataclass

from nemesis.draws import Draws
from nemesis.faults.base import Healing, Injection, Kind, Parameters, Site, named
from nemesis.faults.partition import PARTIES, Partition, both_ways, others

_NS_PER_MS = 1_000_000


@dataclass
class Flapping:
    """A partition that comes and goes."""

    partition: Partition
    period_ms: int
    cuts: int = 0
    _is_cut: bool = False
    _changed_ns: int = 0

    def inject(self) -> str:
        """Cut the links for the first time, and see that they are cut."""
        told = self.partition.inject()
        self.cuts, self._is_cut = 1, True
        self._changed_ns = self._now_ns()
        return f"{told}; in turns of {self.period_ms} ms"

    def keep(self) -> None:
        """Mend what was cut for long enough; cut what was mended for long enough."""
        if self._now_ns() - self._changed_ns < self.period_ms * _NS_PER_MS:
            return
        self._changed_ns = self._now_ns()
        if self._is_cut:
            self._is_cut = False
            self.partition.undo()
        else:
            self._is_cut = True
            self.cuts += 1
            self.partition.site.links.cut(self.partition.cut)

    def undo(self) -> None:
        """Mend the links for good."""
        if self._is_cut or not self.cuts:  # not even the first cut may have taken hold
            self._is_cut = False
            self.partition.undo()

    def look(self) -> Healing:
        """See with packets that the links are mended, and whether the nodes serve."""
        healing = self.partition.look()
        return healing._replace(told=f"cut {self.cuts} times; {healing.told}")

    def _now_ns(self) -> int:
        return self.partition.site.clock.now_ns()


def _aim(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    cut = both_ways(targets, others(site.cluster, targets, parameters.get("from", "all")))
    shape = f"{named(targets)} cut off from {parameters.get('from', 'all')}"
    return Flapping(Partition(site, targets, cut, frozenset(), shape), int(parameters.get("period-ms", "300")))


def _draw(draws: Draws) -> dict[str, str]:
    return {"from": draws.choice(PARTIES), "period-ms": str(draws.choice((150, 400, 1_000, 2_000)))}


FLAPPING = Kind(
    name="flapping",
    family="network",
    summary="cut a node off and let it back, over and over",
    needs=frozenset({"network"}),
    roles=("leader", "in-sync-follower", "minority", "controller"),
    draw=_draw,
    aim=_aim,
    lasts_ms=(4_000, 8_000),
)
