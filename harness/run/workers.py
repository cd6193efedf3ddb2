"""Starts the worker processes of a run, sends them commands and reads their reports."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.environments.base import Environment, Process
from harness.environments.machine.helpers.programs import module_command
from harness.run.stopping import RunFailed

STOP_TIMEOUT_S = 20.0
_TAIL_LINES = 5


class Worker:
    """One worker process. A thread reads its reports; only the latest report of each event is kept."""

    def __init__(self, number: int, process: Process, log: Path) -> None:
        self.number = number
        self._process = process
        self._log = log
        self._latest: dict[str, Mapping[str, Any]] = {}
        self._listener = threading.Thread(target=self._listen, name=f"worker-{number}", daemon=True)
        self._listener.start()

    def latest(self, event: str) -> Mapping[str, Any] | None:
        """Return the latest report of this event."""
        return self._latest.get(event)

    def send(self, command: str) -> None:
        """Send a command. Raises `RunFailed` if the worker has ended."""
        try:
            self._process.stdin.write(f"{command}\n".encode())
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise RunFailed(self._failure()) from error

    def check(self) -> None:
        """Raise `RunFailed` if the process has ended without being stopped."""
        if self._process.poll() is not None:
            raise RunFailed(self._failure())

    def stop(self) -> None:
        """Let it close its history; kill it if it does not end in time."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except TimeoutError:
                self._process.kill()
        self._listener.join(STOP_TIMEOUT_S)

    def _listen(self) -> None:
        for line in self._process.stdout:
            report = json.loads(line)
            self._latest[report["event"]] = report

    def _failure(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-_TAIL_LINES:] if self._log.exists() else []
        tail = "; its last log lines:\n  " + "\n  ".join(lines) if lines else ""
        return f"expected worker {self.number} to go on, found that it ended with status {self._process.poll()}{tail}"


def start_workers(
    environment: Environment, directory: Path, configs: Sequence[Mapping[str, object]]
) -> Sequence[Worker]:
    """Start one worker for each configuration, with its files in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    workers = []
    for number, config in enumerate(configs):
        path = directory / f"worker-{number}.json"
        path.write_text(json.dumps(config, indent=2) + "\n")
        log = directory / f"worker-{number}.log"
        command = module_command("workloads.worker", str(path.absolute()))
        workers.append(Worker(number, environment.spawn_client(command, log), log))
    return workers


def acked(workers: Sequence[Worker]) -> int:
    """Sum the records that were acknowledged so far."""
    return sum((worker.latest("counts") or {}).get("records_acked", 0) for worker in workers)
