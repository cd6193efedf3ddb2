"""Runs the integration tests of kafka-python and aiokafka against a cluster that runs.

pytest runs as a process of its own, where the suite's sources lie, with a plugin that writes each outcome at once. If a
test takes too long, or ends the process, the process is started again for the tests that are left.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker.suites_of_others.results import Outcome, Status
from benchmarks.broker.suites_of_others.sources import KAFKA_VERSIONS, SuiteFailedError

PLUGINS = Path(__file__).with_name("plugins")
COLLECTION_S_MAX = 120.0
_LOOKS_EVERY_S = 0.1


@dataclass(frozen=True)
class PytestSuite:
    """What one suite needs."""

    tests: str  # folder in the sources
    needs: str  # fixture of every test that needs a broker
    options: tuple[str, ...]
    environment: Callable[[list[str], Path, Path], dict[str, str]]  # of brokers, sources and logs


def _for_kafka_python(brokers: list[str], sources: Path, logs: Path) -> dict[str, str]:  # noqa: ARG001
    nothing = logs / "no-kafka"
    nothing.mkdir(exist_ok=True)
    return {
        "KAFKA_VERSION": KAFKA_VERSIONS["kafka-python"],
        "KAFKA_URI": f"kafka://{brokers[0]}",
        "KAFKA_ROOT": str(nothing),  # the suite wants one, though it need not start Kafka
    }


def _for_aiokafka(brokers: list[str], sources: Path, logs: Path) -> dict[str, str]:  # noqa: ARG001
    compiled = any((sources / "aiokafka").rglob("*.so"))
    return {"HARROW_BROKERS": ",".join(brokers)} | ({} if compiled else {"AIOKAFKA_NO_EXTENSIONS": "1"})


PYTEST_SUITES = {
    "kafka-python": PytestSuite("test/integration", "", (), _for_kafka_python),
    "aiokafka": PytestSuite(
        "tests",
        "kafka_server",
        # The suite reads the broker's version out of the name of an image.
        ("-p", "aiokafka_plugin", "--docker-image", f"harrow:{KAFKA_VERSIONS['aiokafka']}", "--no-pull"),
        _for_aiokafka,
    ),
}


def run_pytest_suite(
    suite: PytestSuite, sources: Path, brokers: list[str], tests: str, python: str, logs: Path, limit_s: float
) -> list[Outcome]:
    """Run a suite's tests, at most `limit_s` seconds each; `tests` selects as pytest's `-k` does, empty: all.

    Raises if pytest collects no test.
    """
    sources, logs = sources.resolve(), logs.resolve()
    if not (sources / suite.tests).is_dir():
        raise SuiteFailedError(f"expected the suite's tests in {sources / suite.tests}, found no such folder")
    written = logs / "outcomes.jsonl"
    for left in (written, logs / "pytest.txt"):
        left.unlink(missing_ok=True)
    plain = ("-p", "recording_plugin", "-p", "no:cacheprovider", "-p", "no:randomly", "-o", "addopts=", "-rA")
    command = [python, "-m", "pytest", *plain, *suite.options, *(("-k", tests) if tests else ()), suite.tests]
    environment = {
        **os.environ,
        "PYTHONPATH": str(PLUGINS),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HARROW_OUTCOMES": str(written),
        "HARROW_NEEDS": suite.needs,
        **suite.environment(brokers, sources, logs),
    }
    forced: dict[str, Outcome] = {}
    while True:
        before = _lines(written)
        status = _run(command, environment, sources, logs / "pytest.txt", written, limit_s)
        lines = _lines(written)
        hanging = {line["started"] for line in lines if "started" in line}
        hanging -= {line["ended"] for line in lines if "ended" in line} | forced.keys()
        reason = f"not done within {limit_s:.0f} s" if status is None else f"the process ended with status {status}"
        forced |= {test: Outcome(test, Status.FAILED, limit_s if status is None else 0.0, reason) for test in hanging}
        if not hanging:
            break
        if len(lines) == len(before):
            raise SuiteFailedError(f"expected pytest to go on after {sorted(hanging)}, found no test: see {logs}")
    outcomes = [*_ended(lines), *forced.values()]
    done = {outcome.test for outcome in outcomes}
    collected = [test for line in lines if "collected" in line for test in line["collected"]]
    outcomes += [Outcome(test, Status.FAILED, 0.0, "not run") for test in dict.fromkeys(collected) if test not in done]
    if not outcomes:
        raise SuiteFailedError(f"expected tests in {sources / suite.tests}, found none: see {logs}/pytest.txt")
    return outcomes


def _run(
    command: list[str], environment: dict[str, str], sources: Path, log: Path, written: Path, limit_s: float
) -> int | None:
    """Run pytest until it ends: its exit status, or none if a test took too long and pytest was killed."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, cwd=sources, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, process_group=0
        )
        try:
            size, since_s, limit_now_s = _size(written), time.monotonic(), COLLECTION_S_MAX
            while process.poll() is None:
                time.sleep(_LOOKS_EVERY_S)
                if _size(written) != size:
                    size, since_s, limit_now_s = _size(written), time.monotonic(), limit_s
                if time.monotonic() - since_s > limit_now_s:
                    return None
            return process.returncode
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _ended(lines: Iterable[dict]) -> list[Outcome]:
    done = [
        Outcome(line["ended"], Status(line["status"]), line["seconds"], line["text"])
        for line in lines
        if "ended" in line
    ]
    broken = {line["broken"]: line["text"] for line in lines if "broken" in line}
    return done + [Outcome(test, Status.FAILED, 0.0, text) for test, text in broken.items()]


def _size(written: Path) -> int:
    return written.stat().st_size if written.exists() else 0


def _lines(written: Path) -> list[dict]:
    return [json.loads(line) for line in written.read_text().splitlines()] if written.exists() else []
