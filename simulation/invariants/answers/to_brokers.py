"""Checks that controllers do nothing for a broker's ended incarnations (P-40), judge by no older state (P-41), tell a
broker truly whether it is fenced (P-67), unfence none that wants to stop (P-75), and answer whole reports (P-76).

All are asked when a request has been handled by an active controller: by the registrations and partitions as that
controller has decided them, committed or not.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.controller.state import ControllerState
from broker.core.messages import (
    LOST_DIRECTORY,
    UNKNOWN,
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AnyResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import Effect, Event, Reply, RequestReceived
from simulation.invariants.knowledge import Knowledge, OpenReports
from simulation.invariants.properties import Violation

_OF_INCARNATIONS = frozenset(
    {AllocateProducerIdsRequest, AlterPartitionRequest, AssignReplicasToDirsRequest, BrokerHeartbeatRequest}
)
_FENCED = {True: "fenced", False: "not fenced"}
_AHEAD = (ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH)
"""What a controller may say of a state of a partition that it does not know yet (AP-4)."""


def stepped(
    known: Knowledge, state: ControllerState, incarnation: int, event: Event, effects: Sequence[Effect]
) -> None:
    """P-40, P-41 and P-75, of what an active controller answers now or later to a request that has just come."""
    node_id = state.settings.node_id
    reports = known.reports.get(node_id)
    if reports is None or reports.incarnation != incarnation:
        reports = known.reports[node_id] = OpenReports(incarnation)
    if event.__class__ is RequestReceived:
        assert isinstance(event, RequestReceived)
        if event.request.__class__ in _OF_INCARNATIONS and state.active:
            _arrived(reports, state, event)
            if isinstance(event.request, BrokerHeartbeatRequest):
                held = state.image.brokers.get(event.request.broker_id)
                if held is not None:
                    if held.epoch == event.request.broker_epoch:
                        _check_unfenced(reports, state, event.request, is_fenced=held.fenced)
                    reports.fenced[event.request_id] = event.request.broker_id, held.fenced
            elif isinstance(event.request, AssignReplicasToDirsRequest):
                _check_recorded(state, event.request)
                reports.assigned[event.request_id] = len(set(event.request.assignments))
            elif isinstance(event.request, AlterPartitionRequest):
                _check_refusal(state, event.request_id, event.request, effects)
        elif isinstance(event.request, BrokerRegistrationRequest):
            _check_duplicate(state, event.request_id, event.request, effects)
    if not (reports.stale or reports.ahead or reports.fenced or reports.assigned):
        return
    for effect in effects:
        if effect.__class__ is Reply:
            assert isinstance(effect, Reply)
            _answered(state, reports, effect.request_id, effect.response)


def _arrived(reports: OpenReports, state: ControllerState, event: RequestReceived) -> None:
    request = event.request
    assert isinstance(
        request,
        (AllocateProducerIdsRequest, AlterPartitionRequest, AssignReplicasToDirsRequest, BrokerHeartbeatRequest),
    )
    registered = state.image.broker_epoch(request.broker_id)
    if request.broker_epoch != registered:
        reports.stale[event.request_id] = (
            f"{request.__class__.__name__} of broker {request.broker_id}, epoch {request.broker_epoch}; "
            f"it is registered with {registered}"
        )
    if not isinstance(request, AlterPartitionRequest):
        return
    for part in request.partitions:
        name = part.topic or state.image.topic_names.get(part.topic_id, "")
        held = state.image.partition(name, part.partition)
        if held is None or part.topic_id not in ("", state.image.topics[name].topic_id):
            continue
        if part.leader_epoch > held.leader_epoch or part.partition_epoch > held.partition_epoch:
            reports.ahead.setdefault(event.request_id, {})[name, part.partition] = (
                f"leader epoch {part.leader_epoch}, partition epoch {part.partition_epoch}; the controller is in "
                f"{held.leader_epoch}, {held.partition_epoch}"
            )


def _check_unfenced(
    reports: OpenReports, state: ControllerState, request: BrokerHeartbeatRequest, *, is_fenced: bool
) -> None:
    """P-75: a heartbeat alone ends the fencing of a broker, and none that asks for fencing or to shut down (HB-2)."""
    held = state.quorum.epoch, request.broker_id, request.broker_epoch
    was_fenced = held in reports.fenced_brokers
    if was_fenced and not is_fenced and (request.want_fence or request.want_shut_down):
        raise Violation(
            "P-75",
            f"controller {state.settings.node_id} has unfenced broker {request.broker_id}, which wants to "
            f"{'be fenced' if request.want_fence else 'shut down'}",
        )
    if is_fenced:
        reports.fenced_brokers.add(held)
    else:
        reports.fenced_brokers.discard(held)


def _check_duplicate(
    state: ControllerState, request_id: int, request: BrokerRegistrationRequest, effects: Sequence[Effect]
) -> None:
    """P-40: a new incarnation is refused only while the one before is active and heard from (RG-2)."""
    refused = BrokerRegistrationResponse(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    if not any(isinstance(one, Reply) and (one.request_id, one.response) == (request_id, refused) for one in effects):
        return
    broker_id = request.broker_id
    silent_ms = state.runtime.now_ms - state.last_contact_ms.get(broker_id, -state.settings.broker_session_timeout_ms)
    if not state.image.is_active(broker_id) or silent_ms >= state.settings.broker_session_timeout_ms:
        raise Violation(
            "P-40",
            f"controller {state.settings.node_id} refuses the registration of broker {broker_id} for the sake of an "
            f"incarnation that is {'active' if state.image.is_active(broker_id) else 'not active'}, and was heard from "
            f"last {silent_ms} ms ago; its session is {state.settings.broker_session_timeout_ms} ms",
        )


def _check_refusal(
    state: ControllerState, request_id: int, request: AlterPartitionRequest, effects: Sequence[Effect]
) -> None:
    """P-41: INELIGIBLE_REPLICA means that a member is not active, of another incarnation, or without its log (AP-8).

    Of a member of the present ISR the leader need not know the incarnation (ISR-1).
    """
    for effect in effects:
        response = effect.response if isinstance(effect, Reply) and effect.request_id == request_id else None
        if not isinstance(response, AlterPartitionResponse):
            continue
        for part, answer in zip(request.partitions, response.partitions, strict=False):
            name = part.topic or state.image.topic_names.get(part.topic_id, "")
            held = state.image.partition(name, part.partition)
            if answer.error_code != ErrorCode.INELIGIBLE_REPLICA or held is None:
                continue
            if all(
                state.image.is_active(member)
                and member not in held.offline
                and (epoch == state.image.broker_epoch(member) or (epoch == UNKNOWN and member in held.isr))
                for member, epoch in part.new_isr
            ):
                raise Violation(
                    "P-41",
                    f"controller {state.settings.node_id} refuses the ISR {list(part.new_isr)} (members, broker "
                    f"epochs) of {name}-{part.partition}, though all of them are active in these epochs",
                )


def _answered(state: ControllerState, reports: OpenReports, request_id: int, response: AnyResponse | None) -> None:
    node_id = state.settings.node_id
    stale = reports.stale.pop(request_id, None)
    error = getattr(response, "error_code", ErrorCode.NONE)
    if stale is not None and error == ErrorCode.NONE:
        raise Violation("P-40", f"controller {node_id} has obeyed a {stale}")
    broker_id, is_fenced = reports.fenced.pop(request_id, (-1, False))
    if (
        broker_id >= 0
        and isinstance(response, BrokerHeartbeatResponse)
        and not error
        and response.is_fenced != is_fenced
    ):
        raise Violation(
            "P-67",
            f"controller {node_id} tells broker {broker_id} that it is {_FENCED[response.is_fenced]}; it has decided "
            f"that it is {_FENCED[is_fenced]}",
        )
    assigned = reports.assigned.pop(request_id, None)
    if isinstance(response, AssignReplicasToDirsResponse) and not error and assigned is not None:
        _check_complete(node_id, assigned, response)
    ahead = reports.ahead.pop(request_id, None)
    if ahead is None or not isinstance(response, AlterPartitionResponse):
        return
    for part in response.partitions:
        judged = ahead.get((part.topic, part.partition))
        if judged is not None and part.error_code not in _AHEAD:
            raise Violation(
                "P-41",
                f"controller {node_id} answers {ErrorCode(part.error_code).name} to a change of the ISR of "
                f"{part.topic}-{part.partition} that rests on {judged}",
            )


def _check_complete(node_id: int, assigned: int, response: AssignReplicasToDirsResponse) -> None:
    if len(response.results) != assigned:
        raise Violation(
            "P-76",
            f"controller {node_id} answers {len(response.results)} of {assigned} reports of where replicas are",
        )


def _check_recorded(state: ControllerState, request: AssignReplicasToDirsRequest) -> None:
    """P-76: once it has been told, an active controller has recorded as offline a replica that was reported as lost.

    By the time of its answer a reassignment may have given the broker a replica that it did not have then.
    """
    node_id, image = state.settings.node_id, state.image
    if image.broker_epoch(request.broker_id) != request.broker_epoch:
        return  # it has registered again since it sent this
    for directory_id, topic_id, partition in sorted(set(request.assignments)):
        topic = image.topic_names.get(topic_id, "")
        held = image.partition(topic, partition)
        if directory_id != LOST_DIRECTORY or held is None or request.broker_id not in held.replicas:
            continue
        if request.broker_id not in held.offline:
            raise Violation(
                "P-76",
                f"controller {node_id} was told that broker {request.broker_id} has lost its replica of "
                f"{topic}-{partition}, and has not recorded that it is offline",
            )
