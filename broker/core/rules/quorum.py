"""Decisions of the controllers' quorum (§18)."""

from __future__ import annotations

from collections.abc import Iterable

from broker.core.messages import NO_LEADER, UNKNOWN


class QuorumRules:
    """Decisions on who may vote, who may lead, and what is committed."""

    def may_act_in_stored_epoch(self, was_leader: bool) -> bool:
        """QU-1: the leader of the stored epoch never leads or votes in it after a restart (KAFKA-10527, -10661)."""
        return not was_leader

    def first_asks_for_pre_votes(self) -> bool:
        """QU-5, QU-6: a voter without its leader asks whether it could win before it raises the epoch (KIP-996)."""
        return True

    def grants_vote(
        self, candidate: int, voted_for: int, leader: int, candidate_end: tuple[int, int], own_end: tuple[int, int]
    ) -> bool:
        """QU-8: one vote per epoch, none once a leader is known, only for a log at least as complete as its own."""
        return leader == NO_LEADER and voted_for in (NO_LEADER, candidate) and candidate_end >= own_end

    def grants_pre_vote(
        self, leads: bool, hears_leader: bool, candidate_end: tuple[int, int], own_end: tuple[int, int]
    ) -> bool:
        """QU-9: not while the leader is reachable."""
        return not leads and not hears_leader and candidate_end >= own_end

    def remembers_votes(self) -> bool:
        """QU-8: a vote is durable before it is sent."""
        return True

    def high_watermark(self, voter_ends: Iterable[int], present: int, epoch_start: int) -> int:
        """QU-11: what a majority holds, once that covers a record of the leader's own epoch (KAFKA-12619)."""
        ends = sorted(voter_ends, reverse=True)
        held = ends[len(ends) // 2]
        return held if held != UNKNOWN and held > epoch_start and held > present else present

    def end_that_counts(self, flushed: int, written: int) -> int:
        """QU-12: only what is on the disk counts, for the leader and in what a follower fetches (KAFKA-10533)."""
        return flushed

    def resigns_without_majority(self) -> bool:
        """QU-13: a leader that no majority fetches from steps down (KAFKA-15489)."""
        return True

    def may_truncate_below(self, offset: int, high_watermark: int) -> bool:
        """QU-17: committed metadata is never cut off (KAFKA-12460)."""
        return offset >= high_watermark
