"""A simulated administrator who asks brokers what is so, and asks for what is refused or done only on the way.

It describes settings, topics, logs and the cluster, lists reassignments and groups, reads in a rack, names topics that
are not there so that brokers create them, names a setting twice, and alters settings of single brokers. The answers
are for the observer to check: nobody waits for them, and what gets lost is not asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from broker.core.broker_node.groups.records import OFFSETS_TOPIC
from broker.core.messages import (
    AnyRequest,
    AnyResponse,
    ConfigOperation,
    ConfigResource,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeTopicPartitionsRequest,
    FetchPartition,
    FetchRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
    ResourceType,
)
from broker.core.messages.groups import DescribeGroupsRequest, ListGroupsRequest
from broker.core.ports.marks import sometimes
from simulation.engine.choices import Stream
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.scenario.configuration import Configuration
from simulation.workload.clients import TOPIC
from simulation.workload.members import GROUP

ANSWERED = sometimes("inquiries: an administrator's question is answered")

_STREAM = "inquiries"
_INTERVAL_MS = 400
_TIMEOUT_MS = 1_500
_NAMED_MAX = 3
_SET, _DELETE = 0, 1
_OWN_SETTINGS = (("log.index.interval.bytes", ("0", "100")), ("log.flush.interval.messages", ("1", "4")))
"""Of single brokers, with the values that they get."""


class Inquirer:
    """See the module."""

    def __init__(self, client_id: int, configuration: Configuration) -> None:
        self.client_id = client_id
        self.stopped = False
        self._partitions = configuration.partitions
        self._brokers = range(1, configuration.brokers + 1)
        self._racks = bool(configuration.racks)
        self._request = 0

    def start(self, cluster: SimulatedCluster) -> None:
        """Begin with the first question."""
        cluster.after(_INTERVAL_MS * MS, self.timer, cluster, "next")

    def timer(self, cluster: SimulatedCluster, key: Hashable) -> None:
        """Ask one broker one question."""
        if self.stopped:
            return
        stream = cluster.choices[_STREAM]
        broker = self._brokers[stream.draw("which broker", len(self._brokers))]
        questions = _QUESTIONS + (_read_in_rack,) * len(_QUESTIONS) if self._racks else _QUESTIONS
        question = questions[stream.draw("what to ask", len(questions))]
        self._request += 1
        request = question(stream, broker, self._partitions)
        cluster.send_from_client(self.client_id, self._request, broker, request, _TIMEOUT_MS)
        cluster.after((_INTERVAL_MS + stream.draw("pause", _INTERVAL_MS)) * MS, self.timer, cluster, "next")

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:
        """Count the answers."""
        if response is not None:
            cluster.count(ANSWERED)


def _describe_settings(stream: Stream, broker: int, _partitions: int) -> AnyRequest:
    topic = (int(ResourceType.TOPIC), TOPIC, None)
    every = (int(ResourceType.BROKER), "", None)
    own = (int(ResourceType.BROKER), str(broker), None)
    return DescribeConfigsRequest((topic, own, every), include_synonyms=bool(stream.draw("synonyms", 2)))


def _describe_topics(stream: Stream, _broker: int, _partitions: int) -> AnyRequest:
    return DescribeTopicPartitionsRequest((TOPIC,), 1 + stream.draw("partitions of a page", 3))


def _describe_nodes(stream: Stream, _broker: int, _partitions: int) -> AnyRequest:
    return (DescribeClusterRequest(), DescribeLogDirsRequest(None))[stream.draw("cluster or logs", 2)]


def _list_reassignments(_stream: Stream, _broker: int, partitions: int) -> AnyRequest:
    return ListPartitionReassignmentsRequest(tuple((TOPIC, number) for number in range(partitions)), _TIMEOUT_MS)


def _describe_groups(stream: Stream, _broker: int, _partitions: int) -> AnyRequest:
    return (ListGroupsRequest(), DescribeGroupsRequest((GROUP,)))[stream.draw("all or one", 2)]


def _name_topic(stream: Stream, _broker: int, _partitions: int) -> AnyRequest:
    name = f"named-{stream.draw('which name', _NAMED_MAX)}"
    allowed = stream.draw("may be created", 4) > 0
    return MetadataRequest(((TOPIC, ""), (name, "")), allow_auto_topic_creation=allowed)


def _name_twice(stream: Stream, _broker: int, _partitions: int) -> AnyRequest:
    """Of the topic, or of all brokers: one setting with two values."""
    of_topic = bool(stream.draw("of the topic", 2))
    key = "index.interval.bytes" if of_topic else "log.index.interval.bytes"
    operations = tuple(ConfigOperation(key, _SET, value) for value in ("50", "60"))
    kind = ResourceType.TOPIC if of_topic else ResourceType.BROKER
    return IncrementalAlterConfigsRequest((ConfigResource(kind, TOPIC if of_topic else "", operations),))


def _alter_own(stream: Stream, broker: int, _partitions: int) -> AnyRequest:
    """A setting of a single broker, which any broker passes on."""
    key, values = _OWN_SETTINGS[stream.draw("which setting", len(_OWN_SETTINGS))]
    number = stream.draw("which value", len(values) + 1)
    operation = ConfigOperation(key, _SET, values[number - 1]) if number else ConfigOperation(key, _DELETE, None)
    return IncrementalAlterConfigsRequest((ConfigResource(ResourceType.BROKER, str(broker), (operation,)),))


def _alter_offsets_topic(stream: Stream, _broker: int, _partitions: int) -> AnyRequest:
    """The topic of committed offsets without a `cleanup.policy` of its own, or with one: it is compacted either way."""
    compact = ConfigOperation("cleanup.policy", _SET, "compact")
    chosen = (ConfigOperation("cleanup.policy", _DELETE, None), compact)[stream.draw("policy of offsets", 2)]
    return IncrementalAlterConfigsRequest((ConfigResource(ResourceType.TOPIC, OFFSETS_TOPIC, (chosen,)),))


def _read_in_rack(stream: Stream, _broker: int, partitions: int) -> AnyRequest:
    """As a consumer in one of the racks, from any broker: a leader may name another, and a follower may serve it."""
    part = FetchPartition(TOPIC, stream.draw("which partition", partitions), stream.draw("from where", 50), 1 << 10)
    return FetchRequest((part,), max_wait_ms=50, rack_id=f"rack-{stream.draw('which rack', 2)}")


_QUESTIONS: tuple[Callable[[Stream, int, int], AnyRequest], ...] = (
    _describe_settings,
    _describe_settings,
    _describe_topics,
    _describe_nodes,
    _list_reassignments,
    _describe_groups,
    _name_topic,
    _name_topic,
    _name_twice,
    _alter_own,
    _alter_own,
    _alter_offsets_topic,
)
