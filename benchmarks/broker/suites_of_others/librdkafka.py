"""Runs librdkafka's own tests, as a built `tests/test-runner` has them, against a cluster that runs.

The runner gets a number and runs all tests of that number, which is what makes a time limit for each possible. It works
in a folder of links to the suite's files, because it writes files where it stands.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker.suites_of_others import topics_script
from benchmarks.broker.suites_of_others.results import Outcome, Status
from benchmarks.broker.suites_of_others.sources import KAFKA_VERSIONS, SuiteFailedError

SCENARIOS: dict[str, dict[str, str]] = {
    "default": {},
    "noautocreate": {"auto_create_topics_enable": "false"},
}
"""Scenarios of the suite, and the settings of a cluster that each needs."""

OTHER_SCENARIO = "requires another scenario"
_LOCAL = "Filtered due to negative test flags"
_BEYOND = 1000  # tests that the suite runs only by hand have numbers from here on
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SKIPPED = re.compile(r"^\[(\S+) */[^\]]*\] WARN: SKIPPING TEST: (.*)$", re.MULTILINE)
_FAILED = re.compile(r'^### Test "(\S+)(?: \([^"]*\))?" failed at .*###\n(.*)$', re.MULTILINE)


@dataclass(frozen=True)
class Librdkafka:
    """The suite in a folder."""

    sources: Path
    logs: Path
    limit_s: float
    quick: bool = False

    def numbers(self) -> list[str]:
        """The numbers of all tests. Raises if the folder has no runner, or if it does not start."""
        runner = self.sources / "tests" / "test-runner"
        if not runner.is_file():
            raise SuiteFailedError(f"expected the built runner {runner}, found none: build the suite's tests first")
        topics_script.install(self._installation())
        report = self._run("none", "default", "127.0.0.1:9")
        if report is None:
            raise SuiteFailedError(f"expected {runner} to list its tests, found no report: see {self.logs}/none")
        names = [name for name in report if name[:4].isdigit() and int(name[:4]) < _BEYOND]
        return sorted({name[:4] for name in names})

    def run(self, numbers: Iterable[str], scenario: str, bootstrap: list[str], at_once: int) -> list[Outcome]:
        """Run these numbers in a scenario; tests that need no broker are left out."""
        with ThreadPoolExecutor(at_once) as pool:
            found = pool.map(lambda number: self._outcomes(number, scenario, ",".join(bootstrap)), numbers)
            return [outcome for each in found for outcome in each]

    def _outcomes(self, number: str, scenario: str, bootstrap: str) -> list[Outcome]:
        began = time.monotonic()
        report = self._run(number, scenario, bootstrap)
        log = _COLOURS.sub("", self._log(number, scenario).read_text(errors="replace"))
        if report is None:
            took, last = time.monotonic() - began, (log.strip().splitlines() or ["no output"])[-1]
            late = took >= self.limit_s
            reason = f"not done within {self.limit_s:.0f} s" if late else f"the runner ended without a report: {last}"
            return [Outcome(number, Status.FAILED, took, reason)]
        said = dict(reversed(_SKIPPED.findall(log) + _FAILED.findall(log)))  # the first reason of a test counts
        outcomes = []
        for name, entry in report.items():
            if not name.startswith(number):
                continue
            reason = said.get(name, "")
            if entry["state"] == "PASSED":
                outcomes.append(Outcome(name, Status.PASSED, entry["duration"]))
            elif entry["state"] == "SKIPPED":
                if _LOCAL not in reason:
                    outcomes.append(Outcome(name, Status.SKIPPED, entry["duration"], reason or OTHER_SCENARIO))
            else:
                outcomes.append(Outcome(name, Status.FAILED, entry["duration"], reason or entry["state"].lower()))
        return outcomes

    def _run(self, tests: str, scenario: str, bootstrap: str) -> dict[str, dict] | None:
        """Run the runner once: what it reports, or nothing if it did not come that far."""
        folder = self._log(tests, scenario).parent
        _link(self.sources, folder, leave_out="tests")
        _link(self.sources / "tests", folder / "tests")
        settings = folder / "harrow-test.conf"
        settings.write_text(
            f"bootstrap.servers={bootstrap}\nbroker.address.family=v4\ntest.timeout.multiplier=2\ntest.topic.random=true\n"
        )
        written = folder / "report.json"
        written.unlink(missing_ok=True)
        libraries = [str(self.sources.resolve() / name) for name in ("src", "src-cpp")]
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join([*libraries, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]),
            "RDKAFKA_TEST_CONF": str(settings),
            "TEST_REPORT": str(written),
            "TEST_KAFKA_VERSION": KAFKA_VERSIONS["librdkafka"],
            "TESTS": tests,
            "KAFKA_PATH": str(self._installation()),
            "BROKERS": bootstrap,
        }
        # -L: no test that needs no broker; -p1: one test at a time; -Q: less data, and some cases are left out
        command = ["./test-runner", "-L", "-p1", "-s", scenario, *(["-Q"] if self.quick else [])]
        with self._log(tests, scenario).open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=folder / "tests",
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
            try:
                process.wait(self.limit_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        try:
            return json.loads(written.read_text(), strict=False)["tests"]
        except (OSError, ValueError, KeyError):
            return None

    def _installation(self) -> Path:
        return self.logs.resolve() / "installation"

    def _log(self, tests: str, scenario: str) -> Path:
        return self.logs.resolve() / scenario / tests / "log.txt"


def _link(source: Path, folder: Path, leave_out: str = "") -> None:
    """Make a folder of links to what is in another one."""
    folder.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        link = folder / entry.name
        if entry.name != leave_out and not link.is_symlink():
            link.symlink_to(entry.resolve())
