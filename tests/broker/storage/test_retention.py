"""Records older than `retention.ms` are deleted, on leader and followers; others stay (LO-3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.broker_node import replication
from broker.core.broker_node.requests.deletion import FOR_EVER, retention
from broker.core.configuration.settings import Settings
from broker.core.log import checkpoints
from broker.core.messages import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ListedOffset,
    Listener,
    ListOffsetsPartition,
    ListOffsetsResponse,
    ProducePartition,
    ProduceRequest,
)
from broker.core.messages.errors import ErrorCode
from broker.core.records import encode_batch
from tests.support.cluster import CONTROLLER, TOPIC, Cluster

NOW_MS = 1_800_000_000_000
"""A time of day that is far from the monotonic clock."""
CHECK_MS = 300


def cluster_of(configs: dict[str, str] | None = None, **settings: object) -> Cluster:
    """Three batches of one record fill a segment."""
    cluster = Cluster(wall_clock_ms=NOW_MS, log_segment_bytes=250, log_retention_check_interval_ms=CHECK_MS, **settings)
    cluster.create_topic(**(configs or {}))
    return cluster


def write(cluster: Cluster, *ages_ms: int, leader: int = 0, acks: int = -1) -> None:
    """One batch of one record each, of the given ages."""
    for age_ms in ages_ms:
        batch = encode_batch([(None, bytes(8))], 0, 0, NOW_MS + cluster.now_ms - age_ms)
        request = ProduceRequest(acks, 2000, (ProducePartition(TOPIC, 0, batch),))
        asked = cluster.ask(leader or cluster.leader(), request)
        cluster.run_until(lambda asked=asked: cluster.error_of(asked) is not None)
        assert cluster.error_of(asked) == ErrorCode.NONE


def starts(cluster: Cluster) -> set[int]:
    return {cluster.replica(number)["log_start"] for number in (1, 2, 3)}


@pytest.mark.parametrize(
    ("node_ms", "topic", "kept_from"),
    [
        (60_000, {}, 3),
        (-1, {}, 0),
        (-1, {"retention_ms": "60000"}, 3),
        (60_000, {"retention_ms": "-1"}, 0),
        (60_000, {"retention_ms": "120000"}, 0),
    ],
)
def test_what_is_older_than_the_topic_or_else_the_node_says_goes(
    node_ms: int, topic: dict[str, str], kept_from: int
) -> None:
    cluster = cluster_of(topic, log_retention_ms=node_ms)
    write(cluster, 90_000, 90_000, 90_000, 90_000, 10_000, 90_000, 10_000)
    cluster.run(2 * CHECK_MS)
    assert starts(cluster) == {kept_from}
    assert len(cluster.read(cluster.leader(), kept_from)) > 0


@pytest.mark.parametrize(
    ("node_bytes", "topic", "kept_from"),
    [
        (300, {}, 6),
        (-1, {}, 0),
        (-1, {"retention_bytes": "300"}, 6),
        (300, {"retention_bytes": "-1"}, 0),
        (-1, {"retention_bytes": "500"}, 3),
        (-1, {"retention_bytes": "0"}, 6),
    ],
)
def test_whole_segments_go_until_the_log_is_no_larger_than_the_topic_or_else_the_node_says(
    node_bytes: int, topic: dict[str, str], kept_from: int
) -> None:
    cluster = cluster_of(topic, log_retention_bytes=node_bytes)
    write(cluster, *[0] * 7)
    cluster.run_until(cluster.is_whole)
    cluster.run(2 * CHECK_MS)
    assert starts(cluster) == {kept_from}


def test_what_was_deleted_on_request_does_not_count_against_what_is_kept() -> None:
    """The segment was the last one when its records were deleted; so it was still there."""
    cluster = cluster_of({"retention_bytes": "500"})
    write(cluster, 0, 0, 0)
    cluster.run_until(cluster.is_whole)
    cluster.call(cluster.leader(), DeleteRecordsRequest((DeleteRecordsPartition(TOPIC, 0, 3),), 1_000))
    write(cluster, 0, 0, 0, 0)
    cluster.run_until(cluster.is_whole)
    cluster.run(2 * CHECK_MS)
    assert starts(cluster) == {3}


def test_a_follower_deletes_nothing_by_a_clock_of_its_own() -> None:
    cluster = cluster_of({"retention_ms": "60000"})
    write(cluster, 0, 0, 0, 0)
    follower = next(number for number in (1, 2, 3) if number != cluster.leader())
    cluster.kill(follower)
    cluster.wall_clock_ahead_ms += 120_000
    cluster.start(follower)
    cluster.wall_clock_ahead_ms -= 120_000
    cluster.run_until(cluster.is_whole)
    cluster.run(2 * CHECK_MS)
    assert starts(cluster) == {0}


def test_records_expire_while_the_node_runs_and_the_log_continues() -> None:
    cluster = cluster_of({"retention_ms": "2000"})
    write(cluster, 0, 0, 0, 0)
    cluster.run(2 * CHECK_MS)
    assert starts(cluster) == {0}
    cluster.run(2000)
    assert starts(cluster) == {4}
    write(cluster, 0)
    assert cluster.replica(cluster.leader())["log_end"] == 5


def test_the_new_start_is_the_one_after_a_power_failure() -> None:
    cluster = cluster_of({"retention_ms": "60000"}, high_watermark_checkpoint_interval_ms=100)
    write(cluster, 90_000, 90_000, 90_000, 10_000)
    cluster.run_until(lambda: starts(cluster) == {3})
    cluster.run(200)
    follower = next(number for number in (1, 2, 3) if number != cluster.leader())
    cluster.kill(follower, lose_page_cache=True)
    cluster.start(follower)
    assert cluster.replica(follower)["log_start"] == 3
    cluster.run_until(cluster.is_whole)


def test_tr_4_a_log_that_restarts_below_its_start_does_so_after_a_crash_too() -> None:
    cluster = cluster_of(high_watermark_checkpoint_interval_ms=100)
    write(cluster, 0, 0, 0, 0)
    cluster.call(cluster.leader(), DeleteRecordsRequest((DeleteRecordsPartition(TOPIC, 0, 3),)))
    cluster.run_until(lambda: starts(cluster) == {3})
    cluster.run(200)
    follower = next(number for number in (1, 2, 3) if number != cluster.leader())
    machine = cluster.machines[follower]
    shorter = ListOffsetsResponse((ListedOffset(TOPIC, 0, ErrorCode.NONE, -1, 1),))
    replica = machine.node.state.replicas[TOPIC, 0]
    asked = ListOffsetsPartition(TOPIC, 0, -1, replica.leader_epoch)
    replication.leader_end_known(machine.node.state, asked, replica.topic_id, shorter)
    assert (cluster.replica(follower)["log_start"], cluster.replica(follower)["log_end"]) == (1, 1)
    cluster.kill(follower)
    cluster.start(follower)
    assert cluster.replica(follower)["log_start"] == 1


def test_a_log_that_keeps_its_start_writes_no_checkpoint_before_its_time() -> None:
    cluster = cluster_of(high_watermark_checkpoint_interval_ms=100_000)
    write(cluster, 0, 0, 0, 0)
    cluster.run_until(cluster.is_whole)
    written = [machine.files.size(checkpoints.LOG_START) for machine in cluster.machines.values()]
    assert written == [0] * len(cluster.machines)


def test_nothing_goes_that_is_not_committed() -> None:
    cluster = cluster_of({"retention_ms": "60000"})
    leader = cluster.leader()
    write(cluster, 90_000, 90_000, 90_000)
    cluster.run_until(cluster.is_whole)
    cluster.isolate(leader)
    write(cluster, 90_000, 90_000, 90_000, leader=leader, acks=1)
    cluster.run(2 * CHECK_MS)
    replica = cluster.replica(leader)
    assert (replica["role"], replica["log_start"], replica["log_end"]) == ("leader", 3, 6)


def test_a_start_under_a_wrong_clock_counts_from_that_clock() -> None:
    cluster = cluster_of({"retention_ms": "60000"})
    write(cluster, 10_000, 10_000, 10_000, 10_000)
    cluster.wall_clock_ahead_ms += 60_000
    cluster.run(2 * CHECK_MS)
    assert starts(cluster) == {0}, "a clock that is set while the nodes live deletes nothing"
    for number in (1, 2, 3):
        cluster.kill(number)
    for number in (1, 2, 3):
        cluster.start(number)
    cluster.run_until(cluster.is_whole)
    cluster.run(2 * CHECK_MS)
    assert starts(cluster) == {4}


@pytest.mark.parametrize(("allowed_bytes", "kept_from"), [("400", 3), ("250", 6), ("-1", 0)])
def test_the_oldest_segments_of_a_log_that_is_larger_than_the_topic_allows_go(
    allowed_bytes: str, kept_from: int
) -> None:
    cluster = cluster_of({"retention_bytes": allowed_bytes})
    write(cluster, 0, 0, 0, 0, 0, 0, 0, 0)
    cluster.run(2 * CHECK_MS)
    assert starts(cluster) == {kept_from}


def follower_of(cluster: Cluster) -> int:
    return next(number for number in (1, 2, 3) if number != cluster.leader())


def test_a_follower_deletes_what_its_leader_does_and_nothing_by_a_clock_of_its_own() -> None:
    cluster = cluster_of({"retention_ms": "60000"})
    write(cluster, 10_000, 10_000, 10_000, 10_000)
    follower = follower_of(cluster)
    cluster.kill(follower)
    cluster.wall_clock_ahead_ms += 60_000
    cluster.start(follower)
    cluster.run_until(cluster.is_whole)
    cluster.run(2 * CHECK_MS)
    assert starts(cluster) == {0}


def test_a_follower_whose_place_was_deleted_goes_on_at_the_log_start_without_delay() -> None:
    """TR-8: a back-off, which is for errors, would let retention run away from it."""
    cluster = cluster_of({"retention_bytes": "300"})
    follower = follower_of(cluster)
    cluster.kill(follower)
    machine = cluster.machines[follower]
    machine.settings = replace(machine.settings, replica_fetch_backoff_ms=5_000)
    cluster.run_until(lambda: len(cluster.view()["isr"]) == 2)  # type: ignore[arg-type]
    write(cluster, *[0] * 7)
    cluster.run_until(lambda: cluster.replica(cluster.leader())["log_start"] == 6)
    cluster.start(follower)
    cluster.run_until(lambda: any("restarts at 6" in note for note in machine.notes))
    cluster.run_until(cluster.is_whole, 1_000)
    assert starts(cluster) == {6}


def test_a_follower_whose_place_was_deleted_does_not_wait_for_what_its_leader_has_no_news_of() -> None:
    """TR-8: a fetch of the other partitions would be held, and retention would run away from this one meanwhile."""
    cluster = Cluster(log_segment_bytes=250, log_retention_check_interval_ms=CHECK_MS, log_retention_bytes=300)
    cluster.create_topic(4)
    leader = cluster.leader()
    assert cluster.leader(3) == leader, "it leads a partition in which nothing happens"
    follower = follower_of(cluster)
    cluster.kill(follower)
    machine = cluster.machines[follower]
    machine.settings = replace(machine.settings, replica_fetch_wait_max_ms=5_000)
    cluster.run_until(lambda: len(cluster.view()["isr"]) == 2)  # type: ignore[arg-type]
    write(cluster, *[0] * 7)
    cluster.run_until(lambda: cluster.replica(leader)["log_start"] == 6)
    cluster.start(follower)
    cluster.run_until(lambda: any("restarts at 6" in note for note in machine.notes))
    cluster.run_until(lambda: cluster.replica(follower)["log_end"] == 7, 1_000)
    assert cluster.replica(follower)["log_start"] == 6


def test_a_broker_that_knows_of_no_topics_yet_deletes_nothing() -> None:
    cluster = cluster_of({"retention_ms": "60000"})
    write(cluster, 90_000, 90_000, 90_000, 10_000)
    follower = follower_of(cluster)
    for number in (follower, CONTROLLER):
        cluster.kill(number)
    cluster.start(follower)
    begun = cluster.replica(follower)["log_start"]
    cluster.run(2 * CHECK_MS)
    assert cluster.replica(follower)["log_start"] == begun
    cluster.start(CONTROLLER)
    cluster.run_until(lambda: starts(cluster) == {3})


def test_committed_offsets_are_kept_for_ever() -> None:
    settings = Settings(node_id=1, voters={100: ("c", 1)}, listeners=(Listener("CLIENT", "b", 1),), log_dirs=("/",))
    assert retention(settings, "__consumer_offsets", {}) == (FOR_EVER, FOR_EVER)
    assert retention(settings, TOPIC, {}) == (7 * 24 * 3_600_000, FOR_EVER)


def test_the_settings_in_force_are_described() -> None:
    cluster = cluster_of({"retention_bytes": "4000"}, log_retention_ms=60_000)
    asked = (2, TOPIC, ("retention.ms", "retention.bytes"))
    response = cluster.call(1, DescribeConfigsRequest((asked,)))
    assert isinstance(response, DescribeConfigsResponse)
    described = {config.name: config.value for config in response.results[0].configs}
    assert described == {"retention.ms": "60000", "retention.bytes": "4000"}
