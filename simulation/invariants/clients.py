"""Checks the answers to clients (P-9, P-11, P-12, P-13, P-15, P-24, P-26, P-T2)."""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.log.log import Log
from broker.core.messages import (
    NO_PREFERRED_REPLICA,
    AnyResponse,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    ListedOffset,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ProducedPartition,
    ProduceRequest,
    ProduceResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import RequestReceived
from broker.core.records import (
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    MalformedBatch,
    decode_records,
    iterate_headers,
    read_header,
    with_records,
)
from simulation.invariants.answers import refusals
from simulation.invariants.ghost import Batch, Ghost, ReplicaMirror, batches_in, describe, pieces
from simulation.invariants.knowledge import BrokerMirror, Knowledge

_ALL = -1
_LATEST = -1
_EVERYTHING = 1 << 30


def request_arrived(known: Knowledge, broker: BrokerMirror, event: RequestReceived) -> None:
    """Remember a client's request, and what was acknowledged when it arrived."""
    request = event.request
    if isinstance(request, ProduceRequest):
        for part in request.partitions:
            ghost = known.ghost_of(part.topic, part.partition)
            if ghost is None:
                continue
            ghost.first_seen.setdefault(part.records, ghost.acknowledged_end)
            ghost.acks_all_only = ghost.acks_all_only and request.acks == _ALL
        if request.acks == _ALL:
            broker.writes[event.request_id] = {
                (part.topic, part.partition): part.records for part in request.partitions
            }
    elif isinstance(request, FetchRequest):
        if request.replica_id < 0:
            asked = {}
            for fetch in request.partitions:
                ghost = known.ghost_of(fetch.topic, fetch.partition)
                if ghost is not None:
                    asked[fetch.topic, fetch.partition] = (fetch.fetch_offset, ghost.acknowledged_end)
            broker.reads[event.request_id] = asked
            if request.rack_id:
                broker.racks[event.request_id] = request.rack_id
    elif isinstance(request, ListOffsetsRequest) and request.replica_id < 0:
        broker.reads[event.request_id] = {
            (part.topic, part.partition): (part.timestamp, -1) for part in request.partitions
        }


def answered(
    known: Knowledge, broker: BrokerMirror, state: BrokerState, request_id: int, response: AnyResponse
) -> None:
    """Check an answer to a client."""
    if isinstance(response, ProduceResponse):
        written = broker.writes.pop(request_id, None)
        for produced in response.partitions if written is not None else ():
            records = written.get((produced.topic, produced.partition)) if written is not None else None
            if records is None:
                continue
            if produced.error_code == ErrorCode.NONE:
                _acknowledged(known, broker, state, produced, records)
            else:
                refusals.refused(known, broker, produced, records)
    elif isinstance(response, FetchResponse):
        read, rack = broker.reads.pop(request_id, None), broker.racks.pop(request_id, "")
        for part in response.partitions if read is not None else ():
            asked = read.get((part.topic, part.partition)) if read is not None else None
            if part.error_code == ErrorCode.NONE and asked is not None and not _is_advice(state, part, rack):
                _read(known, broker, part, *asked)
    elif isinstance(response, ListOffsetsResponse):
        read = broker.reads.pop(request_id, None)
        for listed in response.partitions if read is not None else ():
            asked = read.get((listed.topic, listed.partition)) if read is not None else None
            if listed.error_code == ErrorCode.NONE and asked is not None and asked[0] == _LATEST:
                _end_reported(known, broker, listed.topic, listed.partition, listed.offset)
            elif listed.error_code == ErrorCode.NONE and asked is not None and asked[0] >= 0:
                _looked_up(known, broker, state, listed, asked[0])


def _is_advice(state: BrokerState, part: FetchedPartition, rack: str) -> bool:
    """Whether a consumer in a rack is sent to a member of the ISR there: that answer has no records (FE-13)."""
    to = part.preferred_read_replica
    if to == NO_PREFERRED_REPLICA or state.settings.replica_selector != "rack-aware" or part.records:
        return False
    replica, member = state.replicas.get((part.topic, part.partition)), state.image.brokers.get(to)
    return replica is not None and to in replica.isr and member is not None and member.rack == rack


def _protected(
    known: Knowledge, broker: BrokerMirror, topic: str, partition: int
) -> tuple[Ghost, ReplicaMirror] | None:
    ghost = known.ghost_of(topic, partition)
    mirror = broker.mirrors.get((topic, partition))
    if ghost is None or mirror is None or ghost.mirrors.get(broker.broker_id) is not mirror:
        return None
    return (ghost, mirror) if ghost.protects(mirror) else None


def _any_from(committed: int) -> str:
    return "any was" if not committed else f"any from {committed} on was"


def _acknowledged(
    known: Knowledge, broker: BrokerMirror, state: BrokerState, produced: ProducedPartition, records: bytes
) -> None:
    """P-12, P-13 and P-15 when a leader acknowledges."""
    found = _protected(known, broker, produced.topic, produced.partition)
    if found is None:
        return
    ghost, mirror = found
    sent = batches_in(records)[0]
    base = produced.base_offset
    last = base + sent.last - sent.base
    committed = ghost.committed
    offsets = f"offset {base}" if base == last else f"offsets {base} to {last}"
    who = f"broker {broker.broker_id}, leader of epoch {mirror.leader_epoch}, acknowledged {offsets}"
    if last >= len(committed) or committed[base] is None or committed[last] != committed[base]:
        known.fail(ghost, "P-12", f"{who} before {_any_from(len(committed))} committed")
    batch = committed[base]
    if batch is None or batch.base != base or not _is_stored_as(batch, sent, state, produced, records):
        known.fail(ghost, "P-12", f"{who}; at {base} {batch} is committed, and the batch sent had crc {sent.crc:08x}")
    before = ghost.first_seen.get(records, 0)
    if base < before:
        known.fail(ghost, "P-13", f"{who}; when it was sent, everything before {before} had been acknowledged")
    _check_min_isr(known, ghost, state, batch, who)
    ghost.acknowledged[base] = batch
    ghost.acknowledged_end = max(ghost.acknowledged_end, last + 1)


def _is_stored_as(batch: Batch, sent: Batch, state: BrokerState, produced: ProducedPartition, records: bytes) -> bool:
    """Whether what is committed is the batch that was sent, but for the time of the leader that appended it.

    A leader that has deleted the batch cannot answer with that time when the batch is repeated: then its producer and
    sequence number say which it is. Where the topic has a codec of its own, the records are compared one by one.
    """
    replica = state.replicas.get((produced.topic, produced.partition))
    if replica is not None and replica.intake is not None and replica.intake.codec is not None:
        return _has_records_of(replica.log, batch, records, produced.log_append_time_ms)
    if produced.log_append_time_ms >= 0:
        return batch.crc == _crc_with_time(records, produced.log_append_time_ms)
    if batch.crc == sent.crc or replica is None or batch.last >= replica.log.start_offset or sent.producer_id < 0:
        return batch.crc == sent.crc
    return batch[4:] == sent[4:] and batch.last - batch.base == sent.last - sent.base


def _has_records_of(log: Log, batch: Batch, records: bytes, append_time_ms: int) -> bool:
    """Whether the batch that a log has at its offset has the records that were sent, if it still has it."""
    if batch.base < log.start_offset:
        return True
    stored = log.read(batch.base, _EVERYTHING, batch.last + 1)
    kept, sent = list(decode_records(stored)), list(decode_records(records))
    times = [append_time_ms if append_time_ms >= 0 else record.timestamp for record in sent]
    return [(one.key, one.value, one.timestamp) for one in kept] == [
        (one.key, one.value, time) for one, time in zip(sent, times, strict=True)
    ]


def _crc_with_time(records: bytes, append_time_ms: int) -> int:
    """The checksum of a batch that is sent, and gets the time of the leader that appends it."""
    header = read_header(records)
    attributes = header.attributes | LOG_APPEND_TIME_FLAG
    stored = with_records(header._replace(attributes=attributes, max_timestamp=append_time_ms), records[HEADER_BYTES:])
    return batches_in(stored)[0].crc


def _check_min_isr(known: Knowledge, ghost: Ghost, state: BrokerState, batch: Batch, who: str) -> None:
    replica = state.replicas.get((ghost.topic, ghost.number))
    if replica is None:
        return
    # P-15 is about what replicas have reported: one that has lost its disk since had reported the record, and so had
    # one that was removed since, of which the leader has not heard; one whose log begins after the record, which was
    # deleted (K1 to K3: committed by an ISR that is too small), reports its start.
    seen = state.image.end_offset
    deleted = {member: mirror for member, (mirror, known_to) in ghost.deleted.items() if seen < known_to}
    logs = (ghost.mirrors, ghost.vanished, deleted)
    mirrors = ((member, of.get(member)) for of in logs for member in replica.replicas)
    holders = {member for member, mirror in mirrors if mirror is not None and mirror.reached(batch)}
    if len(holders) < replica.effective_min_isr:
        known.fail(
            ghost,
            "P-15",
            f"{who}, which is in the logs of {sorted(holders)} only; min ISR is {replica.effective_min_isr}",
        )


def _read(
    known: Knowledge, broker: BrokerMirror, part: FetchedPartition, fetch_offset: int, acknowledged_end: int
) -> None:
    """P-11 and P-24 for the records in the answer; P-9 and P-13 for those that are missing."""
    _check_topic(known, broker, part)
    found = _protected(known, broker, part.topic, part.partition)
    if found is None or part.diverging_epoch is not None:
        return
    ghost, mirror = found
    who = f"broker {broker.broker_id}, leader of epoch {mirror.leader_epoch},"
    epoch = -1
    for batch in ghost.unfold(part.records):
        first = _first_kept(ghost, mirror, batch)
        if batch.last >= len(ghost.committed) or ghost.committed[first] not in (batch, None):
            known.fail(
                ghost,
                "P-11",
                f"{who} gave a consumer {batch}; committed there is {describe(ghost.committed, first)}, and "
                f"nothing from {len(ghost.committed)} on",
            )
        if batch.epoch < epoch:
            known.fail(ghost, "P-24", f"{who} gave a consumer {batch} after a record of epoch {epoch}")
        epoch = batch.epoch
    if not part.records and part.error_code == ErrorCode.NONE and not ghost.is_stale(mirror):
        if fetch_offset < acknowledged_end:
            known.fail(
                ghost,
                "P-13",
                f"{who} gave a consumer nothing from {fetch_offset} on; everything before {acknowledged_end} had been "
                f"acknowledged when it asked",
            )
        _check_shown(known, ghost, mirror, max(part.high_watermark, fetch_offset))
    ghost.shown_end = max(ghost.shown_end, part.high_watermark)


def _first_kept(ghost: Ghost, mirror: ReplicaMirror, batch: Batch) -> int:
    """The first offset of a batch that its leader has not deleted, where an unclean election elected who had.

    What it had deleted by then is equal to anything (`Mirror.compare`): what was committed there is that of others.
    """
    is_cut = ghost.since_epoch > 0 and batch.base < mirror.start <= batch.last
    return mirror.start if is_cut else batch.base


def _check_topic(known: Knowledge, broker: BrokerMirror, part: FetchedPartition) -> None:
    """P-T2: who asks for a topic by its id gets no record of another one."""
    held = broker.mirrors.get((part.topic, part.partition))
    if part.topic_id and part.records and held is not None and held.replica is not None:
        ghost = known.partitions.get((part.topic_id, part.partition))
        if ghost is not None and held.replica.topic_id != part.topic_id:
            known.fail(
                ghost,
                "P-T2",
                f"broker {broker.broker_id} was asked for records of the topic with the id {part.topic_id}, and gave "
                f"those of its log of {held.replica.topic_id}",
            )


def _end_reported(known: Knowledge, broker: BrokerMirror, topic: str, partition: int, end: int) -> None:
    """P-9, P-13: the end of the log that a client gets."""
    found = _protected(known, broker, topic, partition)
    if found is None:
        return
    ghost, mirror = found
    if end > len(ghost.committed):
        known.fail(
            ghost,
            "P-11",
            f"broker {broker.broker_id} answered that the log ends at {end}; it is committed up to "
            f"{len(ghost.committed)}",
        )
    if not ghost.is_stale(mirror):
        if end < ghost.acknowledged_end:
            known.fail(
                ghost,
                "P-13",
                f"broker {broker.broker_id}, leader of epoch {mirror.leader_epoch}, answered that the log ends at "
                f"{end}; everything before {ghost.acknowledged_end} has been acknowledged",
            )
        _check_shown(known, ghost, mirror, end)
    ghost.shown_end = max(ghost.shown_end, end)


def _check_shown(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, end: int) -> None:
    if end < ghost.shown_end:
        known.fail(
            ghost,
            "P-9",
            f"broker {mirror.holder}, leader of epoch {mirror.leader_epoch}, answered that the log ends at {end}; an "
            f"earlier answer was {ghost.shown_end}",
        )


def _looked_up(known: Knowledge, broker: BrokerMirror, state: BrokerState, listed: ListedOffset, time_ms: int) -> None:
    """P-26: the answer to a lookup by time, from the log that the broker has."""
    ghost = known.ghost_of(listed.topic, listed.partition)
    replica = state.replicas.get((listed.topic, listed.partition))
    if ghost is None or replica is None:
        return
    try:
        expected = _first_not_older(replica.log, time_ms, replica.high_watermark)
    except MalformedBatch:
        return  # `log_changed` reports such a log
    if (listed.timestamp, listed.offset) != expected:
        known.fail(
            ghost,
            "P-26",
            f"broker {broker.broker_id} was asked for the first record from {time_ms} ms on, and answered offset "
            f"{listed.offset} with {listed.timestamp} ms; expected {expected[1]} with {expected[0]} ms",
        )


def _first_not_older(log: Log, time_ms: int, end: int) -> tuple[int, int]:
    """(timestamp, offset), both -1 for none: every batch is read, without indexes.

    A batch that may not be unfolded so far, or not at all, counts as a whole (LO-6).
    """
    for data, _ in pieces(log, log.start_offset):
        for at, header in iterate_headers(data):
            if header.max_timestamp < time_ms or header.last_offset < log.start_offset or header.base_offset >= end:
                continue
            try:
                for record in decode_records(data, at):
                    if record.timestamp >= time_ms and log.start_offset <= record.offset < end:
                        return record.timestamp, record.offset
            except MalformedBatch:
                return header.max_timestamp, max(header.base_offset, log.start_offset)
    return -1, -1
