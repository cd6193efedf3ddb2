"""Runs sweeps: simulates many seeds on all cores. Memory does not grow with the number of seeds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

from simulation.invariants.observer import property_observers
from simulation.invariants.properties import is_documented
from simulation.runs.compiled_copy import Compiled, CopyChoice
from simulation.runs.compiling import is_compiled
from simulation.runs.failures import Layer, SimulationFinding, findings
from simulation.runs.pool import Pool
from simulation.scenario import case as cases
from simulation.scenario.case import Case

Task = TypeVar("Task")

FIRST_FAILURES = 10
"""Failures that a sweep remembers in full."""


class SeedResult(NamedTuple):
    """The result of one seed."""

    seed: int
    findings: tuple[SimulationFinding, ...]
    digest: str
    events: int
    virtual_ms: int
    marks: Mapping[str, int]
    compiled: bool = False
    """Whether a compiled copy simulated it."""


def simulate(seed: int, overrides: Mapping[str, object], observed: bool) -> SeedResult:
    """Simulate one seed and collect its findings."""
    outcome = cases.run(Case(seed, overrides), property_observers() if observed else (), to_the_end=True)
    return SeedResult(
        seed,
        tuple(findings(outcome)),
        outcome.digest,
        outcome.events,
        outcome.virtual_ms,
        dict(outcome.marks),
        is_compiled(),
    )


@dataclass
class Tally:
    """The totals of a sweep so far."""

    seeds: int = 0
    compiled: int = 0
    """Seeds that a compiled copy simulated."""
    failed: int = 0
    documented: int = 0
    """Failed seeds whose first finding is a documented flaw of their protocol version."""
    events: int = 0
    virtual_ms: int = 0
    by_property: Counter[tuple[Layer, str]] = field(default_factory=Counter)
    """Seeds by the layer and property of their first finding."""
    marks: Counter[str] = field(default_factory=Counter)
    failures: list[SeedResult] = field(default_factory=list)
    """The failures of the lowest seeds."""

    def add(self, result: SeedResult) -> None:
        """Count a seed."""
        self.seeds += 1
        self.compiled += result.compiled
        self.events += result.events
        self.virtual_ms += result.virtual_ms
        self.marks.update(result.marks)
        if result.findings:
            self.failed += 1
            self.documented += is_documented(result.findings[0].what)
            self.by_property[result.findings[0].layer, result.findings[0].property_id] += 1
            self.failures.append(result)
            self.failures.sort()
            del self.failures[FIRST_FAILURES:]


def sweep(
    seeds: Iterable[int],
    overrides: Mapping[str, object],
    jobs: int,
    *,
    observed: bool = True,
    copy: CopyChoice | None = None,
) -> Iterator[SeedResult]:
    """Simulate seeds on `jobs` processes, which run `copy` once there is one; results come as they are ready."""
    chosen = copy or CopyChoice(Compiled.NEVER, 0)
    work = partial(simulate, overrides=overrides, observed=observed)
    with Pool[int, SeedResult](work, jobs, imports=chosen.imports) as pool:
        yield from results(pool, seeds, work, chosen, seed_of=int)


def results(
    pool: Pool[Task, SeedResult],
    tasks: Iterable[Task],
    work: Callable[[Task], SeedResult],
    copy: CopyChoice,
    *,
    seed_of: Callable[[Task], int],
) -> Iterator[SeedResult]:
    """Do the `work` of each task in the pool. A process that dies is the failure of its task's seed.

    What fails in the compiled copy without a result is simulated again plain; if that ends otherwise, the copy is
    rejected.
    """
    for done in pool.run(tasks):
        result = done.result or _troubled(seed_of(done.task), done.trouble or "no result")
        if done.result is None and copy.imports is not None:
            result = _again(work, done.task, seed_of)
            if result.digest:
                copy.reject(f"seed {result.seed} failed in the compiled copy only: {done.trouble}")
                pool.import_from(None)
        yield result
        if copy.seen():
            pool.import_from(copy.imports)


def _again(work: Callable[[Task], SeedResult], task: Task, seed_of: Callable[[Task], int]) -> SeedResult:
    """Simulate a seed in a plain process of its own."""
    with Pool[Task, SeedResult](work, 1) as pool:
        (done,) = pool.run([task])
    return done.result or _troubled(seed_of(task), done.trouble or "no result")


def until(seeds: Iterable[int], deadline_s: float | None, stopped: Callable[[], bool]) -> Iterator[int]:
    """Seeds up to the deadline (by `time.monotonic`), or until `stopped`."""
    for seed in seeds:
        if stopped() or (deadline_s is not None and time.monotonic() >= deadline_s):
            return
        yield seed


def _troubled(seed: int, trouble: str) -> SeedResult:
    finding = SimulationFinding(Layer.CRASH, "crash", f"seed {seed}: {trouble}")
    return SeedResult(seed, (finding,), "", 0, 0, {})
