"""Samples the replicas during a simulation: the rows of the table `cluster`, as in a real run."""

from __future__ import annotations

from typing import NamedTuple

from broker.core.replica.state import Replica
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import broker_state

INTERVAL_US = 500 * MS


class ReplicaSample(NamedTuple):
    """One replica as its broker saw it; the columns of the table `cluster`."""

    at_ns: int
    broker: int
    topic: str
    partition: int
    role: str
    leader: int
    leader_epoch: int
    log_start: int
    log_end: int
    high_watermark: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    broker_epoch: int


class ReplicaSampler:
    """An observer that samples a broker's replicas at intervals, and whenever leader or ISR have changed."""

    def __init__(self) -> None:
        self.samples: list[ReplicaSample] = []
        self._due_us: dict[int, int] = {}
        self._seen: dict[tuple[int, tuple[str, int]], tuple[object, ...]] = {}

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """See `Observer.after`."""
        state = broker_state(cluster.machines[step.node_id].node)
        if state is None:
            return
        due = cluster.now_us >= self._due_us.get(step.node_id, 0)
        if due:
            self._due_us[step.node_id] = cluster.now_us + INTERVAL_US
        for key, replica in state.replicas.items():
            standing = (replica.role, replica.leader, replica.leader_epoch, replica.isr, replica.elr)
            if due or self._seen.get((step.node_id, key)) != standing:
                self._seen[step.node_id, key] = standing
                self.samples.append(_sample(cluster.now_us, replica, state.broker_epoch))

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """See `Observer.crashed`. A dead broker has no replicas to sample."""


def _sample(now_us: int, replica: Replica, broker_epoch: int) -> ReplicaSample:
    return ReplicaSample(
        now_us * MS,
        replica.broker_id,
        replica.topic,
        replica.partition,
        replica.role.value,
        replica.leader,
        replica.leader_epoch,
        replica.log.start_offset,
        replica.log.end_offset,
        replica.high_watermark,
        replica.isr,
        replica.elr,
        broker_epoch,
    )
