"""Where a follower cuts its log (§12)."""

from __future__ import annotations

from broker.core.log.epoch_cache import EpochCache
from broker.core.log.truncation import truncation_offset


class TruncationRules:
    """Decisions of a follower about its own log."""

    def on_becoming_follower(self, high_watermark: int, log_end: int) -> int | None:
        """RT-5: nothing is cut before the leader has been asked; the first fetch tests for divergence."""
        return None

    def last_fetched_epoch(self, last_epoch_in_log: int) -> int:
        """What the follower's fetch says of its log, so that the leader can see divergence (KIP-595)."""
        return last_epoch_in_log

    def on_divergence(self, epochs: EpochCache, log_end: int, epoch: int, end_offset: int) -> int:
        """TR-1: cut to the end of the largest epoch that both logs have."""
        return truncation_offset(epochs, log_end, epoch, end_offset)

    def compares_logs(self, present: bool, *, new_leader: bool) -> bool:
        """RT-5: the first fetch in an epoch compares the logs, whoever leads it (KAFKA-7164)."""
        return True

    def still_compares_logs(self, records_came: bool) -> bool:
        """FE-6: and so does every fetch after it, whatever came before (KAFKA-15510)."""
        return True

    def begins_epoch_at_once(self) -> bool:
        """RT-1: a leader caches its epoch when it takes it, not when it first appends (KAFKA-7415)."""
        return True

    def when_out_of_range(self, high_watermark: int) -> int | None:
        """TR-8: nothing is cut before the leader has said where its log begins and ends."""
        return None

    def highest_epoch(self, leader_epoch: int) -> int:
        """TR-6: records of a later epoch than the one that is followed are not taken (KAFKA-18723)."""
        return leader_epoch

    def ms_until_cut(self) -> int:
        """TR-5: a cut is made while the answer is handled, before anybody may take the replica over (KAFKA-13207)."""
        return 0

    def accepts_answer(self, requested: tuple[int, int], present: tuple[int, int]) -> bool:
        """TR-5: an answer counts only for the (fetch offset, leader epoch) that were asked with (KAFKA-18991)."""
        return requested == present
