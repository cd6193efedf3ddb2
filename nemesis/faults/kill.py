"""Kill: SIGKILL, and a start some time later. What the process had written stays in the page cache."""

from __future__ import annotations

from dataclasses import dataclass

from nemesis.faults.base import DidNotTakeHold, Injection, Kind, Parameters, Site, named, no_parameters


@dataclass(frozen=True)
class Kill:
    """Dead nodes, until they are started again."""

    site: Site
    targets: tuple[int, ...]

    def inject(self) -> str:
        """Kill all targets as nearly at once as one thread can."""
        nodes = self.site.cluster.nodes
        dead_already = tuple(target for target in self.targets if not nodes[target].is_alive())
        if dead_already:
            raise DidNotTakeHold(f"{named(dead_already)} had died before")
        for target in self.targets:
            nodes[target].kill()
        self.site.await_hold(
            lambda: not any(nodes[target].is_alive() for target in self.targets),
            f"{named(self.targets)} did not die",
        )
        return f"{named(self.targets)} killed and reaped"

    def heal(self) -> str:
        """Start what is dead, and wait until it serves."""
        return start_again(self.site, self.targets)


def start_again(site: Site, targets: tuple[int, ...]) -> str:
    """Start those of the targets that are dead and wait until all serve; the evidence."""
    for target in targets:
        node = site.cluster.nodes[target]
        if not node.is_alive():
            node.start()
    seconds = sum(site.await_ready(target) for target in targets)
    return f"{named(targets)} started and served again after {seconds:.1f} s"


def _aim(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return Kill(site, targets)


KILL = Kind(
    name="kill",
    summary="SIGKILL a node; start it again later",
    needs=frozenset({"process"}),
    roles=("leader", "leader", "in-sync-follower", "broker", "minority", "controller"),
    draw=no_parameters,
    aim=_aim,
)
