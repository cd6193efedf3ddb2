"""Taking the steps of a counterexample again, by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from harness.simulation.exhaustive import telling
from harness.simulation.exhaustive.properties import Broken
from harness.simulation.exhaustive.setup import begin
from harness.simulation.exhaustive.spec import SmallWorld
from harness.simulation.exhaustive.step import NodeCrashed
from harness.simulation.exhaustive.world import World


class Told(NamedTuple):
    """One step and what it changed."""

    name: str
    changes: tuple[str, ...]


class Replayed(NamedTuple):
    """What became of the steps: how many were taken, and what was broken at the last of them."""

    steps: tuple[Told, ...]
    violation: str | None
    impossible: str | None
    """The step that could not be taken, with its number and why; the correct build often stops a flaw's trace so."""


def follow(spec: SmallWorld, names: Sequence[str]) -> Replayed:
    """Take the steps with these names, until one breaks a property or cannot be taken."""
    world = World(spec)
    state = begin(world)
    told: list[Told] = []
    for number, wanted in enumerate(names, 1):
        possible = {telling.name(world, state, action): action for action in world.actions(state)}
        if wanted not in possible:
            return Replayed(tuple(told), None, f"step {number} is not possible: {wanted}")
        try:
            after = world.apply(state, possible[wanted])
        except (Broken, NodeCrashed) as broken:
            return Replayed((*told, Told(wanted, ())), str(broken), None)
        if after is None:
            return Replayed(tuple(told), None, f"step {number} comes to nothing: {wanted}")
        told.append(Told(wanted, tuple(telling.changes(world, state, after))))
        state = after
    return Replayed(tuple(told), None, None)
