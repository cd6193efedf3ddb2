"""A schedule: what the nemesis will do and when, drawn from the seed before the run and stored with it.

Times are milliseconds since the start of the main phase. Faults follow one another, but for *compositions*,
in which an entry says that it may fire beside those that still hold:

    lag       a follower falls behind; while it is behind, the replicas that have everything go.
              Who is made leader then?
    succession  a follower is cut off from the other brokers, the leader goes, and soon after whoever else is in sync:
                the follower must lead with what it kept when its leader changed
    interregnum  the active controller goes, and while the others elect, so does the leader of a partition
                 (where there are several controllers)

A stored schedule is replayed exactly: `loads(dumps(schedule)) == schedule`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from naming import unknown
from nemesis.draws import Draws
from nemesis.faults import KINDS
from nemesis.faults.base import Kind
from nemesis.targets import OF_CONTROLLERS, OF_MANY, ROLES, Role, Target
from nemesis.triggers import CONDITIONS, Trigger

_TOGETHER_MS = 1_000
"""Faults that are fired at once begin within this."""

LAG_MS = 4_500
"""Long enough for a follower to leave the ISR, with the timeouts of a run (3 s)."""


@dataclass(frozen=True)
class Entry:
    """One fault to come."""

    entry: int  # number in the schedule, from 1
    at_ms: int
    kind: str
    target: Target
    duration_ms: int  # from the injection to the healing
    parameters: Mapping[str, str]
    beside: bool = False  # may fire while other faults hold
    when: Trigger | None = None  # fires once this holds, at `at_ms` or later; never, if it never does


@dataclass(frozen=True)
class Schedule:
    """All faults to come, in the order of their times."""

    entries: tuple[Entry, ...]


class Shape(NamedTuple):
    """What the draw knows of the cluster."""

    controllers: int
    brokers: int | None  # None: enough to have followers and majorities

    @property
    def alone(self) -> bool:
        """Whether there is one broker, whom nobody follows."""
        return self.brokers == 1

    def roles(self, kind: Kind) -> tuple[Role, ...]:
        """Whom a fault may be aimed at here."""
        roles = kind.roles_among(self.controllers)
        if self.controllers == 0:
            roles = tuple(role for role in roles if role not in OF_CONTROLLERS)
        if self.alone:
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

    `kinds` may have compositions by name, "kill+slow-network": faults that are fired at once. `intensity` is how many
    faults may hold at a time: so many schedules of their own, one over the other.

    `interval_ms` is the mean time from the start of one fault to the start of the next (a long fault pushes
    the next one back). Kinds come from a shuffled deck, so that each comes up once before any comes up
    twice. With `lossy_budget` 0 no kind that loses unsynced data is drawn. With several controllers further
    roles, parameters and a composition are in the draw; with one it is as if there were no such thing. Where there is
    one of the `brokers` alone, nobody is drawn who would follow it, or be a part of many; without controllers, none.
    """
    wanted = [name for name in kinds if lossy_budget > 0 or not _is_lossy(name)]
    if not wanted:
        return Schedule(())
    lines = [
        _drawn(Draws(seed, name), wanted, duration_ms, interval_ms, partitions, Shape(controllers, brokers))
        for name in ("schedule", *(f"schedule-{number}" for number in range(2, intensity + 1)))
    ]
    if intensity == 1:
        return Schedule(tuple(lines[0]))
    together = sorted((entry for line in lines for entry in line), key=lambda entry: entry.at_ms)
    return Schedule(tuple(replace(entry, entry=number, beside=True) for number, entry in enumerate(together, 1)))


def swarm(seed: int, kinds: Sequence[str]) -> tuple[str, ...]:
    """Draw a subset of kinds, two at least where there are two: runs that leave things out go where none else goes."""
    draws = Draws(seed, "swarm")
    chosen = {name for name in kinds if draws.below(2)} | set(draws.shuffled(kinds)[:2])
    return tuple(name for name in kinds if name in chosen)


def parts(name: str) -> tuple[str, ...]:
    """The kinds of a composition by name; of a kind, itself."""
    return tuple(name.split("+"))


def _is_lossy(name: str) -> bool:
    return any(KINDS[part].lossy for part in parts(name))


def _drawn(
    draws: Draws, wanted: Sequence[str], duration_ms: int, interval_ms: int, partitions: int, shape: Shape
) -> list[Entry]:
    """Draw one fault, or one composition, after the other."""
    entries: list[Entry] = []
    at_ms = min(interval_ms, 2_000) + draws.below(max(interval_ms // 2, 1))
    deck: list[str] = []
    while at_ms < duration_ms - 1_000:
        if not deck:
            deck = draws.shuffled([*wanted, *_compositions(wanted, shape)])
        card = deck.pop()
        if card in _COMPOSED:
            drawn = _COMPOSED[card](draws, wanted, partitions)
        else:
            drawn = _at_once(draws, card, partitions, shape)
        entries.extend(_placed(drawn, at_ms, len(entries), duration_ms))
        busy_ms = max(entry.at_ms + entry.duration_ms for entry in drawn)
        gap_ms = interval_ms * draws.between(70, 130) // 100
        at_ms += max(gap_ms, busy_ms + interval_ms // 6)
    return entries


def _placed(drawn: Sequence[Entry], at_ms: int, before: int, duration_ms: int) -> list[Entry]:
    placed: list[Entry] = []
    for entry in drawn:
        start_ms = at_ms + entry.at_ms
        if start_ms < duration_ms:
            moved = Entry(**{**vars(entry), "entry": before + len(placed) + 1, "at_ms": start_ms})
            placed.append(moved)
    return placed


def _at_once(draws: Draws, card: str, partitions: int, shape: Shape) -> list[Entry]:
    """One fault, or those of a composition by name: the second and further ones come beside the first."""
    first, *others = (_single(draws, name, partitions, shape) for name in parts(card))
    together = [replace(other, at_ms=draws.below(_TOGETHER_MS), beside=True) for other in others]
    return [first, *sorted(together, key=lambda entry: entry.at_ms)]


def _single(draws: Draws, name: str, partitions: int, shape: Shape) -> Entry:
    kind = KINDS[name]
    target = Target(draws.choice(shape.roles(kind)), draws.below(partitions), draws.below(1 << 30))
    duration_ms = draws.between(*kind.lasts_ms) if kind.lasts_ms is not None else _duration_ms(draws)
    return Entry(0, 0, name, target, duration_ms, kind.parameters(draws, shape.controllers))


def _duration_ms(draws: Draws) -> int:
    """One in three is over before anybody's timeout; the others last long enough for consequences."""
    if draws.below(3) == 0:
        return draws.between(300, 2_500)
    return draws.between(3_500, 6_500)


# --- compositions -------------------------------------------------------------------------------------------

_HOLDERS = ("pause", "isolate", "kill")
"""Kinds that make a follower fall behind."""

_STRIKERS = ("kill", "pause", "isolate")
"""Kinds that take replicas away without losing anything."""


def _compositions(wanted: Sequence[str], shape: Shape) -> list[str]:
    if shape.alone:
        return []
    names = []
    if set(wanted) & set(_HOLDERS) and set(wanted) & set(_STRIKERS):
        names.append("lag")
    if "isolate" in wanted and set(wanted) & set(_STRIKERS):
        names.append("succession")
    if shape.controllers > 1 and set(wanted) & set(_STRIKERS):
        names.append("interregnum")
    return names


def _lag(draws: Draws, wanted: Sequence[str], partitions: int) -> list[Entry]:
    partition = draws.below(partitions)
    holder = draws.choice([name for name in _HOLDERS if name in wanted])
    striker = draws.choice([name for name in _STRIKERS if name in wanted])
    strike_ms = LAG_MS + draws.below(1_000)
    overlap_ms = draws.between(100, 600)
    follower = Target("in-sync-follower", partition, draws.below(1 << 30))
    rest = Target("in-sync-replicas", partition)
    return [
        Entry(0, 0, holder, follower, strike_ms + overlap_ms, _everyone(holder)),
        Entry(0, strike_ms, striker, rest, draws.between(5_000, 7_000), _everyone(striker), beside=True),
    ]


def _succession(draws: Draws, wanted: Sequence[str], partitions: int) -> list[Entry]:
    partition = draws.below(partitions)
    striker = draws.choice([name for name in _STRIKERS if name in wanted])
    follower = Target("in-sync-follower", partition, draws.below(1 << 30))
    leader, rest = Target("leader", partition), Target("in-sync-replicas", partition)
    first_ms = draws.between(100, 500)
    second_ms = first_ms + draws.between(3_800, 5_000)
    return [
        Entry(0, 0, "isolate", follower, second_ms + 4_000, {"from": "brokers"}),
        Entry(0, first_ms, striker, leader, second_ms + 1_000, _everyone(striker), beside=True),
        Entry(0, second_ms, striker, rest, 4_500, _everyone(striker), beside=True),
    ]


def _interregnum(draws: Draws, wanted: Sequence[str], partitions: int) -> list[Entry]:
    first, second = (draws.choice([name for name in _STRIKERS if name in wanted]) for _ in range(2))
    leader = Target("leader", draws.below(partitions))
    strike_ms = draws.between(100, 2_000)
    return [
        Entry(0, 0, first, Target("active-controller"), strike_ms + 4_500, _everyone(first)),
        Entry(0, strike_ms, second, leader, draws.between(4_000, 6_000), _everyone(second), beside=True),
    ]


def _everyone(kind: str) -> dict[str, str]:
    return {"from": "all"} if kind == "isolate" else {}


_COMPOSED = {"lag": _lag, "succession": _succession, "interregnum": _interregnum}


# --- storage ------------------------------------------------------------------------------------------------


def dumps(schedule: Schedule) -> str:
    """JSON, one entry a line."""
    lines = ",\n  ".join(json.dumps(asdict(entry)) for entry in schedule.entries)
    return f'{{"entries": [\n  {lines}\n]}}\n'


def loads(text: str) -> Schedule:
    """Read what `dumps` wrote, perhaps edited by hand. Raises `ScheduleError`."""
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise ScheduleError(f"expected a schedule as JSON, found text that is not: {error}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("entries"), list):
        raise ScheduleError('expected a schedule {"entries": [...]}, found other JSON')
    return loads_entries(raw["entries"])


def loads_entries(raw: Sequence[dict[str, Any]]) -> Schedule:
    """Make a schedule of its entries as JSON values. Raises `ScheduleError`."""
    entries = tuple(_entry(number, item) for number, item in enumerate(raw, 1))
    return Schedule(tuple(sorted(entries, key=lambda entry: (entry.at_ms, entry.entry))))


def _entry(number: int, raw: dict[str, Any]) -> Entry:
    try:
        target = Target(**raw["target"])
        when = Trigger(**raw["when"]) if raw.get("when") is not None else None
        entry = Entry(**{**raw, "target": target, "when": when})
    except (TypeError, KeyError) as error:
        raise ScheduleError(
            f"entry {number} of the schedule: expected the fields of an entry, found {error}"
        ) from error
    return _checked(number, entry)


def _checked(number: int, entry: Entry) -> Entry:
    def expect(holds: bool, what: str, found: object) -> None:
        if not holds:
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


def kinds_of(schedule: Schedule) -> tuple[Kind, ...]:
    """List the kinds that a schedule needs, each once."""
    return tuple(KINDS[name] for name in dict.fromkeys(entry.kind for entry in schedule.entries))
