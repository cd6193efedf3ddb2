"""What the store browser knows of a run: some fields of its small files. A damaged run is an entry that says so."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeGuard

from common.wording import printable

VERDICTS: Final = ("invalid", "unknown", "valid", "not checked", "damaged")

_NAME: Final = re.compile(r"(\d{8}T\d{6}Z)-.+")
_SIZE_MAX_BYTES: Final = 32 << 20
"""A file that should have some kilobytes and is larger is not read."""
_TEXT_MAX: Final = 400


@dataclass(frozen=True)
class RunEntry:
    """One run of the store."""

    name: str
    made: datetime | None
    """By its name; None for another name."""
    verdict: str
    """One of `VERDICTS`."""
    headline: str
    """The gravest incident, or else the first reason, or what is damaged."""
    environment: str
    seed: str
    flaws: tuple[str, ...]
    anomalies: Mapping[str, int]
    """Violations by name."""
    numbers: Mapping[str, float]
    """Figures for trends, by the keys of `FIGURES`."""
    settings: Mapping[str, object]
    """The simple values of `spec.json`."""
    has_report: bool
    searched: str
    """All text that a search looks at, in small letters."""


FIGURES: Final[Mapping[str, str]] = {
    "recovery_ms": "longest recovery (ms)",
    "outage_ms": "longest write outage (ms)",
    "acknowledged_per_s": "acknowledged writes per second",
    "latency_p99_ms": "latency of sends, 99th percentile (ms)",
    "violations": "violations",
}


def read_entry(directory: Path) -> RunEntry:
    """Read a run's entry; nothing that its files hold raises."""
    named = _NAME.fullmatch(directory.name)
    made = None
    if named is not None:
        try:
            made = datetime.strptime(named[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        except ValueError:
            made = None
    problems: list[str] = []
    spec = _object(directory / "spec.json", problems, required=True)
    results = _object(directory / "results.json", problems, required=False)
    anomalies = _anomalies(results)
    environment, seed = _text(spec.get("environment")), _text(spec.get("seed"))
    flaws = tuple(map(_text, _list(spec.get("flaws"))))
    verdict = "damaged" if problems else _verdict(results)
    headline = problems[0] if problems else _headline(results)
    words = (directory.name, verdict, headline, environment, *flaws, *anomalies, *map(_text, _list(spec.get("faults"))))
    return RunEntry(
        name=directory.name,
        made=made,
        verdict=verdict,
        headline=headline,
        environment=environment,
        seed=seed,
        flaws=flaws,
        anomalies=anomalies,
        numbers=_numbers(results, anomalies),
        settings={
            str(name): value for name, value in spec.items() if isinstance(value, str | int | float | bool | list)
        },
        has_report=(directory / "report.html").is_file(),
        searched=" ".join(words).lower(),
    )


def _object(path: Path, problems: list[str], *, required: bool) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > _SIZE_MAX_BYTES:
            problems.append(f"{path.name} is larger than {_SIZE_MAX_BYTES >> 20} MiB")
            return {}
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            problems.append(f"{path.name} is missing")
        return {}
    except (OSError, ValueError, RecursionError):
        problems.append(f"{path.name} cannot be read")
        return {}
    if not isinstance(content, dict):
        problems.append(f"{path.name} holds no object")
        return {}
    return content


def _verdict(results: Mapping[str, Any]) -> str:
    if not results:
        return "not checked"
    found = results.get("verdict")
    return found if found in VERDICTS else "damaged"


def _headline(results: Mapping[str, Any]) -> str:
    for incident in _list(results.get("incidents")):
        if isinstance(incident, dict) and incident.get("headline"):
            return _text(incident["headline"])
    reasons = _list(results.get("reasons"))
    return _text(reasons[0]) if reasons else ""


def _anomalies(results: Mapping[str, Any]) -> Mapping[str, int]:
    stated = results.get("anomalies")
    counted = {}
    for name, numbers in stated.items() if isinstance(stated, dict) else ():
        violations = numbers.get("violations") if isinstance(numbers, dict) else None
        if type(violations) is int and violations > 0:
            counted[_text(name)] = violations
    return counted


def _numbers(results: Mapping[str, Any], anomalies: Mapping[str, int]) -> Mapping[str, float]:
    metrics = results.get("metrics")
    stated = metrics if isinstance(metrics, dict) else {}
    recoveries = [fault.get("to_recover_ms") for fault in _list(stated.get("faults")) if isinstance(fault, dict)]
    values = {
        "recovery_ms": max((each for each in recoveries if _is_number(each)), default=None),
        "outage_ms": stated.get("without_acknowledged_writes_ms_max"),
        "acknowledged_per_s": stated.get("acknowledged_per_s"),
        "latency_p99_ms": stated.get("send_latency_p99_ms"),
        "violations": sum(anomalies.values()) if results else None,
    }
    return {name: float(value) for name, value in values.items() if _is_number(value)}


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _text(value: object) -> str:
    text = "" if value is None else str(value)
    return printable(text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]} …")
