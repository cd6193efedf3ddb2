"""Tells which entries of a real run's schedule were not fired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from common.wording import count, printable
from reports.data.stored_run import Run

NAMED_MAX: Final = 6
TIME_MAX_MS: Final = 10**12


def unfired(run: Run) -> str:
    """The sentence that names them; empty if all were fired, or nothing tells."""
    entries = run.schedule.get("entries") if isinstance(run.schedule, dict) else None
    if not isinstance(entries, list):
        return ""
    fired = set(run.tables["faults"].column("schedule_entry").to_pylist())
    left = [one for one in entries if isinstance(one, dict) and isinstance(one.get("entry"), int)]
    left = [one for one in left if one["entry"] not in fired]
    if not left:
        return ""
    named = "; ".join(_named(entry) for entry in left[:NAMED_MAX]) + ("; …" if len(left) > NAMED_MAX else "")
    return (
        f"Not fired, of the schedule's {count(len(entries))} entries: {named}. When it was due no node fitted, or the"
        " main phase had ended."
    )


def _named(entry: Mapping[str, Any]) -> str:
    at_ms, target = entry.get("at_ms"), entry.get("target")
    role = target.get("role") if isinstance(target, dict) else None
    time = f" at {at_ms / 1000:g} s" if isinstance(at_ms, int | float) and 0 <= at_ms < TIME_MAX_MS else ""
    return printable(f"entry {entry['entry']}, {entry.get('kind')}{f' of {role}' if role else ''}{time}")
