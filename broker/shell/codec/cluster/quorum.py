"""Codec of requests of the controllers' quorum (KIP-595, KIP-996).

Vote (52), versions 0 to 2, BeginQuorumEpoch (53), 0 and 1, EndQuorumEpoch (54), 0 and 1. The wire could
carry many logs; there is one, the metadata log. Its fields are in its one partition, and
the error of a wrong cluster also at the top level, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping

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
from broker.shell.codec import schema
from broker.shell.codec.base import Codec
from broker.shell.codec.errors import DecodeError
from broker.shell.codec.schema import WireMessage
from broker.shell.codec.wire import Parts


def one_topic(message: WireMessage, version: int, fields: Mapping[str, object]) -> list[WireMessage]:
    """Place the fields of the metadata log's partition where the wire format has them."""
    topic = message.TopicData
    partition = topic.PartitionData(version=version, partition_index=0, **fields)
    return [topic(version=version, topic_name=METADATA_TOPIC, partitions=[partition])]


def the_partition(message: WireMessage) -> WireMessage:
    """Return the metadata log's partition of a message that may contain no other."""
    partitions = [
        (topic.topic_name, partition)
        for topic in schema.elements(message.topics)
        for partition in schema.elements(topic.partitions)
    ]
    if [name for name, _ in partitions] != [METADATA_TOPIC]:
        raise DecodeError(f"expected one partition of {METADATA_TOPIC}")
    return partitions[0][1]


def _top_level(error_code: int) -> int:
    return error_code if error_code == ErrorCode.INCONSISTENT_CLUSTER_ID else ErrorCode.NONE


# --- Vote -------------------------------------------------------------------------------------------------

_VoteRequest = schema.define("VoteRequest")
_VoteResponse = schema.define("VoteResponse")
_PRE_VOTE = 2
"""From this version on a vote may be a pre-vote (KIP-996)."""


def _decode_vote_request(data: bytes, position: int, version: int) -> VoteRequest:
    wire = schema.decode(_VoteRequest, data, position, version)
    asked = the_partition(wire)
    return VoteRequest(
        wire.cluster_id or "",
        wire.voter_id,
        asked.replica_id,
        asked.replica_epoch,
        asked.last_offset_epoch,
        asked.last_offset,
        version >= _PRE_VOTE and asked.pre_vote,
    )


def _encode_vote_request(request: VoteRequest, version: int) -> Parts:
    asked = {
        "replica_id": request.candidate_id,
        "replica_epoch": request.candidate_epoch,
        "last_offset_epoch": request.last_epoch,
        "last_offset": request.last_epoch_end_offset,
        "pre_vote": request.pre_vote,
    }
    topics = one_topic(_VoteRequest, version, asked)
    return schema.encode(_VoteRequest, version, cluster_id=request.cluster_id, voter_id=request.voter_id, topics=topics)


def _decode_vote_response(data: bytes, position: int, version: int) -> VoteResponse:
    wire = schema.decode(_VoteResponse, data, position, version)
    said = the_partition(wire)
    error_code = wire.error_code or said.error_code
    return VoteResponse(error_code, said.leader_id, said.leader_epoch, said.vote_granted)


def _encode_vote_response(response: VoteResponse, version: int) -> Parts:
    topics = one_topic(_VoteResponse, version, response._asdict())
    return schema.encode(_VoteResponse, version, error_code=_top_level(response.error_code), topics=topics)


VOTE = Codec(
    api_key=52,
    name="Vote",
    versions=(0, 2),
    flexible_from=0,
    request_type=VoteRequest,
    decode_request=_decode_vote_request,
    encode_request=_encode_vote_request,
    decode_response=_decode_vote_response,
    encode_response=_encode_vote_response,
)

# --- BeginQuorumEpoch -------------------------------------------------------------------------------------

_BeginRequest = schema.define("BeginQuorumEpochRequest")
_BeginResponse = schema.define("BeginQuorumEpochResponse")


def _decode_begin_request(data: bytes, position: int, version: int) -> BeginQuorumEpochRequest:
    wire = schema.decode(_BeginRequest, data, position, version)
    begun = the_partition(wire)
    return BeginQuorumEpochRequest(wire.cluster_id or "", wire.voter_id, begun.leader_id, begun.leader_epoch)


def _encode_begin_request(request: BeginQuorumEpochRequest, version: int) -> Parts:
    begun = {"leader_id": request.leader_id, "leader_epoch": request.leader_epoch}
    topics = one_topic(_BeginRequest, version, begun)
    return schema.encode(
        _BeginRequest, version, cluster_id=request.cluster_id, voter_id=request.voter_id, topics=topics
    )


def _decode_begin_response(data: bytes, position: int, version: int) -> BeginQuorumEpochResponse:
    wire = schema.decode(_BeginResponse, data, position, version)
    said = the_partition(wire)
    return BeginQuorumEpochResponse(wire.error_code or said.error_code, said.leader_id, said.leader_epoch)


def _encode_begin_response(response: BeginQuorumEpochResponse, version: int) -> Parts:
    topics = one_topic(_BeginResponse, version, response._asdict())
    return schema.encode(_BeginResponse, version, error_code=_top_level(response.error_code), topics=topics)


BEGIN_QUORUM_EPOCH = Codec(
    api_key=53,
    name="BeginQuorumEpoch",
    versions=(0, 1),
    flexible_from=1,
    request_type=BeginQuorumEpochRequest,
    decode_request=_decode_begin_request,
    encode_request=_encode_begin_request,
    decode_response=_decode_begin_response,
    encode_response=_encode_begin_response,
)

# --- EndQuorumEpoch ---------------------------------------------------------------------------------------

_EndRequest = schema.define("EndQuorumEpochRequest")
_EndResponse = schema.define("EndQuorumEpochResponse")
_CANDIDATES = 1
"""From this version on successors include the ids of their directories (KIP-853)."""


def _decode_end_request(data: bytes, position: int, version: int) -> EndQuorumEpochRequest:
    wire = schema.decode(_EndRequest, data, position, version)
    ended = the_partition(wire)
    if version >= _CANDIDATES:
        successors = [each.candidate_id for each in schema.elements(ended.preferred_candidates)]
    else:
        successors = list(schema.elements(ended.preferred_successors))
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
    return schema.encode(_EndRequest, version, cluster_id=request.cluster_id, topics=topics)


def _decode_end_response(data: bytes, position: int, version: int) -> EndQuorumEpochResponse:
    wire = schema.decode(_EndResponse, data, position, version)
    said = the_partition(wire)
    return EndQuorumEpochResponse(wire.error_code or said.error_code, said.leader_id, said.leader_epoch)


def _encode_end_response(response: EndQuorumEpochResponse, version: int) -> Parts:
    topics = one_topic(_EndResponse, version, response._asdict())
    return schema.encode(_EndResponse, version, error_code=_top_level(response.error_code), topics=topics)


END_QUORUM_EPOCH = Codec(
    api_key=54,
    name="EndQuorumEpoch",
    versions=(0, 1),
    flexible_from=1,
    request_type=EndQuorumEpochRequest,
    decode_request=_decode_end_request,
    encode_request=_encode_end_request,
    decode_response=_decode_end_response,
    encode_response=_encode_end_response,
)
