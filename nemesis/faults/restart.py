"""Restart: a controlled shutdown, which hands leadership over first, and a start some time later."""

from __future__ import annotations

from dataclasses import dataclass

from nemesis.faults.base import (
    Healing,
    Injection,
    Kind,
    NotInEffect,
    Parameters,
    Site,
    named,
    no_parameters,
)
from nemesis.faults.kill import start_dead


@dataclass(frozen=True)
class Restart:
    """Nodes that were asked to go, one after the other."""

    site: Site
    targets: tuple[int, ...]

    def inject(self) -> str:
        """Ask the targets to stop in good order."""
        statuses = {target: self.site.cluster.nodes[target].stop(self.site.bounds.stop_s) for target in self.targets}
        failed = {target: status for target, status in statuses.items() if status != 0}
        if failed:
            told = ", ".join(f"node {target} exited with status {status}" for target, status in failed.items())
            raise NotInEffect(f"the shutdown was not in good order: {told}")
        return f"{named(self.targets)} shut down in good order, exit status 0"

    def undo(self) -> None:
        """Start what is dead."""
        start_dead(self.site, self.targets)

    def look(self) -> Healing:
        """See whether all targets serve again."""
        return self.site.serving(self.targets)


def _aim(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return Restart(site, targets)


RESTART = Kind(
    name="restart",
    family="process",
    summary="controlled shutdown of a node; start it again later",
    needs=frozenset({"process"}),
    roles=("leader", "in-sync-follower", "broker", "active-controller"),
    draw=no_parameters,
    aim=_aim,
    quorum_roles=("active-controller", "controller"),
)
