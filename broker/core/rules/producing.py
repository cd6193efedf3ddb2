"""Decides how and when a leader answers a produce request (§6)."""

from __future__ import annotations

from broker.core.messages.errors import ErrorCode


class ProduceRules:
    """Decisions on appends and acknowledgements."""

    def refuse(self, acks: int, committed_isr: tuple[int, ...], min_insync_replicas: int) -> ErrorCode:
        """PR-1 and PR-2: acks must be -1, 0 or 1; acks=all needs min ISR in-sync replicas (or all, if there are fewer)."""
        if acks not in (-1, 0, 1):
            return ErrorCode.INVALID_REQUIRED_ACKS
        if acks == -1 and len(committed_isr) < min_insync_replicas:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    def closes_connection_on_error(self) -> bool:
        """PR-4: a client that asked for no response learns of an error by a closed connection (KAFKA-955)."""
        return True

    def waits_for_replicas(self, acks: int) -> bool:
        """PR-4: acks=all is answered when PR-6 holds, not after the local append."""
        return acks == -1

    def outcome(
        self, required_offset: int, high_watermark: int, maximal_isr_size: int, min_insync_replicas: int
    ) -> ErrorCode | None:
        """PR-6: the outcome of a waiting produce; None while it has to wait. A role change handles lost leadership."""
        if high_watermark < required_offset:
            return None
        if maximal_isr_size < min_insync_replicas:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE
