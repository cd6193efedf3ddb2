"""Invalid requests to every API of broker and controller get a response or none, and never crash the node."""

from __future__ import annotations

import random
import sys
import types
import typing

import pytest

from broker.core.messages import AnyRequest, CreateTopicsRequest, CreateTopicsResponse, NewTopic
from broker.core.messages.errors import ErrorCode
from broker.core.records import encode_batch
from tests.support.cluster import CONTROLLER, TOPIC, Cluster

NUMBERS = (0, 1, 2, 3, 4, 5, 100, 101, -1, -2, -3, 1 << 20, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63))
TEXTS = ("", TOPIC, TOPIC, "other", "__cluster_metadata", "__consumer_offsets", "x" * 300, "\0", "1")
REQUESTS = tuple(sorted(typing.get_args(AnyRequest), key=lambda kind: kind.__name__))
CONTROLLER_ONLY = {
    "AllocateProducerIdsRequest",
    "AlterPartitionRequest",
    "BeginQuorumEpochRequest",
    "BrokerHeartbeatRequest",
    "BrokerRegistrationRequest",
    "EndQuorumEpochRequest",
    "FetchSnapshotRequest",
    "VoteRequest",
}
EITHER = {
    "AlterPartitionReassignmentsRequest",
    "CreatePartitionsRequest",
    "CreateTopicsRequest",
    "DeleteTopicsRequest",
    "DescribeQuorumRequest",
    "ElectLeadersRequest",
    "FetchRequest",
    "IncrementalAlterConfigsRequest",
    "ListPartitionReassignmentsRequest",
}


def _value(kind: object, draw: random.Random, depth: int = 0) -> object:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is int:
        return draw.choice(NUMBERS)
    if kind is str:
        return draw.choice(TEXTS)
    if kind is bool:
        return draw.random() < 0.5
    if kind is bytes:
        batch = bytearray(encode_batch([(None, b"value")] * draw.randint(1, 3), draw.choice((0, 7)), 0, 0))
        if draw.random() < 0.7:
            batch[draw.randrange(len(batch))] ^= 1 << draw.randrange(8)
        return bytes(batch[: draw.choice((len(batch), len(batch), draw.randrange(len(batch)), 0))])
    if kind is type(None):
        return None
    if origin in (typing.Union, types.UnionType):
        return _value(draw.choice(arguments), draw, depth)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_value(arguments[0], draw, depth + 1) for _ in range(draw.randint(0, 2)))
    if origin is tuple:
        return tuple(_value(argument, draw, depth + 1) for argument in arguments)
    if isinstance(kind, type) and issubclass(kind, tuple):
        hints = typing.get_type_hints(kind, vars(sys.modules[kind.__module__]))
        return kind(**{name: _value(hints[name], draw, depth + 1) for name in kind._fields})  # type: ignore[attr-defined]
    raise TypeError(f"no idea how to draw {kind!r}")


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_no_request_crashes_a_node_or_stops_the_cluster(kind: type) -> None:
    draw = random.Random(kind.__name__)
    cluster = Cluster(controllers=3)
    cluster.create_topic()
    assert cluster.produce(cluster.leader(), 1, 2) == ErrorCode.NONE
    targets = [] if kind.__name__ in CONTROLLER_ONLY else [1, 2, 3]
    if kind.__name__ in CONTROLLER_ONLY | EITHER:
        targets += [CONTROLLER, CONTROLLER + 1, CONTROLLER + 2]
    for _ in range(200):
        cluster.ask(draw.choice(targets), _value(kind, draw))  # type: ignore[arg-type]
        cluster.run(draw.choice((0, 0, 5)))
    cluster.run(2000)
    assert all(machine.node is not None for machine in cluster.machines.values())
    if kind.__name__ not in ("DeleteTopicsRequest", "ProduceRequest", "DeleteRecordsRequest"):
        assert cluster.read(cluster.leader())[:2] == [1, 2]


def test_an_absurd_number_of_partitions_is_refused_at_once() -> None:
    cluster = Cluster()
    cluster.create_topic()
    response = cluster.call(1, CreateTopicsRequest((NewTopic("many", 1 << 30, 1),)))
    assert isinstance(response, CreateTopicsResponse)
    assert response.topics[0].error_code == ErrorCode.INVALID_PARTITIONS
