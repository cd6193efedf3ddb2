"""Limits data losses to what the contract allows, so that any record lost in a simulation is a broker defect (ST-8).

The windows are those of real clusters (`nemesis.loss_budget`). Here a broker's window lasts until its next incarnation
is in the ISR of all partitions that it replicates, and within its window a broker may lose more, but only while no
partition counts on it. A log directory that fails loses nothing, as a kill loses nothing: what was written is there
again after a restart. But a window stays open as long as a directory of its broker fails, whose replicas are in no ISR.
"""

from __future__ import annotations

from collections.abc import Callable

from nemesis.loss_budget import LossWindows
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.node_views import broker_state, every_partition, leading


class SimulatedLossBudget:
    """The lossy windows of a simulated cluster's brokers, at most `limit` at a time."""

    def __init__(self, cluster: SimulatedCluster, limit: int, min_isr_differs: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._windows = LossWindows(limit)
        self._min_isr_differs = min_isr_differs  # from the one that the test began with
        self._lost_in: dict[int, int] = {}  # broker -> its incarnation when it lost data, the last one if it was down

    def allow(self, broker: int) -> bool:
        """Whether this broker may lose data now."""
        self._refresh()
        if broker in self._windows.in_window:
            return not self._windows.forgotten and not self._is_counted_on(broker)
        return self._windows.allows(1)

    def open(self, broker: int) -> None:
        """Open the window of a broker that is about to lose data."""
        self._windows.open((broker,))
        self._lost_in[broker] = self._cluster.machines[broker].incarnation

    def allow_change_of_min_isr(self) -> bool:
        """Whether no window is open."""
        self._refresh()
        return self._windows.allows_forgetting()

    def min_isr_changes(self) -> None:
        """Record that min ISR changes now, so that the controller forgets which replicas are complete."""
        self._windows.forget()

    def min_isr_is_back(self) -> None:
        """Record that such a change was undone."""
        self._windows.remembered()

    def _is_counted_on(self, broker: int) -> bool:
        """Whether a broker in its window may hold the only copy of a record again, as the leader of a recovery does."""
        if self._cluster.machines[broker].incarnation == self._lost_in[broker]:
            return False  # it has not started since
        members = (member for *_, state in every_partition(self._cluster) for member in (*state.isr, *state.elr))
        return leading(self._cluster) is None or broker in members

    def _refresh(self) -> None:
        self._windows.close(one for one in self._windows.in_window if self._is_whole(one, self._lost_in[one]))
        if self._windows.forgotten and not self._min_isr_differs():
            partitions = every_partition(self._cluster)
            if partitions and all(set(state.isr) == set(state.replicas) for *_, state in partitions):
                self._windows.all_complete()

    def _is_whole(self, broker: int, lost_in: int) -> bool:
        """Whether a later incarnation is registered and in sync.

        The registration that the controller knows must be that of this incarnation: a controller that was deposed, or
        has not noticed the crash yet, still has the ISR from before.
        """
        machine, controller = self._cluster.machines[broker], leading(self._cluster)
        state = broker_state(machine.node)
        if machine.incarnation <= lost_in or state is None or controller is None or state.broker_epoch < 0:
            return False
        return controller.image.broker_epoch(broker) == state.broker_epoch and all(
            broker in one.isr for *_, one in every_partition(self._cluster) if broker in one.replicas
        )
