"""Checks what a replica keeps beside its log: producers (P-28), min ISR (P-29), settings (P-32), its epoch (P-72).

And a broker's copy of the metadata log (P-48).
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.core.broker_node.groups.records import OFFSETS_TOPIC
from broker.core.broker_node.state import BrokerState
from broker.core.log.producer_state import CACHED_BATCHES
from broker.core.metadata.records import METADATA_DIRECTORY
from broker.core.quorum import snapshots
from broker.core.replica.state import Replica
from simulation.invariants.ghost import Ghost, ReplicaMirror, batches_of
from simulation.invariants.knowledge import BrokerMirror, Knowledge
from simulation.invariants.properties import Violation

Sequences = tuple[int, tuple[tuple[int, int, int], ...]]
"""A producer's epoch and its latest batches in it: first sequence number, base offset, last offset."""


def check_producers(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica) -> None:
    """P-28: of each producer in the log the state has the epoch and the latest batches, and it has no other one.

    Of what was deleted before the log's start the state may know more. A producer that was forgotten (P-D2) may be
    missing, or lack its batches up to then. Where a log is compacted, batches may be empty, and no producer's any more,
    before a follower gets them: then the state may end anywhere between what is left and what was there.
    """
    start = mirror.start
    expected = batches_of_producers(mirror)
    states = replica.log.producers.states
    if not expected and not states:
        return
    is_compacted, left = ghost.contents is not None, expected
    if is_compacted:
        left = batches_of_producers(what_is_left(mirror, replica))
        expected = expected | _between(mirror, replica, expected, left)
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
            required = tuple(batch for batch in batches if mirror.producers.must_know(producer, batch[2]))
        if is_compacted:  # compaction may have removed older ones, but not the last
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
        for producer, (_, batches) in left.items()
        if producer not in states and mirror.producers.must_know(producer, batches[-1][2])
    ]
    if unknown:
        known.fail(ghost, "P-28", f"broker {mirror.holder} does not know the producers {unknown}, which are in its log")
    invented = [producer for producer in states if producer not in expected] if not start else []
    if invented:
        known.fail(ghost, "P-28", f"broker {mirror.holder} knows the producers {invented}, which are not in its log")


def check_kept_producers(
    known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica, state: BrokerState
) -> None:
    """P-28, when a process has opened a log after a clean stop: it knows the producers that the one before knew.

    Also those whose batches were all deleted: a clean stop writes a snapshot of them (KIP-98).
    """
    before, log = mirror.replica, replica.log
    if before is None or state.previous_broker_epoch < 0 or log.recovery.scanned_bytes or mirror.power_lost:
        return
    if before.topic_id != replica.topic_id or before.log.end_offset != log.end_offset or mirror.offline:
        return
    known_before, known_now = before.log.producers.states, log.producers.states
    lost = [producer for producer in known_before if producer not in known_now]
    if lost:
        known.fail(
            ghost,
            "P-28",
            f"broker {mirror.holder} has stopped cleanly, and does not know the producers {lost} any more",
        )


def note_producers(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica) -> None:
    """P-D2, after a step in which a replica has changed: none is forgotten but when its broker looks for idle ones."""
    now_ms = _now_ms(known, mirror)
    gone = mirror.producers.note(replica.log, now_ms)
    if gone:
        known.fail(ghost, "P-D2", f"broker {mirror.holder} has forgotten the producers {gone} between its checks")


def idle_looked_for(known: Knowledge, broker: BrokerMirror, state: BrokerState) -> None:
    """P-D2, when a broker has looked for idle producers: which it has forgotten, and which it still knows."""
    for key, replica in state.replicas.items():
        mirror, ghost = broker.mirrors.get(key), known.ghost_held(broker, *key)
        if mirror is None or ghost is None or mirror.replica is not replica:
            continue
        now_ms = _now_ms(known, mirror)
        for wrong in mirror.producers.looked_for(replica.log, now_ms, known.settings.producer_id_expiration_ms):
            known.fail(ghost, "P-D2", f"broker {mirror.holder} at {now_ms} ms by its clock: {wrong}")


def _now_ms(known: Knowledge, mirror: ReplicaMirror) -> int:
    return known.cluster.machines[mirror.holder].clock.now_ms(known.cluster.now_us)


def check_copy(known: Knowledge, broker_id: int, state: BrokerState) -> None:
    """P-48, when a broker has applied metadata: they are in the copy on its disk too, while that can be written.

    Where its log begins later there is a snapshot of what comes before.
    """
    stored, end = state.metadata.stored, state.metadata.image.end_offset
    if stored is not None and stored.log.end_offset != end:
        raise Violation(
            "P-48",
            f"broker {broker_id} knows the metadata up to {end}; the copy on its disk ends at {stored.log.end_offset}",
        )
    begins = 0 if stored is None else stored.log.start_offset
    if not begins:
        return
    found = snapshots.find(known.cluster.machines[broker_id].disk, METADATA_DIRECTORY)
    if all(end < begins for end, _ in found):
        raise Violation(
            "P-48",
            f"the copy of the metadata on the disk of broker {broker_id} begins at {begins}, and there is no snapshot "
            "of what comes before",
        )


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


def check_roles(known: Knowledge, broker_id: int, state: BrokerState) -> None:
    """P-72, when a broker has applied metadata: its replicas are in the states that these give their partitions.

    A leader may know a later state of its partition from the controller's answer. A replica whose disk fails is given
    up in the step in which it is to take a new role.
    """
    image = state.image
    if not 0 <= state.broker_epoch < image.end_offset:
        return
    for (topic, number), replica in state.replicas.items():
        assigned, found = image.partition(topic, number), image.topics.get(topic)
        if assigned is None or found is None or found.topic_id != replica.topic_id:
            continue
        if broker_id in assigned.replicas and replica.partition_epoch < assigned.partition_epoch:
            known.fail(
                known.ghost(topic, replica.topic_id, number),
                "P-72",
                f"broker {broker_id} holds the replica in partition epoch {replica.partition_epoch}; by the metadata "
                f"up to {image.end_offset}, which it has applied, it is {assigned.partition_epoch}",
            )


def check_settings(known: Knowledge, broker_id: int, state: BrokerState) -> None:
    """P-32, when a broker has applied metadata: its logs have the settings that these give them.

    Those of the topic come first, then the broker's own, those of all brokers, and the file's.
    """
    image = state.image
    if not 0 <= state.broker_epoch < image.end_offset:
        return
    version = known.versions.get(image.end_offset)
    if version is None:
        return
    of_all, own = version.configs[0], version.configs[1].get(broker_id, {})
    compared = known.brokers[broker_id].compared_settings
    for (topic, number), replica in state.replicas.items():
        topic_id, _, configs = version.topics.get(topic, ("", {}, {}))
        assigned = image.partition(topic, number)
        if topic_id != replica.topic_id or assigned is None:
            continue
        if broker_id not in assigned.replicas:
            continue
        config = replica.log.config
        settings = (config, configs, own, of_all)
        if compared.get((topic, number)) == settings:
            continue
        found = {
            "segment.bytes": config.segment_bytes,
            "max.message.bytes": config.max_batch_bytes,
            "flush.messages": config.flush_messages,
            "index.interval.bytes": config.index_interval_bytes,
        }
        for key, value in found.items():
            of_broker, default = _OF_BROKER[key]
            text = configs.get(key, own.get(of_broker, of_all.get(of_broker)))
            expected = getattr(known.settings, default) if text is None else int(text)
            if value != expected:
                known.fail(
                    known.ghost(topic, topic_id, number),
                    "P-32",
                    f"broker {broker_id} has a log with {key} {value}; by the metadata up to {image.end_offset} it is "
                    f"{expected}",
                )
        default = (
            "compact" if topic == OFFSETS_TOPIC else own.get(f"log.{_POLICY}", of_all.get(f"log.{_POLICY}", "delete"))
        )
        policy = configs.get(_POLICY, default)
        if ("compact" in policy) != (config.compaction is not None):
            known.fail(
                known.ghost(topic, topic_id, number),
                "P-32",
                f"broker {broker_id} has a log with {config.compaction or 'no compaction'}; by the metadata up to "
                f"{image.end_offset} its cleanup.policy is {policy}",
            )
        _check_times(known, known.ghost(topic, topic_id, number), broker_id, replica, configs)
        compared[topic, number] = settings


def _check_times(known: Knowledge, ghost: Ghost, broker_id: int, replica: Replica, configs: Mapping[str, str]) -> None:
    """P-32: when a segment of a log ends, and when it is compacted; only topics have these settings in a simulation.

    A segment of a compacted log ends in time for max.compaction.lag.ms (KIP-354).
    """
    config, settings = replica.log.config, known.settings
    segment_ms = int(configs.get("segment.ms", settings.log_roll_ms))
    expected: dict[str, float] = {"segment.ms": segment_ms}
    found: dict[str, float] = {"segment.ms": config.segment_ms}
    if config.compaction is not None:
        lag_ms = int(configs.get("max.compaction.lag.ms", settings.log_cleaner_max_compaction_lag_ms))
        ratio = float(configs.get("min.cleanable.dirty.ratio", settings.log_cleaner_min_cleanable_ratio))
        keep_ms = int(configs.get("delete.retention.ms", settings.log_cleaner_delete_retention_ms))
        expected = {
            "segment.ms": min(segment_ms, lag_ms),
            "max.compaction.lag.ms": lag_ms,
            "min.cleanable.dirty.ratio": ratio,
            "delete.retention.ms": keep_ms,
        }
        found |= {
            "max.compaction.lag.ms": config.compaction.max_lag_ms,
            "min.cleanable.dirty.ratio": config.compaction.min_dirty_ratio,
            "delete.retention.ms": config.compaction.delete_retention_ms,
        }
    if found != expected:
        known.fail(
            ghost, "P-32", f"broker {broker_id} has a log with {found}; by its topic's settings it is {expected}"
        )


_POLICY = "cleanup.policy"
_OF_BROKER = {
    "segment.bytes": ("log.segment.bytes", "log_segment_bytes"),
    "max.message.bytes": ("message.max.bytes", "message_max_bytes"),
    "flush.messages": ("log.flush.interval.messages", "log_flush_interval_messages"),
    "index.interval.bytes": ("log.index.interval.bytes", "log_index_interval_bytes"),
}
"""A topic's setting -> the broker's that stands for it, and its field among those of the file."""


def _between(
    mirror: ReplicaMirror, replica: Replica, there: dict[int, Sequences], left: dict[int, Sequences]
) -> dict[int, Sequences]:
    """Of each producer what its state may end with: the batch that it does end with, if that was there, and no batch
    that is left comes after it.
    """
    found: dict[int, Sequences] = {}
    for producer, state in replica.log.producers.states.items():
        last = state.batches[-1]
        was_there = mirror.entries[last.base_offset] if last.base_offset < len(mirror.entries) else None
        at_least = left[producer][1][-1][1] if producer in left else -1
        if producer not in there or was_there is None or was_there.producer_id != producer:
            continue
        if was_there.base == last.base_offset >= at_least:
            found[producer] = was_there.producer_epoch, ((was_there.first_sequence, was_there.base, was_there.last),)
    return found


def what_is_left(mirror: ReplicaMirror, replica: Replica) -> ReplicaMirror:
    """The log as it is, where compaction has removed batches."""
    left = ReplicaMirror(mirror.holder, start=mirror.start, entries=[None] * mirror.start)
    for batch in batches_of(replica.log, mirror.start):
        left.entries += [None] * (batch.base - len(left.entries))
        left.entries += [batch] * (batch.last + 1 - len(left.entries))
    return left


def batches_of_producers(mirror: ReplicaMirror) -> dict[int, Sequences]:
    """Of each idempotent producer in a log its last epoch and the latest batches in that."""
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
