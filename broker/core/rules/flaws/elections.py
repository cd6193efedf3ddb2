"""Flaws in elections, eligibility, unclean recovery and reassignment (§13 … §15)."""

from __future__ import annotations

from collections.abc import Callable

from broker.core.rules.cluster_metadata import MetadataRules, Move, ReassignmentRules
from broker.core.rules.elections import Election, ElectionRules, IsrChange
from broker.core.rules.flaws.flaw import Flaw, Visibility


class _ElectAnyReplica(ElectionRules):
    def elect(
        self,
        leader: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        elr: tuple[int, ...],
        is_active: Callable[[int], bool],
        *,
        prefer_first: bool,
        unclean_allowed: bool,
    ) -> Election:
        """EL-9 without its condition: any active replica is elected when no candidate is active."""
        return super().elect(leader, replicas, isr, elr, is_active, prefer_first=prefer_first, unclean_allowed=True)


class _LastStaysInSync(ElectionRules):
    def shrink(self, isr: tuple[int, ...], gone: int) -> tuple[int, ...]:
        """EL-5 before KIP-966: the last member stays in the ISR, active or not, whatever it has lost."""
        return super().shrink(isr, gone) or isr

    def eligible(self, change: IsrChange) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """And no other replica stays eligible."""
        return (), ()


class _EndWhenAdded(ReassignmentRules):
    def is_complete(self, moved: Move, isr: tuple[int, ...], min_isr: int) -> bool:
        """RA-3 before KAFKA-15665."""
        return bool(isr) and set(moved.adding) <= set(isr)


class _RememberRemoved(ReassignmentRules):
    def eligible_among(self, target: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...]:
        """ELR-5 removed."""
        return tuple(dict.fromkeys((*target, *before)))


class _KeepEligible(ElectionRules):
    def empties_elr(self) -> bool:
        """ELR-1 removed."""
        return False


class _UncleanStaysEligible(ElectionRules):
    def eligible(self, change: IsrChange) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """ELR-4 removed."""
        return super().eligible(change._replace(unclean=frozenset()))


class _LeadAgainAnyway(ElectionRules):
    def may_lead_again(self, active: bool, *, replica: bool) -> bool:
        """UR-4's test of activity only writes a log line."""
        return replica


class _EligibleUnderAnyMinIsr(ElectionRules):
    def forgets_elr_on_new_min_isr(self) -> bool:
        """ELR-6 removed."""
        return False


class _ExactQuorum(ElectionRules):
    def is_recovery_quorum(self, quorum: tuple[int, ...], min_isr: int) -> bool:
        """ELR-8 read literally: exactly min ISR replicas."""
        return len(quorum) == min_isr


class _TrustAnyLogInfo(ElectionRules):
    def accepts_log_info(self, answered: int, asked: int, registered: int, *, active: bool) -> bool:
        """UR-7, UR-9 removed."""
        return True


class _GiveUpEligible(ReassignmentRules):
    def strands(
        self,
        before: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
        after: tuple[int, ...],
        min_isr: int,
    ) -> bool:
        """RA-6 for the ISR alone: while it is empty, anybody may be given up."""
        isr = before[0]
        return bool(isr) and not set(isr) & set(after)


class _KeepOne(ReassignmentRules):
    def strands(
        self,
        before: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
        after: tuple[int, ...],
        min_isr: int,
    ) -> bool:
        """RA-6 without the least number: one complete replica is enough, as in KIP-455."""
        return super().strands(before, after, 1)


class _ForgetOthers(ElectionRules):
    def remembered(self, needed: tuple[int, ...], elected: int, min_isr: int) -> tuple[int, ...]:
        """UR-10 as in KIP-966: a recovery empties the last known ELR, as any unclean election does."""
        return ()


class _RecoverAmongAny(ElectionRules):
    def recovery_quorum(
        self, last_known_elr: tuple[int, ...], replicas: tuple[int, ...], min_isr: int
    ) -> tuple[int, ...]:
        """UR-6 without the least size: nobody is needed where nobody is remembered."""
        return last_known_elr

    def is_recovery_quorum(self, quorum: tuple[int, ...], min_isr: int) -> bool:
        """ELR-8 removed."""
        return True


class _LeadAfterRemoval(ElectionRules):
    def may_lead_again(self, active: bool, *, replica: bool) -> bool:
        """UR-4 in K4 without the test that the last leader is still a replica."""
        return active

    def last_known(
        self,
        before: tuple[int, tuple[int, ...]],
        leader: int,
        isr: tuple[int, ...],
        computed: tuple[int, ...],
        replicas: tuple[int, ...],
    ) -> tuple[int, ...]:
        """ELR-5 removed: who was the last leader is kept though it is no replica any more."""
        return super().last_known(before, leader, isr, computed, (*replicas, before[0], *before[1]))


class _TakeAnyAnswer(ElectionRules):
    def awaits_log_info(self, partition_epoch: int, epoch_of_job: int, *, asked: bool) -> bool:
        """UR-7 without the test that the replica is asked by this recovery."""
        return True


class _NeedEveryLog(ElectionRules):
    def needs_log_info(self, member: int, needed: tuple[int, ...]) -> bool:
        """UR-6: every replica that was asked has to answer."""
        return True

    def needs_every_log_info(self) -> bool:
        """And is waited for."""
        return True


class _RecoverOnReturn(ElectionRules):
    def recovers_on_fencing(self) -> bool:
        """UR-3: a proactive recovery is only thought of when a broker comes back."""
        return False


class _SettingsForLater(ElectionRules):
    def elects_on_new_settings(self) -> bool:
        """EL-8: a setting takes effect with the next change of a broker's state."""
        return False


class _ElectUnseen(ElectionRules):
    def elects_unseen(self, *, looks_for_logs: bool) -> bool:
        """UR-5 for every version as for those without recovery."""
        return True


class _MinIsrOfOwnFile(MetadataRules):
    def publishes_min_isr(self) -> bool:
        """PR-2 without the one value for all: each node goes by its own file."""
        return False


_ELR = ("K4", "K5")

FLAWS = (
    Flaw(
        name="unclean-election",
        number="B-24",
        summary="any active replica is elected when no eligible one is there, although it was not allowed",
        properties=("P-1", "P-4", "P-12"),
        source="KIP-106, Jepsen 2013",
        visible=Visibility.DIRECT,
        without=(_ElectAnyReplica,),
    ),
    Flaw(
        name="keep-last-in-sync",
        number="B-52",
        summary="the last in-sync replica stays in the ISR when it is fenced, also through a crash that loses its log",
        properties=("P-7", "P-1", "P-12"),
        source="KIP-966, KAFKA-15583, KAFKA-15584",
        visible=Visibility.DIRECT,
        without=(_LastStaysInSync,),
        generations=_ELR,
    ),
    Flaw(
        name="reassignment-ends-early",
        number="B-55",
        summary="a reassignment is complete when the added replicas are in sync, even if others of the target are not",
        properties=("P-23",),
        source="KAFKA-15665",
        visible=Visibility.ADMINISTRATION,
        without=(_EndWhenAdded,),
        generations=("K5",),
    ),
    Flaw(
        name="removed-stays-eligible",
        number="B-57",
        summary="a broker that is no longer a replica is remembered as eligible",
        properties=("P-17", "P-2", "P-12"),
        source="read in Kafka's code of October 2024",
        visible=Visibility.LATE,
        without=(_RememberRemoved,),
        generations=_ELR,
    ),
    Flaw(
        name="eligible-never-emptied",
        number="B-58",
        summary="the ELR is kept while the ISR has min ISR members and goes on without it",
        properties=("P-17", "P-2", "P-12"),
        source="KIP-966 case G",
        visible=Visibility.LATE,
        without=(_KeepEligible,),
        generations=_ELR,
    ),
    Flaw(
        name="unclean-stays-eligible",
        number="B-59",
        summary="a broker that stopped uncleanly stays in the ELR",
        properties=("P-7", "P-2", "P-12"),
        source="KIP-966",
        visible=Visibility.LATE,
        without=(_UncleanStaysEligible,),
        generations=_ELR,
    ),
    Flaw(
        name="fenced-leader-elected",
        number="B-62",
        summary="the last known leader is elected although it is fenced",
        properties=("P-16", "V-3"),
        source="KAFKA-19522",
        visible=Visibility.LIVENESS,
        without=(_LeadAgainAnyway,),
        generations=("K4",),
    ),
    Flaw(
        name="min-isr-change-keeps-eligible",
        number="B-63",
        summary="the ELR is kept when min ISR changes, and with it the high watermark begins to move",
        properties=("P-5", "P-2", "P-12"),
        source="KIP-966, KAFKA-16540",
        visible=Visibility.LATE,
        without=(_EligibleUnderAnyMinIsr,),
        generations=_ELR,
    ),
    Flaw(
        name="exact-recovery-quorum",
        number="B-64",
        summary="an unclean recovery waits for exactly min ISR last known replicas, and never ends when there are more",
        properties=("V-3",),
        source="KIP-966 taken literally",
        visible=Visibility.WHITE_BOX,
        without=(_ExactQuorum,),
        generations=("K5",),
    ),
    Flaw(
        name="stale-log-info-trusted",
        number="B-65",
        summary="an unclean recovery elects by what a replica said before its last crash",
        properties=("P-12",),
        source="KIP-966",
        visible=Visibility.DIRECT,
        without=(_TrustAnyLogInfo,),
        generations=("K5",),
    ),
    Flaw(
        name="complete-replicas-given-up",
        number="B-81",
        summary="a reassignment that is cancelled while the ISR is empty gives up the replicas that are eligible",
        properties=("P-23", "P-1", "P-12"),
        source="this broker, read against KIP-966",
        visible=Visibility.ADMINISTRATION,
        without=(_GiveUpEligible, _RecoverAmongAny),
        generations=("K5",),
    ),
    Flaw(
        name="cancelled-below-min-isr",
        number="B-91",
        summary="a reassignment that is cancelled, or replaced, leaves fewer complete replicas than min ISR",
        properties=("P-23", "P-1", "P-12", "P-18"),
        source="KIP-455",
        visible=Visibility.ADMINISTRATION,
        without=(_KeepOne,),
        generations=("K5",),
    ),
    Flaw(
        name="recovery-forgets-the-others",
        number="B-92",
        summary="a recovery forgets who else may be complete, and the next one may elect a replica that is not",
        properties=("P-1", "P-12", "P-18"),
        source="KIP-966",
        visible=Visibility.LATE,
        without=(_ForgetOthers,),
        generations=("K5",),
    ),
    Flaw(
        name="former-replica-elected",
        number="B-82",
        summary="the last known leader is elected although it is no longer a replica",
        properties=("P-17", "P-23"),
        source="this broker, read against KIP-966",
        visible=Visibility.ADMINISTRATION,
        without=(_GiveUpEligible, _LeadAfterRemoval),
        generations=("K4",),
    ),
    Flaw(
        name="late-log-info-taken",
        number="B-83",
        summary="a late answer about a log, of a broker that is not asked any more, ends the active controller",
        properties=("V-9",),
        source="this broker, read against KIP-966",
        visible=Visibility.LIVENESS,
        without=(_TakeAnyAnswer,),
        generations=("K5",),
    ),
    Flaw(
        name="recovery-waits-for-all",
        number="B-84",
        summary="an unclean recovery waits for replicas that it does not need",
        properties=("V-3", "V-20"),
        source="this broker, read against KIP-966",
        visible=Visibility.LIVENESS,
        without=(_NeedEveryLog,),
        generations=("K5",),
    ),
    Flaw(
        name="recovery-only-on-return",
        number="B-85",
        summary="a proactive recovery does not begin when the last candidate is fenced",
        properties=("V-3", "V-20"),
        source="this broker, read against KIP-966",
        visible=Visibility.LIVENESS,
        without=(_RecoverOnReturn,),
        generations=("K5",),
    ),
    Flaw(
        name="unclean-setting-for-later",
        number="B-86",
        summary="unclean election, once it is allowed, is held only when a broker comes back",
        properties=("V-3",),
        source="this broker, read against KIP-966",
        visible=Visibility.LIVENESS,
        without=(_SettingsForLater,),
    ),
    Flaw(
        name="min-isr-of-own-file",
        number="B-87",
        summary="brokers and controllers go each by the min ISR of their own file, and these may differ",
        properties=("P-18", "P-5", "P-2", "P-12"),
        source="this broker, read against KIP-966",
        visible=Visibility.LATE,
        without=(_MinIsrOfOwnFile,),
        generations=_ELR,
    ),
    Flaw(
        name="first-replica-for-longest-log",
        number="B-88",
        summary="an unclean election that is allowed takes the first active replica, not the longest log",
        properties=("P-25",),
        source="this broker, read against KIP-966",
        visible=Visibility.LATE,
        without=(_ElectUnseen,),
        generations=("K5",),
    ),
)
