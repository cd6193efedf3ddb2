"""Draws a history that no order explains, as one self-contained HTML file.

It is drawn from a verdict as JSON (`checkers/linearizability/evidence.py`): operations as bars, one lane a
process; the longest legal orders to choose from, with the state after every step; the operation that no
valid order contains.

Time is not to scale. Each instant at which something began or ended is one step to the right, so that
concurrent operations can be distinguished, however unequal the times are.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jinja2

from common.atomic_files import replacing
from reports import templating
from reports.data.stored_run import Run

STEP_INSIDE: Final = 0.18
"""The distance, in columns, of neighbouring points of one order at least."""

Json = Mapping[str, Any]


VERDICT_FILE: Final = "linearizability.json"
PICTURE_FILE: Final = "linearizability.html"


def render_picture(verdict: Json, page: Path, title: str) -> Path:
    """Write the picture of a verdict's evidence and return its path. Raises `OSError` if it cannot be written."""
    with replacing(page) as unfinished:
        unfinished.write_text(picture(verdict, title), encoding="utf-8")
    return page


def picture(verdict: Json, title: str) -> str:
    """Return the page. `title` names the history."""
    parts = [drawn(evidence) for evidence in verdict["evidence"]]
    return _template().render(verdict=verdict, title=title, parts=parts)


def drawn(evidence: Json) -> dict[str, Any]:
    """Return evidence with coordinates: a lane and two columns per operation, a column per step of an order."""
    operations: Sequence[Json] = evidence["operations"]
    instants = sorted(
        {(operation["invoked"], 0) for operation in operations}
        | {(operation["completed"], 1) for operation in operations if operation["completed"] is not None}
    )
    columns = {instant: column for column, instant in enumerate(instants)}
    width = len(instants) + 1
    lanes: dict[Any, int] = {}
    for operation in operations:
        lanes.setdefault(operation["process"], len(lanes))
    bars = [
        {
            "lane": lanes[operation["process"]],
            "from": columns[operation["invoked"], 0],
            "to": width if operation["completed"] is None else columns[operation["completed"], 1] + 0.8,
            "open": operation["completed"] is None,
            "text": operation["text"],
            "process": operation["process"],
        }
        for operation in operations
    ]
    return {
        "key": evidence["key"],
        "model": evidence["model"],
        "initial": evidence["initial"],
        "left_out": evidence["left_out"],
        "stuck": evidence["stuck"],
        "window": evidence["window"],
        "width": width,
        "lanes": [str(process) for process in lanes],
        "bars": bars,
        "orders": [_placed(order, bars) for order in evidence["orders"]],
    }


def _placed(order: Sequence[Json], bars: Sequence[Json]) -> list[dict[str, Any]]:
    """Give each step the earliest instant that its bar and the steps before allow."""
    steps: list[dict[str, Any]] = []
    at = 0.0
    for step in order:
        at = max(at + STEP_INSIDE, bars[step["operation"]]["from"] + STEP_INSIDE)
        steps.append({"operation": step["operation"], "state": step["state"], "at": round(at, 2)})
    return _within(steps, bars)


def _within(steps: list[dict[str, Any]], bars: Sequence[Json]) -> list[dict[str, Any]]:
    """Move steps together where too many fall into the rest of a bar, so that each point stays within its bar."""
    after = float("inf")
    for step in reversed(steps):
        latest = min(after, bars[step["operation"]]["to"])
        if step["at"] >= latest:
            step["at"] = round(latest - STEP_INSIDE / 6, 2)
        after = step["at"]
    return steps


@functools.cache
def _template() -> jinja2.Template:
    return templating.environment().get_template("linearizability/page.html")


def picture_name(run: Run) -> str | None:
    """Return the name of the picture that belongs beside the page; None if there is nothing to draw."""
    return None if _violation(run) is None else PICTURE_FILE


def draw_objects(run: Run) -> None:
    """Write the picture, or remove an outdated one. Raises `OSError` if it cannot be written."""
    verdict = _violation(run)
    if verdict is None:
        (run.directory / PICTURE_FILE).unlink(missing_ok=True)
    else:
        render_picture(verdict, run.directory / PICTURE_FILE, str(run.settings.get("name") or run.directory.name))


def _violation(run: Run) -> Mapping[str, Any] | None:
    try:
        verdict = json.loads((run.directory / VERDICT_FILE).read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(verdict, dict) or not isinstance(verdict.get("evidence"), list):
        return None
    return verdict if verdict.get("outcome") == "invalid" else None
