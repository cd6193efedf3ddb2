"""Runs collected tests in forks of pytest's process: once as the broker is, and then with one mutant each."""

from __future__ import annotations

import gc
import json
import os
import resource
import tempfile
import time
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from tests.broker.without_rules.sources import watch

LIMIT_S = 60
"""Of processor time: a mutant may make a test go on for ever, which counts as noticed."""
MEMORY_BYTES = 4 << 30
NOT_APPLIED = 3
"""Status of a process that could not put its mutant in."""


@dataclass(frozen=True)
class Baseline:
    """The tests without a mutant."""

    failed: list[str]
    calls: dict[str, set[int]]
    """Test -> numbers of the functions that it calls."""
    seconds: dict[str, float]


def baseline(items: Mapping[str, pytest.Item], functions: Sequence[types.FunctionType]) -> Baseline:
    """Run all tests in a process of its own, and record which functions each of them calls."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "baseline.json"

        def record() -> int:
            called: set[int] = set()
            for number, function in enumerate(functions):
                watch(function, number, called)
            path.write_text(json.dumps([_recorded(name, item, called) for name, item in items.items()]))
            return 0

        _, status = os.waitpid(forked(record), 0)
        if status:
            raise RuntimeError(f"expected the tests to run without a mutant, found that their process ended: {status}")
        rows = json.loads(path.read_text())
    return Baseline(
        failed=[name for name, passed, *_ in rows if not passed],
        calls={name: set(called) for name, _, called, _ in rows},
        seconds={name: seconds for name, *_, seconds in rows},
    )


def _recorded(name: str, item: pytest.Item, called: set[int]) -> tuple[str, bool, list[int], float]:
    called.clear()
    begun = time.monotonic()
    passed = _passes(item, None)
    return name, passed, sorted(called), time.monotonic() - begun


@dataclass(frozen=True)
class Trial:
    """A process that runs tests with a mutant, and writes the number of the first that fails."""

    pid: int
    reading: int
    """File descriptor of the pipe that it writes to."""

    @classmethod
    def start(cls, apply: Callable[[], None], items: Sequence[pytest.Item]) -> Trial:
        reading, writing = os.pipe()
        parent = os.getpid()

        def work() -> int:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 1))
            try:
                apply()
            except Exception:
                return NOT_APPLIED
            for number, (item, following) in enumerate(pairwise([*items, None])):
                assert item is not None
                if os.getppid() != parent:
                    return NOT_APPLIED  # the command was ended
                os.write(writing, f"{number} ".encode())
                if not _passes(item, following):
                    return 1
            return 0

        pid = forked(work)
        os.close(writing)
        return cls(pid, reading)

    def ended(self) -> tuple[int, int]:
        """(Status, number of the last test that began), once the process has ended. A negative status is a signal."""
        began = b""
        while piece := os.read(self.reading, 1 << 16):
            began += piece
        os.close(self.reading)
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status), int((began.split() or [b"0"])[-1])


def forked(work: Callable[[], int]) -> int:
    """The id of a new process that does the work, without a word, and ends with its result."""
    gc.freeze()  # else the first collection in the new process copies all memory
    pid = os.fork()
    if pid:
        return pid
    status = 2
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        status = work()
    finally:
        os._exit(status)


def _passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Run a test. `following` comes next: fixtures that it shares with this one are kept."""
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))
