"""Identifies processes by pid and start time, and reads their states. A reused pid is never mistaken for them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

RUN_MARK = "HARROW_RUN"
"""Environment variable that every process of a run carries; its value is the run's token."""

SAMPLE_INTERVAL_S = 0.003
"""How often a process's state is read, to see what part of the time it runs."""


def _fields(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the third (state) on, None if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(")") + 2 :].split()


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; with the pid it identifies the process uniquely."""
    fields = _fields(pid)
    return None if fields is None else int(fields[19])


def exists(pid: int, started: int) -> bool:
    """Whether that process exists and is not a zombie. Its main thread may end before the others do."""
    return start_time(pid) == started and bool(states(pid) - {"Z", "X"})


def states(pid: int) -> set[str]:
    """The states of all threads of a process (R, S, D, T, Z …); empty if there is no such process."""
    found = set()
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except (FileNotFoundError, ProcessLookupError):
        return set()
    for thread in threads:
        if (fields := _fields(int(thread))) is not None:
            found.add(fields[0])
    return found


def running_percent(pid: int, seconds: float) -> float:
    """The percentage of samples in which no thread of the process was stopped."""
    deadline = time.monotonic() + seconds
    samples = running = 0
    while time.monotonic() < deadline or not samples:
        samples += 1
        running += "T" not in states(pid)
        time.sleep(SAMPLE_INTERVAL_S)
    return 100 * running / samples


def of_run(token: str) -> Iterator[int]:
    """Process ids of all live processes with a run's mark that this user may inspect."""
    mark = f"{RUN_MARK}={token}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:  # gone meanwhile, or another user's
            continue
        if mark in environment.split(b"\0"):
            yield int(entry.name)


def wait_until(condition: Callable[[], bool], timeout_s: float, interval_s: float = 0.005) -> bool:
    """Poll a condition until it holds or the timeout passes; returns whether it holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return condition()
        time.sleep(interval_s)
    return True
