"""Sends batches of all kinds, good and bad, and reads what has become of them (P-E3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from broker.core.broker_node.groups.records import OFFSETS_TOPIC
from broker.core.messages import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from broker.core.messages.errors import NO_TRANSACTIONS, ErrorCode
from broker.core.records import BatchHeader, decode_records, encode_batch, iterate_headers
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.examination.examiner import Examiner
from simulation.examination.topics import BATCH_BYTES_MAX, KEYED, PLAIN, STAMPED, unfolding_too_far
from simulation.workload.batches import GZIP, Producer, encode_values

PROPERTY = "P-E3"
_ALL, _LEADER, _NOBODY, _NO_SUCH_ACKS = -1, 1, 0, 2
_EVERYTHING = 1 << 30
_FIRST_MS = 1_000
_KEPT_BATCHES = 5
_HOURS_AHEAD_MS = 10 * 3_600_000

_Read = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp, key and value of a record."""


def examine(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int]) -> None:
    """Write to the topics of the examination. Raises `WrongAnswer`."""
    for acks in (_ALL, _LEADER):
        _plain(examiner, cluster, acks)
    _unanswered(examiner, cluster)
    _bad(examiner, cluster, brokers)
    _idempotent(examiner, cluster, brokers)
    _converted(examiner, cluster)
    _keyed(examiner, cluster)


def _sent(
    examiner: Examiner,
    cluster: SimulatedCluster,
    about: str,
    records: bytes,
    expected: ErrorCode = ErrorCode.NONE,
    *,
    topic: str = PLAIN,
    partition: int = 0,
    acks: int = _ALL,
) -> ProducedPartition:
    return examiner.produce(cluster, about, ProducePartition(topic, partition, records), expected, acks)


def _read(
    examiner: Examiner, cluster: SimulatedCluster, topic: str, partition: int, offset: int
) -> list[tuple[BatchHeader, list[_Read]]]:
    """The batches from an offset on, with (offset, timestamp, key, value) of each record."""
    leader = examiner.state(cluster, topic, partition).leader
    part = FetchPartition(topic, partition, offset, _EVERYTHING)
    response = examiner.ask(cluster, leader, FetchRequest((part,), max_wait_ms=2_000))
    assert isinstance(response, FetchResponse)
    data = response.partitions[0].records
    return [
        (header, [(each.offset, each.timestamp, each.key, each.value) for each in decode_records(data, at)])
        for at, header in iterate_headers(data)
    ]


def _first(
    examiner: Examiner, cluster: SimulatedCluster, topic: str, offset: int, about: str
) -> tuple[BatchHeader, list[_Read]]:
    """The batch that begins at an offset of partition 0."""
    batches = _read(examiner, cluster, topic, 0, offset)
    if not batches:
        raise examiner.wrong(about, "nothing", "a batch")
    return batches[0]


def _end(examiner: Examiner, cluster: SimulatedCluster) -> int:
    """Where the log of the first partition of `PLAIN` ends."""
    leader = examiner.state(cluster, PLAIN, 0).leader
    part = FetchPartition(PLAIN, 0, 0, _EVERYTHING)
    response = examiner.ask(cluster, leader, FetchRequest((part,), max_wait_ms=0))
    assert isinstance(response, FetchResponse)
    return response.partitions[0].high_watermark


def _plain(examiner: Examiner, cluster: SimulatedCluster, acks: int) -> None:
    """Batches stand one after the other, record for record as they were sent."""
    base: int | None = None
    for count in (1, 3, 2):
        values = tuple(range(count))
        about = f"a batch of {count} with acks={acks}"
        answer = _sent(examiner, cluster, about, encode_values(values, Producer(), first_ms=_FIRST_MS), acks=acks)
        if base is not None:
            examiner.expect(f"{about}, its offset", answer.base_offset, base)
        base = answer.base_offset + count
        examiner.soon(cluster, partial(_is_stored, examiner, cluster, about, answer.base_offset, values))


def _is_stored(examiner: Examiner, cluster: SimulatedCluster, about: str, start: int, values: tuple[int, ...]) -> None:
    header, records = _first(examiner, cluster, PLAIN, start, about)
    offsets = list(range(start, start + len(values)))
    examiner.expect(f"{about}, its records", [each[0] for each in records], offsets)
    sent = [value.to_bytes(8, "big") for value in values]
    examiner.expect(f"{about}, their values", [each[3] for each in records], sent)
    examiner.expect(f"{about}, their times", {each[1] for each in records}, {_FIRST_MS})
    examiner.expect(f"{about}, its codec", header.codec, 0)


def _unanswered(examiner: Examiner, cluster: SimulatedCluster) -> None:
    """acks=0: no answer, and the record comes."""
    end = _end(examiner, cluster)
    leader = examiner.state(cluster, PLAIN, 0).leader
    part = ProducePartition(PLAIN, 0, encode_values((1,), Producer()))
    examiner.send(cluster, leader, ProduceRequest(_NOBODY, 1_000, (part,)))
    examiner.soon(
        cluster, lambda: examiner.expect("a batch with acks=0, the log's end", _end(examiner, cluster), end + 1)
    )


def _bad(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int]) -> None:
    """What is refused leaves the log as it was."""
    end = _end(examiner, cluster)
    good = encode_values((1, 2), Producer())
    damaged = good[:-1] + bytes((good[-1] ^ 1,))
    large = encode_batch([(None, bytes(BATCH_BYTES_MAX))], 0, -1, 0)
    early = encode_values((1,), Producer(), first_ms=cluster.now_us // MS + _HOURS_AHEAD_MS + _ahead_ms(cluster))
    control = encode_batch([(b"\0\0\0\0", b"\0\0\0\0\0\0")], 0, -1, 0, control=True)
    _sent(examiner, cluster, "a batch with acks=2", good, ErrorCode.INVALID_REQUIRED_ACKS, acks=_NO_SUCH_ACKS)
    _sent(examiner, cluster, "a batch with a wrong checksum", damaged, ErrorCode.CORRUPT_MESSAGE)
    _sent(examiner, cluster, "a batch that is too large", large, ErrorCode.MESSAGE_TOO_LARGE)
    _sent(examiner, cluster, "a batch from ten hours ahead", early, ErrorCode.INVALID_TIMESTAMP)
    _sent(examiner, cluster, "a control batch of a client", control, ErrorCode.INVALID_RECORD)
    state = examiner.state(cluster, PLAIN, 0)
    leader = state.leader
    cases = [
        (broker, PLAIN, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for broker in brokers
        if broker != leader and broker in state.replicas
    ]
    cases += [
        (leader, PLAIN, 99, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (leader, OFFSETS_TOPIC, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    for broker, topic, number, error in cases:
        request = ProduceRequest(_ALL, 1_000, (ProducePartition(topic, number, good),))
        response = examiner.ask(cluster, broker, request)
        assert isinstance(response, ProduceResponse)
        examiner.expect(f"broker {broker}, a batch for {topic}-{number}", response.partitions[0].error_code, error)
    examiner.expect("batches that were refused, the log's end", _end(examiner, cluster), end)


def _ahead_ms(cluster: SimulatedCluster) -> int:
    """How far the clock that is most ahead is ahead of virtual time."""
    return max(
        machine.clock.now_ms(cluster.now_us) + machine.time_ahead_ms for machine in cluster.machines.values()
    ) - (cluster.now_us // MS)


def _idempotent(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int]) -> None:
    """A producer's batches are taken in order and once; ids are given once."""
    ids: list[int] = []
    for broker in brokers:
        examiner.soon(cluster, partial(_gives_an_id, examiner, cluster, broker, ids))
    examiner.expect("producer ids that were given twice", len(ids) - len(set(ids)), 0)
    transactional = InitProducerIdRequest("a transaction")
    examiner.errors(cluster, brokers[0], "a producer id for transactions", transactional, NO_TRANSACTIONS)
    number = ids[0]
    batches = [encode_values((10 + at,), Producer(number, 1, at)) for at in range(_KEPT_BATCHES + 2)]
    first = _sent(examiner, cluster, "a producer's first batch", batches[0]).base_offset
    for at, batch in enumerate(batches[1:], 1):
        answer = _sent(examiner, cluster, f"a producer's batch {at}", batch)
        examiner.expect(f"a producer's batch {at}, its offset", answer.base_offset, first + at)
    repeated = _sent(examiner, cluster, "a producer's last batch, repeated", batches[-1])
    examiner.expect("a producer's last batch, repeated: its offset", repeated.base_offset, first + len(batches) - 1)
    earliest = len(batches) - _KEPT_BATCHES
    kept = _sent(examiner, cluster, "the fifth last batch, repeated", batches[earliest])
    examiner.expect("the fifth last batch, repeated: its offset", kept.base_offset, first + earliest)
    _sent(examiner, cluster, "an old batch, repeated", batches[0], ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    gap = encode_values((99,), Producer(number, 1, len(batches) + 1))
    _sent(examiner, cluster, "a batch after a gap", gap, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    old = encode_values((99,), Producer(number, 0, len(batches)))
    _sent(examiner, cluster, "a batch of an old epoch", old, ErrorCode.INVALID_PRODUCER_EPOCH)
    new = encode_values((99,), Producer(number, 2, 0))
    answer = _sent(examiner, cluster, "the first batch of a new epoch", new)
    examiner.expect("the first batch of a new epoch, its offset", answer.base_offset, first + len(batches))
    late = encode_values((99,), Producer(number, 3, 4))
    _sent(examiner, cluster, "a later batch of a new epoch", late, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def _gives_an_id(examiner: Examiner, cluster: SimulatedCluster, broker: int, ids: list[int]) -> None:
    answer = examiner.ask(cluster, broker, InitProducerIdRequest())
    assert isinstance(answer, InitProducerIdResponse)
    examiner.expect(f"broker {broker}, a producer id", (answer.error_code, answer.producer_epoch), (0, 0))
    ids.append(answer.producer_id)


def _converted(examiner: Examiner, cluster: SimulatedCluster) -> None:
    """A topic with the leader's times and a codec of its own: header and records say so, values stay."""
    for compression in ("none", "snappy"):
        about = f"a batch with {compression} for {STAMPED}"
        sent = encode_values((5, 6), Producer(), compression=compression, first_ms=_FIRST_MS)
        answer = _sent(examiner, cluster, about, sent, topic=STAMPED)
        examiner.expect(f"{about}, whether it got a time", answer.log_append_time_ms >= 0, True)

        examiner.soon(cluster, partial(_is_converted, examiner, cluster, about, answer))


def _is_converted(examiner: Examiner, cluster: SimulatedCluster, about: str, answer: ProducedPartition) -> None:
    header, records = _first(examiner, cluster, STAMPED, answer.base_offset, about)
    examiner.expect(f"{about}, its codec", header.codec, GZIP)
    examiner.expect(f"{about}, its time", header.max_timestamp, answer.log_append_time_ms)
    examiner.expect(f"{about}, its mark", header.has_log_append_time, True)
    expected = [
        (answer.base_offset + at, answer.log_append_time_ms, None, value.to_bytes(8, "big"))
        for at, value in enumerate((5, 6))
    ]
    examiner.expect(f"{about}, its records", records, expected)


def _keyed(examiner: Examiner, cluster: SimulatedCluster) -> None:
    """A compacted topic takes records with keys only, and stores them uncompressed here."""
    unkeyed = encode_batch([(b"key", b"value"), (None, b"value")], 0, -1, _FIRST_MS)
    refused = _sent(examiner, cluster, "a record without a key", unkeyed, ErrorCode.INVALID_RECORD, topic=KEYED)
    examiner.expect("records without keys, their places", [place for place, _ in refused.record_errors], [1])
    too_far = unfolding_too_far()
    _sent(examiner, cluster, "a batch that unfolds too far", too_far, ErrorCode.INVALID_RECORD, topic=KEYED)
    keyed = encode_batch([(b"key", b"value"), (b"other", None)], 0, -1, _FIRST_MS)
    answer = _sent(examiner, cluster, "records with keys", keyed, topic=KEYED)

    def stored() -> None:
        records = [one for _, batch in _read(examiner, cluster, KEYED, 0, answer.base_offset) for one in batch]
        expected = [
            (answer.base_offset, _FIRST_MS, b"key", b"value"),
            (answer.base_offset + 1, _FIRST_MS, b"other", None),
        ]
        examiner.expect("records with keys", records, expected)

    examiner.soon(cluster, stored)
