"""Checks that a produce request is refused only for a reason that is so, and refused where there is one (P-31)."""

from __future__ import annotations

from collections.abc import Iterator

from broker.core.broker_node.state import BrokerState
from broker.core.log.producer_state import CACHED_BATCHES
from broker.core.messages import ProducedPartition, ProduceRequest
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import PartitionState
from broker.core.ports.events import RequestReceived
from broker.core.records import MalformedBatch, check_crc, decode_records, read_header
from simulation.invariants.derived import batches_of_producers, what_is_left
from simulation.invariants.ghost import Batch, Ghost, ReplicaMirror, batches_in
from simulation.invariants.knowledge import BrokerMirror, Knowledge, Version

_MASK = 0x7FFFFFFF
_ALL = -1

_BY_SEQUENCE = frozenset({
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
})  # fmt: skip

_BY_CONTENT = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP})
_TIME_BOUNDS = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")


def refused(known: Knowledge, broker: BrokerMirror, produced: ProducedPartition, records: bytes) -> None:
    """P-31 when a broker refuses a batch, after the step in which it did so."""
    ghost = known.ghost_of(produced.topic, produced.partition)
    mirror = broker.mirrors.get((produced.topic, produced.partition))
    if ghost is None or mirror is None or ghost.mirrors.get(broker.broker_id) is not mirror:
        return
    error = ErrorCode(produced.error_code)
    if error in _BY_CONTENT and not _explains(known, ghost, broker, error, records):
        known.fail(ghost, "P-31", f"broker {broker.broker_id} refused a sound batch with {error.name}")
    if error in _BY_SEQUENCE:
        _check_sequence(known, ghost, mirror, batches_in(records)[0], error)
    elif error == ErrorCode.NOT_ENOUGH_REPLICAS:
        _check_isr(known, ghost, broker)
    elif error == ErrorCode.MESSAGE_TOO_LARGE:
        _check_size(known, ghost, broker, len(records))


def _explains(known: Knowledge, ghost: Ghost, broker: BrokerMirror, error: ErrorCode, records: bytes) -> bool:
    """Whether an error says what is wrong with a batch, or not allowed in its topic."""
    header = read_header(records)
    if error == ErrorCode.CORRUPT_MESSAGE:
        return header.size != len(records) or not check_crc(records, 0, header.size)
    settings = [version.topics.get(ghost.topic, ("", {}, {}))[2] for version in _reached(known, broker.image_end)]
    if error == ErrorCode.INVALID_TIMESTAMP:
        return any(key in configs for configs in settings for key in _TIME_BOUNDS)
    is_compacted = any("compact" in configs.get("cleanup.policy", "") for configs in settings)
    return header.is_control or (is_compacted and not _are_keyed(records))


def _are_keyed(records: bytes) -> bool:
    try:
        return all(record.key is not None for record in decode_records(records))
    except MalformedBatch:
        return False  # among others what may not be unfolded so far


def _check_sequence(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, sent: Batch, error: ErrorCode) -> None:
    """A batch that follows its producer's last one in this log, or repeats one of the latest, is not refused."""
    found = batches_of_producers(mirror).get(sent.producer_id)
    if ghost.contents is not None and mirror.replica is not None:
        left = batches_of_producers(what_is_left(mirror, mirror.replica)).get(sent.producer_id)
        if left is None or found is None or left[1][-1] != found[1][-1]:
            return  # what the leader knows of it ends somewhere between the two
    if found is None:
        follows = not mirror.start  # of what was deleted the leader may know more
    else:
        epoch, batches = found
        first, base, last = batches[-1]
        follows = (
            sent.first_sequence == (first + last - base + 1) & _MASK
            if sent.producer_epoch == epoch
            else sent.producer_epoch > epoch and sent.first_sequence == 0
        )
        length = sent.last - sent.base
        follows = follows or (
            sent.producer_epoch == epoch
            and any(
                (number, end - begin) == (sent.first_sequence, length)
                for number, begin, end in batches[-CACHED_BATCHES:]
                if mirror.producers.must_know(sent.producer_id, end)
            )
        )
    if follows:
        known.fail(
            ghost,
            "P-31",
            f"broker {mirror.holder}, leader of epoch {mirror.leader_epoch}, refused sequence number "
            f"{sent.first_sequence} of producer {sent.producer_id}, epoch {sent.producer_epoch}, with {error.name}; in "
            f"its log it has {found}",
        )


def accepted(known: Knowledge, broker: BrokerMirror, state: BrokerState, event: RequestReceived, before: int) -> None:
    """P-31 after a step in which a broker was sent a batch: acks=all is not begun with while the ISR is too small.

    `before`: what the broker's image had reached before the step. The request waits for replicas, so it was begun with.
    """
    request = event.request
    if not isinstance(request, ProduceRequest) or request.acks != _ALL or len(request.partitions) > 1:
        return
    if event.request_id not in state.produces:
        return
    part = request.partitions[0]
    ghost = known.ghost_of(part.topic, part.partition)
    if ghost is None:
        return
    sizes, needed = _isr_sizes(known, ghost, min(before, broker.image_end))
    if sizes and max(sizes) < min(needed):
        known.fail(
            ghost,
            "P-31",
            f"broker {broker.broker_id} began with a batch of acks=all; by the metadata from {before} on the ISR had "
            f"{max(sizes)} members at most, and min ISR was {min(needed)} or more",
        )


def _check_isr(known: Knowledge, ghost: Ghost, broker: BrokerMirror) -> None:
    """NOT_ENOUGH_REPLICAS only if the ISR was below min ISR by what is committed, or by what the broker has reached.

    A leader may know its ISR from the controller's answer and min ISR from metadata before that, so each may be of
    another moment from what its image has reached on.
    """
    sizes, needed = _isr_sizes(known, ghost, broker.image_end)
    if sizes and min(sizes) >= max(needed):
        known.fail(
            ghost,
            "P-31",
            f"broker {broker.broker_id} refused a batch with NOT_ENOUGH_REPLICAS; by the metadata from "
            f"{broker.image_end} on the ISR had {min(sizes)} members or more, and min ISR was {max(needed)} at most",
        )


def _isr_sizes(known: Knowledge, ghost: Ghost, since: int) -> tuple[list[int], list[int]]:
    """Sizes of the ISR and min ISR in the committed states from one on."""
    sizes: list[int] = []
    needed: list[int] = []
    for version in _reached(known, since):
        _, partitions, configs = version.topics.get(ghost.topic, ("", {}, {}))
        state = partitions.get(ghost.number)
        if isinstance(state, PartitionState):
            configured = configs.get(_MIN_ISR) or version.configs[0].get(_MIN_ISR) or known.min_isr_of_files
            sizes.append(len(state.isr))
            needed.append(min(int(configured), len(state.replicas)))
    return sizes, needed


def _check_size(known: Knowledge, ghost: Ghost, broker: BrokerMirror, size: int) -> None:
    """MESSAGE_TOO_LARGE only if some metadata that the broker has reached, or may reach now, allow less."""
    limits = []
    for version in _reached(known, broker.image_end):
        of_all, own = version.configs[0], version.configs[1].get(broker.broker_id, {})
        of_brokers = own.get(_OF_BROKERS, of_all.get(_OF_BROKERS, str(known.settings.message_max_bytes)))
        limits.append(int(version.topics.get(ghost.topic, ("", {}, {}))[2].get(_OF_TOPIC, of_brokers)))
    if limits and size <= min(limits):
        known.fail(
            ghost,
            "P-31",
            f"broker {broker.broker_id} refused a batch of {size} bytes as too large; by the metadata from "
            f"{broker.image_end} on {min(limits)} were allowed",
        )


def _reached(known: Knowledge, since: int) -> Iterator[Version]:
    """The committed states from the one on that a broker's image has reached."""
    for end in reversed(known.versions):
        if end < since:
            return
        yield known.versions[end]


_MIN_ISR = "min.insync.replicas"
_OF_TOPIC = "max.message.bytes"
_OF_BROKERS = "message.max.bytes"
