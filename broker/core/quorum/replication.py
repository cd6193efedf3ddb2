"""Replicates the metadata log: followers and observers fetch, the leader advances the high watermark (§18.4, §18.5)."""

from __future__ import annotations

from broker.core.log.validation import AppendError
from broker.core.messages import (
    NO_LEADER,
    UNKNOWN,
    DescribeQuorumResponse,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    QuorumReplica,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import METADATA_TOPIC
from broker.core.ports.events import Flush
from broker.core.ports.marks import sometimes
from broker.core.quorum import elections, snapshots
from broker.core.quorum.state import FetchProgress, Quorum, QuorumRole

FETCH_OF_OLD_EPOCH = sometimes("quorum fetch refused: the epoch is old (QU-3)")
FETCH_OF_NEW_EPOCH = sometimes("quorum fetch refused: the epoch is not known yet (QU-3)")
FETCH_NOT_LEADER = sometimes("quorum fetch refused: not the leader (QU-16)")
FETCH_BELOW_START = sometimes("quorum fetch: the log begins later, a snapshot is offered (QU-16)")
FETCH_OF_FORGOTTEN_EPOCH = sometimes("quorum fetch: the epoch is forgotten, a snapshot is offered (QU-16)")
FETCH_DIVERGES = sometimes("quorum fetch: the logs part (QU-16)")
TRUNCATED = sometimes("metadata log: cut where it parts from the leader's (QU-17)")
APPEND_REFUSED = sometimes("metadata log: what the leader sent does not fit")
OLD_ANSWER = sometimes("metadata log: an answer of another epoch or place is passed over (QU-4)")
COMMITTED = sometimes("metadata log: a majority holds it (QU-11)")
HELD_FOR_OWN_EPOCH = sometimes("metadata log: a majority holds records, and none of the leader's own epoch (QU-11)")

FETCH = "quorum-fetch"
FLUSH = "quorum-flush"
CHANNEL = "quorum-fetch"
_OBSERVER_FORGOTTEN_MS = 300_000

_REFUSED = {
    ErrorCode.FENCED_LEADER_EPOCH: FETCH_OF_OLD_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH: FETCH_OF_NEW_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: FETCH_NOT_LEADER,
}


# --- the end that counts ---------------------------------------------------------------------------------------------


def counted_end(quorum: Quorum) -> int:
    """QU-12: the log end that this voter may report."""
    return quorum.rules.end_that_counts(quorum.log.flushed_offset, quorum.log.end_offset)


def flush(quorum: Quorum) -> None:
    """Flush what was appended."""
    if quorum.flushing_to is None and quorum.log.flushed_offset < quorum.log.end_offset:
        quorum.flushing_to = (quorum.log.end_offset, quorum.log.truncations)
        quorum.runtime.effects.append(Flush(FLUSH, quorum.log.unflushed_files()))


def flushed(quorum: Quorum) -> bool:
    """Appended data is on the disk; returns whether the high watermark moved."""
    if quorum.flushing_to is not None:
        quorum.log.mark_flushed(*quorum.flushing_to)
        quorum.flushing_to = None
    flush(quorum)
    fetch(quorum)
    return advance_high_watermark(quorum)


def advance_high_watermark(quorum: Quorum) -> bool:
    """QU-11: the leader computes what a majority holds."""
    if not quorum.leads:
        return False
    ends = [counted_end(quorum), *(progress.log_end for progress in quorum.voters.values())]
    new = quorum.rules.high_watermark(ends, quorum.high_watermark, quorum.epoch_start)
    moved, quorum.high_watermark = new > quorum.high_watermark, new
    if moved:
        quorum.runtime.mark(COMMITTED)
    elif quorum.high_watermark < sorted(ends)[len(ends) - quorum.majority] <= quorum.epoch_start:
        quorum.runtime.mark(HELD_FOR_OWN_EPOCH)
    return moved


# --- leader ----------------------------------------------------------------------------------------------------------


def check_fetch(quorum: Quorum, part: FetchPartition) -> FetchedPartition | None:
    """QU-3, QU-16: the response to a fetch that gets no records; None if it may read."""
    error = ErrorCode.NONE
    if part.topic != METADATA_TOPIC or part.partition != 0:
        return FetchedPartition(part.topic, part.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if part.current_leader_epoch != UNKNOWN and part.current_leader_epoch < quorum.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    elif part.current_leader_epoch > quorum.epoch:
        error = ErrorCode.UNKNOWN_LEADER_EPOCH
    elif not quorum.leads:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if error != ErrorCode.NONE:
        quorum.runtime.mark(_REFUSED[error])
        return _answer(quorum, error)
    if part.fetch_offset < quorum.log.start_offset:
        quorum.runtime.mark(FETCH_BELOW_START)
        return _answer(quorum, ErrorCode.NONE)._replace(snapshot_id=quorum.snapshot_id)
    if part.last_fetched_epoch == UNKNOWN:
        in_log = part.fetch_offset <= quorum.log.end_offset
        return None if in_log else _answer(quorum, ErrorCode.OFFSET_OUT_OF_RANGE)
    if (part.last_fetched_epoch, part.fetch_offset) == quorum.snapshot_id[::-1]:
        return None
    if quorum.log.start_offset and (
        part.last_fetched_epoch < quorum.snapshot_id[1] or part.fetch_offset == quorum.log.start_offset
    ):
        quorum.runtime.mark(FETCH_OF_FORGOTTEN_EPOCH)
        # the log no longer shows whether the fetcher's end was ever committed
        return _answer(quorum, ErrorCode.NONE)._replace(snapshot_id=quorum.snapshot_id)
    end = quorum.log.epochs.end_offset(part.last_fetched_epoch, quorum.log.end_offset)
    if end is None:
        return _answer(quorum, ErrorCode.OFFSET_OUT_OF_RANGE)
    if end[0] < part.last_fetched_epoch or end[1] < part.fetch_offset:
        quorum.runtime.mark(FETCH_DIVERGES)
        return _answer(quorum, ErrorCode.NONE)._replace(diverging_epoch=end)
    return None


def record_fetch(quorum: Quorum, request: FetchRequest) -> bool:
    """QU-11: record a valid fetch's position as held; returns whether the high watermark moved."""
    part = request.partitions[0]
    now_ms = quorum.runtime.now_ms
    if request.replica_id in quorum.voters:
        progress = quorum.voters[request.replica_id]
        progress.log_end = part.fetch_offset
    elif request.replica_id >= 0:
        progress = quorum.observers.setdefault(request.replica_id, FetchProgress())
        progress.log_end = part.fetch_offset
    else:
        return False
    progress.last_fetch_ms = now_ms
    if part.fetch_offset >= quorum.log.end_offset:
        progress.caught_up_ms = now_ms
    return request.replica_id in quorum.voters and advance_high_watermark(quorum)


def touch_fetcher(quorum: Quorum, replica_id: int) -> None:
    """QU-13: a fetch that diverges or needs a snapshot proves nothing about the log, but that the voter is alive."""
    if replica_id in quorum.voters:
        quorum.voters[replica_id].last_fetch_ms = quorum.runtime.now_ms


def read(quorum: Quorum, request: FetchRequest) -> FetchedPartition:
    """QU-16, QU-25: voters read to the end of the log, observers what is committed."""
    part = request.partitions[0]
    bound = quorum.log.end_offset if request.replica_id in quorum.voters else quorum.high_watermark
    max_bytes = min(part.max_bytes, quorum.settings.metadata_fetch_max_bytes)
    records = quorum.log.read(part.fetch_offset, max_bytes, bound) if part.fetch_offset < bound else b""
    return _answer(quorum, ErrorCode.NONE, records)


def _answer(quorum: Quorum, error: ErrorCode, records: bytes = b"") -> FetchedPartition:
    return FetchedPartition(
        METADATA_TOPIC,
        0,
        error,
        quorum.high_watermark,
        quorum.high_watermark,
        quorum.log.start_offset,
        records,
        current_leader=(quorum.leader, quorum.epoch),
    )


# --- follower --------------------------------------------------------------------------------------------------------


def fetch(quorum: Quorum) -> None:
    """QU-12, QU-17: fetch from the end of this voter's log, once all of it is on the disk."""
    if quorum.role is not QuorumRole.FOLLOWER or quorum.fetching or quorum.snapshot_transfer is not None:
        return
    if counted_end(quorum) < quorum.log.end_offset:
        return
    settings = quorum.settings
    epoch, end = quorum.last_epoch_and_end()
    quorum.fetching = True
    quorum.runtime.send(
        quorum.leader,
        FetchRequest(
            (FetchPartition(METADATA_TOPIC, 0, end, settings.metadata_fetch_max_bytes, quorum.epoch, epoch),),
            replica_id=quorum.node_id,
            max_wait_ms=settings.metadata_fetch_wait_max_ms,
            cluster_id=settings.cluster_id,
        ),
        channel=CHANNEL,
        timeout_ms=settings.metadata_fetch_wait_max_ms + settings.controller_quorum_request_timeout_ms,
        purpose=FETCH,
    )


def fetched(quorum: Quorum, leader: int, request: FetchRequest, response: FetchResponse | None) -> None:
    """QU-4, QU-17: append, truncate, or load a snapshot."""
    quorum.fetching = False
    part = response.partitions[0] if response is not None and response.partitions else None
    asked = request.partitions[0]
    if part is None:
        _retry(quorum)
        return
    told_leader, told_epoch = part.current_leader or (NO_LEADER, UNKNOWN)
    if elections.follow_newer(quorum, told_epoch, told_leader):
        fetch(quorum)
        return
    present = (quorum.epoch, quorum.leader, quorum.log.end_offset)
    if quorum.role is not QuorumRole.FOLLOWER or (asked.current_leader_epoch, leader, asked.fetch_offset) != present:
        quorum.runtime.mark(OLD_ANSWER)
        fetch(quorum)
        return
    if part.error_code != ErrorCode.NONE:
        _retry(quorum)
        return
    elections.heard_from_leader(quorum, fetched=True)
    if part.snapshot_id is not None:
        snapshots.begin_transfer(quorum, part.snapshot_id)
        return
    if part.diverging_epoch is not None:
        _truncate(quorum, *part.diverging_epoch)
        fetch(quorum)
        return
    if part.records:
        try:
            quorum.log.append_as_follower(part.records, max_epoch=quorum.epoch)
        except AppendError as error:
            quorum.runtime.mark(APPEND_REFUSED)
            quorum.runtime.log("error", f"metadata log: {error}")
            _retry(quorum)
            return
        flush(quorum)
    quorum.high_watermark = max(quorum.high_watermark, min(part.high_watermark, quorum.log.end_offset))
    fetch(quorum)


def _retry(quorum: Quorum) -> None:
    quorum.runtime.set_timer((FETCH,), quorum.settings.metadata_retry_backoff_ms)


def _truncate(quorum: Quorum, epoch: int, end_offset: int) -> None:
    """QU-17: truncate to where the logs diverge; committed metadata is never cut."""
    own = quorum.log.epochs.end_offset(epoch, quorum.log.end_offset)
    offset = min(end_offset, own[1] if own is not None else end_offset, quorum.log.end_offset)
    if not quorum.rules.may_truncate_below(offset, quorum.high_watermark):
        raise AssertionError(f"metadata log would be cut to {offset}, below high watermark {quorum.high_watermark}")
    quorum.runtime.mark(TRUNCATED)
    quorum.log.truncate_to(offset)
    quorum.runtime.log("info", f"metadata log diverges from leader {quorum.leader}; cut to {offset}")


# --- description -----------------------------------------------------------------------------------------------------


def describe(quorum: Quorum) -> DescribeQuorumResponse:
    """QU-22: the progress of every voter and observer, according to the leader."""
    if not quorum.leads:
        return DescribeQuorumResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, quorum.leader, quorum.epoch)
    now_ms = quorum.runtime.now_ms
    wall_clock_ms, ahead_ms = quorum.runtime.wall_clock_ms, quorum.runtime.wall_clock_ahead_ms
    own = QuorumReplica(quorum.node_id, quorum.log.end_offset, wall_clock_ms, wall_clock_ms)
    voters = [own, *(_described(voter, progress, ahead_ms) for voter, progress in quorum.voters.items())]
    observers = [
        _described(observer, progress, ahead_ms)
        for observer, progress in quorum.observers.items()
        if now_ms - progress.last_fetch_ms < _OBSERVER_FORGOTTEN_MS
    ]
    return DescribeQuorumResponse(
        ErrorCode.NONE, quorum.leader, quorum.epoch, quorum.high_watermark, tuple(voters), tuple(observers)
    )


def _described(replica_id: int, progress: FetchProgress, wall_clock_ahead_ms: int) -> QuorumReplica:
    """The progress of a replica in times of day; -1 for what has not happened."""
    fetched, caught_up = (
        UNKNOWN if time_ms < 0 else time_ms + wall_clock_ahead_ms
        for time_ms in (progress.last_fetch_ms, progress.caught_up_ms)
    )
    return QuorumReplica(replica_id, progress.log_end, fetched, caught_up)
