"""Draws the last transitions of a simulated run as a sequence diagram: a lane for each node, time downwards.

The picture leaves out the start-up and noise, which the message chart of the page has folded.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from reports.data.story import NEMESIS, VIOLATION, Story, StoryStep, lane_name

STEPS_MAX = 150
"""Transitions that are drawn: the last ones."""

_TIME_WIDTH = 70
_LANE_WIDTH = 100
_TEXT_WIDTH = 560
_ROW_HEIGHT = 20
_HEAD_HEIGHT = 34
_TEXT_CHARACTERS = 88
_TEXT_LINES = 6
_LINE_HEIGHT = 14


_TIP = (
    '<defs><marker id="{tip}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 L8 4 L0 8 z" style="fill: var(--ink)"/></marker>'
    '<marker id="{tip}-open" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0 L7 4 L0 8" style="fill: none; stroke: var(--ink)"/></marker></defs>'
)


@dataclass(frozen=True)
class Diagram:
    """The picture, and how many transitions it leaves out."""

    svg: str
    shown: int
    left_out: int


def sequence(story: Story | None, tip: str = "tip", steps_max: int = STEPS_MAX) -> Diagram | None:
    """Draw the last transitions of a story; None if there is none.

    `tip` is the id of the arrows' tip, which a page may have but once.
    """
    if story is None:
        return None
    steps = [step for step in story.steps[story.begins :] if not step.noise]
    shown = steps[-steps_max:]
    return Diagram(_svg(shown, story.lanes, tip), len(shown), len(steps) - len(shown))


def _svg(steps: Sequence[StoryStep], lanes: Sequence[int], tip: str) -> str:
    column_x = {lane: _TIME_WIDTH + _LANE_WIDTH * number + _LANE_WIDTH // 2 for number, lane in enumerate(lanes)}
    texts = [_wrapped(step.text) for step in steps]
    heights = [_ROW_HEIGHT + _LINE_HEIGHT * (len(lines) - 1) for lines in texts]
    width = _TIME_WIDTH + _LANE_WIDTH * len(lanes) + _TEXT_WIDTH
    height = _HEAD_HEIGHT + sum(heights) + _ROW_HEIGHT
    parts = [
        f'<svg viewBox="0 0 {width} {height}" role="group" aria-label="Sequence of the last steps">',
        _TIP.replace("{tip}", tip),
    ]
    for lane, x in column_x.items():
        parts.append(_text(x, 16, lane_name(lane), "middle", "var(--ink)", bold=True))
        parts.append(_line(x, _HEAD_HEIGHT - 8, x, height - 6, "var(--rule)"))
    text_x = _TIME_WIDTH + _LANE_WIDTH * len(lanes) + 6
    top = _HEAD_HEIGHT
    for step, lines, row_height in zip(steps, texts, heights, strict=True):
        y = top + _ROW_HEIGHT // 2
        parts.append(_text(_TIME_WIDTH - 12, y + 4, f"{step.at_us / 1e6:.3f}", "end", "var(--muted)"))
        parts.append(_mark(column_x, step, y, tip))
        for number, line in enumerate(lines):
            parts.append(_text(text_x, y + 4 + _LINE_HEIGHT * number, line, "start", _colour(step)))
        top += row_height
    parts.append("</svg>")
    return "".join(parts)


def _wrapped(text: str) -> list[str]:
    lines = textwrap.wrap(text, _TEXT_CHARACTERS, max_lines=_TEXT_LINES, placeholder=" …")
    return lines or [""]


def _mark(column_x: dict[int, int], step: StoryStep, y: int, tip: str) -> str:
    if step.source is None or step.source == step.lane:
        return f'<circle cx="{column_x[step.lane]}" cy="{y}" r="4" style="fill: {_colour(step)}"/>'
    ends = column_x[step.source], y, column_x[step.lane], y
    if step.message == "lost":
        middle = (ends[0] + ends[2]) // 2
        cross = f'<path d="M{middle - 4} {y - 4}l8 8m0 -8l-8 8" style="fill: none; stroke: var(--ink)"/>'
        return _line(*ends, "var(--ink)", ' stroke-dasharray="1.5 3"') + cross
    if step.message == "answer":
        return _line(*ends, "var(--ink)", f' stroke-dasharray="5 3" marker-end="url(#{tip}-open)"')
    return _line(*ends, "var(--ink)", f' marker-end="url(#{tip})"')


def _colour(step: StoryStep) -> str:
    if step.text.startswith(VIOLATION):
        return "var(--violation)"
    return "var(--fail)" if step.lane == NEMESIS else "var(--ink)"


def _line(x1: int, y1: int, x2: int, y2: int, colour: str, more: str = "") -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" style="stroke: {colour}"{more}/>'


def _text(x: int, y: int, text: str, anchor: str, colour: str, *, bold: bool = False) -> str:
    weight = "; font-weight: 600" if bold else ""
    style = f"fill: {colour}; font-size: 11px{weight}"
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" style="{style}">{escape(text)}</text>'
