"""Writing a run's report, after its verdict: what goes wrong there must not cost the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.terminal.errors import describe

if TYPE_CHECKING:
    from harness.terminal.progress import Progress


def write_report(run: Path, progress: Progress) -> Path | None:
    """Write the page of a run and return it; None if that fails, and one line says why there is no page."""
    from reports import render

    try:
        return render(run)
    except Exception as error:
        progress.note(f"no report: {describe(error)}; see `harrow report {run}`", style="yellow")
        return None
