"""What `harrow doctor` found: the state of each capability, and whether the default job works; printed, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.doctor.remedies.table import Explanation
from harness.environments.causes import Cause, to_json
from harness.environments.machine.feature_probes import ProbeResult

_PLAIN_WIDTH = 160


@dataclass(frozen=True)
class CapabilityState:
    """The state of one capability that a run may need."""

    capability: str  # its name in the table of remedies
    title: str
    available: bool
    found: str  # one line: what worked, or what failed
    explanation: Explanation | None = None  # why it is missing and what to do, if that is known
    needed: bool = False  # required by the default job; all others have a substitute or are optional
    cause: Cause | None = None

    @classmethod
    def of(cls, probed: ProbeResult, capability: str, title: str, *, needed: bool = False) -> CapabilityState:
        """Make the finding from the result of a probe."""
        return cls(capability, title, probed.available, probed.found, probed.explanation, needed, probed.cause)

    @property
    def why(self) -> str:
        """The explanation of the cause if it is known, else what was found."""
        return self.explanation.words if self.explanation is not None else self.found

    @property
    def remedy(self) -> str:
        """What to do; empty if the capability is available, or no remedy is known."""
        return self.explanation.remedy.text if self.explanation is not None else ""


@dataclass(frozen=True)
class DefaultJob:
    """Whether `harrow run` without any flags works on this machine, and how."""

    mechanisms: Mapping[str, str]  # purpose → mechanism
    lacks: Sequence[CapabilityState]  # required capabilities that are missing

    @property
    def works(self) -> bool:
        """Whether nothing is missing."""
        return not self.lacks

    def __str__(self) -> str:
        """One line."""
        if self.works:
            return "`harrow run` works here: " + "; ".join(f"{what} by {how}" for what, how in self.mechanisms.items())
        reasons = [f"{one.title}: {one.why}{f'; {one.remedy}' if one.remedy else ''}" for one in self.lacks]
        return f"`harrow run` does not work here. {'. '.join(reasons)}"


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


def as_json(findings: Sequence[CapabilityState], job: DefaultJob | None) -> dict[str, Any]:
    """All findings as JSON, for programs."""
    content: dict[str, Any] = {"capabilities": [_as_json(finding) for finding in findings]}
    if job is not None:
        content["default_job"] = {
            "works": job.works,
            "mechanisms": dict(job.mechanisms),
            "lacks": [finding.capability for finding in job.lacks],
        }
    return content


def _as_json(finding: CapabilityState) -> dict[str, Any]:
    known = finding.explanation
    return {
        "capability": finding.capability,
        "title": finding.title,
        "available": finding.available,
        "needed": finding.needed,
        "found": finding.found,
        "met": to_json(finding.cause),
        "cause": None if known is None else known.cause,
        "why": None if known is None else known.words,
        "remedy": None if known is None else {"text": known.remedy.text, "command": known.remedy.command},
    }
