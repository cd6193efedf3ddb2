"""Sweeps on Spark: the same results as on processes, on threads of this one and on a cluster of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from simulation.runs.failures import Layer, SimulationFinding
from simulation.runs.spark_sweep import from_text, simulate_safely, to_text
from simulation.runs.sweep import SeedResult, simulate
from tests.simulation.small import LIES
from tests.support.spark_cluster import standalone

ROOT = Path(harness.__file__).parent.parent

SWEEP = """
import sys
from simulation.runs.spark_sweep import sweep_on_spark, to_text
for result in sweep_on_spark(range(1, 9), {overrides!r}, sys.argv[1], seeds_per_task=2):
    print(to_text(result))
"""


def swept(master: str) -> list[SeedResult]:
    """A sweep in a process of its own: a session belongs to one master."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SWEEP.format(overrides=LIES), master],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return sorted(from_text(line) for line in done.stdout.splitlines())


def expected() -> list[SeedResult]:
    return [simulate(seed, LIES, observed=True) for seed in range(1, 9)]


def test_results_survive_the_way_as_text() -> None:
    result = SeedResult(7, (SimulationFinding(Layer.LOGS, "divergent-replicas", "p0 at 3"),), "ab", 3, 4, {"mark": 5})
    assert from_text(to_text(result)) == result


def test_what_a_seed_raises_is_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.runs.spark_sweep.simulate", lambda *_: 1 // 0)
    (finding,) = simulate_safely(7, {}, True).findings
    assert finding == SimulationFinding(
        Layer.CRASH, "crash", "seed 7: ZeroDivisionError: integer division or modulo by zero"
    )


@pytest.mark.spark
@pytest.mark.slow
def test_a_sweep_on_local_threads_is_the_same_as_on_processes() -> None:
    assert swept("local[2]") == expected()


@pytest.mark.spark
@pytest.mark.slow
def test_a_sweep_on_a_cluster_is_the_same_as_on_processes(tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        assert swept(master) == expected()
