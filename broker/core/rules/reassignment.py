"""Decides when a reassignment is complete, and how its end changes the replica sets (§15)."""

from __future__ import annotations


class ReassignmentRules:
    """The controller's decisions on moving replicas."""

    def is_complete(self, target: tuple[int, ...], adding: tuple[int, ...], isr: tuple[int, ...], min_isr: int) -> bool:
        """RA-3: every target replica is in sync (KAFKA-15665). `isr` is without the removed; `min_isr` the target's."""
        return bool(isr) and set(target) <= set(isr)

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
    ) -> bool:
        """RA-6: whether the new replicas leave nobody who is known to be complete.

        `before` is (ISR, ELR, LastKnownELR). One member of the ISR, or of the ELR while the ISR is empty, is enough.
        Of the last known eligible replicas each may be the only complete one, so all have to stay.
        """
        isr, elr, last_known_elr = before
        if isr or elr:
            return not set(isr or elr) & set(after)
        return not set(last_known_elr) <= set(after)

    def eligible_among(self, target: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...]:
        """ELR-5: after completion or cancellation only replicas of the target may be remembered as eligible.

        `before` are the previous replicas and ISR members.
        """
        return target
