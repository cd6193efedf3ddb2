"""What all phases of a run work with."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.environments.base import Environment, System
from harness.run.stopping import Failed, Interrupted, Stop
from harness.run.workers import Worker
from harness.spec.spec import Spec
from harness.store.journal import Journal
from harness.terminal.errors import describe
from harness.terminal.progress import Progress
from history import HistoryError, HistoryWriter, RunClock
from nemesis.capabilities.cluster import Node
from nemesis.schedule import Schedule

ERRORS = "errors.log"
"""In a run's directory: where each error of the harness came from, for those who mend it."""


@dataclass(frozen=True)
class Plan:
    """What is to be run, and where."""

    spec: Spec
    schedule: Schedule
    directory: Path
    reproduce: str  # command line
    name: str = ""  # what it is, for readers

    @property
    def run_id(self) -> str:
        """Key of this run in all tables."""
        return self.directory.name

    @property
    def clients(self) -> Path:
        """Orders and logs of the client processes."""
        return self.directory / "clients"


Source = Literal["harness", "node", "cluster"]
"""Where trouble comes from: an error of ours, a node that ended although no fault ended it, what the cluster does."""


@dataclass
class RunOutcome:
    """What the harness itself saw of a run."""

    fired: int = 0
    took_hold: int = 0
    troubles: list[str] = field(default_factory=list)  # the texts of the table `troubles`


@dataclass
class Stage:
    """A run that goes on."""

    plan: Plan
    system: System
    environment: Environment
    journal: Journal
    history: HistoryWriter
    clock: RunClock
    progress: Progress
    stop: Stop
    workers: Sequence[Worker] = ()
    """Those that work; one that has ended is left out once that was noticed."""
    outcome: RunOutcome = field(default_factory=RunOutcome)
    lost_nodes: frozenset[int] = frozenset()
    """Nodes that ended although no fault ended them."""
    _phase: str = ""

    @contextmanager
    def phase(self, name: str, told: str = "") -> Iterator[None]:
        """Announce a phase, and record it when it has ended, however it ends."""
        self._phase = name
        self.progress.phase(name, told)
        started_ns = self.clock.now()
        try:
            yield
        finally:
            self.history.add("phases", {"phase": name, "started_ns": started_ns, "ended_ns": self.clock.now()})

    def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition; whether it came true in time, at the nodes' pace. Raises `Interrupted`."""
        return self.stop.until(condition, self.paced(timeout_s), self.clock.now)

    def paced(self, timeout_s: float) -> float:
        """How long something may take on these nodes that may take so long on this machine."""
        return timeout_s * self.plan.spec.pace

    def adder(self, table: str) -> Callable[[Mapping[str, object]], None]:
        """Give what adds rows to a table of the history."""
        return self.history.table(table).add

    def trouble(self, text: str, source: Source = "cluster") -> None:
        """Record that something went wrong, and go on."""
        self.outcome.troubles.append(text)
        self.progress.note(text, style="yellow")
        row = {"at_ns": self.clock.now(), "phase": self._phase, "source": source, "text": text}
        self.history.add("troubles", row)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Record an error of what is done inside as trouble, so that what comes after it is still done.

        `Interrupted` passes, and so does `HistoryError`: a run that cannot be recorded need not go on.
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
        """Raise `Failed` with a node's last log lines if one has died. Before a fault was fired, that ends the run."""
        for node in self.environment.cluster.nodes.values():
            if not node.is_alive():
                raise Failed(last_words(node, "go on", "died of itself"))

    def note_lost_nodes(self, excused: Callable[[], frozenset[int]] = frozenset) -> None:
        """Record each node that has died although no fault killed it, once, with its last log lines.

        `excused` returns the nodes that a fault holds now. It is asked after a node was seen dead, for a fault may
        strike meanwhile; and if the fault has let go of the node since, the node is alive again.
        """
        for node in self.environment.cluster.nodes.values():
            if node.node_id in self.lost_nodes:
                continue
            if not node.is_alive() and node.node_id not in excused() and not node.is_alive():
                self.lost_nodes |= {node.node_id}
                self.trouble(last_words(node, "go on", "died of itself"), "node")

    def require_workers(self) -> None:
        """Raise `Failed` with a worker's last log lines if one has ended. Before there are operations, it must not."""
        for worker in self.workers:
            worker.check()

    def note_lost_workers(self) -> None:
        """Record each worker that has ended, and go on without it. Raises `Failed` when none is left."""
        for worker in tuple(self.workers):
            try:
                worker.check()
            except Failed as failed:
                self.lose(worker, failed)
        if not self.workers:
            raise Failed("expected a worker to go on, found that all of them have ended")

    def lose(self, worker: Worker, why: Failed) -> None:
        """Go on without a worker that has ended."""
        self.workers = [other for other in self.workers if other is not worker]
        self.trouble(str(why), "harness")

    def tell_workers(self, command: str) -> None:
        """Give all workers a command; one that cannot be given it has ended."""
        for worker in tuple(self.workers):
            try:
                worker.tell(command)
            except Failed as failed:
                self.lose(worker, failed)

    def stop_workers(self) -> None:
        """Have all workers close their histories; one that cannot be stopped keeps no other from it."""
        for worker in self.workers:
            with self.going_on():
                worker.stop()

    def all_report(self, event: str) -> Callable[[], bool]:
        """Make a condition: every worker that has not ended has reported this event."""

        def reported() -> bool:
            self.note_lost_workers()
            return all(worker.latest(event) is not None for worker in self.workers)

        return reported


def last_words(node: Node, expected: str, found: str) -> str:
    """Say in one line what became of a node, with its last log lines below."""
    return with_log(f"expected node {node.node_id} to {expected}, found that it {found}", node.log_tail())


def with_log(line: str, log: Sequence[str]) -> str:
    """Add the last lines of a log to a message."""
    return "\n  ".join([f"{line}; its last log lines:", *log]) if log else line
