"""Draws schedules from a seed: kinds, times, targets and parameters of faults, alone and in compositions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from nemesis.draws import Draws
from nemesis.faults import KINDS
from nemesis.faults.base import FaultKind
from nemesis.recipes import COMPOSED, RECIPES, compositions, parts
from nemesis.schedule import Schedule, ScheduledFault
from nemesis.targets import OF_CONTROLLERS, OF_MANY, FaultTarget, Role

_TOGETHER_MS = 1_000
"""Faults of a composition by name (`a+b`) begin within this time of the first."""


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

    `kinds` may contain recipes, and compositions by name, "kill+slow-network": faults that are fired together.
    `intensity` is how many faults may be active at a time: that many independent schedules are merged.

    `interval_ms` is the mean time from the start of one fault to the start of the next (a long fault pushes
    the next one back). Kinds come from a shuffled deck, so that each comes up once before any comes up
    twice. With `lossy_budget` 0 no kind that loses unsynced data is drawn. With several controllers further
    roles, parameters and a composition are drawn, which do not change what one controller draws. With one broker no
    role is drawn that needs several, and no recipe; without controllers no role of a controller.
    """
    wanted = [name for name in kinds if lossy_budget > 0 or not _is_lossy(name)]
    if brokers == 1:
        wanted = [name for name in wanted if name not in RECIPES]
    if not wanted:
        return Schedule(())
    layers = [
        _drawn(Draws(seed, name), wanted, duration_ms, interval_ms, partitions, ClusterSize(controllers, brokers))
        for name in ("schedule", *(f"schedule-{number}" for number in range(2, intensity + 1)))
    ]
    if intensity == 1:
        return Schedule(tuple(layers[0]))
    return Schedule(tuple(_merged(layers)))


def _merged(layers: Sequence[Sequence[ScheduledFault]]) -> list[ScheduledFault]:
    """All entries by time, numbered anew; those that hit what another hit are given its new number."""
    every = [(layer, entry) for layer, entries in enumerate(layers) for entry in entries]
    every.sort(key=lambda found: found[1].at_ms)
    numbers = {(layer, entry.entry): number for number, (layer, entry) in enumerate(every, 1)}
    numbers |= {(layer, 0): 0 for layer in range(len(layers))}  # hits what no other hit
    return [
        replace(
            entry,
            entry=numbers[layer, entry.entry],
            beside=True,
            target=replace(entry.target, entry=numbers[layer, entry.target.entry]),
        )
        for layer, entry in every
    ]


def swarm(seed: int, kinds: Sequence[str]) -> tuple[str, ...]:
    """Draw a subset of kinds, at least two of two or more: runs without some kinds reach states that others do not."""
    draws = Draws(seed, "swarm")
    chosen = {name for name in kinds if draws.below(2)} | set(draws.shuffled(kinds)[:2])
    return tuple(name for name in kinds if name in chosen)


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
            deck = draws.shuffled([*wanted, *([] if size.single_broker else compositions(wanted, size.controllers))])
        card = deck.pop()
        if card in COMPOSED:
            drawn = COMPOSED[card](draws, wanted, partitions)
        elif card in RECIPES:
            drawn = RECIPES[card].draw(draws, draws.below(partitions))
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
            target = entry.target
            if target.entry:
                target = replace(target, entry=before + target.entry)
            placed.append(replace(entry, entry=before + len(placed) + 1, at_ms=start_ms, target=target))
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
