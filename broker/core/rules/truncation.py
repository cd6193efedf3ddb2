"""Decides where a follower truncates its log (§12)."""

from __future__ import annotations

from broker.core.log.epoch_cache import EpochCache
from broker.core.log.truncation import truncation_offset


class TruncationRules:
    """A follower's decisions on its own log."""

    def on_becoming_follower(self, high_watermark: int, log_end: int) -> int | None:
        """RT-5: nothing is cut before the leader's log is known; the first fetch tests for divergence."""
        return None

    def last_fetched_epoch(self, last_epoch_in_log: int) -> int:
        """The last epoch that a follower's fetch reports, so that the leader can detect divergence (KIP-595)."""
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
