"""When a reassignment is complete, and what its end does to the sets of replicas (§15)."""

from __future__ import annotations


class ReassignmentRules:
    """Decisions of the controller about moving replicas."""

    def is_complete(self, target: tuple[int, ...], adding: tuple[int, ...], isr: tuple[int, ...], min_isr: int) -> bool:
        """RA-3: every target replica is in sync (KAFKA-15665). `isr` is without the removed; `min_isr` the target's."""
        return bool(isr) and set(target) <= set(isr)

    def drops(self, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
        """EL-0: whether replicas leave, as they do when those that were to be added are given up (RA-1, RA-6).

        The leader epoch then rises. Else one that is added again, and hears of its first time only now, could fetch as
        a replica of today, join the ISR, and delete its log when it hears of the end of that first time (RT-8).
        """
        return not set(before) <= set(after)

    def eligible_among(self, target: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...]:
        """ELR-5: after completion or cancellation only replicas of the target may be remembered as eligible.

        `before` are those who were replicas or in sync until now.
        """
        return target
