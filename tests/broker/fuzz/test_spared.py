"""What the fuzzer leaves out, and what it must not leave out."""

from __future__ import annotations

import pytest

from benchmarks.broker.fuzz.drawing.values import KEPT
from benchmarks.broker.fuzz.spared import Known, reason
from broker.core.messages import (
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    BeginQuorumEpochRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ConfigOperation,
    ConfigResource,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    EndQuorumEpochRequest,
    FetchPartition,
    FetchRequest,
    IncrementalAlterConfigsRequest,
    MetadataRequest,
    NewPartitions,
    NewTopic,
    ProducePartition,
    ProduceRequest,
    Reassignment,
    ReplacedConfigs,
    UnregisterBrokerRequest,
    VoteRequest,
)
from broker.core.records import encode_batch
from broker.shell.codec import frames
from broker.shell.codec.apis import LISTENER_APIS, codec_of

KEPT_ID = "11111111-2222-3333-4444-555555555555"
SOUND = encode_batch([(None, b"x")], 0, 0, 0)
INCARNATION = "99999999-2222-3333-4444-555555555555"


def judged(listener, request):
    codec = codec_of(request)
    frame = frames.request_frame(codec, codec.own_version(request), 1, "c", request)
    return reason(frame, Known(listener, KEPT_ID, {1: 55}, 3))


def altered(resource_type, name, key="min.insync.replicas", value="3"):
    operation = ConfigOperation(key, 0, value)
    return IncrementalAlterConfigsRequest((ConfigResource(resource_type, name, (operation,)),))


def fetch(replica_id, epoch=-1):
    return FetchRequest((FetchPartition("fuzzed-0", 0, 0, 1),), replica_id=replica_id, replica_epoch=epoch)


@pytest.mark.parametrize(
    ("listener", "request_", "why"),
    [
        ("CLIENT", DeleteTopicsRequest(((KEPT, ""),)), "deletes the kept topic"),
        ("CLIENT", DeleteTopicsRequest(((None, KEPT_ID),)), "deletes the kept topic"),
        ("CLIENT", DeleteRecordsRequest((DeleteRecordsPartition(KEPT, 0, 1),)), "deletes or moves"),
        ("CLIENT", AlterPartitionReassignmentsRequest((Reassignment(KEPT, 0, (1,)),)), "deletes or moves"),
        ("CLIENT", ProduceRequest(-1, 1, (ProducePartition(KEPT, 0, SOUND),)), "adds records"),
        ("CLIENT", CreatePartitionsRequest((NewPartitions(KEPT, 9),)), "adds partitions"),
        ("CLIENT", CreateTopicsRequest((NewTopic("a", 20, 1), NewTopic("b", 20, 1))), "creates more than"),
        ("CLIENT", altered(2, KEPT), "alters settings"),
        ("CLIENT", altered(4, ""), "alters settings"),
        ("CLIENT", AlterConfigsRequest((ReplacedConfigs(2, KEPT, ()),)), "alters settings"),
        ("CONTROLLER", AlterConfigsRequest((ReplacedConfigs(4, "", ()),)), "alters settings"),
        ("CLIENT", UnregisterBrokerRequest(2), "unregisters a living broker"),
        ("CLIENT", fetch(2), "in the name of a replica"),
        ("BROKER", fetch(2, 55), "in the name of a replica"),
        ("CONTROLLER", VoteRequest("harrow", 100, 101, 4, 1, 5), "in the name of a voter"),
        ("CONTROLLER", BeginQuorumEpochRequest("harrow", 100, 101, 3), "in the name of a voter"),
        ("CONTROLLER", EndQuorumEpochRequest("harrow", 101, 3, ()), "in the name of a voter"),
        ("CONTROLLER", BrokerHeartbeatRequest(1, 55, 0, True, False), "of a living broker"),
        ("CONTROLLER", AlterPartitionRequest(1, 55, ()), "of a living broker"),
    ],
)
def test_what_would_validly_do_damage_is_left_out(listener, request_, why):
    assert why in str(judged(listener, request_))


@pytest.mark.parametrize(
    ("listener", "request_"),
    [
        ("CLIENT", DeleteTopicsRequest((("fuzzed-0", ""),))),
        ("CLIENT", ProduceRequest(-1, 1, (ProducePartition(KEPT, 0, SOUND[:-1]),))),
        ("CLIENT", ProduceRequest(-1, 1, (ProducePartition("fuzzed-0", 0, SOUND),))),
        ("CLIENT", CreateTopicsRequest((NewTopic("a", 1 << 30, 1), NewTopic("b", -5, 1)))),
        ("CLIENT", altered(4, "", value="nan")),
        ("CLIENT", altered(2, "fuzzed-0")),
        ("CLIENT", AlterConfigsRequest((ReplacedConfigs(2, "fuzzed-0", ()),))),
        ("CLIENT", MetadataRequest(((KEPT, ""),))),
        ("CLIENT", fetch(-1)),
        ("CLIENT", UnregisterBrokerRequest(4)),
        ("CONTROLLER", VoteRequest("harrow", 100, 101, 2, 1, 5)),
        ("CONTROLLER", VoteRequest("other", 100, 101, 4, 1, 5)),
        ("CONTROLLER", VoteRequest("harrow", 100, 4, 4, 1, 5)),
        ("CONTROLLER", BeginQuorumEpochRequest("harrow", 100, 4, 9)),
        ("CONTROLLER", BrokerHeartbeatRequest(1, 54, 0, True, True)),
        ("CONTROLLER", BrokerHeartbeatRequest(1, 55, -9, False, False)),
        ("CONTROLLER", AlterPartitionRequest(1, 54, ())),
        ("CONTROLLER", BrokerRegistrationRequest(1, "harrow", INCARNATION, ())),
    ],
)
def test_what_must_be_refused_or_does_no_harm_is_sent(listener, request_):
    assert judged(listener, request_) is None


def test_a_frame_behind_another_is_judged_too():
    codec = LISTENER_APIS["CLIENT"][20]
    harmless, harmful = (
        frames.request_frame(codec, 6, 1, "c", DeleteTopicsRequest(((name, ""),))) for name in ("fuzzed-0", KEPT)
    )
    assert reason(harmless + harmful, Known("CLIENT", KEPT_ID, {}, 0)) == "deletes the kept topic"


def test_bytes_that_are_no_frame_are_sent():
    for data in (b"\xff\xff\xff\xff", b"\0\0\0\1", b"", b"\0\0\0\4abcd", b"\0\0\0\x0c\0\3\0\x63" + bytes(8)):
        assert reason(data, Known("CLIENT", KEPT_ID, {}, 0)) is None
