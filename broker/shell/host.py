"""Runs one node of the core on this machine: delivers events, executes effects in their order.

Everything except fsync happens on one asyncio loop. An event that arrives while another is being handled is
queued. If the node raises while it serves a request that has changed nothing, the request is refused, and the incident
is logged and counted. Otherwise its state cannot be trusted: the traceback is logged and the process ends with
status 70; the next start recovers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from broker.core.configuration.settings import BROKER_LISTENER, Address, Settings
from broker.core.messages import FetchRequest
from broker.core.ports.coordination import Coordinate, OpenSession
from broker.core.ports.events import (
    CONTROLLER_CHANNELS,
    CancelTimer,
    CloseConnection,
    Event,
    Exit,
    Flush,
    FlushDone,
    LogEntry,
    Reply,
    RequestReceived,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from broker.core.ports.files import Files
from broker.core.ports.marks import Mark
from broker.core.ports.runtime import Node
from broker.core.rules.features import features_of
from broker.shell.codec.apis import LISTENER_APIS, ZOOKEEPER_APIS
from broker.shell.files.flusher import Flusher
from broker.shell.files.fsyncs import Fsyncs
from broker.shell.network.peers import Peers
from broker.shell.network.server import Server
from broker.shell.observability import metrics
from broker.shell.observability.traffic import Traffic
from broker.zookeeper.choices import ZOOKEEPER_GENERATIONS

if TYPE_CHECKING:
    from broker.shell.coordination import KazooCoordination

LOG = logging.getLogger(__name__)
NODE_LOG = logging.getLogger("broker.node")

_RESPONSE_BYTES_MAX = 100 << 20
"""Of another node, which is trusted: what it sends was asked for, and bounded there."""

EXIT_CRASHED = 70
"""EX_SOFTWARE of sysexits.h: the node has a bug."""

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class NodeHost:
    """One running node. Create it inside the loop that is to run it."""

    def __init__(
        self,
        node: Node,
        settings: Settings,
        files: Files,
        on_ready: Callable[[], None],
        fsyncs: Fsyncs | None = None,
    ) -> None:
        """Prepare to run `node`; `on_ready` is called once, when it is first ready. `fsyncs` are those of `files`."""
        self.node = node
        self._settings = settings
        self._on_ready = on_ready
        self._ready = False
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._loop_failed)
        self._events: deque[Event] = deque()
        self._handling = False
        self._last_ms = 0
        self.marks: Counter[str] = Counter()
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._traffic = Traffic()
        self._fsyncs = fsyncs or Fsyncs()
        on_zookeeper = settings.generation in ZOOKEEPER_GENERATIONS
        features, apis = ((), ZOOKEEPER_APIS) if on_zookeeper else (features_of(settings.generation), LISTENER_APIS)
        request_bytes_max, idle_ms_max = settings.socket_request_max_bytes, settings.connections_max_idle_ms
        self._server = Server(self.post, request_bytes_max, idle_ms_max, self._traffic, features, apis)
        client_id = f"node-{settings.node_id}"
        self._peers = Peers(self.post, self.address_of, client_id, _RESPONSE_BYTES_MAX, self._traffic)
        self._flusher = Flusher(files.sync, self._flushed, self._flush_failed)
        self._coordination = self._with_ensemble() if on_zookeeper else None
        self._carry_out: Mapping[type, Callable[..., None]] = {
            Reply: self._reply,
            Send: self._send_apart if on_zookeeper else self._peers.send,
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Flush: self._flusher.submit,
            CloseConnection: self._close_connection,
            LogEntry: self._log,
            Mark: self._mark,
            Exit: self._exit,
            OpenSession: self._open_session,
            Coordinate: self._coordinate,
        }

    def _with_ensemble(self) -> KazooCoordination:
        from broker.shell.coordination import KazooCoordination  # kazoo is an extra

        servers = ",".join(f"{host}:{port}" for host, port in self._settings.zookeeper_connect)
        return KazooCoordination(servers, partial(self._from_thread, self.post))

    async def listen(self) -> tuple[int, ...]:
        """Bind all listeners and return their ports. Raises OSError if an address is taken or not local."""
        return tuple([await self._server.listen(listener) for listener in self._settings.listeners])

    async def run(self) -> int:
        """Start the node and return its exit status."""
        self.post(Started(time.time_ns() // 1_000_000))
        status = await self._ended
        for timer in self._timers.values():
            timer.cancel()
        self._peers.close()
        await self._server.close()
        if self._coordination is not None:
            await asyncio.to_thread(self._coordination.close)  # asks the ensemble, for as long as a session lasts
        self._flusher.close()
        return status

    def metrics(self) -> str:
        """The node's counters and state, in Prometheus' text format."""
        return metrics.render(self.node, self._traffic, self._fsyncs)

    def post(self, event: Event) -> None:
        """Deliver an event: now, or after the queued ones."""
        self._events.append(event)
        if self._handling or self._ended.done():
            return
        self._handling = True
        try:
            while self._events and not self._ended.done():
                self._handle(self._events.popleft())
        except Exception as error:
            self._crash(error)
        finally:
            self._handling = False

    def address_of(self, node_id: int, channel: str) -> Address | None:
        """The address of a node on a channel.

        A voter's controller listener is at the configured address. Any other listener is a broker's: the
        operator's override takes precedence over the metadata. So a combined node has two addresses. Without voters,
        on ZooKeeper, there are only brokers, of which the controller is one: it sends requests to itself, too.
        """
        settings = self._settings
        if channel in CONTROLLER_CHANNELS and settings.voters:
            return settings.voters.get(node_id)
        if node_id == settings.node_id:
            return next((one.host, one.port) for one in settings.listeners if one.name == BROKER_LISTENER)
        return settings.peer_addresses.get(node_id) or self.node.broker_address(node_id)

    # --- implementation -----------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        try:
            effects = self.node.handle(self._now_ms(), event)
        except Exception as error:
            instead = self.node.after_error(event) if isinstance(event, RequestReceived) else None
            if not isinstance(event, RequestReceived) or instead is None:
                raise
            self._traffic.incidents += 1
            refused = type(event.request).__name__
            LOG.error("incident %d, a bug: %s is refused", self._traffic.incidents, refused, exc_info=error)
            effects = instead
        for effect in effects:
            self._carry_out[type(effect)](effect)
        if not self._ready and self.node.is_ready():
            self._ready = True
            self._on_ready()

    def _now_ms(self) -> int:
        # Never less than a fired timer's due time, whatever the loop's rounding.
        self._last_ms = max(self._last_ms, time.monotonic_ns() // 1_000_000)
        return self._last_ms

    def _reply(self, effect: Reply) -> None:
        self._server.reply(effect.request_id, effect.response)

    def _close_connection(self, effect: CloseConnection) -> None:
        self._server.close_connection(effect.connection)

    def _set_timer(self, effect: SetTimer) -> None:
        previous = self._timers.get(effect.key)
        if previous is not None:
            previous.cancel()
        due_s = effect.at_ms / 1000
        self._timers[effect.key] = self._loop.call_at(due_s, self._fire, effect)

    def _cancel_timer(self, effect: CancelTimer) -> None:
        timer = self._timers.pop(effect.key, None)
        if timer is not None:
            timer.cancel()

    def _fire(self, timer: SetTimer) -> None:
        del self._timers[timer.key]
        self._last_ms = max(self._last_ms, timer.at_ms)
        self.post(TimerFired(timer.key))

    def _send_apart(self, effect: Send) -> None:
        """The designs on ZooKeeper have a fetcher for each replica: a fetch that waits must not hold up the others."""
        if isinstance(effect.request, FetchRequest):
            part = effect.request.partitions[0]
            effect = effect._replace(channel=f"{effect.channel} {part.topic}-{part.partition}")
        self._peers.send(effect)

    def _open_session(self, effect: OpenSession) -> None:
        assert self._coordination is not None, "only a node of the designs on ZooKeeper has sessions"
        self._coordination.open(effect)

    def _coordinate(self, effect: Coordinate) -> None:
        assert self._coordination is not None, "only a node of the designs on ZooKeeper makes calls"
        self._coordination.coordinate(effect)

    def _mark(self, effect: Mark) -> None:
        self.marks[effect.name] += 1

    def _log(self, effect: LogEntry) -> None:
        NODE_LOG.log(_LEVELS[effect.level], "%s", effect.text)

    def _exit(self, effect: Exit) -> None:
        level = logging.INFO if effect.status == 0 else logging.ERROR
        LOG.log(level, "exits with status %d: %s", effect.status, effect.reason)
        self._end(effect.status)

    def _end(self, status: int) -> None:
        if not self._ended.done():
            self._ended.set_result(status)

    def _crash(self, error: BaseException) -> None:
        LOG.critical("crashed, this is a bug", exc_info=error)
        self._end(EXIT_CRASHED)

    def _flushed(self, flush: Flush, error: str | None) -> None:
        self._from_thread(self.post, FlushDone(flush.token, error))

    def _flush_failed(self, error: BaseException) -> None:
        self._from_thread(self._crash, error)

    def _from_thread(self, call: Callable[..., None], argument: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, argument)

    def _loop_failed(self, _: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError):
            LOG.warning("%s: %s", context["message"], error)
        elif isinstance(error, BaseException):
            self._crash(error)
        else:
            LOG.warning("%s", context["message"])
