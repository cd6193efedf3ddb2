"""Examples of the documents with real logs: the balanced recovery (§5.3.3), and divergence after hard failures."""

from __future__ import annotations

from broker.core.messages import FetchRequest
from broker.core.messages.errors import ErrorCode
from tests.support.cluster import TOPIC, Cluster


def sets_of(cluster: Cluster) -> tuple[object, ...]:
    view = cluster.view()
    return view["leader"], view["isr"], view["elr"], view["last_known_elr"]


def test_balanced_recovery_5_3_3() -> None:
    cluster = Cluster()
    cluster.create_topic()
    first = cluster.leader()
    second, third = (broker for broker in cluster.view()["replicas"] if broker != first)
    assert cluster.produce(first, *range(10)) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)

    # The power goes: 1 and 3 lose what they had, 2 does not. The controller fences one after the other.
    cluster.kill(first, lose_page_cache=True)
    cluster.run_until(lambda: sets_of(cluster) == (second, [second, third], [], []))
    cluster.kill(second)
    cluster.run_until(lambda: sets_of(cluster) == (third, [third], [second], []))
    cluster.kill(third, lose_page_cache=True)
    cluster.run_until(lambda: sets_of(cluster) == (-1, [], sorted([second, third]), []))

    cluster.start(first)
    cluster.run(1_000)
    assert sets_of(cluster) == (-1, [], sorted([second, third]), []), "it was no member of the ELR"
    cluster.start(second)
    cluster.run_until(lambda: sets_of(cluster) == (-1, [], [third], [second]))
    cluster.run(1_000)
    assert cluster.leader() == -1, "a member of the ELR may still come back with everything"
    cluster.start(third)
    cluster.run_until(lambda: cluster.leader() == second)
    cluster.run_until(cluster.is_whole)
    assert cluster.read(second) == list(range(10))


def test_logs_do_not_diverge_after_several_hard_failures() -> None:
    """KIP-101, second scenario: A holds m2 alone; after a power outage B leads, and takes m3 at the same offset."""
    cluster = Cluster(brokers=2, min_insync_replicas=1)
    cluster.create_topic(factor=2)
    a = cluster.leader()
    b = 3 - a
    assert cluster.produce(a, 1) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    cluster.held = lambda source, _, message: source == b and isinstance(message, FetchRequest) and of_topic(message)
    assert cluster.produce(a, 2, acks=1) == ErrorCode.NONE
    cluster.kill(a)
    cluster.held = None
    cluster.run_until(lambda: cluster.leader() == b)
    cluster.kill(b)
    cluster.run_until(lambda: cluster.leader() == -1)
    cluster.start(b)
    cluster.run_until(lambda: cluster.leader() == b)
    cluster.run_until(lambda: cluster.produce(b, 3) == ErrorCode.NONE)
    assert [record for record in cluster.read(b) if record != 3] == [1]
    cluster.start(a)
    cluster.run_until(cluster.is_whole)
    ends = {cluster.replica(broker)["log_end"] for broker in (a, b)}
    assert ends == {len(cluster.read(b))}
    assert cluster.replica(a)["epochs"] == cluster.replica(b)["epochs"], "m2 was cut, its epoch with it"


def of_topic(request: FetchRequest) -> bool:
    return any(part.topic == TOPIC for part in request.partitions)
