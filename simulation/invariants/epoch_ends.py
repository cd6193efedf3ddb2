"""Checks what a leader says about the end of a leader epoch: to a lookup, and to a fetch that diverges (P-36).

A follower cuts its log by that answer, and a client its position: too low an end cuts more than differs, too high a one
leaves two logs that differ.
"""

from __future__ import annotations

from bisect import bisect_right

from broker.core.messages import (
    UNKNOWN,
    AnyRequest,
    AnyResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.replica.state import Role
from simulation.invariants.ghost import Batch, Ghost, ReplicaMirror
from simulation.invariants.knowledge import BrokerMirror, Knowledge


def answered(known: Knowledge, broker: BrokerMirror, request: AnyRequest, response: AnyResponse) -> None:
    """P-36, for each partition of a response."""
    if isinstance(request, FetchRequest) and isinstance(response, FetchResponse):
        if not response.partitions:
            return
        asked = {(part.topic_id or part.topic, part.partition): part for part in request.partitions}
        for answer in response.partitions:
            part = asked.get((answer.topic_id or answer.topic, answer.partition))
            if answer.error_code == ErrorCode.NONE and part is not None and part.last_fetched_epoch != UNKNOWN:
                found = _led(known, broker, answer.topic, answer.partition)
                if found is not None:
                    _check_fetch(known, *found, part, answer.diverging_epoch)
    elif isinstance(request, OffsetForLeaderEpochRequest) and isinstance(response, OffsetForLeaderEpochResponse):
        for wanted, end in zip(request.partitions, response.partitions, strict=True):
            found = _led(known, broker, end.topic, end.partition)
            if end.error_code == ErrorCode.NONE and found is not None:
                said = None if end.end_offset == UNKNOWN else (end.leader_epoch, end.end_offset)
                _check_end(known, *found, wanted.leader_epoch, said)


def _led(known: Knowledge, broker: BrokerMirror, topic: str, number: int) -> tuple[Ghost, ReplicaMirror] | None:
    """The log that a broker has as a leader; none of a compacted topic, in which whole epochs may be gone."""
    mirror, ghost = broker.mirrors.get((topic, number)), known.ghost_held(broker, topic, number)
    if mirror is None or ghost is None or ghost.contents is not None or mirror.role is not Role.LEADER:
        return None
    return ghost, mirror


def _check_fetch(
    known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, part: FetchPartition, said: tuple[int, int] | None
) -> None:
    """FE-6: a fetch diverges if the log has another past before its offset, and only then."""
    epoch, offset = part.last_fetched_epoch, part.fetch_offset
    before = mirror.entries[offset - 1] if mirror.start < offset <= len(mirror.entries) else None
    if said is not None:
        _check_end(known, ghost, mirror, epoch, said)
        if before is not None and before.epoch == epoch:
            _fail(known, ghost, mirror, f"that it diverges from a log with the epoch {epoch} before {offset}")
    elif before is not None and before.epoch > epoch:
        _fail(known, ghost, mirror, f"nothing of a log with the epoch {epoch} before {offset}, where it has {before}")


def _check_end(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, epoch: int, said: tuple[int, int] | None) -> None:
    """EC-2: the largest epoch not above the one that was asked for, and where it ends."""
    entries, start = mirror.entries, min(mirror.start, len(mirror.entries))
    end = bisect_right(entries, epoch, lo=start, key=_epoch_of)
    if said is None:
        if epoch >= 0 and end < len(entries):
            _fail(known, ghost, mirror, f"that it knows no end of epoch {epoch}; in its log it is {end}")
        return
    last = entries[end - 1] if end > start else None
    is_so = said[0] <= epoch and said[1] == end and (last is None or said[0] >= last.epoch)
    if not is_so:
        _fail(
            known,
            ghost,
            mirror,
            f"that epoch {said[0]} ends at {said[1]} when it was asked for {epoch}; it has {last} before {end}",
        )


def _epoch_of(batch: Batch | None) -> int:
    return -1 if batch is None else batch.epoch


def _fail(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, what: str) -> None:
    known.fail(ghost, "P-36", f"broker {mirror.holder}, leader of epoch {mirror.leader_epoch}, answered {what}")
