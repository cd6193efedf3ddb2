"""What a broker of the design with a controller does when it starts and stops, and when its session changes."""

from __future__ import annotations

from broker.core.broker_node import storage
from broker.core.messages import AnyRequest, OffsetForLeaderEpochRequest
from broker.core.messages.errors import ErrorCode
from broker.core.messages.leadership import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from broker.core.ports.coordination import (
    Answer,
    Create,
    Exists,
    GetData,
    SessionChanged,
    SessionState,
    WatchFired,
)
from broker.core.ports.events import Exit
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.designs.controller import leading, office, queries, roles, znodes
from broker.zookeeper.designs.controller.state import Task, TaskKind
from broker.zookeeper.procedures import Ask, Sleep, Steps
from broker.zookeeper.reading import begin_session, listener_address
from broker.zookeeper.state import ZooKeeperState

NODE_LEFT = sometimes("zookeeper: a broker waits until the node of its last session is gone")
LED_ON = sometimes("zookeeper: a broker whose session has expired leads on, the controller decides")
STOPS_LEADING = sometimes("zookeeper: a broker that stops still leads, nobody else can")

STOP = "stop"
_REGISTER = "register"
_STOP_LIMIT = "stop-limit"
_STOP_ATTEMPTS = 3
_STOP_MS = 10_000
_RETRY_MS = 500


# --- sessions --------------------------------------------------------------------------------------------------------


def session_changed(zk: ZooKeeperState, event: SessionChanged) -> None:
    """A session lost or won. A broker leads and follows on without one; a controller ends with its session."""
    zk.broker.runtime.log("info", f"session {event.session:x} is {event.state.value}")
    match event.state:
        case SessionState.OPEN | SessionState.RESTORED:
            zk.session = event.session
            zk.procedures.connected()
            zk.procedures.start(office.CANDIDATE, _prepare_and_stand(zk))
            for kind in (TaskKind.BROKERS, TaskKind.TOPICS, TaskKind.DELETIONS):  # their watches are gone
                office.look_again(zk, kind)
            if not zk.is_registered and not zk.procedures.runs(_REGISTER):
                zk.procedures.start(_REGISTER, _register(zk))
            if not zk.procedures.runs(leading.LAG):
                zk.procedures.start(leading.LAG, leading.watch_lag(zk))
        case SessionState.SUSPENDED:
            zk.procedures.disconnected()
        case SessionState.EXPIRED:
            zk.procedures.disconnected()
            zk.is_registered = False
            zk.procedures.cancel(_REGISTER)
            office.resign(zk)
            if any(hosted.is_open for hosted in zk.hosted.values()):
                zk.broker.runtime.mark(LED_ON)
            begin_session(zk)


def _prepare_and_stand(zk: ZooKeeperState) -> Steps[None]:
    for path in (*znodes.PERSISTENT, znodes.EPOCH):
        yield Create(path, str(znodes.NO_EPOCH).encode() if path == znodes.EPOCH else b"")
    yield from office.stand(zk)


def _register(zk: ZooKeeperState) -> Steps[None]:
    """Announce this broker, once the node of its last session is gone: else the controller might not notice."""
    path = paths.broker(zk.broker_id)
    while (yield Create(path, listener_address(zk), ephemeral=True)).error is not None:
        found: Answer = yield Exists(path)
        if found.stat is not None and found.stat.owner == zk.session:
            break
        zk.broker.runtime.mark(NODE_LEFT)
        yield Sleep(zk.broker.settings.broker_session_timeout_ms if found.stat is not None else _RETRY_MS)
    zk.is_registered = True


def watch_fired(zk: ZooKeeperState, event: WatchFired) -> None:
    """Read again what has changed, and set the watch again by reading."""
    zk.awaited.discard(event.path)
    match event.path:
        case znodes.CONTROLLER:
            if not zk.procedures.runs(office.CANDIDATE):
                zk.procedures.start(office.CANDIDATE, office.stand(zk))
        case paths.IDS:
            office.look_again(zk, TaskKind.BROKERS)
        case znodes.DELETIONS:
            office.look_again(zk, TaskKind.DELETIONS)
        case path if path == paths.TOPICS or path.startswith(f"{paths.TOPICS}/"):
            office.look_again(zk, TaskKind.TOPICS)


# --- requests --------------------------------------------------------------------------------------------------------


def serve(zk: ZooKeeperState, request_id: int, request: AnyRequest) -> bool:
    """Serve what only this design has; whether it was that."""
    match request:
        case LeaderAndIsrRequest() | StopReplicaRequest() | UpdateMetadataRequest():
            roles.obey(zk, request_id, request)
        case OffsetForLeaderEpochRequest():
            zk.broker.runtime.reply(request_id, queries.epoch_ends(zk, request))
        case ControlledShutdownRequest(broker_id):
            if zk.controlled.office is None:
                zk.broker.runtime.reply(request_id, ControlledShutdownResponse(ErrorCode.NOT_CONTROLLER))
            else:
                zk.controlled.office.tasks.append(Task(TaskKind.SHUTDOWN, broker_id, request_id))
        case _:
            return False
    return True


# --- stopping --------------------------------------------------------------------------------------------------------


def stop(zk: ZooKeeperState) -> None:
    """Hand leaderships over, for a while, then close the logs."""
    zk.procedures.start(_STOP_LIMIT, _end_in_time(zk))
    zk.procedures.start(STOP, _hand_over(zk))


def _hand_over(zk: ZooKeeperState) -> Steps[None]:
    for _ in range(_STOP_ATTEMPTS):
        found: Answer = yield GetData(znodes.CONTROLLER)
        if found.error is None:
            to = znodes.decoded_number(found.data, znodes.CONTROLLER, "the controller's id")
            response = yield Ask(to, ControlledShutdownRequest(zk.broker_id), zk.broker.settings.request_timeout_ms)
            if response is not None and response.error_code == ErrorCode.NONE:
                if not response.remaining:
                    break
                zk.broker.runtime.mark(STOPS_LEADING)
        yield Sleep(_RETRY_MS)
    _end(zk)


def _end_in_time(zk: ZooKeeperState) -> Steps[None]:
    yield Sleep(_STOP_MS)
    _end(zk)


def _end(zk: ZooKeeperState) -> None:
    storage.close_cleanly(zk.broker)
    zk.broker.runtime.effects.append(Exit(0, "stopped"))
