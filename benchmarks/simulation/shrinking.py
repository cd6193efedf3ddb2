"""Measures how far, and how fast, the shrinker reduces failures whose shortest schedule is known.

    python -m benchmarks.simulation.shrinking                     every flaw of the table, 110 s each at most
    python -m benchmarks.simulation.shrinking --flaw eager-shrink

The shortest schedules were found by a model checker, breadth first, on models of the protocol with the same rule taken
out. The aim is three times that length, in less than two minutes.

Both lengths are numbers of states. A state of the model is what brokers hold (whether they run, as whom they are
registered, log, high watermark, role, epochs, in-sync sets, a leader's state of its followers) and what the
controller has decided about brokers and partitions. Here each event after which that differs counts, from the moment
when the topic exists and its replicas are equal, to the violation; and, as in the model, the sending and the receipt of
each fetch, AlterPartition and registration that led to such an event. `simulation/shrinking/model_steps.py` says it in
full. Stuttering steps do not count: requests that are refused and tried again, heartbeats, empty fetches, elections in
the quorum. Neither do the numbers of the choice sequence, which are reduced too, nor the lines of the trace, of which
there are about twice as many.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping

from broker.core.rules.flaws import FLAWS, Flaw
from simulation.known_flaws.hunt import HuntTask, overrides_of, work
from simulation.runs.failures import Layer
from simulation.runs.pool import Pool, cores
from simulation.runs.sweep import SeedResult
from simulation.scenario.case import Case
from simulation.shrinking.reduce import ShrinkTarget, failing, reduce

SHORTEST: Mapping[str, int] = {
    "B-12": 15,
    "B-19": 15,
    "B-37": 12,
    "B-38": 5,
    "B-39": 12,
    "B-40": 15,
    "B-41": 16,
    "B-49": 6,
    "B-50": 14,
    "B-52": 8,
    "B-53": 4,
    "B-54": 12,
    "B-56": 14,
    "B-58": 12,
    "B-59": 11,
    "B-64": 18,
    "B-66": 10,
}
"""States on the way to the shortest violation, the first one included, by the flaw's number."""

LIMIT_S = 110


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flaw", action="append", help="only this one")
    parser.add_argument("--seeds", type=int, default=100, help="so many seeds are tried for a first failure")
    arguments = parser.parse_args()
    print(f"{'flaw':<34}{'seed':>6}{'faults':>8}{'sends':>7}{'states':>7}{'known':>7}{'ratio':>7}{'seconds':>9}")
    with Pool[HuntTask, SeedResult](work, cores()) as pool:
        for flaw in FLAWS.values():
            if flaw.number in SHORTEST and (not arguments.flaw or flaw.name in arguments.flaw):
                print(measured(pool, flaw, arguments.seeds), flush=True)


def measured(pool: Pool[HuntTask, SeedResult], flaw: Flaw, seeds: int) -> str:
    """A line of the table: the first failure that the observer sees, shrunk."""
    seed = first_failure(pool, flaw, seeds)
    name = f"{flaw.number} {flaw.name}"
    if seed is None:
        return f"{name:<34}  not found in {seeds} seeds"
    outcome, finding = failing(Case(seed, overrides_of(flaw)))
    assert finding is not None
    began = time.monotonic()
    small = reduce(
        outcome,
        ShrinkTarget(finding.layer, finding.property_id),
        cores(),
        stopped=lambda: time.monotonic() - began > LIMIT_S,
    )
    seconds = time.monotonic() - began
    states, known = small.steps + 1, SHORTEST[flaw.number]
    sends = small.choice_file.configuration.operations
    return (
        f"{name:<34}{seed:>6}{len(small.choice_file.faults):>8}{sends:>7}{states:>7}{known:>7}"
        f"{states / known:>7.1f}{seconds:>9.0f}"
    )


def first_failure(pool: Pool[HuntTask, SeedResult], flaw: Flaw, seeds: int) -> int | None:
    """The lowest of the first few seeds in which the observer saw a property broken."""
    found: list[int] = []
    tasks = (HuntTask(seed, overrides_of(flaw)) for seed in range(1, seeds + 1) if not found)
    for done in pool.run(tasks):
        if done.result and any(one.layer is Layer.INVARIANT for one in done.result.findings[:1]):
            found.append(done.task.seed)
    return min(found, default=None)


if __name__ == "__main__":
    main()
