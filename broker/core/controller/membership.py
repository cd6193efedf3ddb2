"""Tracks brokers: registration, heartbeats, fencing, controlled shutdown (§5.1, §5.2)."""

from __future__ import annotations

from enum import Enum

from broker.core.controller import changes, partition_changes, recovery
from broker.core.controller.state import ControllerState
from broker.core.messages import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import BrokerImage
from broker.core.metadata.records import BrokerChanged, BrokerRegistered, BrokerUnregistered, MetadataRecord
from broker.core.ports.marks import sometimes

REGISTERED_FIRST = sometimes("registration: of a broker that was never seen")
REGISTERED_CLEAN = sometimes("registration: after a clean stop (RG-5)")
REGISTERED_UNCLEAN = sometimes("registration: after an unclean stop (RG-5)")
REGISTERED_OVER_ACTIVE = sometimes("registration: while the earlier life was not fenced (RG-6)")
CLEAN_IN_ELR = sometimes("ELR case J: a member of the ELR registered after a clean stop and stays in it")
SAME_INCARNATION = sometimes("registration: of the incarnation that is registered already (RG-3)")
DUPLICATE = sometimes("registration refused: another incarnation's session is valid (RG-2)")
UNKNOWN_BROKER = sometimes("heartbeat refused: the broker is not registered (HB-1)")
STALE_HEARTBEAT = sometimes("heartbeat refused: the broker epoch is stale (HB-1)")
SESSION_EXPIRED = sometimes("fencing: a session expired (HB-4)")
SEVERAL_EXPIRED = sometimes("fencing: several sessions have expired, one is fenced at a time (HB-4)")
SHUTDOWN_WAITS_FOR_LEADERSHIPS = sometimes("controlled shutdown: it still leads (HB-2)")
SHUTDOWN_WAITS_FOR_OTHERS = sometimes("controlled shutdown: others have not heard of it yet (HB-2)")

SESSIONS = "sessions"


class BrokerControlState(Enum):
    """A broker's state in the controller (HB-2)."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shut down now"


def _state_of(broker: BrokerImage) -> BrokerControlState:
    if broker.fenced:
        return BrokerControlState.FENCED
    return BrokerControlState.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else BrokerControlState.UNFENCED


_ROWS = {
    (before, after): sometimes(f"heartbeat: {before.value} -> {after.value} (HB-2)")
    for before, after in (
        (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW),
        (BrokerControlState.FENCED, BrokerControlState.UNFENCED),
        (BrokerControlState.FENCED, BrokerControlState.FENCED),
        (BrokerControlState.UNFENCED, BrokerControlState.FENCED),
        (BrokerControlState.UNFENCED, BrokerControlState.CONTROLLED_SHUTDOWN),
        (BrokerControlState.UNFENCED, BrokerControlState.SHUTDOWN_NOW),
        (BrokerControlState.CONTROLLED_SHUTDOWN, BrokerControlState.CONTROLLED_SHUTDOWN),
        (BrokerControlState.CONTROLLED_SHUTDOWN, BrokerControlState.SHUTDOWN_NOW),
    )
}
"""The rows of HB-2's table, without the one that changes nothing."""


def register(controller: ControllerState, request_id: int, request: BrokerRegistrationRequest) -> None:
    """RG-1 … RG-7."""
    existing = controller.image.brokers.get(request.broker_id)
    if request.cluster_id != controller.settings.cluster_id:
        _refuse_registration(controller, request_id, request, ErrorCode.INCONSISTENT_CLUSTER_ID)
        return
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        controller.runtime.mark(SAME_INCARNATION)
        changes.reply(controller, request_id, request, BrokerRegistrationResponse(ErrorCode.NONE, existing.epoch))
        return
    if controller.rules.registration.is_duplicate(
        existing, request.incarnation_id, _in_contact(controller, request.broker_id)
    ):
        controller.runtime.mark(DUPLICATE)
        _refuse_registration(controller, request_id, request, ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        return
    clean = controller.rules.registration.stopped_cleanly(existing, request.previous_broker_epoch)
    _mark_registration(controller, request.broker_id, existing, clean=clean)
    epoch = changes.append(
        controller,
        [
            BrokerRegistered(request.broker_id, request.incarnation_id, request.listeners, request.rack),
            *(
                partition_changes.without_broker(controller, request.broker_id, unclean=not clean, registers=True)
                if controller.rules.registration.ends_earlier_incarnation()
                else ()
            ),
        ],
    )
    _after_fencing(controller)
    controller.last_contact_ms[request.broker_id] = controller.runtime.now_ms
    controller.metadata_offsets[request.broker_id] = -1
    controller.shutdown_offsets.pop(request.broker_id, None)
    controller.runtime.log(
        "info",
        f"broker {request.broker_id} registered with epoch {epoch} after {'a clean' if clean else 'an unclean'} stop",
    )
    changes.reply(controller, request_id, request, BrokerRegistrationResponse(ErrorCode.NONE, epoch))


def unregister(controller: ControllerState, request_id: int, request: UnregisterBrokerRequest) -> None:
    """UnregisterBroker, as in Kafka: the registration is removed, whether the broker lives or not.

    In one batch with it the broker leaves all leaderships, ISRs and ELRs: nobody will know of its next registration
    whether the stop before it was clean (RG-5). It stays a replica. A broker that lives learns of it from its next
    heartbeat and registers again (RG-7).
    """
    broker_id = request.broker_id
    if broker_id not in controller.image.brokers:
        text = f"broker {broker_id} is not registered"
        response = UnregisterBrokerResponse(ErrorCode.BROKER_ID_NOT_REGISTERED, text)
        changes.reply(controller, request_id, request, response)
        return
    changes.append(
        controller,
        [*partition_changes.without_broker(controller, broker_id, unclean=True), BrokerUnregistered(broker_id)],
    )
    for known in (controller.last_contact_ms, controller.metadata_offsets, controller.shutdown_offsets):
        known.pop(broker_id, None)
    controller.runtime.log("info", f"broker {broker_id} unregistered")
    _after_fencing(controller)
    changes.reply(controller, request_id, request, UnregisterBrokerResponse(ErrorCode.NONE))


def _mark_registration(
    controller: ControllerState, broker_id: int, existing: BrokerImage | None, *, clean: bool
) -> None:
    mark = controller.runtime.mark
    if existing is None:
        mark(REGISTERED_FIRST)
        return
    mark(REGISTERED_CLEAN if clean else REGISTERED_UNCLEAN)
    if not existing.fenced:
        mark(REGISTERED_OVER_ACTIVE)
    if clean and any(broker_id in state.elr for _, _, state in partition_changes.all_partitions(controller)):
        mark(CLEAN_IN_ELR)


def _refuse_registration(
    controller: ControllerState, request_id: int, request: BrokerRegistrationRequest, error: ErrorCode
) -> None:
    changes.reply(controller, request_id, request, BrokerRegistrationResponse(error))


def _in_contact(controller: ControllerState, broker_id: int) -> bool:
    last = controller.last_contact_ms.get(broker_id)
    return last is not None and controller.runtime.now_ms - last < controller.settings.broker_session_timeout_ms


def heartbeat(controller: ControllerState, request_id: int, request: BrokerHeartbeatRequest) -> None:
    """HB-1 … HB-5."""
    broker = controller.image.brokers.get(request.broker_id)
    if broker is None:
        controller.runtime.mark(UNKNOWN_BROKER)
        changes.reply(controller, request_id, request, BrokerHeartbeatResponse(ErrorCode.BROKER_ID_NOT_REGISTERED))
        return
    if not controller.rules.registration.is_current(broker.epoch, request.broker_epoch):
        controller.runtime.mark(STALE_HEARTBEAT)
        changes.reply(controller, request_id, request, BrokerHeartbeatResponse(ErrorCode.STALE_BROKER_EPOCH))
        return
    controller.last_contact_ms[broker.broker_id] = controller.runtime.now_ms
    controller.metadata_offsets[broker.broker_id] = request.current_metadata_offset
    state = next_state(controller, broker, request)
    row = _ROWS.get((_state_of(broker), state))
    if row is not None:
        controller.runtime.mark(row)
    _apply(controller, broker, state)
    response = BrokerHeartbeatResponse(
        ErrorCode.NONE,
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=controller.image.brokers[broker.broker_id].fenced,
        should_shut_down=state is BrokerControlState.SHUTDOWN_NOW,
    )
    changes.reply(controller, request_id, request, response)


def next_state(controller: ControllerState, broker: BrokerImage, request: BrokerHeartbeatRequest) -> BrokerControlState:
    """HB-2, row by row."""
    if broker.fenced:
        if request.want_shut_down:
            return BrokerControlState.SHUTDOWN_NOW
        caught_up = request.current_metadata_offset >= broker.epoch
        return BrokerControlState.UNFENCED if not request.want_fence and caught_up else BrokerControlState.FENCED
    if not broker.in_controlled_shutdown:
        if request.want_fence:
            return BrokerControlState.SHUTDOWN_NOW if request.want_shut_down else BrokerControlState.FENCED
        if request.want_shut_down:
            leads = controller.image.leads_any(broker.broker_id)
            return BrokerControlState.CONTROLLED_SHUTDOWN if leads else BrokerControlState.SHUTDOWN_NOW
        return BrokerControlState.UNFENCED
    if controller.image.leads_any(broker.broker_id):
        controller.runtime.mark(SHUTDOWN_WAITS_FOR_LEADERSHIPS)
        return BrokerControlState.CONTROLLED_SHUTDOWN
    slowest = min(
        (
            controller.metadata_offsets.get(other.broker_id, -1)
            for other in controller.image.brokers.values()
            if other.active
        ),
        default=request.current_metadata_offset,
    )
    if controller.shutdown_offsets.get(broker.broker_id, -1) > slowest:
        controller.runtime.mark(SHUTDOWN_WAITS_FOR_OTHERS)
        return BrokerControlState.CONTROLLED_SHUTDOWN
    return BrokerControlState.SHUTDOWN_NOW


def _apply(controller: ControllerState, broker: BrokerImage, state: BrokerControlState) -> None:
    """HB-3: apply a change of a broker's state to the metadata."""
    match state:
        case BrokerControlState.FENCED | BrokerControlState.SHUTDOWN_NOW:
            if not broker.fenced:
                fence(controller, broker, "as it asked")
        case BrokerControlState.UNFENCED:
            if broker.fenced:
                changes.append(
                    controller,
                    [
                        BrokerChanged(broker.broker_id, fenced=False, in_controlled_shutdown=False),
                        *partition_changes.elections_for_leaderless(controller, arrived=broker.broker_id),
                    ],
                )
                controller.runtime.log("info", f"broker {broker.broker_id} unfenced")
                recovery.consider_all(controller)
        case BrokerControlState.CONTROLLED_SHUTDOWN:
            if not broker.in_controlled_shutdown:
                changes.append(
                    controller,
                    [
                        BrokerChanged(broker.broker_id, fenced=False, in_controlled_shutdown=True),
                        *partition_changes.without_broker(controller, broker.broker_id),
                    ],
                )
                controller.shutdown_offsets[broker.broker_id] = controller.quorum.log.end_offset - 1
                controller.runtime.log("info", f"broker {broker.broker_id} shuts down")
                _after_fencing(controller)


def fence(controller: ControllerState, broker: BrokerImage, why: str) -> None:
    """HB-3, EL-1: a fenced broker leads nothing and is in no ISR."""
    changes.append(controller, _fencing(controller, broker))
    controller.runtime.log("info", f"broker {broker.broker_id} fenced: {why}")
    _after_fencing(controller)


def _after_fencing(controller: ControllerState) -> None:
    """UR-3: a proactive recovery begins as soon as the last candidate is gone."""
    if controller.rules.elections.recovers_on_fencing():
        recovery.consider_all(controller)


def _fencing(controller: ControllerState, broker: BrokerImage) -> list[MetadataRecord]:
    return [
        BrokerChanged(broker.broker_id, fenced=True, in_controlled_shutdown=broker.in_controlled_shutdown),
        *partition_changes.without_broker(controller, broker.broker_id),
    ]


def start_sessions(controller: ControllerState) -> None:
    """HB-6, CT-4: after activation every unfenced broker gets a full session."""
    for broker in controller.image.brokers.values():
        controller.last_contact_ms[broker.broker_id] = controller.runtime.now_ms
    _next_check(controller)


def check_sessions(controller: ControllerState) -> None:
    """HB-4: fence the broker whose session expired first; a new timer event fences the next."""
    timeout_ms = controller.settings.broker_session_timeout_ms
    expired = [
        (controller.last_contact_ms[broker.broker_id], broker.broker_id)
        for broker in controller.image.brokers.values()
        if not broker.fenced and controller.runtime.now_ms - controller.last_contact_ms[broker.broker_id] >= timeout_ms
    ]
    chosen = controller.rules.registration.to_fence(tuple(broker_id for _, broker_id in sorted(expired)))
    if len(expired) > 1:
        controller.runtime.mark(SEVERAL_EXPIRED)
    if chosen:
        controller.runtime.mark(SESSION_EXPIRED)
        brokers = controller.image.brokers
        changes.append(controller, [record for one in chosen for record in _fencing(controller, brokers[one])])
        controller.runtime.log("info", f"sessions of brokers {list(chosen)} expired; fenced")
        _after_fencing(controller)
    if len(expired) > 1:
        controller.runtime.set_timer((SESSIONS,), 0)
    else:
        _next_check(controller)


def _next_check(controller: ControllerState) -> None:
    controller.runtime.set_timer((SESSIONS,), max(1, controller.settings.broker_heartbeat_interval_ms // 2))
