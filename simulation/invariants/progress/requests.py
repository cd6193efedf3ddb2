"""Checks that what administrators ask for is answered in time (V-16), by controllers and by brokers that forward it.

During faults. A broker knows when it has to give up, so only a fault of its own process excuses it. An active
controller answers as soon as it can commit, so it is excused while no majority of the voters is undisturbed; one that
is active no more answers in the step in which it learns that.
"""

from __future__ import annotations

from typing import NoReturn

from broker.core.messages import AnyRequest, ElectLeadersRequest
from broker.core.node import CombinedNode
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import broker_state, controller_state
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.progress.calm import INTERVAL_US
from simulation.invariants.properties import Violation

_BROKER, _CONTROLLER = "broker", "controller"


def check(known: Knowledge, cluster: SimulatedCluster, patience_us: int, *, works: bool) -> None:
    """V-16, twice a virtual second. `patience_us`: what a change of the metadata may take."""
    calm, now_us = known.calm, cluster.now_us
    waiting, calm.waiting = calm.waiting, {}
    for (node_id, number), request in known.administered.forwarded.items():
        if _has_ended(cluster, node_id):
            continue
        key = (_BROKER, node_id, number)
        calm.waiting[key] = waiting.get(key, now_us)
        since_us = max(calm.waiting[key], calm.running_since(node_id))
        if now_us - since_us > gives_up_within_us(known, request):
            _fail(_BROKER, node_id, request, now_us - since_us)
    for (node_id, number), decision in known.administered.decisions.items():
        state = controller_state(cluster.machines[node_id].node)
        if state is None:
            continue
        if not state.active:
            _fail("former controller", node_id, decision.request, 0)
        key = (_CONTROLLER, node_id, number)
        calm.waiting[key] = waiting.get(key, now_us)
        since_us = max(calm.waiting[key], calm.since(node_id), calm.majority_us)
        waits_us = decision.request.timeout_ms * MS if isinstance(decision.request, ElectLeadersRequest) else 0
        if works and now_us - since_us > patience_us + waits_us:
            _fail(_CONTROLLER, node_id, decision.request, now_us - since_us)


def gives_up_within_us(known: Knowledge, request: AnyRequest) -> int:
    """How long a broker may keep a request that it has forwarded, whatever becomes of it elsewhere."""
    settings = known.settings
    waits_ms = getattr(request, "timeout_ms", 0) + settings.request_timeout_ms + settings.metadata_retry_backoff_ms
    return int(waits_ms) * MS + 2 * INTERVAL_US


def _has_ended(cluster: SimulatedCluster, node_id: int) -> bool:
    """Whether a broker may have stopped without the controller in the same process."""
    node = cluster.machines[node_id].node
    state = broker_state(node)
    return state is None or (isinstance(node, CombinedNode) and state.stop_wanted)


def _fail(role: str, node_id: int, request: AnyRequest, for_us: int) -> NoReturn:
    raise Violation("V-16", f"{role} {node_id} has not answered {request}, after {for_us // MS} ms without a fault")
