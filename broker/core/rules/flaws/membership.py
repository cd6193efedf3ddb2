"""Flaws in what the controller accepts, and when it answers (§2, §5, §10)."""

from __future__ import annotations

from broker.core.messages import AlterPartitionPartition
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import BrokerImage, Image
from broker.core.metadata.records import PartitionState
from broker.core.rules.cluster_metadata import MetadataRules, ReassignmentRules, RegistrationRules
from broker.core.rules.flaws.flaw import Flaw, Visibility
from broker.core.rules.insync_replicas import AlterPartitionRules, InsyncReplicaRules


class _AnswerAtOnce(MetadataRules):
    def answers_wait_for_commit(self) -> bool:
        """CT-1 removed: a deposed controller that does not know it still decides."""
        return False


class _ObeyAnyIncarnation(RegistrationRules):
    def is_current(self, registered_epoch: int, given_epoch: int) -> bool:
        """HB-1, AP-2 removed."""
        return True


class _AcceptOlderBase(AlterPartitionRules):
    def check_partition_epoch(self, state: PartitionState, part: AlterPartitionPartition) -> ErrorCode:
        """AP-6 removed."""
        return ErrorCode.NONE


class _RefuseFuture(AlterPartitionRules):
    def check_future(self, state: PartitionState, part: AlterPartitionPartition) -> ErrorCode:
        """AP-4 without its distinction: a different epoch is an error, whichever side is behind."""
        behind = super().check_future(state, part) != ErrorCode.NONE
        return ErrorCode.INVALID_UPDATE_VERSION if behind else ErrorCode.NONE


class _AnyStateAccepted(AlterPartitionRules):
    def is_eligible(self, image: Image, member: int, epoch: int, *, added: bool) -> bool:
        """AP-8 without the state."""
        return epoch == image.broker_epoch(member) or (epoch == -1 and not added)


class _AnyStateJoins(InsyncReplicaRules):
    def is_eligible(self, replica: BrokerImage | None, fetched_with_epoch: int) -> bool:
        """ISR-E5 without the state."""
        return replica is not None and fetched_with_epoch in (-1, replica.epoch)


class _EveryRestartUnclean(RegistrationRules):
    def stopped_cleanly(self, existing: BrokerImage | None, previous_broker_epoch: int) -> bool:
        """RG-5 removed: no stop is clean."""
        return False


class _RegisterOnly(RegistrationRules):
    def ends_earlier_incarnation(self) -> bool:
        """RG-6 removed."""
        return False


class _KeepEpochWhenGivenUp(ReassignmentRules):
    def drops(self, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
        """EL-0 without its fourth part, where a reassignment is cancelled or replaced."""
        return False


class _FenceTogether(RegistrationRules):
    def to_fence(self, expired: tuple[int, ...]) -> tuple[int, ...]:
        """HB-4 removed: all are fenced at once, each change computed from the state before them."""
        return expired


FLAWS = (
    Flaw(
        name="answer-before-commit",
        number="B-20",
        summary="a controller answers before its quorum has committed what it answers",
        properties=("P-19", "P-5", "P-12"),
        source="KAFKA-6082; KRaft's equivalent, QU-24",
        visible=Visibility.DIRECT,
        without=(_AnswerAtOnce,),
    ),
    Flaw(
        name="stale-broker-epoch-obeyed",
        number="B-21",
        summary="the controller obeys requests of an earlier incarnation of a broker",
        properties=("P-16", "V-3", "P-40"),
        source="KIP-380, KAFKA-7235",
        visible=Visibility.LATE,
        without=(_ObeyAnyIncarnation,),
        masked_by="AP-5 (a restart has raised the leader epoch) and HB-2 (an old metadata offset unfences no broker)",
    ),
    Flaw(
        name="partition-epoch-unchecked",
        number="B-39",
        summary="the controller accepts an ISR change that rests on an older state of the partition",
        properties=("P-2", "P-12"),
        source="KIP-497",
        visible=Visibility.LATE,
        without=(_AcceptOlderBase,),
    ),
    Flaw(
        name="future-epoch-refused",
        number="B-43",
        summary="a controller that is behind refuses a request from the future as if that were wrong",
        properties=("V-7", "P-41"),
        source="KAFKA-14154",
        visible=Visibility.WHITE_BOX,
        without=(_RefuseFuture,),
    ),
    Flaw(
        name="fenced-joins-isr",
        number="B-49",
        summary="a fenced or stopping broker may join the ISR",
        properties=("P-16", "V-5"),
        source="KIP-841, KAFKA-13916",
        visible=Visibility.ADMINISTRATION,
        without=(_AnyStateAccepted, _AnyStateJoins),
        generations=("K2", "K3", "K4", "K5"),
    ),
    Flaw(
        name="every-restart-unclean",
        number="B-61",
        summary="the controller takes every restart for an unclean one",
        properties=("V-3", "P-43"),
        source="KAFKA-18635",
        visible=Visibility.LIVENESS,
        without=(_EveryRestartUnclean,),
        generations=("K4", "K5"),
    ),
    Flaw(
        name="registration-changes-nothing",
        number="B-61",
        summary="a broker that registers again stays in the ISRs and ELRs of its earlier incarnation",
        properties=("P-7", "P-2"),
        source="KAFKA-18106",
        visible=Visibility.LATE,
        without=(_RegisterOnly,),
    ),
    Flaw(
        name="fence-together",
        number="B-78",
        summary="sessions that expire together are handled from one state, so that the last change undoes the others",
        properties=("P-16", "V-3"),
        source="KAFKA-13173",
        visible=Visibility.ADMINISTRATION,
        without=(_FenceTogether,),
    ),
    Flaw(
        name="given-up-keeps-epoch",
        number="B-79",
        summary="a replica that is given up before it was added leaves the leader epoch as it is",
        properties=("P-2", "P-12"),
        source="Harrow's own broker, seed 1075 of the simulator",
        visible=Visibility.LATE,
        without=(_KeepEpochWhenGivenUp,),
    ),
)
