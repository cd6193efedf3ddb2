"""Writes a run's report after its verdict; a failure to write it does not affect the verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.terminal.exits import describe


def write_report(run: Path, warn: Callable[[str], object]) -> Path | None:
    """Write the report page of a run and return its path; if that fails, warn with one line and return None."""
    from reports import render

    try:
        return render(run)
    except Exception as error:
        warn(f"no report: {describe(error)}; see `harrow report {run}`")
        return None
