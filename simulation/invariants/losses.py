"""Checks that a controller reports the unclean elections that it holds, and no others (P-37)."""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.controller.losses import PotentialLosses
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.properties import Violation


def decided(
    known: Knowledge,
    node_id: int,
    losses: PotentialLosses,
    unclean: Sequence[tuple[str, int, int]],
    *,
    begins: bool,
) -> None:
    """P-37 after a step of an active controller. `unclean`: topic, partition and leader epoch of what it has elected.

    Of the step in which it becomes active only what is reported is noted: nobody knows what it has found.
    """
    counted = sum(losses.counted.values())
    before, known.reported[node_id] = known.reported.get(node_id, 0), counted
    if begins or (counted == before and not unclean):
        return
    kept = [(loss.topic, loss.partition, loss.leader_epoch) for loss in losses.recent]
    if counted - before != len(unclean) or not set(unclean) <= set(kept):
        raise Violation(
            "P-37",
            f"controller {node_id} has held {sorted(unclean)} (topic, partition, leader epoch) uncleanly; it "
            f"counts {counted} instead of {before} before, and reports {kept}",
        )
