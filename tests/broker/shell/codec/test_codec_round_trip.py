"""A message written by one node is read as the same message by another, in every served version."""

from __future__ import annotations

from itertools import groupby

import pytest
from kafka.protocol.admin import DescribeConfigsResponse as WireDescribeConfigsResponse

from broker.core.messages import (
    AlterConfigsRequest,
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterPartitionResponse,
    Coordinator,
    CreatedTopic,
    CreateTopicsResponse,
    DescribeConfigsResponse,
    DescribedConfig,
    DescribedResource,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    MetadataRequest,
    MetadataResponse,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    Reassignment,
)
from broker.core.messages.groups import DescribedGroup, DescribeGroupsResponse
from broker.core.messages.operations import NOT_ASKED
from broker.shell.codec import frames
from broker.shell.codec.administration.configs import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_CONFIG_RESOURCES,
)
from broker.shell.codec.administration.partitions import ALTER_PARTITION_REASSIGNMENTS
from broker.shell.codec.administration.topics import CREATE_TOPICS
from broker.shell.codec.apis import CODECS, codec_of
from broker.shell.codec.clients.fetch import FETCH
from broker.shell.codec.clients.lookups import METADATA
from broker.shell.codec.clients.produce import PRODUCE
from broker.shell.codec.cluster.replicas import ALTER_PARTITION
from broker.shell.codec.groups import DESCRIBE_GROUPS
from tests.broker.shell.codec.wire_samples import Sampler

COORDINATOR = Coordinator("key", 0, 1, "localhost", 9092)
TOPIC_ID = "6f1c2bb1-4a57-4f8e-9d32-0f2a4c5d6e7f"

ALL_VERSIONS = [
    pytest.param(codec, version, id=f"{codec.name}-v{version}")
    for codec in CODECS
    for version in range(codec.versions[0], codec.versions[1] + 1)
]


def through_request(codec, version, request):
    frame = frames.request_frame(codec, version, 7, "test", request)
    header, position = frames.read_request_header(frame[4:])
    assert (header.api_key, header.api_version, header.correlation_id) == (codec.api_key, version, 7)
    assert header.client_id == "test"
    return frame, frames.read_request(codec, header, frame[4:], position)


def through_response(codec, version, response, request):
    frame = frames.response_frame(codec, version, 7, response)
    return frame, frames.read_response(codec, version, 7, frame[4:], request)


@pytest.mark.parametrize(("codec", "version"), ALL_VERSIONS)
def test_a_message_that_was_read_is_written_with_the_same_bytes_again(codec, version):
    for seed in range(20):
        sampler = Sampler(seed)
        request, response = sampler.request(codec), sampler.response(codec)
        if codec.name == "FindCoordinator":
            request = request._replace(keys=(*request.keys, "key"))
            response = response._replace(coordinators=(*response.coordinators, COORDINATOR))
        frame, read = through_request(codec, version, request)
        assert through_request(codec, version, read)[0] == frame
        body = codec.encode_response(response, version)
        again = codec.encode_response(codec.decode_response(b"".join(body), 0, version), version)
        assert b"".join(again) == b"".join(body)


@pytest.mark.parametrize("codec", [pytest.param(codec, id=codec.name) for codec in CODECS])
def test_the_highest_version_carries_everything_the_core_says(codec):
    version = codec.versions[1]
    for seed in range(40):
        sampler = Sampler(seed)
        request, response = sampler.request(codec), sampler.response(codec)
        read = through_request(codec, version, request)[1]
        assert flat(read) == flat(without_moved(without_names(codec, request)))
        body = b"".join(codec.encode_response(response, version))
        assert flat(codec.decode_response(body, 0, version)) == flat(without_moved(without_names(codec, response)))


def without_moved(message):
    """The message without what DescribeCluster carries in place of Metadata's newest versions."""
    if isinstance(message, MetadataRequest):
        return message._replace(include_cluster_authorized_operations=False)
    return message._replace(authorized_operations=NOT_ASKED) if isinstance(message, MetadataResponse) else message


@pytest.mark.parametrize("version", [8, 10])
def test_older_metadata_carries_what_clients_may_do_with_the_cluster(version):
    request = MetadataRequest(None, True, include_cluster_authorized_operations=True)
    assert through_request(METADATA, version, request)[1] == request
    response = MetadataResponse((), "c", 1, (), 0b1010)
    body = b"".join(METADATA.encode_response(response, version))
    assert METADATA.decode_response(body, 0, version) == response


BY_ID = {"Fetch", "AlterPartition", "GetReplicaLogInfo"}
WITHOUT_IDS = {"Produce"}


def without_names(codec, message):
    """The message as the wire can carry it: topics by name or by id, not both."""
    drop = {"topic": ""} if codec.name in BY_ID else {"topic_id": ""} if codec.name in WITHOUT_IDS else None
    if drop is None or "partitions" not in message._fields:
        return message
    message = message._replace(partitions=tuple(each._replace(**drop) for each in message.partitions))
    if "forgotten" in message._fields:
        message = message._replace(forgotten=tuple(("", topic_id, p) for _, topic_id, p in message.forgotten))
    return message


def flat(message):
    """The message with partitions in the order in which the wire groups them."""
    if "partitions" in message._fields and message.partitions:
        return message._replace(partitions=tuple(sorted(message.partitions, key=repr)))
    return message


def test_a_consumer_without_topic_ids_asks_by_name():
    request = FetchRequest((FetchPartition("t", 0, 5, 1000),))
    assert FETCH.own_version(request) == 12
    assert through_request(FETCH, 12, request)[1] == request


def test_a_follower_sends_its_broker_epoch_when_it_knows_the_topic_ids():
    partition = FetchPartition("t", 0, 5, 1000, 3, 2, 1, TOPIC_ID)
    request = FetchRequest((partition,), replica_id=2, replica_epoch=41, max_wait_ms=100)
    version = FETCH.own_version(request)
    assert version == 16
    expected = request._replace(partitions=(partition._replace(topic=""),))
    assert through_request(FETCH, version, request)[1] == expected


def test_version_12_carries_the_replica_id_but_not_its_epoch():
    request = FetchRequest((FetchPartition("t", 0, 5, 1000, 3, 2, 1),), replica_id=2, replica_epoch=41)
    assert through_request(FETCH, 12, request)[1] == request._replace(replica_epoch=-1)


def test_the_answer_to_a_fetch_by_id_gets_its_topic_names_back():
    request = FetchRequest((FetchPartition("t", 0, 5, 1000, topic_id=TOPIC_ID),))
    fetched = FetchedPartition("t", 0, 0, 7, 7, 0, b"records", topic_id=TOPIC_ID)
    assert through_response(FETCH, 16, FetchResponse((fetched,)), request)[1].partitions == (fetched,)


def test_the_answer_to_alter_partition_gets_its_topic_names_back():
    asked = AlterPartitionPartition("t", 0, 5, 9, ((1, 11), (2, 12)), topic_id=TOPIC_ID)
    answered = AlteredPartition("t", 0, 0, 1, 5, (1, 2), 0, 10, TOPIC_ID)
    response = AlterPartitionResponse(0, (answered,))
    request = AlterPartitionRequest(1, 11, (asked,))
    assert through_response(ALTER_PARTITION, 3, response, request)[1] == response


@pytest.mark.parametrize("version", [12, 16])
def test_diverging_epoch_and_leader_and_snapshot_survive(version):
    fetched = FetchedPartition(
        "" if version > 12 else "t",
        0,
        0,
        7,
        7,
        0,
        b"",
        diverging_epoch=(3, 40),
        current_leader=(2, 5),
        snapshot_id=(10, 1),
        topic_id=TOPIC_ID if version > 12 else "",
    )
    body = b"".join(FETCH.encode_response(FetchResponse((fetched,), 0, 9), version))
    assert FETCH.decode_response(body, 0, version) == FetchResponse((fetched,), 0, 9)


def test_producers_that_support_it_get_the_new_leader():
    result = ProducedPartition("t", 0, 6, current_leader=(2, 5), error_message="moved")
    for version, expected in ((7, result._replace(current_leader=None, error_message=None)), (10, result)):
        body = b"".join(PRODUCE.encode_response(ProduceResponse((result,)), version))
        assert PRODUCE.decode_response(body, 0, version) == ProduceResponse((expected,))


@pytest.mark.parametrize("version", [8, 9, 10])
def test_producers_learn_which_records_of_a_batch_are_wrong(version):
    result = ProducedPartition("t", 0, 87, error_message="2 are wrong", record_errors=((1, "no key"), (3, None)))
    body = b"".join(PRODUCE.encode_response(ProduceResponse((result,)), version))
    assert PRODUCE.decode_response(body, 0, version) == ProduceResponse((result,))


def test_partitions_of_a_topic_are_grouped_on_the_wire():
    parts = tuple(ProducePartition(topic, index, b"r") for topic in "ab" for index in range(3))
    request = ProduceRequest(-1, 1000, parts)
    frame, read = through_request(PRODUCE, 9, request)
    assert read == request
    assert frame.count(b"\x02a") == len([key for key, _ in groupby(parts, lambda p: p.topic) if key == "a"])


def test_version_0_of_metadata_asks_for_all_topics_with_an_empty_list():
    assert through_request(METADATA, 0, MetadataRequest())[1] == MetadataRequest(None, True)
    assert through_request(METADATA, 1, MetadataRequest(()))[1] == MetadataRequest((), True)


def test_clients_learn_that_a_group_is_missing_as_their_version_says_it():
    missing = DescribeGroupsResponse((DescribedGroup(69, "g", "Dead", error_message="there is no group g"),))

    def read(version):
        body = b"".join(DESCRIBE_GROUPS.encode_response(missing, version))
        return DESCRIBE_GROUPS.decode_response(body, 0, version).groups[0]

    assert read(6) == missing.groups[0]
    assert (read(5).error_code, read(5).state) == (0, "Dead")


def test_without_a_word_on_it_the_replication_factor_may_change():
    forbidding = AlterPartitionReassignmentsRequest((Reassignment("t", 0, (1,)),), 1000, False)
    assert through_request(ALTER_PARTITION_REASSIGNMENTS, 1, forbidding)[1] == forbidding
    assert through_request(ALTER_PARTITION_REASSIGNMENTS, 0, forbidding)[1].allow_replication_factor_change


def test_the_two_ways_to_alter_settings_have_requests_of_their_own_between_nodes_too():
    assert codec_of(AlterConfigsRequest(())) is ALTER_CONFIGS
    assert codec_of(IncrementalAlterConfigsRequest(())) is INCREMENTAL_ALTER_CONFIGS


def test_synonyms_and_types_of_settings_come_with_their_versions():
    synonyms = (("a", "1", 1), ("log.a", None, 5))
    config = DescribedConfig("a", "1", True, 1, 7, synonyms, "what it does")
    response = DescribeConfigsResponse((DescribedResource(0, None, 2, "t", (config,)),))

    def described(version):
        body = b"".join(DESCRIBE_CONFIGS.encode_response(response, version))
        return WireDescribeConfigsResponse.decode(body, version=version).results[0].configs[0]

    for version in range(1, 5):
        wire = described(version)
        assert (wire.name, wire.value, wire.read_only, wire.config_source) == ("a", "1", True, 1)
        assert [(each.name, each.value, each.source) for each in wire.synonyms] == list(synonyms)
    assert [described(version).config_type for version in (1, 2, 3, 4)] == [0, 0, 7, 7]
    assert [described(version).documentation or "" for version in (2, 3)] == ["", "what it does"]


def test_version_0_lists_resources_of_clients_metrics_only():
    asked = through_request(LIST_CONFIG_RESOURCES, 0, ListConfigResourcesRequest(()))[1]
    assert asked == ListConfigResourcesRequest((16,))
    assert through_request(LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest((2, 4)))[1].resource_types == (2, 4)


def test_a_created_topic_tells_its_settings_from_version_5_on():
    created = CreatedTopic("t", 0, None, "", 1, 1, (("a", "1", False, 1), ("b", None, True, 5)))
    for version, expected in ((4, ()), (5, created.configs)):
        body = b"".join(CREATE_TOPICS.encode_response(CreateTopicsResponse((created,)), version))
        (read,) = CREATE_TOPICS.decode_response(body, 0, version).topics
        assert read.configs == expected


def test_a_tagged_field_from_the_future_is_ignored():
    request = FetchRequest((FetchPartition("t", 0, 5, 1000),))
    body = b"".join(FETCH.encode_request(request, 12))
    assert body[-1:] == b"\x00"
    assert FETCH.decode_request(body[:-1] + b"\x01\x63\x02hi", 0, 12) == request
