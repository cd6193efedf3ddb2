"""Defines the verdict on one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from checkers.foreign.events import Malformed
from history.anomalies import MALFORMED

Verdict = Literal["valid", "invalid", "unknown"]


@dataclass(frozen=True)
class FileVerdict:
    """The verdict on one file or directory."""

    file: str
    verdict: Verdict
    kinds: tuple[str, ...]
    """Names of all anomalies found, those within the contract (or legal in the profile) included."""
    counts: Mapping[str, int]
    """How often each kind was found, and how much there was: operations, …"""
    reason: str
    """One line."""
    decision: Mapping[str, Any] | None = None
    """For a sequential object: its verdict as JSON of `checkers.linearizability.exchange`."""

    def to_json(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        return {
            "file": self.file,
            "verdict": self.verdict,
            "kinds": list(self.kinds),
            "counts": dict(self.counts),
            "reason": self.reason,
        }


def unreadable(file: str, reason: str) -> FileVerdict:
    """Return the verdict on a file that cannot be read."""
    return FileVerdict(file, "unknown", (MALFORMED,), {MALFORMED: 1}, reason)


def with_malformed(judged: FileVerdict, malformed: Sequence[Malformed], total: int) -> FileVerdict:
    """Add malformed rows to a verdict: valid becomes unknown, invalid stays invalid."""
    if not total:
        return judged
    rows = "; ".join(f"line {row.line}: {row.problem}" for row in malformed[:3])
    malformed_rows = f"{total:,} malformed rows ({rows}{'; …' if total > 3 else ''})"
    verdict: Verdict = "unknown" if judged.verdict == "valid" else judged.verdict
    return FileVerdict(
        judged.file,
        verdict,
        tuple(sorted({*judged.kinds, MALFORMED})),
        {**judged.counts, MALFORMED: judged.counts.get(MALFORMED, 0) + total},
        malformed_rows if judged.verdict == "valid" else f"{judged.reason}; {malformed_rows}",
        judged.decision,
    )
