"""Makes the message chart of a real run: the seconds around the decisive event of an incident, from what was sampled.

Nobody saw the messages between the nodes, so that arrows are answers to clients and the states are samples. What led to
a step is not known either; the chart marks the steps that the cause of the incident rests on, in the order of time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from common.wording import partition_name, printable
from incidents import Incident
from incidents.headlines import gravest
from incidents.model import Election
from incidents.partition_history import PartitionHistory
from reports.data.joined import Joined
from reports.data.stored_run import Run, rows_where
from reports.data.story import CLIENTS, TEXT_CHARACTERS, VIOLATION, State, Story, StoryStep, Words
from reports.pictures.decisive_events import (
    Event,
    LostRecords,
    lost_records,
    of_faults,
    of_losses,
    of_others,
    of_quorum,
    of_samples,
    passing_over,
    standing,
    told_as_one,
)
from reports.text.incidents import incidents_of_record

CHARTS_MAX: Final = 3
"""Incidents that get a chart: the gravest."""
DRAWN_MAX: Final = 24
"""Steps of the picture that stands in for a chart in print; growth is not among them."""
STEPS_MAX: Final = 120
"""Steps of a chart. Growth is left out first, then what is far from the decisive event, takeovers and cuts last."""
REACH_NS: Final = 15_000_000_000
"""What is shown before and after the decisive event, at most."""
MARGIN_NS: Final = 1_000_000_000
_NS_PER_US: Final = 1_000
_CAUSE_BEGINS: Final = re.compile(": |; the evidence")
"""What stands in a headline between the harm and its cause."""
_WORDS: Final = Words(
    "← evidence before",
    "only the evidence",
    "No evidence is older.",
    "The evidence before it: ",
    "The evidence after it: ",
    "no sample; last known",
    "log: offsets",
)


class DecisiveSeconds(NamedTuple):
    """The chart of one incident."""

    number: int
    headline: str
    partition: str
    start_ns: int
    """Of the first step."""
    end_ns: int
    """Of the last step."""
    left_out: int
    """Steps that are not in the chart."""
    unlisted: int
    """Lost records of the incident that the table of anomalies does not list, so that the chart lacks them."""
    story: Story


class _Window(NamedTuple):
    decisive_ns: int
    start_ns: int
    end_ns: int


def decisive_seconds(
    run: Run, joined: Joined, history_of: Callable[[str, int], PartitionHistory]
) -> list[DecisiveSeconds]:
    """Return the charts of the gravest incidents that are about a partition that was sampled."""
    found: list[DecisiveSeconds] = []
    for number, incident in enumerate(run.incidents, start=1):
        if len(found) == CHARTS_MAX:
            break
        chart = _chart(run, joined, history_of, number, incident)
        if chart is not None:
            found.append(chart)
    return found


def _chart(
    run: Run,
    joined: Joined,
    history_of: Callable[[str, int], PartitionHistory],
    number: int,
    incident: Incident,
) -> DecisiveSeconds | None:
    name = gravest(incident.anomalies)
    rows = _rows(run, number, incident, name)
    where = _where(rows, incident)
    history = history_of(*where) if where is not None else None
    if history is None or not history.samples:
        return None
    mine = [row for row in rows if (row["topic"], row["partition"]) == where]
    lost = lost_records(mine)
    events = [*of_losses(run, joined, history, lost), *([] if lost.values else of_others(mine))]
    decisive_ns = incident.at_ns if incident.at_ns is not None else min((event.at_ns for event in events), default=None)
    if decisive_ns is None:
        return None
    events = _harmed(run, joined, history, lost, events, decisive_ns)
    guilty = [fault for cause in incident.causes for fault in cause.faults]
    window = _window(run, decisive_ns, events, guilty, incident.election)
    events = [*_kept(events, window), *_around(run, history, incident, window, guilty)]
    ordered = told_as_one(sorted(events, key=lambda event: (event.at_ns, event.lane != CLIENTS, event.lane)))
    ordered = _marked(ordered, decisive_ns, incident.election)
    if not any(event.evidence for event in ordered):
        return None
    kept, left_out = _bounded(_with_verdict(ordered, incident, name), window)
    before = _before(history, window)
    span = (min(lost.values), max(lost.values)) if lost.values else None
    focus = max(index for index, (event, _) in enumerate(kept) if event.evidence)
    story = Story(_steps(kept), before, focus, _WORDS, span)
    title = partition_name(history.topic, history.partition)
    times = [event.at_ns for event, _ in kept]
    unlisted = max(0, sum(incident.anomalies[name]) - len(rows)) if lost.values else 0
    return DecisiveSeconds(number, incident.headline, title, min(times), max(times), left_out, unlisted, story)


def _rows(run: Run, number: int, incident: Incident, name: str) -> list[Mapping[str, Any]]:
    """Return the anomalies of an incident: all of it if records were lost, else those of its gravest name."""
    table = rows_where(run.tables["anomalies"], anomaly=name)
    nodes = {cause.node for cause in incident.causes if cause.node is not None}
    rows = [row for row in table.to_pylist() if row["topic"] is not None and number in incidents_of_record(run, row)]
    own = [row for row in rows if row["broker"] in nodes and (row["at_ns"] or 0) >= (incident.at_ns or 0)]
    return rows if lost_records(rows).values else own or rows


def _where(rows: Sequence[Mapping[str, Any]], incident: Incident) -> tuple[str, int] | None:
    """Return the partition of the decisive election, or else of the first anomaly at or after the incident's time."""
    if incident.election is not None:
        return incident.election.topic, incident.election.partition
    known = [row for row in rows if row["partition"] is not None]
    late = [row for row in known if (row["at_ns"] or 0) >= (incident.at_ns or 0)] or known
    first = min(late, key=lambda row: (row["at_ns"] is None, row["at_ns"] or 0, row["partition"]), default=None)
    if first is not None:
        return str(first["topic"]), int(first["partition"])
    spans = [span for span in incident.spans if span.topic is not None and span.partition is not None]
    return (str(spans[0].topic), int(spans[0].partition or 0)) if spans else None


def _harmed(
    run: Run, joined: Joined, history: PartitionHistory, lost: LostRecords, events: Sequence[Event], decisive_ns: int
) -> list[Event]:
    """Mark the last acknowledgement of a lost record, and keep of what replaced it the first answer that shows it."""
    if not lost.values:
        return list(events)
    own = [event for event in events if event.group is not None and event.group[0].endswith("lost")]
    replaced = [event for event in events if event.group is not None and event.group[0] == "reads other"]
    acknowledged = [event for event in own if event.group is not None and event.group[0].startswith("acknowledges")]
    promised = [event for event in acknowledged or own if event.at_ns <= decisive_ns] or own
    last_ns = max((event.at_ns for event in promised), default=None)
    harm_ns = min((event.at_ns for event in replaced), default=None)
    passed = passing_over(run, joined, history, lost) if harm_ns is None else None
    kept = [event for event in events if event not in replaced]
    kept += [event._replace(evidence=True) for event in replaced if event.at_ns == harm_ns]
    kept = [event._replace(evidence=True) if event in promised and event.at_ns == last_ns else event for event in kept]
    return [*kept, *([passed] if passed is not None else [])]


def _window(
    run: Run, decisive_ns: int, events: Iterable[Event], guilty: Sequence[int], election: Election | None
) -> _Window:
    told = [event.at_ns for event in events if event.evidence or (event.group and event.group[0].endswith("lost"))]
    began = [
        fault["started_ns"] for fault in run.faults if fault["fault"] in guilty and fault["started_ns"] is not None
    ]
    times = [decisive_ns, *told, *began, *([election.seen_ns] if election is not None else [])]
    start_ns = max(decisive_ns - REACH_NS, min(times)) - MARGIN_NS
    return _Window(decisive_ns, start_ns, min(decisive_ns + REACH_NS, max(times)) + MARGIN_NS)


def _kept(events: Iterable[Event], window: _Window) -> list[Event]:
    return [
        event
        for event in events
        if event.evidence
        or window.start_ns <= event.at_ns <= window.end_ns
        or (event.group is not None and event.group[0].endswith("lost"))
    ]


def _around(
    run: Run, history: PartitionHistory, incident: Incident, window: _Window, guilty: Iterable[int]
) -> list[Event]:
    decisive = {(cause.at_ns, cause.node) for cause in incident.causes}
    samples = of_samples(history, window.start_ns, window.end_ns)
    return [
        *(
            event._replace(noise="", evidence=True) if event.state and event[:2] in decisive else event
            for event in samples
        ),
        *of_faults(run, window.start_ns, window.end_ns, guilty),
        *of_quorum(run, window.start_ns, window.end_ns),
    ]


def _marked(events: Sequence[Event], decisive_ns: int, election: Election | None) -> list[Event]:
    """Mark the takeover that belongs to the incident.

    Of a loss it is that of the decisive election, which the headline names; before a stale answer it is the last one.
    """
    is_loss = any(event.group is not None and event.group[0].endswith("lost") for event in events)
    taken = [event[:2] for event in events if event.took_over and event.at_ns < decisive_ns]
    chosen = taken[-1:] if election is None and not is_loss else []
    if election is not None:
        chosen = [(election.seen_ns, election.leader)]
    return [event._replace(evidence=True) if event.state and event[:2] in chosen else event for event in events]


def _with_verdict(events: Sequence[Event], incident: Incident, name: str) -> list[Event]:
    """Put after the last piece of evidence what it amounts to."""
    last = max(index for index, event in enumerate(events) if event.evidence)
    what = f"Within the contract, {name}" if incident.within_contract else f"{VIOLATION} of {name}"
    harm = _CAUSE_BEGINS.split(incident.headline, maxsplit=1)[0].rstrip(".")
    verdict = Event(events[last].at_ns, CLIENTS, f"{what}: {harm}", evidence=True)
    return [*events[: last + 1], verdict, *events[last + 1 :]]


def _bounded(events: Sequence[Event], window: _Window) -> tuple[list[tuple[Event, dict[str, int]]], int]:
    """Return the steps that are kept, each with what was left out before it, and how many were left out in all."""
    ranked = sorted(
        range(len(events)),
        key=lambda index: (
            not events[index].evidence,
            not (events[index].took_over or events[index].was_cut),
            bool(events[index].noise),
            abs(events[index].at_ns - window.decisive_ns),
        ),
    )
    chosen = set(ranked[:STEPS_MAX])
    kept: list[tuple[Event, dict[str, int]]] = []
    missing: dict[str, int] = {}
    for index, event in enumerate(events):
        if index in chosen:
            kept.append((event, missing))
            missing = {}
        else:
            kind = event.noise or "steps that are left out"
            missing[kind] = missing.get(kind, 0) + 1
    return kept, len(events) - len(kept)


def _before(history: PartitionHistory, window: _Window) -> dict[int, State]:
    name = printable(partition_name(history.topic, history.partition))
    earlier = [sample for sample in history.samples if sample.at_ns < window.start_ns]
    return {sample.broker: {name: standing(sample)} for sample in earlier}


def _steps(events: Sequence[tuple[Event, dict[str, int]]]) -> tuple[StoryStep, ...]:
    steps = []
    evidence: int | None = None
    for index, (event, missing) in enumerate(events):
        steps.append(
            StoryStep(
                at_us=event.at_ns // _NS_PER_US,
                lane=event.lane,
                text=printable(
                    event.text if len(event.text) <= TEXT_CHARACTERS else f"{event.text[:TEXT_CHARACTERS]}…"
                ),
                source=event.source,
                message="" if event.source is None else "answer",
                cause=evidence if event.evidence else None,
                noise=event.noise,
                folded=missing,
                state={printable(name): state for name, state in event.state.items()},
                ended=event.silent,
            )
        )
        evidence = index if event.evidence else evidence
    return tuple(steps)
