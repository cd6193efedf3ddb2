"""Runs a workload in a worker process: `python -m workloads.worker CONFIG.json`.

Reads its configuration (`workloads.config`) and then commands from standard input, one per line:

| command | effect | answered by |
|---|---|---|
| `drain` | stops sending; reading continues | `drained`, when no send is open |
| `final {"TOPIC": {"PARTITION": END, …}, …}` | drains, then every reader reads everything up to these ends | `final` |
| `stop` | stops everything and closes the history | `closed`, exit status 0 |

Prints JSON objects, one per line, each with its `event`: `ready`, `counts` once a second, `drained`, `final`
(`complete`, and what is `missing`), `refused` (a `message` about what the system will never accept), `error` (an
invalid command), `closed`.

SIGTERM and the end of standard input (the harness has exited) close the history as `stop` does.
SIGINT is ignored: it is meant for the harness, which then sends a command. Exit status 2: invalid configuration;
4: no broker reachable, or the history cannot be written; with one line on standard error.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, TextIO

from common.names import unknown
from history.clock import RunClock
from history.writer import HistoryError, HistoryWriter
from workloads.admin import AdminWorkload
from workloads.base import Context, Refusable, Workload
from workloads.clients import client_named
from workloads.clients.base import ClientError, ClientMissingError, Partition
from workloads.config import WorkerConfig, WorkerConfigError, read_config
from workloads.groups import GroupsWorkload
from workloads.log import LogWorkload
from workloads.objects import queue_workload, register_workload
from workloads.recording import Recorder

WORKLOADS: Final[Mapping[str, Callable[[Context], Workload]]] = {
    "log": LogWorkload,
    "register": register_workload,
    "queue": queue_workload,
    "groups": GroupsWorkload,
    "admin": AdminWorkload,
}

TICK_S: Final = 0.05
COUNTS_INTERVAL_S: Final = 1.0
STOP: Final = "stop"


class UnknownWorkloadError(Exception):
    """The workload is unknown. One line that lists the known ones."""


def workload_named(name: str) -> Callable[[Context], Workload]:
    """Return the factory of a workload. Raises `UnknownWorkloadError`."""
    if name not in WORKLOADS:
        raise UnknownWorkloadError(unknown(name, WORKLOADS, "a workload"))
    return WORKLOADS[name]


class WorkerError(Exception):
    """The worker cannot go on. One line."""


def parse_ends(text: str) -> dict[Partition, int]:
    """Parse the argument of `final`. Raises `ValueError` with one line if it is invalid."""
    try:
        topics = json.loads(text)
        return {
            Partition(topic, int(partition)): int(end)
            for topic, partitions in topics.items()
            for partition, end in partitions.items()
        }
    except (json.JSONDecodeError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f'final needs {{"topic": {{"partition": end}}}}, found {text[:200]!r}') from error


class Session:
    """Executes commands until `stop`, and reports events."""

    def __init__(
        self, config: WorkerConfig, workload: Workload, recorder: Recorder, history: HistoryWriter, output: TextIO
    ) -> None:
        self._config = config
        self._workload = workload
        self._recorder = recorder
        self._history = history
        self._output = output
        self._started_s = time.monotonic()
        self._counts_due_s = self._started_s
        self._draining = False
        self._drained = False
        self._refused = False
        self._ends: Mapping[Partition, int] | None = None
        self._final_deadline_s: float | None = None

    def run(self, commands: SimpleQueue[str]) -> None:
        """Run until `stop`. Raises `WorkerError` if the workload or the history fails."""
        self.report("ready", worker=self._config.worker)
        while True:
            try:
                command = commands.get(timeout=TICK_S)
            except Empty:
                command = ""
            if command.strip() == STOP:
                return
            if command.strip():
                self._execute(command.strip())
            self._advance(time.monotonic())

    def report(self, event: str, **values: object) -> None:
        """Print one line."""
        print(json.dumps({"event": event, **values}), file=self._output, flush=True)

    def _execute(self, command: str) -> None:
        verb, _, argument = command.partition(" ")
        if verb == "drain":
            self._drain()
        elif verb == "final":
            try:
                self._ends = parse_ends(argument)
            except ValueError as error:
                self.report("error", message=str(error))
                return
            self._drain()
        else:
            self.report("error", message=f"unknown command {verb!r}; expected drain, final or stop")

    def _drain(self) -> None:
        self._draining = True
        self._workload.drain()

    def _advance(self, now_s: float) -> None:
        failure = self._workload.failure()
        if failure is not None:
            raise WorkerError(f"{type(failure).__name__}: {failure}") from failure
        if self._history.failed:
            self._history.flush()  # raises what has failed
        if not self._refused and isinstance(self._workload, Refusable) and (line := self._workload.refusal()):
            self._refused = True
            self.report("refused", message=line)
        duration_s = self._config.duration_s
        if duration_s is not None and not self._draining and now_s - self._started_s >= duration_s:
            self._drain()
        if self._draining and not self._drained and self._workload.open() == 0:
            self._drained = True
            self.report("drained")
        if self._drained and self._ends is not None:
            self._workload.begin_final(self._ends)
            self._ends = None
            self._final_deadline_s = now_s + self._config.final_timeout_s
        if self._final_deadline_s is not None:
            self._check_final(now_s, self._final_deadline_s)
        if now_s >= self._counts_due_s:
            self._counts_due_s = now_s + COUNTS_INTERVAL_S
            self.report("counts", open=self._workload.open(), **asdict(self._recorder.counts()))

    def _check_final(self, now_s: float, deadline_s: float) -> None:
        unread = self._workload.unread()
        if unread and now_s < deadline_s:
            return
        self._final_deadline_s = None
        missing = [
            {
                "process": each.process,
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "position": each.position,
                "end": each.end,
            }
            for each in unread
        ]
        self.report("final", complete=not unread, missing=missing)


def run(config: WorkerConfig, commands: SimpleQueue[str], output: TextIO) -> None:
    """Run a worker until `stop`. Raises the errors that `main` reports."""
    make = workload_named(config.workload)
    library = client_named(config.client)
    history = HistoryWriter(Path(config.history), config.run_id, f"worker{config.worker}")
    recorder = Recorder(history, config.worker, library.name, config.acks)
    workload = make(Context(config, library, recorder, RunClock(config.origin_ns)))
    session = Session(config, workload, recorder, history, output)
    try:
        workload.start()
        session.run(commands)
    finally:
        workload.stop()
        recorder.close()
        operations = recorder.counts().operations
        history.add("workers", (config.worker, operations))
        history.close()
    session.report("closed", operations=operations)


def main(arguments: Sequence[str]) -> int:
    """Run a worker; returns the exit status."""
    if len(arguments) != 1:
        print("usage: python -m workloads.worker CONFIG.json", file=sys.stderr)
        return 2
    # Clients warn about every broken connection; the history has what it meant for an operation.
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(name)s: %(message)s")
    commands: SimpleQueue[str] = SimpleQueue()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda _number, _frame: commands.put(STOP))
    threading.Thread(target=_read_commands, args=(commands,), name="commands", daemon=True).start()
    try:
        run(read_config(Path(arguments[0])), commands, sys.stdout)
    except (WorkerConfigError, UnknownWorkloadError, ClientMissingError) as error:
        print(f"worker: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The harness, which reads the reports, has exited. The history has been closed.
        sys.stdout = None  # else the interpreter reports the broken pipe at exit
        return 0
    except ClientError as error:
        print(f"worker: no broker could be reached: {error}", file=sys.stderr)
        return 4
    except (HistoryError, WorkerError) as error:
        print(f"worker: {error}", file=sys.stderr)
        return 4
    return 0


def _read_commands(commands: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        commands.put(line)
    commands.put(STOP)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
