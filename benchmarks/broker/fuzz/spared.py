"""Decides which frames the fuzzer leaves out: those by which their sender may validly do the damage it looks for.

A frame is judged as it is sent, after all changes, by what the broker's own codec makes of it: what cannot be decoded
is always sent. There are no users and no rights here, so a client may do what an administrator may, and who reaches
the listener of brokers or controllers is trusted as one of them. Left out is, and nothing else:

- on every listener where it is served: what deletes, alters, reassigns or adds partitions to the kept topic, deletes
  records of it or adds sound ones; what alters the settings of a broker or of the cluster, unless the value is none
  that a setting has; what unregisters a living broker; what creates more than `PARTITIONS_MAX` partitions at once,
  since each costs the machine files;
- a Fetch in the name of a broker that is a replica, or of a controller that is a voter, which may report as its own
  what it does not hold: then it is no error that a record counts as replicated. Names of others are used;
- on CONTROLLER: Vote, BeginQuorumEpoch and EndQuorumEpoch of a voter in the right cluster and an epoch that is not old,
  by which a voter deposes a leader; and in the name of a living broker with its present epoch: a heartbeat that wants
  it fenced or stopped, AlterPartition and AssignReplicasToDirs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from crc32c import crc32c

from benchmarks.broker.fuzz.drawing.values import BROKERS, CLUSTER_ID, CONTROLLERS, KEPT, NEVER_LEGAL
from broker.core.messages import (
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AnyRequest,
    AssignReplicasToDirsRequest,
    BeginQuorumEpochRequest,
    BrokerHeartbeatRequest,
    ConfigOperation,
    ConfigResource,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    IncrementalAlterConfigsRequest,
    ProduceRequest,
    ReplacedConfigs,
    UnregisterBrokerRequest,
    VoteRequest,
)
from broker.shell.codec.apis import LISTENER_APIS
from broker.shell.codec.frames import FrameBuffer, read_request, read_request_header
from broker.shell.codec.wire import DecodeError

PARTITIONS_MAX = 30
_FRAME_BYTES_MAX = 1 << 31
_TOPIC, _BROKER = 2, 4
_CRC = struct.Struct(">I")


class Known(NamedTuple):
    """What decides whether a frame is valid."""

    listener: str
    kept_id: str
    """The id of the kept topic, as text."""

    broker_epochs: dict[int, int]
    quorum_epoch: int
    """An epoch of the quorum that is not newer than the present one."""


def reason(data: bytes, known: Known) -> str | None:
    """Why bytes are left out; None: they are sent."""
    frames = FrameBuffer(_FRAME_BYTES_MAX)
    frames.feed(data)
    try:
        while (frame := frames.take()) is not None:
            found = _of_frame(frame, known)
            if found is not None:
                return found
    except DecodeError:
        pass  # the broker reads no further either
    return None


def _of_frame(frame: bytes, known: Known) -> str | None:
    header, position = read_request_header(frame)
    codec = LISTENER_APIS[known.listener].get(header.api_key)
    if codec is None:
        return None
    return _of_request(read_request(codec, header, frame, position), known)


def _of_request(request: AnyRequest, known: Known) -> str | None:
    kept = {KEPT, known.kept_id}
    match request:
        case DeleteTopicsRequest():
            touched = not kept.isdisjoint(name for topic in request.topics for name in topic)
            return "deletes the kept topic" if touched else None
        case DeleteRecordsRequest() | AlterPartitionReassignmentsRequest():
            parts = request.partitions if isinstance(request, DeleteRecordsRequest) else request.reassignments
            return "deletes or moves the kept records" if any(each.topic in kept for each in parts) else None
        case ProduceRequest():
            sound = any(each.topic in kept and _is_sound(each.records) for each in request.partitions)
            return "adds records to the kept topic" if sound else None
        case CreateTopicsRequest():
            return _many(max(topic.num_partitions, len(topic.assignments), 1) for topic in request.topics)
        case CreatePartitionsRequest():
            if any(each.topic in kept for each in request.topics):
                return "adds partitions to the kept topic"
            return _many(each.total_count for each in request.topics)
        case IncrementalAlterConfigsRequest():
            return _altered((each for each in request.resources if any(map(_may_take_effect, each.operations))), kept)
        case AlterConfigsRequest():  # what it does not name is removed, so that any of them may take effect
            return _altered(request.resources, kept)
        case UnregisterBrokerRequest():
            return "unregisters a living broker" if request.broker_id in BROKERS else None
        case FetchRequest():
            named = request.replica_id in (BROKERS if known.listener != "CONTROLLER" else CONTROLLERS)
            return "fetches in the name of a replica" if named else None
        case _:
            return _of_controllers(request, known)


def _of_controllers(request: AnyRequest, known: Known) -> str | None:
    match request:
        case VoteRequest():
            sender, epoch = request.candidate_id, request.candidate_epoch
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            sender, epoch = request.leader_id, request.leader_epoch
        case BrokerHeartbeatRequest() | AlterPartitionRequest() | AssignReplicasToDirsRequest():
            living = known.broker_epochs.get(request.broker_id) == request.broker_epoch
            if isinstance(request, BrokerHeartbeatRequest):
                living = living and (request.want_fence or request.want_shut_down)
            return "acts in the name of a living broker" if living else None
        case _:
            return None
    valid = sender in CONTROLLERS and request.cluster_id == CLUSTER_ID and epoch >= known.quorum_epoch
    return "acts in the name of a voter" if valid else None


def _many(counts: Iterable[int]) -> str | None:
    """Partitions that are refused anyway do not count: none or too many."""
    total = sum(count for count in counts if 0 < count <= 10_000)
    return f"creates more than {PARTITIONS_MAX} partitions" if total > PARTITIONS_MAX else None


def _altered(resources: Iterable[ConfigResource | ReplacedConfigs], kept: set[str]) -> str | None:
    touched = any(
        each.resource_type == _BROKER or (each.resource_type == _TOPIC and each.name in kept) for each in resources
    )
    return "alters settings of the kept topic or of brokers" if touched else None


def _may_take_effect(operation: ConfigOperation) -> bool:
    return operation.operation != 0 or (operation.value is not None and operation.value not in NEVER_LEGAL)


def _is_sound(records: bytes) -> bool:
    """Whether a checksum is right: the records may be appended then."""
    return len(records) > 21 and _CRC.unpack_from(records, 17)[0] == crc32c(records[21:])
