"""Simulations small enough for tests."""

from __future__ import annotations

from simulation.engine.choices import ChoiceSequence
from simulation.scenario.case import Case
from simulation.scenario.configuration import LATER_RECIPES, draw_configuration
from simulation.scenario.search import configuration_of

QUICK: dict[str, object] = {
    "brokers": 3,
    "controllers": 1,
    "combined": False,
    "duration_ms": 12_000,
    "operations": 30,
    "polls": 20,
    "sole_survivor": False,
    "group_members": 0,
    "side_topics": False,
    "keyed_topic": False,
    "racks": 0,
    "changing_settings": False,
    "in_flight": 1,
    "retention_ms": 0,
    "retention_bytes": 0,
    "log_append_time": False,
    "clock_error_ms": 0,
    "producer_expiration_ms": 0,
    "log_directories": 1,
    "fetch_bytes": 0,
    "examination": "",
}
"""A seed of this takes some ten milliseconds."""

LIES: dict[str, object] = {**QUICK, "flaws": ("ack-before-replication",)}
"""A broker that acknowledges what only it has: found with almost every seed."""


def quick(seed: int, **overrides: object) -> Case:
    """A quick case."""
    return Case(seed, {**QUICK, **overrides})


def without_later_recipes(seed: int, **overrides: object) -> dict[str, object]:
    """Overrides with which a seed is what it was before there were the recipes that it draws from a later stream."""
    drawn = configuration_of(ChoiceSequence(seed), overrides)
    bytes_drawn = draw_configuration(ChoiceSequence(seed)["configuration"]).metadata_fetch_bytes
    kept = tuple(kind for kind in drawn.faults if kind not in LATER_RECIPES)
    return {**overrides, "faults": kept, "metadata_fetch_bytes": bytes_drawn}
