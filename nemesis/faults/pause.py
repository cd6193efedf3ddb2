"""Pause: a process stands still, its connections open, and wakes up believing what it believed before."""

from __future__ import annotations

from dataclasses import dataclass

from nemesis.faults.base import DidNotTakeHold, Injection, Kind, Parameters, Site, named, no_parameters


@dataclass(frozen=True)
class Pause:
    """Nodes that stand still."""

    site: Site
    targets: tuple[int, ...]

    def inject(self) -> str:
        """Stop the targets from running."""
        nodes = self.site.cluster.nodes
        dead = tuple(target for target in self.targets if not nodes[target].is_alive())
        if dead:
            raise DidNotTakeHold(f"{named(dead)} had died before")
        for target in self.targets:
            nodes[target].pause()
        self.site.await_hold(
            lambda: all(nodes[target].is_paused() for target in self.targets),
            f"{named(self.targets)} went on running",
        )
        return f"the kernel reports {named(self.targets)} stopped"

    def heal(self) -> str:
        """Let them run, and wait until they serve."""
        nodes = self.site.cluster.nodes
        for target in self.targets:
            if nodes[target].is_alive():
                nodes[target].resume()
        self.site.await_heal(
            lambda: not any(nodes[target].is_paused() for target in self.targets),
            f"{named(self.targets)} did not run again",
        )
        seconds = sum(self.site.await_ready(target) for target in self.targets)
        return f"{named(self.targets)} ran on and served again after {seconds:.1f} s"


def _aim(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return Pause(site, targets)


PAUSE = Kind(
    name="pause",
    summary="stop a process without killing it; let it run on later",
    needs=frozenset({"process"}),
    roles=("leader", "leader", "in-sync-follower", "broker", "minority", "controller"),
    draw=no_parameters,
    aim=_aim,
)
