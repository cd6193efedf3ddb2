"""A replica as follower: appends what the leader sends, truncates where the logs diverge (§12.3, §12.4)."""

from __future__ import annotations

from typing import NamedTuple

from broker.core.messages import UNKNOWN, FetchedPartition, FetchPartition
from broker.core.messages.errors import ErrorCode
from broker.core.replica.state import Replica, Role
from broker.core.rules import Rules


class AppendOutcome(NamedTuple):
    """What a response did to the replica. `retry` asks for a pause, `ask_offsets` for TR-8."""

    appended: int = 0  # offsets
    truncated_to: int | None = None
    cut_later_to: int | None = None
    retry: bool = False
    wait_for_metadata: bool = False
    out_of_range: bool = False


def become_follower(replica: Replica, rules: Rules, *, new_leader: bool) -> int | None:
    """RT-5: stop leading, start from this log's end. Returns the offset of a truncation, if there was one."""
    replica.role = Role.FOLLOWER
    replica.pending_isr = None
    replica.remotes = {}
    replica.retry_fetch_at_ms = 0
    replica.asks_for_place = False
    replica.compares_logs = rules.truncation.compares_logs(replica.compares_logs, new_leader=new_leader)
    offset = rules.truncation.on_becoming_follower(replica.high_watermark, replica.log.end_offset)
    return None if offset is None else truncate(replica, offset)


def fetch_position(replica: Replica, rules: Rules, max_bytes: int) -> FetchPartition:
    """The follower's next fetch position: log end, the epoch that ends there, epoch that it follows."""
    return FetchPartition(
        replica.topic,
        replica.partition,
        replica.log.end_offset,
        max_bytes,
        replica.leader_epoch,
        rules.truncation.last_fetched_epoch(replica.log.epoch_at_end) if replica.compares_logs else UNKNOWN,
        replica.log.start_offset,
        replica.topic_id,
    )


def take_answer(replica: Replica, asked: FetchPartition, answer: FetchedPartition, rules: Rules) -> AppendOutcome:
    """TR-1, TR-5 … TR-7, HW-5: apply one partition's part of a fetch response."""
    if asked.topic_id != replica.topic_id:
        return AppendOutcome()  # the topic was deleted meanwhile, and this is another one of its name
    present = (replica.log.end_offset, replica.leader_epoch)
    if not rules.truncation.accepts_answer((asked.fetch_offset, asked.current_leader_epoch), present):
        return AppendOutcome()
    if answer.error_code == ErrorCode.FENCED_LEADER_EPOCH:
        return AppendOutcome(wait_for_metadata=True)
    if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        cut_to = rules.truncation.when_out_of_range(replica.high_watermark)
        return (
            AppendOutcome(out_of_range=True)
            if cut_to is None
            else AppendOutcome(truncated_to=truncate(replica, cut_to))
        )
    if answer.error_code != ErrorCode.NONE:
        return AppendOutcome(retry=True)
    if answer.diverging_epoch is not None:
        epoch, end_offset = answer.diverging_epoch
        offset = rules.truncation.on_divergence(replica.log.epochs, replica.log.end_offset, epoch, end_offset)
        replica.high_watermark = rules.high_watermark.after_divergence(
            replica.high_watermark, answer.high_watermark, replica.log.end_offset
        )
        if rules.truncation.ms_until_cut():
            return AppendOutcome(cut_later_to=offset)
        if 0 <= answer.log_start_offset < offset < replica.log.start_offset:
            offset = answer.log_start_offset  # TR-4: what was deleted here may be no part of the leader's log
        truncate(replica, offset)
        replica.log.remember_epoch(epoch, end_offset)
        _adopt_start(replica, answer)  # what is left below it the leader cannot compare
        replica.high_watermark = max(replica.high_watermark, replica.log.start_offset)
        return AppendOutcome(truncated_to=replica.log.end_offset)
    before = replica.log.end_offset
    if answer.log_start_offset >= before:
        _adopt_bounds(replica, answer, rules)  # our log is empty, and its end may lie inside the first batch
    if answer.records:
        max_epoch = rules.truncation.highest_epoch(replica.leader_epoch)
        replica.log.append_as_follower(answer.records, max_epoch=max_epoch)
    _adopt_bounds(replica, answer, rules)
    replica.compares_logs = rules.truncation.still_compares_logs(bool(answer.records))
    return AppendOutcome(appended=replica.log.end_offset - before)


def _adopt_bounds(replica: Replica, answer: FetchedPartition, rules: Rules) -> None:
    """LO-3, HW-5: adopt the leader's log start and high watermark, within our log."""
    _adopt_start(replica, answer)
    replica.high_watermark = rules.high_watermark.of_follower(
        answer.high_watermark, replica.log.start_offset, replica.log.end_offset
    )


def _adopt_start(replica: Replica, answer: FetchedPartition) -> None:
    if answer.log_start_offset > replica.log.start_offset:
        replica.log.advance_start(answer.log_start_offset)


def truncate(replica: Replica, offset: int) -> int:
    """TR-3, TR-4, HW-8: truncate the log and its derived state; returns the new log end."""
    log = replica.log
    log.truncate_to(offset)
    replica.high_watermark = min(replica.high_watermark, log.end_offset)
    return log.end_offset


def restart_at(replica: Replica, offset: int, epoch: int, rules: Rules) -> None:
    """TR-8: the leader's log begins after ours ends, with records of `epoch`; restart our log there."""
    replica.log.truncate_fully(offset, epoch)
    replica.high_watermark = rules.high_watermark.on_restart(replica.high_watermark, offset)
