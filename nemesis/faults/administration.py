"""Administrative changes under load: create topics, move replicas, elect leaders, change settings, remove a broker.

Every change is verified by the cluster's own metadata, and reverted when the fault is over. No change weakens the
durability contract: a partition is only moved while its ISR is complete, and `min.insync.replicas` is only raised.
Removing a broker needs a spare one: more brokers than any partition has replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from nemesis.capabilities.cluster import Capability, NodeError, PartitionView, is_broker
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
from nemesis.faults.process import Restart, start_dead
from nemesis.targets import Role

MIN_ISR = "min.insync.replicas"
_ROLES: tuple[Role, ...] = ("leader", "in-sync-follower")
_PICKS = 1 << 30


@dataclass
class TopicChurn:
    """A topic that is created, given more partitions, and deleted again."""

    site: Site
    targets: tuple[int, ...]
    partitions: int
    topic: str = ""

    def inject(self) -> str:
        """Create the topic, then add partitions to it."""
        brokers = sum(map(is_broker, self.site.cluster.nodes.values()))
        self.topic = f"churn-{self.site.clock.now_ns()}"
        administrator = self.site.cluster.administrator
        administrator.create_topic(self.topic, 1, min(3, brokers))
        self.site.await_effect(lambda: len(self._views()) == 1, f"{self.topic} was not created")
        administrator.add_partitions(self.topic, self.partitions)
        self.site.await_effect(lambda: len(self._views()) == self.partitions, f"{self.topic} got no more partitions")
        return f"{self.topic} created with 1 partition and then given {self.partitions}"

    def undo(self) -> None:
        """Delete it."""
        if self._views():
            self.site.cluster.administrator.delete_topic(self.topic)

    def check_healed(self) -> Healing:
        """Check that it is gone."""
        left = len(self._views())
        if left:
            return Healing(False, f"{left} partitions of {self.topic} are still there")
        return Healing(True, f"{self.topic} is gone")

    def _views(self) -> list[PartitionView]:
        return [view for view in self.site.cluster.partitions() if view.topic == self.topic]


@dataclass
class Move:
    """A partition whose replicas are changed. `wanted_replicas` maps the old ones and all brokers to the new ones."""

    site: Site
    targets: tuple[int, ...]
    pick: int
    wanted_replicas: Callable[[PartitionView, tuple[int, ...]], tuple[int, ...]]
    elect: bool = False
    _before: PartitionView | None = None
    _is_returning: bool = False

    def inject(self) -> str:
        """Request the new replicas and wait until they are in place; with `elect` also that the first of them leads."""
        view = _choose(self.site, self.pick)
        if set(view.isr) != set(view.replicas):
            raise NotInEffect(f"{_name(view)} does not have all its replicas in sync: it is not moved")
        brokers = tuple(node_id for node_id, node in self.site.cluster.nodes.items() if is_broker(node))
        wanted = self.wanted_replicas(view, brokers)
        self._before = view
        self._ask(view, wanted)
        self.site.await_effect(lambda: self._is(view, wanted), f"{_name(view)} did not get replicas {wanted}")
        if not self.elect:
            return f"replicas of {_name(view)} changed from {list(view.replicas)} to {list(wanted)}"
        self._elect(view)
        self.site.await_effect(
            lambda: self._leader(view) == wanted[0], f"{wanted[0]} did not become the leader of {_name(view)}"
        )
        return f"the leadership of {_name(view)} went from {view.leader} to {wanted[0]}, the new preferred leader"

    def undo(self) -> None:
        """Request the old replicas; `check_healed` does where a system refuses that as long as the partition moves."""
        if self._before is not None:
            self._is_returning = _has_accepted(self.site, self._before)

    def check_healed(self) -> Healing:
        """Check that the old replicas are requested, in place and in sync."""
        if self._before is None:
            return Healing(True, "nothing was moved")
        before = self._before
        self._is_returning = self._is_returning or _has_accepted(self.site, before)
        if not self._is_returning:
            return Healing(False, f"{_name(before)} cannot be moved back yet")
        now = _find(self.site, before)
        if now is None or now.replicas != before.replicas or set(now.isr) != set(now.replicas):
            return Healing(False, f"{_name(before)} does not have its old replicas in sync again")
        return Healing(True, f"replicas of {_name(before)} are {list(now.replicas)} again, all in sync")

    def _ask(self, view: PartitionView, replicas: tuple[int, ...]) -> None:
        self.site.cluster.administrator.reassign(view.topic, view.partition, replicas)

    def _elect(self, view: PartitionView) -> None:
        self.site.cluster.administrator.elect(view.topic, view.partition)

    def _is(self, view: PartitionView, replicas: tuple[int, ...]) -> bool:
        now = _find(self.site, view)
        return now is not None and now.replicas == replicas and set(now.isr) == set(replicas)

    def _leader(self, view: PartitionView) -> int | None:
        now = _find(self.site, view)
        return None if now is None else now.leader


@dataclass
class RaisedMinIsr:
    """A topic that temporarily requires all replicas in sync for a write with acks=all."""

    site: Site
    targets: tuple[int, ...]
    pick: int
    _topic: str = ""
    _before: str = ""

    def inject(self) -> str:
        """Raise min.insync.replicas to the number of replicas."""
        view = _choose(self.site, self.pick)
        administrator = self.site.cluster.administrator
        self._before = administrator.setting(view.topic, MIN_ISR)
        self._topic = view.topic
        wanted = str(len(view.replicas))
        administrator.set(view.topic, MIN_ISR, wanted)
        self.site.await_effect(
            lambda: administrator.setting(view.topic, MIN_ISR) == wanted, f"{MIN_ISR} of {view.topic} did not change"
        )
        return f"{MIN_ISR} of {view.topic} raised from {self._before} to {wanted}"

    def undo(self) -> None:
        """Restore the old value."""
        if self._topic:
            self.site.cluster.administrator.set(self._topic, MIN_ISR, self._before)

    def check_healed(self) -> Healing:
        """Check that the old value is back."""
        if not self._topic:
            return Healing(True, "nothing was changed")
        now = self.site.cluster.administrator.setting(self._topic, MIN_ISR)
        return Healing(now == self._before, f"{MIN_ISR} of {self._topic} is {now}, was {self._before}")


@dataclass
class BrokerRemoval:
    """A broker that gives up its replicas and shuts down."""

    site: Site
    targets: tuple[int, ...]
    _moved: list[PartitionView] = field(default_factory=list)  # as they were before
    _unasked: list[PartitionView] = field(default_factory=list)  # those of them that are to be moved back

    def inject(self) -> str:
        """Move all replicas of the target to other brokers, check that it has none, and shut it down."""
        for view in self._of_target():
            self._move_away(view)
        self.site.await_effect(lambda: not self._of_target(), f"{named(self.targets)} still has replicas")
        shutdown = Restart(self.site, self.targets).inject()
        return f"{len(self._moved)} replicas moved away from {named(self.targets)}; {shutdown}"

    def undo(self) -> None:
        """Start the broker; `check_healed` moves its replicas back once it serves."""
        self._unasked = list(self._moved)
        start_dead(self.site, self.targets)

    def check_healed(self) -> Healing:
        """Move the replicas back to the broker once it serves, and check that they are in sync."""
        serving = self.site.serving(self.targets)
        if not serving.healed:
            return serving
        self._unasked = [view for view in self._unasked if not _has_accepted(self.site, view)]
        if self._unasked:
            return Healing(False, f"{len(self._unasked)} of {len(self._moved)} partitions cannot be moved back yet")
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


def _choose(site: Site, pick: int) -> PartitionView:
    """Pick one of the partitions that clients use: none of an internal topic or of a churned one."""
    views = sorted(site.cluster.partitions(), key=lambda view: (view.topic, view.partition))
    usable = [view for view in views if not view.topic.startswith(("__", "churn-"))]
    if not usable:
        raise NotInEffect("no broker reports the cluster's partitions")
    return usable[pick % len(usable)]


def _has_accepted(site: Site, before: PartitionView) -> bool:
    """Whether the cluster accepts the request for a partition's old replicas."""
    try:
        site.cluster.administrator.reassign(before.topic, before.partition, before.replicas)
    except NodeError:
        return False
    return True


def _find(site: Site, like: PartitionView) -> PartitionView | None:
    wanted = (like.topic, like.partition)
    return next((view for view in site.cluster.partitions() if (view.topic, view.partition) == wanted), None)


def _name(view: PartitionView) -> str:
    return f"{view.topic}-{view.partition}"


def _is_back(before: PartitionView, now: PartitionView | None) -> bool:
    return now is not None and now.replicas == before.replicas and set(now.isr) == set(before.replicas)


def _moved_or_removed(view: PartitionView, brokers: tuple[int, ...]) -> tuple[int, ...]:
    """Replace a follower with a broker that has no replica; without such a broker, remove the follower."""
    followers = [replica for replica in view.replicas if replica != view.leader]
    if not followers:
        raise NotInEffect(f"{_name(view)} has one replica only: it is not moved")
    spare = [broker for broker in brokers if broker not in view.replicas]
    moved = followers[-1]
    kept = [replica for replica in view.replicas if replica != moved]
    return (*kept, *spare[:1])


def _follower_first(view: PartitionView, _brokers: tuple[int, ...]) -> tuple[int, ...]:
    """Make a follower the preferred leader."""
    followers = [replica for replica in view.replicas if replica != view.leader]
    if not followers:
        raise NotInEffect(f"{_name(view)} has one replica only: no other broker can lead")
    rest = [replica for replica in view.replicas if replica != followers[0]]
    return (followers[0], *rest)


def _pick(parameters: Parameters) -> int:
    return int(parameters.get("pick", "0"))


def _draw_pick(draws: Draws) -> dict[str, str]:
    return {"pick": str(draws.below(_PICKS))}


def _aim_removal(site: Site, targets: tuple[int, ...], _parameters: Parameters) -> Injection:
    return BrokerRemoval(site, targets)


def _kind(
    name: str, needs: Collection[Capability], aim: Callable[[Site, tuple[int, ...], Parameters], Injection]
) -> FaultKind:
    return FaultKind(
        name=name,
        needs=frozenset(needs),
        roles=_ROLES,
        draw=_draw_pick,
        aim=aim,
        lasts_ms=(1_000, 5_000),
    )


TOPIC_CHURN = _kind(
    "topic-churn",
    {"topics"},
    lambda site, targets, parameters: TopicChurn(site, targets, 2 + _pick(parameters) % 4),
)

REASSIGNMENT = _kind(
    "reassignment",
    {"reassignment"},
    lambda site, targets, parameters: Move(site, targets, _pick(parameters), _moved_or_removed),
)

PREFERRED_ELECTION = _kind(
    "preferred-election",
    {"reassignment", "administration"},
    lambda site, targets, parameters: Move(site, targets, _pick(parameters), _follower_first, elect=True),
)

RAISED_MIN_ISR = replace(
    _kind(
        "raised-min-isr",
        {"administration"},
        lambda site, targets, parameters: RaisedMinIsr(site, targets, _pick(parameters)),
    ),
    forgets=True,
)

BROKER_REMOVAL = FaultKind(
    name="broker-removal",
    needs=frozenset({"process", "reassignment", "spare-broker"}),
    roles=("leader", "broker"),
    draw=no_parameters,
    aim=_aim_removal,
    lasts_ms=(2_000, 6_000),
)

ADMINISTRATION = (TOPIC_CHURN, REASSIGNMENT, PREFERRED_ELECTION, RAISED_MIN_ISR, BROKER_REMOVAL)
