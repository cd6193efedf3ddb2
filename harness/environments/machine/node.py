"""A node that is a process of this machine, with a log, a data directory and a disk that can lose unsynced data."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from harness.environments.base import NodePlan, Upgradable
from harness.environments.common.layout import PlannedNode
from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.machine.kernel import process_identity
from harness.environments.storage import node_disk
from harness.environments.storage.node_disk import NodeDisk
from harness.environments.storage.page_cache import PageCache
from harness.store.journal import Journal
from nemesis.capabilities.cluster import LOG_LINES, NodeError, NodeRole, NodeWallClock
from nemesis.capabilities.disks import BreakableDisk, PageCacheLoss, Survival

LOG_NAME = "node.log"
_PAUSE_TIMEOUT_S = 5.0
_READY_INTERVAL_S = 0.05
_LINE_BYTES = 1024


class Runnable(Protocol):
    """The part of a system under test that a node needs."""

    def command(self, plan: NodePlan) -> Sequence[str]:
        """The command that runs the node in the foreground."""
        ...

    def stop_command(self, plan: NodePlan, pid: int) -> Sequence[str] | None:
        """The command for a controlled shutdown of a running node; None: SIGTERM does it."""
        ...

    def log_patterns(self, role: NodeRole) -> Sequence[str]:
        """Patterns of log files in the node's directory, besides its standard output and error."""
        ...

    def is_ready(self, plan: NodePlan) -> bool:
        """Whether the node reports that it serves."""
        ...


class ProcessClock(NodeWallClock, Protocol):
    """A wall clock that is set up when a process starts."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables that make a process use this clock."""
        ...


class RunningProcess(Protocol):
    """The main process of a node."""

    @property
    def pid(self) -> int:
        """Process id on this machine."""
        ...

    @property
    def own_pid(self) -> int:
        """Process id in its own pid namespace."""
        ...

    @property
    def start_time(self) -> int:
        """Clock ticks since boot."""
        ...

    def poll(self) -> int | None:
        """Exit status, negative for the signal that killed it; None while it runs."""
        ...

    def wait(self, timeout_s: float) -> int:
        """Wait for its end and return its exit status; `TimeoutError` after that time."""
        ...

    def signal(self, signal_number: int) -> bool:
        """Send a signal to it and to its children; False if it has ended."""
        ...

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        ...

    def kill(self) -> None:
        """SIGKILL and reap."""
        ...


class Throttle(Protocol):
    """Lets a process run for a part of the time only."""

    def end(self) -> None:
        """Let it run without a limit."""
        ...


class NodeHost(Protocol):
    """Runs the processes of one node, one at a time, and can limit their resources. Errors are `NodeError`."""

    def launch(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> RunningProcess:
        """Run a program in the node's network, its output appended to a file; `environment` adds variables."""
        ...

    def run_beside(self, command: Sequence[str], log: Path) -> None:
        """Run another program in the node's network and container, without waiting for it."""
        ...

    def throttle(self, process: RunningProcess, percent: int) -> Throttle:
        """Let it run only for this percentage of the time."""
        ...

    def limit_memory(self, process: RunningProcess) -> int:
        """Limit its memory to what it has now; returns the limit in bytes."""
        ...

    def unlimit_memory(self, process: RunningProcess) -> None:
        """Remove the limit. Safe when there is none, or the process is dead."""
        ...

    def memory_limit(self, process: RunningProcess) -> int | None:
        """The limit in bytes; None: only the normal limit, or no process."""
        ...


class MachineNode(PlannedNode):
    """Implements `nemesis.capabilities.cluster.Node`."""

    def __init__(
        self,
        plan: NodePlan,
        system: Runnable,
        host: NodeHost,
        disk: PageCache,
        journal: Journal,
        clock: ProcessClock | None = None,
    ) -> None:
        self._clock = clock
        self._plan = plan
        self._system = system
        self._host = host
        self._disk = disk
        self._journal = journal
        self._process: RunningProcess | None = None
        self._files = NodeDisk(plan, disk, journal, self.is_alive)
        self._throttle: Throttle | None = None
        self._memory_is_limited = False  # set when a limit is requested, whether or not it took effect
        self._lock = threading.RLock()

    @property
    def plan(self) -> NodePlan:
        """Its id, role and paths."""
        return self._plan

    @property
    def pid(self) -> int | None:
        """Process id of the latest start, None before the first."""
        return None if self._process is None else self._process.pid

    def is_alive(self) -> bool:
        """Whether the process exists (a paused one does)."""
        with self._lock:
            return self._process is not None and self._process.poll() is None

    def exit_status(self) -> int | None:
        """Exit status of the latest process, negative for the signal that killed it; None while it runs."""
        with self._lock:
            return None if self._process is None else self._process.poll()

    def is_ready(self) -> bool:
        """Whether it reports that it serves. A paused node cannot answer."""
        return self.is_alive() and not self.is_paused() and self._system.is_ready(self.plan)

    def await_ready(self, timeout_s: float) -> None:
        """Wait until the node serves; `NodeError` when it dies before, or does not within the time."""

        def settled() -> bool:
            return not self.is_alive() or self.is_ready()

        if not process_identity.wait_until(settled, timeout_s, _READY_INTERVAL_S):
            raise self._error(f"expected node {self.node_id} to serve within {timeout_s:g} s, found that it does not")
        if not self.is_alive():
            raise self._error(f"expected node {self.node_id} to start, found that it {self._ending()}")

    def start(self) -> None:
        """Start the process; returns at once."""
        with self._lock:
            if self.is_alive():
                raise NodeError(f"expected node {self.node_id} to be stopped, found it running as process {self.pid}")
            self.plan.socket.unlink(missing_ok=True)
            environment = {} if self._clock is None else self._clock.environment
            self._process = self._host.launch(self._system.command(self.plan), environment, self._log)
            self._journal.record(
                "process",
                what=f"node {self.node_id}",
                pid=self._process.pid,
                start_time=self._process.start_time,
            )

    @property
    def next_version(self) -> str:
        """The version to upgrade to. Raises `NodeError` in a run that has only one."""
        return self._upgradable.next_version

    def version(self) -> str | None:
        """The version that the node's process reports; None if it does not answer. Raises `NodeError` likewise."""
        return self._upgradable.version(self.plan) if self.is_alive() else None

    def use_next_version(self) -> None:
        """Run the next version from the next start on. Raises `NodeError` in a run that has only one."""
        with self._lock:
            if self.is_alive():
                raise NodeError(f"expected node {self.node_id} to be stopped, found it running as process {self.pid}")
            self._journal.record("upgraded", node=self.node_id, version=self.next_version)
            self._upgradable.upgrade(self.plan)

    @property
    def _upgradable(self) -> Upgradable:
        if not isinstance(self._system, Upgradable):
            raise NodeError(f"expected a version to upgrade node {self.node_id} to (--upgrade-to), found none")
        return self._system

    def stop(self, timeout_s: float) -> int:
        """Controlled shutdown (SIGTERM); returns the exit status. After the timeout: SIGKILL and `NodeError`."""
        with self._lock:
            process = self._living()
            if (command := self._system.stop_command(self.plan, process.own_pid)) is None:
                process.terminate()
            else:
                self._host.run_beside(command, self._log)
            try:
                return process.wait(timeout_s)
            except TimeoutError:
                process.kill()
                raise self._error(
                    f"expected node {self.node_id} to shut down within {timeout_s:g} s, found it running and killed it"
                ) from None

    def kill(self) -> None:
        """SIGKILL and reap. Does nothing to a dead node."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self.unthrottle()

    def pause(self) -> None:
        """Stop the process, and verify that it is stopped."""
        with self._lock:
            process = self._living()
            self._journal.record("paused", node=self.node_id)
            process.signal(signal.SIGSTOP)
            if not process_identity.wait_until(self.is_paused, _PAUSE_TIMEOUT_S):
                raise self._error(
                    f"expected node {self.node_id} to be in state T, "
                    f"found {sorted(process_identity.states(process.pid))}"
                )

    def resume(self) -> None:
        """Continue the process, and verify that it runs."""
        with self._lock:
            process = self._living()
            process.signal(signal.SIGCONT)
            if not process_identity.wait_until(
                lambda: "T" not in process_identity.states(process.pid), _PAUSE_TIMEOUT_S
            ):
                raise self._error(f"expected node {self.node_id} to run again, found it stopped")
            self._living()
            self._journal.record("resumed", node=self.node_id)

    def is_paused(self) -> bool:
        """Whether every thread of the process is stopped."""
        with self._lock:
            return self._process is not None and self.is_alive() and process_identity.states(self._process.pid) == {"T"}

    def throttle(self, percent: int) -> None:
        """Let the process run only for this percentage of the time, until `unthrottle`."""
        with self._lock:
            process = self._living()
            self.unthrottle()
            self._journal.record("throttled", node=self.node_id, percent=percent)
            self._throttle = self._host.throttle(process, percent)

    def unthrottle(self) -> None:
        """Let it run without a limit. Safe when it is not throttled, or dead."""
        with self._lock:
            if self._throttle is not None:
                self._throttle.end()
                self._throttle = None

    def running_percent(self, seconds: float) -> float:
        """Sample whether the process may run; returns the percentage of samples in which it might."""
        return process_identity.running_percent(self._living().pid, seconds)

    def limit_memory(self) -> int:
        """Limit the process's memory to what it has now; returns the limit in bytes."""
        with self._lock:
            process = self._living()
            self._journal.record("memory-limited", node=self.node_id)
            self._memory_is_limited = True
            try:
                return self._host.limit_memory(process)
            except OSError as error:
                raise self._error(f"expected to limit the memory of node {self.node_id}, found: {error}") from error

    def unlimit_memory(self) -> None:
        """Remove the limit. Safe when there is none, or the process is dead."""
        with self._lock:
            if self._process is not None and self._memory_is_limited:
                self._host.unlimit_memory(self._process)
                self._memory_is_limited = False

    def memory_limit(self) -> int | None:
        """The limit in bytes that the kernel enforces; None: no limit of ours, or no process."""
        with self._lock:
            return None if self._process is None or not self.is_alive() else self._host.memory_limit(self._process)

    @property
    def clock(self) -> NodeWallClock:
        """Its wall clock; `NodeError` in a run without clock faults."""
        if self._clock is None:
            raise NodeError(f"expected node {self.node_id} to have a clock of its own, found that it has none")
        return self._clock

    @property
    def disk(self) -> BreakableDisk:
        """Its disk."""
        return self._files

    def lose_page_cache(self, survival: Survival = "nothing", seed: int = 0) -> PageCacheLoss:
        """Drop the dead node's unsynced data, except what survives. The node must have been killed before."""
        with self._lock:
            if self.is_alive():
                raise NodeError(f"expected node {self.node_id} to have been killed, found it running")
            self._journal.record("page-cache-loss", node=self.node_id, mechanism=self._disk.name)
            try:
                if survival == "nothing":
                    return self._disk.lose(self.plan)
                view = self._disk.view(self.plan)
                before = node_disk.file_contents(view)
                loss = self._disk.lose(self.plan)
                survived = node_disk.restore_survivors(view, before, survival, seed)
                return replace(loss, lost_bytes=loss.lost_bytes - survived, survived_bytes=survived)
            except (HelperRefused, OSError) as error:
                raise self._error(f"expected to drop the page cache of node {self.node_id}, found: {error}") from error

    def log_tail(self, lines: int = LOG_LINES) -> list[str]:
        """The last lines of each of the node's log files and of its output."""
        further = log_files(self.plan.directory, self._system.log_patterns(self.role))
        return [line for log in (*further, self._log) for line in _tail(log, lines)]

    @property
    def _log(self) -> Path:
        return self.plan.directory / LOG_NAME

    def _living(self) -> RunningProcess:
        if self._process is None or not self.is_alive():
            raise self._error(f"expected node {self.node_id} to be running, found that it {self._ending()}")
        return self._process

    def _ending(self) -> str:
        if self._process is None:
            return "was never started"
        status = self._process.poll()
        if status is not None and status < 0:
            return f"was killed by {signal.Signals(-status).name}"
        return f"ended with status {status}"


def log_files(directory: Path, patterns: Sequence[str]) -> Sequence[Path]:
    """The files in a node's directory that match, the latest changed last."""
    found = {path for pattern in patterns for path in directory.glob(pattern) if path.is_file()}
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


def _tail(log: Path, lines: int) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - lines * _LINE_BYTES))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        return []
