"""Schedules of faults: which faults the nemesis fires, at what time, at which targets; how they are stored and read.

A schedule is drawn from the seed before the run (`nemesis.drawing`), or written by hand, and stored with the run. Times
are milliseconds since the start of the main phase. Faults follow one another, except where an entry may fire beside
active faults.

A stored schedule is replayed exactly: `loads(dumps(schedule)) == schedule`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from common.names import unknown
from nemesis.faults import KINDS
from nemesis.faults.base import FaultKind
from nemesis.faults.upgrade import FIRST, UPGRADE
from nemesis.targets import CONDITIONS, ROLES, SAME, FaultTarget, Trigger


@dataclass(frozen=True)
class ScheduledFault:
    """One scheduled fault."""

    entry: int  # number in the schedule, from 1
    at_ms: int
    kind: str
    target: FaultTarget
    duration_ms: int  # from injection to undo
    parameters: Mapping[str, str]
    beside: bool = False  # may fire while other faults are active
    when: Trigger | None = None  # fires when this is true, at `at_ms` or later; never if it never is


@dataclass(frozen=True)
class Schedule:
    """All scheduled faults, ordered by time."""

    entries: tuple[ScheduledFault, ...]


class ScheduleError(ValueError):
    """A stored schedule that can't be read. One line: what was expected, what was found."""


UPGRADE_AT_MS = 5_000
"""When an upgrade begins, at the latest: there is load by then, and time for it."""


def with_upgrade(schedule: Schedule, duration_ms: int, first: str) -> Schedule:
    """Add an upgrade of all nodes, one fifth into the main phase at the latest, unless the schedule has one.

    `first`: whose turn is first, the brokers or the controllers.
    """
    if any(entry.kind == UPGRADE.name for entry in schedule.entries):
        return schedule
    number = max((entry.entry for entry in schedule.entries), default=0) + 1
    at_ms = min(UPGRADE_AT_MS, duration_ms // 5)
    upgrade = ScheduledFault(number, at_ms, UPGRADE.name, FaultTarget("everyone"), 1_000, {FIRST: first})
    return Schedule(tuple(sorted((*schedule.entries, upgrade), key=lambda entry: (entry.at_ms, entry.entry))))


# --- storage ------------------------------------------------------------------------------------------------


def dumps(schedule: Schedule) -> str:
    """Format a schedule as JSON, one entry per line."""
    lines = ",\n  ".join(json.dumps(asdict(entry)) for entry in schedule.entries)
    return f'{{"entries": [\n  {lines}\n]}}\n'


def loads(text: str) -> Schedule:
    """Parse what `dumps` wrote, possibly edited by hand. Raises `ScheduleError`."""
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise ScheduleError(f"expected a schedule as JSON, found text that is not: {error}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("entries"), list):
        raise ScheduleError('expected a schedule {"entries": [...]}, found other JSON')
    return loads_entries(raw["entries"])


def loads_entries(raw: Sequence[dict[str, Any]]) -> Schedule:
    """Build a schedule from entries as JSON values. Raises `ScheduleError`."""
    entries = tuple(_entry(number, item) for number, item in enumerate(raw, 1))
    return Schedule(tuple(sorted(entries, key=lambda entry: (entry.at_ms, entry.entry))))


def _entry(number: int, raw: dict[str, Any]) -> ScheduledFault:
    try:
        target = FaultTarget(**raw["target"])
        when = Trigger(**raw["when"]) if raw.get("when") is not None else None
        entry = ScheduledFault(**{**raw, "target": target, "when": when})
    except (TypeError, KeyError) as error:
        raise ScheduleError(
            f"entry {number} of the schedule: expected the fields of an entry, found {error}"
        ) from error
    return _checked(number, entry)


def _checked(number: int, entry: ScheduledFault) -> ScheduledFault:
    def expect(valid: bool, what: str, found: object) -> None:
        if not valid:
            raise ScheduleError(f"entry {number} of the schedule: expected {what}, found {found!r}")

    def expect_name(found: str, known: Collection[str], what: str, see: str = "") -> None:
        if found not in known:
            raise ScheduleError(f"entry {number} of the schedule: {unknown(found, known, what, see)}")

    target = entry.target
    numbers = (entry.entry, entry.at_ms, entry.duration_ms, target.partition, target.pick, target.entry)
    expect(all(type(value) is int and value >= 0 for value in numbers), "whole numbers from 0", numbers)
    expect_name(entry.kind, KINDS, "the name of a fault", "`harrow faults`")
    expect_name(target.role, ROLES, "a role")
    if target.role == SAME:
        expect(
            0 < target.entry < entry.entry, "the number of an earlier entry, whose nodes are hit again", target.entry
        )
    expect(isinstance(entry.beside, bool), "beside to be true or false", entry.beside)
    if entry.when is not None:
        expect_name(entry.when.condition, CONDITIONS, "a condition")
        values = (entry.when.partition, entry.when.value)
        expect(all(type(value) is int and value >= 0 for value in values), "whole numbers from 0", values)
    texts = isinstance(entry.parameters, dict) and all(isinstance(value, str) for value in entry.parameters.values())
    expect(texts, "parameters to be an object of strings", entry.parameters)
    return entry


def kinds_of(schedule: Schedule) -> tuple[FaultKind, ...]:
    """List the kinds that a schedule contains, each once."""
    return tuple(KINDS[name] for name in dict.fromkeys(entry.kind for entry in schedule.entries))
