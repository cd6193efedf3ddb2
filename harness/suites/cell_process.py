"""Runs a cell in an isolated child process that ends when the suite's process does."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.environments.machine.helpers.programs import module_command
from harness.run.stopping import POLL_S, Stop

_PR_SET_PDEATHSIG: Final = 1
HEAL_S: Final = 90.0
"""Time for a run that was asked to end to undo its faults and stop its nodes."""

_TAIL_LINES: Final = 5


@dataclass(frozen=True)
class ProcessResult:
    """How a process ended."""

    status: int  # negative: the signal that killed it
    seconds: float
    stdout: str
    log_tail: tuple[str, ...]
    overdue: bool = False  # it was ended because it took too long
    stopped: bool = False  # it was ended because the suite was asked to end


def run(arguments: Sequence[str], directory: Path, limit_s: float, stop: Stop) -> ProcessResult:
    """Run `harrow` with these arguments until it ends; end it after the limit, or when `stop` is requested.

    Its output is kept in `directory`: `stdout.txt`, `log.txt`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    stdout, log = directory / "stdout.txt", directory / "log.txt"
    libc = ctypes.CDLL(None)

    def end_with_us() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    began_s = time.monotonic()
    with stdout.open("wb") as out, log.open("wb") as errors:
        process = subprocess.Popen(
            module_command("harness", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,  # Ctrl-C reaches this process, which passes it on
            preexec_fn=end_with_us,  # noqa: PLW1509 - nothing but one system call
        )
        overdue = stopped = False
        while process.poll() is None and not (overdue or stopped):
            time.sleep(POLL_S)
            stopped = stop.requested
            overdue = time.monotonic() - began_s > limit_s
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(HEAL_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    lines = log.read_text(errors="replace").splitlines()
    return ProcessResult(
        status=process.returncode,
        seconds=time.monotonic() - began_s,
        stdout=stdout.read_text(errors="replace"),
        log_tail=tuple(line for line in lines[-_TAIL_LINES:] if line.strip()),
        overdue=overdue,
        stopped=stopped,
    )
