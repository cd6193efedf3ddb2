"""Decides the time of day in a simulation: when it begins, and how wrong the clocks of nodes and clients are.

Without `Configuration.is_dated` the time of day is the virtual time, and records have no times but where they are
compressed.
"""

from __future__ import annotations

from simulation.scenario.configuration import Configuration

BEGINNING_MS = 1_700_000_000_000
"""The time of day at the beginning of a simulation whose records have times, in ms since 1970."""


def clock_ahead_ms(configuration: Configuration, number: int) -> int:
    """How far the time of day of a node or a client is ahead of virtual time; it stays so but for jumps of the clock.

    One of three has the right time, one is ahead by `clock_error_ms`, and one behind.
    """
    if not configuration.is_dated:
        return 0
    return BEGINNING_MS + configuration.clock_error_ms * ((number + 1) % 3 - 1)


def clocks_ahead_ms(configuration: Configuration) -> tuple[int, int]:
    """The least and the most that any clock is ahead, but for its jumps."""
    if not configuration.is_dated:
        return 0, 0
    return BEGINNING_MS - configuration.clock_error_ms, BEGINNING_MS + configuration.clock_error_ms
