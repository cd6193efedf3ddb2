"""Loads a suite's directory: the runs that it has, and their results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from common.wording import plural

State = Literal["valid", "invalid", "unknown", "crashed", "skipped", "waiting"]

STATES: Mapping[State, str] = {
    "valid": "no violations",
    "invalid": "violations",
    "unknown": "could not be decided",
    "crashed": "the run did not come to its end",
    "skipped": "not run, with a reason",
    "waiting": "not run yet",
}
"""The meaning of each state, in the order of reports."""

GRAVEST: Sequence[State] = ("invalid", "crashed", "unknown", "skipped", "waiting", "valid")


@dataclass(frozen=True)
class SuiteCell:
    """One run of the suite."""

    name: str
    environment: str
    configuration: str
    faults: str
    seeds: str
    state: State
    reasons: tuple[str, ...] = ()
    seconds: float = 0.0
    page: str | None = None  # of the run, relative to the suite's
    log: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    anomalies: Mapping[str, int] = field(default_factory=dict)
    again: str = ""
    anomaly: str | None = None  # of a canary
    found: bool | None = None  # of a canary

    @property
    def link(self) -> str | None:
        """The page or log with the details."""
        return self.page or self.log

    @property
    def title(self) -> str:
        """The cell in one line."""
        return f"{self.environment} · {self.configuration} · {self.faults} · {self.seeds}"


@dataclass(frozen=True)
class LoadedSuite:
    """A suite as its page shows it."""

    name: str
    about: str
    started: str  # UTC
    budget_s: float
    spent_s: float
    ended: str  # "finished", "interrupted" or nothing while it goes on
    canary: tuple[SuiteCell, ...]
    cells: tuple[SuiteCell, ...]

    @property
    def canary_found(self) -> bool | None:
        """Whether the suite has shown that it can find a flaw; None while that is not known."""
        if any(cell.found for cell in self.canary):
            return True
        return None if any(cell.state == "waiting" for cell in self.canary) else False

    @property
    def counts(self) -> Mapping[State, int]:
        """How many cells are in each state that there is."""
        counted = Counter(cell.state for cell in self.cells)
        return {state: counted[state] for state in STATES if counted[state]}

    @property
    def verdict(self) -> Literal["valid", "invalid", "unknown"]:
        """The suite as a whole."""
        if self.counts.get("invalid"):
            return "invalid"
        late = any(cell.state == "skipped" and "budget" in " ".join(cell.reasons) for cell in self.cells)
        undecided = {"crashed", "unknown", "waiting"} & set(self.counts)
        return "unknown" if undecided or late or not self.canary_found else "valid"

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        clauses = [f"{plural(number, 'run')} {state}" for state, number in self.counts.items()]
        if self.canary_found is False:
            clauses.append("the canary flaw was not found, so that nothing here proves anything")
        if self.ended != "finished":
            clauses.append("interrupted" if self.ended == "interrupted" else "still going on")
        return f"{', '.join(clauses)}."


def load_suite(directory: Path) -> LoadedSuite:
    """Load a suite's directory. Raises `OSError` and `ValueError` where there is none."""
    head = json.loads((directory / "suite.json").read_text())
    return LoadedSuite(
        name=head["name"],
        about=head["about"],
        started=_time(directory.name),
        budget_s=head["budget_s"],
        spent_s=head["spent_s"],
        ended=head["ended"],
        canary=tuple(_cell(directory, cell) for cell in head["canary"]),
        cells=tuple(_cell(directory, cell) for cell in head["cells"]),
    )


def _time(name: str) -> str:
    """Return the time in the name of a suite's directory."""
    date, clock = name[:8], name[9:15]
    return f"{date[:4]}-{date[4:6]}-{date[6:]} {clock[:2]}:{clock[2:4]} UTC"


def _cell(directory: Path, cell: Mapping[str, Any]) -> SuiteCell:
    known = {key: cell[key] for key in ("name", "environment", "configuration", "faults", "seeds", "anomaly")}
    try:
        result = json.loads((directory / "cells" / f"{cell['name']}.json").read_text())["result"]
    except FileNotFoundError:
        return SuiteCell(**known, state="waiting")
    page = f"{result['run']}/report.html" if result["run"] else None
    return SuiteCell(
        **known,
        state=result["verdict"],
        reasons=tuple(result["reasons"]),
        seconds=result["seconds"],
        page=page if page and (directory / page).exists() else None,
        log=result["log"],
        counts=result["counts"],
        anomalies=result["anomalies"],
        again=result["again"],
        found=result["canary_found"],
    )
