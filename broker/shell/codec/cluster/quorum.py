"""Codec of requests of the controllers' quorum (KIP-595, KIP-996).

Vote (52), versions 0 to 2, BeginQuorumEpoch (53), 0 and 1, EndQuorumEpoch (54), 0 and 1. The wire could
carry many logs; there is one, the metadata log. Its fields are in its one partition, and
the error of a wrong cluster also at the top level, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from broker.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import METADATA_TOPIC
from broker.shell.codec import mapping
from broker.shell.codec.mapping import TEXT, Message, Structure, WireMessage, mapped, record
from broker.shell.codec.wire import DecodeError, Parts

T = TypeVar("T")
Answer = TypeVar("Answer", VoteResponse, BeginQuorumEpochResponse, EndQuorumEpochResponse)


def one_topic(message: WireMessage, version: int, fields: Mapping[str, object]) -> list[WireMessage]:
    """Place the fields of the metadata log's partition where the wire format has them."""
    topic = message.TopicData
    partition = topic.PartitionData(version=version, partition_index=0, **fields)
    return [topic(version=version, topic_name=METADATA_TOPIC, partitions=[partition])]


def the_partition(message: WireMessage) -> WireMessage:
    """Return the metadata log's partition of a message that may contain no other."""
    partitions = [
        (topic.topic_name, partition)
        for topic in mapping.elements(message.topics)
        for partition in mapping.elements(topic.partitions)
    ]
    if [name for name, _ in partitions] != [METADATA_TOPIC]:
        raise DecodeError(f"expected one partition of {METADATA_TOPIC}")
    return partitions[0][1]


def _request(wire: WireMessage, fields: Structure[T], of_message: int) -> Message[T]:
    """A request whose first fields are those of the message, the others those of the partition."""
    read_first, write_first = Structure.directions(wire, fields.columns[:of_message])
    read_rest, write_rest = Structure.directions(wire.TopicData.PartitionData, fields.columns[of_message:])

    def decode(data: bytes, position: int, version: int) -> T:
        found = mapping.decode_message(wire, data, position, version)
        return fields.make([*read_first(found), *read_rest(the_partition(found))])

    def encode(value: T, version: int) -> Parts:
        values: tuple[object, ...] = tuple(value)  # type: ignore[arg-type]
        topics = one_topic(wire, version, write_rest(values[of_message:], version))
        return mapping.encode_message(wire, version, **write_first(values[:of_message], version), topics=topics)

    return Message(wire, fields.kind, decode, encode)


def _response(wire: WireMessage, kind: type[Answer]) -> Message[Answer]:
    """A response that is all in the partition, but for the error of a wrong cluster, which is in both places."""

    def decode(data: bytes, position: int, version: int) -> Answer:
        found = mapping.decode_message(wire, data, position, version)
        said = the_partition(found)
        return kind(found.error_code or said.error_code, *(getattr(said, name) for name in kind._fields[1:]))

    def encode(response: Answer, version: int) -> Parts:
        wrong_cluster = response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        topics = one_topic(wire, version, response._asdict())
        return mapping.encode_message(
            wire, version, error_code=response.error_code if wrong_cluster else ErrorCode.NONE, topics=topics
        )

    return Message(wire, kind, decode, encode)


_VOTE = record(
    VoteRequest,
    cluster_id=TEXT,
    candidate_id="replica_id",
    candidate_epoch="replica_epoch",
    last_epoch="last_offset_epoch",
    last_epoch_end_offset="last_offset",
)

VOTE = mapped(
    (0, 2),
    _request(mapping.define("quorum", "VoteRequest"), _VOTE, of_message=2),
    _response(mapping.define("quorum", "VoteResponse"), VoteResponse),
)

BEGIN_QUORUM_EPOCH = mapped(
    (0, 1),
    _request(
        mapping.define("quorum", "BeginQuorumEpochRequest"),
        record(BeginQuorumEpochRequest, cluster_id=TEXT),
        of_message=2,
    ),
    _response(mapping.define("quorum", "BeginQuorumEpochResponse"), BeginQuorumEpochResponse),
)

# --- EndQuorumEpoch ---------------------------------------------------------------------------------------

_EndRequest = mapping.define("quorum", "EndQuorumEpochRequest")
_CANDIDATES = 1
"""From this version on successors include the ids of their directories (KIP-853)."""


def _decode_end_request(data: bytes, position: int, version: int) -> EndQuorumEpochRequest:
    wire = mapping.decode_message(_EndRequest, data, position, version)
    ended = the_partition(wire)
    if version >= _CANDIDATES:
        successors = [each.candidate_id for each in mapping.elements(ended.preferred_candidates)]
    else:
        successors = list(mapping.elements(ended.preferred_successors))
    return EndQuorumEpochRequest(wire.cluster_id or "", ended.leader_id, ended.leader_epoch, tuple(successors))


def _encode_end_request(request: EndQuorumEpochRequest, version: int) -> Parts:
    ended: dict[str, object] = {"leader_id": request.leader_id, "leader_epoch": request.leader_epoch}
    if version >= _CANDIDATES:
        candidate = _EndRequest.TopicData.PartitionData.ReplicaInfo
        ended["preferred_candidates"] = [
            candidate(version=version, candidate_id=each, candidate_directory_id=None)
            for each in request.preferred_successors
        ]
    else:
        ended["preferred_successors"] = request.preferred_successors
    topics = one_topic(_EndRequest, version, ended)
    return mapping.encode_message(_EndRequest, version, cluster_id=request.cluster_id, topics=topics)


END_QUORUM_EPOCH = mapped(
    (0, 1),
    Message(_EndRequest, EndQuorumEpochRequest, _decode_end_request, _encode_end_request),
    _response(mapping.define("quorum", "EndQuorumEpochResponse"), EndQuorumEpochResponse),
)
