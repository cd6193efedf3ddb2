"""A worker process: `python -m workloads.worker ORDERS.json`.

Reads its orders (`workloads.config`) and then commands from standard input, one a line:

| command | effect | answered by |
|---|---|---|
| `drain` | sends no more; reading goes on | `drained`, once no send is open |
| `final {"TOPIC": {"PARTITION": END, …}, …}` | drains, then every reader reads all, up to these ends | `final` |
| `stop` | ends everything and closes the history | `closed`, exit status 0 |

Prints JSON objects, one a line, each with its `event`: `ready`, `counts` once a second, `drained`, `final`
(`complete`, and what is `missing`), `error` (a command that could not be understood), `closed`.

SIGTERM, and the end of standard input (the harness is gone), close the history in good order as `stop` does.
SIGINT is ignored: it is meant for the harness, which will say what to do. Exit status 2: impossible orders;
4: no broker reachable, or the history cannot be written; with one line on standard error.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, TextIO

from history import HistoryError, HistoryWriter, RunClock
from workloads.base import Context, Workload
from workloads.clients import client_named
from workloads.clients.base import ClientError, ClientMissingError, Partition
from workloads.config import WorkerConfig, WorkerConfigError, read_config
from workloads.recording import Recorder
from workloads.registry import UnknownWorkloadError, workload_named

TICK_S: Final = 0.05
COUNTS_INTERVAL_S: Final = 1.0
STOP: Final = "stop"


class WorkerError(Exception):
    """The worker cannot go on. One line."""


def parse_ends(text: str) -> dict[Partition, int]:
    """Read the argument of `final`. Raises `ValueError` with one line if it is not what it should be."""
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
    """Follows commands until it is told to stop, and reports."""

    def __init__(
        self, orders: WorkerConfig, workload: Workload, recorder: Recorder, history: HistoryWriter, output: TextIO
    ) -> None:
        self._orders = orders
        self._workload = workload
        self._recorder = recorder
        self._history = history
        self._output = output
        self._started_s = time.monotonic()
        self._counts_due_s = self._started_s
        self._draining = False
        self._drained = False
        self._ends: Mapping[Partition, int] | None = None
        self._final_deadline_s: float | None = None

    def follow(self, commands: SimpleQueue[str]) -> None:
        """Work until `stop`. Raises `WorkerError` if the workload or the history breaks."""
        self.report("ready", worker=self._orders.worker)
        while True:
            try:
                command = commands.get(timeout=TICK_S)
            except Empty:
                command = ""
            if command.strip() == STOP:
                return
            if command.strip():
                self._obey(command.strip())
            self._advance(time.monotonic())

    def report(self, event: str, **values: object) -> None:
        """Print one line."""
        print(json.dumps({"event": event, **values}), file=self._output, flush=True)

    def _obey(self, command: str) -> None:
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
            self.report("error", message=f"unknown command {verb!r}; there are drain, final, stop")

    def _drain(self) -> None:
        self._draining = True
        self._workload.drain()

    def _advance(self, now_s: float) -> None:
        failure = self._workload.failure()
        if failure is not None:
            raise WorkerError(f"{type(failure).__name__}: {failure}") from failure
        if self._history.failed:
            self._history.flush()  # raises what has failed
        duration_s = self._orders.duration_s
        if duration_s is not None and not self._draining and now_s - self._started_s >= duration_s:
            self._drain()
        if self._draining and not self._drained and self._workload.open() == 0:
            self._drained = True
            self.report("drained")
        if self._drained and self._ends is not None:
            self._workload.begin_final(self._ends)
            self._ends = None
            self._final_deadline_s = now_s + self._orders.final_timeout_s
        if self._final_deadline_s is not None:
            self._look_at_final(now_s, self._final_deadline_s)
        if now_s >= self._counts_due_s:
            self._counts_due_s = now_s + COUNTS_INTERVAL_S
            self.report("counts", open=self._workload.open(), **asdict(self._recorder.counts()))

    def _look_at_final(self, now_s: float, deadline_s: float) -> None:
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


def run(orders: WorkerConfig, commands: SimpleQueue[str], output: TextIO) -> None:
    """Carry out orders until told to stop. Raises the errors that `main` reports."""
    make = workload_named(orders.workload)
    library = client_named(orders.client)
    history = HistoryWriter(Path(orders.history), orders.run_id, f"worker{orders.worker}")
    recorder = Recorder(history, orders.worker, library.name, orders.acks)
    workload = make(Context(orders, library, recorder, RunClock(orders.origin_ns)))
    session = Session(orders, workload, recorder, history, output)
    try:
        workload.start()
        session.follow(commands)
    finally:
        workload.stop()
        recorder.close()
        operations = recorder.counts().operations
        history.add("workers", (orders.worker, operations))
        history.close()
    session.report("closed", operations=operations)


def main(arguments: Sequence[str]) -> int:
    """Run a worker; returns the exit status."""
    if len(arguments) != 1:
        print("usage: python -m workloads.worker ORDERS.json", file=sys.stderr)
        return 2
    # Clients warn of every broken connection; what that meant for an operation is in the history.
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(name)s: %(message)s")
    commands: SimpleQueue[str] = SimpleQueue()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda _number, _frame: commands.put(STOP))
    threading.Thread(target=_listen, args=(commands,), name="commands", daemon=True).start()
    try:
        run(read_config(Path(arguments[0])), commands, sys.stdout)
    except (WorkerConfigError, UnknownWorkloadError, ClientMissingError) as error:
        print(f"worker: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Nobody reads the reports: the harness is gone. The history has been closed.
        sys.stdout = None  # else the interpreter complains of the pipe at exit
        return 0
    except ClientError as error:
        print(f"worker: no broker could be reached: {error}", file=sys.stderr)
        return 4
    except (HistoryError, WorkerError) as error:
        print(f"worker: {error}", file=sys.stderr)
        return 4
    return 0


def _listen(commands: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        commands.put(line)
    commands.put(STOP)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
