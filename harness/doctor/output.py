"""Prints the findings: a table, and a last line that says whether the default job works."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.doctor.findings import DefaultJob, CapabilityState

_PLAIN_WIDTH = 160


def render(findings: Sequence[CapabilityState], job: DefaultJob | None, console: Console | None = None) -> None:
    """Print the findings, coloured on a terminal only; without a last line if there is no job."""
    table = Table(box=None, pad_edge=False)
    for heading in ("", "capability", "found", "to add it"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        mark = "[green]yes[/]" if finding.available else "[red]no[/]" if finding.needed else "[yellow]no[/]"
        table.add_row(mark, finding.title, escape(finding.why), escape(finding.remedy))
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    out = console or Console(highlight=False, width=width)
    out.print(table)
    if job is not None:
        out.print()
        out.print(escape(str(job)), soft_wrap=True)
