"""Cells side by side: which may, that the results are those of one job, and what an interrupt or an error ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.environments.machine.kernel.process_identity import wait_until
from harness.run.stopping import Stop
from harness.suites import cell_runner
from harness.suites.cell_runner import ProcessResult
from harness.suites.cells import Cell, arguments
from harness.suites.definition import load
from harness.suites.runner import SuiteHooks, run_suite
from harness.suites.side_by_side import groups, run_side_by_side
from harness.suites.suite_state import CellResult, resume_or_start
from harness.terminal.exits import ExitStatus
from reports.suite import render_suite
from tests.harness.suites.test_suite_performance import CLEAN, ending, well

PATIENCE_S = 120.0
FILE = """
name = "mixed"
budget = "1h"
[canary]
environment = "simulation"
faults = "all"
settings = { flaws = ["ack-before-replication"] }
[configurations.one]
[[matrix]]
environments = ["local"]
faults = ["kill", "pause"]
[[matrix]]
environments = ["simulation"]
faults = ["kill", "pause", "isolate"]
[[matrix]]
environments = ["local"]
faults = ["isolate"]
"""


def cell(number: int, environment: str) -> Cell:
    return Cell(number, environment, "default", "kill", 1, 1, {}, 60.0)


def result_of(one: Cell) -> CellResult:
    return CellResult("valid", (f"of {one.number}",), 0.0, None, None, {}, {}, "")


def numbers(found: Sequence[Sequence[Cell]]) -> list[list[int]]:
    return [[one.number for one in group] for group in found]


def test_only_sweeps_run_together_and_the_order_stays() -> None:
    cells = [cell(n, e) for n, e in enumerate(["local", "simulation", "simulation", "docker", "ssh", "simulation"])]
    assert numbers(list(groups(cells, 4))) == [[0], [1, 2], [3], [4], [5]]
    assert numbers(list(groups(cells, 1))) == [[0], [1], [2], [3], [4], [5]]
    assert list(groups([], 4)) == []


def test_cells_meet_up_to_the_number_of_jobs_and_results_come_in_the_calling_thread() -> None:
    cells = [cell(n, "simulation") for n in range(6)]
    meeting = threading.Barrier(3)
    began: list[list[int]] = []
    came: list[int] = []
    threads: set[int] = set()

    def work(one: Cell) -> CellResult:
        meeting.wait(PATIENCE_S)  # which breaks if fewer than three run at a time
        return result_of(one)

    def ended(one: Cell, result: CellResult | None) -> None:
        threads.add(threading.get_ident())
        assert result == result_of(one)
        came.append(one.number)

    run_side_by_side(cells, 3, work, lambda running: began.extend(numbers([running])), ended, Stop())
    assert sorted(came) == list(range(6))
    assert threads == {threading.get_ident()}
    assert began[0] == [0, 1, 2]
    assert max(map(len, began)) == 3


def test_after_a_stop_no_other_cell_begins() -> None:
    stop = Stop()
    ran: list[int] = []

    def work(one: Cell) -> CellResult | None:
        ran.append(one.number)
        stop.request()
        return None

    came: list[CellResult | None] = []
    run_side_by_side([cell(n, "simulation") for n in range(5)], 2, work, len, lambda _, got: came.append(got), stop)
    assert 1 <= len(ran) <= 2
    assert came == [None] * len(ran)


def test_an_error_ends_the_other_cells_and_is_raised() -> None:
    stop = Stop()

    def work(one: Cell) -> CellResult:
        if one.number == 0:
            raise OSError(28, "No space left on device")
        assert wait_until(lambda: stop.requested, PATIENCE_S), "the other cell was not ended"
        return result_of(one)

    with pytest.raises(OSError, match="No space left"):
        run_side_by_side([cell(n, "simulation") for n in range(2)], 2, work, len, lambda *_: None, stop)
    assert stop.requested


def test_sweeps_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.suites.cells.cores", lambda: 8)
    one = cell(1, "simulation")
    for beside, expected in ((2, "4"), (3, "2"), (20, "1")):
        words = list(arguments(one, Path("x"), beside))
        assert words[words.index("--jobs") + 1] == expected
    assert "--jobs" not in arguments(one, Path("x"))


class Played:
    """A suite whose processes are played, and who ran beside whom."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
        self._lock = threading.Lock()
        self._running: list[str] = []
        self._meeting = threading.Barrier(3)
        self.beside: set[frozenset[str]] = set()
        self.stop = Stop()
        self.jobs = jobs
        self.lines: list[str] = []
        monkeypatch.setattr(cell_runner, "run_process", self._run)
        monkeypatch.setattr(cell_runner, "require_possible", lambda _: None)
        file = directory / "suite.toml"
        file.write_text(FILE)
        self.suite = load(file)
        self.state = resume_or_start(directory / f"store-{jobs}", self.suite, fresh=True)

    def _run(self, words: Sequence[str], directory: Path, limit_s: float, stop: Stop) -> ProcessResult:
        kind = words[0]
        with self._lock:
            self._running.append(kind)
            self.beside.add(frozenset([f"{kind} {self._running.count(kind)}", *self._running]))
        if kind == "sim" and self.jobs == 3 and "--flaw" not in words:
            self._meeting.wait(PATIENCE_S)
        played = self._played(list(words), directory)
        with self._lock:
            self._running.remove(kind)
        return played

    def _played(self, words: list[str], directory: Path) -> ProcessResult:
        if words[0] == "sim" and any("isolate" in word for word in words):
            lie = {"seed": 1, "findings": [{"what": "P-12: lied"}], "stored": None}
            found = {"seeds": 2, "failed_by_property": {"P-12": 1}, "failures": [lie]}
            return ending(ExitStatus.ANOMALIES, found)
        if words[0] == "sim" and any("pause" in word for word in words):
            return ending(4, "Traceback")
        return replace(well(words, directory), seconds=2.0)

    def judge(self, run: Path):
        (run / "report.html").write_text("a report")
        counts = {"sends_ok": 1, "faults_took_hold": 1}
        return SimpleNamespace(verdict="valid", reasons=(), counts=counts, anomalies={})

    def log(self, one: Cell, result: CellResult) -> None:
        self.lines.append(f"{one.name} {result.verdict}")

    def perform(self) -> tuple[ExitStatus, Mapping[str, object]]:
        hooks = SuiteHooks(self.judge, self.stop, self.log, render_suite)
        outcome = run_suite(self.suite, self.state, hooks, jobs=self.jobs)
        stored = {path.name: json.loads(path.read_text()) for path in (self.state.directory / "cells").iterdir()}
        for content in stored.values():
            run = content["result"]["run"]
            content["result"]["run"] = run and re.sub(r"\d{8}T\d{6}Z", "TIME", run)
        return outcome.status, stored


def test_results_and_status_are_those_of_one_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, three = (Played(tmp_path, monkeypatch, jobs) for jobs in (1, 3))
    monkeypatch.setattr(cell_runner, "run_process", one._run)
    alone = one.perform()
    monkeypatch.setattr(cell_runner, "run_process", three._run)
    together = three.perform()
    assert together == alone
    assert alone[0] is ExitStatus.ANOMALIES
    assert len(alone[1]) == 7
    assert sorted(three.lines) == sorted(one.lines)
    assert one.beside == {frozenset({"sim 1", "sim"}), frozenset({"run 1", "run"})}
    assert three.beside - one.beside == {frozenset({"sim 2", "sim"}), frozenset({"sim 3", "sim"})}, "no run beside any"


def test_a_suite_that_was_interrupted_side_by_side_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played(tmp_path, monkeypatch, 2)

    def stopped(words: Sequence[str], directory: Path, limit_s: float, stop: Stop) -> ProcessResult:
        if words[0] == "sim" and "--flaw" not in words:
            stop.request()
            return ending(3, CLEAN, stopped=True)
        return played._run(words, directory, limit_s, stop)

    monkeypatch.setattr(cell_runner, "run_process", stopped)
    status, stored = played.perform()
    assert status is ExitStatus.UNKNOWN
    assert len(stored) == 3, "the canary and two runs"
    assert json.loads((played.state.directory / "suite.json").read_text())["ended"] == "interrupted"
    monkeypatch.setattr(cell_runner, "run_process", played._run)
    played.stop = Stop()
    again = resume_or_start(tmp_path / "store-2", played.suite, fresh=False)
    assert (again.directory, again.resumed) == (played.state.directory, True)
    played.state = again
    assert len(played.perform()[1]) == 7


ENDLESS = """
name = "endless"
budget = "1h"
[canary]
environment = "simulation"
faults = "all"
seeds = "1:2"
settings = { flaws = ["ack-before-replication"] }
[[matrix]]
environments = ["simulation"]
faults = ["kill", "pause"]
seeds = "1:900000"
"""


@pytest.mark.slow
def test_ctrl_c_ends_all_real_sweeps_with_a_summary(tmp_path: Path) -> None:
    file, store = tmp_path / "endless.toml", tmp_path / "store"
    file.write_text(ENDLESS)
    command = [sys.executable, "-m", "harness", "suite", str(file), "--jobs", "2", "--store", str(store)]
    suite = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        logs = "suites/endless/*/logs/*simulation-default*/stdout.txt"
        assert wait_until(lambda: len(list(store.glob(logs))) == 2, PATIENCE_S, 0.1), "the two sweeps did not begin"
        found = subprocess.run(["pgrep", "-P", str(suite.pid)], capture_output=True, text=True, check=False)
        children = [int(line) for line in found.stdout.split()]
        suite.send_signal(signal.SIGINT)
        output, errors = suite.communicate(timeout=PATIENCE_S)
    finally:
        suite.kill()
        suite.wait()
    assert suite.returncode == ExitStatus.UNKNOWN, errors
    assert f"`harrow suite {file} --jobs 2 --store {store}` resumes the suite" in errors
    assert "interrupted" in output
    assert "page: " in output
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert len(list(store.glob("suites/endless/*/cells/*.json"))) == 1, "the canary"
