"""Decides when the high watermark may move (§8)."""

from __future__ import annotations

from collections.abc import Iterable

from broker.core.messages import UNKNOWN


class HighWatermarkRules:
    """Decisions on the high watermark of a leader (HW-1 … HW-3) and of a follower (HW-5)."""

    def candidate(self, leader_end: int, maximal_isr_ends: Iterable[int]) -> int:
        """HW-1: the smallest log end offset over the leader and the maximal ISR; UNKNOWN if one is not known."""
        smallest = leader_end
        for end in maximal_isr_ends:
            if end == UNKNOWN:
                return UNKNOWN
            smallest = min(smallest, end)
        return smallest

    def may_advance(
        self,
        current: int,
        candidate: int,
        committed_isr: tuple[int, ...],
        maximal_isr: frozenset[int],
        min_isr: int,
    ) -> bool:
        """HW-2 and HW-3: forward only, and only while the *committed* ISR is large enough (KIP-966, KAFKA-15583).

        The committed ISR counts, not the maximal one: while an expansion is in flight the controller may hold
        an ELR that the leader cannot see.
        """
        return candidate > current and len(committed_isr) >= min_isr

    def knows_min_isr(self, partition_epoch: int, partition_epoch_of_image: int) -> bool:
        """HW-3 compares an ISR with the min ISR of the same moment: it waits for the metadata of its ISR.

        An AlterPartition response may come before the metadata (MD-4) and has no min ISR. If that was raised just
        before the ISR shrank, the controller has an ELR, and the old min ISR would allow the high watermark to pass it.
        """
        return partition_epoch_of_image >= partition_epoch

    def of_follower(self, reported: int, log_start: int, log_end: int) -> int:
        """HW-5: the leader's high watermark, limited to the follower's log; it may decrease under a new leader."""
        return max(log_start, min(reported, log_end))

    def after_divergence(self, present: int, reported: int, log_end: int) -> int:
        """HW-5: a response that only reports divergence proves nothing about the high watermark (KAFKA-14704)."""
        return present

    def on_restart(self, present: int, log_start: int) -> int:
        """TR-8: a log that restarts at the leader's log start holds nothing uncommitted below (KAFKA-9491)."""
        return log_start

    def on_becoming_leader(self, present: int, log_end: int) -> int:
        """HW-6: a new leader keeps its known high watermark; its tail may not be committed."""
        return present

    def moves_with_isr(self) -> bool:
        """HW-4: a change of the ISR may be all that the high watermark waits for (KAFKA-13091)."""
        return True

    def is_certain(self, high_watermark: int, leader_epoch_start: int) -> bool:
        """HW-9: a new leader's high watermark may be shown once it has reached the start of its epoch."""
        return high_watermark >= leader_epoch_start
