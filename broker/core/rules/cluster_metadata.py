"""Decides how metadata changes: registration (§5.1), reassignment (§15), when it is sent and adopted (§2.1, §4)."""

from __future__ import annotations

from typing import NamedTuple

from broker.core.metadata.image import BrokerImage


class Move(NamedTuple):
    """A reassignment: the replicas that it leads to, and those that are added and removed on the way."""

    target: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class RegistrationRules:
    """The controller's decisions on a registering broker."""

    def is_duplicate(self, existing: BrokerImage | None, incarnation_id: str, in_contact: bool) -> bool:
        """RG-2: another incarnation holds a session that is still valid (KAFKA-19047: fenced ones do not)."""
        return existing is not None and existing.incarnation_id != incarnation_id and existing.active and in_contact

    def is_current(self, registered_epoch: int, given_epoch: int) -> bool:
        """HB-1, AP-2, RG-7: requests of an earlier incarnation of a broker are void (KIP-380)."""
        return given_epoch == registered_epoch

    def ends_earlier_incarnation(self) -> bool:
        """RG-6: in one batch with its registration a broker leaves its earlier incarnation's leaderships and ISRs."""
        return True

    def to_fence(self, expired: tuple[int, ...]) -> tuple[int, ...]:
        """HB-4: one broker at a time, the longest silent first, so each change builds on the last (KAFKA-13173)."""
        return expired[:1]

    def stopped_cleanly(self, existing: BrokerImage | None, previous_broker_epoch: int) -> bool:
        """RG-5: the stop was clean only if the broker remembers the epoch of its last registration."""
        return existing is not None and previous_broker_epoch == existing.epoch


class ReassignmentRules:
    """The controller's decisions on moving replicas."""

    def is_complete(self, moved: Move, isr: tuple[int, ...], min_isr: int) -> bool:
        """RA-3: every added replica is in sync, and so are all of the target (KAFKA-15665), or min ISR if no fewer are.

        A replica that stays and is out of sync holds nothing up as long as the target is not smaller than what was
        before (KAFKA-19975); min ISR remain in sync all the same. `isr` is without the removed; `min_isr` the target's.
        """
        if not isr or not set(moved.adding) <= set(isr):
            return False
        return set(moved.target) <= set(isr) or (len(moved.removing) <= len(moved.adding) and len(isr) >= min_isr)

    def drops(self, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
        """EL-0: whether replicas leave, as they do when those that were to be added are given up (RA-1, RA-6).

        The leader epoch then rises. Otherwise a replica that is added again, and learns of its first addition only now,
        could fetch as a current replica, join the ISR, and delete its log on learning of its first removal (RT-8).
        """
        return not set(before) <= set(after)

    def strands(
        self,
        before: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
        after: tuple[int, ...],
        min_isr: int,
    ) -> bool:
        """RA-6: whether the new replicas leave too few of those that are known to be complete.

        `before` is (ISR, ELR, LastKnownELR). One member of the ISR has to stay, or of the ELR while the ISR is empty;
        and min ISR of the members of both, or all if they are fewer: a partition survives the loss of one of these.
        Of the last known eligible replicas each may be the only complete one, so all have to stay while nobody else is
        known; else as many as make up min ISR with the others.
        """
        isr, elr, last_known_elr = before
        complete = {*isr, *elr}
        if not complete:
            return not set(last_known_elr) <= set(after)
        groups = complete, {*complete, *last_known_elr}
        few = any(len(group & set(after)) < min(min_isr, len(group)) for group in groups)
        return few or not set(isr or elr) & set(after)

    def eligible_among(self, target: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...]:
        """ELR-5: after completion or cancellation only replicas of the target may be remembered as eligible.

        `before` are the previous replicas and ISR members.
        """
        return target


class MetadataRules:
    """The controller's decisions on its responses, and the brokers' on received metadata."""

    def answers_wait_for_commit(self) -> bool:
        """CT-1: a controller reports nothing that its quorum could still lose (QU-24)."""
        return True

    def is_news(self, partition_epoch: int, known_epoch: int) -> bool:
        """MD-3: only a later state of a partition replaces an earlier one (KAFKA-12686)."""
        return partition_epoch > known_epoch

    def refreshes_leader(self) -> bool:
        """ISR-5: a leader adopts the ISR and the partition epoch that the controller decided (KAFKA-2729)."""
        return True

    def publishes_min_isr(self) -> bool:
        """PR-2: the cluster's min ISR is in the metadata, so that controllers and brokers use the same one."""
        return True
