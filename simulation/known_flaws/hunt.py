"""Hunts for known flaws: which layer finds each, after how many seeds, and how small its failure gets.

Three layers are recorded separately: the observer, the final logs, the clients' history. A flaw that clients can notice
must be found in their history by the checkers on Spark too, all failing histories in one job. The correct build runs
the same seeds as the negative control.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from broker.core.rules.flaws import FLAWS
from broker.core.rules.flaws.flaw import Flaw
from simulation.directed import play_schedule, schedules
from simulation.engine.choices import SEED_FORMAT
from simulation.runs.checked_histories import Named, Scheduled
from simulation.runs.compiled_copy import Compiled, CopyChoice
from simulation.runs.failures import Layer, SimulationFinding
from simulation.runs.pool import Pool
from simulation.runs.sweep import SeedResult, results, simulate
from simulation.scenario.case import Case
from simulation.scenario.overrides import check_flaws
from simulation.scenario.search import USUAL
from simulation.shrinking.reduce import ShrinkTarget, failing, reduce

ROUNDS = (20, 100, 300, 1_500)
"""Seeds per flaw after each round over all flaws: flaws that are easy to find are found early, whatever their order."""

PATIENCE = 25
"""Further seeds after a flaw was found, for the layers that have not found it yet."""

HISTORIES_PER_FLAW = 3
"""Failing seeds of a flaw whose histories are checked."""

OBSERVED = (Layer.CRASH, Layer.INVARIANT, Layer.LIVENESS)
"""Layers that read the nodes' state or a clock."""


_FLAWED, _CORRECT = "flawed", "correct"
"""The ids of a schedule's two runs end with these and its number; those of correct builds begin with the second."""


class HuntTask(NamedTuple):
    """One seed of one build."""

    seed: int
    overrides: Mapping[str, object]


class FirstFinding(NamedTuple):
    """The first finding of a layer, and its seed."""

    seed: int
    finding: SimulationFinding


class ShrunkSize(NamedTuple):
    """The size of a shrunk failure."""

    faults: int
    sends: int
    transitions: int


@dataclass(frozen=True)
class Hunt:
    """The results of the hunt for one flaw; `flaw` None is the correct build."""

    flaw: Flaw | None
    seeds: int
    seconds: float
    first_findings: Mapping[Layer, FirstFinding] = field(default_factory=dict)
    failing: tuple[int, ...] = ()
    anomalies: tuple[str, ...] = ()
    """The anomalies that the checkers on Spark found in the failing histories."""
    scheduled: tuple[str, ...] = ()
    """Those that they found in the histories of its directed schedules, and not in those of the correct build."""
    small: ShrunkSize | None = None
    directed: tuple[str, ...] = ()
    """Layers that find it when its schedules are played; the correct build passes them."""
    clients: bool = False
    """Whether the clients of its schedules notice that something is wrong."""
    search: str = USUAL
    """Which simulations its seeds are (`simulation.scenario.search`)."""

    @property
    def first(self) -> FirstFinding | None:
        """The finding with the lowest seed, by any layer."""
        return min(self.first_findings.values(), key=lambda first_finding: first_finding.seed, default=None)

    @property
    def found(self) -> bool:
        """Whether random seeds have found it."""
        return bool(self.first_findings)

    @property
    def is_over(self) -> bool:
        """Whether observer and history have found something, or the seeds for the one that has not are used up."""
        first = self.first
        complete = Layer.HISTORY in self.first_findings and any(layer in self.first_findings for layer in OBSERVED)
        return first is not None and (complete or self.seeds >= first.seed + PATIENCE)


def overrides_of(flaw: Flaw | None, search: str = USUAL) -> dict[str, object]:
    """The build with a flaw: of the latest protocol version in which the flaw has an effect."""
    searched: dict[str, object] = {} if search == USUAL else {"search": search}
    return searched if flaw is None else {"generation": flaw.generations[-1], "flaws": (flaw.name,), **searched}


def limits(seeds: int) -> Sequence[int]:
    """The last seed of each round; that of the last round is `seeds`."""
    return (*(limit for limit in ROUNDS if limit < seeds), seeds)


def hunt(
    pool: Pool[HuntTask, SeedResult],
    begun: Hunt,
    limit: int,
    stopped: Callable[[], bool],
    copy: CopyChoice | None = None,
) -> Hunt:
    """Continue a hunt up to the seed `limit`, or until it is over. The correct build runs all seeds.

    The processes of the pool run `copy`, once there is one.
    """
    began_s = time.monotonic()
    first_findings = dict(begun.first_findings)
    failed = list(begun.failing)
    tried = begun.seeds

    def so_far() -> Hunt:
        seconds = begun.seconds + time.monotonic() - began_s
        return replace(
            begun, seeds=tried, seconds=seconds, first_findings=dict(first_findings), failing=tuple(sorted(failed))
        )

    def tasks() -> Iterator[HuntTask]:
        for seed in range(begun.seeds + 1, limit + 1):
            if stopped() or (begun.flaw is not None and so_far().is_over):
                return
            yield HuntTask(seed, overrides_of(begun.flaw, begun.search))

    chosen_copy = copy or CopyChoice(Compiled.NEVER, 0)
    for result in results(pool, tasks(), work, chosen_copy, seed_of=attrgetter("seed")):
        tried += 1
        seed, found = result.seed, result.findings
        if found:
            failed.append(seed)
        for finding in found:
            if finding.layer not in first_findings or seed < first_findings[finding.layer].seed:
                first_findings[finding.layer] = FirstFinding(seed, finding)
    return so_far()


def work(task: HuntTask) -> SeedResult:
    """Simulate one seed of one build, observed. What the correct build fails by in the same seed is no finding."""
    result = simulate(task.seed, task.overrides, observed=True)
    if not result.findings or "flaws" not in task.overrides:
        return result
    without = {key: value for key, value in task.overrides.items() if key != "flaws"}
    correct = simulate(task.seed, without, observed=True)
    known = {(finding.layer, finding.property_id) for finding in correct.findings}
    found = tuple(one for one in result.findings if (one.layer, one.property_id) not in known)
    return result._replace(findings=found)


def shrunk(hunted: Hunt, jobs: int, stopped: Callable[[], bool]) -> Hunt:
    """Add the size of the first failure after shrinking, unless it is known already."""
    first = hunted.first
    if first is None or hunted.small is not None:
        return hunted
    outcome, finding = failing(Case(first.seed, overrides_of(hunted.flaw, hunted.search)))
    if finding is None:
        return hunted
    result = reduce(outcome, ShrinkTarget(finding.layer, finding.property_id), jobs, stopped=stopped)
    choice_file = result.choice_file
    return replace(
        hunted, small=ShrunkSize(len(choice_file.faults), choice_file.configuration.operations, result.steps)
    )


def histories(hunts: Sequence[Hunt]) -> Iterator[Named | Scheduled]:
    """The runs to check: failing seeds and schedules, with the flaw and, for comparison, without it."""
    played = schedules()
    controls: dict[str, None] = {}
    for hunted in hunts:
        if hunted.flaw is None:
            continue
        name = hunted.flaw.name
        shown = hunted.first_findings.get(Layer.HISTORY)
        seeds = [*([shown.seed] if shown else []), *hunted.failing]
        for seed in list(dict.fromkeys(seeds))[:HISTORIES_PER_FLAW]:
            flawed = overrides_of(hunted.flaw, hunted.search)
            yield Named(f"{name}-{seed}", Case(seed, flawed))
            control = _control(hunted.flaw, str(seed))
            if control not in controls:
                controls[control] = None
                yield Named(control, Case(seed, {key: value for key, value in flawed.items() if key != "flaws"}))
        for number, path in enumerate(played.get(name, ())):
            for kind in (_FLAWED, _CORRECT):
                yield Scheduled(f"{name}-{kind}{number}", path, kind == _FLAWED)


def _control(flaw: Flaw, seed: str) -> str:
    """Run id of the same seed and protocol version without the flaw."""
    return f"{_CORRECT}-{flaw.generations[-1]}-{seed}"


def judged(hunts: Sequence[Hunt], anomalies: Mapping[str, Mapping[str, int]]) -> list[Hunt]:
    """Add the checkers' anomalies, given by run id, without those that the runs without the flaw have too."""
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
    """The layers that find a flaw in its schedules, and whether the clients notice it."""

    layers: tuple[str, ...]
    clients: bool


def all_played(hunts: Sequence[Hunt], jobs: int) -> list[Hunt]:
    """Add the results of the flaws' directed schedules."""
    names = [one.flaw.name for one in hunts if one.flaw is not None]
    with Pool[str, Played](played, jobs) as pool:
        found = {done.task: done.result for done in pool.run(names)}
    updated = []
    for one in hunts:
        result = found.get(one.flaw.name) if one.flaw is not None else None
        updated.append(one if result is None else replace(one, directed=result.layers, clients=result.clients))
    return updated


def played(name: str) -> Played:
    """Play the directed schedules of a flaw; ignore those that the correct build does not pass."""
    layers: dict[str, None] = {}
    noticed = False
    for path in schedules().get(name, ()):
        if not play_schedule(path, flawed=False).failed:
            result = play_schedule(path, flawed=True)
            layers.update(dict.fromkeys(result.layers))
            noticed = noticed or result.clients_know
    return Played(tuple(layers), noticed)


def chosen(names: Sequence[str]) -> list[Flaw]:
    """Flaws by name, all of them if none is named. Raises ValueError."""
    check_flaws(names)
    return [FLAWS[name] for name in names] if names else list(FLAWS.values())


CORRECT = "none"
"""The name of the correct build."""


def load_hunts(path: Path, wanted: Sequence[Flaw | None], search: str = USUAL) -> list[Hunt]:
    """The hunts for these builds by a search: those in the file, and new ones. Raises ValueError for another format."""
    known = _known(path)
    return [known.get((_name(flaw), search), Hunt(flaw, 0, 0.0, search=search)) for flaw in wanted]


def save_hunts(path: Path, hunts: Sequence[Hunt]) -> None:
    """Write hunts atomically; those of other builds and searches stay in the file."""
    everything = {**_known(path), **{(_name(one.flaw), one.search): one for one in hunts}}
    data = {"format": SEED_FORMAT, "hunts": [_plain(one) for one in everything.values()]}
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(json.dumps(data, indent=1), encoding="utf-8")
    unfinished.replace(path)


def _known(path: Path) -> Mapping[tuple[str, str], Hunt]:
    if not path.exists():
        return {}
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict) or data.get("format") != SEED_FORMAT:
        raise ValueError(f"{path}: expected hunts of choice format {SEED_FORMAT}: their seeds mean something else now")
    return {(_name(one.flaw), one.search): one for one in map(_hunt, data["hunts"])}


def _name(flaw: Flaw | None) -> str:
    return CORRECT if flaw is None else flaw.name


def _plain(hunted: Hunt) -> dict[str, object]:
    return {
        "flaw": _name(hunted.flaw),
        "search": hunted.search,
        "seeds": hunted.seeds,
        "seconds": round(hunted.seconds, 1),
        "sights": {
            layer.value: [first_finding.seed, first_finding.finding.property_id, first_finding.finding.what]
            for layer, first_finding in hunted.first_findings.items()
        },
        "failing": hunted.failing,
        "small": hunted.small,
        "anomalies": hunted.anomalies,
        "scheduled": hunted.scheduled,
    }


def _hunt(data: Mapping[str, object]) -> Hunt:
    name, first_findings = str(data["flaw"]), data["sights"]
    assert isinstance(first_findings, dict)
    return Hunt(
        None if name == CORRECT else FLAWS[name],
        int(str(data["seeds"])),
        float(str(data["seconds"])),
        {
            Layer(layer): FirstFinding(seed, SimulationFinding(Layer(layer), property_id, what))
            for layer, (seed, property_id, what) in first_findings.items()
        },
        _tuple(data["failing"]),
        _tuple(data.get("anomalies")),
        _tuple(data.get("scheduled")),
        ShrunkSize(*_tuple(data["small"])) if data.get("small") else None,
        search=str(data.get("search", USUAL)),
    )


def _tuple(values: Any) -> tuple[Any, ...]:  # noqa: ANN401
    return tuple(values or ())
