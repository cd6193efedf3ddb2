"""Reports a run: its page, and its summary for the terminal. They read the run's directory and nothing else."""

from __future__ import annotations

from pathlib import Path

__all__ = ["render"]


def render(run_directory: Path) -> Path:
    """Write `report.html` into a run directory and return its path; see `reports.page.render`."""
    # matplotlib takes half a second to import, and the summary for the terminal does not need it.
    from reports.page import render as render_page

    return render_page(run_directory)
