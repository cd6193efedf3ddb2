"""Defines how the page groups anomalies: by name, on one side of the contract, with a few explained in full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reports.data.suspects import Suspect
from reports.pictures.replica_logs import LogPicture
from reports.text.record_timeline import TimelineEvent


@dataclass(frozen=True)
class AnomalyExplanation:
    """One anomaly explained in full."""

    title: str
    happened: str
    replicas: tuple[str, ...]
    suspects: tuple[Suspect, ...]
    moments: tuple[TimelineEvent, ...]
    picture: LogPicture | None
    evidence: str
    """The checker's evidence, JSON made readable."""
    row: dict[str, Any]
    anchor: str = ""
    """The id of its place in the page."""
    incidents: tuple[int, ...] = ()
    """The numbers of the incidents that it belongs to."""
    is_dated: bool = True
    """Whether it is known when it happened."""


@dataclass(frozen=True)
class PartitionKey:
    """The anomalies of a group in one partition."""

    name: str
    rows: int
    offsets: str
    times: str


def section_of(name: str, *, within_contract: bool) -> str:
    """The id of the page's section about the anomalies of one name on one side of the contract."""
    return f"{'allowed' if within_contract else 'violations'}-{name}"


@dataclass(frozen=True)
class AnomalyGroup:
    """All anomalies of one name on one side of the contract."""

    name: str
    within_contract: bool
    promised: str
    total: int
    """Exact, whatever is shown."""
    recorded: int
    """Rows in the table of anomalies; the checkers may keep fewer than they count."""
    partitions: tuple[PartitionKey, ...]
    explanations: tuple[AnomalyExplanation, ...]
    rows: tuple[dict[str, Any], ...]
    """Those that are listed and not explained in full."""

    @property
    def section(self) -> str:
        """The id of its section in the page."""
        return section_of(self.name, within_contract=self.within_contract)

    @property
    def records(self) -> list[tuple[str, dict[str, Any]]]:
        """Return where in the page each explained or listed anomaly is, with its row."""
        explained = [(explanation.anchor, explanation.row) for explanation in self.explanations]
        return [*explained, *((row["anchor"], row) for row in self.rows)]

    @property
    def unlisted(self) -> int:
        """Return how many are neither explained nor listed."""
        return self.total - len(self.explanations) - len(self.rows)
