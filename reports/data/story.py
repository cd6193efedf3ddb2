"""Reads the story of a simulated failure from `story.json`: its steps, what caused each, and what it changed.

The file holds a list of steps, each with `at_us`, `node_id` and `text`, and `source` where a message came from another
node; for the other keys see `simulation.runs.story`. What else it holds is ignored: a file of another release, or a
damaged one, makes a poorer story and no error.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from common.wording import ENSEMBLE, FIRST_CONTROLLER, FIRST_SERVER, node, printable

NEMESIS: Final = 0
CLIENTS: Final = 1_000
"""The lane of all clients."""
STEPS_MAX: Final = 2_000
TEXT_CHARACTERS: Final = 600
VIOLATION: Final = "VIOLATION"
_SCHEDULE_STEP: Final = "step "
_NUMBERS: Final = ("leader", "epoch", "high_watermark", "log_start", "log_end")
_LISTS: Final = ("isr", "elr")
_LIST_MAX: Final = 200
MESSAGES: Final = ("request", "answer", "lost")
_ANSWER: Final = re.compile(r"[A-Z]\w*: ")
_SHORT: Final = {NEMESIS: "flt.", CLIENTS: "cl.", ENSEMBLE: "ens."}

State = dict[str, dict[str, Any]]
"""Partition → what a node knows of it."""


@dataclass(frozen=True)
class StoryStep:
    """One transition. `source` is the lane that a message came from, None for what a node did by itself."""

    at_us: int
    lane: int
    text: str
    source: int | None
    cause: int | None = None
    """Index of the step that led to it."""
    noise: str = ""
    """Its kind, if it is noise."""
    folded: dict[str, int] = field(default_factory=dict)
    """Noise before it that was not stored: kind → how much."""
    state: State = field(default_factory=dict)
    """What it changed."""
    ended: bool = False
    """Whether its node ended."""
    message: str = ""
    """`request`, `answer` or `lost`, if it is a message from another lane; `lost`: the request has got no answer."""


@dataclass(frozen=True)
class Words:
    """What the chart says around the steps."""

    cause: str
    """The button to the step before in the chain."""
    only: str
    """The button that leaves nothing but the chain."""
    no_cause: str
    before: str
    after: str
    gone: str
    """Beside a node that has ended."""
    log: str
    """Above the column of the logs."""


OF_A_SIMULATION: Final = Words(
    "← what led to it",
    "only what led to it",
    "Nothing in the story led to it.",
    "Led to it: ",
    "It led to: ",
    "down; last known",
    "log: offsets by epoch",
)


@dataclass(frozen=True)
class Story:
    """The steps, in order, and the state of each lane's node before the first."""

    steps: tuple[StoryStep, ...]
    before: dict[int, State]
    focus: int | None = None
    """The step that the chart begins at, if that is not the violation; then there is no start-up either."""
    words: Words = OF_A_SIMULATION
    lost: tuple[int, int] | None = None
    """The first and the last lost offset, if that is known."""

    @property
    def lanes(self) -> list[int]:
        """Nemesis and clients, then brokers, then controllers."""
        found = {step.lane for step in self.steps} | {step.source for step in self.steps if step.source is not None}
        return sorted(found, key=lambda lane: (lane != NEMESIS, lane != CLIENTS, lane))

    @property
    def begins(self) -> int:
        """Where the start-up ends: at the first fault, the first step of a schedule, or the first write."""
        if self.focus is not None:
            return 0
        return next(
            (
                index
                for index, step in enumerate(self.steps)
                if step.lane == NEMESIS or step.text.startswith((_SCHEDULE_STEP, "Produce"))
            ),
            0,
        )

    @property
    def violation(self) -> int | None:
        """The step that reports the broken property."""
        if self.focus is not None:
            return self.focus
        return next((index for index, step in enumerate(self.steps) if step.text.startswith(VIOLATION)), None)

    @property
    def reaches_a_fault(self) -> bool:
        """Whether a fault is among the steps that led to the violation, one from the other."""
        at = self.violation
        while at is not None and (before := self.steps[at].cause) is not None and before < at:
            if self.steps[before].lane == NEMESIS:
                return True
            at = before
        return False

    @property
    def columns(self) -> str:
        """What the short names above the columns stand for: the first of each kind of lane."""
        kinds: dict[str, int] = {}
        for lane in self.lanes:
            kinds.setdefault(_short_name(lane).rstrip("0123456789"), lane)
        has_violation = self.violation is not None and self.steps[self.violation].lane == NEMESIS
        faults = (
            "the faults that were injected, and the violation" if has_violation else "the faults that were injected"
        )
        named = {NEMESIS: faults, CLIENTS: "the clients"}
        return ", ".join(f"{_short_name(lane)} {named.get(lane) or node(lane)}" for lane in kinds.values())

    def to_json(self) -> dict[str, Any]:
        """Return what the script of the message chart works with."""
        return {
            "lanes": [[lane, lane_name(lane), _short_name(lane)] for lane in self.lanes],
            "columns": self.columns,
            "before": {str(lane): state for lane, state in self.before.items()},
            "begins": self.begins,
            "violation": self.violation,
            "reaches_a_fault": self.reaches_a_fault,
            "words": vars(self.words),
            "lost": self.lost,
            "steps": [
                {key: value for key, value in vars(step).items() if value or key in ("at_us", "lane", "text")}
                | ({"cause": step.cause} if step.cause is not None else {})
                | ({"source": step.source} if step.source is not None else {})
                for step in self.steps
            ],
        }


def load_story(directory: Path) -> Story | None:
    """Read a run's story; None if it has none."""
    try:
        rows = json.loads((directory / "story.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(rows, list):
        return None
    kept = [(index, row) for index, row in enumerate(rows) if _is_step(row)][-STEPS_MAX:]
    place = {index: number for number, (index, _) in enumerate(kept)}
    steps = tuple(_step(row, place) for _, row in kept)
    before = kept[0][1].get("before") if kept and kept[0][0] == 0 else None
    states = before.items() if isinstance(before, dict) else ()
    return Story(steps, {int(node): _state(state) for node, state in states if node.isdecimal()}) if steps else None


def lane_name(lane: int) -> str:
    """Name the lane of a node."""
    if lane == NEMESIS:
        return "faults"
    if lane == CLIENTS:
        return "clients"
    return node(lane)


def _short_name(lane: int) -> str:
    if lane in _SHORT:
        return _SHORT[lane]
    return f"z{lane}" if lane >= FIRST_SERVER else f"c{lane}" if lane >= FIRST_CONTROLLER else f"b{lane}"


def _is_step(row: object) -> bool:
    return (
        isinstance(row, dict)
        and _is_whole(row.get("at_us"))
        and _is_whole(row.get("node_id"))
        and isinstance(row.get("text"), str)
        and (row.get("source") is None or _is_whole(row["source"]))
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53


def _step(row: dict[str, Any], place: dict[int, int]) -> StoryStep:
    source, cause, folded = row.get("source"), row.get("cause"), row.get("folded")
    counted = folded.items() if isinstance(folded, dict) else ()
    return StoryStep(
        at_us=row["at_us"],
        lane=min(row["node_id"], CLIENTS),
        text=_text(row["text"]),
        source=None if source is None else min(source, CLIENTS),
        cause=place.get(cause) if isinstance(cause, int) and not isinstance(cause, bool) else None,
        noise=_text(row["noise"]) if isinstance(row.get("noise"), str) else "",
        folded={_text(kind): number for kind, number in counted if _is_whole(number)},
        state=_state(row.get("state")),
        ended=row.get("ended") is True,
        message=_message(row),
    )


def _message(row: dict[str, Any]) -> str:
    """Return what kind of message a step is; where it is not stored, an answer has a colon after its name."""
    source = row.get("source")
    if source is None or min(source, CLIENTS) == min(row["node_id"], CLIENTS):
        return ""
    stored = row.get("message")
    if stored in MESSAGES:
        return str(stored)
    return "answer" if _ANSWER.match(row["text"]) else "request"


def _state(stored: object) -> State:
    """Keep of a stored state what has the right form."""
    found: State = {}
    for name, standing in stored.items() if isinstance(stored, dict) else ():
        if not isinstance(standing, dict):
            continue
        kept: dict[str, Any] = {key: standing[key] for key in _NUMBERS if _is_whole(standing.get(key))}
        kept |= {key: standing[key][:_LIST_MAX] for key in _LISTS if _is_list_of_wholes(standing.get(key))}
        log = standing.get("log")
        if isinstance(log, list) and all(_is_list_of_wholes(part) and len(part) == 3 for part in log):
            kept["log"] = log[-_LIST_MAX:]
        if isinstance(standing.get("role"), str):
            kept["role"] = _text(standing["role"])
        found[_text(name)] = kept
    return found


def _is_list_of_wholes(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_whole, value))


def _text(text: str) -> str:
    return printable(text if len(text) <= TEXT_CHARACTERS else f"{text[:TEXT_CHARACTERS]}…")
