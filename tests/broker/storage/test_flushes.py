"""What the broker has synced by itself, and what a power failure leaves of it."""

from __future__ import annotations

from broker.core.messages.errors import ErrorCode
from tests.support.cluster import Cluster


def bases(cluster, number):
    return cluster.machines[number].node.state.replicas["log", 0].log.segment_offsets


def fill_segments(cluster):
    """Produce until there are three segments; returns where the last begins."""
    for value in range(20):
        assert cluster.produce(1, value) == ErrorCode.NONE
    assert len(bases(cluster, 1)) >= 3
    return bases(cluster, 1)[-1]


def test_leader_and_followers_flush_the_segments_that_were_rolled_and_only_those():
    cluster = Cluster(log_segment_bytes=500)
    cluster.create_topic()
    rolled_to = fill_segments(cluster)
    cluster.run(500)
    assert rolled_to < cluster.replica(1)["log_end"]
    assert [cluster.replica(number)["flushed"] for number in (1, 2, 3)] == [rolled_to] * 3


def test_a_power_failure_leaves_the_segments_that_were_rolled():
    cluster = Cluster(1, log_segment_bytes=500, min_insync_replicas=1)
    cluster.create_topic(factor=1)
    rolled_to = fill_segments(cluster)
    cluster.run(500)
    cluster.kill(1, lose_page_cache=True)
    cluster.start(1)
    assert cluster.replica(1)["log_end"] == rolled_to


def test_a_segment_that_is_rolled_while_another_is_flushed_is_flushed_after_it():
    cluster = Cluster(1, log_segment_bytes=500, min_insync_replicas=1)
    cluster.create_topic(factor=1)
    asked = [cluster.send(1, value) for value in range(20)]
    assert all(cluster.error_of(one) == ErrorCode.NONE for one in asked)  # before any flush could end
    assert cluster.replica(1)["flushed"] == 0
    cluster.run(500)
    assert cluster.replica(1)["flushed"] == bases(cluster, 1)[-1] > bases(cluster, 1)[1]
