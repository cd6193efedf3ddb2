"""Flaws in the leader's high watermark and ISR changes (§8, §9, §11)."""

from __future__ import annotations

from broker.core.messages import UNKNOWN
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import BrokerImage, Image
from broker.core.rules.cluster_metadata import MetadataRules
from broker.core.rules.flaws.flaw import Flaw, Visibility
from broker.core.rules.high_watermark import HighWatermarkRules
from broker.core.rules.insync_replicas import AfterAnswer, AlterPartitionRules, InsyncReplicaRules
from broker.core.rules.requests import FetchRules


class _LeadFromLogEnd(HighWatermarkRules):
    def on_becoming_leader(self, present: int, log_end: int) -> int:
        """HW-6 replaced: the new leader's whole log counts as committed."""
        return log_end


class _WatchBusyOnly(InsyncReplicaRules):
    def is_watched(self, appended_since: bool) -> bool:
        """ISR-S only for partitions with new records."""
        return appended_since


class _JoinBelowEpochStart(InsyncReplicaRules):
    def has_caught_up(self, end: int, high_watermark: int, leader_epoch_start: int, fetched_in_epoch: bool) -> bool:
        """ISR-E3 removed."""
        return fetched_in_epoch and end >= high_watermark


class _JoinBelowHighWatermark(InsyncReplicaRules):
    def has_caught_up(self, end: int, high_watermark: int, leader_epoch_start: int, fetched_in_epoch: bool) -> bool:
        """ISR-E2 removed."""
        return fetched_in_epoch and end >= leader_epoch_start


class _IgnoreUpdates(MetadataRules):
    def refreshes_leader(self) -> bool:
        """ISR-5 removed: a leader keeps its own view of the ISR, and its partition epoch becomes stale."""
        return False


class _CurrentIsrOnly(InsyncReplicaRules):
    def maximal(self, committed: tuple[int, ...], proposed: tuple[int, ...] | None) -> frozenset[int]:
        """ISR-0 without the expansion in flight."""
        return frozenset(committed)


class _EagerShrink(InsyncReplicaRules):
    def maximal(self, committed: tuple[int, ...], proposed: tuple[int, ...] | None) -> frozenset[int]:
        """ISR-0 with the shrink applied at once."""
        return frozenset(committed if proposed is None else proposed)


class _RollBackOnError(InsyncReplicaRules):
    def after_answer(self, error: int | None) -> AfterAnswer:
        """ISR-4 as the descriptions had it: any error rolls the change back."""
        answer = super().after_answer(error)
        return AfterAnswer.ROLL_BACK if answer is AfterAnswer.STAY_PENDING else answer


class _AnyMetadataIsNews(MetadataRules):
    def is_news(self, partition_epoch: int, known_epoch: int) -> bool:
        """MD-3 removed: any image is applied, even an older one."""
        return True


class _MoveByFetchOnly(HighWatermarkRules):
    def moves_with_isr(self) -> bool:
        """HW-4 without changes of the ISR."""
        return False


class _AnyIncarnationFetches(FetchRules):
    def check_replica_epoch(self, given: int, known: int, seen: int) -> ErrorCode:
        """FE-5 removed."""
        return ErrorCode.NONE


class _AnyIncarnationJoins(InsyncReplicaRules):
    def is_eligible(self, replica: BrokerImage | None, fetched_with_epoch: int) -> bool:
        """ISR-E5 without the epoch."""
        return replica is not None and replica.active


class _AnyIncarnationAccepted(AlterPartitionRules):
    def is_eligible(self, image: Image, member: int, epoch: int, *, added: bool) -> bool:
        """AP-8 without the epoch."""
        return image.is_active(member)


_CHECK_TO_REQUEST_MS = 1_500


class _BuildLate(InsyncReplicaRules):
    def ms_until_request(self) -> int:
        """ISR-1, MD-5 removed: between the check and the request time passes, and other fetches arrive."""
        return _CHECK_TO_REQUEST_MS


class _AdvanceAnyway(HighWatermarkRules):
    def may_advance(
        self, current: int, candidate: int, committed_isr: tuple[int, ...], maximal_isr: frozenset[int], min_isr: int
    ) -> bool:
        """HW-3 removed."""
        return candidate > current


class _MinIsrOfMaximal(HighWatermarkRules):
    def may_advance(
        self, current: int, candidate: int, committed_isr: tuple[int, ...], maximal_isr: frozenset[int], min_isr: int
    ) -> bool:
        """HW-3 with the wrong set: the expansion in flight counts too."""
        return candidate > current and len(maximal_isr) >= min_isr


class _RememberEverybody(InsyncReplicaRules):
    def keeps_remote_state(self, in_isr: bool) -> bool:
        """RT-3, RT-4 removed."""
        return True

    def has_caught_up(self, end: int, high_watermark: int, leader_epoch_start: int, fetched_in_epoch: bool) -> bool:
        """ISR-E4 removed."""
        return end != UNKNOWN and super().has_caught_up(end, high_watermark, leader_epoch_start, True)

    def expands_from_memory(self) -> bool:
        """Expansion is considered at every metadata change."""
        return True


class _RememberInSync(InsyncReplicaRules):
    def keeps_remote_state(self, in_isr: bool) -> bool:
        """RT-3 as in Kafka, for replicas that are in sync."""
        return in_isr


FLAWS = (
    Flaw(
        name="high-watermark-from-log-end",
        number="B-03",
        summary="a new leader takes its whole log for committed",
        properties=("P-11", "P-1", "P-9"),
        source="KAFKA-1211 and the first designs",
        visible=Visibility.DIRECT,
        without=(_LeadFromLogEnd,),
    ),
    Flaw(
        name="idle-isr-not-repaired",
        number="B-10",
        summary="lagging replicas are detected only where something was produced since the last check",
        properties=("V-5",),
        source="KAFKA-1097, KAFKA-1170",
        visible=Visibility.LATE,
        without=(_WatchBusyOnly,),
    ),
    Flaw(
        name="join-below-epoch-start",
        number="B-19",
        summary="a follower may join the ISR before it has reached the start of the leader's epoch",
        properties=("P-2", "P-12"),
        source="KAFKA-7128",
        visible=Visibility.LATE,
        without=(_JoinBelowEpochStart,),
    ),
    Flaw(
        name="leader-ignores-isr-updates",
        number="B-22",
        summary="a leader does not take the ISR and the partition epoch that the controller decided",
        properties=("V-4", "V-7"),
        source="KAFKA-2729",
        visible=Visibility.LIVENESS,
        without=(_IgnoreUpdates,),
    ),
    Flaw(
        name="current-isr-only",
        number="B-37",
        summary="a replica that is being added to the ISR is not waited for until the controller has answered",
        properties=("P-5", "P-2", "P-12"),
        source="KIP-497",
        visible=Visibility.LATE,
        without=(_CurrentIsrOnly,),
    ),
    Flaw(
        name="eager-shrink",
        number="B-38",
        summary="a replica that is being dropped from the ISR is not waited for any more, before the controller agreed",
        properties=("P-5", "P-2", "P-12"),
        source="KIP-497, first draft",
        visible=Visibility.LATE,
        without=(_EagerShrink,),
    ),
    Flaw(
        name="rollback-on-any-error",
        number="B-40",
        summary="an ISR change is rolled back on an error that does not prove that it was never applied",
        properties=("P-5", "P-2", "P-12"),
        source="KAFKA-13916 and the protocol's descriptions",
        visible=Visibility.LATE,
        without=(_RollBackOnError,),
    ),
    Flaw(
        name="old-metadata-applied",
        number="B-41",
        summary="a leader takes up older metadata again, and drops the ISR change that it waits for",
        properties=("P-5", "P-19", "P-2"),
        source="KAFKA-12686, KAFKA-12751",
        visible=Visibility.LATE,
        without=(_AnyMetadataIsNews,),
    ),
    Flaw(
        name="high-watermark-not-reconsidered",
        number="B-42",
        summary="the high watermark is not recomputed when the ISR has changed",
        properties=("V-5", "V-22"),
        source="KAFKA-13091",
        visible=Visibility.LIVENESS,
        without=(_MoveByFetchOnly,),
    ),
    Flaw(
        name="rebooted-joins-isr",
        number="B-50",
        summary="what an earlier incarnation of a broker fetched lets the present one into the ISR",
        properties=("P-7", "P-2", "P-12"),
        source="KIP-903, KAFKA-14139",
        visible=Visibility.LATE,
        without=(_AnyIncarnationFetches, _AnyIncarnationJoins, _AnyIncarnationAccepted),
        generations=("K3", "K4", "K5"),
    ),
    Flaw(
        name="check-then-build",
        number="B-51",
        summary="an ISR change is judged by one state of the followers and sent with a later one",
        properties=("P-2", "P-7", "P-12"),
        source="KAFKA-15221",
        visible=Visibility.LATE,
        without=(_BuildLate,),
        generations=("K3", "K4", "K5"),
    ),
    Flaw(
        name="advance-below-min-isr",
        number="B-53",
        summary="the high watermark advances while the ISR is smaller than min ISR",
        properties=("P-2", "P-11", "P-9"),
        source="KIP-966, KAFKA-15583",
        visible=Visibility.DIRECT,
        without=(_AdvanceAnyway,),
        generations=("K4", "K5"),
    ),
    Flaw(
        name="join-below-high-watermark",
        number="B-54",
        summary="a follower may join the ISR before it has reached the high watermark",
        properties=("P-2", "P-10"),
        source="the base rule of the protocol",
        visible=Visibility.LATE,
        without=(_JoinBelowHighWatermark,),
    ),
    Flaw(
        name="remembered-after-reassignment",
        number="B-56",
        summary="what a leader knew of a replica outlives that replica's removal, if it is added again unseen",
        properties=("P-2", "P-12"),
        source="Vanlightly's description of the protocol, section 6.5.4",
        visible=Visibility.LATE,
        without=(_RememberEverybody,),
    ),
    Flaw(
        name="min-isr-of-maximal-isr",
        number="B-66",
        summary="the high watermark advances when only the ISR with an expansion in flight is large enough",
        properties=("P-5", "P-2", "P-12"),
        source="KIP-966, Vanlightly's description of the protocol, section 6.5.2",
        visible=Visibility.LATE,
        without=(_MinIsrOfMaximal,),
        generations=("K4", "K5"),
    ),
    Flaw(
        name="in-sync-remembered-over-elections",
        number="B-80",
        summary="a leader that has missed elections goes on with the log ends that it knew of the in-sync replicas",
        properties=("P-2", "P-12"),
        source="Harrow's own broker, seed 5978 of the simulator",
        visible=Visibility.LATE,
        without=(_RememberInSync,),
    ),
)
