"""Decides from the cluster's state whom a fault of a schedule hits (targets), and whether it fires now (triggers).

A schedule cannot know which node will lead when a fault fires, so it names a role and carries a drawn number that
picks among the nodes which have that role then. The picked nodes are recorded with the fault.

A trigger is a condition that an entry may wait for, besides a time; the cluster's metadata decides, and while it is not
available, no condition is true:

    {"condition": "isr-at-most", "partition": 0, "value": 1}     the ISR of the first partition has one member or none
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, Protocol, get_args

from common.wording import FIRST_SERVER
from nemesis.capabilities.cluster import Cluster, ClusterNode, PartitionView, is_broker, is_controller

Role = Literal[
    "leader",  # of the target's partition
    "in-sync-follower",  # of the target's partition
    "in-sync-replicas",  # of the target's partition, all that are no target of another active fault
    "broker",  # any
    "minority",  # of the brokers: all but the smallest majority
    "majority",  # of the brokers: one more than the minority
    "brokers",  # all of them
    "everyone",  # all brokers and controllers
    "active-controller",
    "controller",  # any
    "same",  # the nodes that an earlier entry of the schedule hit
]

ROLES: tuple[Role, ...] = get_args(Role)

SAME: Final = "same"
"""The only role that does not depend on the cluster's state, but on what the schedule has hit."""

OF_CONTROLLERS: frozenset[Role] = frozenset({"active-controller", "controller"})
"""Roles that only a controller has."""

OF_MANY: frozenset[Role] = frozenset({"in-sync-follower", "minority", "majority"})
"""Roles that no node has with one broker, or that the only broker always has."""

DESCRIPTIONS: dict[Role, str] = {
    "leader": "the leader of partition {partition}",
    "in-sync-follower": "an in-sync follower of partition {partition}",
    "in-sync-replicas": "the in-sync replicas of partition {partition}",
    "broker": "any broker",
    "minority": "a minority of the brokers",
    "majority": "a majority of the brokers",
    "brokers": "all brokers",
    "everyone": "all brokers and controllers",
    "active-controller": "the active controller",
    "controller": "any controller",
    SAME: "what entry {entry} hit",
}


@dataclass(frozen=True)
class FaultTarget:
    """A role and what picks among the nodes that have it."""

    role: Role
    partition: int = 0  # index into the cluster's partitions, modulo their number
    pick: int = 0  # drawn number that picks among the candidates
    entry: int = 0  # for `same`: the number of the entry

    def __str__(self) -> str:
        return DESCRIPTIONS[self.role].format(partition=self.partition, entry=self.entry)


@dataclass(frozen=True)
class ResolvedTarget:
    """The nodes that a fault hits, and why they were picked."""

    nodes: tuple[int, ...]
    role: str  # a phrase: "the leader of harrow-2"


class NoTarget(Exception):
    """No node has the role at this moment. The message says why."""


def resolve(
    target: FaultTarget,
    cluster: Cluster,
    excluded: frozenset[int] = frozenset(),
    hit: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
) -> ResolvedTarget:
    """Pick nodes that have the role now; never a dead one, nor one of `excluded` (held by another fault).

    `hit` are the nodes that earlier entries of the schedule hit, by the entries' numbers. Raises `NoTarget`.
    """
    if target.role == SAME:
        return _hit_again(target, cluster, excluded, hit)
    brokers = _alive(cluster, is_broker, excluded)
    if target.role == "broker":
        return ResolvedTarget((_pick(brokers, target, "no broker is left to hit"),), "any broker")
    if target.role in ("minority", "majority"):
        return _part(target, cluster, brokers)
    if target.role in ("brokers", "everyone"):
        return _all(target, cluster, excluded)
    if target.role == "active-controller":
        return _active_controller(cluster, excluded)
    if target.role == "controller":
        controllers = _alive(cluster, is_controller, excluded)
        chosen = _pick(controllers, target, "no controller is left to hit")
        return ResolvedTarget((chosen,), "any ZooKeeper server" if chosen >= FIRST_SERVER else "any controller")
    return _replicas(target, cluster, brokers)


def _hit_again(
    target: FaultTarget, cluster: Cluster, excluded: frozenset[int], hit: Mapping[int, tuple[int, ...]]
) -> ResolvedTarget:
    nodes = hit.get(target.entry, ())
    if not nodes:
        raise NoTarget(f"entry {target.entry} has hit nobody")
    gone = [node_id for node_id in nodes if node_id in excluded or not cluster.nodes[node_id].is_alive()]
    if gone:
        raise NoTarget(f"node {', '.join(map(str, gone))} is gone or held by another fault")
    return ResolvedTarget(nodes, f"what entry {target.entry} hit")


def _alive(cluster: Cluster, has_role: Callable[[ClusterNode], bool], excluded: frozenset[int]) -> list[int]:
    return [
        node_id
        for node_id, node in sorted(cluster.nodes.items())
        if has_role(node) and node_id not in excluded and node.is_alive()
    ]


def _part(target: FaultTarget, cluster: Cluster, brokers: list[int]) -> ResolvedTarget:
    total = sum(map(is_broker, cluster.nodes.values()))
    minority = (total - 1) // 2
    size = minority if target.role == "minority" else total - minority
    if not 0 < size <= len(brokers):
        raise NoTarget(f"{len(brokers)} of {total} brokers can be hit: too few for a {target.role}")
    start = target.pick % len(brokers)
    chosen = [brokers[(start + step) % len(brokers)] for step in range(size)]
    return ResolvedTarget(tuple(sorted(chosen)), f"a {target.role} of the brokers")


def _all(target: FaultTarget, cluster: Cluster, excluded: frozenset[int]) -> ResolvedTarget:
    """Pick all nodes of the role: without one that another fault holds it would be a different fault."""
    wanted = [node_id for node_id, node in cluster.nodes.items() if target.role == "everyone" or is_broker(node)]
    missing = [node_id for node_id in wanted if node_id in excluded or not cluster.nodes[node_id].is_alive()]
    if missing:
        raise NoTarget(f"node {', '.join(map(str, sorted(missing)))} is gone or held by another fault")
    return ResolvedTarget(tuple(sorted(wanted)), DESCRIPTIONS[target.role])


def _active_controller(cluster: Cluster, excluded: frozenset[int]) -> ResolvedTarget:
    controller = cluster.active_controller()
    if controller is None or controller in excluded or not cluster.nodes[controller].is_alive():
        raise NoTarget("no active controller can be hit")
    name = "the ensemble's leader" if controller >= FIRST_SERVER else "the active controller"
    return ResolvedTarget((controller,), name)


def _replicas(target: FaultTarget, cluster: Cluster, brokers: list[int]) -> ResolvedTarget:
    views = sorted(cluster.partitions(), key=lambda view: (view.topic, view.partition))
    if not views:
        raise NoTarget("no broker reports the cluster's partitions")
    view = views[target.partition % len(views)]
    name = f"{view.topic}-{view.partition}"
    if target.role == "leader":
        if view.leader not in brokers:
            raise NoTarget(f"{name} is led by {view.leader}, which is gone or held by another fault")
        return ResolvedTarget((view.leader,), f"the leader of {name}")
    if target.role == "in-sync-replicas":
        chosen = _in_sync(view, brokers)
        if not chosen:
            raise NoTarget(f"{name} has no in-sync replica that can be hit")
        return ResolvedTarget(tuple(chosen), f"the in-sync replicas of {name}")
    followers = [broker for broker in _in_sync(view, brokers) if broker != view.leader]
    return ResolvedTarget(
        (_pick(followers, target, f"{name} has no in-sync follower that can be hit"),),
        f"an in-sync follower of {name}",
    )


def _in_sync(view: PartitionView, brokers: Sequence[int]) -> list[int]:
    return sorted(broker for broker in view.isr if broker in brokers)


def _pick(candidates: Sequence[int], target: FaultTarget, otherwise: str) -> int:
    if not candidates:
        raise NoTarget(otherwise)
    return candidates[target.pick % len(candidates)]


Condition = Literal[
    "isr-at-most",  # the partition has at most `value` replicas in its ISR
    "isr-at-least",
    "no-leader",  # the partition has none
    "has-elr",  # a replica of the partition is eligible for leadership without being in the ISR
    "leader-epoch-at-least",  # the partition has had at least so many leaders
    "no-controller",  # no controller is active
]

CONDITIONS: tuple[Condition, ...] = get_args(Condition)


@dataclass(frozen=True)
class Trigger:
    """A condition of one partition, or of the cluster."""

    condition: Condition
    partition: int = 0  # index into the cluster's partitions, modulo their number
    value: int = 0

    def __str__(self) -> str:
        value = f" {self.value}" if "-at-" in self.condition else ""
        where = "" if self.condition == "no-controller" else f" of partition {self.partition}"
        return f"{self.condition}{value}{where}"


def is_trigger(plain: object) -> bool:
    """Whether a decoded JSON value has the fields of a trigger."""
    if not isinstance(plain, dict) or plain.get("condition") not in CONDITIONS:
        return False
    numbers = {key: value for key, value in plain.items() if key != "condition"}
    return set(numbers) <= {"partition", "value"} and all(type(n) is int and n >= 0 for n in numbers.values())


class ObservedPartition(Protocol):
    """The state of a partition that conditions read."""

    @property
    def leader(self) -> int: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def isr(self) -> Sequence[int]: ...

    @property
    def elr(self) -> Sequence[int]: ...


_HOLDS: dict[Condition, Callable[[ObservedPartition, int], bool]] = {
    "isr-at-most": lambda view, value: len(view.isr) <= value,
    "isr-at-least": lambda view, value: len(view.isr) >= value,
    "no-leader": lambda view, _: view.leader < 0,
    "has-elr": lambda view, _: bool(view.elr),
    "leader-epoch-at-least": lambda view, value: view.leader_epoch >= value,
}


def holds(trigger: Trigger, cluster: Cluster) -> bool:
    """Whether the condition is true now."""
    views = sorted(cluster.partitions(), key=lambda view: (view.topic, view.partition))
    return met(trigger, views, cluster.active_controller)


def met(trigger: Trigger, partitions: Sequence[ObservedPartition], active_controller: Callable[[], int | None]) -> bool:
    """Whether the condition is true of these partitions (sorted). Without partitions only `no-controller` can be."""
    if trigger.condition == "no-controller":
        return active_controller() is None
    return bool(partitions) and _HOLDS[trigger.condition](
        partitions[trigger.partition % len(partitions)], trigger.value
    )
