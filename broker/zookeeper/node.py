"""A broker of the ZooKeeper designs as a node: dispatches every event to the module for its subject."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from broker.core.broker_node import inspection, storage
from broker.core.broker_node.state import BrokerState
from broker.core.configuration.settings import Settings
from broker.core.messages import (
    UNKNOWN,
    AlterPartitionReassignmentsRequest,
    AnyRequest,
    AnyResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
    ProduceRequest,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.messages.refusals import QUERIES, refusal
from broker.core.ports.coordination import Coordinated, SessionChanged, WatchFired
from broker.core.ports.events import (
    Disconnected,
    Effect,
    Event,
    Exit,
    FlushDone,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    Started,
    StopRequested,
    TimerFired,
)
from broker.core.ports.files import Files, StorageError
from broker.core.ports.runtime import NotServed
from broker.core.rules.generations import k5
from broker.core.rules.log import StorageRules
from broker.zookeeper import procedures
from broker.zookeeper.choices import V2, checked
from broker.zookeeper.designs.table import DESIGNS
from broker.zookeeper.paths import BadZnode
from broker.zookeeper.procedures import Procedures
from broker.zookeeper.reading import begin_session
from broker.zookeeper.replicas import following
from broker.zookeeper.requests import fetching, producing, queries
from broker.zookeeper.state import Hosted, ZooKeeperState

WRONG_INPUT = 2
"""Exit status where the tree holds something else than this design writes."""


class _AsCheckpointed(StorageRules):
    def doubts_what_was_cut(self) -> bool:
        """No: the designs go on from the smaller one of checkpoint and log end, and cut to that."""
        return False

    def syncs_cuts(self) -> bool:
        """No: no election of theirs ranks logs by their ends."""
        return False


class ZooKeeperNode:
    """A broker. Drive it with `handle`; its state is in `state`."""

    def __init__(self, settings: Settings, files: Files, incarnation_id: str) -> None:
        """Open and recover the logs; each high watermark is what was checkpointed, within the log.

        Of the KRaft rules only those of storage are used, which are about files. Raises `StorageError`,
        `UnknownSwitch`.
        """
        broker = BrokerState(settings, replace(k5(), storage=_AsCheckpointed()), files, incarnation_id)
        self._design = DESIGNS[settings.generation]
        choices = checked(settings.generation, settings.flaws)
        self.state = ZooKeeperState(broker, Procedures(broker.runtime), choices, self._design.insync_in)
        storage.take_marker(broker)
        storage.open_replicas(broker)

    def handle(self, now_ms: int, event: Event) -> list[Effect]:
        """Handle one event. If the disk fails, or a znode holds something else, the broker stops."""
        broker = self.state.broker
        broker.runtime.now_ms = now_ms
        try:
            self._dispatch(event)
            self._settle()
        except StorageError as error:
            broker.runtime.take_effects()
            storage.failed(broker, error)
        except BadZnode as error:
            broker.runtime.log("error", str(error))
            broker.runtime.effects.append(Exit(WRONG_INPUT, str(error)))
        return broker.runtime.take_effects()

    def _settle(self) -> None:
        """Let those go on that wait for a log end or a high watermark."""
        zk = self.state
        zk.procedures.recheck()
        while zk.broker.touched:
            key = next(iter(zk.broker.touched))
            del zk.broker.touched[key]
            hosted = zk.hosted.get(key)
            if hosted is not None:
                fetching.wake(zk, hosted)
            zk.procedures.recheck()

    def _dispatch(self, event: Event) -> None:
        zk = self.state
        match event:
            case RequestReceived():
                try:
                    self._request(event)
                except NotServed as refused:
                    zk.broker.runtime.refuse(event.connection, str(refused))
            case ResponseReceived(request_id, response):
                self._answered(request_id, response)
            case RequestFailed(request_id, _):
                self._answered(request_id, None)
            case TimerFired(key):
                self._timer(key)
            case FlushDone(token, error):
                self._flush_done(token, error)
            case Coordinated(call_id, answer):
                zk.procedures.answered(call_id, answer)
            case WatchFired():
                self._design.watch_fired(zk, event)
            case SessionChanged():
                self._design.session_changed(zk, event)
            case Disconnected(connection):
                producing.forget_connection(zk, connection)
                fetching.forget_connection(zk, connection)
            case Started(wall_clock_ms):
                zk.broker.runtime.set_wall_clock(wall_clock_ms)
                self._start()
            case StopRequested():
                self._design.stop(zk)

    def _start(self) -> None:
        zk = self.state
        for replica in zk.broker.replicas.values():
            storage.flush(zk.broker, replica)
        zk.broker.runtime.set_timer((storage.CHECKPOINT,), zk.broker.settings.high_watermark_checkpoint_interval_ms)
        begin_session(zk)

    def _request(self, event: RequestReceived) -> None:
        zk = self.state
        match event.request:
            case ProduceRequest() as request:
                producing.handle(zk, event, request, lambda hosted: self._design.look_at_queue(zk, hosted))
            case FetchRequest() as request:
                fetching.handle(zk, event, request, self._design.fetched_from)
            case ListOffsetsRequest() as request:
                zk.broker.runtime.reply(event.request_id, queries.list_offsets(zk, request))
            case MetadataRequest() as request:
                zk.procedures.start(
                    ("metadata", event.request_id), self._design.metadata(zk, event.request_id, request)
                )
            case request if not self._design.serve(zk, event.request_id, request):
                command = self._design.administer(zk, event.request_id, request)
                if command is None:
                    zk.broker.runtime.reply(event.request_id, self._lacking(request))
                else:
                    zk.procedures.start(("administration", event.request_id), command)

    def _lacking(self, request: AnyRequest) -> AnyResponse:
        """The answer to a command that other designs have. Raises `NotServed` for any other request."""
        generation = self.state.broker.settings.generation
        match request:
            case UnregisterBrokerRequest():
                message = f"brokers of {generation} are registered as long as they live"
                return UnregisterBrokerResponse(ErrorCode.UNSUPPORTED_VERSION, message)
            case AlterPartitionReassignmentsRequest() | ListPartitionReassignmentsRequest():
                return refusal(request, ErrorCode.UNSUPPORTED_VERSION)
        raise NotServed(f"a broker on ZooKeeper does not serve {type(request).__name__}")

    def _answered(self, request_id: int, response: AnyResponse | None) -> None:
        zk = self.state
        opened = zk.broker.runtime.open_requests.pop(request_id, None)
        if opened is None:
            return
        if opened.purpose == procedures.PURPOSE:
            zk.procedures.responded(int(str(opened.context)), response)
            return
        assert isinstance(opened.request, FetchRequest)
        hosted = zk.hosted.get((opened.request.partitions[0].topic, opened.request.partitions[0].partition))
        if hosted is not None:
            self._design.fetched(zk, hosted, request_id, response if isinstance(response, FetchResponse) else None)

    def _timer(self, key: Hashable) -> None:
        zk = self.state
        match key:
            case (procedures.TIMER, int(number), int(step)):
                zk.procedures.fired(number, step)
            case (producing.DEADLINE, int(request_id)):
                producing.timed_out(zk, request_id)
            case (fetching.DEADLINE, int(request_id)):
                fetching.timed_out(zk, request_id)
            case (following.RETRY, (str(topic), int(partition))):
                hosted = zk.hosted.get((topic, partition))
                if hosted is not None:
                    following.fetch(zk, hosted)
            case (storage.CHECKPOINT,):
                storage.checkpoint_regularly(zk.broker)
            case (storage.FLUSH_INTERVAL,):
                storage.flush_all(zk.broker)

    def _flush_done(self, token: Hashable, error: str | None) -> None:
        broker = self.state.broker
        match token:
            case (str(topic), int(partition)) if (topic, partition) in broker.replicas:
                replica = broker.replicas[topic, partition]
                if error is not None:
                    raise StorageError(error, replica.log.directory)
                storage.flushed(broker, replica)

    # --- queries of the host -----------------------------------------------------------------------------------------

    def after_error(self, event: RequestReceived) -> list[Effect] | None:
        """The effects instead of those of a request whose handling raised an error; None if the node must end."""
        if not isinstance(event.request, QUERIES):
            return None
        self.state.broker.runtime.take_effects()
        self.state.broker.runtime.reply(event.request_id, refusal(event.request, ErrorCode.UNKNOWN_SERVER_ERROR))
        return self.state.broker.runtime.take_effects()

    def is_ready(self) -> bool:
        """Whether it is registered."""
        return self.state.is_registered

    def broker_address(self, node_id: int) -> tuple[str, int] | None:
        """Where a broker listens, as last read from its znode."""
        return self.state.addresses.get(node_id)

    def describe(self) -> dict[str, object]:
        """The broker's state, as JSON. What it believes of a partition is not always what the tree says."""
        zk = self.state
        return {
            "role": "broker",
            "node": zk.broker_id,
            "generation": zk.broker.settings.generation,
            "lifecycle": "running" if zk.is_registered else "starting",
            "session": zk.session,
            "queued_requests": zk.backlog,
            "partitions": [
                {**inspection.describe(zk.broker, hosted.replica), "leader_epoch": self._epoch(hosted)}
                for hosted in zk.hosted.values()
            ],
        }

    def _epoch(self, hosted: Hosted) -> int:
        """The epoch in which this broker leads; unknown to others, and in the first design."""
        if self.state.is_controlled:
            return hosted.replica.leader_epoch
        return hosted.epoch if hosted.is_open and self.state.broker.settings.generation == V2 else UNKNOWN

    def read_log(self, topic: str, partition: int, offset: int, limit: int) -> dict[str, object]:
        """Records of a replica's log. Raises KeyError if there is no such replica."""
        return inspection.read_log(self.state.broker.replicas[topic, partition], offset, limit)
