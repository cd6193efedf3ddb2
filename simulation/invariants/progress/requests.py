"""Checks that every request is answered in time (V-16), during faults too, and that no wait lasts too long (V-25).

A broker knows when it has to give up, so only a fault of its own process excuses it; a disconnect ends the request. An
active controller answers as soon as it can commit, so it is excused while no majority of the voters is undisturbed; one
that is active no more answers administrators in the step in which it learns that.

Only for a controller's answer, or for other members of a group, has a node to wait whatever its clock says. All else it
answers at once, or when the time is up that the request, or a setting, gives it.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.configuration.settings import CONTROLLER_LISTENER, Settings
from broker.core.messages import AnyRequest, FetchRequest, InitProducerIdRequest, ProduceRequest
from broker.core.messages.groups import (
    DeleteGroupsRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    SyncGroupRequest,
)
from broker.core.messages.refusals import ADMINISTRATION
from broker.core.node import CombinedNode
from broker.core.ports.events import CloseConnection, Disconnected, Reply, RequestReceived
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.machine import SimulatedMachine
from simulation.engine.node_views import controller_state, controllers
from simulation.invariants.knowledge import Knowledge, OpenRequests
from simulation.invariants.progress.calm import INTERVAL_US
from simulation.invariants.properties import Violation

_OF_GROUPS = (
    JoinGroupRequest
    | SyncGroupRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | OffsetDeleteRequest
    | DeleteGroupsRequest
)
"""Those that may wait for other members, or for a record of the group to be committed."""

_OF_OTHERS = JoinGroupRequest | SyncGroupRequest | InitProducerIdRequest
"""Those that wait for what members of the group, or a controller, do, beside what is passed on to controllers."""

_WAITS_FOR_OTHERS = ADMINISTRATION | _OF_OTHERS

_GROUP_MS = 10_000
"""What the members of a group may keep each other waiting: a rebalance and a session of the simulation's groups."""


def stepped(known: Knowledge, step: EventStep, incarnation: int, now_us: int) -> None:
    """Note what a node has been asked in this step, and what it has answered."""
    open_requests = known.unanswered.get(step.node_id)
    if open_requests is None or open_requests.incarnation != incarnation:
        open_requests = known.unanswered[step.node_id] = OpenRequests(incarnation)
    waiting = open_requests.waiting
    event = step.event
    if event.__class__ is RequestReceived:
        assert isinstance(event, RequestReceived)
        waiting[event.request_id] = now_us, event
    elif event.__class__ is Disconnected:
        assert isinstance(event, Disconnected)
        ended = _closed(open_requests, event.connection)
        if not _has_ended(known, event.connection):  # else it does not ask again
            open_requests.given_up += [(at_us, now_us, one) for at_us, one in ended]
    for effect in step.effects:
        if effect.__class__ is Reply:
            assert isinstance(effect, Reply)
            if waiting.pop(effect.request_id, None) is None and effect.request_id not in open_requests.unheard:
                raise Violation("P-66", f"node {step.node_id} answers the request {effect.request_id} twice")
            open_requests.unheard.discard(effect.request_id)
        elif effect.__class__ is CloseConnection:
            assert isinstance(effect, CloseConnection)
            _closed(open_requests, effect.connection)


def _has_ended(known: Knowledge, sender: int) -> bool:
    """Whether a connection ended with the process of the node that had opened it."""
    machine = known.cluster.machines.get(sender)
    return machine is not None and machine.node is None


def _closed(open_requests: OpenRequests, connection: int) -> list[tuple[int, RequestReceived]]:
    """A connection ended; nothing that came in through it need be answered. Returns what was not."""
    waiting = open_requests.waiting
    ended = [number for number, (_, event) in waiting.items() if event.connection == connection]
    open_requests.unheard.update(ended)
    return [waiting.pop(number) for number in ended]


def check(known: Knowledge, cluster: SimulatedCluster, patience_us: int, *, works: bool) -> None:
    """V-16 and V-25, twice a virtual second. `patience_us`: what a change of the metadata may take."""
    for (node_id, _), decision in known.administered.decisions.items():
        state = controller_state(cluster.machines[node_id].node)
        if state is not None and not state.active:
            raise Violation("V-16", f"former controller {node_id} has not answered {decision.request}")
    for node_id, state in controllers(cluster):
        if not state.active and state.elections:
            raise Violation("V-16", f"former controller {node_id} keeps requests for elections")
    calm, now_us = known.calm, cluster.now_us
    for node_id, open_requests in known.unanswered.items():
        machine = cluster.machines[node_id]
        node = machine.node
        if node is None or machine.incarnation != open_requests.incarnation:
            continue
        given_up, open_requests.given_up = open_requests.given_up, []
        asked = [one for one in given_up if _is_of_controller(machine, one[2])]
        if works:
            _check_given_up(known, node_id, asked, patience_us)
        for arrived_us, event in open_requests.waiting.values():
            is_controller = _is_of_controller(machine, event)
            own_ms = own_time_ms(known.settings, event.request, is_controller=is_controller)
            if own_ms is not None and not (isinstance(node, CombinedNode) and node.broker.state.stop_wanted):
                waits_us = now_us - max(arrived_us, calm.running_since(node_id))
                if waits_us > own_ms * MS + 2 * INTERVAL_US:
                    raise Violation(
                        "V-25",
                        f"node {node_id} keeps {event.request} of {event.connection} for {waits_us // MS} ms; it may "
                        f"wait for {own_ms} ms",
                    )
            if is_controller:
                since_us = max(arrived_us, calm.since(node_id), calm.majority_us)
                if not works or now_us - since_us <= patience_us + _own_wait_us(event):
                    continue
            elif isinstance(node, CombinedNode) and node.broker.state.stop_wanted:
                continue
            else:
                since_us = max(arrived_us, calm.running_since(node_id))
                if now_us - since_us <= answers_within_us(known, event):
                    continue
            role = "controller" if is_controller else "broker"
            raise Violation(
                "V-16",
                f"{role} {node_id} has not answered {event.request} of {event.connection}, after "
                f"{(now_us - since_us) // MS} ms without a fault",
            )


def _is_of_controller(machine: SimulatedMachine, event: RequestReceived) -> bool:
    """Whether a request came to a node's controller."""
    return not machine.settings.is_broker or event.listener == CONTROLLER_LISTENER


def _check_given_up(
    known: Knowledge, node_id: int, given_up: Sequence[tuple[int, int, RequestReceived]], patience_us: int
) -> None:
    """Of a controller that nothing had disturbed for long when it was asked: its sender need not wait in vain.

    Brokers give up sooner than the bound of V-16, and ask again: they would never get an answer.
    """
    since_us = max(known.calm.since(node_id), known.calm.majority_us) + patience_us
    for arrived_us, ended_us, event in given_up:
        if arrived_us < since_us or _own_wait_us(event):
            continue
        if 2 * (ended_us - arrived_us) > known.settings.request_timeout_ms * MS:
            raise Violation(
                "V-16",
                f"controller {node_id} has not answered {event.request} of {event.connection}, whose sender gave up "
                f"after {(ended_us - arrived_us) // MS} ms, though nothing had disturbed it",
            )


def own_time_ms(settings: Settings, request: AnyRequest, *, is_controller: bool) -> int | None:
    """How long a node that runs may keep a request by its own clock; None if it waits for what others do."""
    if isinstance(request, FetchRequest):
        return max(0, request.max_wait_ms)
    if is_controller or isinstance(request, _WAITS_FOR_OTHERS):
        return None
    if isinstance(request, ProduceRequest):
        return max(0, request.timeout_ms)
    if isinstance(request, OffsetCommitRequest | OffsetDeleteRequest | DeleteGroupsRequest):
        return settings.offsets_commit_timeout_ms
    return 0


def answers_within_us(known: Knowledge, event: RequestReceived) -> int:
    """How long a broker may keep a request: what the sender lets it wait, and a request of its own to a controller."""
    settings = known.settings
    own_ms = settings.request_timeout_ms + settings.metadata_retry_backoff_ms
    return own_ms * MS + _own_wait_us(event) + 2 * INTERVAL_US


def _own_wait_us(event: RequestReceived) -> int:
    """What the sender of a request lets it wait."""
    request = event.request
    if isinstance(request, _OF_GROUPS):
        return _GROUP_MS * MS
    return int(getattr(request, "timeout_ms", 0) + getattr(request, "max_wait_ms", 0)) * MS
