"""Checks that brokers forget idle producers in time, and no others (P-D2, `producer.id.expiration.ms`)."""

from __future__ import annotations

from broker.core.replica.state import Replica
from simulation.invariants.ghost import Batch, Ghost, Idle, ReplicaMirror
from simulation.invariants.knowledge import BrokerMirror, Knowledge

_A_RUN_MS = 3_600_000
"""No simulation lasts longer: with a longer lifetime of producers none is forgotten."""


def producers_expire(known: Knowledge) -> bool:
    """Whether a producer may be forgotten in this simulation at all."""
    return known.settings.producer_id_expiration_ms < _A_RUN_MS


def note(known: Knowledge, mirror: ReplicaMirror, replica: Replica) -> None:
    """Note since when each producer's last batch has been its last one, by the clock of its holder's process."""
    now_ms = _now_ms(known, mirror)
    end = replica.log.end_offset
    if any(last >= end for _, last in mirror.forgotten):  # a part was cut off since
        mirror.forgotten = {(producer, min(last, end - 1)) for producer, last in mirror.forgotten}
    known_before, mirror.idle = mirror.idle, {}
    if mirror.idle_truncations != replica.log.truncations:  # what was cut off may come back
        mirror.idle_truncations = replica.log.truncations
        mirror.idle = {producer: idle._replace(was_cut=True) for producer, idle in known_before.items()}
    for producer, state in replica.log.producers.states.items():
        batch = state.batches[-1]
        idle = known_before.get(producer)
        is_same = idle is not None and idle.batch == batch
        mirror.idle[producer] = (
            idle._replace(was_cut=False)
            if idle and is_same
            else Idle(batch, mirror.first_last.setdefault((producer, batch), now_ms), None, False)
        )
    for producer, idle in known_before.items():
        if producer not in mirror.idle:
            mirror.idle[producer] = idle


def looked_for(known: Knowledge, broker: BrokerMirror) -> None:
    """P-D2, when a broker has looked for idle producers: which it has forgotten, and which it still knows."""
    for key, mirror in broker.mirrors.items():
        ghost, replica = known.ghost_held(broker, *key), mirror.replica
        if ghost is None or replica is None:
            continue
        lifetime_ms, now_ms = known.settings.producer_id_expiration_ms, _now_ms(known, mirror)
        for producer, idle in list(mirror.idle.items()):
            who = f"broker {mirror.holder} at {now_ms} ms by its clock: producer {producer}, whose last batch ends at "
            if producer not in replica.log.producers.states and idle.was_cut:
                del mirror.idle[producer]
            elif producer not in replica.log.producers.states:
                if now_ms - idle.since_ms < lifetime_ms:
                    what = f"{idle.batch.last_offset} and is there since {idle.since_ms} ms, is forgotten"
                    known.fail(ghost, "P-D2", who + what)
                mirror.forgotten.add((producer, idle.batch.last_offset))
                del mirror.idle[producer]
            elif idle.found_ms is None:
                mirror.idle[producer] = idle._replace(found_ms=now_ms)
            elif now_ms - idle.found_ms >= lifetime_ms:
                what = f"{idle.batch.last_offset} and was found idle at {idle.found_ms} ms, is not forgotten"
                known.fail(ghost, "P-D2", who + what)


def was_forgotten(ghost: Ghost, batch: Batch, last_offset: int) -> bool:
    """Whether the leader that appended a batch had forgotten its producer, whose last one ended at `last_offset`."""
    author = ghost.mirrors.get(ghost.authors.get(batch.epoch, -1))
    return author is not None and any(
        producer == batch.producer_id and last_offset <= end < batch.base for producer, end in author.forgotten
    )


def _now_ms(known: Knowledge, mirror: ReplicaMirror) -> int:
    return known.cluster.machines[mirror.holder].clock.now_ms(known.cluster.now_us)
