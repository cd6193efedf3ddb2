"""Expires the state of idle producers, to bound memory (KIP-98).

A log's producer state follows from its contents and holds no times. So each replica records at every check which
batch was a producer's latest, and since when. The clock is this process's monotonic clock: unlike in Kafka,
which uses record timestamps, neither a clock change nor an old timestamp lets a duplicate in. A restart
restarts the expiration period.
"""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.ports.marks import sometimes
from broker.core.replica.state import Replica

FORGOTTEN = sometimes("produce: an idle producer is forgotten (KIP-98)")

CHECK = "idle-producers"


def forget(broker: BrokerState) -> None:
    """Apply `producer.id.expiration.ms` on every replica, leader or not; repeats after the configured interval."""
    for replica in broker.replicas.values():
        _expire_idle(broker, replica)
    broker.runtime.set_timer((CHECK,), broker.settings.producer_id_expiration_check_interval_ms)


def _expire_idle(broker: BrokerState, replica: Replica) -> None:
    now_ms = broker.runtime.now_ms
    before, replica.latest_of_producers = replica.latest_of_producers, {}
    for producer_id, state in list(replica.log.producers.states.items()):
        last_offset = state.batches[-1].last_offset
        known_offset, since_ms = before.get(producer_id, (last_offset, now_ms))
        if known_offset != last_offset:
            since_ms = now_ms
        if now_ms - since_ms >= broker.settings.producer_id_expiration_ms:
            broker.runtime.mark(FORGOTTEN)
            replica.log.producers.forget(producer_id)
        else:
            replica.latest_of_producers[producer_id] = last_offset, since_ms
