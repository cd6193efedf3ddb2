"""Removes a broker in a controlled way: moves all its replicas away, shuts it down, and later brings both back.

That needs a spare broker: more brokers than any partition has replicas.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nemesis.capabilities.cluster import PartitionView, is_broker
from nemesis.faults.base import FaultKind, Healing, Injection, NotInEffect, Parameters, Site, named, no_parameters
from nemesis.faults.process import Restart, start_dead


@dataclass
class BrokerRemoval:
    """A broker that gives up its replicas and shuts down."""

    site: Site
    targets: tuple[int, ...]
    _moved: list[PartitionView] = field(default_factory=list)  # as they were before
    _is_returning: bool = False

    def inject(self) -> str:
        """Move all replicas of the target to other brokers, check that it has none, and shut it down."""
        for view in self._of_target():
            self._move_away(view)
        self.site.await_effect(lambda: not self._of_target(), f"{named(self.targets)} still has replicas")
        shutdown = Restart(self.site, self.targets).inject()
        return f"{len(self._moved)} replicas moved away from {named(self.targets)}; {shutdown}"

    def undo(self) -> None:
        """Start the broker; `check_healed` moves its replicas back once it serves."""
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Move the replicas back to the broker once it serves, and check that they are in sync."""
        serving = self.site.serving(self.targets)
        if not serving.healed:
            return serving
        if not self._is_returning:
            self._is_returning = True
            for view in self._moved:
                self.site.cluster.administrator.reassign(view.topic, view.partition, view.replicas)
        now = {(view.topic, view.partition): view for view in self.site.cluster.partitions()}
        missing = [view for view in self._moved if not _is_back(view, now.get((view.topic, view.partition)))]
        if missing:
            return Healing(False, f"{len(missing)} of {len(self._moved)} partitions lack old replicas in sync")
        return serving._replace(evidence=f"{serving.evidence}, with {len(self._moved)} replicas again")

    def _of_target(self) -> list[PartitionView]:
        return [view for view in self.site.cluster.partitions() if set(self.targets) & set(view.replicas)]

    def _move_away(self, view: PartitionView) -> None:
        nodes = self.site.cluster.nodes
        spare = [
            node_id
            for node_id, node in sorted(nodes.items())
            if is_broker(node) and node_id not in view.replicas and node.is_alive()
        ]
        removed = [replica for replica in view.replicas if replica in self.targets]
        if len(spare) < len(removed) or set(view.isr) != set(view.replicas):
            raise NotInEffect(f"{view.topic}-{view.partition} cannot do without {named(tuple(removed))} now")
        successors = dict(zip(removed, spare, strict=False))
        wanted = tuple(successors.get(replica, replica) for replica in view.replicas)
        self._moved.append(view)
        self.site.cluster.administrator.reassign(view.topic, view.partition, wanted)


def _is_back(before: PartitionView, now: PartitionView | None) -> bool:
    return now is not None and now.replicas == before.replicas and set(now.isr) == set(before.replicas)


def _aim(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return BrokerRemoval(site, targets)


BROKER_REMOVAL = FaultKind(
    name="broker-removal",
    family="administration",
    summary="move all replicas off a broker and shut it down; later let it join again and move them back",
    needs=frozenset({"process", "administration", "spare-broker"}),
    roles=("leader", "broker"),
    draw=no_parameters,
    aim=_aim,
    lasts_ms=(2_000, 6_000),
)
