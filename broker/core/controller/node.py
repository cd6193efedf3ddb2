"""The controller role as a node: dispatches every event to the module for its subject."""

from __future__ import annotations

import base64
from collections.abc import Hashable

from broker.core.configuration.settings import BROKER_LISTENER, Settings
from broker.core.controller import changes, membership, recovery, role
from broker.core.controller.partition_changes import all_partitions
from broker.core.controller.requests import (
    configs,
    leader_elections,
    metadata_fetches,
    partitions,
    replica_reports,
    topics,
)
from broker.core.controller.state import ControllerState
from broker.core.log.log import Log, LogConfig
from broker.core.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AnyRequest,
    AnyResponse,
    AssignReplicasToDirsRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeQuorumRequest,
    ElectLeadersRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    UnregisterBrokerRequest,
    VoteRequest,
    VoteResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.messages.refusals import ADMINISTRATION, refusal
from broker.core.metadata.records import METADATA_DIRECTORY, METADATA_TOPIC, ProducerIdsAllocated
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
from broker.core.ports.files import Files, StorageError, directory_of
from broker.core.ports.runtime import NotServed, OpenRequest, Runtime
from broker.core.quorum import elections, replication, snapshots
from broker.core.quorum.state import Quorum
from broker.core.records import decode_records, iterate_headers
from broker.core.rules.flaws import rules_for

_PRODUCER_ID_BLOCK = 1000


class ControllerNode:
    """A controller: a voter of the quorum, and the active controller while it leads."""

    def __init__(self, settings: Settings, files: Files, incarnation_id: str) -> None:
        """Open the metadata log. Raises `StorageError`, `UnknownRules`."""
        rules = rules_for(settings.generation, settings.flaws)
        runtime = Runtime()
        log = Log.open(files, METADATA_DIRECTORY, LogConfig(max_batch_bytes=1 << 30), clean=False)
        quorum = Quorum(settings, rules.quorum, runtime, files, log, incarnation_id)
        self.state = ControllerState(settings, rules, runtime, quorum, snapshots.replayed(quorum, 0))
        if log.end_offset < quorum.snapshot_id[0]:
            log.truncate_fully(quorum.snapshot_id[0])  # the snapshot is durable before the log that it covers
        quorum.high_watermark = quorum.snapshot_id[0]
        self._log_end_before = log.end_offset

    def handle(self, now_ms: int, event: Event) -> list[Effect]:
        """Handle one event, alone and to its end (CT-2)."""
        controller = self.state
        controller.runtime.now_ms = now_ms
        self._log_end_before = controller.quorum.log.end_offset
        try:
            self._dispatch(event)
            role.settle(controller)
            role.adopt_settings(controller)
        except StorageError as error:
            controller.runtime.take_effects()
            controller.runtime.log("error", f"the metadata log failed: {error}")
            controller.runtime.effects.append(
                Exit(4, f"log directory {controller.settings.log_dirs[directory_of(error.name)]} failed: {error}")
            )
        return controller.runtime.take_effects()

    def after_error(self, event: RequestReceived) -> list[Effect] | None:
        """The effects instead of those of a request whose handling raised an error; None if the node must end.

        A request of administration that has appended nothing to the metadata log has changed nothing that is kept: it
        is refused and the controller goes on. Requests of the quorum and of brokers may have been interrupted between
        two changes that belong together; only a start, which recovers, can be trusted then.
        """
        unchanged = self.state.quorum.log.end_offset == self._log_end_before
        if not isinstance(event.request, ADMINISTRATION) or not unchanged:
            return None
        self.state.runtime.take_effects()
        self.state.elections.pop(event.request_id, None)  # it is answered now
        self.state.runtime.reply(event.request_id, refusal(event.request, ErrorCode.UNKNOWN_SERVER_ERROR))
        return self.state.runtime.take_effects()

    def _dispatch(self, event: Event) -> None:
        controller = self.state
        match event:
            case RequestReceived():
                try:
                    self._request(event)
                except NotServed as refused:
                    controller.runtime.refuse(event.connection, str(refused))
            case ResponseReceived(request_id, response):
                opened = controller.runtime.open_requests.pop(request_id, None)
                if opened is not None:
                    self._answer(opened, response)
            case RequestFailed(request_id, _):
                opened = controller.runtime.open_requests.pop(request_id, None)
                if opened is not None:
                    self._answer(opened, None)
            case TimerFired(key):
                self._timer(key)
            case FlushDone(_, error):
                if error is not None:
                    raise StorageError(error, METADATA_DIRECTORY)
                replication.flushed(controller.quorum)
            case Disconnected(connection):
                metadata_fetches.forget_connection(controller, connection)
            case Started(wall_clock_ms):
                controller.runtime.set_wall_clock(wall_clock_ms)
                replication.flush(controller.quorum)
                elections.boot(controller.quorum)
                replication.fetch(controller.quorum)
            case StopRequested():
                if role.stop(controller):
                    self._exit()

    def _exit(self) -> None:
        self.state.quorum.log.close_clean()
        self.state.runtime.effects.append(Exit(0, "stopped cleanly"))

    def _request(self, event: RequestReceived) -> None:
        quorum = self.state.quorum
        reply = self.state.runtime.reply
        match event.request:
            case FetchRequest() as request:
                metadata_fetches.handle(self.state, event, request)
            case VoteRequest() as request:
                reply(event.request_id, elections.handle_vote(quorum, request))
            case BeginQuorumEpochRequest() as request:
                reply(event.request_id, elections.handle_begin_epoch(quorum, request))
                replication.fetch(quorum)
            case EndQuorumEpochRequest() as request:
                reply(event.request_id, elections.handle_end_epoch(quorum, request))
            case FetchSnapshotRequest() as request:
                reply(event.request_id, snapshots.handle(quorum, request))
            case DescribeQuorumRequest():
                reply(event.request_id, replication.describe(quorum))
            case request if not self.state.active or self.state.stopping:
                reply(event.request_id, refusal(request, ErrorCode.NOT_CONTROLLER))
            case request:
                self._administer(event.request_id, request)

    def _administer(self, request_id: int, request: AnyRequest) -> None:
        """Requests that only the active controller serves (AP-1, RG-1)."""
        controller = self.state
        match request:
            case BrokerHeartbeatRequest():
                membership.heartbeat(controller, request_id, request)
            case BrokerRegistrationRequest():
                membership.register(controller, request_id, request)
            case UnregisterBrokerRequest():
                membership.unregister(controller, request_id, request)
            case AlterPartitionRequest():
                replica_reports.alter_partition(controller, request_id, request)
            case AssignReplicasToDirsRequest():
                replica_reports.assign_to_directories(controller, request_id, request)
            case CreateTopicsRequest():
                topics.create(controller, request_id, request)
            case DeleteTopicsRequest():
                topics.delete(controller, request_id, request)
            case ElectLeadersRequest():
                leader_elections.elect(controller, request_id, request)
            case CreatePartitionsRequest():
                topics.add_partitions(controller, request_id, request)
            case AlterConfigsRequest() | IncrementalAlterConfigsRequest():
                configs.alter(controller, request_id, request)
            case AlterPartitionReassignmentsRequest():
                partitions.reassign(controller, request_id, request)
            case ListPartitionReassignmentsRequest():
                changes.reply(controller, request_id, request, partitions.ongoing(controller, request))
            case AllocateProducerIdsRequest():
                self._allocate_producer_ids(request_id, request)
            case _:
                raise NotServed(f"a controller does not serve {type(request).__name__}")

    def _allocate_producer_ids(self, request_id: int, request: AllocateProducerIdsRequest) -> None:
        controller = self.state
        if controller.image.broker_epoch(request.broker_id) != request.broker_epoch:
            stale = AllocateProducerIdsResponse(ErrorCode.STALE_BROKER_EPOCH)
            changes.reply(controller, request_id, request, stale)
            return
        start = controller.image.next_producer_id
        changes.append(controller, [ProducerIdsAllocated(start + _PRODUCER_ID_BLOCK)])
        block = AllocateProducerIdsResponse(ErrorCode.NONE, start, _PRODUCER_ID_BLOCK)
        changes.reply(controller, request_id, request, block)

    def _answer(self, opened: OpenRequest, response: AnyResponse | None) -> None:
        """Handle the response to a request of ours; None if there will be none."""
        quorum = self.state.quorum
        match opened.request, response:
            case FetchRequest() as request, answer if answer is None or isinstance(answer, FetchResponse):
                replication.fetched(quorum, opened.to, request, answer)
            case VoteRequest() as request, answer if answer is None or isinstance(answer, VoteResponse):
                elections.vote_answered(quorum, opened.to, request, answer)
                replication.fetch(quorum)
            case BeginQuorumEpochRequest(), (BeginQuorumEpochResponse() as answer):
                elections.follow_newer(quorum, answer.leader_epoch, answer.leader_id)
                replication.fetch(quorum)
            case EndQuorumEpochRequest(), _:
                if self.state.stopping and not any(
                    isinstance(other.request, EndQuorumEpochRequest)
                    for other in self.state.runtime.open_requests.values()
                ):
                    self._exit()
            case FetchSnapshotRequest(), answer if answer is None or isinstance(answer, FetchSnapshotResponse):
                image = snapshots.arrived(quorum, answer)
                if image is not None:
                    self.state.image = image
                replication.fetch(quorum)
            case GetReplicaLogInfoRequest() as request, answer if answer is None or isinstance(
                answer, GetReplicaLogInfoResponse
            ):
                epochs = opened.context if isinstance(opened.context, tuple) else ()
                recovery.answered(self.state, request, opened.to, epochs, answer)
            case _:
                pass  # a BeginQuorumEpoch that was not answered is repeated by `check_quorum`

    def _timer(self, key: Hashable) -> None:
        controller = self.state
        match key:
            case (membership.SESSIONS,):
                if controller.active:
                    membership.check_sessions(controller)
            case (leader_elections.BALANCE,):
                if controller.active:
                    leader_elections.balance(controller)
            case (leader_elections.DEADLINE, int(request_id)):
                leader_elections.timed_out(controller, request_id)
            case (recovery.RETRY,):
                if controller.active:
                    recovery.consider_all(controller)
            case (recovery.DECIDE, str(topic_id), int(number)):
                recovery.waited(controller, (topic_id, number))
            case (recovery.OVERDUE, str(topic_id), int(number)):
                recovery.overdue(controller, (topic_id, number))
            case (elections.ELECTION,):
                elections.timed_out(controller.quorum)
                replication.fetch(controller.quorum)
            case (elections.CHECK,):
                elections.check_quorum(controller.quorum)
            case (replication.FETCH,):
                replication.fetch(controller.quorum)
            case (metadata_fetches.DEADLINE, int(request_id)):
                metadata_fetches.timed_out(controller, request_id)
            case _:
                raise ValueError(f"unknown timer: {key!r}")

    # --- queries of the host -----------------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        """Whether a leader of the quorum is known."""
        return self.state.quorum.leader >= 0

    def broker_address(self, node_id: int) -> tuple[str, int] | None:
        """Address of a broker's inter-broker listener, by its registration."""
        broker = self.state.image.brokers.get(node_id)
        return broker.address(BROKER_LISTENER) if broker else None

    def describe(self) -> dict[str, object]:
        """The controller's state for the admin endpoint: brokers and partitions."""
        controller = self.state
        return {
            "node": controller.settings.node_id,
            "role": "controller",
            "generation": controller.settings.generation,
            "lifecycle": "running",
            "controller": controller.quorum.leader,
            "active": controller.active,
            "quorum_role": controller.quorum.role.value,
            "epoch": controller.quorum.epoch,
            "metadata_offset": controller.image.end_offset - 1,
            "log_end": controller.quorum.log.end_offset,
            "high_watermark": controller.quorum.high_watermark,
            "snapshot": list(controller.quorum.snapshot_id),
            "brokers": [
                {
                    "id": broker.broker_id,
                    "epoch": broker.epoch,
                    "fenced": broker.fenced,
                    "in_controlled_shutdown": broker.in_controlled_shutdown,
                }
                for broker in controller.image.brokers.values()
            ],
            "partitions": [
                {
                    "topic": topic.name,
                    "partition": number,
                    "leader": state.leader,
                    "leader_epoch": state.leader_epoch,
                    "partition_epoch": state.partition_epoch,
                    "isr": list(state.isr),
                    "elr": list(state.elr),
                    "last_known_elr": list(state.last_known_elr),
                    "replicas": list(state.replicas),
                    "offline": list(state.offline),
                }
                for topic, number, state in all_partitions(controller)
            ],
            **controller.losses.describe(),
        }

    def read_log(self, topic: str, partition: int, offset: int, limit: int) -> dict[str, object]:
        """Records of the metadata log, as JSON."""
        log = self.state.quorum.log
        if (topic, partition) != (METADATA_TOPIC, 0):
            raise KeyError((topic, partition))
        records: list[list[object]] = []
        offset = max(offset, log.start_offset)
        while offset < log.end_offset and len(records) < limit:
            batches = log.read(offset, 1 << 20, log.end_offset)
            for position, header in iterate_headers(batches):
                for record in () if header.is_control else decode_records(batches, position):
                    if record.offset >= offset:
                        value = base64.b64encode(record.value or b"").decode()
                        records.append([record.offset, header.leader_epoch, header.crc, None, value])
                offset = header.last_offset + 1
        return {
            "log_start": log.start_offset,
            "log_end": log.end_offset,
            "high_watermark": self.state.quorum.high_watermark,
            "records": records,
        }
