"""Draws the time line of a run: faults and anomalies over throughput, latency and reading progress, on one clock."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from common.wording import count, enumeration, plural, printable
from reports.data.joined import UNKNOWN, Joined
from reports.data.series import QUANTILES, Bins, bins_over, latency_quantiles_ms, progress, throughput
from reports.data.stored_run import Run, integers, is_one_of
from reports.data.versions import versions_of
from reports.pictures import theme
from reports.pictures.fault_lanes import (
    BARS_MAX,
    KIND_CHARACTERS,
    draw_faults,
    draw_version_changes,
    fault_rows,
    shade_faults,
)

WIDTH_INCHES = 11.0
LANE_INCHES = 0.25
PANEL_INCHES = 1.35
PANEL_SHARE = 0.895
"""Width of the panels as a share of the picture's."""
CHARACTER_INCHES = 0.072
"""Width of a character of a label, on the safe side for any font the page may use."""
VERSIONS_NAMED_MAX = 3
VIOLATION_LINES_MAX = 30
"""Moments of violations that are drawn through all panels; more of them would hide the curves."""

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "harrow",
    "font.size": 9,
    "text.color": theme.INK,
    "axes.edgecolor": theme.RULE,
    "axes.labelcolor": theme.MUTED,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "xtick.color": theme.MUTED,
    "ytick.color": theme.MUTED,
    "hatch.color": theme.MUTED,
    "hatch.linewidth": 0.6,
}


class Timeline(NamedTuple):
    """The picture and the notes beneath it."""

    svg: str
    notes: tuple[str, ...]


def timeline(run: Run, joined: Joined) -> Timeline | None:
    """Draw the time line; None if there is nothing to draw."""
    start_ns, end_ns = run.span_ns
    if end_ns <= start_ns:
        return None
    bins = bins_over(start_ns, end_ns)
    end_s = float(bins.edges_s[-1])
    character_s = CHARACTER_INCHES * (end_s - bins.start_s) / (WIDTH_INCHES * PANEL_SHARE)
    rows = fault_rows(run, bins.start_s, character_s=character_s)
    lanes = sum(len(row.lanes) for row in rows)
    with mpl.rc_context(_STYLE):
        figure, axes = _panels(lanes + 4)
        axes[0].set_xlim(bins.start_s, bins.edges_s[-1])
        draw_faults(axes[0], rows, character_s, end_s)
        draw_version_changes(axes[0], run, rows)
        _draw_anomalies(axes, run, bins, lanes)
        _draw_incidents(axes[0], run, lanes + 2)
        _draw_throughput(axes[1], joined, bins)
        _draw_latency(axes[2], joined, bins)
        _draw_progress(axes[3], joined, bins)
        _draw_phases(axes, run)
        for panel in axes:
            shade_faults(panel, rows)
            panel.set_xlim(bins.start_s, bins.edges_s[-1])
        axes[-1].set_xlabel("seconds of the run's clock")
        buffer = io.StringIO()
        FigureCanvasSVG(figure).print_svg(buffer, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return Timeline(theme.adopt(buffer.getvalue(), "timeline", _label(run, bins)), _notes(run, bins))


def _panels(lanes: int) -> tuple[Figure, list[Axes]]:
    """Lay out four panels over each other: the first as high as its lanes need, and all the same width."""
    heights = [lanes * LANE_INCHES, PANEL_INCHES, PANEL_INCHES, PANEL_INCHES]
    top, gap, bottom = 0.32, 0.38, 0.5
    height = top + sum(heights) + gap * (len(heights) - 1) + bottom
    figure = Figure(figsize=(WIDTH_INCHES, height))
    figure.patch.set_alpha(0)
    axes: list[Axes] = []
    above = top
    for panel_height in heights:
        below = (height - above - panel_height) / height
        sharing: dict[str, Any] = {"sharex": axes[0]} if axes else {}
        panel = figure.add_axes((0.095, below, PANEL_SHARE, panel_height / height), **sharing)
        panel.patch.set_alpha(0)
        panel.spines[["top", "right", "left"]].set_visible(False)
        panel.tick_params(length=0, labelbottom=len(axes) == len(heights) - 1)
        panel.set_axisbelow(True)
        axes.append(panel)
        above += panel_height + gap
    return figure, axes


def _draw_phases(axes: Sequence[Axes], run: Run) -> None:
    """Mark where the phases after the main one begin; the name of the first stands left of its line."""
    for name, side in (("recovery", "right"), ("final", "left")):
        started_ns = next((phase["started_ns"] for phase in run.phases if phase["phase"] == name), None)
        if started_ns is None:
            continue
        for panel in axes:
            panel.axvline(started_ns / 1e9, color=theme.MUTED, linewidth=0.8, linestyle=(0, (2, 3)))
        axes[0].annotate(
            name,
            (started_ns / 1e9, 1),
            xycoords=("data", "axes fraction"),
            xytext=(2 if side == "left" else -2, 3),
            textcoords="offset points",
            ha=side,
            fontsize=7.5,
            color=theme.MUTED,
        )


def _draw_anomalies(axes: Sequence[Axes], run: Run, bins: Bins, first_lane: int) -> None:
    """Mark the bins in which anomalies fall: violations in one lane, the others in the next."""
    table = run.tables["anomalies"]
    at_ns = integers(table, "at_ns", null=UNKNOWN)
    within = is_one_of(table, "within_contract", True)
    sides = ((~within, theme.VIOLATION, "X"), (within, theme.ALLOWED, "o"))
    for lane, (chosen, colour, marker) in enumerate(sides, start=first_lane):
        filled, counts = np.unique(bins.of(at_ns[chosen & (at_ns >= 0)]), return_counts=True)
        centres = (bins.start_s + bins.width_s * (filled + 0.5)).tolist()
        room = _room(axes[0])
        for at_s, numbers in room.share(zip(centres, counts.tolist(), strict=True), _total):
            axes[0].scatter([at_s], [lane], marker=marker, s=30, color=colour, zorder=4)
            if sum(numbers) > 1:
                _beside(axes[0], at_s, lane, _total(numbers), colour)
        if marker == "X" and filled.size <= VIOLATION_LINES_MAX:
            for panel in axes[1:]:
                for centre in centres:
                    panel.axvline(centre, color=colour, linewidth=0.9, alpha=0.8)


class _Room(NamedTuple):
    """A lane of marks, each with a text to the right of it. Marks that lack the room for that become one."""

    end_s: float
    character_s: float

    def share(
        self, marks: Iterable[tuple[float, int]], text: Callable[[list[int]], str]
    ) -> Iterator[tuple[float, list[int]]]:
        """Yield where marks stand and the numbers of each; `marks` are in the order of their times."""
        at_s, numbers = 0.0, list[int]()
        for mark_s, number in marks:
            if numbers and mark_s < at_s + self._needed_s(text(numbers)):
                numbers.append(number)
                continue
            if numbers:
                yield at_s, numbers
            at_s, numbers = mark_s, [number]
        if numbers:
            yield min(at_s, self.end_s - self._needed_s(text(numbers))), numbers

    def _needed_s(self, text: str) -> float:
        return (len(text) + 2.5) * self.character_s


def _room(panel: Axes) -> _Room:
    left, right = panel.get_xlim()
    return _Room(right, CHARACTER_INCHES * (right - left) / (WIDTH_INCHES * PANEL_SHARE))


def _total(numbers: list[int]) -> str:
    return count(sum(numbers))


def _named(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) if len(numbers) < 4 else f"{len(numbers)} from {numbers[0]} on"


def _beside(panel: Axes, at_s: float, lane: int, text: str, colour: str) -> None:
    panel.annotate(
        text, (at_s, lane), xytext=(6, 0), textcoords="offset points", va="center_baseline", fontsize=8, color=colour
    )


def _draw_incidents(panel: Axes, run: Run, lane: int) -> None:
    """Mark what each incident began with, by its number."""
    room = _room(panel)
    for within, colour in ((False, theme.VIOLATION), (True, theme.ALLOWED)):
        dated = [
            (one.at_ns / 1e9, number)
            for number, one in enumerate(run.incidents, 1)
            if one.at_ns is not None and one.within_contract == within
        ]
        for at_s, numbers in room.share(sorted(dated)[:BARS_MAX], _named):
            panel.scatter([at_s], [lane + within], marker="v", s=34, color=colour, zorder=4)
            _beside(panel, at_s, lane + within, _named(numbers), colour)


def _steps(panel: Axes, bins: Bins, values: Any, colour: str, label: str, width: float = 1.3) -> None:  # noqa: ANN401
    panel.stairs(values, bins.edges_s, color=colour, label=label, linewidth=width)


def _draw_throughput(panel: Axes, joined: Joined, bins: Bins) -> None:
    rates = throughput(joined, bins)
    panel.stairs(rates.acknowledged_sends, bins.edges_s, fill=True, color=theme.OK, alpha=0.25)
    _steps(panel, bins, rates.acknowledged_sends, theme.OK, "writes ok")
    _steps(panel, bins, rates.ok_polls, theme.READ, "reads ok")
    _steps(panel, bins, rates.fail, theme.FAIL, "fail")
    _steps(panel, bins, rates.info, theme.INFO, "info")
    _finish(panel, "Operations per second")
    panel.set_ylim(bottom=0)


def _draw_latency(panel: Axes, joined: Joined, bins: Bins) -> None:
    quantiles = latency_quantiles_ms(joined, bins)
    centres = bins.edges_s[:-1] + bins.width_s / 2
    for values, quantile, alpha in zip(quantiles, QUANTILES, (1.0, 0.7, 0.45), strict=True):
        panel.plot(
            centres, values, color=theme.OK, alpha=alpha, linewidth=1.3, marker=".", markersize=2.5,
            label=f"p{quantile * 100:.0f}",
        )  # fmt: skip
    if np.isfinite(quantiles).any():
        panel.set_yscale("log")
        low, high = panel.get_ylim()
        if high / low < 20:
            panel.set_ylim(low / 2, max(high, low * 20))
        # Over more than two decades the ticks between the powers of ten would run into each other.
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 200 else (1,)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.minorticks_off()
    _finish(panel, "Latency of acknowledged writes, ms")


def _draw_progress(panel: Axes, joined: Joined, bins: Bins) -> None:
    steps = progress(joined, bins)
    centres = bins.edges_s[1:]
    panel.plot(centres, steps.acknowledged, color=theme.OK, linewidth=2.4, alpha=0.5, label="acknowledged")
    panel.plot(centres, steps.live, color=theme.READ, linewidth=1.3, label="foremost live reader")
    panel.plot(centres, steps.final, color=theme.FAIL, linewidth=1.6, label="slowest final reader")
    _finish(panel, "Reading progress, records")
    panel.set_ylim(bottom=0)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _finish(panel: Axes, title: str) -> None:
    panel.set_title(title, loc="left", pad=5)
    panel.grid(axis="y", color=theme.RULE, linewidth=0.6)
    if panel.get_yscale() == "linear":
        panel.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    legend = panel.legend(
        loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=5, frameon=False, fontsize=8.5, handlelength=1.2,
        columnspacing=1.4, borderaxespad=0.1,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_color(theme.MUTED)


def _label(run: Run, bins: Bins) -> str:
    kinds = [
        f"{printable((fault['kind'] or 'unknown')[:KIND_CHARACTERS])} on"
        f" {enumeration([str(target) for target in fault['targets'] or []])}"
        for fault in run.faults[:13]
    ]
    named = enumeration(kinds[:12]) + (f" and {len(run.faults) - 12} more" if len(run.faults) > 12 else "")
    return (
        f"Time line of {bins.size * bins.width_s:.0f} seconds: {plural(len(run.faults), 'fault')}"
        f"{f' ({named})' if named else ''}, operations per second, latency of writes, and reading progress."
    )


def _notes(run: Run, bins: Bins) -> tuple[str, ...]:
    notes = []
    if len(run.faults) > BARS_MAX:
        notes.append(f"Only the first {BARS_MAX} of {len(run.faults)} faults are drawn.")
    if bins.width_s > 1:
        notes.append(f"Each step of the curves covers {bins.width_s:.0f} seconds.")
    if len(versions := versions_of(run)) > 1:
        named = enumeration([printable(version) for version in versions[1 : VERSIONS_NAMED_MAX + 1]])
        notes.append(
            f"A diamond marks when a node was first seen to run {named}; before, it ran {printable(versions[0])}."
        )
    at_ns = integers(run.tables["anomalies"], "at_ns", null=UNKNOWN)
    undated = int((at_ns < 0).sum())
    if undated:
        which = "its own is" if undated == 1 else "their own are"
        notes.append(f"{plural(undated, 'anomaly', 'anomalies')} without a time of {which} not marked.")
    return tuple(notes)
