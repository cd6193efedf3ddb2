"""A member of a consumer group, through confluent-kafka, and the outcomes of its commits.

librdkafka retries commits internally and does not report the attempts. A retry waits for at least `RETRY_PAUSE_MS`, and
a broken connection is reported, so a commit that ended sooner and without such a report was one attempt.

A member leaves its group when it is closed. One that is dropped without being closed does not: librdkafka's threads and
connections end, and the group has it until its session times out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import confluent_kafka as rdkafka

from workloads.clients.base import POLL_RECORDS_MAX, ClientError, ClientSettings, Partition, Poll, PolledRecord
from workloads.clients.commits import COMMIT_REFUSED
from workloads.clients.confluent.calls import Untyped, client_errors, common_settings
from workloads.clients.group_changes import GroupChanges, polled_by_member
from workloads.clients.optional_interfaces import (
    Assigned,
    CommitEnd,
    CommittedReply,
    Membership,
    Revoked,
    SessionRefusedError,
)

RETRY_PAUSE_MS: Final = 500
_ONE_ATTEMPT_S: Final = 0.8 * RETRY_PAUSE_MS / 1000
"""librdkafka varies pauses by a fifth."""

_NO_OFFSET: Final = -1_001
_ASSIGNORS: Final = {"eager": "range", "cooperative": "cooperative-sticky"}
_METADATA: Final = b"CGMDv2:"
"""How librdkafka writes a consumer's membership: this, the generation, and texts that end with a zero byte."""


class Joined(NamedTuple):
    """A member's id, empty before it has joined, and its generation."""

    member: str
    generation: int


class ConfluentMember:
    """Implements `workloads.clients.optional_interfaces.GroupMember`."""

    def __init__(self, settings: ClientSettings, membership: Membership, now: Callable[[], int]) -> None:
        """Connect. Raises `ClientError`."""
        self._changes = GroupChanges(now, membership.assignor)
        self._positions: dict[Partition, int] = {}
        self._disturbances = 0
        static = {} if membership.instance is None else {"group.instance.id": membership.instance}
        with client_errors():
            self._consumer: Untyped = rdkafka.Consumer(
                common_settings(settings)
                | static
                | {
                    "group.id": membership.group,
                    "session.timeout.ms": membership.session_timeout_ms,
                    "heartbeat.interval.ms": membership.heartbeat_interval_ms,
                    "partition.assignment.strategy": _ASSIGNORS[membership.assignor],
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "earliest",
                    "topic.metadata.refresh.interval.ms": settings.metadata_max_age_ms,
                    "retry.backoff.ms": RETRY_PAUSE_MS,
                    "retry.backoff.max.ms": 2 * RETRY_PAUSE_MS,
                    "fetch.queue.backoff.ms": 0,
                    "fetch.wait.max.ms": 100,
                    "error_cb": self._disturbed,
                }
            )
            self._consumer.list_topics(timeout=settings.request_timeout_ms / 1000)
            self._consumer.subscribe(
                list(membership.topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )

    def poll(self, timeout_s: float) -> Poll:
        """Return available records (see `GroupMember`)."""
        changed = len(self._changes)
        with client_errors():
            messages = self._consumer.consume(POLL_RECORDS_MAX, min(timeout_s, 0.1))
        if len(self._changes) > changed:
            self._positions = {}  # the records are of the newest assignment
        records: dict[Partition, list[PolledRecord]] = {}
        failure = None
        for message in messages:
            if message.error() is not None:
                failure = failure or message.error().name()
            else:
                record = PolledRecord(message.offset(), message.leader_epoch(), message.value())
                records.setdefault(Partition(message.topic(), message.partition()), []).append(record)
        if failure == "INVALID_SESSION_TIMEOUT":
            raise SessionRefusedError(failure)
        if failure is not None and not records:
            raise ClientError(failure)
        return Poll([polled_by_member(self._positions, partition, each) for partition, each in records.items()])

    def changes(self) -> Sequence[Assigned | Revoked]:
        """Return assignments and revocations since the last call."""
        return self._changes.take()

    def commit(self, offsets: Mapping[Partition, int], timeout_s: float) -> CommitEnd:  # noqa: ARG002
        """Commit (see `GroupMember`). librdkafka ends it by itself, at the latest with the session."""
        joined = self._joined()
        wanted = [rdkafka.TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        started_s, disturbances = time.monotonic(), self._disturbances
        failed: list[Untyped] = []
        try:
            answered = self._consumer.commit(offsets=wanted, asynchronous=False)
            failed = [each.error for each in answered or () if each.error is not None]
        except rdkafka.KafkaException as error:
            failed = [error.args[0]]
        took_s = time.monotonic() - started_s
        once = took_s < _ONE_ATTEMPT_S and self._disturbances == disturbances
        if not failed:
            return CommitEnd("ok", None, None, joined.member or None, joined.generation, in_doubt=not once)
        refused = once and all(error.code() in COMMIT_REFUSED for error in failed)
        return CommitEnd(
            "fail" if refused else "info", failed[0].name(), None, joined.member or None, joined.generation
        )

    def committed(self, partition: Partition, timeout_s: float) -> CommittedReply:
        """Query (see `GroupMember`)."""
        with client_errors():
            (found,) = self._consumer.committed([rdkafka.TopicPartition(*partition)], timeout=timeout_s)
        if found.error is not None:
            raise ClientError(found.error.name())
        return CommittedReply(None if found.offset == _NO_OFFSET else int(found.offset))

    def leave(self) -> None:
        """Leave the group and disconnect."""
        with client_errors():
            self._consumer.close()

    def crash(self) -> None:
        """Drop the consumer: the last reference to it ends its heartbeat and its connections."""
        self._consumer = None

    def _joined(self) -> Joined:
        return joined_as(self._consumer.consumer_group_metadata())

    def _assigned(self, _consumer: Untyped, partitions: Sequence[Untyped]) -> None:
        joined = self._joined()
        self._changes.assigned(joined.member, joined.generation, _partitions(partitions))

    def _revoked(self, _consumer: Untyped, partitions: Sequence[Untyped]) -> None:
        self._changes.revoked(_partitions(partitions))

    def _disturbed(self, _error: Untyped) -> None:
        self._disturbances += 1


def joined_as(metadata: bytes) -> Joined:
    """Read a consumer's membership as librdkafka writes it. Raises `ClientError` for another format."""
    if not metadata.startswith(_METADATA):
        raise ClientError("UnknownGroupMetadata")
    generation, rest = metadata[len(_METADATA) :][:4], metadata[len(_METADATA) + 4 :]
    _group, member, *_ = rest.split(b"\0")
    return Joined(member.decode(), int.from_bytes(generation, "little", signed=True))


def _partitions(keys: Sequence[Untyped]) -> frozenset[Partition]:
    return frozenset(Partition(key.topic, key.partition) for key in keys)
