"""Asks brokers to describe the cluster, its topics, settings and log directories (P-E1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from broker.core.configuration.description import Source
from broker.core.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    MetadataRequest,
    MetadataResponse,
    ResourceType,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import Image
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.node_views import leading
from simulation.examination.examiner import Examiner
from simulation.examination.topics import PLAIN, configs_of, replicas_of

PROPERTY = "P-E1"
NO_TOPIC, NO_ID = "exam-none", "00000000-0000-4000-8000-000000000001"
_ILLEGAL = "no such/name"
_AUTOMATIC = "exam-automatic"
_UNKNOWN_TYPE = 99


def examine(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int]) -> None:
    """Ask every broker. Raises `WrongAnswer`."""
    for broker in brokers:
        for of_all in (_metadata, _cluster, _directories, _settings, _resources):
            examiner.soon(cluster, partial(of_all, examiner, cluster, brokers, broker))
        for of_one in (_named_topics, _pages, _quorum):
            examiner.soon(cluster, partial(of_one, examiner, cluster, broker))
    _automatic(examiner, cluster, brokers)


def _image(examiner: Examiner, cluster: SimulatedCluster) -> Image:
    controller = leading(cluster)
    if controller is None:
        raise examiner.wrong("the quorum", "no active controller", "one")
    return controller.image


def _metadata(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int], broker: int) -> None:
    """All topics, with leaders, epochs, replicas and ISR; all brokers."""
    about = f"broker {broker}, metadata of all topics"
    response = examiner.ask(cluster, broker, MetadataRequest(include_topic_authorized_operations=True))
    assert isinstance(response, MetadataResponse)
    found = {
        topic.name: [
            (part.error_code, part.partition, part.leader, part.leader_epoch, part.replicas, part.isr)
            for part in topic.partitions
        ]
        for topic in response.topics
    }
    image = _image(examiner, cluster)
    expected = {
        topic.name: [
            (ErrorCode.NONE, number, state.leader, state.leader_epoch, state.replicas, state.isr)
            for number, state in topic.partitions.items()
        ]
        for topic in image.topics.values()
    }
    examiner.expect(about, found, expected)
    ids = {topic.name: topic.topic_id for topic in response.topics}
    examiner.expect(f"{about}, ids", ids, {topic.name: topic.topic_id for topic in image.topics.values()})
    internal = [topic.name for topic in response.topics if topic.is_internal != (topic.name or "").startswith("__")]
    examiner.expect(f"{about}, those that are wrongly internal or not", internal, [])
    offline = [topic.name for topic in response.topics for part in topic.partitions if part.offline_replicas]
    examiner.expect(f"{about}, those with replicas offline", offline, [])
    examiner.expect(f"{about}, brokers", sorted(one.node_id for one in response.brokers), list(brokers))
    examiner.expect(f"{about}, hosts", sorted(one.host for one in response.brokers), [f"b{one}" for one in brokers])
    examiner.expect(f"{about}, the controller", response.controller_id in brokers, True)
    examiner.expect(f"{about}, operations", all(topic.authorized_operations > 0 for topic in response.topics), True)
    examiner.expect(f"{about}, operations on the cluster", response.authorized_operations < 0, True)


def _named_topics(examiner: Examiner, cluster: SimulatedCluster, broker: int) -> None:
    """Topics by name and by id, and such as there are not."""
    topic = _image(examiner, cluster).topics.get(PLAIN)
    topic_id = "" if topic is None else topic.topic_id
    asked = ((PLAIN, ""), (None, topic_id), (NO_TOPIC, ""), (_ILLEGAL, ""), (None, NO_ID))
    for name, by_id in asked:
        response = examiner.ask(cluster, broker, MetadataRequest(((name, by_id),)))
        assert isinstance(response, MetadataResponse)
        [found] = response.topics
        error = {
            NO_TOPIC: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            _ILLEGAL: ErrorCode.INVALID_TOPIC_EXCEPTION,
        }.get(name or "", ErrorCode.UNKNOWN_TOPIC_ID if by_id == NO_ID else ErrorCode.NONE)
        known = (PLAIN, topic_id, 2) if error == ErrorCode.NONE else (name, by_id, 0)
        answer = (found.error_code, found.name, found.topic_id, len(found.partitions))
        examiner.expect(f"broker {broker}, metadata of {name or by_id!r}", answer, (error, *known))


def _pages(examiner: Examiner, cluster: SimulatedCluster, broker: int) -> None:
    """All topics in pages of one partition and of three, and one that there is not."""
    image = _image(examiner, cluster)
    expected = [
        (name, number, state.leader, state.leader_epoch, state.replicas, state.isr, state.elr, state.last_known_elr)
        for name in sorted(image.topics)
        for number, state in sorted(image.topics[name].partitions.items())
    ]
    for limit in (1, 3):
        pages = []
        cursor: tuple[str, int] | None = None
        for _ in range(len(expected) + 1):
            page = _page(examiner, cluster, broker, DescribeTopicPartitionsRequest((), limit, cursor))
            pages.append([(topic.name, *part) for topic in page.topics for part in _described(topic)])
            cursor = page.next_cursor
            if cursor is None:
                break
        about = f"broker {broker}, all partitions in pages of {limit}"
        examiner.expect(about, [one for page in pages for one in page], expected)
        examiner.expect(f"{about}, the longest page", max(map(len, pages)), min(limit, len(expected)))
    whole = _page(examiner, cluster, broker, DescribeTopicPartitionsRequest((NO_TOPIC, PLAIN)))
    named = [(topic.name, topic.error_code, len(topic.partitions)) for topic in whole.topics]
    expected_names = [(NO_TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0), (PLAIN, ErrorCode.NONE, 2)]
    examiner.expect(f"broker {broker}, partitions of two topics", named, expected_names)
    examiner.expect(f"broker {broker}, a page that has all", whole.next_cursor, None)


def _page(
    examiner: Examiner, cluster: SimulatedCluster, broker: int, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    response = examiner.ask(cluster, broker, request)
    assert isinstance(response, DescribeTopicPartitionsResponse)
    return response


def _described(topic: DescribedTopic) -> list[tuple[object, ...]]:
    return [
        (part.partition, part.leader, part.leader_epoch, part.replicas, part.isr, part.elr, part.last_known_elr)
        for part in topic.partitions
    ]


def _cluster(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int], broker: int) -> None:
    """The brokers; a broker does not describe controllers (KIP-919)."""
    response = examiner.ask(cluster, broker, DescribeClusterRequest())
    assert isinstance(response, DescribeClusterResponse)
    about = f"broker {broker}, the cluster"
    examiner.expect(about, (response.error_code, sorted(one.node_id for one in response.brokers)), (0, list(brokers)))
    mismatch = ErrorCode.MISMATCHED_ENDPOINT_TYPE
    examiner.errors(cluster, broker, "the cluster's controllers", DescribeClusterRequest(2), mismatch)


def _quorum(examiner: Examiner, cluster: SimulatedCluster, broker: int) -> None:
    """The quorum's leader, epoch and voters; no reassignment is running."""
    response = examiner.ask(cluster, broker, DescribeQuorumRequest())
    assert isinstance(response, DescribeQuorumResponse)
    controller = leading(cluster)
    if controller is None:
        raise examiner.wrong("the quorum", "no active controller", "one")
    about = f"broker {broker}, the quorum"
    examiner.expect(
        about,
        (response.error_code, response.leader_id, response.leader_epoch),
        (ErrorCode.NONE, controller.settings.node_id, controller.quorum.epoch),
    )
    voters = sorted(one.replica_id for one in response.voters)
    examiner.expect(f"{about}, voters", voters, sorted(controller.settings.voters))
    examiner.expect(f"{about}, its end", 0 < response.high_watermark <= controller.quorum.log.end_offset, True)
    ends = [one.log_end_offset > 0 for one in (*response.voters, *response.observers)]
    examiner.expect(f"{about}, ends of logs that are known", all(ends), True)
    running = examiner.ask(cluster, broker, ListPartitionReassignmentsRequest())
    assert isinstance(running, ListPartitionReassignmentsResponse)
    examiner.expect(f"broker {broker}, running reassignments", running.reassignments, ())


def _directories(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int], broker: int) -> None:
    """Every replica of a broker is in one of its log directories; one alone can be asked for."""
    response = examiner.ask(cluster, broker, DescribeLogDirsRequest(None))
    assert isinstance(response, DescribeLogDirsResponse)
    about = f"broker {broker}, log directories"
    examiner.expect(f"{about}, errors", [one.error_code for one in response.directories if one.error_code], [])
    found = sorted((log.topic, log.partition) for one in response.directories for log in one.logs)
    expected = sorted(
        (topic.name, number)
        for topic in _image(examiner, cluster).topics.values()
        for number, state in topic.partitions.items()
        if broker in state.replicas
    )
    examiner.expect(about, found, expected)
    lags = [log for one in response.directories for log in one.logs if log.offset_lag]
    examiner.expect(f"{about}, logs that lag", lags, [])
    held = [number for number in range(2) if broker in replicas_of(brokers, number)][:1]
    asked = tuple(DescribeLogDirsPartition(PLAIN, number) for number in held)
    one = examiner.ask(cluster, broker, DescribeLogDirsRequest(asked))
    assert isinstance(one, DescribeLogDirsResponse)
    named = [(log.topic, log.partition) for each in one.directories for log in each.logs]
    examiner.expect(f"{about}, those asked for", named, [(PLAIN, number) for number in held])


def _settings(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int], broker: int) -> None:
    """The settings of a topic with their sources, of the broker itself, and of what has none."""
    topic = int(ResourceType.TOPIC)
    response = examiner.ask(
        cluster,
        broker,
        DescribeConfigsRequest(((topic, PLAIN, None),), include_synonyms=True, include_documentation=True),
    )
    assert isinstance(response, DescribeConfigsResponse)
    [described] = response.results
    about = f"broker {broker}, settings of {PLAIN}"
    own = {one.name: one.value for one in described.configs if one.config_source == Source.DYNAMIC_TOPIC}
    examiner.expect(about, own, configs_of(PLAIN))
    first = {one.name: (one.value, one.config_source) for one in described.configs}
    examiner.expect(f"{about}, the first of the synonyms", first, {
        one.name: one.synonyms[0][1:] if one.synonyms else (None, int(Source.DEFAULT)) for one in described.configs
    })  # fmt: skip
    examiner.expect(
        f"{about}, some without documentation", [one for one in described.configs if not one.documentation], []
    )
    kind = int(ResourceType.BROKER)
    some = ("min.insync.replicas", "log.dirs")
    chosen = examiner.ask(cluster, broker, DescribeConfigsRequest(((kind, str(broker), some), (kind, "", None))))
    assert isinstance(chosen, DescribeConfigsResponse)
    names = sorted(one.name for one in chosen.results[0].configs)
    examiner.expect(f"broker {broker}, two of its settings", names, sorted(some))
    image = _image(examiner, cluster)
    of_all = {one.name: one.value for one in chosen.results[1].configs}
    examiner.expect(f"broker {broker}, settings of all brokers", of_all, dict(image.configs))
    other = next(one for one in (*brokers, 99) if one != broker)
    refused = DescribeConfigsRequest(((topic, NO_TOPIC, None), (kind, str(other), None), (_UNKNOWN_TYPE, "", None)))
    examiner.errors(
        cluster,
        broker,
        "settings of what there is not",
        refused,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    )


def _resources(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int], broker: int) -> None:
    """What has settings: topics and brokers, all or of one type."""
    topics = [(name, int(ResourceType.TOPIC)) for name in _image(examiner, cluster).topics]
    nodes = [(str(one), int(ResourceType.BROKER)) for one in brokers]
    for types, expected in (
        ((), topics + nodes),
        ((int(ResourceType.TOPIC),), topics),
        ((int(ResourceType.BROKER),), nodes),
    ):
        response = examiner.ask(cluster, broker, ListConfigResourcesRequest(types))
        assert isinstance(response, ListConfigResourcesResponse)
        examiner.expect(f"broker {broker}, what has settings", sorted(response.resources), sorted(expected))
    unknown = ListConfigResourcesRequest((_UNKNOWN_TYPE,))
    examiner.errors(cluster, broker, "what of an unknown type has settings", unknown, ErrorCode.UNSUPPORTED_VERSION)


def _automatic(examiner: Examiner, cluster: SimulatedCluster, brokers: Sequence[int]) -> None:
    """`auto.create.topics.enable`: a topic that a client allows to be created, if it may have that name."""
    names = (_AUTOMATIC, _ILLEGAL)
    request = MetadataRequest(tuple((name, "") for name in names), allow_auto_topic_creation=True)

    def created() -> None:
        response = examiner.ask(cluster, brokers[0], request)
        assert isinstance(response, MetadataResponse)
        errors = {topic.name: topic.error_code for topic in response.topics}
        expected = {_AUTOMATIC: ErrorCode.NONE, _ILLEGAL: ErrorCode.INVALID_TOPIC_EXCEPTION}
        examiner.expect(f"broker {brokers[0]}, topics that it may create", errors, expected)

    examiner.soon(cluster, created)
    silent = MetadataRequest(((NO_TOPIC, ""), (None, "")))
    examiner.ask(cluster, brokers[0], silent)
    unasked = [name for name in _image(examiner, cluster).topics if name in (NO_TOPIC, _ILLEGAL, "")]
    examiner.expect("topics that nobody wanted", unasked, [])
