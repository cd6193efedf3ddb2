"""A cell's process: apart from us, so that whatever becomes of it becomes of nothing else; and never without us."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.environments.machine.helpers.own_python import module_command
from harness.run.stopping import POLL_S, Stop

_PR_SET_PDEATHSIG: Final = 1
HEAL_S: Final = 90.0
"""How long a run that was asked to end may take to undo its faults and stop its nodes."""

_LAST_WORDS: Final = 5


@dataclass(frozen=True)
class Ending:
    """How a process ended."""

    status: int  # negative: the signal that killed it
    seconds: float
    stdout: str
    last_words: tuple[str, ...]
    overdue: bool = False  # it was ended, because it took too long
    stopped: bool = False  # it was ended, because we were asked to end


def run(arguments: Sequence[str], directory: Path, limit_s: float, stop: Stop) -> Ending:
    """Run `harrow` with these arguments until it ends; after the limit, or when asked to, ask it to end.

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
            start_new_session=True,  # Ctrl-C comes to us, and we pass it on
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
    said = log.read_text(errors="replace").splitlines()
    return Ending(
        status=process.returncode,
        seconds=time.monotonic() - began_s,
        stdout=stdout.read_text(errors="replace"),
        last_words=tuple(line for line in said[-_LAST_WORDS:] if line.strip()),
        overdue=overdue,
        stopped=stopped,
    )
