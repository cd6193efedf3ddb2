"""The ledger of a group member: what became of its commits, and what it was told of committed offsets.

`KafkaConsumer.commit` retries inside and tells only of the last attempt, and takes an unknown topic for "nothing was
committed". So requests and answers are looked at as they pass.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest

from workloads.clients.base import Partition
from workloads.clients.classify import AttemptEnd, Local, Status
from workloads.clients.kafka_python.wire import Untyped

COMMIT_REFUSED: Final = frozenset(
    {
        12,  # OFFSET_METADATA_TOO_LARGE
        14,  # COORDINATOR_LOAD_IN_PROGRESS
        22,  # ILLEGAL_GENERATION
        24,  # INVALID_GROUP_ID
        25,  # UNKNOWN_MEMBER_ID
        27,  # REBALANCE_IN_PROGRESS
        29,  # TOPIC_AUTHORIZATION_FAILED
        30,  # GROUP_AUTHORIZATION_FAILED
        82,  # FENCED_INSTANCE_ID
    }
)
"""Codes with which a coordinator refuses a commit before it writes anything. NOT_COORDINATOR is none of them: a
coordinator that is deposed while it waits for its replicas says that too."""


@dataclass
class CommitAttempt:
    """One request."""

    offsets: Mapping[Partition, int]
    node: int | None
    member: str
    generation: int
    ends: set[AttemptEnd] = field(default_factory=lambda: {Local.NO_ANSWER})

    @property
    def succeeded(self) -> bool:
        """Whether the coordinator took all of it."""
        return self.ends == {0}

    @property
    def may_count(self) -> bool:
        """Whether anything of it may be written."""
        return not self.ends <= COMMIT_REFUSED


class _Told(NamedTuple):
    sent_ns: int
    node: int | None
    offset: int | None


class GroupWatch:
    """Written by the library's I/O thread, read by the member's."""

    def __init__(self) -> None:
        self._attempts: list[CommitAttempt] = []
        self._told: dict[Partition, _Told] = {}

    def watch(self, node: object, request: Untyped, future: Untyped) -> None:
        """See a request leave (see `watched_client`)."""
        if isinstance(request, OffsetCommitRequest) and not future.failed():
            attempt = CommitAttempt(
                dict(_committed(request)), node_number(node), request.member_id, request.generation_id_or_member_epoch
            )
            self._attempts.append(attempt)
            future.add_callback(self._answered, attempt)
        elif isinstance(request, OffsetFetchRequest):
            future.add_callback(self._fetched, node_number(node), time.monotonic_ns())

    def take_attempts(self, offsets: Mapping[Partition, int]) -> list[CommitAttempt]:
        """Give the attempts to commit just these offsets, and forget all."""
        attempts, self._attempts = self._attempts, []
        return [attempt for attempt in attempts if attempt.offsets == offsets]

    def told(self, partition: Partition, since_ns: int) -> tuple[int | None, int | None] | None:
        """Give the offset and the node of an answer to a question that was sent since then, if there was one."""
        told = self._told.get(partition)
        return None if told is None or told.sent_ns < since_ns else (told.offset, told.node)

    def _answered(self, attempt: CommitAttempt, response: Untyped) -> None:
        attempt.ends = {int(partition.error_code) for topic in response.topics for partition in topic.partitions}

    def _fetched(self, node: int | None, sent_ns: int, response: Untyped) -> None:
        newer = response.API_VERSION >= 8
        source = response.groups[0] if newer else response
        if (source.error_code if newer or response.API_VERSION >= 2 else 0) != 0:
            return
        for topic in source.topics:
            for data in topic.partitions:
                if data.error_code == 0:
                    offset = int(data.committed_offset)
                    told = _Told(sent_ns, node, offset if offset >= 0 else None)
                    self._told[Partition(topic.name, data.partition_index)] = told


def classify_commit(attempts: list[CommitAttempt], *, returned: bool, refused_here: bool) -> Status:
    """Classify a commit; `returned`: the library did not complain; `refused_here`: nothing was ever to be sent."""
    if returned and attempts and attempts[-1].succeeded:
        return "ok"
    if attempts:
        return "info" if any(attempt.may_count for attempt in attempts) else "fail"
    return "fail" if refused_here else "info"


def node_number(node: object) -> int | None:
    """Give the broker behind a node id of kafka-python, which has ids of its own for coordinators."""
    text = str(node).removeprefix("coordinator-")
    return int(text) if text.isdecimal() else None


def _committed(request: Untyped) -> Iterator[tuple[Partition, int]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield Partition(topic.name, partition.partition_index), int(partition.committed_offset)
