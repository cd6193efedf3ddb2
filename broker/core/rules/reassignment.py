"""When a reassignment is complete, and what its end does to the sets of replicas (§15)."""

from __future__ import annotations


class ReassignmentRules:
    """Decisions of the controller about moving replicas."""

    def is_complete(self, target: tuple[int, ...], adding: tuple[int, ...], isr: tuple[int, ...], min_isr: int) -> bool:
        """RA-3: every target replica is in sync (KAFKA-15665). `isr` is without the removed; `min_isr` the target's."""
        return bool(isr) and set(target) <= set(isr)

    def eligible_among(self, target: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...]:
        """ELR-5: after completion or cancellation only replicas of the target may be remembered as eligible.

        `before` are those who were replicas or in sync until now.
        """
        return target
