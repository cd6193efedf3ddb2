from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import harness
from harness.run.stopping import Interrupted, Stop, on_signals
from harness.terminal.exits import ExitStatus

ROOT = Path(harness.__file__).parents[1]


class Clock:
    """Advances by a tenth of a second each time it is read."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        self.ns += 100_000_000
        return self.ns


def test_waiting_ends_when_the_condition_holds() -> None:
    answers = iter([False, False, True])
    assert Stop().until(lambda: next(answers), 10, Clock())


def test_waiting_ends_at_the_deadline() -> None:
    assert not Stop().until(lambda: False, 0.5, Clock())


def test_waiting_ends_at_once_when_the_run_is_asked_to_end() -> None:
    stop = Stop()
    stop.request()
    with pytest.raises(Interrupted):
        stop.until(lambda: False, 3600, Clock())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_the_run_to_end_and_the_handlers_are_put_back(number: int) -> None:
    before = signal.getsignal(number)
    stop = Stop()
    with on_signals(stop):
        os.kill(os.getpid(), number)
        with pytest.raises(Interrupted):
            stop.sleep(10)
    assert signal.getsignal(number) is before


def test_a_second_signal_is_immediate() -> None:
    code = (
        "from harness.run.stopping import Stop, on_signals\n"
        "import time\n"
        "with on_signals(Stop()):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    resend = threading.Event()
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        resend.wait(0.05)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == ExitStatus.UNKNOWN
    assert "`harrow heal` cleans up after the run" in errors
