"""Draws the last transitions of a simulated run as a sequence diagram: a lane for each node, time downwards.

The file `story.json` holds a list of transitions, each with `at_us`, `node_id`, `text`, and `source` where a message
came from another node. Other content is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

STEPS_MAX = 150
"""Transitions that are drawn: the last ones."""

CLIENTS = 1_000
CONTROLLERS = 100
NEMESIS = 0

_TIME_WIDTH = 70
_LANE_WIDTH = 100
_TEXT_WIDTH = 560
_ROW_HEIGHT = 20
_HEAD_HEIGHT = 34
_TEXT_CHARACTERS = 110


_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 L8 4 L0 8 z" style="fill: var(--ink)"/></marker></defs>'
)


class SequenceStep(NamedTuple):
    """One transition. `source` is the lane that a message came from, None for what a node did by itself."""

    at_us: int
    lane: int
    text: str
    source: int | None


@dataclass(frozen=True)
class Diagram:
    """The picture, and how many transitions it leaves out."""

    svg: str
    shown: int
    left_out: int


def sequence(directory: Path) -> Diagram | None:
    """Draw the transitions in a run's `story.json`; None if it has none."""
    steps = _read(directory / "story.json")
    if not steps:
        return None
    shown = steps[-STEPS_MAX:]
    return Diagram(_svg(shown), len(shown), len(steps) - len(shown))


def _read(path: Path) -> list[SequenceStep]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [_step(row) for row in rows if _is_step(row)] if isinstance(rows, list) else []


def _is_step(row: Any) -> bool:  # noqa: ANN401
    return (
        isinstance(row, dict)
        and isinstance(row.get("at_us"), int)
        and isinstance(row.get("node_id"), int)
        and isinstance(row.get("text"), str)
        and isinstance(row.get("source"), int | None)
    )


def _step(row: dict[str, Any]) -> SequenceStep:
    source = row.get("source")
    return SequenceStep(row["at_us"], _lane(row["node_id"]), row["text"], None if source is None else _lane(source))


def _lane(node_id: int) -> int:
    """All clients share a lane."""
    return min(node_id, CLIENTS)


def _name(lane: int) -> str:
    if lane == NEMESIS:
        return "nemesis"
    if lane == CLIENTS:
        return "clients"
    return f"controller {lane}" if lane >= CONTROLLERS else f"broker {lane}"


def _svg(steps: Sequence[SequenceStep]) -> str:
    lanes = sorted({step.lane for step in steps} | {step.source for step in steps if step.source is not None})
    column_x = {
        lane: _TIME_WIDTH + _LANE_WIDTH * number + _LANE_WIDTH // 2 for number, lane in enumerate(_order(lanes))
    }
    width = _TIME_WIDTH + _LANE_WIDTH * len(lanes) + _TEXT_WIDTH
    height = _HEAD_HEIGHT + _ROW_HEIGHT * (len(steps) + 1)
    parts = [
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="Sequence of the last transitions">',
        _TIP,
    ]
    for lane, x in column_x.items():
        parts.append(_text(x, 16, _name(lane), "middle", "var(--ink)", bold=True))
        parts.append(_line(x, _HEAD_HEIGHT - 8, x, height - 6, "var(--rule)"))
    text_x = _TIME_WIDTH + _LANE_WIDTH * len(lanes) + 6
    for number, step in enumerate(steps):
        y = _HEAD_HEIGHT + _ROW_HEIGHT * number + _ROW_HEIGHT // 2
        parts.append(_text(_TIME_WIDTH - 12, y + 4, f"{step.at_us / 1e6:.3f}", "end", "var(--muted)"))
        parts.append(_mark(column_x, step, y))
        colour = _colour(step)
        shown_text = step.text if len(step.text) <= _TEXT_CHARACTERS else f"{step.text[: _TEXT_CHARACTERS - 1]}…"
        parts.append(_text(text_x, y + 4, shown_text, "start", colour, title=step.text))
    parts.append("</svg>")
    return "".join(parts)


def _order(lanes: Sequence[int]) -> list[int]:
    """Nemesis and clients on the left, then brokers, then controllers."""
    return sorted(lanes, key=lambda lane: (lane != NEMESIS, lane != CLIENTS, lane))


def _mark(column_x: dict[int, int], step: SequenceStep, y: int) -> str:
    if step.source is None or step.source == step.lane:
        return f'<circle cx="{column_x[step.lane]}" cy="{y}" r="4" style="fill: {_colour(step)}"/>'
    return _line(column_x[step.source], y, column_x[step.lane], y, "var(--ink)", ' marker-end="url(#tip)"')


def _colour(step: SequenceStep) -> str:
    if step.text.startswith("VIOLATION"):
        return "var(--violation)"
    return "var(--fail)" if step.lane == NEMESIS else "var(--ink)"


def _line(x1: int, y1: int, x2: int, y2: int, colour: str, more: str = "") -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" style="stroke: {colour}"{more}/>'


def _text(x: int, y: int, text: str, anchor: str, colour: str, *, bold: bool = False, title: str = "") -> str:
    weight = "; font-weight: 600" if bold else ""
    shown = f"<title>{escape(title)}</title>{escape(text)}" if title != text and title else escape(text)
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" style="fill: {colour}; font-size: 11px{weight}">{shown}</text>'
    )
