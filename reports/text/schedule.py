"""Reads a stored schedule of faults, whatever is in the file, and tells which of its entries were not fired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from common.wording import count, printable
from reports.data.stored_run import Run

NAMED_MAX: Final = 6
TIME_MAX_MS: Final = 1e12


def entries_of(schedule: object) -> list[dict[str, Any]]:
    """The entries of a schedule: a real run's are numbered, a simulated one's are a list of faults."""
    entries = schedule.get("entries") if isinstance(schedule, dict) else schedule
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def time_of(entry: Mapping[str, Any]) -> float | None:
    """When an entry is due, in seconds of the main phase; None if it does not say so."""
    at_ms = entry.get("at_ms")
    return at_ms / 1000 if isinstance(at_ms, int | float) and 0 <= at_ms < TIME_MAX_MS else None


def unfired(run: Run) -> str:
    """The sentence that names those numbered entries that were not fired; empty if all were, or there are none."""
    entries = [entry for entry in entries_of(run.schedule) if isinstance(entry.get("entry"), int)]
    fired = set(run.tables["faults"].column("schedule_entry").to_pylist())
    left = [entry for entry in entries if entry["entry"] not in fired]
    if not left:
        return ""
    named = "; ".join(_named(entry) for entry in left[:NAMED_MAX]) + ("; …" if len(left) > NAMED_MAX else "")
    return (
        f"Not fired, of the schedule's {count(len(entries))} entries: {named}. When it was due no node fitted, or the"
        " main phase had ended."
    )


def _named(entry: Mapping[str, Any]) -> str:
    at_s, target = time_of(entry), entry.get("target")
    role = target.get("role") if isinstance(target, dict) else None
    time = "" if at_s is None else f", due {at_s:g} s into the main phase"
    return printable(f"entry {entry['entry']}, {entry.get('kind')}{f' of {role}' if role else ''}{time}")
