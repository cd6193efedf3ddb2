"""The broker role as a node: dispatches every event to the module for its subject."""

from __future__ import annotations

from collections.abc import Hashable

from broker.core.broker_node import (
    compaction,
    directories,
    inspection,
    isr_changes,
    lifecycle,
    publishing,
    replication,
    storage,
)
from broker.core.broker_node.groups import coordinator
from broker.core.broker_node.requests import (
    configs,
    deletion,
    descriptions,
    fetching,
    forwarding,
    outside,
    producers,
    producing,
    queries,
)
from broker.core.broker_node.state import BrokerState, Lifecycle
from broker.core.configuration.settings import BROKER_LISTENER, Settings
from broker.core.messages import (
    AllocateProducerIdsResponse,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AnyResponse,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationResponse,
    DeleteRecordsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeTopicPartitionsRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    FindCoordinatorRequest,
    GetReplicaLogInfoRequest,
    InitProducerIdRequest,
    ListConfigResourcesRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import GroupRequest
from broker.core.messages.outside import OutsideRequest
from broker.core.messages.refusals import QUERIES, refusal
from broker.core.messages.repetitions import without_repetitions
from broker.core.ports.events import (
    Disconnected,
    Effect,
    Event,
    FlushDone,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    Started,
    StopRequested,
    TimerFired,
)
from broker.core.ports.files import Files, StorageError
from broker.core.ports.runtime import NotServed, OpenRequest
from broker.core.replica.state import Replica, Role
from broker.core.rules.flaws import rules_for

_WITH_REPETITIONS = frozenset({FetchRequest, *QUERIES.__args__})
"""Requests that may ask for the same thing twice."""


class BrokerNode:
    """A broker. Drive it with `handle`; its state is in `state`."""

    def __init__(self, settings: Settings, files: Files, incarnation_id: str) -> None:
        """BL-1, BL-9: read the marker, open and recover the logs. Raises `StorageError`, `UnknownRules`."""
        self.state = BrokerState(
            settings,
            rules_for(settings.generation, settings.flaws),
            files,
            incarnation_id,
        )
        storage.take_marker(self.state)
        storage.open_metadata(self.state)
        storage.open_replicas(self.state)

    def handle(self, now_ms: int, event: Event) -> list[Effect]:
        """Handle one event. If the last log directory fails the broker stops (TR-6), and the event's other effects are
        dropped.
        """
        broker = self.state
        broker.runtime.now_ms = now_ms
        try:
            self._dispatch(event)
            self._settle()
        except StorageError as error:
            broker.runtime.take_effects()
            if not broker.rules.storage.goes_on_after_error():
                storage.failed(broker, error)
        return broker.runtime.take_effects()

    def after_error(self, event: RequestReceived) -> list[Effect] | None:
        """The effects instead of those of a request whose handling raised an error; None if the node must end.

        A query changes nothing that is kept, so it is refused and the broker goes on. Anything else may have been
        interrupted between two changes that belong together; only a start, which recovers, can be trusted then.
        """
        if not isinstance(event.request, QUERIES):
            return None
        self.state.runtime.take_effects()
        self.state.runtime.reply(event.request_id, refusal(event.request, ErrorCode.UNKNOWN_SERVER_ERROR))
        return self.state.runtime.take_effects()

    def _settle(self) -> None:
        """Resume requests that waited for a log end or high watermark that has moved."""
        broker = self.state
        if broker.lost:
            self._settle_lost()
        while broker.touched:
            key = next(iter(broker.touched))
            del broker.touched[key]
            replica = broker.replicas.get(key)
            if replica is not None:
                producing.complete(broker, replica)
                fetching.wake(broker, replica)
            coordinator.settle(broker, key)
            if broker.lost:
                self._settle_lost()

    def _settle_lost(self) -> None:
        """Answer requests that waited on replicas of a failed directory; inform the controller (KIP-112, KIP-858)."""
        broker = self.state
        while broker.lost:
            replica = broker.lost.pop(0)
            producing.fail_all(broker, replica, ErrorCode.KAFKA_STORAGE_ERROR)
            fetching.wake(broker, replica)
            coordinator.settle(broker, replica.key)
        directories.report(broker)

    def _dispatch(self, event: Event) -> None:
        broker = self.state
        match event:
            case RequestReceived():
                try:
                    self._request(event)
                except NotServed as refused:
                    broker.runtime.refuse(event.connection, str(refused))
            case ResponseReceived(request_id, response):
                opened = broker.runtime.open_requests.pop(request_id, None)
                if opened is not None:
                    self._answer(opened, response)
            case RequestFailed(request_id, _):
                opened = broker.runtime.open_requests.pop(request_id, None)
                if opened is not None:
                    self._answer(opened, None)
            case TimerFired(key):
                self._timer(key)
            case FlushDone(token, error):
                self._flush_done(token, error)
            case Disconnected(connection):
                producing.forget_connection(broker, connection)
                fetching.forget_connection(broker, connection)
            case Started(wall_clock_ms):
                broker.runtime.set_wall_clock(wall_clock_ms)
                self._start()
            case StopRequested():
                lifecycle.request_stop(broker)

    def _start(self) -> None:
        broker = self.state
        settings = broker.settings
        stop = "a clean stop" if broker.previous_broker_epoch >= 0 else "an unclean stop"
        broker.runtime.log("info", f"starts after {stop}, with {len(broker.replicas)} replicas on disk")
        for replica in broker.replicas.values():
            storage.flush(broker, replica)  # what recovery found valid may be in the page cache only
        lifecycle.begin(broker)
        publishing.fetch(broker)
        broker.runtime.set_timer((storage.CHECKPOINT,), settings.high_watermark_checkpoint_interval_ms)
        broker.runtime.set_timer((isr_changes.SHRINK,), max(1, settings.replica_lag_time_max_ms // 2))
        broker.runtime.set_timer((deletion.RETENTION,), settings.log_retention_check_interval_ms)
        broker.runtime.set_timer((deletion.IDLE_PRODUCERS,), settings.producer_id_expiration_check_interval_ms)

    def _request(self, event: RequestReceived) -> None:
        broker = self.state
        if type(event.request) in _WITH_REPETITIONS:
            shorter = without_repetitions(event.request)
            if shorter is not event.request:
                event = event._replace(request=shorter)
        match event.request:
            case ProduceRequest():
                producing.handle(broker, event, event.request)
            case FetchRequest():
                fetching.handle(broker, event, event.request)
            case MetadataRequest():
                unknown = queries.unknown_topics(broker, event.request)
                if unknown and event.request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable:
                    forwarding.create_missing_topics(broker, unknown)
                broker.runtime.reply(event.request_id, queries.metadata(broker, event.request))
            case ListOffsetsRequest():
                broker.runtime.reply(event.request_id, queries.list_offsets(broker, event.request, event.api_version))
            case OffsetForLeaderEpochRequest():
                broker.runtime.reply(event.request_id, queries.epoch_ends(broker, event.request))
            case InitProducerIdRequest():
                forwarding.init_producer_id(broker, event.request_id, event.request)
            case request if isinstance(request, forwarding.Forwarded):
                forwarding.forward(broker, event.request_id, request)
            case FindCoordinatorRequest():
                broker.runtime.reply(event.request_id, coordinator.find_coordinators(broker, event.request))
            case request if isinstance(request, GroupRequest):
                coordinator.handle(broker, event, request)
            case DescribeConfigsRequest() as request:
                broker.runtime.reply(event.request_id, configs.describe(broker, request))
            case ListConfigResourcesRequest() as request:
                broker.runtime.reply(event.request_id, configs.resources(broker, request))
            case DescribeTopicPartitionsRequest() as request:
                broker.runtime.reply(event.request_id, descriptions.topic_partitions(broker, request))
            case DescribeClusterRequest() as request:
                broker.runtime.reply(event.request_id, descriptions.cluster(broker, request))
            case DescribeLogDirsRequest() as request:
                broker.runtime.reply(event.request_id, descriptions.log_directories(broker, request))
            case DescribeProducersRequest() as request:
                broker.runtime.reply(event.request_id, producers.describe(broker, request))
            case DeleteRecordsRequest() as request:
                broker.runtime.reply(event.request_id, deletion.delete_records(broker, request))
            case GetReplicaLogInfoRequest():
                broker.runtime.reply(event.request_id, queries.replica_log_infos(broker, event.request))
            case request if isinstance(request, OutsideRequest):
                broker.runtime.reply(event.request_id, outside.refuse(request))
            case request:
                raise NotServed(f"a broker does not serve {type(request).__name__}")

    def _answer(self, opened: OpenRequest, response: AnyResponse | None) -> None:
        """Handle the response to a request of ours; None if there will be none."""
        broker = self.state
        context: Hashable = opened.context
        match opened.purpose, opened.request, response:
            case replication.FETCH, _, answer if answer is None or isinstance(answer, FetchResponse):
                replication.fetched(broker, int(str(context)), answer)
            case publishing.FETCH, _, answer if answer is None or isinstance(answer, FetchResponse):
                publishing.fetched(broker, opened.to, answer)
            case lifecycle.HEARTBEAT, BrokerHeartbeatRequest() as request, BrokerHeartbeatResponse() as answer:
                lifecycle.heartbeat_answered(broker, opened.to, request.broker_epoch, answer)
            case lifecycle.REGISTER, _, answer if answer is None or isinstance(answer, BrokerRegistrationResponse):
                if lifecycle.registered(broker, opened.to, answer):
                    publishing.publish_if_caught_up(broker)
                    lifecycle.heartbeat(broker)
            case publishing.FETCH_SNAPSHOT, _, answer if answer is None or isinstance(answer, FetchSnapshotResponse):
                publishing.snapshot_arrived(broker, answer)
            case directories.REPORT, _, answer if answer is None or isinstance(answer, AssignReplicasToDirsResponse):
                directories.reported(broker, answer)
            case isr_changes.ALTER_PARTITION, AlterPartitionRequest() as request, answer if (
                answer is None or isinstance(answer, AlterPartitionResponse)
            ):
                part = request.partitions[0]
                isr_changes.answered(broker, (part.topic, part.partition), request, answer)
            case forwarding.FORWARD, request, _ if isinstance(request, forwarding.Forwarded):
                assert isinstance(context, forwarding.ForwardedRequest)
                forwarding.forwarded(broker, context, request, response)
            case forwarding.PRODUCER_IDS, _, answer if answer is None or isinstance(
                answer, AllocateProducerIdsResponse
            ):
                forwarding.producer_ids_came(broker, answer)
            case replication.LEADER_END, ListOffsetsRequest() as request, ListOffsetsResponse() as answer:
                replication.leader_end_known(broker, request.partitions[0], str(context), answer)
            case replication.LEADER_START, ListOffsetsRequest() as request, ListOffsetsResponse() as answer:
                replication.leader_start_known(broker, request.partitions[0], str(context), answer)
            case _:
                pass  # no response to a heartbeat, an offset query or an auto-creation: the next one replaces it

    def _timer(self, key: Hashable) -> None:
        broker = self.state
        match key:
            case tuple() if key[:1] == (coordinator.TIMER,):
                coordinator.timer_fired(broker, key)
            case (producing.DEADLINE, int(request_id)):
                producing.timed_out(broker, request_id)
            case (fetching.DEADLINE, int(request_id)):
                fetching.timed_out(broker, request_id)
            case (replication.RETRY, int(leader_id)):
                replication.fetch_from(broker, leader_id)
            case (publishing.FETCH,):
                publishing.fetch(broker)
            case (forwarding.FORWARD, forwarding.ForwardedRequest() as asked, request) if isinstance(
                request, forwarding.Forwarded
            ):
                forwarding.pass_on(broker, asked, request)
            case (lifecycle.HEARTBEAT,):
                lifecycle.heartbeat(broker)
            case (lifecycle.REGISTER,):
                lifecycle.register(broker)
            case (lifecycle.SHUTDOWN_DEADLINE,):
                lifecycle.deadline_passed(broker)
            case (isr_changes.SHRINK,):
                isr_changes.shrink_all(broker)
            case (isr_changes.ALTER_PARTITION, str(topic), int(partition), AlterPartitionPartition() as request):
                isr_changes.retry(broker, (topic, partition), request)
            case (isr_changes.BUILD, str(topic), int(partition), AlterPartitionPartition() as request):
                isr_changes.build_late(broker, (topic, partition), request)
            case (replication.CUT, str(topic), int(partition), int(offset)):
                replication.cut_late(broker, (topic, partition), offset)
            case (deletion.RETENTION,):
                deletion.retain(broker)
            case (deletion.IDLE_PRODUCERS,):
                deletion.forget_idle_producers(broker)
            case (compaction.CHECK,):
                compaction.check(broker)
            case (compaction.STEP,):
                compaction.step(broker)
            case (storage.CHECKPOINT,):
                storage.checkpoint_regularly(broker)
            case (directories.REPORT,):
                directories.report_again(broker)
            case (storage.FLUSH_INTERVAL,):
                storage.flush_all(broker)
            case _:
                raise ValueError(f"unknown timer: {key!r}")

    def _flush_done(self, token: Hashable, error: str | None) -> None:
        broker = self.state
        match token:
            case (compaction.FLUSH, int(number)):
                compaction.flushed(broker, number, error)
                return
        replica: Replica | None = broker.replicas.get(token)  # type: ignore[call-overload]
        if error is not None and (replica is not None or len(broker.settings.log_dirs) == 1):
            directories.fail(broker, StorageError(error, replica.log.directory if replica is not None else ""))
            replication.fetch_from_all(broker)  # replicas of other directories may have waited for this
            return
        if replica is None:  # removed, or offline with its directory
            return
        storage.flushed(broker, replica)
        if not replica.acknowledges_flushed_only:
            return
        if replica.role is Role.LEADER:
            isr_changes.high_watermark_may_move(broker, replica)
            broker.touch(replica)
        elif replica.role is Role.FOLLOWER:
            replication.fetch_from(broker, replica.leader)

    # --- queries of the host -----------------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        """Whether clients are served: running, and unfenced as far as the broker knows."""
        return self.state.lifecycle is Lifecycle.RUNNING and not self.state.fenced

    def broker_address(self, node_id: int) -> tuple[str, int] | None:
        """Address of another broker's inter-broker listener, by the image."""
        member = self.state.image.brokers.get(node_id)
        return member.address(BROKER_LISTENER) if member else None

    def describe(self) -> dict[str, object]:
        """The broker's whole state, for the admin endpoint."""
        broker = self.state
        return {
            "node": broker.broker_id,
            "role": "broker",
            "generation": broker.settings.generation,
            "lifecycle": broker.lifecycle.value,
            "fenced": broker.fenced,
            "incarnation": broker.incarnation_id,
            "broker_epoch": broker.broker_epoch,
            "metadata_offset": broker.image.end_offset - 1,
            "metadata_log_end": broker.metadata.image.end_offset,
            "controller": broker.controller_id,
            "produces_waiting": len(broker.produces),
            "fetches_waiting": len(broker.fetches),
            "fetch_sessions": len(broker.fetch_sessions.sessions),
            "log_dirs": directories.describe(broker),
            "offline_partitions": [list(key) for key in broker.offline],
            "partitions": [inspection.describe(broker, replica) for replica in broker.replicas.values()],
        }

    def read_log(self, topic: str, partition: int, offset: int, limit: int) -> dict[str, object]:
        """Up to `limit` records of a replica's log from an offset on, beyond the high watermark too."""
        return inspection.read_log(self.state.replicas[topic, partition], offset, limit)
