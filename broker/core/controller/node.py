"""The controller as a node: every event goes to the module that owns its subject."""

from __future__ import annotations

import base64
from collections.abc import Hashable

from broker.core.controller import (
    alter_partition,
    changes,
    leader_elections,
    membership,
    recovery,
    topics,
)
from broker.core.controller.partition_changes import all_partitions
from broker.core.controller.state import METADATA_DIRECTORY, ControllerState
from broker.core.errors import ErrorCode
from broker.core.events import (
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
from broker.core.files import Files, StorageError
from broker.core.log.log import Log, LogConfig
from broker.core.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AnyResponse,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    FetchRequest,
    GetReplicaLogInfoResponse,
)
from broker.core.metadata.records import METADATA_TOPIC, ProducerIdsAllocated, decode_changes
from broker.core.records import decode_records, iterate_headers
from broker.core.rules.flaws import rules_for
from broker.core.runtime import OpenRequest
from broker.core.settings import BROKER_LISTENER, Settings

_PRODUCER_ID_BLOCK = 1000


class ControllerNode:
    """The one controller of a cluster. Drive it with `handle`; everything it knows is in `state`."""

    def __init__(self, settings: Settings, files: Files, incarnation_id: str) -> None:
        """Open the metadata log and replay it; what survived on the disk is committed. Raises `StorageError`."""
        del incarnation_id
        log = Log.open(files, METADATA_DIRECTORY, LogConfig(max_batch_bytes=1 << 30), clean=False)
        self.state = ControllerState(
            settings, rules_for(settings.generation, settings.flaws), files, log, epoch=log.last_epoch + 1
        )
        while self.state.image.end_offset < log.end_offset:
            for offset, record in decode_changes(log.read(self.state.image.end_offset, 1 << 20, log.end_offset)):
                self.state.image.apply(offset, record)

    def handle(self, now_ms: int, event: Event) -> list[Effect]:
        """React to one event, alone and to its end (CT-2)."""
        controller = self.state
        controller.runtime.now_ms = now_ms
        try:
            self._dispatch(event)
        except StorageError as error:
            controller.runtime.take_effects()
            controller.runtime.note("error", f"the metadata log failed: {error}")
            controller.runtime.effects.append(Exit(4, f"log directory {controller.settings.log_dir} failed: {error}"))
        return controller.runtime.take_effects()

    def _dispatch(self, event: Event) -> None:
        controller = self.state
        match event:
            case RequestReceived():
                self._request(event)
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
                    raise StorageError(error)
                changes.flushed(controller)
            case Disconnected(connection):
                for request_id in [n for n, fetch in controller.fetches.items() if fetch.connection == connection]:
                    changes.forget(controller, request_id)
            case Started():
                controller.runtime.note(
                    "info",
                    f"controller epoch {controller.epoch}, metadata log ends at {controller.log.end_offset}",
                )
                controller.committed = controller.log.flushed_offset
                changes.flush(controller)
                membership.start_sessions(controller)
                recovery.consider_all(controller)
            case StopRequested():
                controller.log.close_clean()
                controller.runtime.effects.append(Exit(0, "stopped cleanly"))

    def _request(self, event: RequestReceived) -> None:
        controller = self.state
        request_id = event.request_id
        match event.request:
            case FetchRequest():
                changes.handle_fetch(controller, event, event.request)
            case BrokerHeartbeatRequest():
                membership.heartbeat(controller, request_id, event.request)
            case BrokerRegistrationRequest():
                membership.register(controller, request_id, event.request)
            case AlterPartitionRequest():
                alter_partition.handle(controller, request_id, event.request)
            case CreateTopicsRequest():
                topics.create(controller, request_id, event.request)
            case DeleteTopicsRequest():
                topics.delete(controller, request_id, event.request)
            case ElectLeadersRequest():
                leader_elections.elect(controller, request_id, event.request)
            case AllocateProducerIdsRequest():
                self._allocate_producer_ids(request_id, event.request)
            case request:
                raise TypeError(f"a controller does not serve {type(request).__name__}")

    def _allocate_producer_ids(self, request_id: int, request: AllocateProducerIdsRequest) -> None:
        controller = self.state
        if controller.image.broker_epoch(request.broker_id) != request.broker_epoch:
            changes.reply(controller, request_id, AllocateProducerIdsResponse(ErrorCode.STALE_BROKER_EPOCH))
            return
        start = controller.image.next_producer_id
        changes.append(controller, [ProducerIdsAllocated(start + _PRODUCER_ID_BLOCK)])
        changes.reply(controller, request_id, AllocateProducerIdsResponse(ErrorCode.NONE, start, _PRODUCER_ID_BLOCK))

    def _answer(self, opened: OpenRequest, response: AnyResponse | None) -> None:
        match opened.context, response:
            case (str(topic_id), int(number), int(epoch), int(member)), (GetReplicaLogInfoResponse() | None) as answer:
                recovery.answered(self.state, (topic_id, number, epoch, member), answer)
            case _:
                raise ValueError(f"an answer that nobody asked for: {opened.purpose}")

    def _timer(self, key: Hashable) -> None:
        controller = self.state
        match key:
            case (membership.SESSIONS,):
                membership.check_sessions(controller)
            case (recovery.RETRY,):
                controller.recoveries.clear()
                recovery.consider_all(controller)
            case (changes.FETCH_DEADLINE, int(request_id)):
                if request_id in controller.fetches:
                    changes.try_answer(controller, request_id, at_deadline=True)
            case _:
                raise ValueError(f"a timer that nobody set: {key!r}")

    # --- what others may ask -----------------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        """A controller serves as soon as it runs."""
        return True

    def broker_address(self, node_id: int) -> tuple[str, int] | None:
        """Where a broker's inter-broker listener is, by its registration."""
        broker = self.state.image.brokers.get(node_id)
        return broker.address(BROKER_LISTENER) if broker else None

    def describe(self) -> dict[str, object]:
        """The white box: the controller's own view of brokers and partitions."""
        controller = self.state
        return {
            "node": controller.settings.node_id,
            "role": "controller",
            "lifecycle": "running",
            "controller": controller.settings.node_id,
            "epoch": controller.epoch,
            "metadata_offset": controller.log.end_offset - 1,
            "committed": controller.committed,
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
                }
                for topic, number, state in all_partitions(controller)
            ],
        }

    def read_log(self, topic: str, partition: int, offset: int, limit: int) -> dict[str, object]:
        """Records of the metadata log, as the JSON that they are."""
        log = self.state.log
        if (topic, partition) != (METADATA_TOPIC, 0):
            raise KeyError((topic, partition))
        records: list[list[object]] = []
        offset = max(offset, log.start_offset)
        while offset < log.end_offset and len(records) < limit:
            batches = log.read(offset, 1 << 20, log.end_offset)
            for position, header in iterate_headers(batches):
                for record in decode_records(batches, position):
                    if record.offset >= offset:
                        value = base64.b64encode(record.value or b"").decode()
                        records.append([record.offset, header.leader_epoch, header.crc, None, value])
                offset = header.last_offset + 1
        return {
            "log_start": log.start_offset,
            "log_end": log.end_offset,
            "high_watermark": self.state.committed,
            "records": records,
        }
