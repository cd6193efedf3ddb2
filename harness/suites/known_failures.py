"""Reads the known failures of a suite's file: each has anomalies, an owner and a last day (docs/guide/suites.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Final

from harness.spec.toml_table import Table
from harness.suites.cells import SIMULATION, Cell
from reports.suite.known import KnownFailure

_SEEDS: Final = re.compile(r"(\d+)(?::(\d+))?")
_SEEDS_MAX: Final = 1_000_000


def read_known_failures(table: Table, cells: Sequence[Cell]) -> Sequence[KnownFailure]:
    """The tables `[[known-failures]]`; each must be about a run of the suite. Raises `SpecError`."""
    return [_read(each, cells) for each in table.tables("known-failures")]


def _read(table: Table, cells: Sequence[Cell]) -> KnownFailure:
    table.only("anomalies", "owner", "expires", "reason", "environments", "configurations", "faults", "seeds")
    expires = table.raw.get("expires")
    if not isinstance(expires, date) or isinstance(expires, datetime):
        raise table.wrong("expires", "the last day, like 2026-03-31", "none" if expires is None else repr(expires))
    named = {key: table.texts(key) for key in ("environments", "configurations", "faults")}
    for key, known in (
        ("environments", [cell.environment for cell in cells]),
        ("configurations", [cell.configuration for cell in cells]),
        ("faults", [cell.faults for cell in cells]),
    ):
        table.require_known(key, named[key], dict.fromkeys(known))
    anomalies = table.texts("anomalies")
    if not anomalies:
        raise table.wrong("anomalies", "the anomalies or properties that are expected", "none")
    entry = KnownFailure(
        **named,
        anomalies=anomalies,
        owner=table.text("owner"),
        expires=expires,
        reason=table.text("reason", ""),
        seeds=tuple(seed_ranges(table, table.raw["seeds"])) if "seeds" in table.raw else (),
    )
    concerned = [cell for cell in cells if entry.concerns(cell.environment, cell.configuration, cell.faults)]
    if not any(_overlap(entry, cell) for cell in concerned):
        raise table.error("", "expected to be about a run of the suite, found none with all that it names")
    table.require_known("anomalies", anomalies, anomalies_in(cell.environment for cell in concerned))
    return entry


def _overlap(entry: KnownFailure, cell: Cell) -> bool:
    return not entry.seeds or any(low <= cell.last_seed and cell.first_seed <= high for low, high in entry.seeds)


def anomalies_in(environments: Iterable[str]) -> Sequence[str]:
    """What may be found in these environments: anomalies of the checkers, and properties of the simulation."""
    from history.anomalies import OF_THE_SYSTEM
    from simulation.invariants.properties import PROPERTY_IDS

    return (*OF_THE_SYSTEM, *(("crash", *PROPERTY_IDS) if SIMULATION in environments else ()))


def seed_ranges(table: Table, value: object) -> Sequence[tuple[int, int]]:
    """First and last seed of each range that the key `seeds` of a table has. Raises `SpecError`."""
    expected = 'a seed, a range like "1:20", or a list of these'
    ranges = []
    for each in value if isinstance(value, list) else [value]:
        found = _SEEDS.fullmatch(str(each)) if isinstance(each, str | int) and not isinstance(each, bool) else None
        if found is None:
            raise table.wrong("seeds", expected, repr(each))
        first, last = int(found[1]), int(found[2] or found[1])
        if first > last or last - first >= _SEEDS_MAX:
            raise table.wrong("seeds", expected, repr(each))
        ranges.append((first, last))
    if not ranges:
        raise table.wrong("seeds", expected, "none")
    return ranges
