"""Real processes of a suite: children that end, are killed, or end with their parent; a small suite by command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.environments.machine.kernel.process_identity import exists, start_time, wait_until
from harness.run.stopping import Stop
from harness.suites.cell_runner import run_process
from harness.terminal.exits import ExitStatus

PATIENCE_S = 120.0
ENDLESS = ("sim", "--seeds", "1:1000000", "--no-check", "--jobs", "1", "--store")
SMALL = """
name = "small"
budget = "1h"
[canary]
environment = "simulation"
faults = "all"
seeds = "1:2"
settings = { flaws = ["ack-before-replication"] }
[[matrix]]
environments = ["simulation"]
faults = ["kill"]
seeds = 1
settings = { simulation = { operations = 20, polls = 20, duration_ms = 6000 } }
"""


def test_the_status_and_output_of_a_child_are_returned(tmp_path: Path) -> None:
    ending = run_process(["faults"], tmp_path / "a", PATIENCE_S, Stop())
    assert (ending.status, ending.overdue, ending.stopped) == (0, False, False)
    assert "page-cache-loss" in ending.stdout
    wrong = run_process(["run", "--faults", "flood"], tmp_path / "b", PATIENCE_S, Stop())
    assert wrong.status == ExitStatus.USAGE
    assert "expected the name of a fault" in wrong.log_tail[0]


def test_a_child_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    ending = run_process([*ENDLESS, str(tmp_path / "store")], tmp_path / "child", 1.0, Stop())
    assert ending.overdue
    assert ending.status != 0


def test_a_child_is_ended_when_we_are_asked_to_end(tmp_path: Path) -> None:
    stop = Stop()
    threading.Timer(1.0, stop.request).start()
    ending = run_process([*ENDLESS, str(tmp_path / "store")], tmp_path / "child", PATIENCE_S, stop)
    assert ending.stopped
    assert ending.status != 0


@pytest.mark.slow
def test_a_killed_suite_ends_its_child_and_can_be_resumed(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL.replace("seeds = 1\nsettings = { simulation", 'seeds = "1:900000"\nsettings = { simulation'))
    command = [sys.executable, "-m", "harness", "suite", str(file), "--store", str(tmp_path / "store")]
    suite = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    place = tmp_path / "store" / "suites" / "small"
    try:
        log = "*/logs/*simulation-default*/stdout.txt"
        assert wait_until(lambda: bool(list(place.glob(log))), PATIENCE_S, 0.1), "the long cell did not begin"
        assert wait_until(lambda: bool(children_of(suite.pid)), PATIENCE_S, 0.1), "the long cell has no process"
        (child,) = children_of(suite.pid)
        started = start_time(child)
        assert started is not None
    finally:
        suite.send_signal(signal.SIGKILL)
        suite.wait()
    assert wait_until(lambda: not exists(child, started), PATIENCE_S, 0.1), "the child outlived the suite"
    (directory,) = place.iterdir()
    head = json.loads((directory / "suite.json").read_text())
    assert head["ended"] == ""
    assert len(list((directory / "cells").glob("*.json"))) == 1, "the canary had ended"


def children_of(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


@pytest.mark.slow
def test_an_interrupted_suite_prints_the_command_that_resumes_it(tmp_path: Path) -> None:
    file, store = tmp_path / "small.toml", tmp_path / "a store"
    file.write_text(SMALL.replace("seeds = 1\nsettings = { simulation", 'seeds = "1:900000"\nsettings = { simulation'))
    command = [sys.executable, "-m", "harness", "suite", str(file), "--store", str(store)]
    suite = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    log = "suites/small/*/logs/*simulation-default*/stdout.txt"
    assert wait_until(lambda: bool(list(store.glob(log))), PATIENCE_S, 0.1), "the long cell did not begin"
    suite.send_signal(signal.SIGINT)
    _, output = suite.communicate(timeout=PATIENCE_S)
    assert suite.returncode == ExitStatus.UNKNOWN
    assert f"`harrow suite {file} --store '{store}'` resumes the suite" in output


@pytest.mark.slow
def test_a_small_suite_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    command = [sys.executable, "-m", "harness", "suite", str(file), "--store", str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == ExitStatus.VALID, done.stderr
    assert "the canary was found" in done.stderr
    (directory,) = (tmp_path / "store" / "suites" / "small").iterdir()
    root = ET.parse(directory / "junit.xml").getroot()
    assert [suite.get("tests") for suite in root] == ["2"]
    assert "report.html" in (directory / "index.html").read_text(), "the canary's failing seed has a report"
