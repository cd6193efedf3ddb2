"""Codec of ListOffsets (2), versions 1 to 11, and OffsetForLeaderEpoch (23), versions 2 to 4."""

from __future__ import annotations

from kafka.protocol.consumer import ListOffsetsRequest as WireListRequest
from kafka.protocol.consumer import ListOffsetsResponse as WireListResponse
from kafka.protocol.consumer import OffsetForLeaderEpochRequest as WireEpochRequest
from kafka.protocol.consumer import OffsetForLeaderEpochResponse as WireEpochResponse

from broker.core.messages import (
    EpochEnd,
    EpochEndPartition,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from broker.shell.codec.mapping import by_topic, mapped, message, record

# --- ListOffsets ------------------------------------------------------------------------------------------

_ASKED = record(ListOffsetsPartition, partition="partition_index")
_LISTED = record(ListedOffset, partition="partition_index")

LIST_OFFSETS = mapped(
    (1, 11),
    message(WireListRequest, record(ListOffsetsRequest, partitions=("topics", by_topic(_ASKED)))),
    message(WireListResponse, record(ListOffsetsResponse, partitions=("topics", by_topic(_LISTED)))),
)

# --- OffsetForLeaderEpoch ---------------------------------------------------------------------------------

_EPOCH = by_topic(record(EpochEndPartition), key="topic")
_END = by_topic(record(EpochEnd), key="topic")

OFFSET_FOR_LEADER_EPOCH = mapped(
    (2, 4),
    message(WireEpochRequest, record(OffsetForLeaderEpochRequest, partitions=("topics", _EPOCH))),
    message(WireEpochResponse, record(OffsetForLeaderEpochResponse, partitions=("topics", _END))),
)
