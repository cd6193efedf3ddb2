"""Checks that logs are synced as often as their settings say (V-24), by brokers that nothing disturbs.

`log.flush.interval.ms` bounds how long a record may be in memory only, `flush.messages` how many records. A sync that
is under way delays the next one.
"""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.replica.state import Replica
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import brokers
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.progress.calm import INTERVAL_US, Unsynced


def check(known: Knowledge, cluster: SimulatedCluster) -> None:
    """V-24, twice a virtual second."""
    noted = known.calm.unsynced
    for broker_id, state in brokers(cluster):
        for key, replica in state.replicas.items():
            log, place = replica.log, (broker_id, *key)
            before = noted.get(place)
            within_us = _within_us(state, replica)
            if within_us < 0 or log.flushed_offset >= log.end_offset:
                if before is not None:
                    del noted[place]
                continue
            is_same = before is not None and before.log is log and before.truncations == log.truncations
            if before is None or not is_same or before.end <= log.flushed_offset or before.within_us != within_us:
                noted[place] = Unsynced(log, log.truncations, log.end_offset, within_us, cluster.now_us)
                continue
            since_us = max(before.noted_us, known.calm.since(broker_id))
            if cluster.now_us - since_us > within_us:
                known.fail(
                    known.ghost(replica.topic, replica.topic_id, replica.partition),
                    "V-24",
                    f"broker {broker_id} has synced its log up to {log.flushed_offset}; it has had {before.end} "
                    f"offsets for {(cluster.now_us - since_us) // MS} ms, with log.flush.interval.ms "
                    f"{state.settings.log_flush_interval_ms} and flush.messages {log.config.flush_messages}",
                )


def _within_us(state: BrokerState, replica: Replica) -> int:
    """How long the records that a log has now may stay in memory only; -1: for as long as the broker likes."""
    log, interval_ms = replica.log, state.settings.log_flush_interval_ms
    if 0 < log.config.flush_messages <= log.end_offset - log.flushed_offset:
        return 2 * INTERVAL_US
    return 2 * interval_ms * MS + 2 * INTERVAL_US if interval_ms else -1
