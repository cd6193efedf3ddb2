"""Reads schedules written by hand: a TOML file with one table per fault.

    about = "What it is for"     # optional

    [[fault]]
    at = 2.0                     # seconds from the start of the main phase
    kind = "isolate"
    target = "leader"            # a role; then the partition, and an index among the nodes with that role
    partition = 0
    pick = 0
    entry = 1                    # with the target "same": the number of the fault whose nodes are hit again, from 1
    lasts = 5.0                  # seconds
    beside = false               # may fire while other faults are active
    parameters = { from = "nodes" }

    [[fault]]
    at = 2.5                     # at the earliest
    when = { condition = "isr-at-most", partition = 0, value = 1 }
    kind = "page-cache-loss"
    target = "leader"
    lasts = 3.0
    beside = true

`at` is optional with a `when`; the default of `lasts` is 5 seconds, that of `target` a leader.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.names import unknown
from nemesis.schedule import Schedule, ScheduleError, loads, loads_entries

_FIELDS = ("at", "kind", "target", "partition", "pick", "entry", "lasts", "beside", "parameters", "when")
_LASTS_S = 5.0
_MS_PER_S = 1000


def loads_script(text: str) -> Schedule:
    """Parse a schedule written by hand. Raises `ScheduleError`."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScheduleError(f"expected a schedule as TOML, found: {error}") from error
    faults = raw.get("fault")
    if not isinstance(faults, list) or not set(raw) <= {"fault", "about"}:
        steps = "; one with steps is for `harrow sim --schedule`" if "step" in raw else ""
        raise ScheduleError(f"expected a schedule of [[fault]] tables, found {', '.join(raw) or 'nothing'}{steps}")
    return loads_entries([_entry(number, fault) for number, fault in enumerate(faults, 1)])


def loads_file(path: Path) -> Schedule:
    """Read a schedule file: TOML written by hand, or JSON stored by a run. Raises `ScheduleError`."""
    try:
        return (loads_script if path.suffix == ".toml" else loads)(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ScheduleError(f"{path}: expected a readable file, found: {error}") from error


def _entry(number: int, fault: object) -> dict[str, Any]:
    """Convert a fault table to an entry of a stored schedule."""
    if not isinstance(fault, Mapping):
        raise ScheduleError(f"fault {number} of the schedule: expected a table, found {fault!r}")
    for key in sorted(set(fault) - set(_FIELDS)):
        raise ScheduleError(f"fault {number} of the schedule: {unknown(key, _FIELDS, 'a key')}")
    if "kind" not in fault or ("at" not in fault and "when" not in fault):
        raise ScheduleError(
            f"fault {number} of the schedule: expected a kind, and when to fire it, found neither or one"
        )
    return {
        "entry": number,
        "at_ms": _milliseconds(number, "at", fault.get("at", 0)),
        "kind": fault["kind"],
        "target": {
            "role": fault.get("target", "leader"),
            "partition": fault.get("partition", 0),
            "pick": fault.get("pick", 0),
            "entry": fault.get("entry", 0),
        },
        "duration_ms": _milliseconds(number, "lasts", fault.get("lasts", _LASTS_S)),
        "parameters": {name: str(value) for name, value in dict(fault.get("parameters", {})).items()},
        "beside": fault.get("beside", False),
        "when": fault.get("when"),
    }


def _milliseconds(number: int, name: str, seconds: object) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 1e6:
        raise ScheduleError(f"fault {number} of the schedule: expected {name} in seconds, found {seconds!r}")
    return round(seconds * _MS_PER_S)
