"""What all phases of a run work with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.environments.base import Environment, System
from harness.journal import Journal
from harness.progress import Progress
from harness.spec import Spec
from harness.stopping import Failed, Stop
from harness.workers import Worker
from history import HistoryWriter, RunClock
from nemesis.cluster import Node
from nemesis.schedule import Schedule


@dataclass(frozen=True)
class Plan:
    """What is to be run, and where."""

    spec: Spec
    schedule: Schedule
    directory: Path
    reproduce: str  # command line

    @property
    def run_id(self) -> str:
        """Key of this run in all tables."""
        return f"{self.spec.name}-{self.directory.name}"

    @property
    def clients(self) -> Path:
        """Orders and logs of the client processes."""
        return self.directory / "clients"


@dataclass
class Outcome:
    """What the harness itself saw of a run."""

    fired: int = 0
    took_hold: int = 0
    troubles: list[str] = field(default_factory=list)  # why the run may prove less than it should


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
    outcome: Outcome = field(default_factory=Outcome)

    @contextmanager
    def phase(self, name: str, told: str = "") -> Iterator[None]:
        """Announce a phase, and record it when it has ended, however it ends."""
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

    def see_nodes_alive(self, excused: Callable[[], frozenset[int]] = frozenset) -> None:
        """Raise `Failed` with a node's last log lines if one has died that no fault has killed.

        `excused` tells the nodes that a fault holds now. It is asked after a node was seen dead, for a fault may strike
        meanwhile; and if the fault has let go of the node since, the node is alive again.
        """
        for node in self.environment.cluster.nodes.values():
            if not node.is_alive() and node.node_id not in excused() and not node.is_alive():
                raise Failed(last_words(node, "go on", "died of itself"))

    def see_workers_alive(self) -> None:
        """Raise `Failed` with a worker's last log lines if one has ended."""
        for worker in self.workers:
            worker.check()


def last_words(node: Node, expected: str, found: str) -> str:
    """Say in one line what became of a node, with its last log lines below."""
    return with_log(f"expected node {node.node_id} to {expected}, found that it {found}", node.log_tail())


def with_log(line: str, log: Sequence[str]) -> str:
    """Add the last lines of a log to a message."""
    return "\n  ".join([f"{line}; its last log lines:", *log]) if log else line
