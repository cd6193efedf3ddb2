"""An administrator of topics, with a cluster and traffic that the test simulates."""

import json
import threading

import pytest

from history.reader import load_table
from history.writer import HistoryWriter
from tests.workloads.fake_client import FakeTime
from workloads.admin.lifecycles import PREFIX, TopicLifecycles, TopicPlan
from workloads.clients.base import ClientError, ClientMissingError, Partition
from workloads.clients.optional_interfaces import Placement, admin_library
from workloads.recording import Recorder
from workloads.values import ValueSource

KEPT = Partition("chaos", 0)


class FakeTraffic:
    def __init__(self, partitions):
        self.partitions = list(partitions)
        self.steps = []

    def failure(self):
        return None

    def quiesce(self):
        self.steps.append("quiesced")

    def stop(self, patience_s):
        self.steps.append("stopped")


class FakeAdministrator:
    """Does everything, but for what the test has it fail at; the test ends after so many topics."""

    def __init__(self, ended, topics, failing=()):
        self.topics = {}
        self.deleted = []
        self.moved = []
        self.closed = False
        self._ended = ended
        self._left = topics
        self._failing = set(failing)

    def create(self, topic, partitions):
        self._left -= 1
        self._fail("create")
        assert topic not in self.topics
        self.topics[topic] = partitions

    def delete(self, topic):
        self._fail("delete")
        self.deleted.append(topic)

    def add_partitions(self, topic, total):
        self._fail("add-partitions")
        assert total > self.topics[topic]
        self.topics[topic] = total

    def placement(self, partition):
        return Placement((1, 2), (1, 2, 3))

    def reassign(self, partition, replicas):
        self._fail("reassign")
        self.moved.append((partition, tuple(replicas)))

    def close(self):
        self.closed = True

    def _fail(self, action):
        if self._left <= 0:
            self._ended.set()
        if action in self._failing:
            raise ClientError("RequestTimedOutError")


class Bench:
    def __init__(self, directory, topics, failing=()):
        self.directory = directory
        self.traffic = []
        self.connections = 0
        self.ended = threading.Event()
        self.administrator = FakeAdministrator(self.ended, topics, failing)
        self.history = HistoryWriter(directory / "history", "run", "worker0")
        self.lifecycles = TopicLifecycles(
            TopicPlan(process=70, seed=3, partitions=[KEPT], stage_s=0.0, linger_s=0.0, drained_s=0.0, retry_s=0.0),
            self._connect,
            self._begin,
            Recorder(self.history, 0, "fake", -1),
            FakeTime().now,
            self.ended,
        )

    def _connect(self):
        self.connections += 1
        return self.administrator

    def _begin(self, partitions):
        self.traffic.append(FakeTraffic(partitions))
        return self.traffic[-1]

    def requests(self):
        self.history.close()
        return load_table(self.directory, "administration").table.to_pylist()


def test_topics_come_grow_move_and_go_and_all_of_it_is_written_down(tmp_path):
    bench = Bench(tmp_path, topics=20)
    bench.lifecycles.run()
    requests = bench.requests()

    created = [row["topic"] for row in requests if row["action"] == "create"]
    assert len(created) == len(set(created)) == 20
    assert all(topic.startswith(PREFIX) for topic in created)
    deleted = [row["topic"] for row in requests if row["action"] == "delete"]
    assert deleted == bench.administrator.deleted
    assert 5 < len(deleted) < 20, "some see the end of the run"
    moves = [row for row in requests if row["action"] == "reassign"]
    assert {row["topic"] for row in moves} > {KEPT.topic}
    assert all(len(set(json.loads(row["parameters"])["to"])) == 2 for row in moves)
    assert all((row["status"], row["process"]) == ("ok", 70) for row in requests)
    assert all(row["invoked_ns"] < row["completed_ns"] for row in requests)
    assert bench.administrator.closed


def test_every_partition_is_written_to_once_it_is_there(tmp_path):
    bench = Bench(tmp_path, topics=5)
    bench.lifecycles.run()
    bench.history.close()

    written = [partition for traffic in bench.traffic for partition in traffic.partitions]
    assert len(written) == len(set(written))
    there = {Partition(topic, each) for topic, count in bench.administrator.topics.items() for each in range(count)}
    assert set(written) == there
    assert all(traffic.steps == ["quiesced", "stopped"] for traffic in bench.traffic)


def test_what_was_not_answered_may_have_happened(tmp_path):
    bench = Bench(tmp_path, topics=8, failing=["delete", "add-partitions"])
    bench.lifecycles.run()

    unsure = [row for row in bench.requests() if row["action"] in ("delete", "add-partitions")]
    assert {row["status"] for row in unsure} == {"info"}
    assert {row["error"] for row in unsure} == {"RequestTimedOutError"}
    assert all(traffic.partitions[0].partition == 0 for traffic in bench.traffic)


def test_nothing_is_done_to_a_topic_that_may_not_be_there(tmp_path):
    bench = Bench(tmp_path, topics=3, failing=["create"])
    bench.lifecycles.run()

    assert [row["action"] for row in bench.requests()] == ["create"] * 3
    assert bench.traffic == []


def test_a_client_that_failed_is_replaced_after_a_rest(tmp_path):
    bench = Bench(tmp_path, topics=3, failing=["create"])
    bench.lifecycles.run()
    bench.history.close()
    assert bench.connections == 3

    calm = Bench(tmp_path / "calm", topics=3)
    calm.lifecycles.run()
    calm.history.close()
    assert calm.connections == 1


def test_a_library_that_does_not_administer_is_refused_in_one_line():
    class Plain:
        name = "plain"

    with pytest.raises(ClientMissingError, match="plain is not; use kafka-python"):
        admin_library(Plain())


def test_a_second_source_of_values_begins_behind_the_first():
    first, second = ValueSource(1), ValueSource(1, 100)
    assert set(first.take(100)).isdisjoint(second.take(100))
