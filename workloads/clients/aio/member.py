"""A member of a consumer group, through `aiokafka.AIOKafkaConsumer`, and the outcomes of its commits.

aiokafka retries commits internally and reports only the last attempt, and it takes some refusals for "nothing was
committed", so what it exchanges with the coordinator is observed. It knows eager assignors alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError, InvalidSessionTimeoutError, KafkaError, for_code
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest

from workloads.clients.aio.loop import MARGIN_S, Loop, cancel_others, ignored_client_errors
from workloads.clients.aio_calls import FETCH_WAIT_MS, Untyped
from workloads.clients.base import POLL_RECORDS_MAX, ClientError, ClientSettings, Partition, Poll, PolledRecord
from workloads.clients.commits import CommitAttempt, commit_end
from workloads.clients.group_changes import GroupChanges, polled_by_member
from workloads.clients.optional_interfaces import (
    Assigned,
    CommitEnd,
    CommittedReply,
    Membership,
    Revoked,
    SessionRefusedError,
)

_ANSWERS: ContextVar[list[Untyped]] = ContextVar("answers to the query for a committed offset that is in progress")


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Stores assignments and revocations; called on the event loop."""

    def __init__(self, changes: GroupChanges) -> None:
        self.consumer: Untyped = None
        self._changes = changes

    def on_partitions_revoked(self, revoked: Untyped) -> None:
        if revoked:
            self._changes.revoked(_partitions(revoked))

    def on_partitions_assigned(self, assigned: Untyped) -> None:
        coordinator = self.consumer._coordinator
        self._changes.assigned(str(coordinator.member_id), int(coordinator.generation), _partitions(assigned))


class AiokafkaMember:
    """Implements `workloads.clients.optional_interfaces.GroupMember`."""

    def __init__(self, settings: ClientSettings, membership: Membership, now: Callable[[], int]) -> None:
        """Connect. Raises `ClientError`."""
        self._changes = GroupChanges(now, membership.assignor)
        self._positions: dict[Partition, int] = {}
        self._attempts: list[CommitAttempt] = []
        self._timeout_s = settings.request_timeout_ms / 1000 + MARGIN_S
        self._loop = Loop("aiokafka-member")
        try:
            self._consumer = self._loop.call(self._started(settings, membership), self._timeout_s)
        except ClientError:
            self._loop.close()
            raise

    def poll(self, timeout_s: float) -> Poll:
        """Return available records (see `GroupMember`)."""
        work = self._consumer.getmany(timeout_ms=int(timeout_s * 1000), max_records=POLL_RECORDS_MAX)
        changed = len(self._changes)
        try:
            fetched = self._loop.call(work, timeout_s + self._timeout_s)
        except ClientError as error:
            self._positions = {}  # it may have skipped records before it failed, which were never returned
            if isinstance(error.__cause__, InvalidSessionTimeoutError):
                raise SessionRefusedError(str(error)) from error
            raise
        if len(self._changes) > changed:
            self._positions = {}  # the records are of the newest assignment
        records = {
            Partition(*key): [PolledRecord(message.offset, None, message.value) for message in messages]
            for key, messages in fetched.items()
            if messages
        }
        return Poll([polled_by_member(self._positions, partition, each) for partition, each in records.items()])

    def changes(self) -> Sequence[Assigned | Revoked]:
        """Return assignments and revocations since the last call."""
        return self._changes.take()

    def commit(self, offsets: Mapping[Partition, int], timeout_s: float) -> CommitEnd:
        """Commit (see `GroupMember`)."""
        self._attempts.clear()
        wanted = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
        failure: Exception | None = None
        try:
            self._loop.call(self._consumer.commit(wanted), timeout_s)
        except ClientError as error:
            failure = error.__cause__ if isinstance(error.__cause__, Exception) else error
        attempts = [attempt for attempt in self._attempts if attempt.offsets == offsets]
        refused_here = isinstance(failure, CommitFailedError | IllegalStateError)
        return commit_end(attempts, failure, refused_here=refused_here)

    def committed(self, partition: Partition, timeout_s: float) -> CommittedReply:
        """Query (see `GroupMember`)."""
        offset, node = self._loop.call(self._asked(TopicPartition(*partition)), timeout_s)
        return CommittedReply(offset, node)

    def leave(self) -> None:
        """Leave the group and disconnect."""
        try:
            self._loop.call(self._consumer.stop(), MARGIN_S)
        finally:
            self._drop()

    def crash(self) -> None:
        """Stop the heartbeat and drop all connections."""
        self._drop()

    def _drop(self) -> None:
        self._consumer._closed = True
        with ignored_client_errors():
            self._loop.call(cancel_others(), MARGIN_S)
            self._loop.call(self._consumer._client.close(), MARGIN_S)
        self._loop.close()

    async def _started(self, settings: ClientSettings, membership: Membership) -> Untyped:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=list(settings.bootstrap),
            **settings.security.python_options(),
            client_id=settings.client_id,
            group_id=membership.group,
            group_instance_id=membership.instance,
            partition_assignment_strategy=(RangePartitionAssignor,),
            session_timeout_ms=membership.session_timeout_ms,
            heartbeat_interval_ms=membership.heartbeat_interval_ms,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=FETCH_WAIT_MS,
            # A join ends with the sessions of members that are gone; a request that is given up joins once more.
            request_timeout_ms=membership.session_timeout_ms + settings.request_timeout_ms,
            metadata_max_age_ms=settings.metadata_max_age_ms,
        )
        listener = _Listener(self._changes)
        listener.consumer = consumer
        try:
            await asyncio.wait_for(consumer.start(), settings.request_timeout_ms / 1000)
        except (KafkaError, TimeoutError):
            await consumer.stop()
            raise
        self._observe(consumer._coordinator)
        consumer.subscribe(list(membership.topics), listener=listener)  # else `start` would wait for the group
        return consumer

    def _observe(self, coordinator: Untyped) -> None:
        send = coordinator._send_req

        async def observed(request: Untyped) -> Untyped:
            if not isinstance(request, OffsetCommitRequest):
                response = await send(request)
                if isinstance(request, OffsetFetchRequest) and (answers := _ANSWERS.get(None)) is not None:
                    answers.append(response)
                return response
            attempt = CommitAttempt(_offsets(request), coordinator.coordinator_id, *_sender(request))
            self._attempts.append(attempt)
            response = await send(request)
            attempt.answered(int(code) for _, partitions in response.topics for _, code in partitions)
            return response

        coordinator._send_req = observed

    async def _asked(self, key: Untyped) -> tuple[int | None, int | None]:
        coordinator = self._consumer._coordinator
        answers: list[Untyped] = []
        _ANSWERS.set(answers)
        found = await coordinator.fetch_committed_offsets([key])
        if answers and (refused := _refusal(answers[-1], key)):
            raise for_code(refused)
        return (int(found[key].offset) if key in found else None), coordinator.coordinator_id


def _refusal(response: Untyped, key: Untyped) -> int:
    """The error of the group, or else of the partition, in an answer about committed offsets; 0 if there is none."""
    of_partition = [
        int(code)
        for topic, partitions in response.topics
        for partition, _, _, code in partitions
        if (topic, partition) == tuple(key)
    ]
    return next(filter(None, (int(getattr(response, "error_code", 0)), *of_partition)), 0)


def _partitions(keys: Untyped) -> frozenset[Partition]:
    return frozenset(Partition(*key) for key in keys)


def _offsets(request: Untyped) -> dict[Partition, int]:
    return {Partition(topic, each[0]): int(each[1]) for topic, partitions in request._topics for each in partitions}


def _sender(request: Untyped) -> tuple[str, int]:
    """Member and generation, as they are sent."""
    return request._consumer_id, int(request._consumer_group_generation_id)
