"""Limits data losses to what the contract allows, so that any record lost in a simulation is a broker defect (ST-8).

A broker is in a *lossy window* from a loss until its next incarnation is in the ISR of all partitions that it
replicates. The number of open windows is limited, and within its window a broker may lose more only while no partition
counts on it. A change of min ISR makes the controller forget the eligible leaders (ELR-6), which protect from the next
loss: the change waits until no window is open, and losses wait until the ISR is whole.
"""

from __future__ import annotations

from collections.abc import Callable

from simulation.engine.cluster import SimulatedCluster
from simulation.engine.node_views import broker_state, leading, partition_states


class Losses:
    """The lossy windows of a cluster's brokers, at most `limit` at a time."""

    def __init__(self, cluster: SimulatedCluster, limit: int, min_isr_is_changed: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._limit = limit
        self._min_isr_is_changed = min_isr_is_changed
        self._open: dict[int, int] = {}  # broker -> its incarnation when it lost data, the last one if it was down
        self._forgotten = False  # the eligible leaders were forgotten, and the ISR was not whole since

    def allow(self, broker: int) -> bool:
        """Whether this broker may lose data now."""
        self._refresh()
        if self._forgotten:
            return False
        return not self._is_counted_on(broker) if broker in self._open else len(self._open) < self._limit

    def open(self, broker: int) -> None:
        """Open the window of a broker that is about to lose data."""
        self._open[broker] = self._cluster.machines[broker].incarnation

    def allow_change_of_min_isr(self) -> bool:
        """Whether no window is open."""
        self._refresh()
        return not self._open

    def forget_eligible(self) -> None:
        """Record that min ISR changes now."""
        self._forgotten = True

    def _is_counted_on(self, broker: int) -> bool:
        """Whether a broker in its window may hold the only copy of a record again, as the leader of a recovery does."""
        if self._cluster.machines[broker].incarnation == self._open[broker]:
            return False  # it has not started since
        members = (member for state in partition_states(self._cluster) for member in (*state.isr, *state.elr))
        return leading(self._cluster) is None or broker in members

    def _refresh(self) -> None:
        for broker in [broker for broker, incarnation in self._open.items() if self._is_whole(broker, incarnation)]:
            del self._open[broker]
        if self._forgotten and not self._min_isr_is_changed():
            states = partition_states(self._cluster)
            self._forgotten = not states or any(set(state.isr) != set(state.replicas) for state in states)

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
            broker in one.isr for one in partition_states(self._cluster) if broker in one.replicas
        )
