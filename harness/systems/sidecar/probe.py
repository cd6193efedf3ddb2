"""Queries a Kafka-protocol broker about its state, in the format of our own broker's admin endpoint.

Every replica of the broker is asked, not only those that it leads: whoever answers a consumer's ListOffsets believes
that it leads, and a follower answers a consumer's Fetch since KIP-392. Positions that it does not tell are null. Broker
ids are those of the harness: a broker with other ids is identified by its advertised address.
"""

from __future__ import annotations

import base64
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.record.memory_records import MemoryRecords

from common.security import PLAIN_TEXT, Security
from harness.systems.sidecar.config import SidecarConfig
from harness.systems.sidecar.wire import BrokerConnection, NodeSilent, Untyped

ANSWER_S = 0.4
"""A little less than the harness waits for the sidecar."""

_FETCH_BYTES = 1 << 20
_FETCH_WAIT_MS = 100  # not 0: some brokers then always return no records
_FETCH_VERSION_MAX = 12  # topics by name
_METADATA_VERSION_MAX = 9  # from 10 on topics may be identified by id alone
_FETCH_VERSION_OF_FOLLOWERS = 11  # from which on they serve consumers
_LATEST, _EARLIEST = -1, -2
_CONSUMER, _DEBUGGER = -1, -2
"""Who asks: a consumer, whom a leader answers up to the high watermark; or whoever debugs a replica (Kafka's
ReplicaVerificationTool), whom a follower answers, too, and up to the end of its log."""

_RACK = "harrow"  # some followers serve only consumers that name one
_OUT_OF_RANGE = 1
_NO_PRODUCER = -1
_SEQUENCE_MASK = (1 << 31) - 1  # sequence numbers start again at 0
_QUORUM_TOPIC = "__cluster_metadata"
_OFFSETS_TOPIC = "__consumer_offsets"

Json = dict[str, Any]
Where = tuple[str, int]
"""Topic and partition."""


class BrokerProbe:
    """Queries one node. For one thread at a time."""

    def __init__(self, config: SidecarConfig, security: Security = PLAIN_TEXT) -> None:
        """`security`: how to connect to the broker. Raises `SecurityError`."""
        self._config = config
        self._connection = BrokerConnection(config.address, ANSWER_S, security)
        beside = config.quorum_address
        self._controller = self._connection if beside is None else BrokerConnection(beside, ANSWER_S)
        self._watermarks: dict[Where, int] = {}  # last known, of partitions that it follows

    def state(self) -> Json:
        """The node's state. Raises `NodeSilent` while it is not ready."""
        self._see_ready()
        known: Json = {"node": self._config.node_id, "role": self._config.role, "lifecycle": "running"}
        known["version"] = self._config.version
        if self._config.role == "controller":
            return {**known, "partitions": [], "quorum": self._quorum()}
        metadata = self._connection.ask(
            MetadataRequest(topics=self._topics(), allow_auto_topic_creation=False),
            MetadataResponse,
            at_most=_METADATA_VERSION_MAX,
        )
        names = self._names(metadata.brokers)
        topics = [topic for topic in metadata.topics if topic.error_code == 0 and self._shows(topic)]
        partitions = [
            each
            for each in _partitions(topics, names, self._eligible(topics))
            if each["topic"] != _OFFSETS_TOPIC or each["partition"] in self._config.group_partitions
        ]
        for each in partitions:
            each |= {"role": "none", "log_start": None, "log_end": None, "high_watermark": None}
        self._add_positions([each for each in partitions if self._config.node_id in each["replicas"]])
        if self._controller is not self._connection:
            known["quorum"] = self._quorum_beside()
        return {**known, "broker_epoch": -1, "brokers": sorted(names.values()), "partitions": partitions}

    def finalized_features(self) -> Mapping[str, int] | None:
        """The finalized levels of features by name; None if the broker tells of none. Raises `NodeSilent`."""
        return self._connection.finalized_features()

    def _topics(self) -> list[Untyped] | None:
        asked = self._config.topics
        return None if asked is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in asked]

    def _see_ready(self) -> None:
        if self._config.ready == "port":
            try:
                socket.create_connection(self._config.address, ANSWER_S).close()
            except OSError as error:
                raise NodeSilent(str(error)) from error
        elif self._config.ready == "command":
            try:
                done = subprocess.run(
                    self._config.ready_command,
                    env={**os.environ, **self._config.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=ANSWER_S,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise NodeSilent(str(error)) from error
            if done.returncode != 0:
                raise NodeSilent(f"{self._config.ready_command[0]} ended with status {done.returncode}")

    def _names(self, brokers: Sequence[Untyped]) -> Mapping[int, int]:
        """The broker's own id → its node id."""
        return {
            broker.node_id: self._config.nodes.get(f"{broker.host}:{broker.port}", broker.node_id) for broker in brokers
        }

    def _shows(self, topic: Untyped) -> bool:
        """Whether the state has a topic. Of the internal ones only that which stores the run's groups counts."""
        return not topic.is_internal or (topic.name == _OFFSETS_TOPIC and bool(self._config.group_partitions))

    def _eligible(self, topics: Sequence[Untyped]) -> Mapping[Where, Untyped]:
        """The partitions with their ELR and LastKnownELR (KIP-966), from a broker that supports them."""
        names = [topic.name for topic in topics]
        if not names or not self._connection.supports(DescribeTopicPartitionsRequest):
            return {}
        requested = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names]
        response = self._connection.ask(
            DescribeTopicPartitionsRequest(topics=requested, response_partition_limit=2_000, cursor=None),
            DescribeTopicPartitionsResponse,
        )
        return {
            (topic.name, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }

    def _add_positions(self, partitions: Sequence[Json]) -> None:
        """Add to this broker's replicas their role, and start, end and high watermark as far as it tells."""
        starts, led = self._offsets(partitions, _EARLIEST), self._offsets(partitions, _LATEST)
        following = self._followed([each for each in partitions if _where(each) not in led])
        telling = [each for each in partitions if _where(each) in led or _where(each) in following]
        ends = self._offsets(telling, _LATEST, _DEBUGGER)
        for each in partitions:
            where = _where(each)
            if where in led and where in starts:
                epoch = led[where].leader_epoch
                each |= {"role": "leader", "leader": self._config.node_id}
                each["leader_epoch"] = each["leader_epoch"] if epoch is None or epoch < 0 else epoch
                each["log_start"], each["high_watermark"] = starts[where].offset, led[where].offset
            else:
                each["role"] = "follower"
                each["log_start"], each["high_watermark"] = following.get(where, (None, None))
            known = each["high_watermark"]
            each["log_end"] = known if known is None or where not in ends else max(known, ends[where].offset)

    def _followed(self, partitions: Sequence[Json]) -> Mapping[Where, tuple[int, int]]:
        """Start and high watermark of partitions that the broker follows, as its answer to a consumer's Fetch says.

        It is asked for what follows the last known high watermark, so that it answers with few records or none.
        """
        if (
            not partitions
            or self._connection.version_of(FetchRequest, _FETCH_VERSION_MAX) < _FETCH_VERSION_OF_FOLLOWERS
        ):
            return {}
        offsets = {_where(each): self._watermarks.get(_where(each), 0) for each in partitions}
        found = {}
        for where, data in self._fetched(offsets, wait_ms=0, size=1).items():
            if data.error_code == 0:
                self._watermarks[where] = data.high_watermark
                found[where] = (max(0, data.log_start_offset), data.high_watermark)
            elif data.error_code == _OUT_OF_RANGE:  # it was truncated, or its start has moved
                self._watermarks[where] = max(0, data.log_start_offset)
        return found

    def _offsets(self, partitions: Sequence[Json], timestamp: int, asker: int = _CONSUMER) -> Mapping[Where, Untyped]:
        """The answers of the partitions that the broker answers for."""
        if not partitions:
            return {}
        topics: dict[str, list[Untyped]] = {}
        kind = ListOffsetsRequest.ListOffsetsTopic
        for each in partitions:
            wanted = kind.ListOffsetsPartition(
                partition_index=each["partition"], current_leader_epoch=-1, timestamp=timestamp, max_num_offsets=1
            )
            topics.setdefault(each["topic"], []).append(wanted)
        requested = [kind(name=name, partitions=wanted) for name, wanted in topics.items()]
        request = ListOffsetsRequest(replica_id=asker, isolation_level=0, topics=requested)
        response = self._connection.ask(request, ListOffsetsResponse, at_most=7)
        return {
            (topic.name, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
            if partition.error_code == 0
        }

    def _quorum_beside(self) -> Json | None:
        """The quorum from the controller in the broker's process, which may be silent while the broker answers."""
        try:
            return self._quorum()
        except NodeSilent:
            return None

    def _quorum(self) -> Json | None:
        """The quorum of controllers, as its leader reports it (KIP-595); None if this node cannot answer.

        Only controllers are queried: a broker forwards the request to them, and may wait for long.
        """
        if not self._controller.supports(DescribeQuorumRequest):
            return None
        kind = DescribeQuorumRequest.TopicData
        requested = [kind(topic_name=_QUORUM_TOPIC, partitions=[kind.PartitionData(partition_index=0)])]
        response = self._controller.ask(DescribeQuorumRequest(topics=requested), DescribeQuorumResponse)
        for topic in response.topics:
            for partition in topic.partitions:
                if response.error_code == 0 and partition.error_code == 0:
                    return {
                        "leader": partition.leader_id,
                        "epoch": partition.leader_epoch,
                        "high_watermark": partition.high_watermark,
                        "voters": {str(voter.replica_id): voter.log_end_offset for voter in partition.current_voters},
                    }
        return None

    def log(self, topic: str, partition: int, offset: int, limit: int) -> Json:
        """Read records below the high watermark, as a client does. Raises `NodeSilent`."""
        records: list[_Record] = []
        end = offset + 1
        while len(records) < limit and (position := records[-1][0] + 1 if records else offset) < end:
            end, found = self._fetch(topic, partition, position)
            fresh = list(_records(found, position))
            if not fresh:
                break
            records += fresh
        return {"log_end": end, "high_watermark": end, "records": records[:limit]}

    def _fetch(self, topic: str, partition: int, offset: int) -> tuple[int, bytes]:
        data = self._fetched({(topic, partition): offset}, wait_ms=_FETCH_WAIT_MS, size=_FETCH_BYTES)
        answered = data.get((topic, partition))
        if answered is None:
            raise NodeSilent(f"a fetch of {topic}-{partition} was answered without it")
        if answered.error_code != 0:
            raise NodeSilent(f"a fetch of {topic}-{partition} was answered with error {answered.error_code}")
        return answered.high_watermark, bytes(answered.records or b"")

    def _fetched(self, offsets: Mapping[Where, int], *, wait_ms: int, size: int) -> Mapping[Where, Untyped]:
        """Fetch up to `size` bytes of each partition from its offset on, as a consumer."""
        kind = FetchRequest.FetchTopic
        topics: dict[str, list[Untyped]] = {}
        for (topic, partition), offset in offsets.items():
            wanted = kind.FetchPartition(
                partition=partition,
                current_leader_epoch=-1,
                fetch_offset=offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=size,
            )
            topics.setdefault(topic, []).append(wanted)
        request = FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max(size, len(offsets)),
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[kind(topic=name, partitions=wanted) for name, wanted in topics.items()],
            forgotten_topics_data=[],
            rack_id=_RACK,
        )
        response = self._connection.ask(request, FetchResponse, at_most=_FETCH_VERSION_MAX)
        return {
            (answered.topic, data.partition_index): data
            for answered in response.responses
            for data in answered.partitions
        }


def _where(partition: Json) -> Where:
    return partition["topic"], partition["partition"]


def _partitions(
    topics: Sequence[Untyped], names: Mapping[int, int], described: Mapping[Where, Untyped]
) -> Iterator[Json]:
    def named(brokers: Sequence[int] | None) -> list[int]:
        return [names.get(broker, broker) for broker in brokers or ()]

    for topic in topics:
        for partition in topic.partitions:
            more = described.get((topic.name, partition.partition_index))
            yield {
                "topic": topic.name,
                "partition": partition.partition_index,
                "leader": names.get(partition.leader_id, partition.leader_id),
                "leader_epoch": partition.leader_epoch if partition.leader_epoch is not None else -1,
                "replicas": named(partition.replica_nodes),
                "isr": named(partition.isr_nodes),
                "elr": named(None if more is None else more.eligible_leader_replicas),
                "last_known_elr": None if more is None else named(more.last_known_elr),
            }


_Record = tuple[int, int, int | None, None, str | None, tuple[int, int, int] | None]
"""Offset, leader epoch, checksum of the batch, no key, value in base64, and its producer: id, epoch and sequence."""


def _records(data: bytes, offset: int) -> Iterator[_Record]:
    """The records from `offset` on."""
    for batch in MemoryRecords(data):
        epoch, crc = getattr(batch, "leader_epoch", -1), getattr(batch, "crc", None)
        for record in batch:
            if record.offset >= offset:
                value = None if record.value is None else base64.b64encode(bytes(record.value)).decode()
                yield record.offset, epoch, crc, None, value, _producer(batch, record.offset)


def _producer(batch: Untyped, offset: int) -> tuple[int, int, int] | None:
    """The producer of a record, as its batch names it; None if it was not idempotent."""
    if getattr(batch, "producer_id", _NO_PRODUCER) == _NO_PRODUCER:
        return None
    return batch.producer_id, batch.producer_epoch, (batch.base_sequence + offset - batch.base_offset) & _SEQUENCE_MASK
