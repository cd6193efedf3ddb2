"""Counts the steps of a simulation as a model of the protocol would: transitions that a specification has a step for.

A model of the protocol knows which brokers run and are registered, their logs, high watermarks, roles, epochs and
in-sync sets, what a leader knows of its followers, and what the controller has decided about brokers and partitions.
All other events stutter: a request that is refused and retried, a heartbeat without news, a fetch that returns
nothing, elections in the quorum, requests of clients. So an event counts if it changes what a model knows.

A model has one step for sending a fetch, an AlterPartition or a registration, one for its receipt, in which the answer
is made, and one for the receipt of the answer. Here a request is sent during the event that caused it. So sending and
receipt are counted separately as soon as the request or its answer changes anything.
"""

from __future__ import annotations

from collections.abc import Hashable

from broker.core.broker_node.state import BrokerState
from broker.core.messages import AlterPartitionRequest, AnyRequest, BrokerRegistrationRequest, FetchRequest
from broker.core.metadata.records import METADATA_TOPIC
from broker.core.ports.events import Event, RequestReceived, ResponseReceived, Send
from broker.core.replica.state import Replica
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.node_views import broker_state, leading, partition_states
from simulation.workload.clients import TOPIC

Exchange = tuple[int, int]
"""A request and its answer: the requesting node, and its request id."""


class ModelSteps:
    """An observer that counts steps and checks nothing."""

    def __init__(self) -> None:
        self._at_us: list[int] = []
        self._brokers: dict[int, Hashable] = {}
        self._decided: Hashable = ()
        self._asked: dict[int, tuple[AnyRequest, Exchange]] = {}
        self._open: dict[Exchange, bool] = {}
        """Exchanges that a model knows, and whether their sending and receipt have been counted."""

    def after_time(self, at_us: int) -> int:
        """The number of steps after a time, which is in microseconds."""
        return sum(one > at_us for one in self._at_us)

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """See `Observer.after`."""
        steps = self._changes(cluster, step.node_id)
        if steps:
            steps += self._exchanged(step.node_id, step.event)
        self._at_us += [cluster.now_us] * steps
        for effect in step.effects:
            if isinstance(effect, Send) and _is_modelled(effect.request):
                exchange = step.node_id, effect.request_id
                self._asked[id(effect.request)] = effect.request, exchange
                self._open[exchange] = False

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """See `Observer.crashed`."""
        self._at_us += [cluster.now_us] * self._changes(cluster, node_id)

    def _changes(self, cluster: SimulatedCluster, node_id: int) -> int:
        """How many of the node's roles (broker, active controller) know something new."""
        steps = 0
        broker = _broker(broker_state(cluster.machines[node_id].node))
        if broker != self._brokers.get(node_id):
            self._brokers[node_id] = broker
            steps += 1
        decided = _decided(cluster)
        if decided and decided != self._decided:
            self._decided = decided
            steps += 1
        return steps

    def _exchanged(self, node_id: int, event: Event) -> int:
        """Earlier steps of an exchange that led to this event and were not counted when they happened."""
        if isinstance(event, RequestReceived):
            exchange = self._asked[id(event.request)][1] if id(event.request) in self._asked else None
            before = 1  # the sending; the receipt is the event itself
        elif isinstance(event, ResponseReceived):
            exchange = node_id, event.request_id
            before = 2
        else:
            return 0
        if exchange is None or self._open.get(exchange, True):
            return 0
        self._open[exchange] = True
        return before


def _is_modelled(request: AnyRequest) -> bool:
    if isinstance(request, FetchRequest):
        return all(part.topic != METADATA_TOPIC for part in request.partitions)
    return isinstance(request, AlterPartitionRequest | BrokerRegistrationRequest)


def _broker(state: BrokerState | None) -> Hashable:
    if state is None:
        return None
    replicas = (replica for key, replica in sorted(state.replicas.items()) if key[0] == TOPIC)
    return state.broker_epoch, *map(_replica, replicas)


def _replica(replica: Replica) -> Hashable:
    pending = replica.pending_isr
    return (
        replica.role,
        replica.leader,
        replica.leader_epoch,
        replica.partition_epoch,
        replica.high_watermark,
        replica.log.start_offset,
        replica.log.end_offset,
        replica.log.last_epoch,
        frozenset(replica.isr),
        frozenset(replica.elr),
        None if pending is None else frozenset(pending.isr),
        tuple((member, remote.log_end, remote.broker_epoch) for member, remote in sorted(replica.remotes.items())),
    )


def _decided(cluster: SimulatedCluster) -> Hashable:
    """The active controller's view of brokers and of the log's partitions; empty while there is none."""
    state = leading(cluster)
    if state is None:
        return ()
    brokers = ((one.broker_id, one.epoch, one.fenced, one.active) for one in state.image.brokers.values())
    return tuple(sorted(brokers)), tuple(partition_states(cluster))
