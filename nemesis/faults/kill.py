"""Kill: SIGKILL, and a start some time later. What the process had written stays in the page cache."""

from __future__ import annotations

from dataclasses import dataclass

from nemesis.faults.base import (
    Healing,
    Injection,
    Kind,
    Parameters,
    Site,
    named,
    no_parameters,
)


@dataclass(frozen=True)
class Kill:
    """Dead nodes, until they are started again."""

    site: Site
    targets: tuple[int, ...]

    def inject(self) -> str:
        """Kill all targets as nearly at once as one thread can."""
        nodes = self.site.cluster.nodes
        self.site.require_alive(self.targets)
        told = self.site.processes(self.targets)
        for target in self.targets:
            nodes[target].kill()
        self.site.await_effect(
            lambda: not any(nodes[target].is_alive() for target in self.targets),
            f"{named(self.targets)} did not die",
        )
        return f"{told} killed and reaped"

    def undo(self) -> None:
        """Start what is dead."""
        start_dead(self.site, self.targets)

    def look(self) -> Healing:
        """See whether all targets serve again."""
        return self.site.serving(self.targets)


def start_dead(site: Site, targets: tuple[int, ...]) -> None:
    """Start those of the targets that are dead."""
    for target in targets:
        node = site.cluster.nodes[target]
        if not node.is_alive():
            node.start()


def _aim(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return Kill(site, targets)


POWER_CUT = Kind(
    name="power-cut",
    family="process",
    summary="SIGKILL all brokers, a majority of them, or everybody at once; start them again later",
    needs=frozenset({"process"}),
    roles=("brokers", "majority", "everyone"),
    draw=no_parameters,
    aim=_aim,
)

KILL = Kind(
    name="kill",
    family="process",
    summary="SIGKILL a node; start it again later",
    needs=frozenset({"process"}),
    roles=("leader", "leader", "in-sync-follower", "broker", "minority", "active-controller"),
    draw=no_parameters,
    aim=_aim,
    quorum_roles=("active-controller", "controller"),
)
