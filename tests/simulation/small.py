"""Simulations small enough for tests."""

from __future__ import annotations

from simulation.scenario.case import Case

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
    "changing_settings": False,
    "in_flight": 1,
    "retention_ms": 0,
    "retention_bytes": 0,
    "log_append_time": False,
    "clock_error_ms": 0,
    "producer_expiration_ms": 0,
    "log_directories": 1,
}
"""A seed of this takes some ten milliseconds."""

LIES: dict[str, object] = {**QUICK, "flaws": ("ack-before-replication",)}
"""A broker that acknowledges what only it has: found with almost every seed."""


def quick(seed: int, **overrides: object) -> Case:
    """A quick case."""
    return Case(seed, {**QUICK, **overrides})
