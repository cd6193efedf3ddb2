"""Decides how a commit of offsets ended from its attempts: the requests that a library sent, and their responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from workloads.clients.base import Partition
from workloads.clients.classify import AttemptEnd, Local, Status
from workloads.clients.optional_interfaces import CommitEnd

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

    def answered(self, codes: Iterable[int]) -> None:
        """Store the codes of a response, one for each partition."""
        self.ends = set(codes)

    @property
    def succeeded(self) -> bool:
        """Whether the coordinator accepted all offsets."""
        return self.ends == {0}

    @property
    def may_count(self) -> bool:
        """Whether the coordinator may have written any offset."""
        return not self.ends <= COMMIT_REFUSED


def commit_end(attempts: list[CommitAttempt], failure: Exception | None, *, refused_here: bool) -> CommitEnd:
    """How a commit ended; `failure`: what the library raised; `refused_here`: the library refused to send it."""
    status = classify_commit(attempts, returned=failure is None, refused_here=refused_here)
    name = None if failure is None else type(failure).__name__
    if not attempts:
        return CommitEnd(status, name)
    last = attempts[-1]
    in_doubt = status == "ok" and any(attempt.may_count for attempt in attempts[:-1])
    return CommitEnd(status, name, last.node, last.member, last.generation, in_doubt)


def classify_commit(attempts: list[CommitAttempt], *, returned: bool, refused_here: bool) -> Status:
    """Classify a commit; `returned`: the library raised nothing; `refused_here`: the library refused to send it."""
    if returned and attempts and attempts[-1].succeeded:
        return "ok"
    if attempts:
        return "info" if any(attempt.may_count for attempt in attempts) else "fail"
    return "fail" if refused_here else "info"
