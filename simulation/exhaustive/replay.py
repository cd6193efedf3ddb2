"""Replays the steps of a counterexample by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simulation.exhaustive import trace
from simulation.exhaustive.model.cluster import ModelCluster
from simulation.exhaustive.model.setup import begin
from simulation.exhaustive.model.step import ModelNodeCrashed
from simulation.exhaustive.properties.cluster_state import Broken
from simulation.exhaustive.spec import ModelSpec


class Traced(NamedTuple):
    """One step and what it changed."""

    name: str
    changes: tuple[str, ...]


class Replayed(NamedTuple):
    """The result of a replay: the steps that were taken, and the property that the last one broke."""

    steps: tuple[Traced, ...]
    violation: str | None
    impossible: str | None
    """The step that could not be taken, with its number and why; a flaw's trace often ends so on the correct build."""


def follow(spec: ModelSpec, names: Sequence[str]) -> Replayed:
    """Take the steps with these names, until one breaks a property or cannot be taken."""
    cluster = ModelCluster(spec)
    state = begin(cluster)
    steps: list[Traced] = []
    for number, wanted in enumerate(names, 1):
        possible = {trace.name(cluster, state, action): action for action in cluster.actions(state)}
        if wanted not in possible:
            return Replayed(tuple(steps), None, f"step {number} is not possible: {wanted}")
        try:
            after = cluster.apply(state, possible[wanted])
        except (Broken, ModelNodeCrashed) as broken:
            return Replayed((*steps, Traced(wanted, ())), str(broken), None)
        if after is None:
            return Replayed(tuple(steps), None, f"step {number} has no effect: {wanted}")
        steps.append(Traced(wanted, tuple(trace.changes(cluster, state, after))))
        state = after
    return Replayed(tuple(steps), None, None)
