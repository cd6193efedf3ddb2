"""Measures the simulator: seeds a minute with and without its observer, on one core and two; memory over many seeds.

    harrow sim --seeds 1:9 --compiled always                   makes the compiled copy, which is measured if it is there
    python -m benchmarks.simulation.seeds                      speed of the standard scenario
    python -m benchmarks.simulation.seeds --memory 100000      memory of a sweep, at intervals
    python -m benchmarks.simulation.seeds --profile            profile by function
    python -m benchmarks.simulation.seeds --versions 40        processor time of 40 seeds in each design, beside K5

The standard scenario: 3 controllers, 3 brokers, 2 partitions with 3 replicas each, 200 sends, 200 polls, 60 virtual
seconds with all kinds of faults, the sole-survivor phase, final reads. The target is 2,000 seeds a minute on 2 cores,
observed. Plain and compiled are measured in turn, so that other load of the machine falls on both.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import time
from collections import Counter
from itertools import count, takewhile

from broker.zookeeper.choices import ZOOKEEPER_GENERATIONS
from simulation.runs.compiled_copy import Compiled, CopyChoice
from simulation.runs.pool import cores
from simulation.runs.sweep import simulate, sweep
from simulation.scenario.configuration import COMMON_FAULTS

STANDARD = {
    "controllers": 3,
    "combined": False,
    "brokers": 3,
    "partitions": 2,
    "replication_factor": 3,
    "producers": 2,
    "readers": 1,
    "operations": 200,
    "polls": 200,
    "duration_ms": 60_000,
    "faults": COMMON_FAULTS,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="length of each measurement")
    parser.add_argument("--memory", type=int, metavar="SEEDS", help="simulate so many seeds and print memory")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--versions", type=int, metavar="SEEDS", help="compare the designs on ZooKeeper with K5")
    arguments = parser.parse_args()
    if arguments.memory:
        memory(arguments.memory)
    elif arguments.versions:
        versions(arguments.versions)
    elif arguments.profile:
        profile()
    else:
        rates(arguments.seconds)


def rates(seconds: float) -> None:
    print(f"standard scenario, {cores()} cores, {seconds:g} s each")
    with CopyChoice(Compiled.AUTO, 0) as copy:
        modes = (Compiled.NEVER,) if copy.imports is None else (Compiled.NEVER, Compiled.AUTO)
    for jobs in sorted({1, min(2, cores())}):
        for observed in (False, True):
            for mode in modes:
                seeds, events, lasted, busy = measured(seconds, jobs, observed, mode)
                print(
                    f"{jobs} process{'es' if jobs > 1 else '  '}, {'observed  ' if observed else 'unobserved'}, "
                    f"{'plain   ' if mode is Compiled.NEVER else 'compiled'}: "
                    f"{seeds / lasted * 60:6,.0f} seeds a minute; {busy / seeds * 1000:5.1f} ms of CPU a seed, "
                    f"{events / seeds:,.0f} events"
                )


def measured(seconds: float, jobs: int, observed: bool, mode: Compiled) -> tuple[int, int, float, float]:
    """Seeds, events, seconds, and seconds of CPU that the processes used."""
    with CopyChoice(mode, 0) as copy:
        return _measured(seconds, jobs, observed, copy)


def _measured(seconds: float, jobs: int, observed: bool, copy: CopyChoice) -> tuple[int, int, float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    results = sweep(takewhile(lambda _: time.monotonic() < end, count(1)), STANDARD, jobs, observed=observed, copy=copy)
    end = time.monotonic() + 3600
    next(results)  # the processes are up
    began = time.monotonic()
    end = began + seconds
    seeds = events = 0
    for result in results:
        seeds += 1
        events += result.events
    lasted = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seeds, events, lasted, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def memory(seeds: int) -> None:
    print(f"largest resident size in MiB, one process, {seeds:,} seeds")
    step = max(1, seeds // 20)
    for seed in range(1, seeds + 1):
        simulate(seed, STANDARD, True)
        if seed % step == 0 or seed == 10:
            print(f"{seed:>8,} seeds  {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:8.1f}", flush=True)


def versions(seeds: int) -> None:
    """Each seed in each version in turn, observed, in this process: other load falls on all of them."""
    spent: Counter[str] = Counter()
    for seed in range(1, seeds + 1):
        for version in ("K5", *ZOOKEEPER_GENERATIONS):
            began = time.process_time()
            simulate(seed, STANDARD | {"generation": version}, True)
            spent[version] += time.process_time() - began
    print(f"standard scenario, {seeds} seeds each, one process, observed, plain")
    for version, busy in spent.items():
        print(f"{version:<6} {busy / seeds * 1000:6.1f} ms of CPU a seed; {busy / spent['K5']:4.2f} of K5")


def profile() -> None:
    simulate(1, STANDARD, True)
    profiler = cProfile.Profile()
    profiler.runcall(lambda: [simulate(seed, STANDARD, True) for seed in range(2, 32)])
    pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    main()
