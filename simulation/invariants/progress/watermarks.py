"""Checks that a leader's high watermark does not wait for what the leader knows (V-22, HW-4).

Of a leader that runs: if its own log and all that the maximal ISR has fetched are further, and the ISR is large enough,
the next step of any kind must have moved it. It is looked at twice a virtual second, and may lag once.
"""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.replica.state import Replica, Role
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import broker_state
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.progress.calm import INTERVAL_US
from simulation.invariants.properties import Violation


def check(known: Knowledge, cluster: SimulatedCluster) -> None:
    """V-22, twice a virtual second."""
    waiting = known.calm.waiting
    found: dict[tuple[int, str, int], tuple[int, int]] = {}
    for broker_id in known.brokers:
        state = broker_state(cluster.machines[broker_id].node)
        if state is None:
            continue
        running_us = known.calm.running_since(broker_id)
        for replica in state.replicas.values():
            end = _known_end(state, replica)
            if end <= replica.high_watermark:
                continue
            key = (broker_id, *replica.key)
            noted, since_us = waiting.get(key, (replica.high_watermark, cluster.now_us))
            if noted != replica.high_watermark:
                since_us = cluster.now_us
            found[key] = replica.high_watermark, since_us
            if cluster.now_us - max(since_us, running_us) >= INTERVAL_US:
                raise Violation(
                    "V-22",
                    f"{replica.topic}-{replica.partition}: leader {broker_id} has left its high watermark at "
                    f"{replica.high_watermark} for {(cluster.now_us - since_us) // MS} ms, though it knows that all of "
                    f"the ISR {list(replica.isr)} are at {end} or further",
                )
    waiting.clear()
    waiting.update(found)


def _known_end(state: BrokerState, replica: Replica) -> int:
    """HW-1 to HW-3: up to where a leader knows records to be committed; -1 if it may not move the high watermark."""
    if replica.role is not Role.LEADER or len(replica.isr) < replica.effective_min_isr:
        return -1
    held = state.image.partition(replica.topic, replica.partition)
    if held is None or held.partition_epoch < replica.partition_epoch:
        return -1  # it does not know the min ISR of this ISR yet (HW-3)
    pending = replica.pending_isr.isr if replica.pending_isr is not None else ()
    end = replica.reported_end
    for member in {*replica.isr, *pending}:
        if member != replica.broker_id:
            remote = replica.remotes.get(member)
            end = min(end, -1 if remote is None else remote.log_end)
    return end
