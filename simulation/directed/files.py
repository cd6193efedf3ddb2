"""Loads and checks the files of directed schedules (TOML)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from common.names import SpecError, unknown
from common.shelf import Shelf
from simulation.scenario.overrides import check_names

FORMAT = 1
DIRECTORY = Path(__file__).parent / "schedules"
DIRECTED_SCHEDULES = Shelf("a schedule in steps", "schedules", DIRECTORY)
"""The schedules of the flaws, by name."""

CONDITIONS = frozenset(
    {
        "isr", "elr", "last_known_elr", "replicas", "leader", "leader_epoch", "fenced", "unfenced", "stopping",
        "acked", "refused", "unanswered", "high_watermark", "log_start", "log_end", "flushed", "role", "epoch_at",
        "isr_at", "leader_at", "held", "up", "down", "told", "controller", "quorum_role", "quorum_end",
        "quorum_epoch_below", "not_leading", "seen", "within",
    }
)  # fmt: skip
"""The conditions of `wait` and `expect`. `within` is their timeout in milliseconds."""

STEPS: Mapping[str, frozenset[str]] = {
    "produce": frozenset({"values", "to", "acks", "retry", "producer", "timeout", "compression", "padding"}),
    "wait": CONDITIONS,
    "expect": CONDITIONS | {"property"},
    "hold": frozenset({"message", "direction", "from", "to", "count", "as", "offset", "skip"}),
    "drop": frozenset({"message", "direction", "from", "to", "count", "as", "offset", "skip"}),
    "release": frozenset({"label", "count"}),
    "let": frozenset({"label"}),
    "crash": frozenset({"node", "survival", "disk"}),
    "start": frozenset({"node"}),
    "restart": frozenset({"node"}),
    "stop": frozenset({"node"}),
    "pause": frozenset({"node"}),
    "resume": frozenset({"node"}),
    "cut": frozenset({"between", "and", "one_way"}),
    "mend": frozenset({"between", "and", "one_way"}),
    "slow-fsync": frozenset({"node", "ms"}),
    "tear-append": frozenset({"node", "bytes"}),
    "elapse": frozenset({"ms"}),
    "reassign": frozenset({"replicas", "cancel"}),
    "elect": frozenset({"kind"}),
    "set": frozenset({"key", "value"}),
    "create-topic": frozenset({"name"}),
    "delete-records": frozenset({"offset"}),
    "read": frozenset({"from"}),
    "latest": frozenset({"from", "at_least"}),
    "look-up": frozenset({"from", "time"}),
}
"""Kinds of steps, with the arguments of each."""


class DirectedScheduleError(Exception):
    """A schedule that cannot be executed: the step's number, what was expected, what was found. One line."""


class ScheduleStep(NamedTuple):
    """One step; `number` counts from 1."""

    number: int
    kind: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectedSchedule:
    """One schedule file. Both builds have the flaws in `masks`; only the flawed build has `flaws`."""

    path: Path
    title: str
    story: str
    generation: str
    flaws: tuple[str, ...]
    masks: tuple[str, ...]
    finds: tuple[str, ...]
    """Layers that find the flaw: invariant, liveness, crash, logs, history."""

    configuration: Mapping[str, object]
    settings: Mapping[str, object]
    settings_of: Mapping[str, Mapping[str, object]]
    """Settings of some nodes: by a node's number, or `brokers` or `controllers`."""

    replicas: tuple[int, ...]
    steps: tuple[ScheduleStep, ...]
    whole: bool
    """Whether the cluster is healed and read at the end."""


def schedule_name(path: Path) -> str:
    """The argument of `--schedule` for a file: the name of one that comes with Harrow, else its absolute path."""
    return path.stem if DIRECTORY in path.parents else str(path.absolute())


def schedules() -> Mapping[str, list[Path]]:
    """The files of each flaw, by the flaw's name."""
    found: dict[str, list[Path]] = {}
    for path in DIRECTED_SCHEDULES.files().values():
        for flaw in load(path).flaws:
            found.setdefault(flaw, []).append(path)
    return found


def load(path: Path) -> DirectedSchedule:
    """Read and check a file. Raises `DirectedScheduleError`."""
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise DirectedScheduleError(f"{path.name}: expected a schedule in TOML: {error}") from None
    if data.get("format") != FORMAT:
        if "fault" in data:
            advice = f"harrow run --schedule {path}, or harrow sim --seed 1 --faults {path}"
            raise DirectedScheduleError(f"{path.name}: expected a schedule in steps, found one of faults; {advice}")
        raise DirectedScheduleError(f"{path.name}: expected format = {FORMAT}, found {data.get('format')!r}")
    known = set(DirectedSchedule.__dataclass_fields__) - {"path", "steps"} | {"format", "step"}
    for key in data:
        if key not in known:
            raise DirectedScheduleError(f"{path.name}: {unknown(key, sorted(known))}")
    generation = data.get("generation", "K5")
    try:
        check_names(generation, (*data.get("flaws", ()), *data.get("masks", ())))
    except SpecError as error:
        raise DirectedScheduleError(f"{path.name}: {error}") from None
    for node in data.get("settings_of", {}):
        if node not in ("brokers", "controllers") and not node.isdecimal():
            raise DirectedScheduleError(
                f"{path.name}: settings_of: expected brokers, controllers or a node, found {node}"
            )
    return DirectedSchedule(
        path=path,
        title=str(data.get("title", path.stem)),
        story=str(data.get("story", "")).strip(),
        generation=generation,
        flaws=tuple(data.get("flaws", ())),
        masks=tuple(data.get("masks", ())),
        finds=tuple(data.get("finds", ())),
        configuration=data.get("configuration", {}),
        settings=data.get("settings", {}),
        settings_of=data.get("settings_of", {}),
        replicas=tuple(data.get("replicas", (1, 2, 3))),
        steps=tuple(_step(path, number, step) for number, step in enumerate(data.get("step", ()), 1)),
        whole=bool(data.get("whole", True)),
    )


def _step(path: Path, number: int, data: Mapping[str, object]) -> ScheduleStep:
    kind = str(data.get("do", ""))
    if kind not in STEPS:
        raise DirectedScheduleError(f"{path.name}: step {number}: {unknown(kind, STEPS)}")
    arguments = {key: value for key, value in data.items() if key != "do"}
    for key in arguments:
        if key not in STEPS[kind]:
            raise DirectedScheduleError(f"{path.name}: step {number}: {kind}: {unknown(key, sorted(STEPS[kind]))}")
    return ScheduleStep(number, kind, arguments)
