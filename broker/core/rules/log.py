"""Decides what a broker keeps of its logs: where a follower truncates (§12), what is stored and trusted (§17)."""

from __future__ import annotations

from broker.core.log.compression import DECOMPRESSED_BYTES_MAX
from broker.core.log.epoch_cache import EpochCache, truncation_offset


class StorageRules:
    """Decisions on logs, checkpoints and the clean-shutdown marker."""

    def checkpoints_high_watermark(self, leads: bool) -> bool:
        """HW-7: the high watermark of every replica is checkpointed, led here or not (KAFKA-1647)."""
        return True

    def initial_high_watermark(self, checkpointed: int | None, log_start: int, log_end: int) -> int:
        """HW-7: the checkpointed value, or the log start if there is none, but never beyond the log."""
        return min(max(log_start if checkpointed is None else checkpointed, log_start), log_end)

    def doubts_what_was_cut(self) -> bool:
        """HW-7: after an unclean stop nothing from a cut on that was not synced counts as committed: power that failed
        may have brought back what was cut off.
        """
        return True

    def syncs_cuts(self) -> bool:
        """UR-16: a cut is on the disk before the log goes on. Records of a later epoch that came back would win a
        recovery, which ranks logs by their ends, over what was committed in their place.
        """
        return True

    def marks_before_stopping(self) -> bool:
        """BL-8: the clean-shutdown marker is the last file written, not the first (KAFKA-15375)."""
        return False

    def goes_on_after_error(self) -> bool:
        """TR-6, ST-7: a log that could not be written is given up, with its broker (KAFKA-10778)."""
        return False

    def cuts_epochs_with_log(self) -> bool:
        """EC-3, TR-3: truncating the log truncates the epoch cache (KAFKA-10706)."""
        return True

    def restores_producers(self) -> bool:
        """PR-5, TR-3: a truncated log keeps exactly the producers it still holds (KAFKA-12153)."""
        return True

    def feeds_producers_from_leader(self) -> bool:
        """PR-5: followers track the producers of replicated batches (KAFKA-6003)."""
        return True

    def looks_into(self, codec: int) -> bool:
        """LO-5: a lookup by time reads the records of compressed batches too, whatever their codec."""
        return True

    def unfolded_bytes_max(self) -> int:
        """LO-6: no lookup unfolds a batch to more bytes than this; it answers the batch's first offset then."""
        return DECOMPRESSED_BYTES_MAX

    def may_begin_inside_batch(self) -> bool:
        """TR-8, LO-3: a log may begin inside a batch, whose first records then lie before its start (KAFKA-6975)."""
        return True


class TruncationRules:
    """A follower's decisions on its own log."""

    def on_becoming_follower(self, high_watermark: int, log_end: int) -> int | None:
        """RT-5: nothing is cut before the leader's log is known; the first fetch tests for divergence."""
        return None

    def last_fetched_epoch(self, last_epoch_in_log: int) -> int:
        """RT-5: a follower's fetch reports its last epoch, by which the leader detects divergence (KIP-595)."""
        return last_epoch_in_log

    def on_divergence(self, epochs: EpochCache, log_end: int, epoch: int, end_offset: int) -> int:
        """TR-1: cut to the end of the largest epoch that both logs have."""
        return truncation_offset(epochs, log_end, epoch, end_offset)

    def compares_logs(self, present: bool, *, new_leader: bool) -> bool:
        """RT-5: the first fetch in an epoch compares the logs, whichever broker leads (KAFKA-7164)."""
        return True

    def still_compares_logs(self, records_came: bool) -> bool:
        """FE-6: every later fetch compares them too, whatever came before (KAFKA-15510)."""
        return True

    def begins_epoch_at_once(self) -> bool:
        """RT-1: a leader caches its epoch when it begins it, not at its first append (KAFKA-7415)."""
        return True

    def when_out_of_range(self, high_watermark: int) -> int | None:
        """TR-8: nothing is cut before the leader has reported where its log begins and ends."""
        return None

    def highest_epoch(self, leader_epoch: int) -> int:
        """TR-6: records of a later epoch than the followed one are not appended (KAFKA-18723)."""
        return leader_epoch

    def ms_until_cut(self) -> int:
        """TR-5: a cut is made while the response is handled, before the replica's role can change (KAFKA-13207)."""
        return 0

    def accepts_answer(self, requested: tuple[int, int], present: tuple[int, int]) -> bool:
        """TR-5: a response counts only for the (fetch offset, leader epoch) of its request (KAFKA-18991)."""
        return requested == present
