"""Simulates many seeds of each protocol version on the same processes: failures, speed, memory.

    python -m benchmarks.simulation.protocol_versions                                 20,000 seeds of each, K1 to K5
    python -m benchmarks.simulation.protocol_versions --seeds 1:2000 --generation K5  fewer

No seed of K5 may fail, and of the others only by a documented flaw of their protocol version. Any other failure is
printed at once, with its seed. Memory is the largest resident size of any process so far, in MiB: it must stop growing
after the first hundreds of seeds. The compiled copy is used if there is one (`harrow sim --compiled`).
"""

from __future__ import annotations

import argparse
import resource
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from simulation.invariants.properties import is_documented
from simulation.runs.compiled_copy import Compiled, CopyChoice
from simulation.runs.pool import Pool, cores
from simulation.runs.sweep import SeedResult, simulate

GENERATIONS = ("K5", "K4", "K3", "K2", "K1")

TASK_S_MAX = 900.0
"""Longer than a pool's usual limit, so that a sweep can be suspended and resumed."""


class Task(NamedTuple):
    """One seed of one protocol version."""

    generation: str
    seed: int


class Measured(NamedTuple):
    """A seed's result, and the largest resident size of its process so far, in KiB."""

    result: SeedResult
    resident_kib: int


def work(task: Task) -> Measured:
    """Simulate a seed, observed."""
    result = simulate(task.seed, {"generation": task.generation}, True)
    return Measured(result, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def tasks(generations: Sequence[str], seeds: range) -> Iterator[Task]:
    """All tasks, one protocol version after the other."""
    return (Task(generation, seed) for generation in generations for seed in seeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1:20001", metavar="A:B", help="from A to B, without B")
    parser.add_argument("--generation", action="append", choices=GENERATIONS, help="only this one")
    parser.add_argument("--every", type=int, default=1000, metavar="N", help="print counts every N seeds")
    parser.add_argument("--jobs", type=int, default=cores(), metavar="N", help="processes")
    arguments = parser.parse_args()
    low, high = arguments.seeds.split(":")
    began = time.monotonic()
    count: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    documented: Counter[tuple[str, str]] = Counter()
    resident_kib = 0
    with (
        CopyChoice(Compiled.AUTO, 0) as copy,
        Pool[Task, Measured](work, arguments.jobs, TASK_S_MAX, imports=copy.imports) as pool,
    ):
        for done in pool.run(tasks(arguments.generation or GENERATIONS, range(int(low), int(high)))):
            generation, seed = done.task
            count[generation] += 1
            if done.result is None:
                failed[generation] += 1
                print(f"FAILED {generation} seed {seed}: {done.trouble}", flush=True)
            else:
                resident_kib = max(resident_kib, done.result.resident_kib)
                for finding in done.result.result.findings[:1]:
                    if is_documented(finding.what):
                        documented[generation, finding.property_id] += 1
                    else:
                        failed[generation] += 1
                        print(f"FAILED {generation} seed {seed}: {finding}", flush=True)
            if sum(count.values()) % arguments.every == 0:
                print(
                    f"{generation} {count[generation]:>7,} seeds, {failed[generation]} failed; "
                    f"{sum(count.values()) / (time.monotonic() - began) * 60:,.0f} a minute; "
                    f"{resident_kib / 1024:.1f} MiB",
                    flush=True,
                )
    for generation, seeds in count.items():
        known = ", ".join(f"{id_} {times}" for (of, id_), times in sorted(documented.items()) if of == generation)
        print(f"{generation}: {seeds:,} seeds, {failed[generation]} failed, documented flaws: {known or 'none'}")


if __name__ == "__main__":
    main()
