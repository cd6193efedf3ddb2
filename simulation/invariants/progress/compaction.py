"""Checks that a compaction ends, and that what is to be compacted at once is compacted (V-19).

Of brokers that nothing disturbs. They compact their logs one after the other, so a log waits for others.
"""

from __future__ import annotations

from broker.core.replica.state import Replica
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import brokers
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.progress.calm import Uncompacted
from simulation.invariants.properties import Violation

_SECONDS_US = 5_000 * MS
"""What a log of a few kilobytes may take: two steps of a millisecond for each segment, and syncs that may be slow."""


def check(known: Knowledge, cluster: SimulatedCluster) -> None:
    """V-19, twice a virtual second."""
    calm, now_us = known.calm, cluster.now_us
    for broker_id, state in brokers(cluster):
        cleaning = state.compaction.cleaning
        under_way = calm.cleanings.get(broker_id)
        if cleaning is None:
            calm.cleanings.pop(broker_id, None)
        elif under_way is None or under_way[0] is not cleaning:
            calm.cleanings[broker_id] = cleaning, now_us
        elif now_us - max(under_way[1], calm.since(broker_id)) > _SECONDS_US:
            raise Violation(
                "V-19",
                f"broker {broker_id} has been compacting {cleaning.log.directory} for "
                f"{(now_us - under_way[1]) // MS} ms, and has not ended",
            )
        for replica in state.replicas.values():
            if replica.log.config.compaction is not None:
                _check_replica(known, cluster, broker_id, replica)


def compacts_within_us(known: Knowledge) -> int:
    """How long a log may wait: for the next look at all logs, its sync, and the logs before it."""
    return 2 * known.settings.log_cleaner_backoff_ms * MS + 2 * _SECONDS_US


def _check_replica(known: Knowledge, cluster: SimulatedCluster, broker_id: int, replica: Replica) -> None:
    calm, log, now_us = known.calm, replica.log, cluster.now_us
    key = (broker_id, replica.topic, replica.partition)
    noted, config = calm.uncompacted.get(key), log.config.compaction
    if config is None or config.min_dirty_ratio or config.min_lag_ms or replica.is_damaged:
        calm.uncompacted.pop(key, None)
        return
    is_done = noted is not None and log.compacted_offset >= noted.end
    if noted is None or is_done or noted.log is not log or noted.truncations != log.truncations:
        closed = log.closed_segments(replica.high_watermark)
        end = closed[-1].end_offset if closed else 0
        calm.uncompacted[key] = Uncompacted(log, end, log.truncations, now_us)
    elif now_us - max(noted.noted_us, calm.since(broker_id)) > compacts_within_us(known):
        ghost = known.ghost(replica.topic, replica.topic_id, replica.partition)
        known.fail(
            ghost,
            "V-19",
            f"broker {broker_id} has compacted its log up to {log.compacted_offset}; the segments up to {noted.end} "
            f"have been closed for {(now_us - noted.noted_us) // MS} ms",
        )
