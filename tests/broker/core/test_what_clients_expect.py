"""What the documents and other projects' clients expect of answers, and how errors in serving one are contained."""

from __future__ import annotations

import pytest
from kafka.admin import ACLOperation

from broker.core.broker_node.requests import descriptions, queries
from broker.core.controller.requests import topics
from broker.core.messages import (
    AlterPartitionRequest,
    ConfigOperation,
    ConfigResource,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribedProducer,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    FetchPartition,
    FetchRequest,
    FindCoordinatorRequest,
    GetReplicaLogInfoRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    ListConfigResourcesRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    MetadataRequest,
    NewPartitions,
    NewTopic,
    OffsetForLeaderEpochRequest,
    ProducePartition,
    ProduceRequest,
    ReplicaLogInfoPartition,
)
from broker.core.messages import EpochEndPartition as EpochAsked
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    DescribeGroupsRequest,
    ListGroupsRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from broker.core.messages.operations import NOT_ASKED
from broker.core.messages.refusals import QUERIES, refusal
from broker.core.metadata.records import METADATA_TOPIC
from broker.core.ports.events import Reply, RequestReceived
from broker.core.records import encode_batch
from broker.core.rules.features import Feature, features_of
from broker.shell.observability.traffic import error_name
from tests.support.batches import transactional
from tests.support.cluster import CONTROLLER, TOPIC, Cluster


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(wall_clock_ms=1_800_000_000_000)
    cluster.create_topic()
    return cluster


def test_a_replica_in_a_failed_directory_is_shown_by_both_descriptions(cluster):
    leader = cluster.leader()
    other = next(number for number in (1, 2, 3) if number != leader)
    cluster.machines[other].settings.log_dirs  # noqa: B018 - one directory is enough for what the image says
    image = cluster.machines[leader].node.state.image
    state = image.topics[TOPIC].partitions[0]
    image.topics[TOPIC].partitions[0] = state._replace(offline=(other,))
    metadata = cluster.call(leader, MetadataRequest(((TOPIC, ""),))).topics[0].partitions[0]
    described = cluster.call(leader, DescribeTopicPartitionsRequest((TOPIC,))).topics[0].partitions[0]
    assert metadata.offline_replicas == described.offline_replicas == (other,)


def test_the_quorum_is_described_in_times_of_day(cluster):
    now_ms = 1_800_000_000_000 + cluster.now_ms
    response = cluster.call(1, DescribeQuorumRequest())
    assert [voter.replica_id for voter in response.voters] == [CONTROLLER]
    for replica in (*response.voters, *response.observers):
        assert now_ms - 10_000 < replica.last_caught_up_ms <= now_ms + 10
        assert now_ms - 10_000 < replica.last_fetch_ms <= now_ms + 10


def test_the_metadata_log_is_for_its_own_cluster(cluster):
    part = FetchPartition(METADATA_TOPIC, 0, 0, 1 << 20)
    other = cluster.call(CONTROLLER, FetchRequest((part,), max_wait_ms=10, cluster_id="another"))
    assert (other.error_code, other.partitions) == (ErrorCode.INCONSISTENT_CLUSTER_ID, ())
    own = cluster.call(CONTROLLER, FetchRequest((part,), max_wait_ms=10, cluster_id="harrow"))
    assert own.partitions[0].records


@pytest.mark.parametrize("name", ["no spaces", "", "..", "x" * 250, "ä"])
def test_metadata_of_an_impossible_name_says_so_and_does_not_create_it(cluster, name):
    answer = cluster.call(1, MetadataRequest(((name, ""),), allow_auto_topic_creation=True))
    assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not [note for note in cluster.machines[CONTROLLER].notes if "created" in note and TOPIC not in note]


@pytest.mark.parametrize("request_", [CreateTopicsRequest(()), DeleteTopicsRequest(()), CreatePartitionsRequest(())])
def test_a_request_for_nothing_is_answered_at_once(cluster, request_):
    assert cluster.call(1, request_, limit_ms=50) is not None


def test_each_topic_that_is_to_grow_is_answered_once_whether_it_may_or_not(cluster):
    wanted = (NewPartitions(TOPIC, 0), NewPartitions("unknown", 2), NewPartitions(TOPIC, 2))
    assert [(one.name, one.error_code) for one in cluster.call(1, CreatePartitionsRequest(wanted)).results] == [
        (TOPIC, ErrorCode.INVALID_PARTITIONS),
        ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, ErrorCode.NONE),
    ]


def test_names_that_metrics_would_confuse_are_refused(cluster):
    first, second = (cluster.call(1, CreateTopicsRequest((NewTopic(name),))).topics[0] for name in ("a.b_c", "a_b.c"))
    assert first.error_code == ErrorCode.NONE
    assert second.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "'a.b_c'" in second.error_message


def test_a_batch_of_a_transaction_is_refused(cluster):
    batch = transactional(encode_batch([(None, b"value")], 0, 0, 0, 5, 0, 0))
    answer = cluster.call(cluster.leader(), ProduceRequest(-1, 1000, (ProducePartition(TOPIC, 0, batch),)))
    assert answer.partitions[0].error_code == ErrorCode.INVALID_TXN_STATE
    assert cluster.replica(cluster.leader())["log_end"] == 0


def test_a_producer_of_transactions_is_refused_with_what_clients_give_up_at(cluster):
    answer = cluster.call(1, InitProducerIdRequest("a transaction"))
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_min_isr_is_at_most_the_number_of_replicas():
    cluster = Cluster(min_insync_replicas=3)
    cluster.create_topic(factor=2)
    assert cluster.produce(cluster.leader(), 1) == ErrorCode.NONE


def test_a_topic_has_its_own_bounds_of_batches_and_segments_and_they_change_at_run_time():
    cluster = Cluster()
    cluster.create_topic(max_message_bytes="100", segment_bytes="200")
    leader = cluster.leader()
    assert cluster.produce(leader, 1) == ErrorCode.NONE
    assert cluster.produce(leader, *range(10)) == ErrorCode.MESSAGE_TOO_LARGE
    for value in range(8):
        assert cluster.produce(leader, value) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    for number in (1, 2, 3):
        (replica,) = cluster.machines[number].node.state.replicas.values()
        assert len(replica.log.segment_offsets) > 2
    operation = ConfigOperation("max.message.bytes", 0, "5000")
    cluster.call(1, IncrementalAlterConfigsRequest((ConfigResource(2, TOPIC, (operation,)),)))
    cluster.run(500)
    assert cluster.produce(leader, *range(10)) == ErrorCode.NONE


# --- an error in serving one request ---------------------------------------------------------------------------------

ONE_OF_EACH = [
    MetadataRequest(((TOPIC, ""),)),
    ListOffsetsRequest((ListOffsetsPartition(TOPIC, 0, -1),)),
    OffsetForLeaderEpochRequest((EpochAsked(TOPIC, 0, -1, 0),)),
    FindCoordinatorRequest(0, ("group",)),
    DescribeConfigsRequest(((2, TOPIC, None),)),
    ListConfigResourcesRequest(),
    DescribeTopicPartitionsRequest((TOPIC,)),
    DescribeClusterRequest(),
    DescribeLogDirsRequest(None),
    GetReplicaLogInfoRequest((ReplicaLogInfoPartition(TOPIC, 0),)),
    DescribeGroupsRequest(("group",)),
    ListGroupsRequest(),
    OffsetFetchRequest((OffsetFetchGroup("group"),)),
    DescribeProducersRequest(((TOPIC, 0),)),
]


def test_there_is_one_of_each():
    assert {type(one) for one in ONE_OF_EACH} == set(QUERIES.__args__)


@pytest.mark.parametrize("request_", ONE_OF_EACH, ids=lambda one: type(one).__name__)
def test_an_error_in_a_query_is_an_answer_and_the_broker_goes_on(cluster, request_):
    node = cluster.machines[1].node
    event = RequestReceived(77, 5, request_, 0, "test")
    effects = node.after_error(event)
    assert [type(effect) for effect in effects] == [Reply]
    assert error_name(effects[0].response) == "UNKNOWN_SERVER_ERROR"
    assert effects[0].response == refusal(request_, ErrorCode.UNKNOWN_SERVER_ERROR)


@pytest.mark.parametrize(
    "request_",
    [ProduceRequest(-1, 1000, (ProducePartition(TOPIC, 0, b""),)), FetchRequest(())],
    ids=lambda one: type(one).__name__,
)
def test_an_error_where_something_may_be_half_changed_ends_the_broker(cluster, request_):
    assert cluster.machines[1].node.after_error(RequestReceived(77, 5, request_, 0, "test")) is None


def test_effects_of_the_interrupted_event_are_dropped(cluster, monkeypatch):
    node = cluster.machines[1].node

    def fail(broker, request):
        broker.runtime.log("info", "begun")
        raise RuntimeError("a bug")

    monkeypatch.setattr(queries, "metadata", fail)
    event = RequestReceived(77, 5, MetadataRequest(None), 0, "test")
    with pytest.raises(RuntimeError, match="a bug"):
        node.handle(cluster.now_ms, event)
    assert [type(effect) for effect in node.after_error(event)] == [Reply]
    assert node.handle(cluster.now_ms, RequestReceived(78, 5, DescribeClusterRequest(), 0, "test"))
    assert descriptions.cluster(node.state, DescribeClusterRequest()).brokers


def test_a_controller_goes_on_if_the_request_has_appended_nothing(cluster, monkeypatch):
    node = cluster.machines[CONTROLLER].node
    event = RequestReceived(77, 5, CreateTopicsRequest((NewTopic("other"),)), 0, "test")

    def fail(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr(topics, "_assignments", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        node.handle(cluster.now_ms, event)
    (effect,) = node.after_error(event)
    assert effect.response.topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    monkeypatch.undo()
    monkeypatch.setattr(topics.changes, "reply", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        node.handle(cluster.now_ms, event)
    assert node.after_error(event) is None, "expected the end of a controller that has appended a record"


def test_an_error_in_a_request_of_a_broker_ends_the_controller(cluster):
    node = cluster.machines[CONTROLLER].node
    assert node.after_error(RequestReceived(77, 5, AlterPartitionRequest(1, 1, ()), 0, "test")) is None


# --- producers and offsets -----------------------------------------------------------------------------------


def write_as(cluster: Cluster, producer_id: int, sequence: int, timestamp_ms: int, records: int = 1) -> None:
    values = [(None, bytes(8))] * records
    batch = encode_batch(values, 0, 0, timestamp_ms, producer_id, 3, sequence)
    answer = cluster.call(cluster.leader(), ProduceRequest(-1, 2000, (ProducePartition(TOPIC, 0, batch),)))
    assert answer.partitions[0].error_code == ErrorCode.NONE


def test_the_idempotent_producers_of_a_partition_are_described_by_every_replica(cluster):
    write_as(cluster, 8, 0, 500, records=4)
    write_as(cluster, 7, 0, 1_000)
    write_as(cluster, 7, 1, 3_000, records=2)
    cluster.run_until(cluster.is_whole)
    for broker in (1, 2, 3):
        (described,) = cluster.call(broker, DescribeProducersRequest(((TOPIC, 0),))).partitions
        assert described.error_code == ErrorCode.NONE
        assert described.producers == (DescribedProducer(7, 3, 2, 3_000), DescribedProducer(8, 3, 3, 500))


def test_a_producer_whose_last_batch_was_deleted_has_no_time(cluster):
    write_as(cluster, 7, 0, 1_000)
    cluster.run_until(cluster.is_whole)
    leader = cluster.leader()
    cluster.call(leader, DeleteRecordsRequest((DeleteRecordsPartition(TOPIC, 0, -1),)))
    (described,) = cluster.call(leader, DescribeProducersRequest(((TOPIC, 0),))).partitions
    assert described.producers == (DescribedProducer(7, 3, 0, -1),)


def test_producers_of_an_unknown_partition_are_refused(cluster):
    (described,) = cluster.call(1, DescribeProducersRequest((("unknown", 0),))).partitions
    assert described.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(("timestamp", "since", "offset"), [(-4, 8, 2), (-5, 9, -1), (-6, 11, -1)])
def test_offsets_of_tiered_storage_are_those_of_a_log_that_is_all_local(cluster, timestamp, since, offset):
    write_as(cluster, 7, 0, 1_000, records=3)
    leader = cluster.leader()
    cluster.call(leader, DeleteRecordsRequest((DeleteRecordsPartition(TOPIC, 0, 2),)))
    request = ListOffsetsRequest((ListOffsetsPartition(TOPIC, 0, timestamp),))

    def listed(version):
        asked = cluster.ask(leader, request, version)
        cluster.run_until(lambda: asked in cluster.answers)
        return cluster.answers[asked].partitions[0]

    assert (listed(since).error_code, listed(since).offset) == (ErrorCode.NONE, offset)
    assert listed(since - 1).error_code == ErrorCode.UNSUPPORTED_VERSION


# --- what clients may do -------------------------------------------------------------------------------------

ALL_OF_TOPIC = {"READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"}
ALL_OF_CLUSTER = ALL_OF_TOPIC - {"READ", "WRITE", "DELETE"} | {"CLUSTER_ACTION", "IDEMPOTENT_WRITE"}


def named(mask: int) -> set[str]:
    return {each.name for each in ACLOperation if each.value > 0 and mask >> each.value & 1}


def test_clients_that_ask_learn_that_they_may_do_everything(cluster):
    metadata = cluster.call(1, MetadataRequest(((TOPIC, ""), ("unknown", "")), False, True, True))
    assert named(metadata.authorized_operations) == ALL_OF_CLUSTER
    assert [each.authorized_operations == NOT_ASKED for each in metadata.topics] == [False, True]
    assert named(metadata.topics[0].authorized_operations) == ALL_OF_TOPIC
    described = cluster.call(1, DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert named(described.authorized_operations) == ALL_OF_CLUSTER
    partitions = cluster.call(1, DescribeTopicPartitionsRequest((TOPIC,)))
    assert named(partitions.topics[0].authorized_operations) == ALL_OF_TOPIC


def test_clients_that_do_not_ask_learn_nothing_of_it(cluster):
    metadata = cluster.call(1, MetadataRequest(((TOPIC, ""),)))
    described = cluster.call(1, DescribeClusterRequest())
    answers = (metadata, metadata.topics[0], described)
    assert {each.authorized_operations for each in answers} == {NOT_ASKED}


@pytest.mark.parametrize(("generation", "elr"), [("K3", 0), ("K4", 1), ("K5", 1)])
def test_the_features_follow_from_the_generation(generation, elr):
    assert features_of(generation) == (
        Feature("eligible.leader.replicas.version", 0, 1, elr),
        Feature("harrow.generation", 1, 5, int(generation[1])),
    )
