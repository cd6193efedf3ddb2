"""A simulated operator who creates, fills, reads, extends and deletes small topics beside the main one, by two names.

A topic that is created again has the name of an earlier one and another id. Records are read by the topic's id, as
clients do since KIP-516, so that an answer from the log of an earlier topic would be a mistake of the broker.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from broker.core.messages import (
    AnyRequest,
    AnyResponse,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    NewPartitions,
    NewTopic,
    ProducePartition,
    ProduceRequest,
)
from broker.core.messages.clients import MetadataTopic
from broker.core.messages.errors import ErrorCode
from broker.core.ports.marks import sometimes
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.workload.batches import Producer, encode_values
from simulation.workload.clients import LeaderCache

NAMES = ("side-a", "side-b")

AGAIN = sometimes("topics: a name is used again, for a topic with another id")
READ = sometimes("topics: records of a topic are read by its id")

_STREAM = "topics"
_INTERVAL_MS = 700
_TIMEOUT_MS = 1_500
_PATIENCE_MS = 1_000
_PARTITIONS_MAX = 2


class SideTopics:
    """See the module. Every step asks for the state of one topic, and then does one thing to it."""

    def __init__(self, client_id: int, brokers: Sequence[int], replication_factor: int) -> None:
        self.client_id = client_id
        self.stopped = False
        self._route = LeaderCache(brokers)
        self._factor = replication_factor
        self._request = 0
        self._value = 0
        self._name = NAMES[0]
        self._ids: dict[str, str] = {}  # the last id by each name
        self._acts = False  # whether the request in flight is the second one of its step

    def start(self, cluster: SimulatedCluster) -> None:
        """Begin with the first step."""
        cluster.after(_INTERVAL_MS * MS, self.timer, cluster, "next")

    def timer(self, cluster: SimulatedCluster, key: Hashable) -> None:
        """Begin a step."""
        if self.stopped:
            return
        self._name = NAMES[cluster.choices[_STREAM].draw("which topic", len(NAMES))]
        self._acts = False
        self._send(cluster, self._route.ask(), MetadataRequest(((self._name, ""),)))

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:
        """Act upon the state of the topic, or wait for the next step."""
        if request_id != self._request or self.stopped:
            return
        if not self._acts and isinstance(response, MetadataResponse) and response.topics:
            self._acts = True
            self._act(cluster, response.topics[0])
            return
        if isinstance(response, FetchResponse) and response.partitions[0].records:
            cluster.count(READ)
        pause_ms = _INTERVAL_MS // 2 + cluster.choices[_STREAM].draw("pause", _INTERVAL_MS)
        cluster.after(pause_ms * MS, self.timer, cluster, "next")

    def _act(self, cluster: SimulatedCluster, topic: MetadataTopic) -> None:
        if topic.error_code != ErrorCode.NONE:
            new = NewTopic(self._name, 1, self._factor)
            self._send(cluster, self._route.ask(), CreateTopicsRequest((new,), _PATIENCE_MS))
            return
        if self._ids.get(self._name, topic.topic_id) != topic.topic_id:
            cluster.count(AGAIN)
        self._ids[self._name] = topic.topic_id
        partition = topic.partitions[cluster.choices[_STREAM].draw("which partition", len(topic.partitions))]
        leader = partition.leader if partition.leader >= 0 else self._route.ask()
        action = cluster.choices[_STREAM].draw("what to do", 10)
        if action < 4:
            self._value += 1
            batch = encode_values((self._value,), Producer())
            request = ProduceRequest(
                -1, _PATIENCE_MS, (ProducePartition(self._name, partition.partition, batch, topic.topic_id),)
            )
            self._send(cluster, leader, request)
        elif action < 7:
            part = FetchPartition(self._name, partition.partition, 0, 1 << 16, topic_id=topic.topic_id)
            self._send(cluster, leader, FetchRequest((part,), max_wait_ms=100))
        elif action == 7 and len(topic.partitions) < _PARTITIONS_MAX:
            wanted = NewPartitions(self._name, len(topic.partitions) + 1)
            self._send(cluster, self._route.ask(), CreatePartitionsRequest((wanted,), _PATIENCE_MS))
        else:
            chosen = (None, topic.topic_id) if topic.topic_id and action != 8 else (self._name, "")
            self._send(cluster, self._route.ask(), DeleteTopicsRequest((chosen,), _PATIENCE_MS))

    def _send(self, cluster: SimulatedCluster, to: int, request: AnyRequest) -> None:
        self._request += 1
        cluster.send_from_client(self.client_id, self._request, to, request, _TIMEOUT_MS)
