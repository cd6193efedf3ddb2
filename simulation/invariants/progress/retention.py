"""Checks that what retention gives up is deleted in time (V-23), by leaders that nothing disturbs.

A leader looks at its logs once an interval. Between two looks more may become too old or too much, so what counts is
what was so for longer than that.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.core.replica.state import Replica, Role
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import brokers
from simulation.invariants.ghost import Ghost, ReplicaMirror
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.log_starts import configs_of
from simulation.invariants.progress.calm import INTERVAL_US, Expired


def check(known: Knowledge, cluster: SimulatedCluster) -> None:
    """V-23, twice a virtual second."""
    noted = known.calm.expired
    for broker_id, state in brokers(cluster):
        for key, replica in state.replicas.items():
            ghost = known.partitions.get((replica.topic_id, replica.partition))
            if ghost is None or ghost.times is None:
                continue
            mirror, place = ghost.mirrors.get(broker_id), (broker_id, *key)
            before = noted.pop(place, None)
            if mirror is None or mirror.replica is not replica or replica.role is not Role.LEADER:
                continue
            configs = configs_of(state, replica.topic)
            why, end = _given_up(known, ghost, mirror, replica, configs)
            if not why:
                continue
            now = Expired(replica.log, replica.leader_epoch, end, cluster.now_us)
            if before is not None and before.log is now.log and before[1:3] == now[1:3]:
                now = before
            noted[place] = now
            since_us = max(now.since_us, known.calm.since(broker_id))
            if cluster.now_us - since_us > deletes_within_us(known):
                known.fail(
                    ghost,
                    "V-23",
                    f"leader {broker_id} still has its first segment, up to {end}, "
                    f"{(cluster.now_us - since_us) // MS} ms after it was to be deleted: {why}",
                )


def deletes_within_us(known: Knowledge) -> int:
    """How long a leader may keep what it is to delete: until its next look."""
    return known.settings.log_retention_check_interval_ms * MS + 2 * INTERVAL_US


def _given_up(
    known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica, configs: Mapping[str, str]
) -> tuple[str, int]:
    """Why a leader is to delete its first segment, "" if it need not, and where that ends.

    All of it must be below the high watermark. Records without a time are of no age. Without the segment the log still
    has as much as `retention.bytes` allows.
    """
    ends = [base for base, _ in mirror.segments[1:]]
    if not mirror.segments or "compact" in configs.get("cleanup.policy", ""):
        return "", 0
    if tuple(base for base, _ in mirror.segments) != replica.log.segment_offsets:
        return "", 0  # it has been deleted, and nothing else has changed since
    base, size = mirror.segments[0]
    end = ends[0] if ends else replica.log.end_offset
    if not base < end <= replica.high_watermark or not size:
        return "", end
    retention_ms, retention_bytes = (int(configs.get(f"retention.{unit}", -1)) for unit in ("ms", "bytes"))
    times = ghost.times_between(mirror, base, end)
    now_ms = known.time_of_day(mirror.holder)
    if retention_ms >= 0 and times and all(0 <= time < now_ms - retention_ms for time in times):
        return f"its records are of {max(times)} ms or older, it is {now_ms} ms, and retention.ms {retention_ms}", end
    left = sum(other for _, other in mirror.segments[1:])
    if ends and 0 <= retention_bytes < left:
        return f"there are {left} bytes without it, and retention.bytes is {retention_bytes}", end
    return "", end
