"""Evaluates the conditions of directed schedules: one function per condition, by its name in schedule files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from broker.core.broker_node.state import BrokerState
from broker.core.metadata.records import PartitionState
from broker.core.replica.leader import maximal_isr
from broker.core.replica.state import Replica
from simulation.directed.client import DirectedClient
from simulation.directed.messages import Traps
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.node_views import active_controller, brokers, controllers, leading, partition_states
from simulation.workload.clients import TOPIC
from simulation.workload.recording import SimulatedHistory

Wanted = Any
"""A value in a schedule file; TOML has only a few types, and a value of a wrong type never equals the actual one."""

NOTHING = "nothing"


class Scene(Protocol):
    """The objects that conditions read."""

    @property
    def cluster(self) -> SimulatedCluster: ...
    @property
    def client(self) -> DirectedClient: ...
    @property
    def traps(self) -> Traps: ...
    @property
    def history(self) -> SimulatedHistory: ...


def shortfall(scene: Scene, wanted: Mapping[str, Wanted]) -> str | None:
    """The first condition that does not hold: what was expected, what was found; None if all hold."""
    for name, value in wanted.items():
        if name in ("within", "property"):
            continue
        found = _PRESENT[name](scene, value)
        if not _equal(name, found, value):
            return f"expected {name} = {value}, found {found}"
    return None


_SETS = ("isr", "elr", "last_known_elr", "replicas")
_SUBSETS = (
    "fenced",
    "unfenced",
    "stopping",
    "acked",
    "refused",
    "unanswered",
    "up",
    "down",
    "told",
    "not_leading",
    "seen",
)


def _equal(name: str, found: Wanted, wanted: Wanted) -> bool:
    if name in _SETS:
        return found != NOTHING and sorted(found) == sorted(wanted)
    if name in _SUBSETS:
        return set(wanted) <= set(found)
    if name == "quorum_epoch_below":
        return bool(found < wanted)
    if name == "held":
        return all(found.get(label, 0) >= count for label, count in wanted.items())
    return bool(found == wanted)


def _state(scene: Scene) -> PartitionState | None:
    states = partition_states(scene.cluster)
    return states[0] if states else None


def _of_partition(field: str) -> Callable[[Scene, Wanted], Wanted]:
    def present(scene: Scene, _: Wanted) -> Wanted:
        state = _state(scene)
        value = NOTHING if state is None else getattr(state, field)
        return list(value) if isinstance(value, tuple) else value

    return present


def _of_replicas(read: Callable[[Replica, BrokerState], Wanted]) -> Callable[[Scene, Wanted], Wanted]:
    def present(scene: Scene, wanted: Wanted) -> Wanted:
        up = dict(brokers(scene.cluster))
        found = {}
        for node in wanted:
            replica = up[int(node)].replicas.get((TOPIC, 0)) if int(node) in up else None
            found[node] = NOTHING if replica is None else read(replica, up[int(node)])
        return found

    return present


def _registered(wanted_fenced: bool) -> Callable[[Scene, Wanted], Wanted]:
    def present(scene: Scene, _: Wanted) -> Wanted:
        state = leading(scene.cluster)
        members = state.image.brokers.values() if state is not None else ()
        return [member.broker_id for member in members if member.fenced == wanted_fenced]

    return present


def _stopping(scene: Scene, _: Wanted) -> Wanted:
    state = leading(scene.cluster)
    members = state.image.brokers.values() if state is not None else ()
    return [member.broker_id for member in members if member.in_controlled_shutdown]


def _sent(*statuses: str | None) -> Callable[[Scene, Wanted], Wanted]:
    def present(scene: Scene, _: Wanted) -> Wanted:
        return [value for send in scene.client.sends if send.status in statuses for value in send.values]

    return present


def _running(wanted: bool) -> Callable[[Scene, Wanted], Wanted]:
    def present(scene: Scene, _: Wanted) -> Wanted:
        return [node for node, machine in scene.cluster.machines.items() if (machine.node is not None) == wanted]

    return present


def _up_to_date(scene: Scene, _: Wanted) -> Wanted:
    state = leading(scene.cluster)
    if state is None:
        return []
    end = state.quorum.high_watermark
    return [node for node, broker in brokers(scene.cluster) if broker.image.end_offset >= end]


def _of_controllers(read: Callable[[Any], Wanted]) -> Callable[[Scene, Wanted], Wanted]:
    def present(scene: Scene, wanted: Wanted) -> Wanted:
        up = dict(controllers(scene.cluster))
        return {node: read(up[int(node)]) if int(node) in up else NOTHING for node in wanted}

    return present


def _quorum_epoch(scene: Scene, _: Wanted) -> Wanted:
    return max(state.quorum.epoch for _, state in controllers(scene.cluster))


_PRESENT: Mapping[str, Callable[[Any, Wanted], Wanted]] = {
    "isr": _of_partition("isr"),
    "elr": _of_partition("elr"),
    "last_known_elr": _of_partition("last_known_elr"),
    "replicas": _of_partition("replicas"),
    "leader": _of_partition("leader"),
    "leader_epoch": _of_partition("leader_epoch"),
    "fenced": _registered(True),
    "unfenced": _registered(False),
    "stopping": _stopping,
    "acked": _sent("ok"),
    "refused": _sent("fail", "info"),
    "unanswered": _sent(None),
    "high_watermark": _of_replicas(lambda replica, _: replica.high_watermark),
    "log_start": _of_replicas(lambda replica, _: replica.log.start_offset),
    "log_end": _of_replicas(lambda replica, _: replica.log.end_offset),
    "flushed": _of_replicas(lambda replica, _: replica.log.flushed_offset),
    "role": _of_replicas(lambda replica, _: replica.role.value),
    "epoch_at": _of_replicas(lambda replica, _: replica.leader_epoch),
    "leader_at": _of_replicas(lambda replica, _: replica.leader),
    "isr_at": _of_replicas(lambda replica, broker: sorted(maximal_isr(replica, broker.rules))),
    "held": lambda scene, _: dict(scene.traps.counts()),
    "up": _running(True),
    "down": _running(False),
    "told": _up_to_date,
    "controller": lambda scene, _: active_controller(scene.cluster),
    "quorum_role": _of_controllers(lambda state: state.quorum.role.value),
    "quorum_end": _of_controllers(lambda state: state.quorum.log.end_offset),
    "quorum_epoch_below": _quorum_epoch,
    "not_leading": lambda scene, _: [node for node, state in controllers(scene.cluster) if not state.quorum.leads],
    "seen": lambda scene, _: [row.value for row in scene.history.reads],
}
