"""Runs sweeps on a Spark cluster: each task simulates some of the seeds."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import simulation
from simulation.runs.failures import Layer, SimulationFinding
from simulation.runs.sweep import SeedResult, simulate

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

SEEDS_PER_TASK = 25
TASKS_PER_CORE = 4
"""Tasks of one job per core of the cluster; results arrive, and the time limit is checked, after each job."""

_SCHEMA = "seed long, result string"


def sweep_on_spark(
    seeds: Iterable[int],
    overrides: Mapping[str, object],
    master: str,
    *,
    observed: bool = True,
    seeds_per_task: int = SEEDS_PER_TASK,
) -> Iterator[SeedResult]:
    """Simulate seeds on the cluster of `master`: `local[2]`, `spark://host:7077`. Its workers need our libraries."""
    from checkers.spark import start_session

    session = start_session(master)
    _ship(session)
    yield from _jobs(session, seeds, overrides, observed, seeds_per_task)


def _jobs(
    session: SparkSession, seeds: Iterable[int], overrides: Mapping[str, object], observed: bool, seeds_per_task: int
) -> Iterator[SeedResult]:
    tasks = TASKS_PER_CORE * max(1, session.sparkContext.defaultParallelism)
    source = iter(seeds)

    def simulated(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas

        for frame in frames:
            rows = [(seed, to_text(simulate_safely(int(seed), overrides, observed))) for seed in frame["seed"]]
            yield pandas.DataFrame(rows, columns=["seed", "result"])

    while some := list(islice(source, tasks * seeds_per_task)):
        frame = session.createDataFrame([(seed,) for seed in some], "seed long")
        partitions = min(tasks, -(-len(some) // seeds_per_task))
        for row in frame.repartition(partitions).mapInPandas(simulated, _SCHEMA).toLocalIterator():
            yield from_text(row["result"])


def simulate_safely(seed: int, overrides: Mapping[str, object], observed: bool) -> SeedResult:
    """Simulate one seed; an exception is a failure of this seed, and does not end the task."""
    try:
        return simulate(seed, overrides, observed)
    except Exception as error:
        finding = SimulationFinding(Layer.CRASH, "crash", f"seed {seed}: {type(error).__name__}: {error}")
        return SeedResult(seed, (finding,), "", 0, 0, {})


def to_text(result: SeedResult) -> str:
    """A result as JSON."""
    return json.dumps([*result[:1], [list(finding) for finding in result.findings], *result[2:]])


def from_text(text: str) -> SeedResult:
    """The inverse of `to_text`."""
    seed, found, *rest = json.loads(text)
    return SeedResult(seed, tuple(_finding(*finding) for finding in found), *rest)


def _finding(layer: str, property_id: str, what: str) -> SimulationFinding:
    return SimulationFinding(Layer(layer), property_id, what)


def _ship(session: SparkSession) -> None:
    """Send Harrow's packages to the workers, whose machines may have only Python and the libraries."""
    if session.sparkContext.master.startswith("local"):
        return
    root = Path(simulation.__file__).parent.parent
    scratch = Path(tempfile.mkdtemp(prefix="harrow-ship-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)  # executors fetch from it whenever they start
    for package in _PACKAGES:
        shutil.copytree(root / package, scratch / "staged" / package, ignore=shutil.ignore_patterns("__pycache__"))
    session.sparkContext.addPyFile(shutil.make_archive(str(scratch / "harrow-packages"), "zip", scratch / "staged"))


_PACKAGES: Sequence[str] = ("broker", "simulation", "history", "common", "nemesis", "workloads")
