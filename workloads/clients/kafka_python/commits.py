"""Tracks the outcomes of a group member's commits, and the answers to its committed-offset queries.

`KafkaConsumer.commit` retries internally and reports only the last attempt, and it takes an unknown topic for "nothing
was committed". So requests and responses are observed on the wire.
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
coordinator that is deposed while it waits for its replicas answers with it too."""


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
        """Whether the coordinator accepted all offsets."""
        return self.ends == {0}

    @property
    def may_count(self) -> bool:
        """Whether the coordinator may have written any offset."""
        return not self.ends <= COMMIT_REFUSED


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
                    answer = _CommittedAnswer(sent_ns, node, offset if offset >= 0 else None)
                    self._answers[Partition(topic.name, data.partition_index)] = answer


def classify_commit(attempts: list[CommitAttempt], *, returned: bool, refused_here: bool) -> Status:
    """Classify a commit; `returned`: the library raised nothing; `refused_here`: the library refused to send it."""
    if returned and attempts and attempts[-1].succeeded:
        return "ok"
    if attempts:
        return "info" if any(attempt.may_count for attempt in attempts) else "fail"
    return "fail" if refused_here else "info"


def node_number(node: object) -> int | None:
    """Return the broker of a node id of kafka-python, which has separate ids for coordinators."""
    text = str(node).removeprefix("coordinator-")
    return int(text) if text.isdecimal() else None


def _committed(request: Untyped) -> Iterator[tuple[Partition, int]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield Partition(topic.name, partition.partition_index), int(partition.committed_offset)
