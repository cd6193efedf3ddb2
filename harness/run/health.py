"""Checks whether a cluster is healthy: all nodes serve, the quorum agrees, ISRs are full, replicas have equal ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.environments.base import NodePlan, ReplicaState, System
from nemesis.capabilities.cluster import Cluster, PartitionView, active_among, is_controller
from nemesis.loss_budget import behind_the_quorum


@dataclass(frozen=True)
class ReportedEnd:
    """The end offset of a partition."""

    topic: str
    partition: int
    end_offset: int
    agreed: bool  # log ends and high watermarks of the replicas that were asked are equal to it, as far as they count


def unhealthy_reason(cluster: Cluster, lost: frozenset[int] = frozenset()) -> str | None:
    """Return why the cluster is not healthy, None if it is. `lost` nodes need not serve."""
    idle = [node_id for node_id, node in sorted(cluster.nodes.items()) if node_id not in lost and not node.is_ready()]
    if idle:
        return f"node {', '.join(map(str, idle))} does not serve"
    if (reason := _quorum_problem(cluster, lost)) is not None:
        return reason
    views = cluster.partitions()
    if not views:
        return "no broker describes the partitions"
    return next((reason for view in views if (reason := _partition_problem(view, lost)) is not None), None)


def _quorum_problem(cluster: Cluster, lost: frozenset[int]) -> str | None:
    if not any(map(is_controller, cluster.nodes.values())):
        return None  # the brokers replicate the metadata themselves
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


def _partition_problem(view: PartitionView, lost: frozenset[int]) -> str | None:
    name = f"{view.topic}-{view.partition}"
    if view.leader not in view.replicas:
        return f"{name} has no leader"
    missing = sorted(set(view.replicas) - set(view.isr) - lost)
    if missing:
        return f"{name} has an ISR without {', '.join(map(str, missing))}"
    return None


def partition_ends(
    system: System, plans: Sequence[NodePlan], views: Sequence[PartitionView], lost: frozenset[int] = frozenset()
) -> Sequence[ReportedEnd]:
    """The end of each partition as all its replicas report it, except on `lost` nodes, or as those do that tell.

    Of a system whose followers need not tell, the leader must.
    """
    reported: dict[tuple[str, int], list[ReplicaState]] = defaultdict(list)
    for plan in plans:
        for replica in system.replicas(plan):
            reported[replica.topic, replica.partition].append(replica)
    all_report = system.traits.reports_followers
    return [
        _end(view, reported[view.topic, view.partition], len(set(view.replicas) - lost) if all_report else None)
        for view in views
        if not is_internal(view.topic)
    ]


def is_internal(topic: str) -> bool:
    """Whether a topic is internal to the cluster: no client reads it, and it is written to all the time."""
    return topic.startswith("__")


def _end(view: PartitionView, replicas: Sequence[ReplicaState], wanted: int | None) -> ReportedEnd:
    """`wanted` replicas must tell; None: the leader must, and whoever else does.

    Then the leader's high watermark counts alone: Apache Kafka's followers were seen to keep an earlier one for many
    seconds while nothing was written.
    """
    telling = [replica for replica in replicas if replica.log_end is not None]
    certain = telling if wanted is not None else [each for each in telling if each.role == "leader"]
    positions = {each.log_end for each in telling} | {each.high_watermark for each in certain}
    enough = any(each.role == "leader" for each in telling) if wanted is None else len(telling) == wanted
    end = max((each.high_watermark for each in telling if each.high_watermark is not None), default=0)
    return ReportedEnd(view.topic, view.partition, end, enough and len(positions) == 1)


def by_topic(found: Sequence[ReportedEnd]) -> Mapping[str, Mapping[str, int]]:
    """The ends in the form that workers take: topic → partition → end offset."""
    by_name: dict[str, dict[str, int]] = defaultdict(dict)
    for end in found:
        by_name[end.topic][str(end.partition)] = end.end_offset
    return by_name
