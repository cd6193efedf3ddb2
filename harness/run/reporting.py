"""Writes a run's report after its verdict; a failure to write it does not affect the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.terminal.errors import describe

if TYPE_CHECKING:
    from harness.terminal.progress import Progress


def write_report(run: Path, progress: Progress) -> Path | None:
    """Write the report page of a run and return its path; if that fails, log the reason in one line and return None."""
    from reports import render

    try:
        return render(run)
    except Exception as error:
        progress.log(f"no report: {describe(error)}; see `harrow report {run}`", style="yellow")
        return None
