"""Fetch sessions: what a reader may omit, and what a leader must keep (KIP-227)."""

from __future__ import annotations

import pytest

from broker.core.messages import FetchPartition, FetchRequest, FetchResponse
from broker.core.messages.errors import ErrorCode
from tests.support.cluster import CONTROLLER, TOPIC, Cluster

PARTITIONS = 4


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(brokers=1, min_insync_replicas=1)
    cluster.create_topic(partitions=PARTITIONS, factor=1)
    return cluster


class Reader:
    """A reader that keeps a session with a broker."""

    def __init__(self, cluster: Cluster, at_broker: int = 1, **fields: object) -> None:
        self.cluster = cluster
        self.at_broker = at_broker
        self.fields = {"max_wait_ms": 10, **fields}
        self.session_id = 0
        self.epoch = 0

    def fetch(self, *parts: FetchPartition, forgotten: tuple[int, ...] = (), **fields: object) -> FetchResponse:
        request = FetchRequest(
            parts,
            session_id=self.session_id,
            session_epoch=self.epoch,
            forgotten=tuple((TOPIC, "", partition) for partition in forgotten),
            **{**self.fields, **fields},  # type: ignore[arg-type]
        )
        response = self.cluster.call(self.at_broker, request)
        assert isinstance(response, FetchResponse)
        if response.error_code == ErrorCode.NONE:
            self.session_id = response.session_id
            self.epoch = self.epoch + 1 if response.session_id else 0
        return response


def at(partition: int, offset: int = 0, **fields: int) -> FetchPartition:
    return FetchPartition(TOPIC, partition, offset, 1 << 20, **fields)


def partitions(response: FetchResponse) -> list[int]:
    return sorted(part.partition for part in response.partitions)


def everything() -> tuple[FetchPartition, ...]:
    return tuple(at(partition) for partition in range(PARTITIONS))


def test_the_first_answer_has_all_partitions_the_next_only_those_with_news(cluster: Cluster) -> None:
    reader = Reader(cluster)
    assert partitions(reader.fetch(*everything())) == [0, 1, 2, 3]
    assert reader.session_id > 0
    assert partitions(reader.fetch()) == []
    assert cluster.produce(1, 5, partition=2) == ErrorCode.NONE
    answer = reader.fetch()
    assert partitions(answer) == [2]
    assert answer.partitions[0].records
    assert partitions(reader.fetch(at(2, 1))) == [2], "a partition that is sent again is answered"
    assert partitions(reader.fetch()) == []


def test_records_that_were_not_taken_are_sent_again(cluster: Cluster) -> None:
    reader = Reader(cluster)
    reader.fetch(*everything())
    cluster.produce(1, 5, partition=2)
    assert [partitions(reader.fetch()) for _ in range(2)] == [[2], [2]]


def test_a_forgotten_partition_is_not_read_any_more(cluster: Cluster) -> None:
    reader = Reader(cluster)
    reader.fetch(*everything())
    cluster.produce(1, 5, partition=2)
    assert partitions(reader.fetch(forgotten=(2,))) == []
    assert partitions(reader.fetch(at(2))) == [2]


def test_a_high_watermark_that_moves_alone_is_sent(cluster: Cluster) -> None:
    cluster = Cluster(brokers=3)
    cluster.create_topic()
    cluster.produce(cluster.leader(), 1)
    cluster.run_until(cluster.is_whole)
    followers = [number for number in (1, 2, 3) if number != cluster.leader()]
    cluster.run_until(lambda: all(cluster.replica(number)["high_watermark"] == 1 for number in followers))


def test_an_unknown_session_and_a_wrong_epoch_are_refused(cluster: Cluster) -> None:
    reader = Reader(cluster)
    reader.fetch(*everything())
    session_id = reader.session_id
    reader.session_id += 1
    assert reader.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    reader.session_id = session_id
    reader.epoch += 1
    assert reader.fetch().error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    reader.epoch -= 1
    assert reader.fetch().error_code == ErrorCode.NONE


def test_a_session_belongs_to_its_reader(cluster: Cluster) -> None:
    reader = Reader(cluster)
    reader.fetch(*everything())
    assert reader.fetch(replica_id=2).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_by_name_does_not_turn_into_one_by_id(cluster: Cluster) -> None:
    reader = Reader(cluster)
    reader.fetch(*everything())
    topic_id = "6f1c2bb1-4a57-4f8e-9d32-0f2a4c5d6e7f"
    by_id = at(0)._replace(topic_id=topic_id)
    assert reader.fetch(by_id).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_sessions_do_not_outlive_the_broker_nor_come_again_under_their_old_ids(cluster: Cluster) -> None:
    reader = Reader(cluster)
    reader.fetch(*everything())
    cluster.kill(1)
    cluster.start(1)
    cluster.run_until(lambda: cluster.machines[1].node is not None and cluster.machines[1].node.is_ready())
    other = Reader(cluster)
    other.fetch(*everything())
    assert other.session_id != reader.session_id
    assert reader.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_ending_a_session_frees_it(cluster: Cluster) -> None:
    reader = Reader(cluster)
    reader.fetch(*everything())
    session_id, reader.epoch = reader.session_id, -1
    assert reader.fetch(at(0)).session_id == 0
    reader.session_id, reader.epoch = session_id, 2
    assert reader.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_there_are_no_more_sessions_than_slots() -> None:
    cluster = Cluster(brokers=1, min_insync_replicas=1, fetch_session_slots=1)
    cluster.create_topic(partitions=PARTITIONS, factor=1)
    first, second = Reader(cluster), Reader(cluster)
    first.fetch(*everything())
    assert partitions(second.fetch(*everything())) == [0, 1, 2, 3]
    assert second.session_id == 0
    cluster.run(120_000)
    second.fetch(*everything())
    assert second.session_id > 0
    assert first.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_incremental_fetch_is_checked_against_the_leader_epoch_that_was_asked_last(cluster: Cluster) -> None:
    """KAFKA-9338: the session had lost the leader epoch."""
    reader = Reader(cluster)
    epoch = cluster.view()["leader_epoch"]
    assert isinstance(epoch, int)
    reader.fetch(at(0, current_leader_epoch=epoch))
    cluster.stop(1)
    cluster.run(2_000)
    cluster.start(1)
    cluster.run_until(lambda: cluster.view()["leader_epoch"] != epoch and cluster.replica(1).get("role") == "leader")
    reader.session_id = reader.epoch = 0
    reader.fetch(at(0, current_leader_epoch=epoch))
    answer = reader.fetch()
    assert [part.error_code for part in answer.partitions] == [ErrorCode.FENCED_LEADER_EPOCH]


def test_partitions_take_turns_when_not_all_fit(cluster: Cluster) -> None:
    for partition in range(PARTITIONS):
        cluster.produce(1, *range(20), partition=partition)
    reader = Reader(cluster, max_bytes=1)
    reader.fetch(*everything())
    firsts = []
    for _ in range(PARTITIONS):
        firsts += [part.partition for part in reader.fetch().partitions if part.records]
    assert sorted(firsts) == [0, 1, 2, 3]


def test_followers_at_rest_ask_for_nothing_and_stay_in_sync() -> None:
    cluster = Cluster(brokers=2, min_insync_replicas=1)
    cluster.create_topic(partitions=PARTITIONS, factor=2)
    cluster.run_until(lambda: all(cluster.is_whole(partition) for partition in range(PARTITIONS)))
    cluster.run(1_000)
    asked = []

    def record(source: int, target: int, message: object) -> bool:
        if isinstance(message, FetchRequest) and target != CONTROLLER:
            asked.append(message)
        return False

    cluster.held = record
    cluster.run(5_000)
    assert len(asked) > 20
    assert not [part for request in asked for part in request.partitions]
    assert all(cluster.view(partition)["isr"] == cluster.view(partition)["replicas"] for partition in range(PARTITIONS))


def test_a_follower_whose_session_is_gone_sends_all_partitions_again() -> None:
    cluster = Cluster(brokers=2, min_insync_replicas=1)
    cluster.create_topic(partitions=PARTITIONS, factor=2)
    cluster.run_until(cluster.is_whole)
    leader = cluster.leader()
    node = cluster.machines[leader].node
    assert node is not None
    node.state.fetch_sessions.sessions.clear()  # type: ignore[attr-defined]
    assert cluster.produce(leader, 1, 2, 3) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)


def test_a_session_at_rest_of_an_earlier_incarnation_is_not_counted_after_a_fetch_of_a_later_one() -> None:
    """FE-5: the leader need not have heard of the later one; their requests may overtake each other."""
    cluster = Cluster(brokers=2, min_insync_replicas=1)
    cluster.create_topic(factor=2)
    cluster.run_until(cluster.is_whole)
    leader = cluster.leader()
    follower = 3 - leader
    earlier_epoch = cluster.broker_epoch(follower)
    cluster.held = lambda source, target, message: source == follower  # its own fetches would be of the earlier one
    earlier, later = (
        Reader(cluster, at_broker=leader, replica_id=follower, replica_epoch=epoch)
        for epoch in (earlier_epoch, earlier_epoch + 1)
    )
    part = at(0, current_leader_epoch=int(str(cluster.replica(leader)["leader_epoch"])))
    assert partitions(earlier.fetch(part)) == [0]
    assert partitions(earlier.fetch()) == []
    assert later.fetch(part).partitions[0].error_code == ErrorCode.NONE
    (refused,) = earlier.fetch().partitions
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    node = cluster.machines[leader].node
    assert node is not None
    assert node.state.replicas[TOPIC, 0].remotes[follower].broker_epoch == earlier_epoch + 1  # type: ignore[attr-defined]
