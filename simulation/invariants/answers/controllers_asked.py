"""Checks how a broker asks controllers: whom next (P-69), one report at a time (P-70), with what it knows (P-74), at
once when it has caught up (V-29); and that an error in the answer to a heartbeat fences nobody (P-67).
"""

from __future__ import annotations

from broker.core.broker_node.directories import REPORT
from broker.core.broker_node.publishing import CHANNEL as METADATA
from broker.core.broker_node.state import BrokerState
from broker.core.messages import (
    AllocateProducerIdsRequest,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    FetchRequest,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import Event, RequestFailed, ResponseReceived, Send, StopRequested, TimerFired
from simulation.engine.event_queue import MS
from simulation.invariants import intervals
from simulation.invariants.answers.asked import AsksControllers
from simulation.invariants.directories import unrecorded
from simulation.invariants.knowledge import BrokerMirror, Knowledge
from simulation.invariants.properties import Violation

_ONE_AT_A_TIME = (AllocateProducerIdsRequest, AssignReplicasToDirsRequest, BrokerRegistrationRequest)
_TELLS = (ErrorCode.NONE, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)
"""Answers to a heartbeat that say something of whether the broker is fenced."""

CHECKED = frozenset({*_ONE_AT_A_TIME, BrokerHeartbeatRequest, FetchRequest})
"""Requests that a broker sends to controllers, and to leaders."""


def sent(known: Knowledge, broker: BrokerMirror, effect: Send, event: Event) -> None:
    """P-70, P-74 and V-29, when a broker has sent a request to a controller. What `event` answers is over."""
    kind = effect.request.__class__
    asking = broker.asking
    if kind is BrokerHeartbeatRequest:
        assert isinstance(effect.request, BrokerHeartbeatRequest)
        if effect.request.current_metadata_offset != broker.image_end - 1:
            raise Violation(
                "P-74",
                f"broker {broker.broker_id} says in a heartbeat that it knows the metadata up to offset "
                f"{effect.request.current_metadata_offset}; it knows them up to {broker.image_end - 1}",
            )
        if asking.is_to_stop and not effect.request.want_shut_down:
            raise Violation(
                "P-74", f"broker {broker.broker_id} was asked to stop, and says in a heartbeat that it goes on"
            )
        since_us, asking.caught_up_us = asking.caught_up_us, -1
        if since_us < 0:
            return
        waited_us = known.cluster.now_us - max(since_us, known.calm.running_since(broker.broker_id))
        if 2 * waited_us >= known.settings.broker_heartbeat_interval_ms * MS:
            raise Violation(
                "V-29",
                f"broker {broker.broker_id} has learned that it has caught up with the metadata, and sends its next "
                f"heartbeat after {waited_us // MS} ms",
            )
    if isinstance(effect.request, AssignReplicasToDirsRequest):
        asking.reports[effect.request_id] = frozenset(
            (topic_id, partition) for _, topic_id, partition in effect.request.assignments
        )
    if kind in _ONE_AT_A_TIME or (kind is FetchRequest and effect.channel == METADATA):
        answered = event.request_id if isinstance(event, (RequestFailed, ResponseReceived)) else -1
        open_kinds = {other for number, (other, _) in asking.open.items() if number != answered}
        if kind in _ONE_AT_A_TIME and kind in open_kinds:
            raise Violation(
                "P-70", f"broker {broker.broker_id} sends {effect.request}, and another one of these is under way"
            )
        asking.open[effect.request_id] = kind, effect.to


def stepped(known: Knowledge, broker: BrokerMirror, state: BrokerState, event: Event) -> None:
    """After a step of a broker, whose requests were noted: P-69 and P-70, and P-71 of its timers."""
    asking = broker.asking
    if state.caught_up and not asking.is_caught_up:
        asking.caught_up_us = known.cluster.now_us
    asking.is_caught_up = state.caught_up
    was_fenced, asking.is_fenced = asking.is_fenced, state.fenced
    if isinstance(event, (RequestFailed, ResponseReceived)):
        if was_fenced != state.fenced:
            _check_fenced(broker, state, event)
        kind, to = asking.open.pop(event.request_id, (None, -1))
        if kind is AssignReplicasToDirsRequest:
            _report_ended(asking, event)
        failed = kind in (BrokerRegistrationRequest, FetchRequest) and isinstance(event, RequestFailed)
        if (failed or _is_refused(event)) and state.controller_id == to and len(state.settings.voters) > 1:
            raise Violation(
                "P-69",
                f"broker {broker.broker_id} could not be served by controller {to}, and goes on to ask it, of "
                f"{sorted(state.settings.voters)}",
            )
    elif isinstance(event, TimerFired):
        key = intervals.own(event.key)
        intervals.of_broker(known, broker, state, key)
        if key == (REPORT,):
            asking.report_waits = False
            _check_repeated(broker, state)
    elif isinstance(event, StopRequested):
        asking.is_to_stop = True
    if state.offline:
        _check_reported(broker, state)


def _check_fenced(broker: BrokerMirror, state: BrokerState, event: RequestFailed | ResponseReceived) -> None:
    """P-67, when a broker takes itself to be fenced, or not to be any more, after a request of its own has ended."""
    response = event.response if isinstance(event, ResponseReceived) else None
    if isinstance(response, BrokerHeartbeatResponse) and response.error_code not in _TELLS:
        raise Violation(
            "P-67",
            f"broker {broker.broker_id} takes itself to be {'' if state.fenced else 'un'}fenced by an answer to its "
            f"heartbeat that says {ErrorCode(response.error_code).name} alone",
        )


def _is_refused(event: Event) -> bool:
    """Whether a broker learns that it has asked for its registration where there is no active controller."""
    response = event.response if isinstance(event, ResponseReceived) else None
    return isinstance(response, BrokerRegistrationResponse) and response.error_code == ErrorCode.NOT_CONTROLLER


def _report_ended(asking: AsksControllers, event: RequestFailed | ResponseReceived) -> None:
    reported = asking.reports.pop(event.request_id, frozenset())
    response = event.response if isinstance(event, ResponseReceived) else None
    if isinstance(response, AssignReplicasToDirsResponse) and response.error_code == ErrorCode.NONE:
        asking.reported |= reported
    else:
        asking.report_waits = True


def _check_reported(broker: BrokerMirror, state: BrokerState) -> None:
    """P-70: a broker tells the controller at once of the replicas that a failed directory has taken offline."""
    asking = broker.asking
    if not state.published or state.image.broker_epoch(state.broker_id) != state.broker_epoch:
        return
    missing = {(state.offline[key], key[1]): key for key in unrecorded(state.image, state)}
    asking.reported &= missing.keys()
    for topic_id, partition in missing.keys() - asking.reported:
        if not asking.reports and not asking.report_waits:
            raise Violation(
                "P-70",
                f"broker {broker.broker_id} has {missing[topic_id, partition][0]}-{partition} offline, and tells the "
                "controller nothing of it",
            )


def _check_repeated(broker: BrokerMirror, state: BrokerState) -> None:
    """P-70, when the pause after a refused report is over: what is not recorded is reported again."""
    if state.broker_epoch < 0 or any(kind is AssignReplicasToDirsRequest for kind, _ in broker.asking.open.values()):
        return
    for topic, partition in unrecorded(state.image, state):
        raise Violation(
            "P-70",
            f"broker {broker.broker_id} does not report again that {topic}-{partition} is offline; the controller "
            "has refused that, and does not know it",
        )
