"""A log without records still says the leader epoch by which it is ranked: the one where it begins (UR-12)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.core.broker_node import replication
from broker.core.log.log import Log, LogConfig
from broker.core.messages import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    FetchedPartition,
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsResponse,
    ReplicaLogInfoPartition,
)
from broker.core.messages.errors import ErrorCode
from broker.core.records import encode_batch
from broker.core.replica import follower
from broker.core.replica.state import Replica, Role
from broker.core.rules.flaws import rules_for
from tests.support.cluster import TOPIC, Cluster
from tests.support.memory_files import MemoryFiles

RULES = rules_for("K5", ())
SMALL = LogConfig(segment_bytes=100)
"""One batch fills a segment."""


def filled(files: MemoryFiles, *epochs: int, config: LogConfig = SMALL) -> Log:
    """A log with one record of each of these epochs, synced."""
    log = Log.open(files, "t-0", config, clean=True)
    for epoch in epochs:
        log.append_as_leader(encode_batch([(None, b"value")], 0, 0, 0), epoch)
    for name in files.list("t-0"):
        files.sync(f"t-0/{name}")
    return log


# --- logs ------------------------------------------------------------------------------------------------------------


def by_request(log: Log) -> None:
    log.advance_start(log.end_offset)


def by_age(log: Log) -> None:
    log.expire(1, log.end_offset)


def as_follower(log: Log) -> None:
    log.truncate_fully(3, 2)


@pytest.mark.parametrize("empty", [by_request, by_age, as_follower])
@pytest.mark.parametrize("config", [SMALL, LogConfig()])
def test_an_emptied_log_keeps_its_epoch_over_every_kind_of_stop(
    empty: Callable[[Log], None], config: LogConfig
) -> None:
    files = MemoryFiles()
    log = filled(files, 0, 2, 2, config=config)
    empty(log)
    assert (log.start_offset, log.end_offset, log.last_epoch, log.epoch_at_end) == (3, 3, -1, 2)
    for disk, clean in ((files, True), (files, False), (files.crash(), False)):
        again = Log.open(disk, "t-0", config, clean=clean, start_offset=3)
        assert (again.start_offset, again.end_offset, again.epoch_at_end) == (3, 3, 2)
        assert again.epochs.entries == ((2, 3),)


@pytest.mark.parametrize("empty", [by_request, by_age, as_follower])
def test_an_emptied_log_keeps_its_epoch_if_its_start_was_not_checkpointed(empty: Callable[[Log], None]) -> None:
    files = MemoryFiles()
    empty(filled(files, 0, 2, 2))
    for disk, clean in ((files.copy(), True), (files.copy(), False), (files.crash(), False)):
        again = Log.open(disk, "t-0", SMALL, clean=clean)
        assert (again.start_offset, again.end_offset, again.epoch_at_end) == (3, 3, 2)


def test_a_log_that_has_lost_all_of_its_records_keeps_the_epoch_of_its_first_one() -> None:
    files = MemoryFiles()
    log = filled(files, 0, 2)
    log.advance_start(1)
    log.append_as_leader(encode_batch([(None, b"value")], 0, 0, 0), 4)
    for base in (1, 2):
        files.truncate(f"t-0/{base:020d}.log", 0)
    again = Log.open(files, "t-0", SMALL, clean=False, start_offset=1)
    assert (again.start_offset, again.end_offset, again.epoch_at_end) == (1, 1, 2)


def test_a_log_whose_end_was_lost_below_its_start_keeps_the_epoch_of_that() -> None:
    files = MemoryFiles()
    filled(files, 0, 2, 2).advance_start(2)
    for name in files.list("t-0"):
        if name.endswith(".log"):
            files.delete(f"t-0/{name}")
    files.append("t-0/00000000000000000001.log", b"")
    again = Log.open(files, "t-0", SMALL, clean=False, start_offset=2)
    assert (again.start_offset, again.end_offset, again.epoch_at_end) == (2, 2, 2)


@pytest.mark.parametrize("empties_first", [True, False])
def test_an_epoch_that_has_begun_counts_once_it_has_a_record(empties_first: bool) -> None:
    """Else the empty log of a leader that wrote nothing would rank above the records of a later one that did neither,
    and was restarted since: it knows its last record's epoch alone.
    """
    files = MemoryFiles()
    log = filled(files, 0, 2)
    if empties_first:
        log.advance_start(2)
    log.epochs.begin(4, 2)
    log.epochs.begin(5, 2)
    assert log.epoch_at_end == 2
    log.advance_start(2)
    assert (log.epoch_at_end, log.epochs.latest) == (2, 5)
    for disk, clean in ((files.copy(), True), (files.copy(), False), (files.crash(), False)):
        assert Log.open(disk, "t-0", SMALL, clean=clean, start_offset=2).epoch_at_end == 2
    log.append_as_leader(encode_batch([(None, b"value")], 0, 0, 0), 5)
    assert log.epoch_at_end == 5
    log.advance_start(3)
    for disk, clean in ((files.copy(), True), (files.crash(), False)):
        assert Log.open(disk, "t-0", SMALL, clean=clean, start_offset=3).epoch_at_end == 5


@pytest.mark.parametrize(("at", "epoch", "remembered"), [(2, 3, 3), (2, -1, 2), (1, 3, 2), (3, 3, 2)])
def test_only_an_empty_log_that_begins_there_remembers_an_epoch(at: int, epoch: int, remembered: int) -> None:
    log = filled(MemoryFiles(), 0, 2)
    log.remember_epoch(3, 2)
    assert log.epochs.entries == ((0, 0), (2, 1))
    log.advance_start(2)
    log.remember_epoch(epoch, at)
    assert log.epoch_at_end == remembered


def test_a_log_that_begins_at_0_knows_no_epoch() -> None:
    log = Log.open(MemoryFiles(), "t-0", SMALL, clean=True)
    assert log.epoch_at_end == -1
    log.remember_epoch(3, 0)
    assert log.epoch_at_end == -1
    log.truncate_fully(0, 3)
    assert log.epoch_at_end == -1


# --- followers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("diverging", "epoch"), [((1, 1), 1), ((1, 0), -1), ((0, 2), -1)])
def test_a_follower_that_is_cut_to_nothing_remembers_where_the_leaders_epoch_ended(
    diverging: tuple[int, int], epoch: int
) -> None:
    """Where that lies above the follower's log, the leader may have an earlier epoch at its end, so it is not known.

    A log that begins at 0 has had no record: with an epoch it would rank above those that have some of an earlier one.
    """
    log = filled(MemoryFiles(), 1, 3)
    log.advance_start(1)
    replica = Replica("t", 0, "id", 1, log, leader_epoch=4, role=Role.FOLLOWER)
    asked = follower.fetch_position(replica, RULES, 1 << 20)
    follower.take_answer(replica, asked, FetchedPartition("t", 0, ErrorCode.NONE, diverging_epoch=diverging), RULES)
    assert log.start_offset == log.end_offset == min(diverging[1], 1)
    assert log.epoch_at_end == epoch


def test_a_follower_that_is_cut_to_where_its_leader_begins_keeps_the_epoch_of_its_last_record() -> None:
    """Not the one that was cut off: the answer names it, though the leader may never have had records of it."""
    log = filled(MemoryFiles(), 1, 3)
    replica = Replica("t", 0, "id", 1, log, leader_epoch=4, role=Role.FOLLOWER)
    asked = follower.fetch_position(replica, RULES, 1 << 20)
    answer = FetchedPartition("t", 0, ErrorCode.NONE, diverging_epoch=(3, 1), log_start_offset=1)
    follower.take_answer(replica, asked, answer, RULES)
    assert (log.start_offset, log.end_offset, log.epoch_at_end) == (1, 1, 1)


@pytest.mark.parametrize(("end", "start"), [(2, 1), (3, 3)])
def test_a_follower_that_diverges_below_its_start_begins_where_its_leader_does(end: int, start: int) -> None:
    """What it has deleted may be no part of the leader's log. A member of the ISR, which is complete, never does."""
    log = filled(MemoryFiles(), 0, 0, 2, 3)
    log.advance_start(3)
    replica = Replica("t", 0, "id", 1, log, leader_epoch=4, role=Role.FOLLOWER)
    asked = follower.fetch_position(replica, RULES, 1 << 20)
    answer = FetchedPartition("t", 0, ErrorCode.NONE, diverging_epoch=(0, end), log_start_offset=1)
    follower.take_answer(replica, asked, answer, RULES)
    assert (log.start_offset, log.end_offset) == (start, start)


def test_an_empty_log_says_its_epoch_so_that_a_leader_without_that_history_tells_it() -> None:
    log = filled(MemoryFiles(), 1, 3)
    log.advance_start(2)
    replica = Replica("t", 0, "id", 1, log, leader_epoch=4, role=Role.FOLLOWER)
    assert follower.fetch_position(replica, RULES, 1 << 20).last_fetched_epoch == 3


def rank(cluster: Cluster, broker: int) -> tuple[int, int]:
    """The (leader epoch, log end) by which a recovery ranks a broker's log."""
    response = cluster.call(broker, GetReplicaLogInfoRequest((ReplicaLogInfoPartition(TOPIC, 0),)))
    assert isinstance(response, GetReplicaLogInfoResponse)
    return response.partitions[0].last_written_leader_epoch, response.partitions[0].log_end_offset


def emptied() -> tuple[Cluster, int]:
    """A cluster whose log is deleted up to offset 3, its end, and the leader epoch of its records, which is not 0."""
    cluster = Cluster(high_watermark_checkpoint_interval_ms=100, log_flush_interval_messages=1)
    cluster.create_topic()
    first = cluster.leader()
    cluster.kill(first)
    cluster.run_until(lambda: cluster.leader() not in (first, -1))
    cluster.start(first)
    cluster.run_until(cluster.is_whole)
    assert cluster.produce(cluster.leader(), 1, 2, 3) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    cluster.call(cluster.leader(), DeleteRecordsRequest((DeleteRecordsPartition(TOPIC, 0, 3),)))
    cluster.run_until(lambda: all(cluster.replica(number)["log_start"] == 3 for number in (1, 2, 3)))
    epoch = cluster.view()["leader_epoch"]
    assert isinstance(epoch, int)
    assert epoch > 0
    return cluster, epoch


def test_each_replica_of_a_deleted_log_says_its_epoch_after_a_power_failure_too() -> None:
    cluster, epoch = emptied()
    for broker in (1, 2, 3):
        assert rank(cluster, broker) == (epoch, 3)
        cluster.kill(broker, lose_page_cache=True)
    for broker in (1, 2, 3):
        cluster.start(broker)
        cluster.run_until(lambda broker=broker: bool(cluster.replica(broker)))
        assert rank(cluster, broker) == (epoch, 3)


def test_a_follower_that_begins_where_a_deleted_log_ends_says_the_leaders_epoch() -> None:
    cluster, epoch = emptied()
    new = next(number for number in (1, 2, 3) if number != cluster.leader())
    cluster.kill(new)
    cluster.machines[new].files = MemoryFiles()
    cluster.start(new)
    cluster.run_until(lambda: cluster.replica(new).get("log_start") == 3)
    assert rank(cluster, new) == (epoch, 3)


def test_a_follower_whose_leader_ends_below_its_own_start_says_that_leaders_epoch() -> None:
    cluster, epoch = emptied()
    follower_id = next(number for number in (1, 2, 3) if number != cluster.leader())
    machine = cluster.machines[follower_id]
    replica = machine.node.state.replicas[TOPIC, 0]  # type: ignore[union-attr]
    asked = ListOffsetsPartition(TOPIC, 0, -1, replica.leader_epoch)
    shorter = ListOffsetsResponse((ListedOffset(TOPIC, 0, ErrorCode.NONE, -1, 2, epoch + 1),))
    replication.leader_end_known(machine.node.state, asked, replica.topic_id, shorter)  # type: ignore[union-attr]
    assert rank(cluster, follower_id) == (epoch + 1, 2)
    lower = ListOffsetsResponse((ListedOffset(TOPIC, 0, ErrorCode.NONE, -1, 1, epoch),))
    replication.leader_start_known(machine.node.state, asked, replica.topic_id, lower)  # type: ignore[union-attr]
    assert rank(cluster, follower_id) == (epoch, 1)
