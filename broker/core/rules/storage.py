"""What a broker keeps on its disk, when, and what it makes of it at its start (§17)."""

from __future__ import annotations


class StorageRules:
    """Decisions about logs, checkpoints and the clean-shutdown marker."""

    def checkpoints_high_watermark(self, leads: bool) -> bool:
        """HW-7: the high watermark of every replica is kept, whether this broker leads it or not (KAFKA-1647)."""
        return True

    def initial_high_watermark(self, checkpointed: int | None, log_start: int, log_end: int) -> int:
        """HW-7: what was kept, or the log start if nothing was, but never beyond the log."""
        return min(max(log_start if checkpointed is None else checkpointed, log_start), log_end)

    def marks_before_stopping(self) -> bool:
        """BL-8: the clean-shutdown marker is the last thing that is written, not the first (KAFKA-15375)."""
        return False

    def goes_on_after_error(self) -> bool:
        """TR-6, ST-7: a log that could not be written is given up, with its broker (KAFKA-10778)."""
        return False

    def cuts_epochs_with_log(self) -> bool:
        """EC-3, TR-3: whoever cuts the log cuts the epoch cache (KAFKA-10706)."""
        return True

    def restores_producers(self) -> bool:
        """PR-5, TR-3: a cut log remembers exactly the producers that it still holds (KAFKA-12153)."""
        return True

    def feeds_producers_from_leader(self) -> bool:
        """PR-5: followers know the producers of what they replicate (KAFKA-6003)."""
        return True

    def may_begin_inside_batch(self) -> bool:
        """TR-8, LO-3: a log may begin inside a batch, whose first records then lie before its start (KAFKA-6975)."""
        return True
