"""Asks for changes of topics, replicas, leaders, settings and logs, possible and impossible ones (P-E4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from broker.core.configuration.alteration import Operation
from broker.core.configuration.description import Source
from broker.core.messages import (
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AnyRequest,
    ConfigOperation,
    ConfigResource,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedRecords,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    NewPartitions,
    NewTopic,
    Reassignment,
    ReplacedConfigs,
    ResourceType,
)
from broker.core.messages.errors import ErrorCode
from simulation.engine.cluster import SimulatedCluster
from simulation.examination.describing import NO_ID, NO_TOPIC
from simulation.examination.examiner import Examiner
from simulation.examination.topics import KEYED, PLAIN, STAMPED, configs_of, replicas_of

PROPERTY = "P-E4"
_UNKNOWN_BROKER = 77
_PREFERRED, _UNCLEAN = 0, 1
_TIMEOUT_MS = 5_000
_NEW = "exam-new"
_EARLIEST = -2

_TOPIC, _BROKER = int(ResourceType.TOPIC), int(ResourceType.BROKER)


def examine(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int]) -> None:
    """Ask the brokers in turn, who pass it on to the controller. Raises `WrongAnswer`."""
    _topics(examiner, cluster, brokers)
    _partitions(examiner, cluster, brokers)
    _settings(examiner, cluster, brokers)
    _replicas_and_leaders(examiner, cluster, brokers)
    _records(examiner, cluster)
    _deletions(examiner, cluster, brokers)


_Case = tuple[str, AnyRequest, ErrorCode]


def _all(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int], cases: Sequence[_Case]) -> None:
    for number, (about, request, error) in enumerate(cases):
        examiner.errors(cluster, brokers[number % len(brokers)], about, request, error)


# --- topics ----------------------------------------------------------------------------------------------------------


def _creation(topic: NewTopic, *, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest((topic,), _TIMEOUT_MS, validate_only)


def _topics(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int]) -> None:
    """Topics that may not be created, one that is only tried, and one that is created."""
    name, first = ErrorCode.INVALID_TOPIC_EXCEPTION, brokers[0]
    assignment, config = ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.INVALID_CONFIG
    cases: list[_Case] = [
        (f"a topic {wrong[:20]!r}", _creation(NewTopic(wrong, 1, 1)), name)
        for wrong in ("", ".", "..", "a b", "__cluster_metadata", "x" * 250, PLAIN.replace("-", "é"))
    ]
    cases += [
        ("a topic that there is", _creation(NewTopic(PLAIN, 1, 1)), ErrorCode.TOPIC_ALREADY_EXISTS),
        ("a topic without partitions", _creation(NewTopic(_NEW, 0, 1)), ErrorCode.INVALID_PARTITIONS),
        ("a topic of 2,001 partitions", _creation(NewTopic(_NEW, 2_001, 1)), ErrorCode.INVALID_PARTITIONS),
        ("a topic without replicas", _creation(NewTopic(_NEW, 1, 0)), ErrorCode.INVALID_REPLICATION_FACTOR),
        (
            "a topic with more replicas than brokers",
            _creation(NewTopic(_NEW, 1, len(brokers) + 1)),
            ErrorCode.INVALID_REPLICATION_FACTOR,
        ),
        ("a topic with a replica twice", _creation(NewTopic(_NEW, assignments=((0, (first, first)),))), assignment),
        ("a topic on no broker", _creation(NewTopic(_NEW, assignments=((0, ()),))), assignment),
        ("a topic on an unknown broker", _creation(NewTopic(_NEW, assignments=((0, (_UNKNOWN_BROKER,)),))), assignment),
        ("a topic without partition 0", _creation(NewTopic(_NEW, assignments=((1, (first,)),))), assignment),
        ("a topic with no such setting", _creation(NewTopic(_NEW, 1, 1, configs=(("no.such", "1"),))), config),
        ("a topic with a wrong value", _creation(NewTopic(_NEW, 1, 1, configs=(("segment.bytes", "x"),))), config),
        ("a topic with no value", _creation(NewTopic(_NEW, 1, 1, configs=(("segment.bytes", None),))), config),
        ("a topic that is only tried", _creation(NewTopic(_NEW, 1, 1), validate_only=True), ErrorCode.NONE),
    ]
    _all(examiner, cluster, brokers, cases)
    created = examiner.errors(
        cluster, brokers[-1], "a topic with dots", _creation(NewTopic("exam.dots", 3, 1)), ErrorCode.NONE
    )
    assert isinstance(created, CreateTopicsResponse)
    [answer] = created.topics
    examiner.expect("a topic with dots", (answer.num_partitions, answer.replication_factor), (3, 1))
    collision = _creation(NewTopic("exam_dots", 1, 1))
    examiner.errors(cluster, brokers[0], "a topic whose name collides", collision, name)
    for broker in brokers:
        examiner.soon(cluster, partial(_exists, examiner, cluster, broker, "exam.dots", 3))
        examiner.soon(cluster, partial(_exists, examiner, cluster, broker, _NEW, 0))


def _exists(examiner: Examiner, cluster: SimulatedCluster, broker: int, topic: str, partitions: int) -> None:
    response = examiner.ask(cluster, broker, MetadataRequest(((topic, ""),)))
    assert isinstance(response, MetadataResponse)
    found = response.topics[0]
    examiner.expect(f"broker {broker}, partitions of {topic}", len(found.partitions), partitions)


def _partitions(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int]) -> None:
    """More partitions, and impossible numbers of them."""

    def more(count: int, *assignments: tuple[int, ...], topic: str = STAMPED, tried: bool = False) -> AnyRequest:
        wanted = NewPartitions(topic, count, assignments or None)
        return CreatePartitionsRequest((wanted,), _TIMEOUT_MS, tried)

    one = (brokers[0],)
    wrong, assignment = ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REPLICA_ASSIGNMENT
    cases: list[_Case] = [
        ("as many partitions as there are", more(2), wrong),
        ("fewer partitions than there are", more(1), wrong),
        ("partitions of no topic", more(3, topic=NO_TOPIC), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("one partition with two assignments", more(3, one, one), assignment),
        ("a partition on an unknown broker", more(3, (_UNKNOWN_BROKER,)), assignment),
        ("a partition that is only tried", more(3, one, tried=True), ErrorCode.NONE),
        ("a third partition", more(3, one), ErrorCode.NONE),
    ]
    _all(examiner, cluster, brokers, cases)
    state = examiner.state(cluster, STAMPED, 2)
    examiner.expect("a third partition, its replicas", state.replicas, one)
    for broker in brokers:
        examiner.soon(cluster, partial(_exists, examiner, cluster, broker, STAMPED, 3))


# --- settings --------------------------------------------------------------------------------------------------------


def _altered(*operations: ConfigOperation, topic: str = KEYED, tried: bool = False) -> AnyRequest:
    return IncrementalAlterConfigsRequest((ConfigResource(_TOPIC, topic, operations),), tried)


def _of_broker(name: str, key: str, value: str) -> AnyRequest:
    operation = ConfigOperation(key, Operation.SET, value)
    return IncrementalAlterConfigsRequest((ConfigResource(_BROKER, name, (operation,)),))


def _settings(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int]) -> None:
    """Settings that are refused leave all as it was; those that are taken are in force everywhere."""
    size = ConfigOperation("segment.bytes", Operation.SET, "1000000")
    invalid, config = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG
    twice = IncrementalAlterConfigsRequest((ConfigResource(_TOPIC, KEYED, (size,)),) * 2)
    cases: list[_Case] = [
        ("a setting twice", _altered(size, size), invalid),
        ("a setting of no topic", _altered(size, topic=NO_TOPIC), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a setting of a topic without a name", _altered(size, topic=""), invalid),
        ("no such setting", _altered(ConfigOperation("no.such", Operation.SET, "1")), config),
        ("a wrong value", _altered(size._replace(value="x")), config),
        ("no value", _altered(size._replace(value=None)), invalid),
        ("no such operation", _altered(size._replace(operation=9)), invalid),
        ("words for a setting that is no list", _altered(size._replace(operation=Operation.APPEND)), config),
        ("a setting that is only tried", _altered(size, tried=True), ErrorCode.NONE),
        (
            "a setting of an unknown broker",
            _of_broker("77", "log.cleaner.backoff.ms", "1"),
            ErrorCode.BROKER_ID_NOT_REGISTERED,
        ),
        ("a setting of a broker that has no number", _of_broker("one", "log.cleaner.backoff.ms", "1"), invalid),
        ("a setting of brokers that is read-only", _of_broker("", "log.dirs", "/x"), invalid),
        ("no such setting of brokers", _of_broker("", "no.such", "1"), invalid),
        ("a setting of all brokers for one", _of_broker(str(brokers[0]), "min.insync.replicas", "1"), invalid),
    ]
    _all(examiner, cluster, brokers, cases)
    for broker in brokers:
        examiner.errors(cluster, broker, "a resource twice", twice, invalid, invalid)
        examiner.soon(cluster, partial(_has, examiner, cluster, broker, configs_of(KEYED)))
    steps: list[tuple[str, AnyRequest, dict[str, str]]] = [
        ("a setting", _altered(size), {**configs_of(KEYED), "segment.bytes": "1000000"}),
        (
            "a word more",
            _altered(ConfigOperation("cleanup.policy", Operation.APPEND, "delete")),
            {**configs_of(KEYED), "segment.bytes": "1000000", "cleanup.policy": "compact,delete"},
        ),
        (
            "a word less",
            _altered(ConfigOperation("cleanup.policy", Operation.SUBTRACT, "delete")),
            {**configs_of(KEYED), "segment.bytes": "1000000"},
        ),
        (
            "a setting that is removed",
            _altered(ConfigOperation("segment.bytes", Operation.DELETE, None)),
            configs_of(KEYED),
        ),
        (
            "all settings anew",
            AlterConfigsRequest((ReplacedConfigs(_TOPIC, KEYED, (("cleanup.policy", "compact"),)),)),
            {"cleanup.policy": "compact"},
        ),
    ]
    for number, (about, request, expected) in enumerate(steps):
        examiner.errors(cluster, brokers[number % len(brokers)], about, request, ErrorCode.NONE)
        for broker in brokers:
            examiner.soon(cluster, partial(_has, examiner, cluster, broker, expected))


def _has(examiner: Examiner, cluster: SimulatedCluster, broker: int, expected: dict[str, str]) -> None:
    response = examiner.ask(cluster, broker, DescribeConfigsRequest(((_TOPIC, KEYED, None),)))
    assert isinstance(response, DescribeConfigsResponse)
    configs = response.results[0].configs
    own = {one.name: one.value for one in configs if one.config_source == Source.DYNAMIC_TOPIC}
    examiner.expect(f"broker {broker}, settings of {KEYED}", own, expected)


# --- replicas and leaders --------------------------------------------------------------------------------------------


def _replicas_and_leaders(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int]) -> None:
    """Impossible reassignments and elections; one that turns the replicas round, and lets the first of them lead."""

    def moved(*replicas: int, number: int = 1, resize: bool = True) -> AnyRequest:
        return AlterPartitionReassignmentsRequest((Reassignment(PLAIN, number, replicas),), _TIMEOUT_MS, resize)

    def elected(kind: int, number: int = 1) -> AnyRequest:
        return ElectLeadersRequest(kind, ((PLAIN, number),), _TIMEOUT_MS)

    present = replicas_of(brokers, 1)
    assignment, unknown = ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cancel = AlterPartitionReassignmentsRequest((Reassignment(PLAIN, 1, None),), _TIMEOUT_MS)
    cases: list[_Case] = [
        ("a reassignment to nobody", moved(), assignment),
        ("a reassignment to a broker twice", moved(brokers[0], brokers[0]), assignment),
        ("a reassignment to an unknown broker", moved(*present[:-1], _UNKNOWN_BROKER), assignment),
        ("a reassignment of no partition", moved(*present, number=99), unknown),
        ("the end of no reassignment", cancel, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("a reassignment to where it is", moved(*present), ErrorCode.NONE),
        ("an unclean election that is not needed", elected(_UNCLEAN), ErrorCode.ELECTION_NOT_NEEDED),
        ("an election of no partition", elected(_PREFERRED, 99), unknown),
    ]
    if len(present) > 1:
        fewer = moved(*present[:-1], resize=False)
        cases.append(("a reassignment to fewer that may not be", fewer, ErrorCode.INVALID_REPLICATION_FACTOR))
    _all(examiner, cluster, brokers, cases)
    turned = (*present[1:], present[0])

    def is_turned() -> None:
        state = examiner.state(cluster, PLAIN, 1)
        examiner.expect("replicas turned round", (state.replicas, state.adding, state.removing), (turned, (), ()))

    def is_led() -> None:
        state = examiner.state(cluster, PLAIN, 1)
        response = examiner.ask(cluster, brokers[0], elected(_PREFERRED))
        assert isinstance(response, ElectLeadersResponse)
        wanted = ErrorCode.ELECTION_NOT_NEEDED if state.leader == turned[0] else ErrorCode.NONE
        examiner.expect(
            "an election of the preferred leader", [one.error_code for one in response.partitions], [wanted]
        )
        examiner.expect("the leader after it", examiner.state(cluster, PLAIN, 1).leader, turned[0])

    examiner.errors(cluster, brokers[-1], "replicas turned round", moved(*turned), ErrorCode.NONE)
    examiner.soon(cluster, is_turned)
    examiner.soon(cluster, is_led)
    examiner.errors(
        cluster, brokers[0], "an election that is not needed", elected(_PREFERRED), ErrorCode.ELECTION_NOT_NEEDED
    )


# --- records ---------------------------------------------------------------------------------------------------------


def _records(examiner: Examiner, cluster: SimulatedCluster) -> None:
    """Records are deleted up to an offset, up to the end, and no further."""
    state = examiner.state(cluster, PLAIN, 0)
    end = _deleted(examiner, cluster, 0, ErrorCode.NONE).low_watermark
    examiner.expect("records deleted below 0, the log's start", end, 0)
    _deleted(examiner, cluster, 1 << 40, ErrorCode.OFFSET_OUT_OF_RANGE)
    _deleted(examiner, cluster, -2, ErrorCode.OFFSET_OUT_OF_RANGE)
    for offset in (1, 2, -1):
        low = _deleted(examiner, cluster, offset, ErrorCode.NONE).low_watermark
        if offset > 0:
            examiner.expect(f"records deleted below {offset}, the log's start", low, offset)
        examiner.soon(cluster, partial(_starts, examiner, cluster, low))
    cases = [(state.leader, PLAIN, 99, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    cases += [(one, PLAIN, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER) for one in state.replicas if one != state.leader]
    keyed = examiner.state(cluster, KEYED, 0).leader
    cases.append((keyed, KEYED, 0, ErrorCode.POLICY_VIOLATION))
    for broker, topic, number, error in cases:
        request = DeleteRecordsRequest((DeleteRecordsPartition(topic, number, 0),), _TIMEOUT_MS)
        response = examiner.ask(cluster, broker, request)
        assert isinstance(response, DeleteRecordsResponse)
        about = f"broker {broker}, deletion of records of {topic}-{number}"
        examiner.expect(about, response.partitions[0].error_code, error)


def _deleted(examiner: Examiner, cluster: SimulatedCluster, offset: int, error: ErrorCode) -> DeletedRecords:
    leader = examiner.state(cluster, PLAIN, 0).leader
    request = DeleteRecordsRequest((DeleteRecordsPartition(PLAIN, 0, offset),), _TIMEOUT_MS)
    response = examiner.errors(cluster, leader, f"deletion of records below {offset}", request, error)
    assert isinstance(response, DeleteRecordsResponse)
    return response.partitions[0]


def _starts(examiner: Examiner, cluster: SimulatedCluster, start: int) -> None:
    leader = examiner.state(cluster, PLAIN, 0).leader
    response = examiner.ask(cluster, leader, ListOffsetsRequest((ListOffsetsPartition(PLAIN, 0, _EARLIEST),)))
    assert isinstance(response, ListOffsetsResponse)
    examiner.expect("the log's start after a deletion", response.partitions[0].offset, start)


# --- the end ---------------------------------------------------------------------------------------------------------


def _deletions(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int]) -> None:
    """Topics that there are not; one is deleted by its name, one by its id."""

    def deletion(name: str | None, topic_id: str = "") -> AnyRequest:
        return DeleteTopicsRequest(((name, topic_id),), _TIMEOUT_MS)

    described = examiner.ask(cluster, brokers[0], MetadataRequest(((STAMPED, ""),)))
    assert isinstance(described, MetadataResponse)
    cases: list[_Case] = [
        ("deletion of no topic", deletion(NO_TOPIC), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("deletion of no id", deletion(None, NO_ID), ErrorCode.UNKNOWN_TOPIC_ID),
        ("deletion by name", deletion("exam.dots"), ErrorCode.NONE),
        ("deletion by id", deletion(None, described.topics[0].topic_id), ErrorCode.NONE),
    ]
    _all(examiner, cluster, brokers, cases)
    gone: list[Callable[[], None]] = [
        partial(_exists, examiner, cluster, broker, topic, 0) for broker in brokers for topic in ("exam.dots", STAMPED)
    ]
    for question in gone:
        examiner.soon(cluster, question)
