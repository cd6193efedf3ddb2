"""Draws the schedule of a simulation: which faults strike when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from nemesis.triggers import Trigger
from simulation.engine.choices import Stream
from simulation.scenario.configuration import Configuration


class SimulatedFault(NamedTuple):
    """One entry of a schedule. `target` is resolved when it fires: 0 … n are nodes in order, larger numbers roles."""

    at_ms: int
    kind: str
    target: int
    duration_ms: int
    parameter: int
    when: Trigger | None = None  # fires once this holds, at `at_ms` or later; never, if it does not hold before the end

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        plain = self._asdict()
        if self.when is None:
            del plain["when"]
        else:
            plain["when"] = asdict(self.when)
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> SimulatedFault:
        """The inverse of `to_json`."""
        when = plain.get("when")
        return cls(**{**plain, "when": None if when is None else Trigger(**when)})


def draw(stream: Stream, configuration: Configuration) -> list[SimulatedFault]:
    """Draw the faults of a seed, of the kinds and at the mean interval of its configuration."""
    faults: list[SimulatedFault] = []
    if not configuration.faults:
        return faults
    at_ms = 2_000
    while True:
        at_ms += 1 + stream.draw("pause before the fault", 2 * configuration.fault_interval_ms)
        if at_ms >= configuration.duration_ms - 5_000:
            return faults
        kind = stream.draw("kind", len(configuration.faults) + 1)
        if kind == 0:
            continue
        faults.append(
            SimulatedFault(
                at_ms,
                configuration.faults[kind - 1],
                stream.draw("target", configuration.brokers + configuration.controllers + 4),
                1 + stream.draw("duration", 2 * configuration.fault_duration_ms),
                stream.draw("parameter", 1_000),
            )
        )
