"""Holds the state that all phases of a run share, and records errors and lost processes."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.environments.base import Environment, System
from harness.run.last_words import LINES, last_words
from harness.run.stopping import Interrupted, RunFailed, Stop
from harness.run.workers import Worker
from harness.spec.spec import Spec
from harness.store.journal import Journal
from harness.terminal.console import RunProgress
from harness.terminal.exits import describe
from history.clock import RunClock
from history.writer import HistoryError, HistoryWriter
from nemesis.capabilities.cluster import ClusterNode
from nemesis.schedule import Schedule

ERRORS = "errors.log"
"""File in a run's directory with the trace of each error of the harness, for its developers."""


@dataclass(frozen=True)
class Plan:
    """What to run, and in which directory."""

    spec: Spec
    schedule: Schedule
    directory: Path
    reproduce: str  # command line
    name: str = ""  # describes the run to readers

    @property
    def run_id(self) -> str:
        """Key of this run in all tables."""
        return self.directory.name

    @property
    def clients(self) -> Path:
        """Directory of the configurations and logs of client processes."""
        return self.directory / "clients"


Source = Literal["harness", "node", "cluster"]
"""Where a problem comes from: an error of the harness, whoever ended a node from outside, the cluster's behaviour."""

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
OUTSIDERS = frozenset(status for each in _FROM_OUTSIDE for status in (-each, 128 + each))
"""Exit statuses after a signal that a node does not send itself: the kernel short of memory does, or a user. On other
machines the status may be that of a shell."""


@dataclass
class RunOutcome:
    """What the harness itself observed during a run."""

    fired: int = 0
    took_hold: int = 0
    troubles: list[str] = field(default_factory=list)  # the texts of the table `troubles`


@dataclass
class RunContext:
    """A run in progress."""

    plan: Plan
    system: System
    environment: Environment
    journal: Journal
    history: HistoryWriter
    clock: RunClock
    progress: RunProgress
    stop: Stop
    workers: Sequence[Worker] = ()
    """Workers that run; one that has ended is removed once that is noticed."""
    outcome: RunOutcome = field(default_factory=RunOutcome)
    lost_nodes: frozenset[int] = frozenset()
    """Nodes that ended without a fault, and are not started again."""
    _phase: str = ""

    @contextmanager
    def phase(self, name: str, summary: str = "") -> Iterator[None]:
        """Announce a phase, and record it when it ends, with or without an error."""
        self._phase = name
        self.progress.phase(name, summary)
        started_ns = self.clock.now()
        try:
            yield
        finally:
            self.history.add("phases", {"phase": name, "started_ns": started_ns, "ended_ns": self.clock.now()})

    def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition; return whether it was met in time, scaled to the nodes' speed. Raises `Interrupted`."""
        return self.stop.until(condition, self.scaled(timeout_s), self.clock.now)

    def scaled(self, timeout_s: float) -> float:
        """A timeout scaled to the nodes' speed."""
        return timeout_s * self.plan.spec.pace

    def recorder(self, table: str) -> Callable[[Mapping[str, object]], None]:
        """Return the function that adds rows to a table of the history."""
        return self.history.table(table).add

    def trouble(self, text: str, source: Source = "cluster") -> None:
        """Record a problem in the table `troubles`, and continue."""
        self.outcome.troubles.append(text)
        self.progress.log(text, style="yellow")
        row = {"at_ns": self.clock.now(), "phase": self._phase, "source": source, "text": text}
        self.history.add("troubles", row)

    @contextmanager
    def recording_errors(self) -> Iterator[None]:
        """Record an error raised inside the block as trouble, so that the code after it still runs.

        `Interrupted` passes, and so does `HistoryError`: a run that cannot be recorded must end.
        """
        try:
            yield
        except (Interrupted, HistoryError):
            raise
        except Exception as error:
            with (self.plan.directory / ERRORS).open("a") as file:
                traceback.print_exception(error, file=file)
            self.trouble(describe(error), "harness")

    def require_nodes(self) -> None:
        """Raise `RunFailed` with a node's last log lines if a node has died. Before any fault, that ends the run."""
        for node in self.environment.cluster.nodes.values():
            if not node.is_alive():
                raise RunFailed(describe_node_failure(node, "go on", "died of itself"))

    def record_lost_nodes(self, excused: Callable[[], frozenset[int]] = frozenset) -> None:
        """Record each node that has died without a fault, once: in the table `losses`, with its last words.

        A node that someone else may have ended, by a signal or by asking it to stop, is recorded as trouble instead.
        `excused` returns the nodes that a fault affects now. It is called after a node was seen dead, because a fault
        may be injected in between; if that fault has been healed since, the node is alive again.
        """
        for node in self.environment.cluster.nodes.values():
            if node.node_id in self.lost_nodes:
                continue
            if not node.is_alive() and node.node_id not in excused() and not node.is_alive():
                self.lost_nodes |= {node.node_id}
                self._record_end(node)

    def _record_end(self, node: ClusterNode) -> None:
        traits, status = self.system.traits, node.exit_status()
        if status is None:
            self.trouble(f"expected node {node.node_id} to go on, found that nothing started it again", "cluster")
            return
        if status in OUTSIDERS or status in traits.orderly_exits:
            self.trouble(describe_node_failure(node, "go on", "died of itself"), "node")
            return
        words = last_words(node.log_tail(LINES))
        self.progress.log(f"node {node.node_id} is lost: it ended with status {status}: {words}", style="yellow")
        row = {
            "node": node.node_id,
            "at_ns": self.clock.now(),
            "exit_status": status,
            "last_words": words,
            "exempt": sorted(traits.not_back_after),
        }
        self.history.add("losses", row)

    def require_workers(self) -> None:
        """Raise `RunFailed` with a worker's last log lines if one has ended. Before the first operation, none may."""
        for worker in self.workers:
            worker.check()

    def record_lost_workers(self) -> None:
        """Record each worker that has ended, and continue without it. Raises `RunFailed` when none is left."""
        for worker in tuple(self.workers):
            try:
                worker.check()
            except RunFailed as failed:
                self.drop_worker(worker, failed)
        if not self.workers:
            raise RunFailed("expected a worker to go on, found that all of them have ended")

    def record_refusals(self) -> None:
        """Record what the system refuses the workers for good, the same line of several once."""
        for worker in self.workers:
            report = worker.latest("refused")
            if report is not None and report["message"] not in self.outcome.troubles:
                self.trouble(report["message"])

    def drop_worker(self, worker: Worker, why: RunFailed) -> None:
        """Continue without a worker that has ended."""
        self.workers = [other for other in self.workers if other is not worker]
        self.trouble(str(why), "harness")

    def command_workers(self, command: str) -> None:
        """Send all workers a command; a worker that cannot receive it has ended."""
        for worker in tuple(self.workers):
            try:
                worker.send(command)
            except RunFailed as failed:
                self.drop_worker(worker, failed)

    def stop_workers(self) -> None:
        """Let all workers close their histories; one that cannot be stopped does not keep the others from it."""
        for worker in self.workers:
            with self.recording_errors():
                worker.stop()

    def all_reported(self, event: str) -> Callable[[], bool]:
        """Return a condition: every worker that has not ended has reported this event."""

        def reported() -> bool:
            self.record_lost_workers()
            return all(worker.latest(event) is not None for worker in self.workers)

        return reported


def describe_node_failure(node: ClusterNode, expected: str, found: str) -> str:
    """Describe a node's failure in one line, with its last log lines below."""
    return with_log(f"expected node {node.node_id} to {expected}, found that it {found}", node.log_tail())


def with_log(line: str, log: Sequence[str]) -> str:
    """Add the last lines of a log to a message."""
    return "\n  ".join([f"{line}; its last log lines:", *log]) if log else line
