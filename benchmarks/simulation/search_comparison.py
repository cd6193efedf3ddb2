"""Compares searches: each gets the same processor time for each flaw, again and again from other seeds.

    python -m benchmarks.simulation.search_comparison                     the flaws that few seeds find; an hour
    python -m benchmarks.simulation.search_comparison --flaws late-cut,check-then-build --seconds 20
    python -m benchmarks.simulation.search_comparison --strategies usual,usual:fault_interval_ms=1000,focused
    python -m benchmarks.simulation.search_comparison --flaws none --mutants 'log/log:Log.flush:forgotten-write:5f3a1c'
    python -m benchmarks.simulation.search_comparison --repetitions 0 --page docs/reference/search.md

A strategy is a search (`simulation.scenario.search`), perhaps with settings in place of what it draws. A *trial* is one
strategy on one broken build: it simulates seed after seed until one fails, or until the processor time of its process
is used up. Starting seeds differ between repetitions, and are equal for all strategies. A failing seed is simulated
again on the correct build by itself, with the same faults: if that fails in the same way it is no hit, and is listed
as a defect. A hit is stored as a choice file, and its replay must have the same hash. Neither counts as time.

Trials are appended to `--results` as they come; an interrupted command continues. Exit status: 0, 1 if a correct build
failed or a replay differed, 2 for a wrong command, 3 if it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from benchmarks.simulation.mutants.making import Mutant, all_mutants
from benchmarks.simulation.mutants.planting import function_of, plant
from benchmarks.simulation.search_table import Trial, load, page
from broker.core.rules.flaws import FLAWS
from simulation.invariants.observer import property_observers
from simulation.invariants.properties import is_documented
from simulation.known_flaws.hunt import overrides_of
from simulation.runs.failures import SimulationFinding, findings
from simulation.runs.stored import choice_file_of
from simulation.scenario.case import Case, run
from simulation.scenario.overrides import check_flaws, check_overrides, parse_overrides
from simulation.scenario.phases import SimulationOutcome
from simulation.scenario.search import SEARCHES

DEFAULT_FLAWS = (
    "join-below-epoch-start",
    "epochless-divergence-answer",
    "removed-stays-eligible",
    "exact-recovery-quorum",
    "join-below-high-watermark",
    "no-start-inside-batch",
    "rollback-on-any-error",
    "compare-only-with-new-leader",
    "complete-replicas-given-up",
    "rebooted-joins-isr",
    "partition-epoch-unchecked",
    "check-then-build",
)
"""Found by random seeds after dozens or hundreds of runs, or not yet."""

SEEDS_APART = 1_000_000
"""Between the first seeds of two repetitions."""

SEED_S_MAX = 30.0
"""Of processor time for one seed, which takes some tenths of a second: a broken build may go on for ever."""


class TrialTask(NamedTuple):
    """What one process does. `mutant` is the id of a mutant, and `flaw` is then empty."""

    flaw: str
    mutant: str
    strategy: str
    repetition: int
    seconds: float
    hits: Path | None

    @property
    def key(self) -> tuple[str, str, int, float]:
        """What makes two trials the same."""
        return self.flaw or self.mutant, self.strategy, self.repetition, self.seconds


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.simulation.search_comparison",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--flaws", default=",".join(DEFAULT_FLAWS), metavar="NAMES", help="with commas; none: no flaws")
    parser.add_argument("--mutants", action="append", default=[], metavar="ID", help="of benchmarks.simulation.mutants")
    parser.add_argument("--strategies", default=",".join(SEARCHES), metavar="NAMES", help="NAME[:KEY=VALUE]…, commas")
    parser.add_argument("--seconds", type=float, default=20.0, help="processor time of a trial")
    parser.add_argument("--repetitions", type=int, default=3, metavar="N", help="trials of each strategy on each build")
    parser.add_argument("--results", type=Path, default=Path("store/search.jsonl"), metavar="FILE")
    parser.add_argument("--hits", type=Path, metavar="DIR", help="write the choice files of hits here")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table into this page, between its marks")
    options = parser.parse_args(arguments)
    flaws = [] if options.flaws == "none" else options.flaws.split(",")
    strategies = options.strategies.split(",")
    try:
        check_flaws(flaws)
        check_mutants(options.mutants)
        for strategy in strategies:
            check_overrides(settings_of(strategy))
    except ValueError as error:
        parser.error(str(error))
    options.results.parent.mkdir(parents=True, exist_ok=True)
    if options.hits is not None:
        options.hits.mkdir(parents=True, exist_ok=True)
    builds = [*((flaw, "") for flaw in flaws), *(("", mutant) for mutant in options.mutants)]
    tasks = [
        TrialTask(*build, strategy, repetition, options.seconds, options.hits)
        for repetition in range(options.repetitions)
        for build in builds
        for strategy in strategies
    ]
    trials = load(options.results)
    try:
        for trial in tried([task for task in tasks if task.key not in {one.key for one in trials}]):
            trials.append(trial)
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(trial._asdict()) + "\n")
            print(trial, flush=True)
    except KeyboardInterrupt:
        print(f"interrupted; what has been tried is in {options.results}", file=sys.stderr)
        return 3
    text = page(trials)
    if options.page is not None:
        write(options.page, text)
    print(text)
    return 1 if any(one.defects or one.differs for one in trials) else 0


def check_mutants(ids: Sequence[str]) -> None:
    """Check that mutants have these ids. Raises ValueError."""
    known = mutants_by_id() if ids else {}
    for mutant_id in ids:
        if mutant_id not in known:
            raise ValueError(f"expected the id of a mutant (benchmarks.simulation.mutants --list), found {mutant_id!r}")


def settings_of(strategy: str) -> dict[str, object]:
    """The overrides of a strategy: `focused`, `usual:fault_interval_ms=1000:brokers=4`. Raises ValueError."""
    name, *settings = strategy.split(":")
    return {**parse_overrides(settings), "search": name}


def tried(tasks: Sequence[TrialTask]) -> Iterator[Trial]:
    """Each trial in a process of its own, one after the other: a mutant stays in its process."""
    for task in tasks:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            try:
                yield pool.submit(trial, task).result()
            except BrokenProcessPool:
                yield Trial(*task.key, False, task.seconds, 0, trouble="its process died")


def trial(task: TrialTask) -> Trial:
    """Simulate seeds until one fails, or the time is over."""
    planted = _Planted(task.mutant) if task.mutant else None
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    overrides = {**(overrides_of(FLAWS[task.flaw]) if task.flaw else {}), **settings_of(task.strategy)}
    result = Trial(*task.key, False, 0.0, 0)
    for seed in range(1 + task.repetition * SEEDS_APART, (task.repetition + 1) * SEEDS_APART):
        signal.setitimer(signal.ITIMER_PROF, SEED_S_MAX)
        began_s = time.process_time()
        outcome = run(Case(seed, overrides), property_observers())
        found = [one for one in findings(outcome) if not is_documented(one.what)]
        spent_s = time.process_time() - began_s
        signal.setitimer(signal.ITIMER_PROF, 0)
        result = result._replace(spent_s=round(result.spent_s + spent_s, 2), runs=result.runs + 1)
        if found:
            with planted.taken_out() if planted is not None else nullcontext():
                excused = _fails_without(seed, overrides, outcome, found[0])
            if excused:
                result = result._replace(defects=(*result.defects, seed))
            else:
                differs = not _replayed(outcome, found, task)
                return result._replace(hit=True, seed=seed, property_id=found[0].property_id, differs=differs)
        if result.spent_s >= task.seconds:
            break
    return result


def _fails_without(
    seed: int, overrides: Mapping[str, object], outcome: SimulationOutcome, finding: SimulationFinding
) -> bool:
    """Whether the correct build breaks the same property under the same faults."""
    correct = {key: value for key, value in overrides.items() if key != "flaws"}
    known = findings(run(Case(seed, correct, faults=tuple(outcome.faults)), property_observers()))
    return any(one.property_id == finding.property_id for one in known)


def _replayed(outcome: SimulationOutcome, found: Sequence[SimulationFinding], task: TrialTask) -> bool:
    """Whether the choice file of a hit has the same hash; store it."""
    choice_file = choice_file_of(outcome, found)
    if task.hits is not None:
        name = f"{task.flaw or task.mutant.rpartition(':')[2]}-{task.strategy.partition(':')[0]}-{outcome.seed}.json"
        (task.hits / name).write_text(choice_file.dumps(), encoding="utf-8")
    again = run(choice_file.case(), property_observers())
    return again.digest == outcome.digest


class _Planted:
    """A mutant in this process."""

    def __init__(self, mutant_id: str) -> None:
        mutant = mutants_by_id()[mutant_id]
        self._function = function_of(mutant)
        self._original = self._function.__code__
        plant(mutant)

    @contextmanager
    def taken_out(self) -> Iterator[None]:
        """Put the original back meanwhile."""
        mutated, self._function.__code__ = self._function.__code__, self._original
        try:
            yield
        finally:
            self._function.__code__ = mutated


def mutants_by_id() -> Mapping[str, Mutant]:
    """All mutants of `benchmarks.simulation.mutants`."""
    return {one.id: one for one in all_mutants()}


BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def write(path: Path, text: str) -> None:
    """Replace the table of a page, between two marks. Raises ValueError if the page has no such marks."""
    whole = path.read_text(encoding="utf-8")
    if BEGIN not in whole or END not in whole:
        raise ValueError(f"{path}: expected the marks {BEGIN} and {END}")
    before, _, rest = whole.partition(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
