"""Producers that have written nothing for long are forgotten, lest their number grow without end (KIP-98).

What a log remembers of them follows from what is in it, and says nothing of time. So each replica notes at every look
which batch was a producer's latest, and since when. The clock is the monotonic one of this process: unlike in Kafka,
where the records' own timestamps count, neither a clock that is set nor an old timestamp lets a duplicate in. After a
restart the patience begins anew.
"""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.ports.marks import sometimes
from broker.core.replica.state import Replica

FORGOTTEN = sometimes("produce: an idle producer is forgotten (KIP-98)")

CHECK = "idle-producers"


def forget(broker: BrokerState) -> None:
    """Apply `producer.id.expiration.ms` on every replica, leader or not; again after the interval of the settings."""
    for replica in broker.replicas.values():
        _look_at(broker, replica)
    broker.runtime.set_timer((CHECK,), broker.settings.producer_id_expiration_check_interval_ms)


def _look_at(broker: BrokerState, replica: Replica) -> None:
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
