"""Checks what an operator is told about records that are to be deleted (P-A1)."""

from __future__ import annotations

from broker.core.messages import DeletedRecords, DeleteRecordsRequest, DeleteRecordsResponse
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import Reply, RequestReceived
from broker.core.replica.state import Role
from simulation.engine.cluster import EventStep
from simulation.invariants.ghost import Ghost, ReplicaMirror
from simulation.invariants.knowledge import BrokerMirror, Knowledge
from simulation.invariants.log_starts import TO_HIGH_WATERMARK


def arrived(broker: BrokerMirror, request: DeleteRecordsRequest) -> None:
    """Before a step in which a broker is asked to delete records: note where the logs begin, and what is asked."""
    for part in request.partitions:
        mirror = broker.mirrors.get((part.topic, part.partition))
        if mirror is not None:
            broker.deleting[part.topic, part.partition] = (part.offset, mirror.start)


def over(known: Knowledge, broker: BrokerMirror, step: EventStep) -> None:
    """P-A1 after that step."""
    asked, broker.deleting = broker.deleting, {}
    event = step.event
    for effect in step.effects:
        if not isinstance(effect, Reply) or not isinstance(event, RequestReceived):
            continue
        if effect.request_id == event.request_id and isinstance(effect.response, DeleteRecordsResponse):
            for deleted in effect.response.partitions:
                mirror = broker.mirrors.get((deleted.topic, deleted.partition))
                ghost = known.ghost_held(broker, deleted.topic, deleted.partition)
                found = asked.get((deleted.topic, deleted.partition))
                if mirror is not None and ghost is not None and found is not None:
                    _check(known, ghost, mirror, deleted, *found)


def _check(
    known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, deleted: DeletedRecords, offset: int, before: int
) -> None:
    wanted = mirror.high_watermark if offset == TO_HIGH_WATERMARK else offset
    error = ErrorCode(deleted.error_code)
    match error:
        case ErrorCode.NONE:
            is_so = mirror.start == max(before, wanted) == deleted.low_watermark and mirror.role is Role.LEADER
            if ghost.protects(mirror):
                is_so = is_so and wanted <= len(ghost.committed)
        case ErrorCode.OFFSET_OUT_OF_RANGE:
            is_so = not 0 <= wanted <= mirror.high_watermark and mirror.start == before
        case ErrorCode.NOT_LEADER_OR_FOLLOWER:
            is_so = mirror.role is not Role.LEADER and mirror.start == before
        case ErrorCode.POLICY_VIOLATION:  # only where records are only compacted
            is_so = mirror.start == before and ghost.contents is not None
        case _:
            is_so = mirror.start == before
    if not is_so:
        known.fail(
            ghost,
            "P-A1",
            f"broker {mirror.holder}, {mirror.role.value} in epoch {mirror.leader_epoch} with the high watermark "
            f"{mirror.high_watermark}, was asked to delete what is before {offset} and answered {error.name}, low "
            f"watermark {deleted.low_watermark}; its log began at {before} and begins at {mirror.start}; committed up "
            f"to {len(ghost.committed)}",
        )
