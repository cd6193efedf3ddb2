"""Writes the picture of objects that clients kept in a log, beside a run's page, if no order explains their history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from reports.data.stored_run import Run
from reports.pictures.linearizability import render_picture

VERDICT: Final = "linearizability.json"
PICTURE: Final = "linearizability.html"


def picture_name(run: Run) -> str | None:
    """Return the name of the picture that belongs beside the page; None if there is nothing to draw."""
    return None if _violation(run) is None else PICTURE


def draw_objects(run: Run) -> None:
    """Write the picture, or remove an outdated one. Raises `OSError` if it cannot be written."""
    verdict = _violation(run)
    if verdict is None:
        (run.directory / PICTURE).unlink(missing_ok=True)
    else:
        render_picture(verdict, run.directory / PICTURE, str(run.settings.get("name") or run.directory.name))


def _violation(run: Run) -> Mapping[str, Any] | None:
    try:
        verdict = json.loads((run.directory / VERDICT).read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(verdict, dict) or not isinstance(verdict.get("evidence"), list):
        return None
    return verdict if verdict.get("outcome") == "invalid" else None
