"""Whether a cluster is well: everybody serves, the quorum agrees, every ISR is full, all replicas end alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.environments.base import NodePlan, ReplicaState, System
from nemesis.capabilities.cluster import Cluster, PartitionView, active_among, is_controller
from nemesis.loss_budget import behind_the_quorum


@dataclass(frozen=True)
class End:
    """Where a partition ends."""

    topic: str
    partition: int
    end_offset: int
    agreed: bool  # log end and high watermark of every replica that tells stood there


def lacking(cluster: Cluster, lost: frozenset[int] = frozenset()) -> str | None:
    """Return what a healthy cluster has and this one lacks, None if it is healthy. `lost` nodes need not serve."""
    idle = [node_id for node_id, node in sorted(cluster.nodes.items()) if node_id not in lost and not node.is_ready()]
    if idle:
        return f"node {', '.join(map(str, idle))} does not serve"
    if (lack := _quorum_lack(cluster, lost)) is not None:
        return lack
    views = cluster.partitions()
    if not views:
        return "nobody can tell the partitions"
    return next((lack for view in views if (lack := _lack(view, lost)) is not None), None)


def _quorum_lack(cluster: Cluster, lost: frozenset[int]) -> str | None:
    if not any(map(is_controller, cluster.nodes.values())):
        return None  # the brokers keep the metadata among themselves
    voters = cluster.voters()
    active = active_among(voters)
    if active is None:
        return "the controllers have no leader"
    apart = [voter.controller for voter in voters if (voter.leader, voter.epoch) != (active.controller, active.epoch)]
    if apart:
        return f"controller {', '.join(map(str, apart))} does not follow controller {active.controller}"
    behind = (behind_the_quorum(cluster) or frozenset()) - lost
    if behind:
        return f"controller {', '.join(map(str, sorted(behind)))} lacks committed metadata"
    return None


def _lack(view: PartitionView, lost: frozenset[int]) -> str | None:
    name = f"{view.topic}-{view.partition}"
    if view.leader not in view.replicas:
        return f"{name} has no leader"
    missing = sorted(set(view.replicas) - set(view.isr) - lost)
    if missing:
        return f"{name} has an ISR without {', '.join(map(str, missing))}"
    return None


def ends(
    system: System, plans: Sequence[NodePlan], views: Sequence[PartitionView], lost: frozenset[int] = frozenset()
) -> Sequence[End]:
    """Where each partition ends, as all its replicas say but those on `lost` nodes, or its leader alone."""
    told: dict[tuple[str, int], list[ReplicaState]] = defaultdict(list)
    for plan in plans:
        for replica in system.replicas(plan):
            told[replica.topic, replica.partition].append(replica)
    told_by_all = system.traits.reports_followers
    return [
        _end(view, told[view.topic, view.partition], len(set(view.replicas) - lost) if told_by_all else 1)
        for view in views
        if not is_internal(view.topic)
    ]


def is_internal(topic: str) -> bool:
    """Whether the cluster keeps a topic for itself: nobody reads it, and it is never at rest."""
    return topic.startswith("__")


def _end(view: PartitionView, replicas: Sequence[ReplicaState], wanted: int) -> End:
    positions = {position for replica in replicas for position in (replica.log_end, replica.high_watermark)}
    agreed = len(replicas) == wanted and len(positions) == 1
    end = max((replica.high_watermark for replica in replicas), default=0)
    return End(view.topic, view.partition, end, agreed)


def by_topic(found: Sequence[End]) -> Mapping[str, Mapping[str, int]]:
    """As the workers are told: topic → partition → end."""
    told: dict[str, dict[str, int]] = defaultdict(dict)
    for end in found:
        told[end.topic][str(end.partition)] = end.end_offset
    return told
