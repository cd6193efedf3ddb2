"""The broker's side of registration, heartbeats and controlled shutdown (§5)."""

from __future__ import annotations

from broker.core.broker_node import storage
from broker.core.broker_node.state import CONTROL, BrokerState, Lifecycle
from broker.core.messages import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import Exit
from broker.core.ports.marks import sometimes


def try_another_controller(broker: BrokerState, asked: int, leader: tuple[int, int] | None = None) -> None:
    """QU-18: the controller that was asked did not serve; use the leader it named, or the next voter.

    Requests of several kinds look for the controller at the same time. If another one has been chosen meanwhile, it may
    be one that has served: a late failure of an earlier one says nothing about it.
    """
    if asked != broker.controller_id:
        return
    voters = sorted(broker.settings.voters)
    if leader is not None and leader[0] in broker.settings.voters:
        broker.controller_id = leader[0]
    else:
        broker.controller_id = voters[(voters.index(broker.controller_id) + 1) % len(voters)]


REGISTRATION_REPEATED = sometimes("registration: asked for again (BL-1)")
REGISTERED_AGAIN = sometimes("registration: again, the controller knows another incarnation (RG-7)")
FENCED_ALIVE = sometimes("fencing: a broker learns that it is fenced (BL-6)")
SERVES_AGAIN = sometimes("fencing: a broker that was fenced is not any more (BL-6)")
STOPPED_BY_LEAVE = sometimes("controlled shutdown: the controller lets it go (BL-7)")
STOPPED_BY_DEADLINE = sometimes("controlled shutdown: the deadline passed, it stops all the same (BL-7)")
STOPPED_UNREGISTERED = sometimes("controlled shutdown: before there was a registration")

REGISTER = "register"
HEARTBEAT = "heartbeat"
SHUTDOWN_DEADLINE = "shutdown-deadline"


def begin(broker: BrokerState) -> None:
    """BL-1: register for the first time since the start."""
    broker.registration_deadline_ms = broker.runtime.now_ms + broker.settings.initial_broker_registration_timeout_ms
    register(broker)


def register(broker: BrokerState) -> None:
    """BL-1: request a broker epoch, always with the same incarnation id."""
    settings = broker.settings
    broker.runtime.send(
        broker.controller_id,
        BrokerRegistrationRequest(
            settings.node_id,
            settings.cluster_id,
            broker.incarnation_id,
            settings.advertised_listeners or settings.listeners,
            settings.rack,
            broker.previous_broker_epoch,
        ),
        channel=CONTROL,
        timeout_ms=settings.request_timeout_ms,
        purpose=REGISTER,
    )


def registered(broker: BrokerState, asked: int, response: BrokerRegistrationResponse | None) -> bool:
    """BL-2: store the epoch; retry until there is one. Returns whether the broker is now registered.

    `asked`: the controller that was asked.
    """
    if response is None or response.error_code != ErrorCode.NONE:
        if response is None or response.error_code == ErrorCode.NOT_CONTROLLER:
            try_another_controller(broker, asked)
        else:
            broker.runtime.log("warning", f"registration refused: {ErrorCode(response.error_code).name}; trying again")
        if response is not None and response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            broker.runtime.effects.append(Exit(2, "the controller belongs to another cluster: check cluster.id"))
            return False
        if broker.registration_deadline_ms is not None and broker.runtime.now_ms >= broker.registration_deadline_ms:
            _give_up_registration(broker, response)
            return False
        broker.runtime.mark(REGISTRATION_REPEATED)
        broker.runtime.set_timer((REGISTER,), broker.settings.metadata_retry_backoff_ms)
        return False
    broker.broker_epoch = response.broker_epoch
    broker.registration_deadline_ms = None
    broker.runtime.log("info", f"registered with broker epoch {response.broker_epoch}")
    return True


def _give_up_registration(broker: BrokerState, last: BrokerRegistrationResponse | None) -> None:
    """`initial.broker.registration.timeout.ms` has passed: end, and say what the controller said last."""
    if last is None:
        why = "no active controller answered: check controller.quorum.voters"
    elif last.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
        why = f"another broker with node.id={broker.broker_id} lives: give one of them another id, or stop it"
    else:
        why = f"the controller answered {ErrorCode(last.error_code).name}"
    waited_s = broker.settings.initial_broker_registration_timeout_ms / 1000
    storage.close_cleanly(broker)
    broker.runtime.effects.append(Exit(4, f"could not register in {waited_s:g} s: {why}"))


def heartbeat(broker: BrokerState) -> None:
    """BL-2, BL-4, BL-6: send a heartbeat with the metadata offset and the wanted state."""
    broker.runtime.send(
        broker.controller_id,
        BrokerHeartbeatRequest(
            broker.broker_id,
            broker.broker_epoch,
            broker.image.end_offset - 1,
            want_fence=not (broker.caught_up and broker.published),
            want_shut_down=broker.stop_wanted,
        ),
        channel=CONTROL,
        timeout_ms=broker.settings.request_timeout_ms,
        purpose=HEARTBEAT,
    )
    broker.runtime.set_timer((HEARTBEAT,), broker.settings.broker_heartbeat_interval_ms)


def heartbeat_answered(broker: BrokerState, asked: int, epoch: int, response: BrokerHeartbeatResponse) -> None:
    """BL-3, BL-4: apply the answer of the controller that was asked to a heartbeat with this epoch."""
    if broker.broker_epoch != epoch:
        return
    if response.error_code == ErrorCode.NOT_CONTROLLER:
        try_another_controller(broker, asked)
        return
    if response.error_code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
        _register_again(broker, ErrorCode(response.error_code))
        return
    if response.error_code != ErrorCode.NONE:
        return
    if response.should_shut_down and broker.stop_wanted:
        broker.runtime.mark(STOPPED_BY_LEAVE)
        finish(broker)
        return
    if response.is_caught_up and not broker.caught_up:
        broker.caught_up = True
        broker.lifecycle = Lifecycle.RECOVERY
        broker.runtime.log("info", "caught up with the metadata")
        broker.runtime.set_timer((HEARTBEAT,), 0)
    if broker.fenced != response.is_fenced:
        broker.fenced = response.is_fenced
        if broker.lifecycle is Lifecycle.RUNNING:
            broker.runtime.mark(FENCED_ALIVE if broker.fenced else SERVES_AGAIN)
        broker.runtime.log("info", "fenced" if response.is_fenced else "unfenced")
    if not broker.fenced and broker.lifecycle is Lifecycle.RECOVERY:
        broker.lifecycle = Lifecycle.RUNNING


def _register_again(broker: BrokerState, error: ErrorCode) -> None:
    """RG-7: a late request of an earlier incarnation replaced our registration, or the controller has lost it.

    The old epoch proves nothing now; a new registration without it counts as unclean, which is safe.
    """
    broker.runtime.mark(REGISTERED_AGAIN)
    broker.runtime.log("warning", f"the controller knows another incarnation ({error.name}); registering again")
    broker.previous_broker_epoch = -1
    broker.broker_epoch = -1
    broker.caught_up = broker.published = False
    broker.fenced = True
    broker.lifecycle = Lifecycle.STOPPING if broker.stop_wanted else Lifecycle.STARTING
    broker.runtime.cancel_timer((HEARTBEAT,))
    register(broker)


def request_stop(broker: BrokerState) -> None:
    """BL-7: begin a controlled shutdown; a broker that never registered stops at once."""
    if broker.stop_wanted:
        return
    broker.stop_wanted = True
    if broker.broker_epoch < 0:
        broker.runtime.mark(STOPPED_UNREGISTERED)
        finish(broker)
        return
    broker.lifecycle = Lifecycle.STOPPING
    broker.runtime.log("info", "controlled shutdown")
    if broker.rules.storage.marks_before_stopping():
        storage.mark_clean_stop(broker)
    broker.runtime.set_timer((SHUTDOWN_DEADLINE,), broker.settings.controlled_shutdown_timeout_ms)
    heartbeat(broker)


def deadline_passed(broker: BrokerState) -> None:
    """BL-7: the controller did not release this broker in time."""
    broker.runtime.mark(STOPPED_BY_DEADLINE)
    finish(broker)


def finish(broker: BrokerState) -> None:
    """BL-8: flush everything, write the checkpoints, and the clean-shutdown marker last."""
    storage.close_cleanly(broker)
    broker.runtime.effects.append(Exit(0, "stopped cleanly"))
