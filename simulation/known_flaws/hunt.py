"""The zoo: who finds each known flaw, how soon, and how small its failure gets.

Three layers are asked separately: the observer in the simulated world, the final logs, the clients' own history. A flaw
that clients can feel must be found in their history by the checkers on Spark too, all failing histories in one job.
The correct build goes through the same seeds as the negative control.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from broker.core.rules.flaws import FLAWS
from broker.core.rules.flaws.flaw import Flaw
from simulation.directed import run as play
from simulation.directed import schedules
from simulation.runs.findings import Finding, Layer
from simulation.runs.judgement import Named, Scheduled
from simulation.runs.pool import Pool
from simulation.runs.sweep import SeedResult, simulate
from simulation.scenario.case import Case
from simulation.scenario.rules import check_flaws
from simulation.shrinking.reduce import Target, failing, reduce

ROUNDS = (20, 100, 300, 1_500)
"""Seeds after which the other flaws have their turn: what is easy to find is found soon, whatever comes first."""

PATIENCE = 25
"""Seeds that a flaw gets after it was found, for the layers that have not found it yet."""

HISTORIES_PER_FLAW = 3
"""Failing seeds of a flaw whose histories go to the checkers."""

OBSERVED = (Layer.CRASH, Layer.INVARIANT, Layer.LIVENESS)
"""Layers that need to look into nodes, or at a clock."""


_FLAWED, _CORRECT = "flawed", "correct"
"""How the ids of a schedule's two runs end, before its number; and how those of correct builds begin."""


class Task(NamedTuple):
    """One seed of one build."""

    seed: int
    overrides: Mapping[str, object]


class Sight(NamedTuple):
    """The first time that a layer has found something."""

    seed: int
    finding: Finding


class Small(NamedTuple):
    """The size of a shrunk failure."""

    faults: int
    sends: int
    transitions: int


@dataclass(frozen=True)
class Hunt:
    """What the hunt for one flaw has shown; `flaw` None is the correct build."""

    flaw: Flaw | None
    seeds: int
    seconds: float
    sights: Mapping[Layer, Sight] = field(default_factory=dict)
    failing: tuple[int, ...] = ()
    anomalies: tuple[str, ...] = ()
    """What the checkers on Spark have found in the failing histories."""
    scheduled: tuple[str, ...] = ()
    """What they have found in the histories of its directed schedules, and not in those of the correct build."""
    small: Small | None = None
    directed: tuple[str, ...] = ()
    """Layers that find it when its schedules are played; the correct build passes them."""
    clients: bool = False
    """Whether the clients of its schedules know that something is wrong."""

    @property
    def first(self) -> Sight | None:
        """What was found with the lowest seed, by any layer."""
        return min(self.sights.values(), key=lambda sight: sight.seed, default=None)

    @property
    def found(self) -> bool:
        """Whether random seeds have found it."""
        return bool(self.sights)

    @property
    def is_over(self) -> bool:
        """Whether observer and history have found something, or patience with the one that has not is at its end."""
        first = self.first
        complete = Layer.HISTORY in self.sights and any(layer in self.sights for layer in OBSERVED)
        return first is not None and (complete or self.seeds >= first.seed + PATIENCE)


def overrides_of(flaw: Flaw | None) -> dict[str, object]:
    """The build with a flaw: of the latest generation in which it changes anything."""
    return {} if flaw is None else {"generation": flaw.generations[-1], "flaws": (flaw.name,)}


def limits(seeds: int) -> Sequence[int]:
    """How far each round goes, the last one up to `seeds`."""
    return (*(limit for limit in ROUNDS if limit < seeds), seeds)


def hunt(pool: Pool[Task, SeedResult], begun: Hunt, limit: int, stopped: Callable[[], bool]) -> Hunt:
    """Go on with a hunt through the seeds from 1 to `limit`, until it is over. The correct build goes through all."""
    began_s = time.monotonic()
    sights = dict(begun.sights)
    failed = list(begun.failing)
    tried = begun.seeds

    def so_far() -> Hunt:
        seconds = begun.seconds + time.monotonic() - began_s
        return replace(begun, seeds=tried, seconds=seconds, sights=dict(sights), failing=tuple(sorted(failed)))

    def tasks() -> Iterator[Task]:
        for seed in range(begun.seeds + 1, limit + 1):
            if stopped() or (begun.flaw is not None and so_far().is_over):
                return
            yield Task(seed, overrides_of(begun.flaw))

    for done in pool.run(tasks()):
        tried += 1
        seed = done.task.seed
        found = done.result.findings if done.result else (Finding(Layer.CRASH, "crash", done.trouble or "died"),)
        if found:
            failed.append(seed)
        for finding in found:
            if finding.layer not in sights or seed < sights[finding.layer].seed:
                sights[finding.layer] = Sight(seed, finding)
    return so_far()


def work(task: Task) -> SeedResult:
    """Simulate one seed of one build, observed."""
    return simulate(task.seed, task.overrides, observed=True)


def shrunk(hunted: Hunt, jobs: int, stopped: Callable[[], bool]) -> Hunt:
    """Add how small the first failure gets, unless that is known already."""
    first = hunted.first
    if first is None or hunted.small is not None:
        return hunted
    outcome, finding = failing(Case(first.seed, overrides_of(hunted.flaw)))
    if finding is None:
        return hunted
    result = reduce(outcome, Target(finding.layer, finding.property_id), jobs, stopped=stopped)
    choice_file = result.choice_file
    return replace(hunted, small=Small(len(choice_file.faults), choice_file.configuration.operations, result.steps))


def histories(hunts: Sequence[Hunt]) -> Iterator[Named | Scheduled]:
    """What the checkers are to judge: failing seeds and schedules, with the flaw and, for comparison, without."""
    played = schedules()
    controls: dict[str, None] = {}
    for hunted in hunts:
        if hunted.flaw is None:
            continue
        name = hunted.flaw.name
        shown = hunted.sights.get(Layer.HISTORY)
        seeds = [*([shown.seed] if shown else []), *hunted.failing]
        for seed in list(dict.fromkeys(seeds))[:HISTORIES_PER_FLAW]:
            yield Named(f"{name}-{seed}", Case(seed, overrides_of(hunted.flaw)))
            control = _control(hunted.flaw, str(seed))
            if control not in controls:
                controls[control] = None
                yield Named(control, Case(seed, {"generation": hunted.flaw.generations[-1]}))
        for number, path in enumerate(played.get(name, ())):
            for kind in (_FLAWED, _CORRECT):
                yield Scheduled(f"{name}-{kind}{number}", path, kind == _FLAWED)


def _control(flaw: Flaw, seed: str) -> str:
    """The run of the same seed and generation without the flaw."""
    return f"{_CORRECT}-{flaw.generations[-1]}-{seed}"


def judged(hunts: Sequence[Hunt], anomalies: Mapping[str, Mapping[str, int]]) -> list[Hunt]:
    """Add what the checkers have found, by run id, and not found where the flaw is missing."""
    in_seeds: dict[str, set[str]] = {}
    in_schedules: dict[str, set[str]] = {}
    for run_id, found in anomalies.items():
        name, _, which = run_id.rpartition("-")
        if which.isdigit() and name in FLAWS:
            correct = anomalies.get(_control(FLAWS[name], which), {})
            in_seeds.setdefault(name, set()).update(set(found) - set(correct))
        elif which.startswith(_FLAWED):
            correct = anomalies.get(run_id.replace(f"-{_FLAWED}", f"-{_CORRECT}"), {})
            in_schedules.setdefault(name, set()).update(set(found) - set(correct))
    return [
        one
        if one.flaw is None
        else replace(
            one,
            anomalies=tuple(sorted(in_seeds.get(one.flaw.name, ()))),
            scheduled=tuple(sorted(in_schedules.get(one.flaw.name, ()))),
        )
        for one in hunts
    ]


class Played(NamedTuple):
    """Which layers find a flaw in its schedules, and whether the clients know."""

    layers: tuple[str, ...]
    clients: bool


def all_played(hunts: Sequence[Hunt], jobs: int) -> list[Hunt]:
    """Add what becomes of the flaws' directed schedules."""
    names = [one.flaw.name for one in hunts if one.flaw is not None]
    with Pool[str, Played](played, jobs) as pool:
        found = {done.task: done.result for done in pool.run(names)}
    told = []
    for one in hunts:
        result = found.get(one.flaw.name) if one.flaw is not None else None
        told.append(one if result is None else replace(one, directed=result.layers, clients=result.clients))
    return told


def played(name: str) -> Played:
    """Play the directed schedules of a flaw; one that the correct build does not pass says nothing."""
    layers: dict[str, None] = {}
    felt = False
    for path in schedules().get(name, ()):
        if not play(path, flawed=False).failed:
            result = play(path, flawed=True)
            layers.update(dict.fromkeys(result.layers))
            felt = felt or result.clients_know
    return Played(tuple(layers), felt)


def chosen(names: Sequence[str]) -> list[Flaw]:
    """Flaws by name, all of them if none is named. Raises ValueError."""
    check_flaws(names)
    return [FLAWS[name] for name in names] if names else list(FLAWS.values())
