"""Taking the steps of a counterexample again, by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simulation.exhaustive import trace
from simulation.exhaustive.model.cluster import ModelCluster
from simulation.exhaustive.model.setup import begin
from simulation.exhaustive.model.step import NodeCrashed
from simulation.exhaustive.properties.of_the_cluster import Broken
from simulation.exhaustive.spec import ModelSpec


class Traced(NamedTuple):
    """One step and what it changed."""

    name: str
    changes: tuple[str, ...]


class Replayed(NamedTuple):
    """What became of the steps: how many were taken, and what was broken at the last of them."""

    steps: tuple[Traced, ...]
    violation: str | None
    impossible: str | None
    """The step that could not be taken, with its number and why; the correct build often stops a flaw's trace so."""


def follow(spec: ModelSpec, names: Sequence[str]) -> Replayed:
    """Take the steps with these names, until one breaks a property or cannot be taken."""
    cluster = ModelCluster(spec)
    state = begin(cluster)
    told: list[Traced] = []
    for number, wanted in enumerate(names, 1):
        possible = {trace.name(cluster, state, action): action for action in cluster.actions(state)}
        if wanted not in possible:
            return Replayed(tuple(told), None, f"step {number} is not possible: {wanted}")
        try:
            after = cluster.apply(state, possible[wanted])
        except (Broken, NodeCrashed) as broken:
            return Replayed((*told, Traced(wanted, ())), str(broken), None)
        if after is None:
            return Replayed(tuple(told), None, f"step {number} comes to nothing: {wanted}")
        told.append(Traced(wanted, tuple(trace.changes(cluster, state, after))))
        state = after
    return Replayed(tuple(told), None, None)
