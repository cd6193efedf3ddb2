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

    def accepts_answer(self, requested: tuple[int, int], present: tuple[int, int]) -> bool:
        """TR-5: an answer counts only for the (fetch offset, leader epoch) that were asked with (KAFKA-18991)."""
        return requested == present
