"""Flaws in what is written to disk, and in what is read back (§16, §17)."""

from __future__ import annotations

from broker.core.rules.flaws.flaw import Flaw, Visibility
from broker.core.rules.log import StorageRules
from broker.core.rules.requests import FetchRules


class _KeepOwnHighWatermarks(StorageRules):
    def checkpoints_high_watermark(self, leads: bool) -> bool:
        """HW-7 for partitions that this broker leads."""
        return leads

    def initial_high_watermark(self, checkpointed: int | None, log_start: int, log_end: int) -> int:
        """And 0 for the others."""
        return min(checkpointed or 0, log_end)


class _DeleteToLogEnd(FetchRules):
    def deletion_bound(self, high_watermark: int, log_end: int) -> int:
        """LO-3 without the high watermark."""
        return log_end


class _BeginAtBatchesOnly(StorageRules):
    def may_begin_inside_batch(self) -> bool:
        """A batch that begins before the log start is refused."""
        return False


class _MarkFirst(StorageRules):
    def marks_before_stopping(self) -> bool:
        """BL-8 in the wrong order."""
        return True


class _GoOn(StorageRules):
    def goes_on_after_error(self) -> bool:
        """TR-6, ST-7 removed."""
        return True


class _KeepCutEpochs(StorageRules):
    def cuts_epochs_with_log(self) -> bool:
        """EC-3 removed."""
        return False


FLAWS = (
    Flaw(
        name="high-watermark-not-kept",
        number="B-23",
        summary="a broker keeps the high watermarks of what it leads only, and begins at 0 with the others",
        properties=("P-10",),
        source="KAFKA-539, KAFKA-1647",
        visible=Visibility.DIRECT,
        without=(_KeepOwnHighWatermarks,),
    ),
    Flaw(
        name="delete-above-high-watermark",
        number="B-32",
        summary="records above the high watermark may be deleted",
        properties=("P-10",),
        source="KAFKA-5634",
        visible=Visibility.DIRECT,
        without=(_DeleteToLogEnd,),
    ),
    Flaw(
        name="no-start-inside-batch",
        number="B-34",
        summary="a new replica of a log that starts inside a batch refuses that batch for ever",
        properties=("V-4",),
        source="KAFKA-6975",
        visible=Visibility.LIVENESS,
        without=(_BeginAtBatchesOnly,),
    ),
    Flaw(
        name="marker-written-early",
        number="B-60",
        summary="the clean-shutdown marker is written when the shutdown begins, before anything is flushed",
        properties=("P-7", "P-2", "P-12"),
        source="KAFKA-10471, KAFKA-15375",
        visible=Visibility.LATE,
        without=(_MarkFirst,),
        generations=("K4", "K5"),
    ),
    Flaw(
        name="append-after-error",
        number="B-69",
        summary="a broker goes on with a log that it could not write",
        properties=("P-3", "P-12"),
        source="KAFKA-10778",
        visible=Visibility.DIRECT,
        without=(_GoOn,),
    ),
    Flaw(
        name="epochs-not-cut",
        number="B-70",
        summary="the epoch cache keeps what was cut from the log",
        properties=("P-21", "V-4"),
        source="KAFKA-10706, KAFKA-10432",
        visible=Visibility.LIVENESS,
        without=(_KeepCutEpochs,),
    ),
)
