"""The requests of a controller on ZooKeeper byte by byte, as Kafka 0.8.2 to 0.9 laid them out; no peer has them now."""

from __future__ import annotations

import struct

import pytest

from broker.core.messages.leadership import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LiveBroker,
    PartitionLeadership,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from broker.shell.codec.apis import AnyCodec, codec_of
from broker.shell.codec.cluster.leadership import (
    CONTROLLED_SHUTDOWN,
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
)

STATE = PartitionLeadership("t", 3, 2, 7, (2, 1), 5, 9, (1, 2, 4))
LIVE = (LiveBroker(2, "host", 9092),)


def i32(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


CONTROLLER = i32(8, 5)
PARTITION = text("t") + i32(3)
STATES = i32(1) + PARTITION + i32(5, 2, 7) + i32(2, 2, 1) + i32(9) + i32(3, 1, 2, 4)
ONE_LIVE = i32(1, 2) + text("host") + i32(9092)
NO_ERROR = b"\0\0"
NONE = i32(0)


@pytest.mark.parametrize(
    ("codec", "version", "request_", "asked", "response", "answered"),
    [
        (
            LEADER_AND_ISR,
            0,
            LeaderAndIsrRequest(8, 5, (STATE,), LIVE),
            CONTROLLER + STATES + ONE_LIVE,
            LeaderAndIsrResponse(0),
            NO_ERROR + NONE,
        ),
        (
            STOP_REPLICA,
            0,
            StopReplicaRequest(8, 5, (("t", 3),)),
            CONTROLLER + b"\0" + i32(1) + PARTITION,
            StopReplicaResponse(0),
            NO_ERROR + NONE,
        ),
        (
            UPDATE_METADATA,
            0,
            UpdateMetadataRequest(8, 5, (STATE,), LIVE),
            CONTROLLER + STATES + ONE_LIVE,
            UpdateMetadataResponse(0),
            NO_ERROR,
        ),
        (
            CONTROLLED_SHUTDOWN,
            1,
            ControlledShutdownRequest(2),
            i32(2),
            ControlledShutdownResponse(0, (("t", 3),)),
            NO_ERROR + i32(1) + PARTITION,
        ),
    ],
    ids=["LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown"],
)
def test_a_message_has_the_bytes_of_its_time(
    codec: AnyCodec, version: int, request_: object, asked: bytes, response: object, answered: bytes
) -> None:
    assert b"".join(codec.encode_request(request_, version)) == asked  # type: ignore[arg-type]
    assert codec.decode_request(asked, 0, version) == request_
    assert b"".join(codec.encode_response(response, version)) == answered  # type: ignore[arg-type]
    assert codec.decode_response(answered, 0, version) == response
    assert codec_of(request_) == codec
