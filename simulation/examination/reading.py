"""Reads logs at all kinds of places, and asks where they begin and end (P-E2)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from broker.core.messages import (
    NO_PREFERRED_REPLICA,
    DescribedProducer,
    DescribeProducersRequest,
    DescribeProducersResponse,
    EpochEndPartition,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    ProducePartition,
)
from broker.core.messages.errors import ErrorCode
from broker.core.records import BatchHeader, iterate_headers
from broker.core.replica.state import Replica
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.node_views import brokers as brokers_up
from simulation.examination.describing import NO_ID
from simulation.examination.examiner import Examiner
from simulation.examination.topics import FOLDED, PLAIN, TOO_LARGE_FROM_MS, unfolding_too_far
from simulation.workload.batches import Producer, encode_values

PROPERTY = "P-E2"
_LATEST, _EARLIEST, _NO_SUCH_TIME = -1, -2, -9
_EVERYTHING = 1 << 30
_NO_PARTITION = 99
_TIMES_MAX = 4
_NEW_SESSION, _END_SESSION = 0, -1


class StoredBatch(NamedTuple):
    """A batch of a log as it is on the leader; `data` begins with its header."""

    header: BatchHeader
    data: bytes


def batches_of(replica: Replica) -> list[StoredBatch]:
    """All batches of a log up to its high watermark, which read without any limit."""
    found: list[StoredBatch] = []
    offset = replica.log.start_offset
    while offset < replica.high_watermark:
        data = replica.log.read(offset, _EVERYTHING, replica.high_watermark)
        if not data:
            break
        for at, header in iterate_headers(data):
            found.append(StoredBatch(header, data[at : at + header.size]))
            offset = header.last_offset + 1
    return found


def examine(
    examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int], partitions: Sequence[tuple[str, int]]
) -> None:
    """Read these partitions, none of a compacted topic, at their leaders. Raises `WrongAnswer`."""
    for topic, number in partitions:
        for question in (_offsets, _epochs, _places, _refusals, _racks, _producers):
            examiner.soon(cluster, partial(question, examiner, cluster, topic, number))
    examiner.soon(cluster, partial(_sessions, examiner, cluster))
    _others(examiner, cluster, brokers)
    _folded(examiner, cluster)


def leading_replica(examiner: Examiner, cluster: SimulatedCluster, topic: str, number: int) -> Replica:
    """The replica of a partition on its leader. Raises `WrongAnswer` if it does not lead yet."""
    state = examiner.state(cluster, topic, number)
    broker = dict(brokers_up(cluster)).get(state.leader)
    replica = None if broker is None else broker.replicas.get((topic, number))
    if replica is None or replica.leader_epoch != state.leader_epoch:
        raise examiner.wrong(f"{topic}-{number}", f"broker {state.leader} that does not lead", "that it leads")
    return replica


def _listed(
    examiner: Examiner, cluster: SimulatedCluster, replica: Replica, timestamp: int, epoch: int = -1
) -> ListedOffset:
    part = ListOffsetsPartition(replica.topic, replica.partition, timestamp, epoch)
    response = examiner.ask(cluster, replica.broker_id, ListOffsetsRequest((part,)))
    assert isinstance(response, ListOffsetsResponse)
    return response.partitions[0]


def _offsets(examiner: Examiner, cluster: SimulatedCluster, topic: str, number: int) -> None:
    """Where the log begins and ends; the observer checks what is answered for a time (P-26)."""
    replica = leading_replica(examiner, cluster, topic, number)
    about = f"broker {replica.broker_id}, {topic}-{number}"
    first = _listed(examiner, cluster, replica, _EARLIEST)
    examiner.expect(f"{about}, its start", (first.error_code, first.offset), (0, replica.log.start_offset))
    last = _listed(examiner, cluster, replica, _LATEST, replica.leader_epoch)
    examiner.expect(
        f"{about}, its end",
        (last.error_code, last.offset, last.leader_epoch),
        (0, replica.high_watermark, replica.leader_epoch),
    )
    times = sorted({batch.header.max_timestamp for batch in batches_of(replica) if batch.header.max_timestamp > 0})
    chosen = [*times[:: max(1, len(times) // _TIMES_MAX)], *[time + 1 for time in times[-1:]]]
    for time in chosen:
        found = _listed(examiner, cluster, replica, time)
        examiner.expect(f"{about}, the first record from {time} on", found.error_code, ErrorCode.NONE)


def _folded(examiner: Examiner, cluster: SimulatedCluster) -> None:
    """A lookup by time does not look into a batch that unfolds too far: it counts as a whole (LO-6)."""
    part = ProducePartition(FOLDED, 0, unfolding_too_far())
    stored = examiner.produce(cluster, "a batch that unfolds too far", part, ErrorCode.NONE)

    def looked_up() -> None:
        replica = leading_replica(examiner, cluster, FOLDED, 0)
        found = _listed(examiner, cluster, replica, TOO_LARGE_FROM_MS + 1)
        examiner.expect(
            "the first record from the second one on of a batch that unfolds too far",
            (found.error_code, found.offset),
            (ErrorCode.NONE, stored.base_offset),
        )

    examiner.soon(cluster, looked_up)


def _epochs(examiner: Examiner, cluster: SimulatedCluster, topic: str, number: int) -> None:
    """Where each leader epoch ends; the observer checks the answers (P-36)."""
    replica = leading_replica(examiner, cluster, topic, number)
    epochs = sorted({batch.header.leader_epoch for batch in batches_of(replica)} | {replica.leader_epoch})
    asked = [EpochEndPartition(topic, number, replica.leader_epoch, epoch) for epoch in epochs]
    for part in asked:
        request = OffsetForLeaderEpochRequest((part,), replica_id=-1)
        examiner.errors(cluster, replica.broker_id, f"end of epoch {part.leader_epoch}", request, ErrorCode.NONE)


def _read(
    examiner: Examiner, cluster: SimulatedCluster, replica: Replica, offset: int, max_bytes: int, whole_bytes: int
) -> FetchedPartition:
    part = FetchPartition(replica.topic, replica.partition, offset, max_bytes, replica.leader_epoch)
    request = FetchRequest((part,), max_wait_ms=0, max_bytes=whole_bytes)
    response = examiner.ask(cluster, replica.broker_id, request)
    assert isinstance(response, FetchResponse)
    return response.partitions[0]


def _places(examiner: Examiner, cluster: SimulatedCluster, topic: str, number: int) -> None:
    """Reads from the first batches, the middle and the last ones, with room for one batch, for two, and almost two."""
    replica = leading_replica(examiner, cluster, topic, number)
    batches = batches_of(replica)
    about = f"broker {replica.broker_id}, {topic}-{number}"
    segments = replica.log.segment_offsets
    for at in sorted({0, 1, len(batches) // 2, len(batches) - 2, len(batches) - 1}):
        if not 0 <= at < len(batches):
            continue
        one = batches[at]
        two = batches[at + 1] if at + 1 < len(batches) else None
        offset = max(one.header.last_offset, replica.log.start_offset)
        limits = {1: 1, len(one.data): 1}
        if two is not None and two.header.base_offset not in segments:
            both = len(one.data) + len(two.data)
            limits |= {both - 1: 1, both: 2}
        for limit, count in limits.items():
            expected = b"".join(batch.data for batch in batches[at : at + count])
            for of_part, of_all in ((limit, _EVERYTHING), (_EVERYTHING, limit)):
                found = _read(examiner, cluster, replica, offset, of_part, of_all)
                answer = (found.error_code, _shown(found.records), found.high_watermark, found.log_start_offset)
                examiner.expect(
                    f"{about}, read from {offset} with room for {limit} bytes",
                    answer,
                    (ErrorCode.NONE, _shown(expected), replica.high_watermark, replica.log.start_offset),
                )
    end = _read(examiner, cluster, replica, replica.high_watermark, _EVERYTHING, _EVERYTHING)
    examiner.expect(f"{about}, read from its end", (end.error_code, end.records), (ErrorCode.NONE, b""))
    wrong = [replica.log.end_offset + 1, *([replica.log.start_offset - 1] if replica.log.start_offset else [])]
    for offset in wrong:
        beyond = _read(examiner, cluster, replica, offset, _EVERYTHING, _EVERYTHING)
        examiner.expect(f"{about}, read from {offset}", beyond.error_code, ErrorCode.OFFSET_OUT_OF_RANGE)


def _shown(records: bytes) -> str:
    """Batches by their offsets and checksums, so that a wrong answer can be read."""
    return " ".join(
        f"{header.base_offset}-{header.last_offset}:{header.crc:08x}" for _, header in iterate_headers(records)
    )


def _refusals(examiner: Examiner, cluster: SimulatedCluster, topic: str, number: int) -> None:
    """Reads and questions of another leader epoch, to another broker, and of what there is not."""
    replica = leading_replica(examiner, cluster, topic, number)
    state = examiner.state(cluster, topic, number)
    leader, epoch = replica.broker_id, replica.leader_epoch
    cases = [(leader, topic, number, epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH)]
    if epoch:
        cases.append((leader, topic, number, epoch - 1, ErrorCode.FENCED_LEADER_EPOCH))
    cases += [
        (other, topic, number, epoch, ErrorCode.NOT_LEADER_OR_FOLLOWER) for other in state.replicas if other != leader
    ]
    cases.append((leader, topic, _NO_PARTITION, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    for broker, name, partition, in_epoch, error in cases:
        listing = ListOffsetsRequest((ListOffsetsPartition(name, partition, _LATEST, in_epoch),))
        ends = OffsetForLeaderEpochRequest((EpochEndPartition(name, partition, in_epoch, epoch),), replica_id=-1)
        about = f"{name}-{partition} in epoch {in_epoch}"
        for request in (listing, ends):
            response = examiner.ask(cluster, broker, request)
            examiner.expect(f"broker {broker}, {about}", response.partitions[0].error_code, error)  # type: ignore[union-attr]
        if error != ErrorCode.NOT_LEADER_OR_FOLLOWER:  # a consumer may read from a follower (KIP-392)
            part = FetchPartition(name, partition, replica.high_watermark, _EVERYTHING, in_epoch)
            fetched = examiner.ask(cluster, broker, FetchRequest((part,), max_wait_ms=0))
            examiner.expect(f"broker {broker}, a read of {about}", fetched.partitions[0].error_code, error)  # type: ignore[union-attr]
    no_time = _listed(examiner, cluster, replica, _NO_SUCH_TIME)
    examiner.expect(
        f"broker {leader}, an offset for {_NO_SUCH_TIME}", no_time.error_code, ErrorCode.UNSUPPORTED_VERSION
    )


def _racks(examiner: Examiner, cluster: SimulatedCluster, topic: str, number: int) -> None:
    """Where a consumer is to read: from a follower in its rack that is in sync, if the brokers are in racks (FE-13)."""
    replica = leading_replica(examiner, cluster, topic, number)
    up = dict(brokers_up(cluster))
    own = up[replica.broker_id].settings
    part = FetchPartition(topic, number, replica.high_watermark, _EVERYTHING, replica.leader_epoch)
    for rack in sorted({"", "elsewhere", *(broker.settings.rack or "" for broker in up.values())}):
        found = _fetched(examiner, cluster, replica.broker_id, FetchRequest((part,), max_wait_ms=0, rack_id=rack))
        near = [one for one in replica.isr if rack and rack != own.rack and up[one].settings.rack == rack]
        advised = found.partitions[0].preferred_read_replica
        about = f"broker {replica.broker_id}, where a consumer in the rack {rack!r} is to read {topic}-{number}"
        examiner.expect(about, advised in (near or [NO_PREFERRED_REPLICA]), True)
        if near:
            _read_nearby(examiner, cluster, replica, advised, rack)


def _read_nearby(examiner: Examiner, cluster: SimulatedCluster, replica: Replica, follower: int, rack: str) -> None:
    """A follower shows a consumer in its rack what the leader shows: up to where the first of their segments ends.

    It may have deleted more than a leader that an unclean election chose, and shows what it still has.
    """
    its_own = dict(brokers_up(cluster))[follower].replicas.get((replica.topic, replica.partition))
    begins = max(replica.log.start_offset, its_own.log.start_offset if its_own is not None else 0)
    part = FetchPartition(replica.topic, replica.partition, begins, _EVERYTHING)
    shown = []
    for broker, named in ((replica.broker_id, ""), (follower, rack)):
        found = _fetched(examiner, cluster, broker, FetchRequest((part,), max_wait_ms=0, rack_id=named))
        shown.append(_shown(found.partitions[0].records).split())
    size = max(1, min(map(len, shown)))
    expected, told = (batches[:size] for batches in shown)
    examiner.expect(f"broker {follower}, read by a consumer in its rack", told, expected)


def _producers(examiner: Examiner, cluster: SimulatedCluster, topic: str, number: int) -> None:
    """The idempotent producers whose last batches are in the log, on each replica, whose log may begin later."""
    replica = leading_replica(examiner, cluster, topic, number)
    headers = [batch.header for batch in batches_of(replica) if batch.header.producer_id >= 0]
    up = dict(brokers_up(cluster))
    for broker in replica.replicas:
        own = up[broker].replicas.get((topic, number))
        start = 0 if own is None else own.log.start_offset
        last = {
            one.producer_id: DescribedProducer(
                one.producer_id, one.producer_epoch, one.last_sequence, one.max_timestamp
            )
            for one in headers
            if one.last_offset >= start
        }
        response = examiner.ask(cluster, broker, DescribeProducersRequest(((topic, number), (topic, _NO_PARTITION))))
        assert isinstance(response, DescribeProducersResponse)
        about = f"broker {broker}, producers of {topic}-{number}"
        errors = [one.error_code for one in response.partitions]
        examiner.expect(about, errors, [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
        found = {one.producer_id: one for one in response.partitions[0].producers}
        for producer_id, described in found.items():
            if producer_id in last:
                examiner.expect(about, described, last[producer_id])
            else:
                examiner.expect(f"{about}, the time of one without a batch", described.last_timestamp, -1)
        if not examiner.producers_expire:
            missing = [producer_id for producer_id in last if producer_id not in found]
            examiner.expect(f"{about}, those that are missing", missing, [])


# --- sessions --------------------------------------------------------------------------------------------------------


def _fetched(examiner: Examiner, cluster: SimulatedCluster, broker: int, request: FetchRequest) -> FetchResponse:
    response = examiner.ask(cluster, broker, request)
    assert isinstance(response, FetchResponse)
    return response


def _sessions(examiner: Examiner, cluster: SimulatedCluster) -> None:
    """A fetch session of a consumer: all at first, then only what is news; no longer what is forgotten (KIP-227)."""
    replica = leading_replica(examiner, cluster, PLAIN, 0)
    broker = replica.broker_id
    about = f"broker {broker}, a fetch session"
    whole = FetchPartition(PLAIN, 0, replica.high_watermark, _EVERYTHING, replica.leader_epoch)
    absent = FetchPartition(PLAIN, _NO_PARTITION, 0, _EVERYTHING)
    begun = _fetched(examiner, cluster, broker, FetchRequest((whole,), max_wait_ms=0, session_epoch=_NEW_SESSION))
    examiner.expect(f"{about}, its first answer", [one.partition for one in begun.partitions], [0])
    examiner.expect(f"{about}, its id", begun.session_id > 0, True)

    def go_on(epoch: int, *parts: FetchPartition, forgotten: bool = False) -> FetchResponse:
        gone = ((PLAIN, "", 0),) if forgotten else ()
        request = FetchRequest(parts, max_wait_ms=0, session_id=begun.session_id, session_epoch=epoch, forgotten=gone)
        return _fetched(examiner, cluster, broker, request)

    examiner.expect(f"{about}, without news", go_on(1).partitions, ())
    records = encode_values((7,), Producer())
    examiner.produce(cluster, "a batch for a session", ProducePartition(PLAIN, 0, records), ErrorCode.NONE)
    news = go_on(2).partitions
    examiner.expect(f"{about}, with a batch", [(one.partition, bool(one.records)) for one in news], [(0, True)])
    again = go_on(3).partitions  # the session still asks for the same offset
    examiner.expect(f"{about}, asked again", [bool(one.records) for one in again], [True])
    both = go_on(4, absent).partitions
    errors = sorted((one.partition, one.error_code) for one in both)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    examiner.expect(f"{about}, with a partition more", errors, [(0, ErrorCode.NONE), (_NO_PARTITION, unknown)])
    left = go_on(5, forgotten=True).partitions
    examiner.expect(f"{about}, without what is forgotten", [one.partition for one in left], [_NO_PARTITION])
    examiner.expect(f"{about}, in an old epoch", go_on(3).error_code, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    ended = FetchRequest((whole,), max_wait_ms=0, session_id=begun.session_id, session_epoch=_END_SESSION)
    examiner.expect(f"{about}, its last answer", len(_fetched(examiner, cluster, broker, ended).partitions), 1)
    examiner.expect(f"{about}, after its end", go_on(6).error_code, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def _others(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int]) -> None:
    """Reads of a topic by an id that there is not."""
    part = FetchPartition("", 0, 0, _EVERYTHING, topic_id=NO_ID)
    for broker in brokers:
        examiner.errors(
            cluster,
            broker,
            "a topic that there is not",
            FetchRequest((part,), max_wait_ms=0),
            ErrorCode.UNKNOWN_TOPIC_ID,
        )
