"""`harrow.simulate`: one simulated cluster with its clients and faults, decided by a seed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from common.names import unknown
from common.wording import labelled
from harrow.frames import frame_of
from simulation.invariants.observer import property_observers
from simulation.runs import stored
from simulation.runs.failures import findings
from simulation.scenario import case as cases
from simulation.scenario.case import Case
from simulation.scenario.overrides import check_overrides, faults_of, repeat_command
from simulation.scenario.phases import SimulationOutcome
from simulation.workload import tables

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_NOT_RECORDED = "cluster"
"""The table that only a stored run has: samples of the nodes' state."""


@dataclass(frozen=True)
class Finding:
    """One violation."""

    layer: str
    """What revealed it: crash, invariant, liveness, logs or history."""
    property_id: str
    """A property of the protocol (docs/protocol.md), or the name of an anomaly."""
    text: str

    def __str__(self) -> str:
        return labelled(self.property_id, self.text)


@dataclass(frozen=True)
class Simulation:
    """The result of one simulation. The same seed and settings give the same `digest`, on every machine."""

    seed: int
    settings: Mapping[str, object]
    """What was set instead of being drawn from the seed."""
    findings: tuple[Finding, ...]
    digest: str
    events: int
    virtual_ms: int
    """The length of the simulation, in milliseconds of its own clock."""
    configuration: Mapping[str, Any]
    """All settings, those that the seed has drawn included."""
    faults: tuple[Mapping[str, Any], ...]
    """The schedule: kind, time, target, duration."""
    marks: Mapping[str, int]
    """How often remarkable situations occurred, by their names."""
    _outcome: SimulationOutcome = field(repr=False, compare=False)

    @property
    def verdict(self) -> Literal["valid", "invalid"]:
        """Whether anything was found."""
        return "invalid" if self.findings else "valid"

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        return repeat_command(["sim", "--seed", str(self.seed)], self.settings)

    @property
    def explain_command(self) -> str:
        """The command line that stores, explains and shrinks it."""
        return repeat_command(["explain", str(self.seed)], self.settings)

    def store(self, directory: str | os.PathLike[str]) -> Path:
        """Write the run into a directory, as a sweep stores a failing seed; returns the directory.

        `harrow.check` takes it, and so do `harrow report`, `harrow replay` and the other commands for stored runs. It
        is simulated again for that. Raises `ValueError` if there is something in the directory.
        """
        place = Path(directory)
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise ValueError(f"expected an empty directory, or none, found something at {place}")
        place.mkdir(parents=True, exist_ok=True)
        stored.store(place, Case(self.seed, self.settings))
        return place

    def frame(self, table: str) -> pd.DataFrame:
        """A table of the clients' history, as `history/schema.py` describes it. Raises `ValueError` for other names."""
        if table not in self._tables:
            raise ValueError(unknown(table, self._tables, "a table of a simulation"))
        return frame_of(self._tables[table])

    def row(self) -> dict[str, object]:
        """The result as one row of a frame."""
        first = self.findings[0] if self.findings else None
        return {
            "seed": self.seed,
            "verdict": self.verdict,
            "property": first.property_id if first else None,
            "reason": str(first) if first else None,
            "events": self.events,
            "virtual_ms": self.virtual_ms,
            "faults": len(self.faults),
            "digest": self.digest,
            "command": self.command,
        }

    @cached_property
    def _tables(self) -> Mapping[str, pa.Table]:
        run = tables.Recorded(f"seed-{self.seed}", "simulation", self._outcome, ())
        return {name: table for name, table in tables.arrow_tables(run).items() if name != _NOT_RECORDED}


def simulate(seed: int, **settings: object) -> Simulation:
    """Simulate a cluster, its clients and its faults, and check every step and the history of the clients.

    `settings` replace what the seed would draw: those of `harrow sim --set` (docs/guide/simulation.md), and
    `generation="K3"`, `flaws=["unclean-election"]`, `faults="kill,isolate"` as its flags take them. Lists may be given
    as texts with commas. The checkers on Spark are not asked; `harrow.check` does that for stored runs. Takes about a
    second. Raises `ValueError` with one line for a setting that does not exist or does not fit.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed: expected a whole number from 0 on, found {seed!r}")
    overrides = overrides_of(settings)
    outcome = cases.run(Case(seed, overrides), property_observers(), to_the_end=True)
    return Simulation(
        seed=seed,
        settings=overrides,
        findings=tuple(Finding(found.layer.value, found.property_id, found.what) for found in findings(outcome)),
        digest=outcome.digest,
        events=outcome.events,
        virtual_ms=outcome.virtual_ms,
        configuration=outcome.configuration.to_json(),
        faults=tuple(fault.to_json() for fault in outcome.faults),
        marks=dict(outcome.marks),
        _outcome=outcome,
    )


def overrides_of(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings as the simulation takes them. Raises `ValueError`."""
    overrides: dict[str, object] = {}
    for name, value in settings.items():
        words = _words(name, value) if name in ("faults", "flaws") else None
        if words is None:
            overrides[name] = value
        elif name == "faults":
            overrides |= faults_of(",".join(words))
        else:
            overrides[name] = tuple(words)
    check_overrides(overrides)
    return overrides


def _words(name: str, value: object) -> list[str]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{name}: expected names, found {value!r}")
    return [str(word) for word in words if word]
