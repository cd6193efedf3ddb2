"""Draws leaders and ISRs over time as strips: rows of labelled segments, placed by percent of the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from common.wording import FIRST_CONTROLLER, duration, enumeration, in_leader_epoch, moment, node, nodes, partition_name
from incidents.partition_history import NO_LEADER, PartitionHistory
from reports.data.stored_run import Run
from reports.data.versions import version_spans, versions_of
from reports.pictures.fault_lanes import target_label
from reports.pictures.theme import fault_family

PARTITIONS_MAX = 24
NODES_MAX = 24
SEGMENTS_MAX = 250
"""Segments of one strip; what is shorter than this share of the run goes first when there are more."""
LABEL_PERCENT = 1.6
"""A segment narrower than this has its label only in its title."""


class StripSegment(NamedTuple):
    """A stretch of a strip. `kind` is its class in the style sheet."""

    left: float
    width: float
    kind: str
    label: str
    title: str


@dataclass(frozen=True)
class PartitionStrips:
    """One partition: its leaders, and the size of its ISR."""

    name: str
    leaders: tuple[StripSegment, ...]
    isrs: tuple[StripSegment, ...]
    changes: int
    """Changes of leader, or of leader epoch."""
    below_minimum_ns: int
    """Time for which the ISR was smaller than min.insync.replicas."""
    claims: str
    """Brokers that called themselves leader of an epoch that was over; empty if none did."""


@dataclass(frozen=True)
class ControllerStrip:
    """Which controller was the active one, or which server led the ensemble."""

    name: str
    leaderships: tuple[StripSegment, ...]
    elections: int


class Tick(NamedTuple):
    """A mark of the axis under the strips."""

    left: float
    label: str


def partition_strips(run: Run, histories: Sequence[PartitionHistory]) -> list[PartitionStrips]:
    """Draw the strips of the first `PARTITIONS_MAX` partitions."""
    return [_strips(run, history) for history in histories[:PARTITIONS_MAX]]


def controller_strip(run: Run) -> ControllerStrip | None:
    """Draw which controller led the quorum, according to the controllers; None if they were not sampled.

    A leadership is drawn until another controller was observed as leader in a later epoch: it may have ended before.
    """
    rows = [row for row in run.tables["quorum"].to_pylist() if row["role"] == "leader" and row["at_ns"] is not None]
    first: dict[int, tuple[int, int]] = {}  # epoch -> when it was first seen, controller
    for row in rows:
        first[row["epoch"]] = min(
            first.get(row["epoch"], (row["at_ns"], row["controller"])), (row["at_ns"], row["controller"])
        )
    leaderships = [(at_ns, controller, epoch) for epoch, (at_ns, controller) in sorted(first.items())]
    if not leaderships:
        return None
    ends = [at_ns for at_ns, _, _ in leaderships[1:]] + [run.span_ns[1]]
    return ControllerStrip(
        "ensemble's leader" if run.on_zookeeper else "active controller",
        tuple(
            _bounded(
                _segment(
                    run,
                    start_ns,
                    max(start_ns, end_ns),
                    f"broker-{(controller - FIRST_CONTROLLER) % 8}",
                    str(controller),
                    f"{node(controller)} leads the {'ensemble' if run.on_zookeeper else 'quorum'} in epoch {epoch}",
                )
                for (start_ns, controller, epoch), end_ns in zip(leaderships, ends, strict=True)
            )
        ),
        len(leaderships),
    )


@dataclass(frozen=True)
class VersionStrip:
    """Which versions of the system one node ran."""

    node: str
    versions: tuple[StripSegment, ...]


def version_strips(run: Run) -> list[VersionStrip]:
    """Draw the version of each of the first `NODES_MAX` nodes, by its own report; none without an upgrade."""
    colours = {version: f"broker-{number % 8}" for number, version in enumerate(versions_of(run))}
    return [
        VersionStrip(
            target_label(node),
            tuple(
                _bounded(
                    _segment(
                        run, each.start_ns, each.end_ns, colours[each.version], each.version, f"runs {each.version}"
                    )
                    for each in spans
                )
            ),
        )
        for node, spans in list(version_spans(run).items())[:NODES_MAX]
    ]


def fault_segments(run: Run) -> list[StripSegment]:
    """Draw the faults that took effect as one strip, to lie over those of the partitions."""
    end_ns = run.span_ns[1]
    return _bounded(
        _segment(
            run,
            fault["started_ns"],
            end_ns if fault["ended_ns"] is None else fault["ended_ns"],
            f"fault-{fault_family(fault['kind'])}",
            str(fault["fault"]),
            f"fault {fault['fault']}: {fault['kind']} on {nodes(fault['targets'])}",
        )
        for fault in run.faults
        if fault["took_hold"] and fault["started_ns"] is not None
    )


def ticks(run: Run) -> list[Tick]:
    """Mark round numbers of seconds, about eight of them."""
    start_ns, end_ns = run.span_ns
    span_s = (end_ns - start_ns) / 1e9
    if span_s <= 0:
        return []
    step_s = next((step for step in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800) if span_s / step <= 9), 3600)
    first = -(-int(start_ns / 1e9) // step_s) * step_s
    return [
        Tick(100 * (at_s * 1e9 - start_ns) / (end_ns - start_ns), f"{at_s} s")
        for at_s in range(first, int(end_ns / 1e9) + 1, step_s)
        if start_ns <= at_s * 1e9 <= end_ns - 0.04 * (end_ns - start_ns)
    ]


def _strips(run: Run, history: PartitionHistory) -> PartitionStrips:
    minimum = run.number("min_insync_replicas") or 1
    full = run.number("replication_factor") or max((len(s.isr) for s in history.isrs), default=0)
    leaders = _bounded(
        _segment(
            run,
            leadership.start_ns,
            leadership.end_ns,
            "no-leader" if leadership.leader == NO_LEADER else f"broker-{(leadership.leader - 1) % 8}",
            "" if leadership.leader == NO_LEADER else str(leadership.leader),
            "no leader seen"
            if leadership.leader == NO_LEADER
            else f"broker {leadership.leader}{in_leader_epoch(leadership.leader_epoch)}",
        )
        for leadership in history.leaderships
    )
    isrs = _bounded(
        _segment(
            run,
            stretch.start_ns,
            stretch.end_ns,
            "isr-under" if len(stretch.isr) < minimum else "isr-full" if len(stretch.isr) >= full else "isr-small",
            str(len(stretch.isr)),
            f"ISR {', '.join(map(str, stretch.isr)) or 'empty'}",
        )
        for stretch in history.isrs
    )
    epochs = [
        (leadership.leader, leadership.leader_epoch)
        for leadership in history.leaderships
        if leadership.leader != NO_LEADER
    ]
    return PartitionStrips(
        name=partition_name(history.topic, history.partition),
        leaders=tuple(leaders),
        isrs=tuple(isrs),
        changes=sum(_differ(before, after) for before, after in pairwise(epochs)),
        below_minimum_ns=sum(s.end_ns - s.start_ns for s in history.isrs if len(s.isr) < minimum),
        claims=_claims(history),
    )


def _differ(before: tuple[int, int], after: tuple[int, int]) -> bool:
    """Whether another broker leads, or the same in another epoch; an epoch below 0 is not known yet."""
    return before != after and not (before[0] == after[0] and min(before[1], after[1]) < 0)


def _claims(history: PartitionHistory) -> str:
    """Summarise which brokers claimed to lead in an epoch that was over, and from when to when."""
    spans: dict[tuple[int, int], list[int]] = {}
    for at_ns, broker, epoch in history.claims:
        spans.setdefault((broker, epoch), []).append(at_ns)
    claims = [
        f"broker {broker} still called itself leader{f' of epoch {epoch}' if epoch >= 0 else ''} at {moment(times[0])}"
        + (f", for {duration(times[-1] - times[0])}" if len(times) > 1 else "")
        for (broker, epoch), times in sorted(spans.items())
    ]
    return enumeration(claims[:4]) + (f", and {len(claims) - 4} more" if len(claims) > 4 else "")


def _segment(run: Run, start_ns: int, end_ns: int, kind: str, label: str, title: str) -> StripSegment:
    origin_ns, last_ns = run.span_ns
    span_ns = max(last_ns - origin_ns, 1)
    left = min(max(100 * (start_ns - origin_ns) / span_ns, 0.0), 100.0)
    width = min(max(100 * (end_ns - start_ns) / span_ns, 0.0), 100.0 - left)
    return StripSegment(
        round(left, 3),
        round(width, 3),
        kind,
        label if width >= LABEL_PERCENT else "",
        f"{title}, {moment(start_ns)} to {moment(end_ns)}",
    )


def _bounded(segments: Iterable[StripSegment]) -> list[StripSegment]:
    """Keep the `SEGMENTS_MAX` widest, in their order."""
    everything = list(segments)
    if len(everything) <= SEGMENTS_MAX:
        return everything
    widest = sorted(everything, key=lambda segment: -segment.width)[:SEGMENTS_MAX]
    return sorted(widest)
