"""What `harrow doctor` has to say of one capability, and of the default job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.doctor.remedies.table import Explanation
from harness.environments.causes import Cause, to_json
from harness.environments.machine.feature_probes import ProbeResult


@dataclass(frozen=True)
class Finding:
    """One thing that a run may want of the machine."""

    capability: str  # of the table of remedies
    title: str
    available: bool
    found: str  # one line: what worked, or what was met instead
    explanation: Explanation | None = None  # why it is not there and what to do, if that is known
    needed: bool = False  # without it the default job cannot work; everything else has a substitute or is an extra
    cause: Cause | None = None

    @classmethod
    def of(cls, trial: ProbeResult, capability: str, title: str, *, needed: bool = False) -> Finding:
        """What a trial has found."""
        return cls(capability, title, trial.available, trial.found, trial.explanation, needed, trial.cause)

    @property
    def why(self) -> str:
        """What was found, in words where they are known."""
        return self.explanation.words if self.explanation is not None else self.found

    @property
    def remedy(self) -> str:
        """What to do; empty where it is there, or nothing is known to help."""
        return self.explanation.remedy.text if self.explanation is not None else ""


@dataclass(frozen=True)
class DefaultJob:
    """Whether `harrow run` without any flags works on this machine, and how."""

    mechanisms: Mapping[str, str]  # what it does → by what
    lacks: Sequence[Finding]  # what it needs and has not

    @property
    def works(self) -> bool:
        """Whether nothing is missing."""
        return not self.lacks

    def __str__(self) -> str:
        """One line."""
        if self.works:
            return "`harrow run` works here: " + "; ".join(f"{what} by {how}" for what, how in self.mechanisms.items())
        told = [f"{one.title}: {one.why}{f'; {one.remedy}' if one.remedy else ''}" for one in self.lacks]
        return f"`harrow run` does not work here. {'. '.join(told)}"


def as_json(findings: Sequence[Finding], job: DefaultJob | None) -> dict[str, Any]:
    """All of it, for programs."""
    told: dict[str, Any] = {"capabilities": [_as_json(finding) for finding in findings]}
    if job is not None:
        told["default_job"] = {
            "works": job.works,
            "mechanisms": dict(job.mechanisms),
            "lacks": [finding.capability for finding in job.lacks],
        }
    return told


def _as_json(finding: Finding) -> dict[str, Any]:
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
