"""Checks what a replica keeps beside its log: its producers' state (P-28) and its min ISR (P-29)."""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.log.producer_state import CACHED_BATCHES
from broker.core.replica.state import Replica
from simulation.invariants.ghost import Ghost, ReplicaMirror
from simulation.invariants.knowledge import Knowledge

Sequences = tuple[int, tuple[tuple[int, int, int], ...]]
"""A producer's epoch and its latest batches in it: first sequence number, base offset, last offset."""


def check_producers(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica) -> None:
    """P-28: of each producer in the log the state has the epoch and the latest batches, and it has no other one.

    Of what was deleted before the log's start the state may know more. A producer that was forgotten
    (P-D2) may be missing, as far as it has sent nothing since.
    """
    start = mirror.start
    expected = _in_log(mirror)
    states = replica.log.producers.states
    for producer, (epoch, batches) in expected.items():
        state = states.get(producer)
        if state is None:
            continue
        found = tuple(
            (batch.first_sequence, batch.base_offset, batch.last_offset)
            for batch in state.batches
            if batch.base_offset >= start
        )
        required = batches
        if len(found) < len(batches):
            gone = max((end for forgotten, end in mirror.forgotten if forgotten == producer), default=-1)
            required = tuple(batch for batch in batches if batch[2] > gone)
        if ghost.contents is not None:  # compaction may have removed older ones, but not the last
            found, required = found[-1:], required[-1:]
        if state.epoch != epoch or found != batches[-len(found) :] or len(found) < len(required):
            known.fail(
                ghost,
                "P-28",
                f"broker {mirror.holder} knows producer {producer} by epoch {state.epoch} and the batches (first "
                f"sequence number, offsets) {list(found)}; in its log it has epoch {epoch} and {list(batches)}",
            )
    unknown = [
        producer
        for producer, (_, batches) in expected.items()
        if producer not in states
        and not any(one == producer and end >= batches[-1][2] for one, end in mirror.forgotten)
    ]
    if unknown:
        known.fail(ghost, "P-28", f"broker {mirror.holder} does not know the producers {unknown}, which are in its log")
    invented = [producer for producer in states if producer not in expected] if not start else []
    if invented:
        known.fail(ghost, "P-28", f"broker {mirror.holder} knows the producers {invented}, which are not in its log")


def check_min_isr(known: Knowledge, broker_id: int, state: BrokerState) -> None:
    """P-29, when a broker has applied metadata: its roles follow from them as soon as they contain its registration."""
    image = state.image
    if not 0 <= state.broker_epoch < image.end_offset:
        return
    for (topic, number), replica in state.replicas.items():
        assigned = image.partition(topic, number)
        if assigned is None or broker_id not in assigned.replicas:
            continue
        expected = image.min_insync_replicas(topic, state.settings.min_insync_replicas)
        if replica.min_insync_replicas != expected:
            known.fail(
                known.ghost(topic, replica.topic_id, number),
                "P-29",
                f"broker {broker_id} holds the replica to min ISR {replica.min_insync_replicas}; by the metadata up to "
                f"{image.end_offset} it is {expected}",
            )


def _in_log(mirror: ReplicaMirror) -> dict[int, Sequences]:
    found: dict[int, Sequences] = {}
    offset, entries = mirror.start, mirror.entries
    while offset < len(entries):
        batch = entries[offset]
        if batch is None:
            offset += 1
            continue
        offset = batch.last + 1
        if batch.producer_id < 0 or batch.first_sequence < 0 or batch.control or batch.base < mirror.start:
            continue
        epoch, batches = found.get(batch.producer_id, (batch.producer_epoch, ()))
        if epoch != batch.producer_epoch:
            batches = ()
        latest = (*batches, (batch.first_sequence, batch.base, batch.last))[-CACHED_BATCHES:]
        found[batch.producer_id] = batch.producer_epoch, latest
    return found
