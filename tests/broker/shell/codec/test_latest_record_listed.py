"""ListOffsets for the record with the largest timestamp (KIP-734), from request bytes to response bytes."""

from __future__ import annotations

import pytest

from broker.core.messages import ListOffsetsPartition, ListOffsetsRequest, ProducePartition, ProduceRequest
from broker.core.messages.errors import ErrorCode
from broker.core.records import encode_batch
from broker.shell.codec.clients.lookups import LIST_OFFSETS
from tests.support.cluster import TOPIC, Cluster

MAX_TIMESTAMP = -3


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create_topic()
    for timestamp in (1000, 9000, 9000, 3000):
        batch = encode_batch([(None, bytes(8))], 0, 0, timestamp)
        asked = cluster.ask(cluster.leader(), ProduceRequest(-1, 2000, (ProducePartition(TOPIC, 0, batch),)))
        cluster.run_until(lambda asked=asked: cluster.error_of(asked) == ErrorCode.NONE)
    return cluster


def listed(cluster: Cluster, version: int) -> tuple[int, int, int, int]:
    """(error, timestamp, offset, leader epoch), all over the wire."""
    wire = b"".join(
        LIST_OFFSETS.encode_request(ListOffsetsRequest((ListOffsetsPartition(TOPIC, 0, MAX_TIMESTAMP),)), version)
    )
    asked = cluster.ask(cluster.leader(), LIST_OFFSETS.decode_request(wire, 0, version), version)
    cluster.run_until(lambda: asked in cluster.answers)
    wire = b"".join(LIST_OFFSETS.encode_response(cluster.answers[asked], version))
    (answer,) = LIST_OFFSETS.decode_response(wire, 0, version).partitions
    return answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch


@pytest.mark.parametrize("version", range(7, 12))
def test_the_first_record_with_the_largest_timestamp_is_returned(cluster: Cluster, version: int) -> None:
    epoch = cluster.replica(cluster.leader())["leader_epoch"]
    assert listed(cluster, version) == (ErrorCode.NONE, 9000, 1, epoch)


def test_versions_before_it_was_invented_do_not_know_it(cluster: Cluster) -> None:
    assert listed(cluster, 6)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_uncommitted_records_are_not_returned() -> None:
    cluster = Cluster()
    cluster.create_topic()
    leader = cluster.leader()
    assert listed(cluster, 7) == (ErrorCode.NONE, -1, -1, -1)
    cluster.isolate(leader)
    assert cluster.produce(leader, 1, acks=1) == ErrorCode.NONE
    assert listed(cluster, 7) == (ErrorCode.NONE, -1, -1, -1)
    cluster.heal()
    cluster.run_until(cluster.is_whole)
