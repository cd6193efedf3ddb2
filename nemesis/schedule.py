"""Draws, stores and reads schedules: which faults the nemesis fires, at what time, at which targets.

A schedule is drawn from the seed before the run and stored with it. Times are milliseconds since the start of the main
phase. Faults follow one another, except in *compositions*, in which an entry may fire beside active faults:

    lag          a follower falls behind; while it is behind, the replicas that have everything fail.
                 Which replica is elected then?
    succession   a follower is cut off from the other brokers, the leader fails, and soon after all other in-sync
                 replicas: the follower must lead with the log that it kept when its leader changed
    interregnum  the active controller fails, and while the others elect, so does the leader of a partition
                 (with several controllers)

A stored schedule is replayed exactly: `loads(dumps(schedule)) == schedule`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from common.names import unknown
from nemesis.draws import Draws
from nemesis.faults import KINDS
from nemesis.faults.base import FaultKind
from nemesis.targets import CONDITIONS, OF_CONTROLLERS, OF_MANY, ROLES, FaultTarget, Role, Trigger

_TOGETHER_MS = 1_000
"""Faults of a composition by name (`a+b`) begin within this time of the first."""

LAG_MS = 4_500
"""Long enough for a follower to leave the ISR, with the timeouts of a run (3 s)."""


@dataclass(frozen=True)
class ScheduledFault:
    """One scheduled fault."""

    entry: int  # number in the schedule, from 1
    at_ms: int
    kind: str
    target: FaultTarget
    duration_ms: int  # from injection to undo
    parameters: Mapping[str, str]
    beside: bool = False  # may fire while other faults are active
    when: Trigger | None = None  # fires when this is true, at `at_ms` or later; never if it never is


@dataclass(frozen=True)
class Schedule:
    """All scheduled faults, ordered by time."""

    entries: tuple[ScheduledFault, ...]


class ClusterSize(NamedTuple):
    """What the draw knows about the cluster."""

    controllers: int
    brokers: int | None  # None: enough for followers and majorities

    @property
    def single_broker(self) -> bool:
        """Whether there is one broker only, without followers."""
        return self.brokers == 1

    def roles(self, kind: FaultKind) -> tuple[Role, ...]:
        """Return the roles that a fault may target in this cluster."""
        roles = kind.roles_among(self.controllers)
        if self.controllers == 0:
            roles = tuple(role for role in roles if role not in OF_CONTROLLERS)
        if self.single_broker:
            roles = tuple(role for role in roles if role not in OF_MANY)
        return roles or ("broker",)


class ScheduleError(ValueError):
    """A stored schedule that can't be read. One line: what was expected, what was found."""


def draw(
    seed: int,
    kinds: Sequence[str],
    duration_ms: int,
    interval_ms: int,
    partitions: int,
    lossy_budget: int = 1,
    controllers: int = 1,
    intensity: int = 1,
    brokers: int | None = None,
) -> Schedule:
    """Draw a schedule.

    `kinds` may contain compositions by name, "kill+slow-network": faults that are fired together. `intensity` is how
    many faults may be active at a time: that many independent schedules are merged.

    `interval_ms` is the mean time from the start of one fault to the start of the next (a long fault pushes
    the next one back). Kinds come from a shuffled deck, so that each comes up once before any comes up
    twice. With `lossy_budget` 0 no kind that loses unsynced data is drawn. With several controllers further
    roles, parameters and a composition are drawn, which do not change what one controller draws. With one broker no
    role is drawn that needs several; without controllers no role of a controller.
    """
    wanted = [name for name in kinds if lossy_budget > 0 or not _is_lossy(name)]
    if not wanted:
        return Schedule(())
    layers = [
        _drawn(Draws(seed, name), wanted, duration_ms, interval_ms, partitions, ClusterSize(controllers, brokers))
        for name in ("schedule", *(f"schedule-{number}" for number in range(2, intensity + 1)))
    ]
    if intensity == 1:
        return Schedule(tuple(layers[0]))
    together = sorted((entry for layer in layers for entry in layer), key=lambda entry: entry.at_ms)
    return Schedule(tuple(replace(entry, entry=number, beside=True) for number, entry in enumerate(together, 1)))


def swarm(seed: int, kinds: Sequence[str]) -> tuple[str, ...]:
    """Draw a subset of kinds, at least two of two or more: runs without some kinds reach states that others do not."""
    draws = Draws(seed, "swarm")
    chosen = {name for name in kinds if draws.below(2)} | set(draws.shuffled(kinds)[:2])
    return tuple(name for name in kinds if name in chosen)


def parts(name: str) -> tuple[str, ...]:
    """Return the kinds of a composition by name; for a kind, itself."""
    return tuple(name.split("+"))


def _is_lossy(name: str) -> bool:
    return any(KINDS[part].lossy for part in parts(name))


def _drawn(
    draws: Draws, wanted: Sequence[str], duration_ms: int, interval_ms: int, partitions: int, size: ClusterSize
) -> list[ScheduledFault]:
    """Draw faults and compositions one after the other."""
    entries: list[ScheduledFault] = []
    at_ms = min(interval_ms, 2_000) + draws.below(max(interval_ms // 2, 1))
    deck: list[str] = []
    while at_ms < duration_ms - 1_000:
        if not deck:
            deck = draws.shuffled([*wanted, *_compositions(wanted, size)])
        card = deck.pop()
        if card in _COMPOSED:
            drawn = _COMPOSED[card](draws, wanted, partitions)
        else:
            drawn = _fired_together(draws, card, partitions, size)
        entries.extend(_placed(drawn, at_ms, len(entries), duration_ms))
        busy_ms = max(entry.at_ms + entry.duration_ms for entry in drawn)
        gap_ms = interval_ms * draws.between(70, 130) // 100
        at_ms += max(gap_ms, busy_ms + interval_ms // 6)
    return entries


def _placed(drawn: Sequence[ScheduledFault], at_ms: int, before: int, duration_ms: int) -> list[ScheduledFault]:
    placed: list[ScheduledFault] = []
    for entry in drawn:
        start_ms = at_ms + entry.at_ms
        if start_ms < duration_ms:
            moved = ScheduledFault(**{**vars(entry), "entry": before + len(placed) + 1, "at_ms": start_ms})
            placed.append(moved)
    return placed


def _fired_together(draws: Draws, card: str, partitions: int, size: ClusterSize) -> list[ScheduledFault]:
    """Draw one fault, or those of a composition by name: all but the first fire beside the first."""
    first, *others = (_single(draws, name, partitions, size) for name in parts(card))
    together = [replace(other, at_ms=draws.below(_TOGETHER_MS), beside=True) for other in others]
    return [first, *sorted(together, key=lambda entry: entry.at_ms)]


def _single(draws: Draws, name: str, partitions: int, size: ClusterSize) -> ScheduledFault:
    kind = KINDS[name]
    target = FaultTarget(draws.choice(size.roles(kind)), draws.below(partitions), draws.below(1 << 30))
    duration_ms = draws.between(*kind.lasts_ms) if kind.lasts_ms is not None else _duration_ms(draws)
    return ScheduledFault(0, 0, name, target, duration_ms, kind.parameters(draws, size.controllers))


def _duration_ms(draws: Draws) -> int:
    """Draw a duration: one in three is shorter than any timeout; the others last long enough for elections."""
    if draws.below(3) == 0:
        return draws.between(300, 2_500)
    return draws.between(3_500, 6_500)


# --- compositions -------------------------------------------------------------------------------------------

_HOLDERS = ("pause", "isolate", "kill")
"""Kinds that make a follower fall behind."""

_STRIKERS = ("kill", "pause", "isolate")
"""Kinds that take replicas away without losing data."""


def _compositions(wanted: Sequence[str], size: ClusterSize) -> list[str]:
    if size.single_broker:
        return []
    names = []
    if set(wanted) & set(_HOLDERS) and set(wanted) & set(_STRIKERS):
        names.append("lag")
    if "isolate" in wanted and set(wanted) & set(_STRIKERS):
        names.append("succession")
    if size.controllers > 1 and set(wanted) & set(_STRIKERS):
        names.append("interregnum")
    return names


def _lag(draws: Draws, wanted: Sequence[str], partitions: int) -> list[ScheduledFault]:
    partition = draws.below(partitions)
    holder = draws.choice([name for name in _HOLDERS if name in wanted])
    striker = draws.choice([name for name in _STRIKERS if name in wanted])
    strike_ms = LAG_MS + draws.below(1_000)
    overlap_ms = draws.between(100, 600)
    follower = FaultTarget("in-sync-follower", partition, draws.below(1 << 30))
    rest = FaultTarget("in-sync-replicas", partition)
    return [
        ScheduledFault(0, 0, holder, follower, strike_ms + overlap_ms, _from_all(holder)),
        ScheduledFault(0, strike_ms, striker, rest, draws.between(5_000, 7_000), _from_all(striker), beside=True),
    ]


def _succession(draws: Draws, wanted: Sequence[str], partitions: int) -> list[ScheduledFault]:
    partition = draws.below(partitions)
    striker = draws.choice([name for name in _STRIKERS if name in wanted])
    follower = FaultTarget("in-sync-follower", partition, draws.below(1 << 30))
    leader, rest = FaultTarget("leader", partition), FaultTarget("in-sync-replicas", partition)
    first_ms = draws.between(100, 500)
    second_ms = first_ms + draws.between(3_800, 5_000)
    return [
        ScheduledFault(0, 0, "isolate", follower, second_ms + 4_000, {"from": "brokers"}),
        ScheduledFault(0, first_ms, striker, leader, second_ms + 1_000, _from_all(striker), beside=True),
        ScheduledFault(0, second_ms, striker, rest, 4_500, _from_all(striker), beside=True),
    ]


def _interregnum(draws: Draws, wanted: Sequence[str], partitions: int) -> list[ScheduledFault]:
    first, second = (draws.choice([name for name in _STRIKERS if name in wanted]) for _ in range(2))
    leader = FaultTarget("leader", draws.below(partitions))
    strike_ms = draws.between(100, 2_000)
    return [
        ScheduledFault(0, 0, first, FaultTarget("active-controller"), strike_ms + 4_500, _from_all(first)),
        ScheduledFault(0, strike_ms, second, leader, draws.between(4_000, 6_000), _from_all(second), beside=True),
    ]


def _from_all(kind: str) -> dict[str, str]:
    return {"from": "all"} if kind == "isolate" else {}


_COMPOSED = {"lag": _lag, "succession": _succession, "interregnum": _interregnum}


# --- storage ------------------------------------------------------------------------------------------------


def dumps(schedule: Schedule) -> str:
    """Format a schedule as JSON, one entry per line."""
    lines = ",\n  ".join(json.dumps(asdict(entry)) for entry in schedule.entries)
    return f'{{"entries": [\n  {lines}\n]}}\n'


def loads(text: str) -> Schedule:
    """Parse what `dumps` wrote, possibly edited by hand. Raises `ScheduleError`."""
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise ScheduleError(f"expected a schedule as JSON, found text that is not: {error}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("entries"), list):
        raise ScheduleError('expected a schedule {"entries": [...]}, found other JSON')
    return loads_entries(raw["entries"])


def loads_entries(raw: Sequence[dict[str, Any]]) -> Schedule:
    """Build a schedule from entries as JSON values. Raises `ScheduleError`."""
    entries = tuple(_entry(number, item) for number, item in enumerate(raw, 1))
    return Schedule(tuple(sorted(entries, key=lambda entry: (entry.at_ms, entry.entry))))


def _entry(number: int, raw: dict[str, Any]) -> ScheduledFault:
    try:
        target = FaultTarget(**raw["target"])
        when = Trigger(**raw["when"]) if raw.get("when") is not None else None
        entry = ScheduledFault(**{**raw, "target": target, "when": when})
    except (TypeError, KeyError) as error:
        raise ScheduleError(
            f"entry {number} of the schedule: expected the fields of an entry, found {error}"
        ) from error
    return _checked(number, entry)


def _checked(number: int, entry: ScheduledFault) -> ScheduledFault:
    def expect(valid: bool, what: str, found: object) -> None:
        if not valid:
            raise ScheduleError(f"entry {number} of the schedule: expected {what}, found {found!r}")

    def expect_name(found: str, known: Collection[str], what: str, see: str = "") -> None:
        if found not in known:
            raise ScheduleError(f"entry {number} of the schedule: {unknown(found, known, what, see)}")

    numbers = (entry.entry, entry.at_ms, entry.duration_ms, entry.target.partition, entry.target.pick)
    expect(all(type(value) is int and value >= 0 for value in numbers), "whole numbers from 0", numbers)
    expect_name(entry.kind, KINDS, "the name of a fault", "`harrow faults`")
    expect_name(entry.target.role, ROLES, "a role")
    expect(isinstance(entry.beside, bool), "beside to be true or false", entry.beside)
    if entry.when is not None:
        expect_name(entry.when.condition, CONDITIONS, "a condition")
        values = (entry.when.partition, entry.when.value)
        expect(all(type(value) is int and value >= 0 for value in values), "whole numbers from 0", values)
    texts = isinstance(entry.parameters, dict) and all(isinstance(value, str) for value in entry.parameters.values())
    expect(texts, "parameters to be an object of strings", entry.parameters)
    return entry


def kinds_of(schedule: Schedule) -> tuple[FaultKind, ...]:
    """List the kinds that a schedule contains, each once."""
    return tuple(KINDS[name] for name in dict.fromkeys(entry.kind for entry in schedule.entries))
