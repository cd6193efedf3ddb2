"""A member of a consumer group, through `kafka.KafkaConsumer`.

The listener of rebalances is called on the library's I/O thread, which must not wait: it only stores which
partitions changed and when.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import CommitFailedError, KafkaError, RebalanceInProgressError
from kafka.structs import OffsetAndMetadata

from workloads.clients.base import ClientError, ClientSettings, Partition, Poll, PolledPartition
from workloads.clients.groups import Assigned, CommitEnd, CommittedReply, Membership, Revoked
from workloads.clients.kafka_python.commits import GroupWatch, classify_commit
from workloads.clients.kafka_python.consumer import (
    FETCH_WAIT_MS,
    POLL_RECORDS_MAX,
    FetchWatch,
    client_errors,
    finished_poll,
    with_records,
)
from workloads.clients.kafka_python.wire import Untyped, watched_client

CLOSE_MS: Final = 1_000


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Stores assignments and revocations."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.consumer: Untyped = None
        self.changes: deque[Assigned | Revoked] = deque()
        self._now = now

    def on_partitions_revoked(self, revoked: Untyped) -> None:
        self.changes.append(Revoked(self._now(), _partitions(revoked)))

    def on_partitions_assigned(self, assigned: Untyped) -> None:
        joined = self.consumer.group_metadata()
        self.changes.append(
            Assigned(self._now(), str(joined.member_id), int(joined.generation_id), _partitions(assigned))
        )

    def on_partitions_lost(self, lost: Untyped) -> None:
        self.changes.append(Revoked(self._now(), _partitions(lost)))


class KafkaPythonMember:
    """Implements `workloads.clients.groups.GroupMember`."""

    def __init__(self, settings: ClientSettings, membership: Membership, now: Callable[[], int]) -> None:
        self._fetches = FetchWatch()
        self._group = GroupWatch()
        self._positions: dict[Partition, int] = {}
        self._listener = _Listener(now)
        with client_errors():
            self._consumer = KafkaConsumer(
                bootstrap_servers=list(settings.bootstrap),
                client_id=settings.client_id,
                group_id=membership.group,
                session_timeout_ms=membership.session_timeout_ms,
                heartbeat_interval_ms=membership.heartbeat_interval_ms,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
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
            self._listener.consumer = self._consumer
            self._consumer.subscribe(list(membership.topics), listener=self._listener)

    def poll(self, timeout_s: float) -> Poll:
        """Return available records (see `GroupMember`)."""
        started_ns = time.monotonic_ns()
        changed = len(self._listener.changes)
        try:
            with client_errors():
                fetched = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        except ClientError:
            self._positions = {}  # it may have skipped records before it failed, which were never returned
            raise
        if len(self._listener.changes) > changed:
            self._positions = {}  # the records are of the newest assignment
        polled = [self._with_records(Partition(*key), rows, started_ns) for key, rows in fetched.items()]
        return finished_poll(polled, self._positions, self._fetches, started_ns)

    def changes(self) -> Sequence[Assigned | Revoked]:
        """Return assignments and revocations since the last call."""
        return [self._listener.changes.popleft() for _ in range(len(self._listener.changes))]

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
        status = classify_commit(attempts, returned=failure is None, refused_here=refused_here)
        name = None if failure is None else type(failure).__name__
        if not attempts:
            return CommitEnd(status, name)
        last = attempts[-1]
        in_doubt = status == "ok" and any(attempt.may_count for attempt in attempts[:-1])
        return CommitEnd(status, name, last.node, last.member, last.generation, in_doubt)

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
        first = int(records[0].offset)
        position = min(self._positions.get(partition, first), first)
        return with_records(partition, position, records, self._fetches.answer(partition, position, started_ns))


def _partitions(keys: Untyped) -> frozenset[Partition]:
    return frozenset(Partition(*key) for key in keys)
