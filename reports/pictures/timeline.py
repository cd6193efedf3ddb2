"""Draws the time line of a run: faults and anomalies over throughput, latency and reading progress, on one clock."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from common.wording import CLIENTS, FIRST_CONTROLLER, enumeration, plural
from reports.data.joined import UNKNOWN, Joined
from reports.data.series import QUANTILES, Bins, bins_over, latency_quantiles_ms, progress, throughput
from reports.data.stored_run import Run, integers, is_one_of
from reports.pictures import theme

WIDTH_INCHES = 11.0
LANE_INCHES = 0.25
PANEL_INCHES = 1.35
PANEL_SHARE = 0.895
"""Width of the panels as a share of the picture's."""
CHARACTER_INCHES = 0.072
"""Width of a character of a fault's name, on the safe side for any font the page may use."""
BARS_MAX = 400
"""Faults drawn; a run with more says so."""
VIOLATION_LINES_MAX = 30
"""Moments of violations that are drawn through all panels; more of them would hide the curves."""

_FAMILY_COLOURS = {
    "process": theme.PROCESS,
    "network": theme.NETWORK,
    "storage": theme.STORAGE,
    "other": theme.OTHER,
}
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


class _Bar(NamedTuple):
    number: int
    kind: str
    start_s: float
    end_s: float
    took_hold: bool


class _Row(NamedTuple):
    label: str
    lanes: list[list[_Bar]]


def timeline(run: Run, joined: Joined) -> Timeline | None:
    """Draw the time line; None if there is nothing to draw."""
    start_ns, end_ns = run.span_ns
    if end_ns <= start_ns:
        return None
    bins = bins_over(start_ns, end_ns)
    rows = _fault_rows(run, bins)
    lanes = sum(len(row.lanes) for row in rows)
    with mpl.rc_context(_STYLE):
        figure, axes = _panels(lanes + 3)
        axes[0].set_xlim(bins.start_s, bins.edges_s[-1])
        _draw_faults(axes[0], rows)
        _draw_anomalies(axes, run, bins, lanes)
        _draw_incidents(axes[0], run, lanes + 2)
        _draw_throughput(axes[1], joined, bins)
        _draw_latency(axes[2], joined, bins)
        _draw_progress(axes[3], joined, bins)
        _draw_phases(axes, run)
        for panel in axes:
            _shade_faults(panel, rows)
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


def _fault_rows(run: Run, bins: Bins) -> list[_Row]:
    """Sort the faults by target, and where faults on one target overlap give each a lane of its own."""
    by_target: dict[int, list[_Bar]] = {}
    end_s = run.span_ns[1] / 1e9
    for fault in run.faults[:BARS_MAX]:
        if fault["started_ns"] is None:
            continue
        until_s = end_s if fault["ended_ns"] is None else fault["ended_ns"] / 1e9
        bar = _Bar(
            fault["fault"] or 0,
            fault["kind"] or "unknown",
            max(fault["started_ns"] / 1e9, bins.start_s),
            until_s,
            bool(fault["took_hold"]),
        )
        for target in sorted(set(fault["targets"] or [UNKNOWN])):
            by_target.setdefault(target, []).append(bar)
    return [_Row(_target_label(target), _lanes(bars)) for target, bars in sorted(by_target.items())]


def _lanes(bars: Sequence[_Bar]) -> list[list[_Bar]]:
    lanes: list[list[_Bar]] = []
    for bar in bars:
        free = next((lane for lane in lanes if lane[-1].end_s <= bar.start_s), None)
        if free is None:
            lanes.append([bar])
        else:
            free.append(bar)
    return lanes


def _target_label(target: int) -> str:
    if target == UNKNOWN:
        return "no target"
    if target == CLIENTS:
        return "clients"
    return f"controller {target}" if target >= FIRST_CONTROLLER else f"broker {target}"


def _draw_faults(panel: Axes, rows: Sequence[_Row]) -> None:
    panel.set_title("Faults and anomalies", loc="left", pad=8)
    labels: list[tuple[float, str]] = []
    row_number = 0
    for row in rows:
        labels.append((row_number + (len(row.lanes) - 1) / 2, row.label))
        for lane in row.lanes:
            ends = [following.start_s for following in lane[1:]]
            for bar, free_until_s in zip(lane, [*ends, panel.get_xlim()[1]], strict=True):
                _draw_bar(panel, bar, free_until_s, row_number)
            row_number += 1
        panel.axhline(row_number - 0.5, color=theme.RULE, linewidth=0.6)
    labels += [(row_number, "violations"), (row_number + 1, "within contract"), (row_number + 2, "incidents")]
    panel.set_yticks([at for at, _ in labels], [text for _, text in labels])
    panel.set_ylim(row_number + 2.5, -0.5)


def _draw_bar(panel: Axes, bar: _Bar, free_until_s: float, row_number: int) -> None:
    """Draw one fault. Its name stands in the bar, or else behind it, or else only its number is given."""
    left, right = panel.get_xlim()
    panel.barh(
        row_number,
        max(bar.end_s - bar.start_s, 0.05),
        left=bar.start_s,
        height=0.78,
        color=_FAMILY_COLOURS[theme.fault_family(bar.kind)] if bar.took_hold else "none",
        edgecolor="none" if bar.took_hold else theme.MUTED,
        hatch=None if bar.took_hold else "////",
        linewidth=0.8,
    )
    seconds_per_inch = (right - left) / (WIDTH_INCHES * PANEL_SHARE)
    name = f"{bar.number} {bar.kind}" + ("" if bar.took_hold else " (did not take effect)")
    needed_s = (len(name) + 1.5) * CHARACTER_INCHES * seconds_per_inch
    inside = bar.took_hold and needed_s <= bar.end_s - bar.start_s
    behind = needed_s <= free_until_s - bar.end_s
    panel.annotate(
        name if inside or behind else str(bar.number),
        (bar.end_s if behind and not inside else bar.start_s, row_number),
        xytext=(3, 0),
        textcoords="offset points",
        va="center_baseline",
        fontsize=8,
        color=theme.INK if behind and not inside else theme.ON_FILL,
    )


def _shade_faults(panel: Axes, rows: Sequence[_Row]) -> None:
    for bar in {bar for row in rows for lane in row.lanes for bar in lane if bar.took_hold}:
        colour = _FAMILY_COLOURS[theme.fault_family(bar.kind)]
        panel.axvspan(bar.start_s, bar.end_s, color=colour, alpha=0.16, linewidth=0, zorder=0)


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
        centres = bins.start_s + bins.width_s * (filled + 0.5)
        axes[0].scatter(centres, np.full(filled.shape, lane), marker=marker, s=30, color=colour, zorder=4)
        left_s = bins.start_s
        for centre, number in zip(centres.tolist(), counts.tolist(), strict=True):
            # The number stands left of its mark, where the right edge cannot cut it, if no other mark is there.
            needed_s = (len(str(number)) + 2) * CHARACTER_INCHES * bins.size * bins.width_s / WIDTH_INCHES
            if number > 1 and centre - needed_s > left_s:
                axes[0].annotate(
                    str(number),
                    (centre, lane),
                    xytext=(-6, 0),
                    textcoords="offset points",
                    ha="right",
                    va="center_baseline",
                    fontsize=8,
                    color=colour,
                )
            left_s = centre
        if marker == "X" and filled.size <= VIOLATION_LINES_MAX:
            for panel in axes[1:]:
                for centre in centres.tolist():
                    panel.axvline(centre, color=colour, linewidth=0.9, alpha=0.8)


def _draw_incidents(panel: Axes, run: Run, lane: int) -> None:
    """Mark when each incident first did harm, by its number; numbers that would collide are left out."""
    free_from_s = panel.get_xlim()[0] - 1
    left, right = panel.get_xlim()
    needed_s = 3 * CHARACTER_INCHES * (right - left) / (WIDTH_INCHES * PANEL_SHARE)
    dated = [(one.at_ns / 1e9, number, one) for number, one in enumerate(run.incidents, 1) if one.at_ns is not None]
    for at_s, number, incident in sorted(dated, key=lambda one: one[:2])[:BARS_MAX]:
        colour = theme.ALLOWED if incident.within_contract else theme.VIOLATION
        panel.scatter([at_s], [lane], marker="v", s=34, color=colour, zorder=4)
        if at_s >= free_from_s:
            panel.annotate(
                str(number), (at_s, lane), xytext=(5, 0), textcoords="offset points", va="center_baseline",
                fontsize=8, color=colour,
            )  # fmt: skip
            free_from_s = at_s + needed_s


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
    kinds = [f"{fault['kind']} on {enumeration([str(t) for t in fault['targets'] or []])}" for fault in run.faults]
    named = enumeration(kinds[:12]) + (f" and {len(kinds) - 12} more" if len(kinds) > 12 else "")
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
    at_ns = integers(run.tables["anomalies"], "at_ns", null=UNKNOWN)
    undated = int((at_ns < 0).sum())
    if undated:
        notes.append(f"{plural(undated, 'anomaly', 'anomalies')} without a time of their own are not marked.")
    return tuple(notes)
