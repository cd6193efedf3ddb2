"""Loads a suite's directory: the runs that it has, their results, and what they are compared with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, Literal

from common.wording import plural
from reports.suite.cell import CHANGES, FAILING, STATES, Attempt, Change, State, SuiteCell
from reports.suite.earlier import Earlier, NightSummary, load_earlier
from reports.suite.known import KnownFailure, excuses

TIME_FORMAT: Final = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class LoadedSuite:
    """A suite as its page shows it."""

    name: str
    about: str
    night: str  # the name of its directory
    budget_s: float
    spent_s: float
    ended: str  # "finished", "interrupted" or nothing while it goes on
    canary: tuple[SuiteCell, ...]
    cells: tuple[SuiteCell, ...]
    build: str = ""
    base: str = ""  # what relative links are appended to, outside the page
    machine: Mapping[str, str] = field(default_factory=dict)
    earlier: Earlier = field(default_factory=Earlier)
    entries: tuple[KnownFailure, ...] = ()

    @property
    def started(self) -> str:
        """The start in UTC, for people."""
        return night_text(self.night)

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
    def changes(self) -> Mapping[Change, Sequence[SuiteCell]]:
        """The cells by what became of them; every change is there."""
        return {change: [cell for cell in self.cells if cell.change == change] for change in CHANGES}

    @property
    def summary(self) -> NightSummary:
        """This night in numbers."""
        counts: dict[str, int] = {str(state): number for state, number in self.counts.items()}
        counts |= {"flaky": len(self.changes["flaky"]), "known": len(self.changes["known"])}
        acknowledged = sum(cell.counts.get("acknowledged", 0) for cell in self.cells)
        return NightSummary(self.night, self.build, self.verdict, counts, self.spent_s, acknowledged)

    @property
    def lost(self) -> Sequence[str]:
        """The titles of runs that failed in the earlier night and were not run in this one, or are not in it."""
        decided = {cell.title for cell in self.cells if cell.state != "skipped"}
        return [title for title, result in self.earlier.cells.items() if result.counted and title not in decided]

    @property
    def idle(self) -> Sequence[KnownFailure]:
        """Known failures that no run showed, of a suite that came to its end."""
        shown = {entry for cell in self.cells for entry in (*cell.known, *cell.expired)}
        return [entry for entry in self.entries if entry not in shown] if self.ended == "finished" else []

    @property
    def verdict(self) -> Literal["valid", "invalid", "unknown"]:
        """The suite as a whole; known failures do not count."""
        counting = {cell.state for cell in self.cells if not cell.known}
        if "invalid" in counting:
            return "invalid"
        late = any(cell.state == "skipped" and "budget" in " ".join(cell.reasons) for cell in self.cells)
        undecided = {"crashed", "unknown", "waiting"} & counting
        return "unknown" if undecided or late or not self.canary_found else "valid"

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        clauses = [f"{plural(number, 'run')} {state}" for state, number in self.counts.items()]
        if known := len(self.changes["known"]):
            clauses.append(f"{known} of them as {'a known failure' if known == 1 else 'known failures'}")
        if self.canary_found is False:
            clauses.append("the canary flaw was not found, so that nothing here proves anything")
        if self.ended != "finished":
            clauses.append("interrupted" if self.ended == "interrupted" else "still going on")
        return f"{', '.join(clauses)}."


def load_suite(directory: Path) -> LoadedSuite:
    """Load a suite's directory. Raises `OSError`, `ValueError`, `KeyError` and `TypeError` where there is none."""
    head = json.loads((directory / "suite.json").read_text())
    entries = tuple(KnownFailure.from_json(entry) for entry in head.get("known_failures", ()))
    earlier = load_earlier(directory)
    day = night_time(directory.name).date()
    return LoadedSuite(
        name=head["name"],
        about=head["about"],
        night=directory.name,
        budget_s=head["budget_s"],
        spent_s=head["spent_s"],
        ended=head["ended"],
        canary=tuple(_cell(directory, cell, (), Earlier(), day) for cell in head["canary"]),
        cells=tuple(_cell(directory, cell, entries, earlier, day) for cell in head["cells"]),
        build=head.get("build", ""),
        base=head.get("base", ""),
        machine=head.get("machine", {}),
        earlier=earlier,
        entries=entries,
    )


def night_time(name: str) -> datetime:
    """The time in the name of a suite's directory. Raises `ValueError`."""
    return datetime.strptime(name[:16], TIME_FORMAT).replace(tzinfo=UTC)


def night_text(name: str) -> str:
    """The same for people: 2026-01-05 02:00 UTC."""
    return night_time(name).strftime("%Y-%m-%d %H:%M UTC")


def _cell(
    directory: Path, cell: Mapping[str, Any], entries: Sequence[KnownFailure], earlier: Earlier, day: date
) -> SuiteCell:
    waiting = SuiteCell(
        name=cell["name"],
        environment=cell["environment"],
        configuration=cell["configuration"],
        faults=cell["faults"],
        seeds=cell["seeds"],
        state="waiting",
        anomaly=cell["anomaly"],
    )
    waiting = replace(
        waiting,
        before=earlier.cells.get(waiting.title),
        trail=tuple(earlier.trails.get(waiting.title, ("",) * len(earlier.nights))),
    )
    try:
        result = json.loads((directory / "cells" / f"{cell['name']}.json").read_text())["result"]
    except FileNotFoundError:
        return waiting
    attempts = tuple(
        Attempt(one["verdict"], "; ".join(one["reasons"][:1]), _page(directory, one["run"]), one["log"])
        for one in result.get("attempts", ())
    )
    concerned = _concerned(entries, cell, result, attempts)
    known = excuses([entry for entry in concerned if day <= entry.expires], result["anomalies"])
    expired = () if known else excuses(concerned, result["anomalies"])
    return replace(
        waiting,
        state=result["verdict"],
        reasons=tuple(result["reasons"]),
        seconds=result["seconds"],
        page=_page(directory, result["run"]),
        log=result["log"],
        counts=result["counts"],
        anomalies=result["anomalies"],
        again=result["again"],
        found=result["canary_found"],
        attempts=attempts,
        known=known,
        expired=tuple(entry for entry in expired if day > entry.expires),
    )


def _concerned(
    entries: Sequence[KnownFailure], cell: Mapping[str, Any], result: Mapping[str, Any], attempts: Sequence[Attempt]
) -> list[KnownFailure]:
    """The known failures that are about this run; none if it failed in another way than by violations."""
    if result["verdict"] != "invalid" or any(one.state in FAILING - {"invalid"} for one in attempts):
        return []
    failed = [(seed, seed) for seed in result.get("failed_seeds", ())]
    return [
        entry
        for entry in entries
        if entry.concerns(cell["environment"], cell["configuration"], cell["faults"])
        and entry.has_seeds(failed or [(cell["first_seed"], cell["last_seed"])])
    ]


def _page(directory: Path, run: str | None) -> str | None:
    page = f"{run}/report.html" if run else None
    return page if page and (directory / page).exists() else None
