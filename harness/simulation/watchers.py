"""Who watches a simulation: the one place that knows which observers there are."""

from __future__ import annotations

from collections.abc import Sequence

from harness.simulation.world import Observer


def watchers() -> Sequence[Observer]:
    """Fresh observers for one simulation."""
    return ()
