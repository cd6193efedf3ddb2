"""Carries out a node's calls to a real ZooKeeper ensemble, with kazoo (the extra `zookeeper`).

kazoo completes calls in one thread and calls watches in another, so that the event of a change may come after the
answer that shows it. ZooKeeper's own order is kept here: answers, watches and changes of the session pass one queue.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import Callback, EventType, KazooState, WatchedEvent, ZnodeStat

from broker.core.ports.coordination import (
    Answer,
    Call,
    CallError,
    ChangeKind,
    Coordinate,
    Coordinated,
    CoordinationEvent,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    NodeStat,
    OpenSession,
    SessionChanged,
    SessionState,
    SetData,
    WatchFired,
)

LOG = logging.getLogger(__name__)

_ERRORS: tuple[tuple[type[Exception], CallError], ...] = (
    (NoNodeError, CallError.NO_NODE),
    (NodeExistsError, CallError.NODE_EXISTS),
    (BadVersionError, CallError.BAD_VERSION),
    (NotEmptyError, CallError.NOT_EMPTY),
    (NoChildrenForEphemeralsError, CallError.EPHEMERAL_PARENT),
    (SessionExpiredError, CallError.SESSION_EXPIRED),
    (ConnectionLoss, CallError.CONNECTION_LOSS),
    (ConnectionClosedError, CallError.CONNECTION_LOSS),
)

_KINDS = {
    EventType.CREATED: ChangeKind.CREATED,
    EventType.DELETED: ChangeKind.DELETED,
    EventType.CHANGED: ChangeKind.DATA,
    EventType.CHILD: ChangeKind.CHILDREN,
}


_SETTLED = object()


class _InOrder(SequentialThreadingHandler):  # type: ignore[misc]
    """Calls watches from the queue of completed calls, in the order in which the server sent both."""

    def dispatch_callback(self, callback: Callback) -> None:
        self.completion_queue.put(lambda: callback.func(*callback.args))


class KazooCoordination:
    """One node's sessions with an ensemble, one after the other. `post` is called from a thread of kazoo's."""

    def __init__(self, hosts: str, post: Callable[[CoordinationEvent], None]) -> None:
        """Connect to `hosts`, "host:port" with commas between them, when a session is opened."""
        self._hosts = hosts
        self._post = post
        self._session: _Session | None = None

    def open(self, effect: OpenSession) -> None:
        """Begin a session; kazoo goes on trying until a server answers."""
        self.close()
        self._session = _Session(self._hosts, effect.timeout_ms, self._post)

    def coordinate(self, effect: Coordinate) -> None:
        """Make a call; its answer is posted."""
        if self._session is None:
            self._post(Coordinated(effect.call_id, Answer(CallError.SESSION_EXPIRED)))
        else:
            self._session.call(effect)

    def close(self) -> None:
        """End the session, so that its ephemeral nodes go at once."""
        if self._session is not None:
            self._session.end()
            self._session = None


class _Session:
    def __init__(self, hosts: str, timeout_ms: int, post: Callable[[CoordinationEvent], None]) -> None:
        self._post = post
        self._handler = _InOrder()
        self._client = KazooClient(
            hosts, timeout=timeout_ms / 1000, handler=self._handler, connection_retry=_for_ever()
        )
        self._state: SessionState | None = None
        self._number = 0
        self._last_event: WatchedEvent | None = None
        self._open_calls: dict[int, object] = {}
        self._client.add_listener(self._changed)
        self._client.start_async()

    # --- the session -------------------------------------------------------------------------------------------------

    def _changed(self, state: str) -> None:
        """Called in kazoo's thread of the connection, where nothing may wait."""
        if self._state is SessionState.EXPIRED:
            return
        if state == KazooState.CONNECTED:
            self._become(SessionState.OPEN if self._state is None else SessionState.RESTORED)
        elif state == KazooState.SUSPENDED:
            self._become(SessionState.SUSPENDED)
        else:
            self._become(SessionState.EXPIRED)
            threading.Thread(target=self._stop, daemon=True).start()  # kazoo would begin another session by itself

    def _become(self, state: SessionState) -> None:
        self._state = state
        if state is SessionState.OPEN:
            self._number = self._client.client_id[0]
        event = SessionChanged(state, self._number)
        self._handler.completion_queue.put(lambda: self._post(event))

    def end(self) -> None:
        """End it; nothing of it is posted any more but that the calls which are open have failed."""
        post, self._post = self._post, _nobody
        for call_id in list(self._open_calls):
            if self._settle(call_id):
                post(Coordinated(call_id, Answer(CallError.SESSION_EXPIRED)))
        if self._state is not SessionState.EXPIRED:
            self._state = SessionState.EXPIRED
            self._stop()

    def _stop(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except KazooException as error:
            LOG.warning("the session with ZooKeeper did not end well: %s", error)

    # --- calls -------------------------------------------------------------------------------------------------------

    def call(self, effect: Coordinate) -> None:
        """Begin a call."""
        if self._state not in (SessionState.OPEN, SessionState.RESTORED):
            expired = self._state is SessionState.EXPIRED
            error = CallError.SESSION_EXPIRED if expired else CallError.CONNECTION_LOSS
            self._post(Coordinated(effect.call_id, Answer(error)))
            return
        self._open_calls[effect.call_id] = None
        self._begun(effect.call).rawlink(lambda result: self._answered(effect, result))

    def _answered(self, effect: Coordinate, result: Any) -> None:  # noqa: ANN401 (kazoo has no types)
        answer = _answer(effect.call, result)
        if self._settle(effect.call_id):
            self._post(Coordinated(effect.call_id, answer))

    def _settle(self, call_id: int) -> bool:
        """Whether the call was open; once, whichever thread asks."""
        return self._open_calls.pop(call_id, _SETTLED) is not _SETTLED

    def _begun(self, call: Call) -> Any:  # noqa: ANN401 (kazoo has no types)
        client = self._client
        match call:
            case Create():
                return client.create_async(
                    call.path, call.data, ephemeral=call.ephemeral, sequence=call.sequential, include_data=False
                )
            case SetData():
                return client.set_async(call.path, call.data, version=call.version)
            case Delete():
                return client.delete_async(call.path, version=call.version)
            case GetData():
                return client.get_async(call.path, watch=self._fired if call.watch else None)
            case GetChildren():
                watch = self._children_fired if call.watch else None
                return client.get_children_async(call.path, watch=watch, include_data=True)
            case Exists():
                return client.exists_async(call.path, watch=self._fired if call.watch else None)

    def _fired(self, event: WatchedEvent) -> None:
        if event.type in _KINDS and event is not self._last_event:
            self._last_event = event  # kazoo calls both watches of a node for the one event of its deletion
            self._post(WatchFired(_KINDS[event.type], event.path))

    def _children_fired(self, event: WatchedEvent) -> None:
        """Apart from `_fired`, because kazoo keeps one of each kind for a path."""
        self._fired(event)


def _for_ever() -> dict[str, float]:
    """Whether a server answers decides the session's timeout, and no number of attempts."""
    return {"max_tries": -1, "delay": 0.05, "max_delay": 0.5}


def _nobody(event: CoordinationEvent) -> None:
    """Where events of a session that was ended go."""


def _answer(call: Call, result: Any) -> Answer:  # noqa: ANN401
    if result.exception is not None:
        return Answer(_error(result.exception))
    value = result.value
    match call:
        case Create():
            return Answer(path=value)
        case SetData():
            return Answer(stat=_stat(value))
        case Delete():
            return Answer()
        case GetData():
            return Answer(data=value[0], stat=_stat(value[1]))
        case GetChildren():
            return Answer(children=tuple(sorted(value[0])), stat=_stat(value[1]))
        case Exists():
            return Answer(CallError.NO_NODE) if value is None else Answer(stat=_stat(value))


def _error(exception: BaseException) -> CallError:
    for kind, error in _ERRORS:
        if isinstance(exception, kind):
            return error
    raise exception  # a defect: the log has it, and the call stays open


def _stat(stat: ZnodeStat) -> NodeStat:
    return NodeStat(stat.version, stat.cversion, stat.ephemeralOwner, stat.numChildren)
