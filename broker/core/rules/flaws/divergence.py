"""Flaws in how a follower detects divergence and truncates its log (§11, §12)."""

from __future__ import annotations

from broker.core.log.epoch_cache import EpochCache
from broker.core.messages import UNKNOWN
from broker.core.rules.flaws.flaw import Flaw, Visibility
from broker.core.rules.high_watermark import HighWatermarkRules
from broker.core.rules.log import TruncationRules
from broker.core.rules.requests import FetchRules


class _TruncateToHighWatermark(TruncationRules):
    def on_becoming_follower(self, high_watermark: int, log_end: int) -> int | None:
        """The rule before KIP-101: cut to the follower's own high watermark, which may lag the committed end."""
        return high_watermark

    def last_fetched_epoch(self, last_epoch_in_log: int) -> int:
        """Before KIP-101 logs were not compared by epoch."""
        return UNKNOWN


class _CompareNothing(TruncationRules):
    def last_fetched_epoch(self, last_epoch_in_log: int) -> int:
        """FE-6 removed: the leader cannot see whether the logs agree below the offset."""
        return UNKNOWN


class _CompareEndsOnly(FetchRules):
    def diverges(self, fetch_offset: int, last_fetched_epoch: int, epoch: int, end_offset: int) -> bool:
        """KIP-101 without KIP-279: the offset is compared, but not its epoch."""
        return end_offset < fetch_offset


class _CutToToldEnd(TruncationRules):
    def on_divergence(self, epochs: EpochCache, log_end: int, epoch: int, end_offset: int) -> int:
        """TR-1 in one step, without the epoch of the answer."""
        return min(end_offset, log_end)


class _CacheEpochLate(TruncationRules):
    def begins_epoch_at_once(self) -> bool:
        """RT-1 removed: the epoch is cached with the first record appended in it."""
        return False

    def when_out_of_range(self, high_watermark: int) -> int | None:
        """An epoch unknown to the leader sends the follower back to its high watermark (KIP-101)."""
        return high_watermark


class _CompareWithNewLeader(TruncationRules):
    def compares_logs(self, present: bool, *, new_leader: bool) -> bool:
        """RT-5 only if the leader is another broker."""
        return new_leader

    def still_compares_logs(self, records_came: bool) -> bool:
        """Before truncation on fetch the logs were compared once."""
        return False


class _TakeHighWatermarkFirst(HighWatermarkRules):
    def after_divergence(self, present: int, reported: int, log_end: int) -> int:
        """HW-5 without its bound: the high watermark of a diverging response covers the follower's tail."""
        return max(present, min(reported, log_end))


class _CutNext(TruncationRules):
    def ms_until_cut(self) -> int:
        """The cut is a separate step, and reads may come before it."""
        return 1


class _KeepHighWatermark(HighWatermarkRules):
    def on_restart(self, present: int, log_start: int) -> int:
        """TR-8 without the high watermark."""
        return present


_LATE_CUT_MS = 1_000


class _CutLate(TruncationRules):
    def ms_until_cut(self) -> int:
        """TR-5 without the check of the role: the cut is made later, whatever the replica's role by then."""
        return _LATE_CUT_MS


class _TakeAnyAnswer(TruncationRules):
    def accepts_answer(self, requested: tuple[int, int], present: tuple[int, int]) -> bool:
        """TR-5 without the epoch."""
        return requested[0] == present[0]


class _TakeAnyEpoch(TruncationRules):
    def highest_epoch(self, leader_epoch: int) -> int:
        """TR-6 without its upper bound."""
        return (1 << 31) - 1


class _CompareAfterRecords(TruncationRules):
    def compares_logs(self, present: bool, *, new_leader: bool) -> bool:
        """The dropped epoch stays dropped under a new leader."""
        return present

    def still_compares_logs(self, records_came: bool) -> bool:
        """The input of FE-6 is lost with every empty response."""
        return records_came


FLAWS = (
    Flaw(
        name="truncate-to-high-watermark",
        number="B-11",
        summary="a replica that becomes follower cuts its log to its own high watermark",
        properties=("P-6", "P-2", "P-12"),
        source="KIP-101 scenario 1, KAFKA-1211",
        visible=Visibility.DIRECT,
        without=(_TruncateToHighWatermark,),
    ),
    Flaw(
        name="logs-not-compared",
        number="B-12",
        summary="a follower fetches from its log end on without saying which epoch that end belongs to",
        properties=("P-3", "P-2"),
        source="KIP-101 scenario 2, KAFKA-3919",
        visible=Visibility.LATE,
        without=(_CompareNothing,),
    ),
    Flaw(
        name="epochless-divergence-answer",
        number="B-13",
        summary="a leader answers where an epoch ends without saying which epoch it means",
        properties=("P-3",),
        source="KIP-279, KAFKA-6361",
        visible=Visibility.LATE,
        without=(_CompareEndsOnly, _CutToToldEnd),
    ),
    Flaw(
        name="epoch-cached-at-first-append",
        number="B-17",
        summary="a leader caches its epoch when it first appends; unknown, it sends followers to their high watermark",
        properties=("P-6", "P-12"),
        source="KAFKA-7415",
        visible=Visibility.LATE,
        without=(_CacheEpochLate,),
    ),
    Flaw(
        name="compare-only-with-new-leader",
        number="B-18",
        summary="a follower compares its log only when another broker leads, not in each new epoch",
        properties=("P-3",),
        source="KAFKA-7164",
        visible=Visibility.LATE,
        without=(_CompareWithNewLeader,),
    ),
    Flaw(
        name="high-watermark-before-cut",
        number="B-31",
        summary="a follower takes the high watermark of a diverging answer before it has cut its own tail",
        properties=("P-6", "P-11"),
        source="KAFKA-14704, KIP-392",
        visible=Visibility.WHITE_BOX,
        without=(_TakeHighWatermarkFirst, _CutNext),
    ),
    Flaw(
        name="high-watermark-below-log-start",
        number="B-36",
        summary="a follower that restarts its log at the leader's log start keeps its old high watermark",
        properties=("P-10",),
        source="KAFKA-9491",
        visible=Visibility.LIVENESS,
        without=(_KeepHighWatermark,),
    ),
    Flaw(
        name="late-cut",
        number="B-45",
        summary="a cut that a leader asked for is made later, even when the replica leads by then",
        properties=("P-6", "P-3", "P-12"),
        source="KAFKA-13207",
        visible=Visibility.LATE,
        without=(_CutLate,),
    ),
    Flaw(
        name="stale-answer-applied",
        number="B-46",
        summary="an answer to a fetch of an earlier leader epoch is applied if the offset is still the same",
        properties=("P-6", "P-2", "P-12", "P-42"),
        source="KAFKA-18991",
        visible=Visibility.LATE,
        without=(_TakeAnyAnswer,),
    ),
    Flaw(
        name="later-epoch-appended",
        number="B-47",
        summary="a follower appends records of a later epoch than the one that it follows",
        properties=("P-3", "P-8"),
        source="KAFKA-18723",
        visible=Visibility.LATE,
        without=(_TakeAnyEpoch,),
        masked_by="FE-2: no leader of another epoch answers",
    ),
    Flaw(
        name="compare-only-after-records",
        number="B-48",
        summary="an empty answer makes a follower forget the epoch of its last record, and its logs are not compared",
        properties=("P-3",),
        source="KAFKA-15510",
        visible=Visibility.LATE,
        without=(_CompareAfterRecords,),
    ),
)
