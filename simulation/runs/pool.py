"""A pool of worker processes that survives the death of its workers.

Tasks are sent one by one, so that memory stays flat however many there are, and each worker holds one task ahead, so
that it never waits. An exception of a task and the death of its process are results like any other. The pool knows
nothing of what a task does.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import TracebackType
from typing import Generic, NamedTuple, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

AHEAD = 2
"""Tasks that a worker holds: the current one and the next."""

TASK_S_MAX = 120.0
"""The time limit of a task, in seconds; its worker is killed then. Time in which the worker or the pool itself is
stopped (Ctrl-Z, a debugger) does not count.
"""

_IDLE_S = 1.0
"""The longest wait for results, and the most that counts of the time between two looks at the workers, in seconds."""


class FinishedTask(NamedTuple, Generic[Task, Result]):
    """A finished task: its result, or the reason why there is none."""

    task: Task
    result: Result | None
    trouble: str | None


@dataclass
class _Worker(Generic[Task]):
    process: SpawnProcess
    connection: Connection
    tasks: deque[Task] = field(default_factory=deque)
    taken_s: float = 0.0  # that the first of the tasks has taken
    retiring: bool = False  # it gets no other tasks than those that it holds


def cores() -> int:
    """The number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0))


class Pool(Generic[Task, Result]):
    """Workers that each apply one function; it must be importable, since processes are spawned."""

    def __init__(
        self,
        work: Callable[[Task], Result],
        jobs: int,
        task_s_max: float = TASK_S_MAX,
        *,
        imports: Path | None = None,
    ) -> None:
        """Workers look for modules in `imports` first, if that is given."""
        if jobs < 1:
            raise ValueError(f"expected at least one job, found {jobs}")
        self._work = work
        self._task_s_max = task_s_max
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker[Task]] = []
        self._jobs = jobs
        self._imports = imports
        self._looked_s = time.monotonic()

    def __enter__(self) -> Pool[Task, Result]:
        self._workers = [self._started() for _ in range(self._jobs)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.connection.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
        self._workers = []

    def import_from(self, imports: Path | None) -> None:
        """Replace each worker, once it has done the tasks that it holds, by one that looks for modules there first."""
        self._imports = imports
        for worker in self._workers:
            worker.retiring = True

    def run(self, tasks: Iterable[Task]) -> Iterator[FinishedTask[Task, Result]]:
        """Yield tasks as they are done, in any order. `tasks` is advanced only when a worker has room."""
        source = iter(tasks)
        self._looked_s = time.monotonic()
        again: deque[Task] = deque()
        while True:
            self._relieve()
            self._hand_out(source, again)
            if not any(worker.tasks for worker in self._workers):
                return
            yield from self._collect(again)

    def _relieve(self) -> None:
        """Replace the workers that were to go and hold no task any more."""
        for slot, worker in enumerate(self._workers):
            if worker.retiring and not worker.tasks:
                worker.connection.close()
                worker.process.terminate()
                worker.process.join()
                self._workers[slot] = self._started()

    def _hand_out(self, source: Iterator[Task], again: deque[Task]) -> None:
        for held in range(AHEAD):
            for worker in self._workers:
                if worker.retiring or len(worker.tasks) > held:
                    continue
                if again:
                    task = again.popleft()
                else:
                    try:
                        task = next(source)
                    except StopIteration:
                        return
                if not worker.tasks:
                    worker.taken_s = 0.0
                worker.tasks.append(task)
                try:
                    worker.connection.send(task)
                except OSError:
                    continue  # it is dead: `_collect` handles that

    def _collect(self, again: deque[Task]) -> Iterator[FinishedTask[Task, Result]]:
        ready = wait([worker.connection for worker in self._workers if worker.tasks], _IDLE_S)
        now_s = time.monotonic()
        passed_s = min(now_s - self._looked_s, _IDLE_S)
        self._looked_s = now_s
        for slot, worker in enumerate(self._workers):
            if worker.connection in ready:
                try:
                    result, trouble = worker.connection.recv()
                except (EOFError, OSError):
                    yield self._replaced(slot, again, None)
                    continue
                worker.taken_s = 0.0
                yield FinishedTask(worker.tasks.popleft(), result, trouble)
            elif worker.tasks and not _is_stopped(worker.process):
                worker.taken_s += passed_s
                if worker.taken_s > self._task_s_max:
                    worker.process.kill()
                    yield self._replaced(slot, again, f"did not end within {self._task_s_max:g} s")

    def _replaced(self, slot: int, again: deque[Task], why: str | None) -> FinishedTask[Task, Result]:
        """Replace a dead worker; the tasks that it held and had not begun go to other workers."""
        dead = self._workers[slot]
        dead.connection.close()
        dead.process.join()
        self._workers[slot] = self._started()
        culprit = dead.tasks.popleft()
        again.extend(dead.tasks)
        return FinishedTask(culprit, None, why or f"its process died: {_ending(dead.process.exitcode)}")

    def _started(self) -> _Worker[Task]:
        here, there = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(there, self._work), daemon=True)
        with _searched_first(self._imports):
            process.start()
        there.close()
        return _Worker(process, here)


@contextmanager
def _searched_first(directory: Path | None) -> Iterator[None]:
    """Put a directory first in `sys.path`, which a spawned process takes over (and which replaces its PYTHONPATH)."""
    before = sys.path[:]
    if directory is not None:
        sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        sys.path[:] = before


def _is_stopped(process: SpawnProcess) -> bool:
    """Whether a signal or a debugger has stopped a process that has not ended."""
    try:
        text = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] in "Tt"


def _ending(status: int | None) -> str:
    if status is not None and status < 0:
        return signal.Signals(-status).name
    return f"exit status {status}"


def _serve(connection: Connection, work: Callable[[Task], object]) -> None:
    """The main loop of a worker process: ends when the parent closes the connection, or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    gc.freeze()
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        result, trouble = None, None
        try:
            result = work(task)
        except Exception as error:
            trouble = _error_text(error)
        try:
            connection.send((result, trouble))
        except OSError:
            return


def _error_text(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({os.path.basename(frame.filename)}:{frame.lineno})"  # noqa: PTH119
