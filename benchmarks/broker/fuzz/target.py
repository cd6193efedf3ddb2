"""The cluster that is fuzzed: three brokers and three controllers as processes, and what is known of it at a time."""

from __future__ import annotations

import socket
import struct
import threading
import uuid
from contextlib import suppress

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from benchmarks.broker.fuzz.drawing.steps import ACTIVE
from benchmarks.broker.fuzz.drawing.values import EPOCH_MARKS, FUZZED, KEPT, TOPIC_ID_MARKS, Marks
from benchmarks.broker.fuzz.sending import Address, read_exactly
from benchmarks.broker.fuzz.spared import Known
from broker.core.messages import MetadataRequest, MetadataResponse
from broker.shell.codec.clients.lookups import METADATA
from broker.shell.codec.frames import read_response, request_frame
from tests.support.local_cluster import LocalCluster, LocalNode

TOPICS_MAX = 40
"""If there are more, those that frames have created are deleted."""

KEPT_PARTITIONS = 3
_METADATA_VERSION = 12
_ANSWER_S_MAX = 10.0
_SETTINGS = {
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "2000",
    "log.segment.bytes": str(4 << 20),
    "log.retention.ms": "60000",
    "log.retention.check.interval.ms": "5000",
}
_OF_FUZZED = {"retention.bytes": str(16 << 20), "retention.ms": "60000"}


class Target:
    """A running cluster with the kept topic, and with those that are fuzzed."""

    def __init__(self, listener: str, module: str) -> None:
        """Start it; `module` is the Python module that runs a node."""
        self.listener = listener
        settings = {name.replace(".", "_"): value for name, value in _SETTINGS.items()}
        self.cluster = LocalCluster(3, 3, module=module, **settings)
        self.cluster.start()
        self._lock = threading.Lock()
        self._marks: Marks = {}
        self._active = 0
        self._known = Known(listener, "", {}, 0)
        self._create([(KEPT, KEPT_PARTITIONS, {"retention.ms": "-1"}), *((name, 2, _OF_FUZZED) for name in FUZZED)])
        self.cluster.wait_until_whole(KEPT)
        self.look()

    @property
    def nodes(self) -> list[LocalNode]:
        """All nodes, those of the fuzzed listener first."""
        return sorted(self.cluster.nodes.values(), key=lambda node: node not in self.listening())

    def listening(self) -> list[LocalNode]:
        """The nodes that have the fuzzed listener."""
        return [node for node in self.cluster.nodes.values() if self.listener in node.addresses]

    def node_of(self, target: int) -> LocalNode:
        """The node that a step means now."""
        nodes = self.listening()
        return nodes[self._active if target == ACTIVE else target - 1]

    def address_of(self, node: LocalNode, listener: str) -> Address:
        """Where a node listens."""
        host, port = node.addresses[listener].rsplit(":", 1)
        return host, int(port)

    def seen(self) -> tuple[Marks, Known]:
        """What was last learnt of the cluster."""
        with self._lock:
            return self._marks, self._known

    def look(self) -> None:
        """Learn the ids of topics, the epochs of brokers, and who leads; create again what frames have deleted."""
        controller = self.cluster.active_controller()
        if controller is None:
            return
        quorum = controller.quorum()
        if "brokers" not in quorum:
            return  # it has just been deposed
        ids = self._topic_ids()
        epochs = {each["id"]: each["epoch"] for each in quorum["brokers"]}
        marks = {TOPIC_ID_MARKS[name]: found.bytes for name, found in ids.items() if name in TOPIC_ID_MARKS}
        marks |= {EPOCH_MARKS[number]: epoch.to_bytes(8) for number, epoch in epochs.items() if number in EPOCH_MARKS}
        numbers = [node.number for node in self.listening()]
        with self._lock:
            self._marks = marks
            self._known = Known(self.listener, str(ids.get(KEPT, "")), epochs, quorum["epoch"])
            self._active = numbers.index(controller.number) if controller.number in numbers else 0
        self._tidy(set(ids))

    def close(self) -> None:
        """Kill all nodes, and remove what they wrote."""
        self.cluster.close()

    def _topic_ids(self) -> dict[str, uuid.UUID]:
        """The ids of all topics, by a broker's answer."""
        request = MetadataRequest()
        frame = request_frame(METADATA, _METADATA_VERSION, 1, "fuzzer", request)
        with socket.create_connection(self.address_of(self.cluster.brokers[0], "CLIENT"), _ANSWER_S_MAX) as connection:
            connection.sendall(frame)
            (size,) = struct.unpack(">i", read_exactly(connection, 4))
            response = read_response(METADATA, _METADATA_VERSION, 1, read_exactly(connection, size), request)
        assert isinstance(response, MetadataResponse)
        return {topic.name: uuid.UUID(topic.topic_id) for topic in response.topics if topic.name}

    def _tidy(self, topics: set[str]) -> None:
        missing = [(name, 2, _OF_FUZZED) for name in FUZZED if name not in topics]
        created = topics - {KEPT, *FUZZED, "__consumer_offsets"}
        with suppress(KafkaError):
            if missing:
                self._create(missing)
            if len(topics) > TOPICS_MAX:
                admin = self._admin()
                admin.delete_topics(sorted(created))
                admin.close()

    def _create(self, topics: list[tuple[str, int, dict[str, str]]]) -> None:
        admin = self._admin()
        try:
            with suppress(TopicAlreadyExistsError):
                admin.create_topics([NewTopic(name, count, 3, topic_configs=own) for name, count, own in topics])
        finally:
            admin.close()

    def _admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap, request_timeout_ms=10_000)
