"""Checks that brokers register in time (V-17), and that brokers and standby controllers follow the metadata (V-18).

During faults, of a node that runs and reaches a controller with a majority of the voters. What it has to reach is what
was committed a bound ago, so that new changes do not excuse it.
"""

from __future__ import annotations

from broker.core.broker_node import publishing
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import broker_state, controller_state
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.properties import Violation

_FETCHES = 3
"""A broker's fetch that is lost with the last fault, and those to the other two voters, which it asks next."""


def check(known: Knowledge, cluster: SimulatedCluster, patience_us: int, *, works: bool) -> None:
    """V-17 and V-18, twice a virtual second. `patience_us`: what a change of the metadata may take."""
    for node_id, machine in cluster.machines.items():
        broker, controller = broker_state(machine.node), controller_state(machine.node)
        if controller is not None:
            _check_follows(known, cluster, (node_id, True), controller.quorum.high_watermark, patience_us, works=works)
        if broker is None:
            known.calm.unregistered.pop(node_id, None)
            continue
        _check_follows(known, cluster, (node_id, False), broker.image.end_offset, patience_us, works=works)
        is_active = known.image.is_active(node_id) and known.image.broker_epoch(node_id) == broker.broker_epoch
        if is_active or broker.stop_wanted:
            known.calm.unregistered.pop(node_id, None)
        else:
            _check_registers(known, cluster.now_us, node_id, patience_us, works=works)


def registers_within_us(known: Knowledge, patience_us: int) -> int:
    """How long a broker may take: the session of its last life, the registration, and two heartbeats (HB-2, BL-3)."""
    settings = known.settings
    waits_ms = settings.broker_session_timeout_ms + 2 * settings.broker_heartbeat_interval_ms
    return 2 * patience_us + (waits_ms + settings.metadata_fetch_wait_max_ms) * MS


def _check_registers(known: Knowledge, now_us: int, broker_id: int, patience_us: int, *, works: bool) -> None:
    calm = known.calm
    since_us = max(calm.unregistered.setdefault(broker_id, now_us), calm.since(broker_id), calm.majority_us)
    if works and now_us - since_us > registers_within_us(known, patience_us):
        raise Violation(
            "V-17",
            f"broker {broker_id} is not registered as active by the committed metadata, after "
            f"{(now_us - since_us) // MS} ms in which nothing has disturbed it",
        )


def _check_follows(
    known: Knowledge, cluster: SimulatedCluster, key: tuple[int, bool], end: int, patience_us: int, *, works: bool
) -> None:
    calm, now_us = known.calm, cluster.now_us
    wanted, asked_us = calm.behind.get(key, (-1, 0))
    if end >= wanted:
        calm.behind[key] = known.image.end_offset, now_us
        return
    node_id, votes = key
    # after a lost answer a broker asks the other voters first, which may be frozen
    lost_us = 0 if votes else cluster.network.lost_us.get((node_id, publishing.CHANNEL), 0)
    since_us = max(asked_us, calm.since(node_id), calm.majority_us, lost_us)
    # a fetch times out later than other requests, by its wait; so does each to a voter that cannot be reached
    fetches = 1 if votes else _FETCHES
    if works and now_us - since_us > patience_us + fetches * known.settings.metadata_fetch_wait_max_ms * MS:
        raise Violation(
            "V-18",
            f"{'controller' if votes else 'broker'} {node_id} knows the metadata up to {end}; {wanted} were committed "
            f"{(now_us - asked_us) // MS} ms ago, and nothing has disturbed it for {(now_us - since_us) // MS} ms",
        )
