"""Takes one step of one node: copies the node, applies the event, and collects the outcome.

Between two steps a node is at rest: fsyncs have ended, the clock stands at `NOW_MS`, requests are numbered in a
canonical way. The clock never moves: what depends on time is an event of its own (`Expires`, `Lags`, `Waits`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from broker.core.broker_node import isr_changes, lifecycle, publishing, replication
from broker.core.broker_node.node import BrokerNode
from broker.core.controller import membership, recovery
from broker.core.controller.node import ControllerNode
from broker.core.messages import (
    FetchedPartition,
    FetchResponse,
    FetchSnapshotResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import METADATA_DIRECTORY, METADATA_TOPIC
from broker.core.node import make_node
from broker.core.ports.events import (
    CancelTimer,
    Disconnected,
    Effect,
    Event,
    Flush,
    FlushDone,
    LogEntry,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from broker.core.ports.events import Reply as ReplyEffect
from broker.core.ports.runtime import OpenRequest
from broker.core.records import decode_records, encode_batch, iterate_headers
from simulation.engine.disk import SimulatedDisk
from simulation.exhaustive.model.cloning import copy_node
from simulation.exhaustive.model.events import (
    Answered,
    Arrives,
    Beats,
    Decision,
    Dies,
    Expires,
    Fires,
    Lags,
    Learns,
    Leaves,
    Message,
    MetadataBatch,
    NodeEvent,
    Produces,
    Recalls,
    Starts,
    Waits,
    decisions,
    whole_batches,
)
from simulation.exhaustive.spec import TOPIC, ModelSpec

NOW_MS = 1_000_000_000
"""All times that matter lie within seconds of it."""

_LONG_AGO_MS = 0
CLIENT = 9
"""The endpoint of the client, and of the administrator."""
_IDS_FROM = 1_000
_PRODUCES_FROM = 5_000
_NUMBER_STEP = 100
_TIMERS = {isr_changes.ALTER_PARTITION, replication.RETRY, recovery.RETRY, recovery.DECIDE}
"""Timers that are events of their own: retries. The others are replaced by the events that depend on time."""
_SILENT = {publishing.FETCH, publishing.FETCH_SNAPSHOT, lifecycle.HEARTBEAT}
"""Requests that are not sent as messages: see `Learns`, `Beats`."""


class Waiting(NamedTuple):
    """A request that a node has accepted and not answered."""

    client: int
    channel: str
    purpose: str
    request: Any
    wanted: bool


class NodeState(NamedTuple):
    """A node at rest. Never changed: a step works on a copy."""

    node: BrokerNode | ControllerNode | None
    disk: SimulatedDisk
    timers: frozenset[Hashable]
    waiting: dict[int, Waiting]


class ModelNodeCrashed(Exception):
    """A node's core raised an exception."""


class StepResult(NamedTuple):
    """The outcome of a step, before states and messages are numbered."""

    state: NodeState
    messages: tuple[Message, ...]
    batches: tuple[MetadataBatch, ...]
    acknowledged: tuple[tuple[int, int], ...]  # (value, offset)
    decisions: tuple[Decision, ...]
    log_entries: tuple[str, ...]


def take(spec: ModelSpec, node_id: int, before: NodeState, event: NodeEvent) -> StepResult:
    """Apply an event to a copy of a node. Raises `ModelNodeCrashed`."""
    step = _Step(spec, node_id, before, event)
    try:
        return step.take()
    except Exception as error:
        raise ModelNodeCrashed(f"crash: node {node_id}: {type(error).__name__}: {error}") from error


class _Step:
    """One step: a copy of the node, the event, and the outcome."""

    def __init__(self, spec: ModelSpec, node_id: int, before: NodeState, event: NodeEvent) -> None:
        self.spec = spec
        self.node_id = node_id
        self.event = event
        self.disk = before.disk.copy()
        self.node = None if before.node is None else copy_node(before.node, self.disk)  # type: ignore[type-var]
        self.timers = set(before.timers)
        self.waiting = dict(before.waiting)
        self.messages: list[Message] = []
        self.acknowledged: list[tuple[int, int]] = []
        self.log_entries: list[str] = []

    def take(self) -> StepResult:
        """Apply the event and collect the outcome."""
        before = self.node.state if isinstance(self.node, ControllerNode) else None
        end, partition = (before.quorum.log.end_offset, before.image.partition(TOPIC, 0)) if before else (0, None)
        self._apply(self.event)
        batches = self._batches_from(end)
        self._normalise()
        return StepResult(
            NodeState(self.node, self.disk, frozenset(self.timers), self.waiting),
            tuple(self.messages),
            batches,
            tuple(self.acknowledged),
            tuple(decisions(batches, partition)),
            tuple(self.log_entries),
        )

    # --- events ------------------------------------------------------------------------------------------------------

    def _apply(self, event: NodeEvent) -> None:
        match event:
            case Arrives():
                self._accept(_IDS_FROM + event.client, Waiting(event.client, *event[2:]))
                if not event.wanted:
                    self._leave(event.client)
            case Answered():
                self._answered(event)
            case Learns():
                data = b"".join(batch.data for batch in event.batches)
                self._answer_open(
                    publishing.FETCH,
                    FetchResponse((FetchedPartition(METADATA_TOPIC, 0, ErrorCode.NONE, records=data),)),
                )
            case Recalls():
                snapshot = (event.end, event.epoch)
                part = FetchedPartition(METADATA_TOPIC, 0, ErrorCode.NONE, snapshot_id=snapshot)
                self._answer_open(publishing.FETCH, FetchResponse((part,)))
                whole = FetchSnapshotResponse(ErrorCode.NONE, snapshot, len(event.data), 0, event.data)
                self._answer_open(publishing.FETCH_SNAPSHOT, whole)
            case Fires():
                self._fire(event.key)
            case Beats():
                self._handle(TimerFired((lifecycle.HEARTBEAT,)))
            case Expires():
                self._controller.state.last_contact_ms[event.broker] = _LONG_AGO_MS
                self._handle(TimerFired((membership.SESSIONS,)))
            case Lags():
                self._lag(event.members)
            case Waits():
                self._wait_ends(event.client)
            case Produces():
                self._produce(event.value)
            case Leaves():
                self._leave(event.client)
            case Starts():
                self._start(event.incarnation)
            case Dies():
                self._die(event.kept)

    @property
    def _controller(self) -> ControllerNode:
        assert isinstance(self.node, ControllerNode)
        return self.node

    @property
    def _broker(self) -> BrokerNode:
        assert isinstance(self.node, BrokerNode)
        return self.node

    def _accept(self, request_id: int, waiting: Waiting) -> None:
        """Accept a request under this number, or the next free one."""
        while request_id in self.waiting:
            request_id += _NUMBER_STEP
        self.waiting[request_id] = waiting
        self._handle(RequestReceived(request_id, waiting.client, waiting.request))

    def _leave(self, client: int) -> None:
        self._handle(Disconnected(client))
        self.waiting = {number: one for number, one in self.waiting.items() if one.client != client}

    def _answered(self, event: Answered) -> None:
        assert self.node is not None
        opened = self.node.state.runtime.open_requests
        if event.purpose == lifecycle.HEARTBEAT:
            opened[0] = OpenRequest(event.purpose, event.request, event.server)
        for number, request in list(opened.items()):
            if (request.purpose, request.to, request.request) == (event.purpose, event.server, event.request):
                failed_or_answered = (
                    RequestFailed(number, "lost")
                    if event.response is None
                    else ResponseReceived(number, event.response)
                )
                self._handle(failed_or_answered)
                return

    def _answer_open(self, purpose: str, response: FetchResponse | FetchSnapshotResponse) -> None:
        assert self.node is not None
        opened = self.node.state.runtime.open_requests
        self._handle(ResponseReceived(next(n for n, one in opened.items() if one.purpose == purpose), response))

    def _fire(self, key: Hashable) -> None:
        self.timers.discard(key)
        if isinstance(key, tuple) and key[0] == replication.RETRY:
            for replica in self._broker.state.replicas.values():
                replica.retry_fetch_at_ms = 0
        self._handle(TimerFired(key))

    def _lag(self, members: tuple[int, ...]) -> None:
        for replica in self._broker.state.replicas.values():
            for member, remote in replica.remotes.items():
                remote.caught_up_ms = _LONG_AGO_MS if member in members else NOW_MS
        self._handle(TimerFired((isr_changes.SHRINK,)))

    def _wait_ends(self, client: int) -> None:
        for number, waiting in list(self.waiting.items()):
            if waiting.client == client and waiting.purpose == replication.FETCH:
                self._handle(TimerFired(("fetch-deadline", number)))

    def _produce(self, value: int) -> None:
        records = encode_batch([(None, value.to_bytes(8, "big"))], 0, 0, 0)
        request = ProduceRequest(-1, 1, (ProducePartition(TOPIC, 0, records),))
        self._accept(_PRODUCES_FROM + value, Waiting(CLIENT, "client", "produce", request, wanted=True))

    def _start(self, incarnation: str) -> None:
        node = make_node(self.spec.settings(self.node_id), self.disk, incarnation)
        assert isinstance(node, BrokerNode | ControllerNode)
        change = self.spec.without
        if change is not None:
            rules = change(node.state.rules)
            node.state.rules = rules
            if isinstance(node, ControllerNode):
                node.state.quorum.rules = rules.quorum
        if isinstance(node, BrokerNode):  # it is given all the metadata when it has registered (QU-21)
            node.state.metadata.stored = None
            self.disk.delete(METADATA_DIRECTORY)
        self.node = node
        self.timers, self.waiting = set(), {}
        self._handle(Started(NOW_MS))

    def _die(self, kept: int | None) -> None:
        self.node = None
        self.timers, self.waiting = set(), {}
        if kept is not None:
            for name, file in list(self.disk.files.items()):
                durable = file.durable or b""
                if name.endswith(".log"):
                    durable = max(durable, whole_batches(bytes(file.data), kept), key=len)
                file.data = bytearray(durable)
                file.durable = durable

    # --- effects -----------------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        assert self.node is not None
        flushes: list[Flush] = []
        for effect in self.node.handle(NOW_MS, event):
            self._carry_out(effect, flushes)
        for flush in flushes:
            for name in flush.files:
                self.disk.sync(name)
            self._handle(FlushDone(flush.token))

    def _carry_out(self, effect: Effect, flushes: list[Flush]) -> None:
        match effect:
            case Send():
                self._send(effect)
            case ReplyEffect(request_id, response):
                self._reply(self.waiting.pop(request_id, None), response)
            case SetTimer(key, _) if isinstance(key, tuple) and key[0] in _TIMERS:
                self.timers.add(key)
            case CancelTimer(key):
                self.timers.discard(key)
            case Flush():
                flushes.append(effect)
            case LogEntry(_, text):
                self.log_entries.append(text)
            case _:
                pass

    def _send(self, effect: Send) -> None:
        assert self.node is not None
        opened = self.node.state.runtime.open_requests[effect.request_id]
        if opened.purpose in _SILENT and not isinstance(self.event, Beats):
            return
        message = Arrives(self.node_id, effect.to, effect.channel, opened.purpose, effect.request)
        self.messages.append(message)

    def _reply(self, waiting: Waiting | None, response: Any) -> None:  # noqa: ANN401
        if waiting is None or response is None or not waiting.wanted:
            return
        if waiting.client != CLIENT:
            answer = Answered(waiting.client, self.node_id, waiting.channel, waiting.purpose, waiting.request, response)
            self.messages.append(answer)
        elif isinstance(response, ProduceResponse) and response.partitions[0].error_code == ErrorCode.NONE:
            record = next(iter(decode_records(waiting.request.partitions[0].records)))
            value = int.from_bytes(record.value or b"", "big")
            self.acknowledged.append((value, response.partitions[0].base_offset))

    # --- rest --------------------------------------------------------------------------------------------------------

    def _batches_from(self, offset: int) -> tuple[MetadataBatch, ...]:
        """The batches that the controller has committed from an offset on."""
        if not isinstance(self.node, ControllerNode):
            return ()
        log = self.node.state.quorum.log
        batches = []
        while offset < log.end_offset:
            data = log.read(offset, 1, log.end_offset)
            header = next(header for _, header in iterate_headers(data))
            batches.append(MetadataBatch(offset, header.last_offset + 1, data))
            offset = header.last_offset + 1
        return tuple(batches)

    def _normalise(self) -> None:
        """Remove differences between nodes that will behave alike."""
        if self.node is None:
            return
        self._drop_idle_timers()
        runtime = self.node.state.runtime
        opened = sorted(
            (one for one in runtime.open_requests.values() if one.purpose != lifecycle.HEARTBEAT),
            key=lambda one: (one.purpose, one.to, repr(one.request)),
        )
        runtime.open_requests = dict(enumerate(opened, 1))
        runtime.next_request_id = len(opened) + 1
        for topic in self.node.state.image.topics.values():
            for number, state in topic.partitions.items():
                topic.partitions[number] = state._replace(isr=tuple(sorted(state.isr)))
        if isinstance(self.node, BrokerNode):
            self._normalise_broker(self.node)

    def _normalise_broker(self, node: BrokerNode) -> None:
        state = node.state
        for request_id, opened in state.runtime.open_requests.items():
            if opened.purpose == replication.FETCH:
                state.fetching_from[opened.to] = request_id
        if state.broker_epoch >= 0:
            state.previous_broker_epoch = -1
        if state.caught_up:  # from here on its own view of being fenced does not change its behaviour
            state.fenced = False
            state.lifecycle = state.lifecycle.__class__.RUNNING
        for replica in state.replicas.values():
            replica.isr = tuple(sorted(replica.isr))
            if replica.flushing_to is None:
                replica.log.truncations = 0

    def _drop_idle_timers(self) -> None:
        """Drop retry timers that would have no effect."""
        if not isinstance(self.node, BrokerNode):
            return
        replicas = self.node.state.replicas.values()
        paused = {one.leader for one in replicas if one.role.value == "follower" and one.retry_fetch_at_ms > NOW_MS}
        pending = {one.pending_isr.request for one in replicas if one.pending_isr is not None}
        self.timers = {
            key
            for key in self.timers
            if isinstance(key, tuple) and (key[1] in paused if key[0] == replication.RETRY else key[-1] in pending)
        }
