"""Compares two stored runs: configuration, schedule, metrics, anomalies, incidents. Only what differs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from common.wording import printable
from incidents.headlines import gravest
from reports.data.joined import Joined
from reports.data.stored_run import Run, load_run
from reports.text.schedule import entries_of, time_of
from reports.text.summary import Summary, summarize

ABSENT: Final = "-"
"""What stands for a value that only the other run has."""
_NOT_COMPARED: Final = ("reproduce", "spec", "flaw_summaries")
_DEPTH_MAX: Final = 3
_COLUMN_MAX: Final = 40
"""Longer values stand below each other."""


_Values = Mapping[str, object]


class Difference(NamedTuple):
    """One value that differs; None on the side that lacks it."""

    name: str
    one: object
    other: object


@dataclass(frozen=True)
class Comparison:
    """What differs between two runs, by section; sections without a difference are not there."""

    runs: tuple[Path, Path]
    sections: Mapping[str, Sequence[Difference]]
    problems: tuple[str, ...]
    """What is missing or could not be read, with the name of its run."""

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {
            "runs": [str(run) for run in self.runs],
            "differences": {name: [row._asdict() for row in rows] for name, rows in self.sections.items()},
            "problems": list(self.problems),
        }

    def lines(self) -> Iterator[str]:
        """The differences side by side, safe to print on a terminal."""
        if not self.sections:
            yield "nothing differs"
            return
        short = [row for rows in self.sections.values() for row in rows if _is_short(row)]
        width = max((len(printable(row.name)) for row in short), default=0) + 2
        column = max((len(_text(row.one)) for row in short), default=0)
        yield f"{'one':<{width}}  {printable(self.runs[0].resolve().name)}"
        yield f"{'other':<{width}}  {printable(self.runs[1].resolve().name)}"
        for section, rows in self.sections.items():
            yield ""
            yield section
            for row in rows:
                name, one, other = printable(row.name), _text(row.one), _text(row.other)
                if _is_short(row):
                    yield f"  {name:<{width - 2}}  {one:<{column}}  {other}"
                else:
                    yield from (f"  {name}", f"    one    {one}", f"    other  {other}")


def compare(one: Path, other: Path) -> Comparison:
    """Compare two run directories. Raises `RunNotFoundError` if one does not exist."""
    runs = (load_run(one), load_run(other))
    left, right = (_sections(run) for run in runs)
    differing = {name: _differences(left[name], right[name]) for name in left}
    problems = tuple(printable(f"{run.directory.name}: {problem}") for run in runs for problem in run.problems)
    return Comparison((one, other), {name: rows for name, rows in differing.items() if rows}, problems)


def _differences(one: _Values, other: _Values) -> list[Difference]:
    names = [*one, *(name for name in other if name not in one)]
    rows = (Difference(name, one.get(name), other.get(name)) for name in names)
    return [row for row in rows if row.one != row.other]


def _sections(run: Run) -> Mapping[str, _Values]:
    summary = summarize(run, Joined(run))
    return {
        "verdict": {"verdict": summary.verdict.word},
        "configuration": _configuration(run.spec),
        "schedule": _schedule(run.schedule),
        "metrics": {**_counted(summary), **_flat(run.results.get("metrics"))},
        "anomalies": {
            f"{total.name}, {kind}": number
            for total in summary.anomalies
            for kind, number in (("violations", total.violations), ("within the contract", total.within_contract))
            if number
        },
        "incidents": _numbered(
            (" ".join([gravest(incident.anomalies), *(cause.kind for cause in incident.causes)]), incident.headline)
            for incident in run.incidents
        ),
    }


def _configuration(spec: Mapping[str, Any]) -> _Values:
    """The settings of a run; a simulated run has all of them below `configuration`, and some above it too."""
    own = spec.get("configuration")
    settings = own if isinstance(own, dict) else {}
    rest = {name: value for name, value in spec.items() if name not in settings and name != "configuration"}
    return _flat({name: value for name, value in {**rest, **settings}.items() if name not in _NOT_COMPARED})


def _schedule(schedule: object) -> _Values:
    """The faults by time and kind; a real run's are numbered, which is not compared."""
    rows = []
    for fault in entries_of(schedule):
        rest = {name: value for name, value in fault.items() if name not in ("entry", "at_ms", "kind")}
        at_s = time_of(fault)
        time = "at an unknown time" if at_s is None else f"{at_s:.3f} s"
        rows.append(
            (f"{time} {fault.get('kind')}", ", ".join(f"{name} {_text(value)}" for name, value in rest.items()))
        )
    return _numbered(rows)


def _counted(summary: Summary) -> _Values:
    operations = {
        f"{operation.kind} operations, {status}": number
        for operation in summary.operations
        for status, number in (("ok", operation.ok), ("fail", operation.fail), ("info", operation.info))
    }
    faults = {f"{fault.kind} faults, took effect": fault.took_hold for fault in summary.faults}
    return {
        "duration_s": round(summary.duration_ns / 1e9, 3),
        **operations,
        "records sent": summary.sent,
        "records acknowledged": summary.acknowledged,
        "records read": summary.read,
        "distinct records read": summary.distinct_read,
        **faults,
    }


def _numbered(rows: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> _Values:
    """Name values; the second of one name gets a number."""
    seen: Counter[str] = Counter()
    values: dict[str, object] = {}
    for name, value in rows:
        seen[name] += 1
        values[name if seen[name] == 1 else f"{name} ({seen[name]})"] = value
    return values


def _flat(data: object, prefix: str = "", depth: int = 1) -> dict[str, object]:
    """Name nested values by their path: `versions.python`."""
    flat: dict[str, object] = {}
    for name, value in data.items() if isinstance(data, dict) else ():
        if isinstance(value, dict) and depth < _DEPTH_MAX:
            flat |= _flat(value, f"{prefix}{name}.", depth + 1)
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _is_short(row: Difference) -> bool:
    return len(_text(row.one)) <= _COLUMN_MAX and len(_text(row.other)) <= _COLUMN_MAX


def _text(value: object) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, list):
        return printable(", ".join(map(str, value)) or "none")
    return printable(value if isinstance(value, str) else json.dumps(value))
