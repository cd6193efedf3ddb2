"""Flaws in the controllers' quorum (§18)."""

from __future__ import annotations

from collections.abc import Iterable

from broker.core.messages import UNKNOWN
from broker.core.rules.flaws.flaw import Flaw, Visibility
from broker.core.rules.quorum import QuorumRules


class _ForgetVotes(QuorumRules):
    def remembers_votes(self) -> bool:
        """QU-8 without persistence."""
        return False


class _LeadAgain(QuorumRules):
    def may_act_in_stored_epoch(self, was_leader: bool) -> bool:
        """QU-1 removed."""
        return True


class _CommitEarlierEpochs(QuorumRules):
    def high_watermark(self, voter_ends: Iterable[int], present: int, epoch_start: int) -> int:
        """QU-11 with the start of the epoch instead of a record of it."""
        ends = sorted(voter_ends, reverse=True)
        held = ends[len(ends) // 2]
        return held if held not in (UNKNOWN, present) and held >= epoch_start and held > present else present


class _CountUnflushed(QuorumRules):
    def end_that_counts(self, flushed: int, written: int) -> int:
        """QU-12 removed."""
        return written


class _NeverResign(QuorumRules):
    def resigns_without_majority(self) -> bool:
        """QU-13 removed."""
        return False


class _NoPreVote(QuorumRules):
    def first_asks_for_pre_votes(self) -> bool:
        """QU-6 removed."""
        return False


class _CutAnywhere(QuorumRules):
    def may_truncate_below(self, offset: int, high_watermark: int) -> bool:
        """QU-17 without its bound."""
        return True


FLAWS = (
    Flaw(
        name="vote-not-remembered",
        number="B-71",
        summary="a voter forgets in a restart for whom it voted",
        properties=("P-R5", "P-R1", "P-R3"),
        source="KAFKA-12181, KIP-853",
        visible=Visibility.LATE,
        without=(_ForgetVotes,),
    ),
    Flaw(
        name="lead-again-in-epoch",
        number="B-72",
        summary="a quorum leader that restarts leads on in the epoch that it led before",
        properties=("P-R3", "P-R1"),
        source="KAFKA-10527, KAFKA-10661",
        visible=Visibility.WHITE_BOX,
        without=(_LeadAgain,),
    ),
    Flaw(
        name="commit-earlier-epoch",
        number="B-73",
        summary="a quorum leader commits records of earlier epochs before one of its own",
        properties=("P-R3", "P-R4"),
        source="KAFKA-12619",
        visible=Visibility.WHITE_BOX,
        without=(_CommitEarlierEpochs,),
    ),
    Flaw(
        name="quorum-ack-before-flush",
        number="B-74",
        summary="voters vouch for records that are not on their disks yet",
        properties=("P-R3", "P-R4"),
        source="KAFKA-10533",
        visible=Visibility.LATE,
        without=(_CountUnflushed,),
    ),
    Flaw(
        name="quorum-leader-stays",
        number="B-75",
        summary="a quorum leader that no majority fetches from does not step down",
        properties=("V-9", "V-21"),
        source="KAFKA-15489",
        visible=Visibility.LIVENESS,
        without=(_NeverResign,),
    ),
    Flaw(
        name="no-pre-vote",
        number="B-76",
        summary="a voter that misses the leader raises the epoch before it has asked whether it could win",
        properties=("V-9",),
        source="KIP-996",
        visible=Visibility.LIVENESS,
        without=(_NoPreVote,),
    ),
    Flaw(
        name="metadata-cut-below-commit",
        number="B-77",
        summary="a voter cuts committed metadata without complaint",
        properties=("P-R3",),
        source="KAFKA-12460",
        visible=Visibility.WHITE_BOX,
        without=(_CutAnywhere,),
        masked_by="QU-8, QU-12: no leader lacks what is committed",
    ),
)
