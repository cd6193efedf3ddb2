"""Compacted topics in a deterministic cluster: each replica compacts its own log, and all serve the same values."""

from __future__ import annotations

import random
from base64 import b64decode

import pytest

from broker.core.broker_node.compaction import COMPACTED
from broker.core.messages import (
    ConfigOperation,
    ConfigResource,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DescribeConfigsRequest,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    IncrementalAlterConfigsRequest,
    ProducePartition,
    ProduceRequest,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import Effect
from broker.core.records import decode_records, encode_batch, iterate_headers
from tests.support.cluster import TOPIC, Cluster, Machine

BACKOFF_MS = 50
TOPIC_SETTINGS = {"cleanup_policy": "compact", "segment_bytes": "400", "delete_retention_ms": "500"}


class MarkingCluster(Cluster):
    """Counts the compactions of each broker that removed something."""

    def __init__(self, **settings: object) -> None:
        self.compactions: dict[int, int] = {}
        super().__init__(log_cleaner_backoff_ms=BACKOFF_MS, wall_clock_ms=1_800_000_000_000, **settings)

    def _carry_out(self, number: int, machine: Machine, effect: Effect) -> None:
        if effect == COMPACTED:
            self.compactions[number] = self.compactions.get(number, 0) + 1
        super()._carry_out(number, machine, effect)


def cluster_of(**configs: str) -> MarkingCluster:
    cluster = MarkingCluster()
    cluster.create_topic(**{**TOPIC_SETTINGS, **configs})
    return cluster


def write(cluster: Cluster, *records: tuple[bytes | None, bytes | None]) -> int:
    batch = encode_batch(records, 0, 0, cluster.now_ms + cluster.wall_clock_ahead_ms)
    asked = cluster.ask(cluster.leader(), ProduceRequest(-1, 2000, (ProducePartition(TOPIC, 0, batch),)))
    cluster.run_until(lambda: cluster.error_of(asked) is not None)
    error = cluster.error_of(asked)
    assert error is not None
    return error


def values_of(cluster: Cluster, number: int) -> tuple[dict[bytes, bytes], int]:
    """What a consumer that reads everything ends up with, and how many records it has read."""
    values: dict[bytes, bytes] = {}
    offset = read = 0
    while True:
        part = FetchPartition(TOPIC, 0, offset, 500)
        answer = cluster.call(number, FetchRequest((part,), max_wait_ms=10))
        assert isinstance(answer, FetchResponse)
        assert answer.partitions[0].error_code == ErrorCode.NONE
        batches = answer.partitions[0].records
        if not batches:
            return values, read
        for position, header in iterate_headers(batches):
            for record in decode_records(batches, position):
                if record.value is None:
                    values.pop(record.key or b"", None)
                else:
                    values[record.key or b""] = record.value
                read += 1
            offset = header.last_offset + 1


def values_on(cluster: Cluster, number: int) -> tuple[dict[bytes, bytes], int]:
    """The same from the log of any replica."""
    values: dict[bytes, bytes] = {}
    records = cluster.machines[number].node.read_log(TOPIC, 0, 0, 10_000)["records"]  # type: ignore[union-attr]
    for _, _, _, key, value, _ in records:  # type: ignore[attr-defined]
        if value is None:
            values.pop(b64decode(key), None)
        else:
            values[b64decode(key)] = b64decode(value)
    return values, len(records)  # type: ignore[arg-type]


def write_many(cluster: Cluster, seed: int, count: int, values: dict[bytes, bytes]) -> None:
    draw = random.Random(seed)
    for number in range(count):
        key = b"key-%d" % draw.randrange(5)
        value = None if draw.random() < 0.2 else b"%d" % number
        assert write(cluster, (key, value)) == ErrorCode.NONE
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value


def sizes(cluster: Cluster) -> dict[int, int]:
    return {
        number: sum(
            cluster.machines[number].files.size(f"{TOPIC}-0/{name}")
            for name in cluster.machines[number].files.list(f"{TOPIC}-0")
            if name.endswith(".log")
        )
        for number in (1, 2, 3)
    }


def test_every_replica_compacts_its_log_and_serves_the_last_values_through_restarts_and_elections() -> None:
    cluster = cluster_of()
    values: dict[bytes, bytes] = {}
    for number in (1, 2, 3):
        write_many(cluster, number, 100, values)
        cluster.run(20 * BACKOFF_MS)
        cluster.kill(number, lose_page_cache=number == 2)
        cluster.run(1500)
        cluster.start(number)
        cluster.run_until(cluster.is_whole)
    cluster.run(20 * BACKOFF_MS)
    assert cluster.compactions.keys() == {1, 2, 3}
    assert max(sizes(cluster).values()) < 3000, "300 batches of 70 bytes and more were written"
    assert values_of(cluster, cluster.leader())[0] == values
    for number in (1, 2, 3):
        found, records = values_on(cluster, number)
        assert found == values
        assert records < 40
    assert len({cluster.replica(number)["log_end"] for number in (1, 2, 3)}) == 1


def test_a_replica_that_lost_its_disk_takes_over_the_compacted_log() -> None:
    cluster = cluster_of()
    values: dict[bytes, bytes] = {}
    write_many(cluster, 4, 120, values)
    cluster.run(40 * BACKOFF_MS)
    follower = next(number for number in (1, 2, 3) if number != cluster.leader())
    cluster.kill(follower)
    for name in list(cluster.machines[follower].files.list("")):
        cluster.machines[follower].files.delete(name)
    cluster.start(follower)
    cluster.run_until(cluster.is_whole)
    leader = cluster.leader()
    assert cluster.replica(follower)["log_end"] == cluster.replica(leader)["log_end"]
    assert cluster.replica(follower)["epochs"] == cluster.replica(leader)["epochs"]
    found, records = values_on(cluster, follower)
    assert found == values
    assert records < 40


def test_tombstones_go_after_their_time() -> None:
    cluster = cluster_of()
    for number in range(20):
        assert write(cluster, (b"gone", b"%d" % number)) == ErrorCode.NONE
    assert write(cluster, (b"gone", None)) == ErrorCode.NONE
    for number in range(20):
        assert write(cluster, (b"kept", b"%d" % number)) == ErrorCode.NONE
    cluster.run(4 * BACKOFF_MS)
    assert values_of(cluster, cluster.leader())[1] > 1
    cluster.run(600)
    for number in range(20):
        assert write(cluster, (b"kept", b"%d" % number)) == ErrorCode.NONE
    cluster.run(10 * BACKOFF_MS)
    log = cluster.machines[cluster.leader()].node.read_log(TOPIC, 0, 0, 10_000)  # type: ignore[union-attr]
    assert {record[3] for record in log["records"]} == {"a2VwdA=="}, "only the key that is kept is there"


def test_an_answer_names_the_records_without_a_key() -> None:
    cluster = cluster_of()
    data = encode_batch([(b"a", b"1"), (None, b"2"), (b"b", b"3"), (None, b"4")], 0, 0, cluster.now_ms)
    answer = cluster.call(cluster.leader(), ProduceRequest(-1, 2000, (ProducePartition(TOPIC, 0, data),)))
    (part,) = answer.partitions  # type: ignore[union-attr]
    assert part.error_code == ErrorCode.INVALID_RECORD  # type: ignore[union-attr]
    assert [place for place, _ in part.record_errors] == [1, 3]  # type: ignore[union-attr]


def test_records_without_a_key_are_refused_in_a_compacted_topic_only() -> None:
    cluster = cluster_of()
    assert write(cluster, (b"a", b"1"), (None, b"2")) == ErrorCode.INVALID_RECORD
    assert write(cluster, (b"a", b"1")) == ErrorCode.NONE
    altered = ConfigResource(2, TOPIC, (ConfigOperation("cleanup.policy", 0, "delete"),))
    cluster.call(1, IncrementalAlterConfigsRequest((altered,)))
    cluster.run(500)
    assert write(cluster, (None, b"2")) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("policy", "error"),
    [("compact", ErrorCode.POLICY_VIOLATION), ("compact,delete", ErrorCode.NONE), ("delete", ErrorCode.NONE)],
)
def test_records_are_deleted_on_request_only_where_the_policy_has_delete(policy: str, error: ErrorCode) -> None:
    cluster = cluster_of(cleanup_policy=policy)
    write(cluster, (b"a", b"1"))
    request = DeleteRecordsRequest((DeleteRecordsPartition(TOPIC, 0, 1),))
    answer = cluster.call(cluster.leader(), request)
    assert answer.partitions[0].error_code == error  # type: ignore[union-attr]


def test_the_settings_of_a_compacted_topic_are_described_and_refused_if_wrong() -> None:
    cluster = cluster_of()
    answer = cluster.call(1, DescribeConfigsRequest(((2, TOPIC, None),)))
    found = {config.name: config.value for config in answer.results[0].configs}  # type: ignore[union-attr]
    assert (found["cleanup.policy"], found["delete.retention.ms"]) == ("compact", "500")
    assert (found["min.cleanable.dirty.ratio"], found["min.compaction.lag.ms"]) == ("0.5", "0")
    for key, value in (
        ("cleanup.policy", "shrink"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("delete.retention.ms", "-1"),
    ):
        request = IncrementalAlterConfigsRequest((ConfigResource(2, TOPIC, (ConfigOperation(key, 0, value),)),))
        assert cluster.call(1, request).results[0].error_code == ErrorCode.INVALID_CONFIG  # type: ignore[union-attr]


def test_young_records_are_not_compacted() -> None:
    cluster = cluster_of(min_compaction_lag_ms="60000")
    write_many(cluster, 4, 60, {})
    cluster.run(20 * BACKOFF_MS)
    assert not cluster.compactions


def test_an_old_record_is_compacted_whatever_the_share() -> None:
    """`max.compaction.lag.ms` also bounds how old a segment becomes before another begins."""
    cluster = cluster_of(segment_bytes="100000", min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms="3000")
    values: dict[bytes, bytes] = {}
    write_many(cluster, 1, 20, values)
    cluster.run(10 * BACKOFF_MS)
    assert not cluster.compactions, "nothing is old enough"
    cluster.run(4_000)
    write_many(cluster, 2, 1, values)
    cluster.run_until(lambda: set(cluster.compactions) == {1, 2, 3})
    assert values_of(cluster, cluster.leader())[0] == values
