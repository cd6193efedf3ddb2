"""Starves a node of processor time or of memory.

`cpu-starvation`  the process may run for a few percent of the time only: everything that it does is late, and it
                  cannot notice
`out-of-memory`   the process gets no memory beyond what it has: an allocation fails, and most programs die of that
"""

from __future__ import annotations

from dataclasses import dataclass

from nemesis.capabilities.cluster import ClusterNode
from nemesis.draws import Draws
from nemesis.faults.base import (
    FaultKind,
    Healing,
    Injection,
    NotInEffect,
    Parameters,
    Site,
    named,
    no_parameters,
)
from nemesis.faults.process import start_dead

_SAMPLING_S = 0.6
_TOLERANCE_PERCENT = 20.0
"""How far the measured share may be above the wanted one, on a machine that is busy itself."""


@dataclass(frozen=True)
class Starve:
    """Nodes that get little processor time."""

    site: Site
    targets: tuple[int, ...]
    percent: int

    def inject(self) -> str:
        """Throttle the targets, and measure how much they may run."""
        nodes = _living(self.site, self.targets)
        for node in nodes:
            node.throttle(self.percent)
        shares = [node.running_percent(_SAMPLING_S / len(nodes)) for node in nodes]
        if max(shares) > self.percent + _TOLERANCE_PERCENT:
            raise NotInEffect(f"{named(self.targets)} might run in {max(shares):.0f} % of the time")
        measured = " and ".join(f"{share:.0f} %" for share in shares)
        return f"{named(self.targets)} might run in {measured} of the time, {self.percent} % wanted"

    def undo(self) -> None:
        """Stop throttling the targets; start one that died meanwhile."""
        for target in self.targets:
            self.site.cluster.nodes[target].unthrottle()
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Check that all targets serve again."""
        return self.site.serving(self.targets)


@dataclass(frozen=True)
class OutOfMemory:
    """Nodes that cannot allocate more memory."""

    site: Site
    targets: tuple[int, ...]

    def inject(self) -> str:
        """Limit the targets to the memory that they have."""
        limits = {node.node_id: node.limit_memory() for node in _living(self.site, self.targets)}
        for target, limit in limits.items():
            node = self.site.cluster.nodes[target]
            if node.is_alive() and node.memory_limit() != limit:
                raise NotInEffect(f"the kernel reports a limit of {node.memory_limit()} bytes for node {target}")
        limited = " and ".join(f"node {target} to {limit >> 20} MiB" for target, limit in limits.items())
        return f"the kernel limits {limited}, which is what it had"

    def undo(self) -> None:
        """Remove the limit; start targets that died of it."""
        for target in self.targets:
            self.site.cluster.nodes[target].unlimit_memory()
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Check that all targets serve again, without a limit."""
        limited = tuple(target for target in self.targets if self.site.cluster.nodes[target].memory_limit() is not None)
        if limited:
            return Healing(False, f"{named(limited)} still limited")
        start_dead(self.site, self.targets)  # one may die only now of what it was denied
        return self.site.serving(self.targets)


def _living(site: Site, targets: tuple[int, ...]) -> list[ClusterNode]:
    site.require_alive(targets)
    return [site.cluster.nodes[target] for target in targets]


def _aim_starvation(site: Site, targets: tuple[int, ...], parameters: Parameters) -> Injection:
    return Starve(site, targets, int(parameters.get("percent", "5")))


def _aim_out_of_memory(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return OutOfMemory(site, targets)


def _draw_starvation(draws: Draws) -> dict[str, str]:
    return {"percent": str(draws.choice((2, 5, 15)))}


CPU_STARVATION = FaultKind(
    name="cpu-starvation",
    needs=frozenset({"starvation"}),
    roles=("leader", "in-sync-follower", "minority", "active-controller"),
    draw=_draw_starvation,
    aim=_aim_starvation,
    lasts_ms=(3_000, 8_000),
    quorum_roles=("controller",),
)

OUT_OF_MEMORY = FaultKind(
    name="out-of-memory",
    needs=frozenset({"starvation"}),
    roles=("leader", "in-sync-follower", "broker", "active-controller"),
    draw=no_parameters,
    aim=_aim_out_of_memory,
    lasts_ms=(3_000, 8_000),
    quorum_roles=("controller",),
)
