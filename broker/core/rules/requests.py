"""Decides how a leader answers produce and fetch requests (§6, §7)."""

from __future__ import annotations

from broker.core.messages import UNKNOWN, FetchPartition
from broker.core.messages.errors import ErrorCode


class ProduceRules:
    """Decisions on appends and acknowledgements."""

    def refuse(self, acks: int, committed_isr: tuple[int, ...], min_insync_replicas: int) -> ErrorCode:
        """PR-1, PR-2: acks must be -1, 0 or 1; acks=all needs min ISR in-sync replicas, or all if there are fewer."""
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


class FetchRules:
    """Decisions on reads by consumers and followers."""

    def check_epoch(self, given: int, local: int) -> ErrorCode:
        """FE-2: an older epoch is fenced, a newer one unknown; clients that send none are not checked."""
        if given in (UNKNOWN, local):
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if given < local else ErrorCode.UNKNOWN_LEADER_EPOCH

    def serves(self, by_follower: bool, leads: bool, follows: bool, rack: str) -> bool:
        """FE-3, FE-14: the leader serves everybody, a follower only consumers that name a rack (KIP-392)."""
        return leads or (follows and not by_follower and bool(rack))

    def may_be_preferred(self, in_sync: bool, fetch_offset: int, log_start: int, log_end: int) -> bool:
        """FE-13: a consumer is sent only to an in-sync follower whose log is known to have the offset."""
        return in_sync and log_start <= fetch_offset <= log_end

    def awaits_offset(self, fetch_offset: int, high_watermark: int) -> bool:
        """FE-14: an offset above a follower's high watermark may be committed all the same: it is only late."""
        return fetch_offset > high_watermark

    def check_replica(self, assigned: bool, epoch_given: bool) -> ErrorCode:
        """FE-4: a follower must be a replica; a fetch with an epoch may merely be ahead of the metadata."""
        if assigned:
            return ErrorCode.NONE
        return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch_given else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def check_replica_epoch(self, given: int, known: int, seen: int) -> ErrorCode:
        """FE-5: a fetch of an earlier incarnation of the follower is refused (KIP-903)."""
        if given != UNKNOWN and given < max(known, seen):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def diverges(self, fetch_offset: int, last_fetched_epoch: int, epoch: int, end_offset: int) -> bool:
        """FE-6: the two logs diverge before the fetch offset."""
        return epoch < last_fetched_epoch or end_offset < fetch_offset

    def is_in_log(self, fetch_offset: int, log_start: int, log_end: int) -> bool:
        """FE-7: the offset is in the log, or at its end."""
        return log_start <= fetch_offset <= log_end

    def moves_follower_state(self, error: ErrorCode, diverging: bool) -> bool:
        """FE-9: only a valid fetch proves what the follower holds, not one that diverges (KAFKA-13141)."""
        return error == ErrorCode.NONE and not diverging

    def kept_in_session(self, part: FetchPartition) -> FetchPartition:
        """FE-11: a session keeps everything last asked for, including the leader epoch (KAFKA-9338)."""
        return part

    def deletion_bound(self, high_watermark: int, log_end: int) -> int:
        """LO-3: nothing above the high watermark is deleted (KAFKA-5634)."""
        return high_watermark

    def read_bound(self, by_follower: bool, high_watermark: int, log_end: int) -> int:
        """FE-8: followers read to the log end, consumers to the high watermark."""
        return log_end if by_follower else high_watermark
