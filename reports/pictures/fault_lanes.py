"""Lays out faults in rows by target, and in lanes where bars or their labels would overlap; draws them on a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from common.wording import CLIENTS, node, printable
from reports.data.joined import UNKNOWN
from reports.data.stored_run import Run
from reports.data.versions import version_spans
from reports.pictures import theme

BARS_MAX = 400
"""Faults in the picture; a run with more says so."""
NAMED_BARS_MAX = 120
"""With more bars than this each has its number alone: the table of faults has the names."""
KIND_CHARACTERS = 32

_FAMILY_COLOURS = {
    "process": theme.PROCESS,
    "network": theme.NETWORK,
    "storage": theme.STORAGE,
    "other": theme.OTHER,
}


class FaultBar(NamedTuple):
    """A fault on one target. Times are seconds of the run's clock."""

    number: int
    kind: str
    start_s: float
    end_s: float
    took_hold: bool

    def label(self, *, named: bool) -> str:
        """Return what stands in or behind the bar."""
        if not named:
            return str(self.number)
        return f"{self.number} {self.kind}" + ("" if self.took_hold else " (did not take effect)")


class FaultRow(NamedTuple):
    """The faults of one target, in lanes."""

    target: int
    lanes: list[list[FaultBar]]
    named: bool

    @property
    def label(self) -> str:
        """The target's name."""
        return target_label(self.target)


def fault_rows(run: Run, start_s: float, bars_max: int = BARS_MAX, character_s: float = 0.0) -> list[FaultRow]:
    """Sort the first `bars_max` faults by target and into lanes, in which neither bars nor labels overlap.

    `character_s` is the width of a character of a label, in seconds of the axis; 0 if labels need no room.
    """
    by_target: dict[int, list[FaultBar]] = {}
    end_s = run.span_ns[1] / 1e9
    for fault in run.faults[:bars_max]:
        if fault["started_ns"] is None:
            continue
        begin_s = max(fault["started_ns"] / 1e9, start_s)
        until_s = end_s if fault["ended_ns"] is None else fault["ended_ns"] / 1e9
        kind = printable((fault["kind"] or "unknown")[:KIND_CHARACTERS])
        bar = FaultBar(fault["fault"] or 0, kind, begin_s, max(until_s, begin_s), bool(fault["took_hold"]))
        for target in sorted(set(fault["targets"] or [UNKNOWN])):
            by_target.setdefault(target, []).append(bar)
    named = sum(map(len, by_target.values())) <= NAMED_BARS_MAX
    return [
        FaultRow(target, _lanes(bars, character_s, end_s, named=named), named)
        for target, bars in sorted(by_target.items())
    ]


def _lanes(bars: Sequence[FaultBar], character_s: float, end_s: float, *, named: bool) -> list[list[FaultBar]]:
    """Put each bar into the first lane that is free where the bar and its label stand."""
    lanes: list[list[FaultBar]] = []
    ends: list[float] = []
    for bar in bars:
        begin_s, until_s = _extent(bar, character_s, end_s, named=named)
        free = next((number for number, taken_s in enumerate(ends) if taken_s <= begin_s), None)
        if free is None:
            lanes.append([bar])
            ends.append(until_s)
        else:
            lanes[free].append(bar)
            ends[free] = until_s
    return lanes


def _extent(bar: FaultBar, character_s: float, end_s: float, *, named: bool) -> tuple[float, float]:
    """Return from where to where a bar needs its lane: a label stands in it, or behind it, or at the edge before it."""
    needed_s = (len(bar.label(named=named)) + 1.5) * character_s
    if bar.took_hold and needed_s <= bar.end_s - bar.start_s:
        return bar.start_s, bar.end_s
    if bar.end_s + needed_s <= end_s:
        return bar.start_s, bar.end_s + needed_s
    return bar.start_s - needed_s, bar.end_s


def target_label(target: int) -> str:
    """Name a target beside its row."""
    if target == UNKNOWN:
        return "no target"
    if target == CLIENTS:
        return "clients"
    return node(target)


def draw_faults(panel: Axes, rows: Sequence[FaultRow], character_s: float, end_s: float) -> None:
    """Draw all bars with their labels, and name the rows and the four lanes below them."""
    panel.set_title("Faults and anomalies", loc="left", pad=8)
    labels: list[tuple[float, str]] = []
    lane_number = 0
    for row in rows:
        labels.append((lane_number + (len(row.lanes) - 1) / 2, row.label))
        for lane in row.lanes:
            for bar in lane:
                _draw_bar(panel, bar, lane_number, character_s, end_s, named=row.named)
            lane_number += 1
        panel.axhline(lane_number - 0.5, color=theme.RULE, linewidth=0.6)
    below = ("violations", "within contract", "incidents", "… within contract")
    labels += list(enumerate(below, start=lane_number))
    panel.set_yticks([at for at, _ in labels], [text for _, text in labels])
    panel.set_ylim(lane_number + 3.5, -0.5)


def _draw_bar(panel: Axes, bar: FaultBar, lane: int, character_s: float, end_s: float, *, named: bool) -> None:
    panel.barh(
        lane,
        max(bar.end_s - bar.start_s, 0.05),
        left=bar.start_s,
        height=0.78,
        color=_FAMILY_COLOURS[theme.fault_family(bar.kind)] if bar.took_hold else "none",
        edgecolor="none" if bar.took_hold else theme.MUTED,
        hatch=None if bar.took_hold else "////",
        linewidth=0.8,
    )
    needed_from_s, needed_to_s = _extent(bar, character_s, end_s, named=named)
    before, behind = needed_from_s < bar.start_s, needed_to_s > bar.end_s
    panel.annotate(
        bar.label(named=named),
        (bar.end_s if behind else bar.start_s, lane),
        xytext=(-3 if before else 3, 0),
        textcoords="offset points",
        ha="right" if before else "left",
        va="center_baseline",
        fontsize=8,
        color=theme.INK if before or behind else theme.ON_FILL,
    )


def draw_version_changes(panel: Axes, run: Run, rows: Sequence[FaultRow]) -> None:
    """Mark on the row of each node when it was first seen to run another version of the system than before."""
    lane = 0
    spans = version_spans(run)
    for row in rows:
        for change in spans.get(row.target, [])[1:]:
            mark = panel.scatter([change.start_ns / 1e9], [lane], marker="D", s=26, color=theme.INK, zorder=5)
            mark.set_gid(f"version-{row.target}")
        lane += len(row.lanes)


def shade_faults(panel: Axes, rows: Sequence[FaultRow]) -> None:
    """Lay the colours of the faults that took effect over another panel."""
    for bar in {bar for row in rows for lane in row.lanes for bar in lane if bar.took_hold}:
        colour = _FAMILY_COLOURS[theme.fault_family(bar.kind)]
        panel.axvspan(bar.start_s, bar.end_s, color=colour, alpha=0.16, linewidth=0, zorder=0)
