"""A recipe at work: what its steps may ask and inject, and how they are played in virtual time.

A recipe is a generator: it injects faults through the nemesis, and yields for how long to wait, or for what. Who leads
and who follows is decided when a step needs it, as the active controller sees it; a recipe that finds nobody ends.

All choices of a recipe (delays, durations, whom) are digits of one number, the fault's parameter; zero is the simplest.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol, TypeVar

from broker.core.metadata.records import PartitionState
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import active_controller, leading, partition_states
from simulation.workload.administration import Administration

Wait = int | Callable[[], bool]
"""Milliseconds, or a condition, which is given `_PATIENCE_MS`."""

Steps = Generator[Wait, None, None]

_PATIENCE_MS = 6_000
_CHECK_MS = 10

_T = TypeVar("_T")

CHANNELS = CONTROL, QUORUM, REPLICATION, RECOVERY = "control", "quorum", "replication", "recovery"
"""Connections between nodes: what is sent on one keeps its order, and each may be late by itself."""

METADATA = "metadata"
"""The connection on which a broker learns what is committed; `late-metadata` holds its answers."""


class Injector(Protocol):
    """What a recipe needs of the nemesis."""

    def inject(self, kind: str, node: int, duration_ms: int, parameter: int = 0) -> None:
        """Inject a fault on a node, for a while."""

    def hold(self, source: int, target: int, channel: str, duration_ms: int) -> None:
        """Let the messages of one channel, from one node to another, wait for a while."""


class Recipe:
    """One recipe at work: whom it is about, and what it draws."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        brokers: list[int],
        controllers: list[int],
        injector: Injector,
        operator: Administration,
        parameter: int,
    ) -> None:
        self._cluster = cluster
        self._digits = parameter
        self.inject = injector.inject
        self.hold = injector.hold
        self.operator = operator
        self.partition: int = self.pick(*range(max(1, len(partition_states(cluster)))))
        self.brokers = brokers
        self.controllers = controllers

    def pick(self, *choices: _T) -> _T:
        """The next choice."""
        self._digits, index = divmod(self._digits, len(choices))
        return choices[index]

    def soon(self) -> int:
        """A short wait, in ms."""
        return self.pick(0, 2, 5, 10, 20, 50, 150, 600)

    def state(self) -> PartitionState:
        """The partition as the active controller sees it. Raises `Nobody`."""
        states: list[PartitionState] = partition_states(self._cluster)
        if not states:
            raise Nobody
        return states[min(self.partition, len(states) - 1)]

    def leader(self) -> int:
        """Who leads the partition. Raises `Nobody`."""
        leader = self.state().leader
        if leader < 0:
            raise Nobody
        return leader

    def follower(self) -> int:
        """A replica that does not lead, in sync if there is one. Raises `Nobody`."""
        state = self.state()
        in_sync = [one for one in state.isr if one != state.leader]
        others = in_sync or [one for one in state.replicas if one != state.leader]
        if not others:
            raise Nobody
        return self.pick(*others)

    def controller(self) -> int:
        """The active controller. Raises `Nobody`."""
        found = active_controller(self._cluster)
        if found is None:
            raise Nobody
        return found

    def is_up(self, node: int) -> bool:
        """Whether the node's process runs."""
        return self._cluster.machines[node].node is not None

    def take_down(self, node: int, duration_ms: int) -> None:
        """Have a node lose its page cache or only die; that too where no loss is allowed now."""
        kind = self.pick("kill", "page-cache-loss")
        self.inject(kind, node, duration_ms, self.pick(2, 0))
        if self.is_up(node):
            self.inject("kill", node, duration_ms)

    def recovers(self) -> bool:
        """Whether the active controller compares logs for an unclean recovery."""
        found = leading(self._cluster)
        return found is not None and bool(found.recoveries)

    def assign(self, replicas: tuple[int, ...] | None) -> None:
        """Assign replicas, or cancel that; never fewer than min ISR, which might not survive a loss that is allowed."""
        if replicas is None or len(replicas) >= self.operator.min_isr():
            self.operator.assign(self.partition, replicas)

    def replace_leader(self, leader: int) -> None:
        """Have another member of the ISR lead: by election, or because the leader dies, or seems to."""
        how = self.pick("elect", "kill", "isolate", "restart", "pause")
        if how == "elect":
            self.operator.move_leader(self.partition, self.pick(0, 1))
        else:
            self.inject(how, leader, self.pick(4_500, 1_500, 9_000))


class Nobody(Exception):
    """No node has the role that a recipe needs."""


def play(cluster: SimulatedCluster, steps: Steps, is_over: Callable[[], bool]) -> None:
    """Let a recipe go on until it ends, finds nobody, or the faults are over."""

    def go_on() -> None:
        if is_over():
            steps.close()
            return
        try:
            wait = next(steps)
        except (StopIteration, Nobody):
            return
        if isinstance(wait, int):
            cluster.after(wait * MS, go_on)
        else:
            check(wait, cluster.now_us + _PATIENCE_MS * MS)

    def check(condition: Callable[[], bool], until_us: int) -> None:
        try:
            holds = condition()
        except Nobody:
            holds = False
        if holds or is_over():
            go_on()
        elif cluster.now_us < until_us:
            cluster.after(_CHECK_MS * MS, check, condition, until_us)

    go_on()
