"""A member of a consumer group, through `kafka.KafkaConsumer`, and the outcomes of its commits.

The listener of rebalances is called on the library's I/O thread, which must not wait: it only stores which
partitions changed and when. `KafkaConsumer.commit` retries internally and reports only the last attempt, and it takes
an unknown topic for "nothing was committed". So requests and responses are observed on the wire.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import CommitFailedError, InvalidSessionTimeoutError, KafkaError, RebalanceInProgressError
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.structs import OffsetAndMetadata

from workloads.clients.base import POLL_RECORDS_MAX, ClientError, ClientSettings, Partition, Poll, PolledPartition
from workloads.clients.commits import CommitAttempt, commit_end
from workloads.clients.group_changes import GroupChanges, position_of
from workloads.clients.kafka_python.consumer import (
    FETCH_WAIT_MS,
    FetchWatch,
    client_errors,
    finished_poll,
    with_records,
)
from workloads.clients.kafka_python.wire import Untyped, watched_client
from workloads.clients.optional_interfaces import (
    Assigned,
    CommitEnd,
    CommittedReply,
    Membership,
    Revoked,
    SessionRefusedError,
)

CLOSE_MS: Final = 1_000

_ASSIGNORS: Final = {
    "eager": (RangePartitionAssignor, RoundRobinPartitionAssignor),
    "cooperative": (CooperativeStickyAssignor,),
}


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Stores assignments and revocations."""

    def __init__(self, changes: GroupChanges) -> None:
        self.consumer: Untyped = None
        self._changes = changes

    def on_partitions_revoked(self, revoked: Untyped) -> None:
        self._changes.revoked(_partitions(revoked))

    def on_partitions_assigned(self, assigned: Untyped) -> None:
        joined = self.consumer.group_metadata()
        self._changes.assigned(str(joined.member_id), int(joined.generation_id), _partitions(assigned))

    def on_partitions_lost(self, lost: Untyped) -> None:
        self._changes.revoked(_partitions(lost))


class KafkaPythonMember:
    """Implements `workloads.clients.optional_interfaces.GroupMember`."""

    def __init__(self, settings: ClientSettings, membership: Membership, now: Callable[[], int]) -> None:
        self._fetches = FetchWatch()
        self._group = GroupWatch()
        self._positions: dict[Partition, int] = {}
        self._changes = GroupChanges(now, membership.assignor)
        listener = _Listener(self._changes)
        with client_errors():
            self._consumer = KafkaConsumer(
                bootstrap_servers=list(settings.bootstrap),
                **settings.security.python_options(),
                client_id=settings.client_id,
                group_id=membership.group,
                group_instance_id=membership.instance,
                partition_assignment_strategy=_ASSIGNORS[membership.assignor],
                session_timeout_ms=membership.session_timeout_ms,
                heartbeat_interval_ms=membership.heartbeat_interval_ms,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                # Committed offsets are asked for as stable ones (KIP-447): others may be those of before a failover.
                isolation_level="read_committed",
                enable_incremental_fetch_sessions=False,
                fetch_max_wait_ms=FETCH_WAIT_MS,
                max_poll_records=POLL_RECORDS_MAX,
                request_timeout_ms=settings.request_timeout_ms,
                bootstrap_timeout_ms=settings.request_timeout_ms,
                reconnect_backoff_max_ms=settings.reconnect_backoff_max_ms,
                metadata_max_age_ms=settings.metadata_max_age_ms,
                allow_auto_create_topics=False,
                metrics_enabled=False,
                kafka_client=watched_client(self._watch),
            )
            listener.consumer = self._consumer
            self._consumer.subscribe(list(membership.topics), listener=listener)

    def poll(self, timeout_s: float) -> Poll:
        """Return available records (see `GroupMember`)."""
        started_ns = time.monotonic_ns()
        changed = len(self._changes)
        try:
            with client_errors():
                fetched = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        except ClientError as error:
            self._positions = {}  # it may have skipped records before it failed, which were never returned
            if isinstance(error.__cause__, InvalidSessionTimeoutError):
                raise SessionRefusedError(str(error)) from error
            raise
        if len(self._changes) > changed:
            self._positions = {}  # the records are of the newest assignment
        polled = [self._with_records(Partition(*key), rows, started_ns) for key, rows in fetched.items()]
        return finished_poll(polled, self._positions, self._fetches, started_ns)

    def changes(self) -> Sequence[Assigned | Revoked]:
        """Return assignments and revocations since the last call."""
        return self._changes.take()

    def commit(self, offsets: Mapping[Partition, int], timeout_s: float) -> CommitEnd:
        """Commit (see `GroupMember`)."""
        self._group.take_attempts({})
        wanted = {
            TopicPartition(*partition): OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()
        }
        failure: Exception | None = None
        try:
            self._consumer.commit(wanted, timeout_ms=int(timeout_s * 1000))
        except (KafkaError, OSError, RuntimeError) as error:
            failure = error
        attempts = self._group.take_attempts(offsets)
        refused_here = isinstance(failure, CommitFailedError | RebalanceInProgressError)
        return commit_end(attempts, failure, refused_here=refused_here)

    def committed(self, partition: Partition, timeout_s: float) -> CommittedReply:
        """Query (see `GroupMember`)."""
        started_ns = time.monotonic_ns()
        with client_errors():
            self._consumer.committed(TopicPartition(*partition), timeout_ms=int(timeout_s * 1000))
        answer = self._group.answer(partition, started_ns)
        if answer is None:
            raise ClientError("NotAnswered")
        return CommittedReply(*answer)

    def leave(self) -> None:
        """Leave the group and disconnect."""
        with client_errors():
            self._consumer.close(autocommit=False, timeout_ms=CLOSE_MS)

    def crash(self) -> None:
        """Stop the heartbeat and drop all connections."""
        self._consumer._closed = True
        self._consumer._coordinator._close_heartbeat()
        with suppress(KafkaError, OSError, RuntimeError):  # it is not used any more
            self._consumer._client.close()

    def _watch(self, node: Untyped, request: Untyped, future: Untyped) -> None:
        self._fetches.watch(node, request, future)
        self._group.watch(node, request, future)

    def _with_records(self, partition: Partition, records: list[Untyped], started_ns: int) -> PolledPartition:
        position = position_of(self._positions, partition, int(records[0].offset))
        return with_records(partition, position, records, self._fetches, started_ns)


def _partitions(keys: Untyped) -> frozenset[Partition]:
    return frozenset(Partition(*key) for key in keys)


class _CommittedAnswer(NamedTuple):
    sent_ns: int
    node: int | None
    offset: int | None


class GroupWatch:
    """Observes commits and queries. Written by the library's I/O thread, read by the member's."""

    def __init__(self) -> None:
        self._attempts: list[CommitAttempt] = []
        self._answers: dict[Partition, _CommittedAnswer] = {}

    def watch(self, node: object, request: Untyped, future: Untyped) -> None:
        """Observe a request that is sent (see `watched_client`)."""
        if isinstance(request, OffsetCommitRequest) and not future.failed():
            attempt = CommitAttempt(
                dict(_committed(request)), node_number(node), request.member_id, request.generation_id_or_member_epoch
            )
            self._attempts.append(attempt)
            future.add_callback(self._answered, attempt)
        elif isinstance(request, OffsetFetchRequest):
            future.add_callback(self._fetched, node_number(node), time.monotonic_ns())

    def take_attempts(self, offsets: Mapping[Partition, int]) -> list[CommitAttempt]:
        """Return the attempts to commit exactly these offsets, and forget all attempts."""
        attempts, self._attempts = self._attempts, []
        return [attempt for attempt in attempts if attempt.offsets == offsets]

    def answer(self, partition: Partition, since_ns: int) -> tuple[int | None, int | None] | None:
        """Return offset and node of the answer to a query that was sent since then; None if there is none."""
        answer = self._answers.get(partition)
        return None if answer is None or answer.sent_ns < since_ns else (answer.offset, answer.node)

    def _answered(self, attempt: CommitAttempt, response: Untyped) -> None:
        attempt.answered(int(partition.error_code) for topic in response.topics for partition in topic.partitions)

    def _fetched(self, node: int | None, sent_ns: int, response: Untyped) -> None:
        newer = response.API_VERSION >= 8
        source = response.groups[0] if newer else response
        if (source.error_code if newer or response.API_VERSION >= 2 else 0) != 0:
            return
        for topic in source.topics:
            for data in topic.partitions:
                if data.error_code == 0:
                    offset = int(data.committed_offset)
                    answer = _CommittedAnswer(sent_ns, node, offset if offset >= 0 else None)
                    self._answers[Partition(topic.name, data.partition_index)] = answer


def node_number(node: object) -> int | None:
    """Return the broker of a node id of kafka-python, which has separate ids for coordinators."""
    text = str(node).removeprefix("coordinator-")
    return int(text) if text.isdecimal() else None


def _committed(request: Untyped) -> Iterator[tuple[Partition, int]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield Partition(topic.name, partition.partition_index), int(partition.committed_offset)
