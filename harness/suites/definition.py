"""Reads a suite's file: the matrix of runs, their configurations, the budget, the canary (docs/guide/suites.md)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any, Final

from common.names import SpecError
from harness.spec.spec import Spec
from harness.spec.toml_table import Table
from harness.suites import cells
from harness.suites.cells import SIMULATION, Cell
from harness.suites.known_failures import anomalies_in, read_known_failures, seed_ranges
from reports.suite.known import KnownFailure

KNOWN_ENVIRONMENTS: Final = (SIMULATION, "local", "docker", "ssh")

_SEE: Final = "see docs/guide/suites.md"
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)([smh])")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_NOT_FOR_CELLS: Final = frozenset({"seed", "name", "environment", "faults"})
_CELLS_MAX: Final = 900
RERUNS_MAX: Final = 20
_LIMIT_BEYOND_DURATION_S: Final = 300.0
_LIMIT_OF_SIMULATION_S: Final = 1_800.0
_DURATION_S: Final = 60.0


@dataclass(frozen=True)
class Suite:
    """All cells of a suite, the canary first."""

    name: str
    about: str
    budget_s: float
    canary: Sequence[Cell]  # run one after the other until one of them is found
    cells: Sequence[Cell]
    digest: str  # of the file: a suite that was started from another file is not resumed
    known_failures: Sequence[KnownFailure] = ()
    reruns: int = 0  # how often a run of a real cluster that failed, now or in the last night, is run again


def load(path: Path) -> Suite:
    """Read a suite. Raises `SpecError`."""
    table = Table.load(path, "a suite", _SEE)
    table.only("name", "about", "budget", "reruns", "canary", "configurations", "matrix", "known-failures")
    name = table.text("name")
    if not _NAME.fullmatch(name):
        raise table.wrong("name", "up to 32 letters, digits, dots, dashes and underscores", repr(name))
    configurations = _configurations(table)
    canary_table = table.table("canary", needed=True)
    assert canary_table is not None
    canary = _canary(canary_table)
    found = [cell for each in table.tables("matrix") for cell in _cells(each, configurations)]
    if not 0 < len(found) <= _CELLS_MAX:
        raise table.wrong("matrix", f"1 to {_CELLS_MAX} runs in all", len(found))
    numbered = [Cell(**{**vars(cell), "number": number}) for number, cell in enumerate(found, len(canary) + 1)]
    for cell in (*canary, *numbered):
        try:
            cells.check(cell)
        except (SpecError, ValueError, KeyError) as error:
            where = f"{cell.environment}, {cell.configuration}, {cell.faults}"
            raise SpecError(f"{path}: expected {where} to be a run, found: {error}; {_SEE}") from error
    return Suite(
        name=name,
        about=table.text("about", ""),
        budget_s=_time(table, "budget"),
        canary=canary,
        cells=numbered,
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        known_failures=read_known_failures(table, numbered),
        reruns=table.number("reruns", 0, 0, RERUNS_MAX),
    )


def _configurations(table: Table) -> Mapping[str, Mapping[str, Any]]:
    whole = table.table("configurations")
    if whole is None:
        return {"default": {}}
    named = {}
    for name in whole.raw:
        each = whole.table(name)
        assert each is not None
        named[name] = _settings(each)
    return named


def _settings(table: Table | None) -> Mapping[str, Any]:
    if table is None:
        return {}
    known = [field.name.replace("_", "-") for field in fields(Spec) if field.name not in _NOT_FOR_CELLS]
    table.only(*known, SIMULATION)
    own = table.table(SIMULATION)
    settings = {key.replace("-", "_"): value for key, value in table.raw.items()}
    return settings if own is None else {**settings, SIMULATION: own.raw}


def _canary(table: Table) -> Sequence[Cell]:
    table.only("environment", "faults", "seeds", "anomaly", "settings", "limit")
    settings = _settings(table.table("settings"))
    if not settings.get("flaws"):
        raise table.wrong("settings.flaws", "a flaw that the suite must find", "none")
    environment = table.one_of("environment", KNOWN_ENVIRONMENTS)
    anomaly, faults = table.text("anomaly", "any"), table.text("faults")
    table.require_known("anomaly", [anomaly], ("any", *anomalies_in([environment])))
    return [
        Cell(number, environment, "canary", faults, *seeds, settings, _limit(table, environment, settings), anomaly)
        for number, seeds in enumerate(_seeds(table, environment), 1)
    ]


def _cells(table: Table, configurations: Mapping[str, Mapping[str, Any]]) -> Iterator[Cell]:
    table.only("environments", "faults", "configurations", "seeds", "settings", "limit")
    settings = _settings(table.table("settings"))
    environments = table.texts("environments")
    faults = table.texts("faults")
    chosen = table.texts("configurations") or tuple(configurations)
    for key, words, known in (
        ("environments", environments, KNOWN_ENVIRONMENTS),
        ("configurations", chosen, tuple(configurations)),
    ):
        if not words:
            raise table.wrong(key, f"some of {', '.join(known)}", "none")
        table.require_known(key, words, known)
    if not faults:
        raise table.wrong("faults", "a list of what --faults takes", "none")
    for environment, configuration, kinds in product(environments, chosen, faults):
        own = {**settings, **configurations[configuration]}
        for seeds in _seeds(table, environment):
            yield Cell(0, environment, configuration, kinds, *seeds, own, _limit(table, environment, own))


def _seeds(table: Table, environment: str) -> Sequence[tuple[int, int]]:
    """First and last seed of each cell: a simulation sweeps a range, a real cluster runs one seed per cell."""
    ranges = seed_ranges(table, table.raw.get("seeds", 1))
    if environment == SIMULATION:
        return ranges
    return [(seed, seed) for first, last in ranges for seed in range(first, min(last, first + _CELLS_MAX) + 1)]


def _limit(table: Table, environment: str, settings: Mapping[str, Any]) -> float:
    if "limit" in table.raw:
        return _time(table, "limit")
    if environment == SIMULATION:
        return _LIMIT_OF_SIMULATION_S
    duration = settings.get("duration", _DURATION_S)
    return _LIMIT_BEYOND_DURATION_S + (duration if isinstance(duration, int | float) else _DURATION_S)


def _time(table: Table, key: str) -> float:
    found = _TIME.fullmatch(table.text(key))
    if found is None:
        raise table.wrong(key, "a length of time like 90s, 10m or 2h", repr(table.raw[key]))
    return float(found[1]) * _UNITS[found[2]]
