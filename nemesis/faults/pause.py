"""Pause: a process stands still, its connections open, and wakes up believing what it believed before."""

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
from nemesis.faults.kill import start_dead


@dataclass(frozen=True)
class Pause:
    """Nodes that stand still."""

    site: Site
    targets: tuple[int, ...]

    def inject(self) -> str:
        """Stop the targets from running."""
        nodes = self.site.cluster.nodes
        self.site.require_alive(self.targets)
        for target in self.targets:
            nodes[target].pause()
        self.site.await_effect(
            lambda: all(nodes[target].is_paused() for target in self.targets),
            f"{named(self.targets)} went on running",
        )
        return f"the kernel reports {named(self.targets)} stopped"

    def undo(self) -> None:
        """Let the targets run; one that died meanwhile is started."""
        for target in self.targets:
            if self.site.cluster.nodes[target].is_paused():
                self.site.cluster.nodes[target].resume()
        start_dead(self.site, self.targets)

    def look(self) -> Healing:
        """See whether all targets run and serve again."""
        nodes = self.site.cluster.nodes
        paused = tuple(target for target in self.targets if nodes[target].is_paused())
        if paused:
            return Healing(False, f"{named(paused)} did not run on")
        return self.site.serving(self.targets)


def _aim(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return Pause(site, targets)


PAUSE = Kind(
    name="pause",
    family="process",
    summary="stop a process without killing it; let it run on later",
    needs=frozenset({"process"}),
    roles=("leader", "leader", "in-sync-follower", "broker", "minority", "active-controller"),
    draw=no_parameters,
    aim=_aim,
    quorum_roles=("active-controller", "controller"),
)
