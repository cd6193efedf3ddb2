"""Decides what a broker keeps on its disk, when, and how it starts from it (§17)."""

from __future__ import annotations


class StorageRules:
    """Decisions on logs, checkpoints and the clean-shutdown marker."""

    def checkpoints_high_watermark(self, leads: bool) -> bool:
        """HW-7: the high watermark of every replica is checkpointed, led here or not (KAFKA-1647)."""
        return True

    def initial_high_watermark(self, checkpointed: int | None, log_start: int, log_end: int) -> int:
        """HW-7: the checkpointed value, or the log start if there is none, but never beyond the log."""
        return min(max(log_start if checkpointed is None else checkpointed, log_start), log_end)

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

    def may_begin_inside_batch(self) -> bool:
        """TR-8, LO-3: a log may begin inside a batch, whose first records then lie before its start (KAFKA-6975)."""
        return True
