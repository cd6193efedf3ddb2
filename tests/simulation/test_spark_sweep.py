"""Sweeps on Spark: the same results as on processes, on threads of this one and on a cluster of its own."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

import harness
from checkers.spark import find_java
from harness.simulation.findings import Finding, Layer
from harness.simulation.spark import from_text, simulate_safely, to_text
from harness.simulation.sweep import SeedResult, simulate
from tests.simulation.small import LIES

ROOT = Path(harness.__file__).parent.parent
READY_S = 90.0

SWEEP = """
import sys
from harness.simulation.spark import sweep_on_spark, to_text
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
    result = SeedResult(7, (Finding(Layer.LOGS, "divergent-replicas", "p0 at 3"),), "ab", 3, 4, {"mark": 5})
    assert from_text(to_text(result)) == result


def test_what_a_seed_raises_is_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.simulation.spark.simulate", lambda *_: 1 // 0)
    (finding,) = simulate_safely(7, {}, True).findings
    assert finding == Finding(Layer.CRASH, "crash", "seed 7: ZeroDivisionError: integer division or modulo by zero")


@pytest.mark.spark
def test_a_sweep_on_local_threads_is_the_same_as_on_processes() -> None:
    assert swept("local[2]") == expected()


@pytest.mark.spark
@pytest.mark.slow
def test_a_sweep_on_a_cluster_is_the_same_as_on_processes(tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        assert swept(master) == expected()


@contextmanager
def standalone(scratch: Path) -> Iterator[str]:
    """A master and two workers of this machine; the master's URL."""
    port = free_port()
    common = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = f"spark://127.0.0.1:{port}"
    with (
        started(scratch / "master", "master.Master", [*common, "--port", str(port)]) as log,
        started(scratch / "one", "worker.Worker", [*common, "--cores", "1", "--memory", "1g", master]),
        started(scratch / "two", "worker.Worker", [*common, "--cores", "1", "--memory", "1g", master]),
    ):
        deadline = time.monotonic() + READY_S
        while len(re.findall("Registering worker", log.read_text())) < 2:
            assert time.monotonic() < deadline, log.read_text()[-2_000:]
            time.sleep(0.2)
        yield master


@contextmanager
def started(directory: Path, name: str, arguments: list[str]) -> Iterator[Path]:
    """A daemon of Spark, and the file that it logs to."""
    directory.mkdir()
    log = directory / "log"
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    java = find_java().home / "bin" / "java"
    command = [
        str(java),
        "-cp",
        str(jars),
        "-Xmx256m",
        "-Dspark.master.rest.enabled=false",
        f"org.apache.spark.deploy.{name}",
        *arguments,
    ]
    if name.startswith("worker"):
        command[-1:-1] = ["--work-dir", str(directory)]
    environment = {**os.environ, "SPARK_HOME": str(Path(pyspark.__file__).parent), "JAVA_HOME": str(find_java().home)}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": "2.13"}  # as its own scripts would find out
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
    try:
        yield log
    finally:
        process.terminate()
        process.wait(timeout=30)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
