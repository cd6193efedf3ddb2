"""What administrators have asked for, what the controllers did in the same step, and what was answered."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.core.messages import (
    AlterPartitionReassignmentsRequest,
    AnyRequest,
    AnyResponse,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)

_WITH_TIMEOUT = (
    CreateTopicsRequest
    | DeleteTopicsRequest
    | CreatePartitionsRequest
    | ElectLeadersRequest
    | AlterPartitionReassignmentsRequest
    | ListPartitionReassignmentsRequest
)


@dataclass(slots=True)
class Decision:
    """A request that a controller has handled: where its metadata log ended before that step, and after it."""

    request: AnyRequest
    before: int
    after: int


@dataclass(slots=True)
class Administered:
    """The observer's memory of administration."""

    decisions: dict[tuple[int, int], Decision] = field(default_factory=dict)
    """By controller and request id: what is not answered yet."""

    deletions: dict[tuple[int, int], DeleteTopicsRequest] = field(default_factory=dict)
    """Epoch and base offset of what a controller appended when it was asked to delete topics -> the request."""

    interrupted: list[DeleteTopicsRequest] = field(default_factory=list)
    """Requests that a controller was handling when its process ended: one deletion each may be in its log."""

    committing: tuple[int, int] = (-1, -1)
    """Epoch and base offset of the change that is being committed."""

    told: dict[AnyRequest, list[AnyResponse]] = field(default_factory=dict)
    """What controllers have answered to each request, without its time-out."""

    forwarded: dict[tuple[int, int], tuple[AnyRequest, int]] = field(default_factory=dict)
    """By broker and request id: requests of clients for the controller that are not answered yet.

    Each with when it came, in ms by the broker's clock.
    """

    def is_tried(self, node_id: int, request_id: int) -> bool:
        """Whether a node, controller or broker, was asked only to try what a request asks for."""
        decision = self.decisions.get((node_id, request_id))
        request = self.forwarded.get((node_id, request_id), (None, 0))[0] if decision is None else decision.request
        return request is not None and is_tried(request)


def without_timeout(request: AnyRequest) -> AnyRequest:
    """A request as it is however long its sender waits, since a broker passes it on with what is left of its time."""
    return request._replace(timeout_ms=0) if isinstance(request, _WITH_TIMEOUT) else request


def is_tried(request: AnyRequest) -> bool:
    """Whether a request asks only what would come of it, and is to change nothing."""
    return bool(getattr(request, "validate_only", False))
