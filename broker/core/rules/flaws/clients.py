"""Flaws in what producers are answered, and in the producer state (§6)."""

from __future__ import annotations

from broker.core.messages.errors import ErrorCode
from broker.core.rules.flaws.flaw import Flaw, Visibility
from broker.core.rules.log import StorageRules
from broker.core.rules.requests import ProduceRules


class _AcknowledgeAfterLocalAppend(ProduceRules):
    def waits_for_replicas(self, acks: int) -> bool:
        """PR-4 removed: no replica is waited for."""
        return False


class _AnyIsrSuffices(ProduceRules):
    def refuse(self, acks: int, committed_isr: tuple[int, ...], min_insync_replicas: int) -> ErrorCode:
        """PR-2 removed."""
        return super().refuse(acks, committed_isr, 0)

    def outcome(
        self, required_offset: int, high_watermark: int, maximal_isr_size: int, min_insync_replicas: int
    ) -> ErrorCode | None:
        """PR-6 without min ISR."""
        return super().outcome(required_offset, high_watermark, maximal_isr_size, 0)


class _KeepConnection(ProduceRules):
    def closes_connection_on_error(self) -> bool:
        """An acks=0 client never learns of an error."""
        return False


class _FollowersForgetProducers(StorageRules):
    def feeds_producers_from_leader(self) -> bool:
        """PR-5 on leaders only."""
        return False


class _KeepCutProducers(StorageRules):
    def restores_producers(self) -> bool:
        """PR-5 without restoring producer state at a truncation."""
        return False


FLAWS = (
    Flaw(
        name="ack-before-replication",
        number="B-25",
        summary="acks=all is answered after the leader's own append",
        properties=("P-15", "P-12"),
        source="Jepsen 2013, KAFKA-1555",
        visible=Visibility.DIRECT,
        without=(_AcknowledgeAfterLocalAppend,),
    ),
    Flaw(
        name="min-isr-unchecked",
        number="B-25",
        summary="acks=all accepts any number of in-sync replicas",
        properties=("P-15", "P-12"),
        source="Jepsen 2013, KAFKA-1555",
        visible=Visibility.DIRECT,
        without=(_AnyIsrSuffices,),
        generations=("K1", "K2", "K3"),
        masked_by="HW-3 in K4 and K5: the high watermark stands still below min ISR",
    ),
    Flaw(
        name="acks0-error-silent",
        number="B-27",
        summary="a producer with acks=0 does not learn that it sends to the wrong broker",
        properties=("V-5",),
        source="KAFKA-955",
        visible=Visibility.DIRECT,
        without=(_KeepConnection,),
    ),
    Flaw(
        name="producers-not-replicated",
        number="B-67",
        summary="followers do not learn of the producers of what they replicate, and a retried batch is new to them",
        properties=("P-14",),
        source="KAFKA-6003, KAFKA-9892",
        visible=Visibility.DIRECT,
        without=(_FollowersForgetProducers,),
    ),
    Flaw(
        name="producers-not-rolled-back",
        number="B-67",
        summary="a cut log still remembers the producers of what was cut off, and takes a retried batch for known",
        properties=("P-12", "P-14"),
        source="KAFKA-12153, KAFKA-6683",
        visible=Visibility.DIRECT,
        without=(_KeepCutProducers,),
    ),
)
