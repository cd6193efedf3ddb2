"""Hunts mutants: probes all seeds, then asks the simulator, then the tests; skips what is in the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from benchmarks.simulation.mutants.making import Mutant
from benchmarks.simulation.mutants.results import Results
from benchmarks.simulation.mutants.simulating import HuntResult, HuntTask, ProbedSeed, ProbeTask, hunt, probe
from benchmarks.simulation.mutants.testing import ShownMutant, show
from simulation.runs.pool import Pool

_PROBING_S_MAX = 900.0
_HUNT_S_MAX = 7_200.0
"""A mutant's process limits each seed by itself, by processor time; this is for a machine that does nothing else."""


def probe_seeds(results: Results, jobs: int, tell: Callable[[str], None]) -> None:
    """Simulate every seed of the budget with probes. Raises RuntimeError if one cannot be."""
    missing = [ProbeTask(seed, results.search) for seed in results.seeds if seed not in results.probed]
    if not missing:
        return
    with Pool[ProbeTask, ProbedSeed](probe, jobs, _PROBING_S_MAX) as pool:
        for done in pool.run(missing):
            if done.result is None:
                raise RuntimeError(f"seed {done.task.seed} of the correct broker: {done.trouble}")
            results.add(done.result)
            tell(f"probed {len(results.probed)}/{len(results.seeds)} seeds: seed {done.task.seed}")


def acting_in(results: Results, mutants: Sequence[Mutant]) -> dict[str, list[int]]:
    """The seeds in which each mutant acts differently, by its id; mutants that never do are left out."""
    found: dict[str, list[int]] = {}
    for seed in results.seeds:
        for number in results.probed[seed].acted:
            found.setdefault(mutants[number].id, []).append(seed)
    return found


def reached(results: Results, mutants: Sequence[Mutant]) -> set[str]:
    """Ids of the mutants whose changed part was carried out in some seed."""
    return {mutants[number].id for probed in results.probed.values() for number in probed.reached}


def hunt_in_simulator(
    results: Results,
    chosen: Sequence[Mutant],
    acting: Mapping[str, Sequence[int]],
    jobs: int,
    tell: Callable[[str], None],
) -> None:
    """Hunt each of the chosen mutants in the seeds in which it acts differently."""

    def tasks() -> Iterator[HuntTask]:
        for mutant in chosen:
            if mutant.id not in results.hunted:
                probed = [results.probed[seed] for seed in acting.get(mutant.id, ())]
                known = {one.seed: one.findings for one in probed}
                yield HuntTask(mutant, known, results.search, {one.seed: one.digest for one in probed})

    with Pool[HuntTask, HuntResult](hunt, jobs, _HUNT_S_MAX) as pool:
        for done in pool.run(tasks()):
            if done.result is None:
                raise RuntimeError(f"{done.task.mutant.id}: {done.trouble}")
            results.add(done.result)
            tell(f"simulated {_told(done.result)}")


def _told(result: HuntResult) -> str:
    if not result.how:
        return f"{result.mutant}: NOT FOUND in {result.seeds} seeds, {result.other_courses} of them of another course"
    return f"{result.mutant}: {result.property_id or result.how} at seed {result.seed}, the {result.seeds}. tried"


def show_to_tests(results: Results, chosen: Sequence[Mutant], jobs: int, tell: Callable[[str], None]) -> None:
    """Show those that the simulator has missed to the tests. Raises FailingTests."""
    missed = [one for one in chosen if one.id in results.hunted and not results.hunted[one.id].how]
    missing = [one for one in missed if one.id not in results.tested]

    def told(result: ShownMutant) -> None:
        results.add(result)
        tell(f"tested {result.mutant}: {result.test or 'NOT NOTICED'} {result.how}".rstrip())

    if missing:
        show(missing, jobs, told)
