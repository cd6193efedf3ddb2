"""All replicas expire the state of idle idempotent producers, and only of idle ones (KIP-98)."""

from __future__ import annotations

from broker.core.messages import ProducePartition, ProduceRequest
from broker.core.messages.errors import ErrorCode
from broker.core.records import encode_batch
from tests.support.cluster import TOPIC, Cluster

EXPIRATION_MS = 2000
CHECK_MS = 200
IDLE, BUSY = 7, 8


def new_cluster() -> Cluster:
    cluster = Cluster(
        producer_id_expiration_ms=EXPIRATION_MS, producer_id_expiration_check_interval_ms=CHECK_MS, wall_clock_ms=10**12
    )
    cluster.create_topic()
    return cluster


def write(cluster: Cluster, producer: int, sequence: int) -> int | None:
    """The response to a batch of one record whose own timestamp is of 1970."""
    batch = encode_batch([(None, bytes(8))], 0, 0, 0, producer, 0, sequence)
    asked = cluster.ask(cluster.leader(), ProduceRequest(-1, 2000, (ProducePartition(TOPIC, 0, batch),)))
    cluster.run_until(lambda: cluster.error_of(asked) is not None)
    return cluster.error_of(asked)


def known(cluster: Cluster) -> list[list[int]]:
    """The producers that each broker has state of."""
    states = [cluster.machines[number].node.state for number in (1, 2, 3)]  # type: ignore[union-attr]
    return [sorted(state.replicas[TOPIC, 0].log.producers.states) for state in states]


def test_only_the_idle_producer_is_forgotten_and_not_before_its_time() -> None:
    cluster = new_cluster()
    assert write(cluster, IDLE, 0) == ErrorCode.NONE
    began_ms = cluster.now_ms
    for sequence in range(EXPIRATION_MS // 100 - 1):
        assert write(cluster, BUSY, sequence) == ErrorCode.NONE
        cluster.run(began_ms + 100 * (sequence + 1) - cluster.now_ms)
    assert known(cluster) == [[IDLE, BUSY]] * 3
    assert write(cluster, IDLE, 5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    cluster.run(100 + 2 * CHECK_MS)
    assert known(cluster) == [[BUSY]] * 3
    assert write(cluster, IDLE, 5) == ErrorCode.NONE
    assert write(cluster, BUSY, 0) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def test_a_batch_that_replaces_one_of_the_same_offset_is_not_taken_for_as_old() -> None:
    cluster = new_cluster()
    assert write(cluster, IDLE, 0) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    cluster.run(EXPIRATION_MS - CHECK_MS)
    follower = next(number for number in (1, 2, 3) if number != cluster.leader())
    log = cluster.machines[follower].node.state.replicas[TOPIC, 0].log  # type: ignore[union-attr]
    again = log.read(0, 1_000, log.end_offset)
    log.truncate_to(0)
    log.append_as_follower(again, 100)
    cluster.run(EXPIRATION_MS - 2 * CHECK_MS)
    assert known(cluster) == [[IDLE] if number == follower else [] for number in (1, 2, 3)]
    cluster.run(4 * CHECK_MS)
    assert known(cluster) == [[], [], []]


def test_a_restart_resets_the_timeout() -> None:
    cluster = new_cluster()
    assert write(cluster, IDLE, 0) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    cluster.run(EXPIRATION_MS - CHECK_MS)
    follower = next(number for number in (1, 2, 3) if number != cluster.leader())
    cluster.kill(follower)
    cluster.start(follower)
    cluster.run(3 * CHECK_MS)
    assert known(cluster) == [[IDLE] if number == follower else [] for number in (1, 2, 3)]
    cluster.run(EXPIRATION_MS)
    assert known(cluster) == [[], [], []]
