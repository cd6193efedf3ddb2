"""The KRaft protocol versions K1 to K5 (§19): each one is the next with rules removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from broker.core.messages import NO_LEADER
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import BrokerImage, Image
from broker.core.rules import Rules
from broker.core.rules.cluster_metadata import MetadataRules, Move, ReassignmentRules, RegistrationRules
from broker.core.rules.elections import ElectionRules, IsrChange
from broker.core.rules.high_watermark import HighWatermarkRules
from broker.core.rules.insync_replicas import AlterPartitionRules, InsyncReplicaRules
from broker.core.rules.log import StorageRules, TruncationRules
from broker.core.rules.quorum import QuorumRules
from broker.core.rules.requests import FetchRules, ProduceRules


def k5() -> Rules:
    """KRaft with KIP-841, KIP-903 and both parts of KIP-966: the complete protocol as of today."""
    return Rules(
        produce=ProduceRules(),
        fetch=FetchRules(),
        high_watermark=HighWatermarkRules(),
        isr=InsyncReplicaRules(),
        truncation=TruncationRules(),
        elections=ElectionRules(),
        registration=RegistrationRules(),
        alter_partition=AlterPartitionRules(),
        quorum=QuorumRules(),
        reassignment=ReassignmentRules(),
        metadata=MetadataRules(),
        storage=StorageRules(),
    )


# --- K4: 3.7 … 4.1 ---------------------------------------------------------------------------------------------------


class _LastLeaderKnown(ElectionRules):
    def last_known(
        self,
        before: tuple[int, tuple[int, ...]],
        leader: int,
        isr: tuple[int, ...],
        computed: tuple[int, ...],
        replicas: tuple[int, ...],
    ) -> tuple[int, ...]:
        """UR-4 in K4: the last leader is kept, while there is none, the ISR is empty, and it is a replica (ELR-5)."""
        if leader != NO_LEADER or isr:
            return ()
        last = before[1] if before[0] == NO_LEADER else (before[0],)
        return tuple(member for member in last if member in replicas)

    def recovers_by_log(self) -> bool:
        """UR-4 in K4: the last leader is elected as soon as it is active."""
        return False


class _CompleteWhenAdded(ReassignmentRules):
    def is_complete(self, moved: Move, isr: tuple[int, ...], min_isr: int) -> bool:
        """RA-3 before KAFKA-15665: the added replicas are in sync; other target replicas may be out of sync."""
        return bool(isr) and set(moved.adding) <= set(isr)


class _CutsNotSynced(StorageRules):
    def syncs_cuts(self) -> bool:
        """Without UR-16: no election ranks logs by their ends."""
        return False


def k4() -> Rules:
    """KIP-966 part 1: ELR and clean-shutdown detection, without the recovery manager."""
    return replace(k5(), elections=_LastLeaderKnown(), reassignment=_CompleteWhenAdded(), storage=_CutsNotSynced())


# --- K3: 3.5 ---------------------------------------------------------------------------------------------------------


class _KeepLastMember(ElectionRules):
    def shrink(self, isr: tuple[int, ...], gone: int) -> tuple[int, ...]:
        """EL-5 before KIP-966: the ISR never becomes empty; its last member stays, active or not."""
        return super().shrink(isr, gone) or isr

    def eligible(self, change: IsrChange) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """There is no ELR before KIP-966."""
        return (), ()

    def recovers_by_log(self) -> bool:
        """There is no unclean recovery before KIP-966, and no empty ISR either."""
        return False


class _AdvanceBelowMinIsr(HighWatermarkRules):
    def may_advance(
        self, current: int, candidate: int, committed_isr: tuple[int, ...], maximal_isr: frozenset[int], min_isr: int
    ) -> bool:
        """HW-2 without HW-3."""
        return candidate > current


def k3() -> Rules:
    """KIP-841 and KIP-903: the design of the "v3.5" description, where the last in-sync replica may lose everything."""
    return replace(k4(), elections=_KeepLastMember(), high_watermark=_AdvanceBelowMinIsr())


# --- K2: 3.3 ---------------------------------------------------------------------------------------------------------


class _EpochlessFetch(FetchRules):
    def check_replica_epoch(self, given: int, known: int, seen: int) -> ErrorCode:
        """Without FE-5 (before KIP-903)."""
        return ErrorCode.NONE


class _EpochlessIsr(InsyncReplicaRules):
    def is_eligible(self, replica: BrokerImage | None, fetched_with_epoch: int) -> bool:
        """ISR-E5 without the epoch (before KIP-903)."""
        return replica is not None and replica.active


class _EpochlessAlterPartition(AlterPartitionRules):
    def is_eligible(self, image: Image, member: int, epoch: int, *, added: bool) -> bool:
        """AP-8 without the epoch (before KIP-903)."""
        return image.is_active(member)


def k2() -> Rules:
    """KIP-841 only: any active broker is eligible, whichever incarnation fetched."""
    return replace(k3(), fetch=_EpochlessFetch(), isr=_EpochlessIsr(), alter_partition=_EpochlessAlterPartition())


# --- K1: 2.8 … 3.2 ---------------------------------------------------------------------------------------------------


class _AnyoneInSync(_EpochlessIsr):
    def is_eligible(self, replica: BrokerImage | None, fetched_with_epoch: int) -> bool:
        """Without ISR-E5 (before KIP-841)."""
        return True


class _AnyoneAccepted(_EpochlessAlterPartition):
    def is_eligible(self, image: Image, member: int, epoch: int, *, added: bool) -> bool:
        """Without AP-8 (before KIP-841)."""
        return True


class _RaiseEpochOnShrink(_KeepLastMember):
    def raises_epoch_on_shrink(self) -> bool:
        """EL-11 before metadata version 3.6."""
        return True


def k1() -> Rules:
    """The first KRaft version: fenced and stopping brokers may be in the ISR."""
    return replace(k2(), isr=_AnyoneInSync(), alter_partition=_AnyoneAccepted(), elections=_RaiseEpochOnShrink())


GENERATIONS: Mapping[str, Callable[[], Rules]] = {"K1": k1, "K2": k2, "K3": k3, "K4": k4, "K5": k5}
