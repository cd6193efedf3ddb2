"""Members of a consumer group as the workload `groups` drives them, against a real cluster."""

import threading
import time
from contextlib import ExitStack

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from tests.support.local_cluster import eventually
from workloads.clients import client_named
from workloads.clients.base import ClientSettings, Partition
from workloads.clients.optional_interfaces import Assigned, Membership, Revoked, group_library

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

TOPIC = "shared"
PARTITIONS = frozenset({Partition(TOPIC, 0), Partition(TOPIC, 1)})
PATIENCE_S = 40.0


class Owner:
    """Polls on a thread of its own, for a member must not pause, and knows what is its own."""

    def __init__(self, cluster):
        library = group_library(client_named("kafka-python"))
        membership = Membership("members", (TOPIC,), session_timeout_ms=6_000)
        self.member = library.member(ClientSettings(tuple(cluster.bootstrap)), membership, time.monotonic_ns)
        self.owned = frozenset()
        self.changes = []
        self.turn = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self):
        while not self._done.wait(0.01):
            with self.turn:
                self.member.poll(0.1)
                for change in self.member.changes():
                    self.changes.append(change)
                    self.owned = change.partitions if isinstance(change, Assigned) else self.owned - change.partitions

    def newest(self):
        return next(each for each in reversed(self.changes) if isinstance(each, Assigned))

    def commit(self, offsets):
        with self.turn:
            return self.member.commit(offsets, 5.0)

    def committed(self, partition):
        with self.turn:
            return self.member.committed(partition, 5.0)

    def end(self):
        self._done.set()
        self._thread.join()


@pytest.fixture
def owners(cluster):
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics([NewTopic(TOPIC, 2, 3)])
    admin.close()
    with ExitStack() as ends:
        pair = [Owner(cluster), Owner(cluster)]
        for owner in pair:
            ends.callback(owner.end)
        yield pair


def test_members_share_commit_and_take_over_from_one_that_crashed(cluster, owners):
    first, second = owners

    def shared():
        return all(each.owned for each in owners) and first.owned | second.owned == PARTITIONS

    eventually(shared, PATIENCE_S, "two members share two partitions")
    assert first.newest().generation == second.newest().generation
    assert first.newest().member != second.newest().member

    own, others = dict.fromkeys(first.owned, 5), dict.fromkeys(second.owned, 7)
    end = first.commit(own)
    assert (end.status, end.member, end.generation) == ("ok", first.newest().member, first.newest().generation)
    assert end.node in cluster.addresses
    assert second.committed(min(own)) == (5, end.node)
    assert second.committed(min(others)) == (None, end.node)

    first.end()
    first.member.crash()
    eventually(lambda: second.owned == PARTITIONS, PATIENCE_S, "the other member has everything")
    assert second.commit(others).status == "ok"
    assert [type(change) for change in second.changes[-2:]] == [Revoked, Assigned]
    second.end()
    second.member.leave()
