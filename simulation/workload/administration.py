"""Sends an operator's requests to the simulated cluster: reassignment, elections, settings, deletion of records.

Any request may get lost.
"""

from __future__ import annotations

from broker.core.messages import (
    AlterPartitionReassignmentsRequest,
    AnyRequest,
    ConfigOperation,
    ConfigResource,
    CreatePartitionsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    NewPartitions,
    Reassignment,
)
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import brokers, leading, partition_states
from simulation.scenario.configuration import Configuration
from simulation.workload.clients import TOPIC

ADMINISTRATOR = 9_999
"""Client endpoint of administrative requests."""

_PATIENCE_MS = 1_000
_TOPIC_RESOURCE = 2


class Administration:
    """Requests about the one topic, sent to the first broker that is up."""

    def __init__(self, cluster: SimulatedCluster, configuration: Configuration) -> None:
        self._cluster = cluster
        self._configured_min_isr = configuration.min_insync_replicas
        self._brokers = range(1, configuration.brokers + 1)
        self._next = 1
        self.deleted: dict[int, int] = {}
        """Partition -> the offset below which everything was to be deleted."""

    def assign(self, partition: int, replicas: tuple[int, ...] | None) -> None:
        """RA-1: assign these replicas to a partition; None cancels a reassignment in progress."""
        self._ask(AlterPartitionReassignmentsRequest((Reassignment(TOPIC, partition, replicas),), _PATIENCE_MS))

    def add_partition(self, most: int) -> None:
        """Add a partition, if there are fewer than `most`."""
        count = len(partition_states(self._cluster))
        if 0 < count < most:
            self._ask(CreatePartitionsRequest((NewPartitions(TOPIC, count + 1),), _PATIENCE_MS))

    def elect(self, kind: int, partitions: tuple[int, ...] | None) -> None:
        """EL-7, EL-8: elect leaders, preferred (0) or unclean (1) ones; of all topics without `partitions`."""
        chosen = None if partitions is None else tuple((TOPIC, number) for number in partitions)
        if chosen is None or chosen:
            self._ask(ElectLeadersRequest(kind, chosen, _PATIENCE_MS))

    def move_leader(self, partition: int, choice: int) -> None:
        """Make another member of the ISR the preferred replica, and have it elected."""
        states = partition_states(self._cluster)
        if partition >= len(states):
            return
        state = states[partition]
        others = [member for member in state.isr if member != state.leader and member in state.replicas]
        if not others or state.adding or state.removing:
            return
        chosen = others[choice % len(others)]
        self.assign(partition, (chosen, *(member for member in state.replicas if member != chosen)))
        self.elect(0, (partition,))

    def delete_records(self, partition: int, above: int) -> int:
        """LO-3: delete the records before a leader's high watermark plus `above`; returns the leader."""
        states = partition_states(self._cluster)
        leader = states[partition].leader if partition < len(states) else -1
        state = dict(brokers(self._cluster)).get(leader)
        replica = state.replicas.get((TOPIC, partition)) if state is not None else None
        if replica is not None:
            part = DeleteRecordsPartition(TOPIC, partition, max(0, replica.high_watermark + above))
            self.deleted[partition] = max(part.offset, self.deleted.get(partition, 0))
            self._send(leader, DeleteRecordsRequest((part,), _PATIENCE_MS))
        return leader

    def set_min_isr(self, value: int) -> None:
        """ELR-6: change the topic's min ISR."""
        operation = ConfigOperation("min.insync.replicas", 0, str(value))
        self._ask(IncrementalAlterConfigsRequest((ConfigResource(_TOPIC_RESOURCE, TOPIC, (operation,)),)))

    def min_isr(self) -> int:
        """Min ISR of the topic according to the active controller."""
        controller = leading(self._cluster)
        configured = self._configured_min_isr
        return controller.image.min_insync_replicas(TOPIC, configured) if controller is not None else configured

    def min_isr_differs(self) -> bool:
        """Whether any topic has another min ISR than the test began with, according to the active controller."""
        controller = leading(self._cluster)
        configured = self._configured_min_isr
        names = ("", *controller.image.topics) if controller is not None else ()
        return any(controller.image.min_insync_replicas(name, configured) != configured for name in names if controller)

    def restore_min_isr(self) -> None:
        """Repeat the request until min ISR has its configured value."""
        if self.min_isr() != self._configured_min_isr or leading(self._cluster) is None:
            self.set_min_isr(self._configured_min_isr)
            self._cluster.after(1_000 * MS, self.restore_min_isr)

    def _ask(self, request: AnyRequest) -> None:
        alive = [node for node in self._brokers if self._cluster.machines[node].node is not None]
        if alive:
            self._send(alive[0], request)

    def _send(self, broker: int, request: AnyRequest) -> None:
        self._cluster.send_from_client(ADMINISTRATOR, self._next, broker, request, 2_000)
        self._next += 1
