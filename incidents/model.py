"""Defines an incident: all anomalies with one cause, and that cause with what speaks for it. Read from and to JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from common.wording import count, partition_name

SPANS_NAMED_MAX = 4


@dataclass(frozen=True, order=True)
class Span:
    """The offsets of one partition that an incident touches; both None if it is about none."""

    topic: str | None
    partition: int | None
    first_offset: int | None = None
    last_offset: int | None = None

    @property
    def name(self) -> str:
        """The partition's name."""
        return partition_name(self.topic, self.partition)

    @property
    def length(self) -> int:
        """How many offsets it has; 0 if it is about none."""
        return 0 if self.first_offset is None or self.last_offset is None else self.last_offset - self.first_offset + 1

    @property
    def offsets(self) -> str:
        """The offsets: "offset 5" or "offsets 2,683 to 2,830"; empty if it is about none."""
        if self.first_offset is None or self.last_offset is None:
            return ""
        if self.first_offset == self.last_offset:
            return f"offset {count(self.first_offset)}"
        return f"offsets {count(self.first_offset)}\N{EN DASH}{count(self.last_offset)}"


@dataclass(frozen=True)
class Cause:
    """A cause of an incident, or a candidate for it. Times are nanoseconds of the run's clock."""

    kind: str
    """One of `incidents.causes.KINDS`."""
    sentence: str
    """What happened, as a clause that can follow a colon."""
    evidence: tuple[str, ...] = ()
    """What speaks for it, a sentence each."""
    at_ns: int | None = None
    """When the decisive event happened, or was first seen."""
    node: int | None = None
    """The node at which it happened."""
    faults: tuple[int, ...] = ()
    """Numbers of the faults that made it possible, the guilty one first."""
    allowed_by: str = ""
    """The rule or the setting that allowed it, a sentence; empty if none did."""


@dataclass(frozen=True)
class Election:
    """The election that decided a loss: its leader was the first without the lost records."""

    topic: str
    partition: int
    leader: int
    epoch: int
    """The leader epoch; -1 if the system has none."""
    seen_ns: int
    """When that leader was first seen."""
    number: int
    """Its place among the elections after the records were acknowledged or read, from 1."""
    elections: int
    """How many leaderships began after that, as far as samples show them."""
    is_only: bool = True
    """Whether all of the records went in it, or in others at that moment; else it is the first of these."""


@dataclass(frozen=True)
class Incident:
    """Anomalies, and findings of the simulator, that have one cause."""

    headline: str
    within_contract: bool
    anomalies: Mapping[str, tuple[int, int]]
    """Name → violations, and anomalies within the contract."""
    spans: tuple[Span, ...]
    causes: tuple[Cause, ...]
    """One if the evidence decides; else up to three candidates, the likeliest first; none if nothing is known."""
    at_ns: int | None = None
    """When what it began with happened, as far as is known: before that everything was as it should be."""
    findings: tuple[str, ...] = field(default=())
    """What the simulator's own checks said of it."""
    election: Election | None = None
    """The decisive one, if records were lost by an election that samples show."""
    rows: tuple[tuple[int, int], ...] = ()
    """Its rows in the table of anomalies: the first and last place of each stretch, from 0."""
    at_least: tuple[str, ...] = ()
    """Names in `anomalies` whose numbers are lower bounds: the table has not all of them, and others have some too."""

    @property
    def cause(self) -> Cause | None:
        """The cause, if the evidence decides."""
        return self.causes[0] if len(self.causes) == 1 else None

    @property
    def common_evidence(self) -> tuple[str, ...]:
        """Sentences that every candidate has, so that they speak for none of them more than for the others."""
        first, *others = (cause.evidence for cause in self.causes) if len(self.causes) > 1 else ((),)
        return tuple(sentence for sentence in first if all(sentence in other for other in others))

    @property
    def found_first(self) -> str:
        """The property that the simulator saw broken first; empty if it found nothing by itself."""
        return self.findings[0].partition(": ")[0] if self.findings else ""

    @property
    def violations(self) -> int:
        """All violations of the incident."""
        return sum(violations for violations, _ in self.anomalies.values())

    def to_json(self) -> dict[str, Any]:
        """Return what `results.json` holds of it."""
        data = asdict(self)
        data["anomalies"] = {
            name: {"violations": violations, "within_contract": within}
            for name, (violations, within) in self.anomalies.items()
        }
        return data


def where(spans: Sequence[Span], *, first: int = 0, number: int = 0, some: bool = False) -> str:
    """Name the partitions and offsets of an incident: "harrow-3 (offsets 2,683 to 2,830)".

    With `first`, say that these are the offsets of so many of the anomalies, and that there are more. `number`: how
    many of the offsets are meant, where that is known; "among" says that others lie between them. `some`: these are the
    offsets of some of the anomalies.
    """
    if not spans:
        return "the run as a whole"
    among = "among them " if some else "among " if 0 < (first or number) < sum(span.length for span in spans) else ""
    of_first = "" if not first else "the first: " if first == 1 else f"{count(first)} of them: "
    if len(spans) == 1:
        return f"{spans[0].name} ({of_first}{among}{spans[0].offsets})" if spans[0].offsets else spans[0].name
    named = [f"{span.name} {span.offsets.partition(' ')[2]}".strip() for span in spans[:SPANS_NAMED_MAX]]
    more = ", …" if len(spans) > SPANS_NAMED_MAX else ""
    kind = f"{among}offsets of " if spans[0].offsets else ""
    partitions = "several partitions" if first else f"{count(len(spans))} partitions"
    return f"{partitions} ({of_first}{kind}{', '.join(named)}{more})"


def incidents_of(results: Mapping[str, Any]) -> list[Incident] | None:
    """Read the incidents from `results.json`; None if it has none or what it has is no list of incidents."""
    stored = results.get("incidents")
    if not isinstance(stored, list):
        return None
    try:
        return [_incident(one) for one in stored]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _incident(data: Mapping[str, Any]) -> Incident:
    return Incident(
        headline=str(data["headline"]),
        within_contract=bool(data["within_contract"]),
        anomalies={
            str(name): (_whole(numbers["violations"]) or 0, _whole(numbers["within_contract"]) or 0)
            for name, numbers in data["anomalies"].items()
        },
        spans=tuple(
            Span(
                None if span["topic"] is None else str(span["topic"]),
                _whole(span["partition"]),
                _whole(span["first_offset"]),
                _whole(span["last_offset"]),
            )
            for span in data["spans"]
        ),
        causes=tuple(_cause(cause) for cause in data["causes"]),
        at_ns=_whole(data["at_ns"]),
        findings=tuple(str(line) for line in data["findings"]),
        election=_election(data.get("election")),
        rows=tuple((_whole(first) or 0, _whole(last) or 0) for first, last in data.get("rows") or ()),
        at_least=tuple(str(name) for name in data.get("at_least") or ()),
    )


def _election(data: Mapping[str, Any] | None) -> Election | None:
    if data is None:
        return None
    names = ("partition", "leader", "epoch", "seen_ns", "number", "elections")
    partition, leader, epoch, seen_ns, number, elections = (_whole(data[name]) or 0 for name in names)
    is_only = data.get("is_only") is not False
    return Election(str(data["topic"]), partition, leader, epoch, seen_ns, number, elections, is_only)


def _cause(data: Mapping[str, Any]) -> Cause:
    return Cause(
        kind=str(data["kind"]),
        sentence=str(data["sentence"]),
        evidence=tuple(str(line) for line in data["evidence"]),
        at_ns=_whole(data["at_ns"]),
        node=_whole(data["node"]),
        faults=tuple(number for fault in data["faults"] if (number := _whole(fault)) is not None),
        allowed_by=str(data["allowed_by"]),
    )


def _whole(value: Any) -> int | None:  # noqa: ANN401 (anything may stand in a file)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(value)
    return int(value)
