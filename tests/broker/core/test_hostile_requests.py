"""Invalid requests to every API of broker and controller get a response or none, and never crash the node."""

from __future__ import annotations

import random
import sys
import types
import typing

import pytest

from broker.core.broker_node.requests import descriptions
from broker.core.configuration.topics import RETENTION_MS
from broker.core.configuration.values import ImpossibleValue
from broker.core.controller.requests.topics import PARTITIONS_AT_ONCE_MAX
from broker.core.log.compression import DECOMPRESSED_BYTES_MAX
from broker.core.log.segments import timestamps
from broker.core.messages import (
    AnyRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeTopicPartitionsRequest,
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    MetadataRequest,
    NewPartitions,
    NewTopic,
)
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import DescribeGroupsRequest
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


# --- what a request may cost -----------------------------------------------------------------------------------------


def test_a_request_creates_no_more_partitions_than_one_may_however_it_spreads_them() -> None:
    cluster = Cluster()
    cluster.create_topic()
    half = PARTITIONS_AT_ONCE_MAX // 2
    asked = (NewTopic("a", half, 1), NewTopic("b", half, 1), NewTopic("c", 1, 1))
    created = cluster.call(1, CreateTopicsRequest(asked, validate_only=True))
    assert [each.error_code for each in created.topics] == [0, 0, ErrorCode.INVALID_PARTITIONS]
    assigned = NewTopic("d", assignments=tuple((number, (1,)) for number in range(PARTITIONS_AT_ONCE_MAX + 1)))
    refused = cluster.call(1, CreateTopicsRequest((assigned,), validate_only=True))
    assert refused.topics[0].error_code == ErrorCode.INVALID_PARTITIONS
    assert f"1 to {PARTITIONS_AT_ONCE_MAX} of the" in refused.topics[0].error_message
    for name in ("e", "f"):
        cluster.call(1, CreateTopicsRequest((NewTopic(name, 1, 1),)))
    more = tuple(NewPartitions(name, half + 2) for name in ("e", "f"))
    grown = cluster.call(1, CreatePartitionsRequest(more, validate_only=True))
    assert [each.error_code for each in grown.results] == [0, ErrorCode.INVALID_PARTITIONS]


def test_names_that_differ_in_dots_collide_within_a_request_too() -> None:
    cluster = Cluster()
    cluster.create_topic()
    created = cluster.call(1, CreateTopicsRequest((NewTopic("a.b", 1, 1), NewTopic("a_b", 1, 1))))
    assert [each.error_code for each in created.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]


@pytest.mark.parametrize("value", ["9" * 5_000, "\u0661", "1_0", " 1", "+1", ""])
def test_a_setting_that_is_no_number_of_its_size_is_illegal(value: str) -> None:
    with pytest.raises(ImpossibleValue):
        RETENTION_MS.type.check(value)
    assert RETENTION_MS.type.check("-1") == "-1"
    assert RETENTION_MS.type.check("9" * 18) == "9" * 18


def test_what_a_request_repeats_is_answered_once() -> None:
    cluster = Cluster()
    cluster.create_topic()
    leader = cluster.leader()
    junk = tuple((TOPIC, f"00000000-0000-0000-0000-{number:012}") for number in range(50))
    assert len(cluster.call(leader, MetadataRequest(junk + junk)).topics) == 1
    part = FetchPartition(TOPIC, 0, 0, 1 << 20)
    assert len(cluster.call(leader, FetchRequest((part,) * 50, max_wait_ms=0)).partitions) == 1
    assert len(cluster.call(leader, DescribeGroupsRequest(("group",) * 50)).groups) == 1
    asked = (ListOffsetsPartition(TOPIC, 0, 5),) * 50
    assert len(cluster.call(leader, ListOffsetsRequest(asked)).partitions) == 1


def test_a_page_of_described_partitions_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptions, "_PARTITIONS_MAX", 5)
    cluster = Cluster(brokers=1)
    cluster.create_topic(partitions=7, factor=1)
    described = cluster.call(1, DescribeTopicPartitionsRequest((TOPIC,), (1 << 31) - 1))
    assert len(described.topics[0].partitions) == 5
    assert described.next_cursor == (TOPIC, 5)


def test_the_searches_by_time_of_one_request_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timestamps.Effort.__init__, "__defaults__", (10, DECOMPRESSED_BYTES_MAX))
    cluster = Cluster(brokers=1)
    cluster.create_topic(partitions=8, factor=1)
    for partition in range(8):
        cluster.produce(1, 7, partition=partition)
    asked = tuple(ListOffsetsPartition(TOPIC, partition, 0) for partition in range(8))
    answers = cluster.call(1, ListOffsetsRequest(asked)).partitions
    assert [each.error_code for each in answers] == [0] * 5 + [ErrorCode.REQUEST_TIMED_OUT] * 3
    assert all(each.offset == 0 for each in answers[:5])


def test_a_fetch_brings_no_more_than_the_broker_allows_and_does_not_read_in_vain_for_ever() -> None:
    cluster = Cluster(fetch_max_bytes=300)
    cluster.create_topic()
    leader = cluster.leader()
    cluster.produce(leader, 1)
    everything = (FetchPartition(TOPIC, 0, 0, 1 << 30),)
    greedy = FetchRequest(everything, max_bytes=1 << 30, max_wait_ms=1 << 30, min_bytes=200)
    waiting = cluster.ask(leader, greedy)
    for number in range(20):
        cluster.produce(leader, number)
    assert waiting in cluster.answers
    whole = cluster.call(leader, FetchRequest(everything, max_bytes=1 << 30, max_wait_ms=0))
    assert 0 < len(whole.partitions[0].records) <= 300


# --- peers that say what is impossible -------------------------------------------------------------------------------


def test_a_voter_is_not_ended_by_another_leader_of_its_epoch() -> None:
    cluster = Cluster(controllers=3)
    cluster.create_topic()
    leader = cluster.active_controllers()[0]
    followers = [number for number in (CONTROLLER, CONTROLLER + 1, CONTROLLER + 2) if number != leader]
    epoch = cluster.machines[leader].node.state.quorum.epoch
    for claimed in (followers[1], 1, -1, 7):
        answer = cluster.call(followers[0], BeginQuorumEpochRequest("harrow", followers[0], claimed, epoch))
        assert isinstance(answer, BeginQuorumEpochResponse)
        assert (answer.error_code, answer.leader_id) == (ErrorCode.INVALID_REQUEST, leader)
    assert cluster.machines[followers[0]].node.state.quorum.leader == leader


def test_what_a_client_sent_is_repeated_to_it_in_part_only() -> None:
    cluster = Cluster()
    cluster.create_topic()
    setting = (("retention.ms", "9" * 32_000),)
    created = cluster.call(1, CreateTopicsRequest((NewTopic("x" * 32_767), NewTopic("y", 1, 1, configs=setting))))
    assert [each.error_code for each in created.topics] == [
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_CONFIG,
    ]
    assert all(len(each.error_message) < 1_000 for each in created.topics)
