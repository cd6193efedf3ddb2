"""What is said of one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from checkers.foreign.events import Malformed

MALFORMED = "malformed-history"

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
    """Where a sequential object was asked for: what `checkers.linearizability.exchange` makes of its verdict."""

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
    """Nothing could be made of a file."""
    return FileVerdict(file, "unknown", (MALFORMED,), {MALFORMED: 1}, reason)


def with_malformed(judged: FileVerdict, malformed: Sequence[Malformed], total: int) -> FileVerdict:
    """Add what could not be read: what is valid without it is unknown, and what is invalid stays so."""
    if not total:
        return judged
    places = "; ".join(f"line {place.line}: {place.problem}" for place in malformed[:3])
    told = f"{total:,} malformed rows ({places}{'; …' if total > 3 else ''})"
    verdict: Verdict = "unknown" if judged.verdict == "valid" else judged.verdict
    return FileVerdict(
        judged.file,
        verdict,
        tuple(sorted({*judged.kinds, MALFORMED})),
        {**judged.counts, MALFORMED: judged.counts.get(MALFORMED, 0) + total},
        told if judged.verdict == "valid" else f"{judged.reason}; {told}",
        judged.decision,
    )
