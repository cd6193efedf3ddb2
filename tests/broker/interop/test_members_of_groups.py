"""Members of a consumer group as the workload `groups` drives them, against a real cluster."""

import importlib.util
import itertools
import threading
import time
from contextlib import ExitStack, suppress

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from tests.support.local_cluster import eventually
from tests.support.quick import first_quick
from workloads.clients import client_named
from workloads.clients.base import ClientError, ClientMissingError, ClientSettings, Partition
from workloads.clients.optional_interfaces import Assigned, Membership, Revoked, group_library

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

PATIENCE_S = 40.0
MODULES = {"kafka-python": "kafka", "aiokafka": "aiokafka", "confluent-kafka": "confluent_kafka"}
TELLS_ITS_COORDINATOR = {"kafka-python", "aiokafka"}
_NUMBERS = itertools.count()


class Owner:
    """Polls on a thread of its own, for a member must not pause, and knows what is its own."""

    def __init__(self, cluster, client, topic, assignor="eager", instance=None):
        library = group_library(client_named(client), assignor)
        membership = Membership(f"of-{topic}", (topic,), 6_000, assignor=assignor, instance=instance)
        self.client = client
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
                with suppress(ClientError):
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
def topic(cluster):
    """A topic of the test's own, with two partitions."""
    name = f"shared-{next(_NUMBERS)}"
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics([NewTopic(name, 2, 3)])
    admin.close()
    return name


def need(*clients):
    for client in clients:
        if importlib.util.find_spec(MODULES[client]) is None:
            pytest.skip(f"{client} is not installed: pip install harrow[clients]")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clients", "assignor"),
    [
        (("kafka-python", "kafka-python"), "eager"),
        (("aiokafka", "kafka-python"), "eager"),
        (("confluent-kafka", "aiokafka"), "eager"),
        (("kafka-python", "confluent-kafka"), "eager"),
        (("kafka-python", "confluent-kafka"), "cooperative"),
        (("confluent-kafka", "confluent-kafka"), "cooperative"),
        (("kafka-python", "kafka-python"), "cooperative"),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(value),
)
def test_members_share_commit_and_take_over_from_one_that_is_gone(cluster, topic, clients, assignor):
    need(*clients)
    partitions = frozenset({Partition(topic, 0), Partition(topic, 1)})
    with ExitStack() as ends:
        first, second = (Owner(cluster, client, topic, assignor) for client in clients)
        ends.callback(first.end)
        ends.callback(second.end)
        owners = (first, second)

        def shared():
            whole = all(each.owned for each in owners) and first.owned | second.owned == partitions
            # a second rebalance may follow the first at once: a member that has not heard of it still owns its part
            return whole and (assignor != "eager" or first.newest().generation == second.newest().generation)

        eventually(
            shared, PATIENCE_S, "two members share two partitions, in one generation if all of it is assigned anew"
        )
        assert not first.owned & second.owned
        assert first.newest().member != second.newest().member

        own, others = dict.fromkeys(first.owned, 5), dict.fromkeys(second.owned, 7)
        end = first.commit(own)
        assert (end.status, end.member) == ("ok", first.newest().member)
        assert end.generation >= first.newest().generation
        assert (end.node in cluster.addresses) == (first.client in TELLS_ITS_COORDINATOR)
        told = end.node if first.client in TELLS_ITS_COORDINATOR else second.committed(min(own)).node
        assert second.committed(min(own)) == (5, told if second.client in TELLS_ITS_COORDINATOR else None)
        assert second.committed(min(others)).offset is None

        first.end()
        first.member.crash()
        eventually(lambda: second.owned == partitions, PATIENCE_S, "the other member has everything")
        assert second.commit(others).status == "ok"
        kinds = [type(change) for change in second.changes[-2:]]
        assert kinds[-1] is Assigned
        assert kinds == [Revoked, Assigned] or assignor == "cooperative"
        second.end()
        second.member.leave()


@pytest.mark.slow
@pytest.mark.parametrize("client", first_quick(MODULES))
def test_a_static_member_comes_back_as_the_one_before(cluster, topic, client):
    """KIP-345: its partitions stay its own, in the same generation, while it is away; a dynamic one is another."""
    need(client)
    with ExitStack() as ends:
        first = Owner(cluster, client, topic, instance="i-1")
        ends.callback(first.end)
        eventually(lambda: len(first.owned) == 2, PATIENCE_S, "the only member has everything")
        first.end()
        first.member.crash()
        again = Owner(cluster, client, topic, instance="i-1")
        ends.callback(again.end)
        eventually(lambda: len(again.owned) == 2, PATIENCE_S, "the member that came back has everything")
        assert again.newest().generation == first.newest().generation
        again.end()
        again.member.leave()
        dynamic = Owner(cluster, client, topic)
        ends.callback(dynamic.end)
        eventually(lambda: len(dynamic.owned) == 2, PATIENCE_S, "the session of the static member ended")
        assert dynamic.newest().generation > again.newest().generation
        dynamic.end()
        dynamic.member.leave()


def test_a_library_without_the_assignor_is_refused_in_one_line():
    need("aiokafka")
    with pytest.raises(ClientMissingError, match="expected one that aiokafka supports, found cooperative; it supports"):
        group_library(client_named("aiokafka"), "cooperative")
