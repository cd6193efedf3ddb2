"""Replicas are created without syncing each of them; a power failure at any moment of it loses nothing that counts."""

from __future__ import annotations

import pytest

from broker.core.log.checkpoints import HIGH_WATERMARK, LOG_START, RECOVERY_POINT, read_checkpoint
from broker.core.messages import CreateTopicsRequest, DeleteTopicsRequest, NewTopic
from broker.core.messages.errors import ErrorCode
from tests.support.cluster import TOPIC, Cluster

PARTITIONS = 5


def topic_ids(cluster, number):
    return {key[1]: replica.topic_id for key, replica in cluster.machines[number].node.state.replicas.items()}


def expected_ids(cluster, partitions=PARTITIONS):
    return dict.fromkeys(range(partitions), cluster.machines[1].node.state.image.topics[TOPIC].topic_id)


def spied(cluster, number):
    """What a broker does to its disk from now on, with a copy of the disk before each step."""
    files, steps = cluster.machines[number].files, []

    def spy(operation, name):
        if operation not in ("list", "read") and "checkpoint" not in name:
            steps.append((operation, name, files.copy()))
        return False

    files.fail = spy
    return steps


def keeps_half(name, durable, size):
    return max(durable, size // 2)


def keeps_all(name, durable, size):
    return size


def test_the_creation_of_many_replicas_makes_one_file_durable():
    cluster = Cluster(3)
    cluster.run_until(lambda: all(machine.node.is_ready() for machine in cluster.machines.values()))
    steps = spied(cluster, 2)
    cluster.create_topic(30)
    cluster.run_until(lambda: len(topic_ids(cluster, 2)) == 30)
    assert [name for operation, name, _ in steps if operation in ("replace", "sync", "delete")] == ["topic-ids"]


@pytest.mark.parametrize("keep", [None, keeps_half, keeps_all], ids=["nothing", "half", "all"])
def test_a_power_failure_at_any_moment_of_the_creation_leaves_a_disk_to_go_on_with(keep):
    cluster = Cluster(3)
    cluster.run_until(lambda: all(machine.node.is_ready() for machine in cluster.machines.values()))
    steps = spied(cluster, 2)
    cluster.create_topic(PARTITIONS)
    cluster.run_until(lambda: len(topic_ids(cluster, 2)) == PARTITIONS)
    assert len(steps) > 2 * PARTITIONS
    for _, _, disk in steps:
        cluster.kill(2)
        cluster.machines[2].files = disk.crash(keep)
        cluster.start(2)
        assert topic_ids(cluster, 2).items() <= expected_ids(cluster).items()
        cluster.run_until(lambda: topic_ids(cluster, 2) == expected_ids(cluster))
    cluster.run_until(cluster.is_whole)
    assert cluster.produce(cluster.leader(), 7) == ErrorCode.NONE


def test_records_that_were_synced_are_found_though_their_replicas_own_files_are_lost():
    cluster = Cluster(3, log_flush_interval_messages=1)
    cluster.create_topic()
    assert cluster.produce(cluster.leader(), 1, 2, 3) == ErrorCode.NONE
    expected = expected_ids(cluster, 1)
    for number in (1, 2, 3):
        cluster.kill(number, lose_page_cache=True)
        assert f"{TOPIC}-0/partition.metadata" not in cluster.machines[number].files.files
    for number in (1, 2, 3):
        cluster.start(number)
        assert topic_ids(cluster, number) == expected
    cluster.run_until(cluster.is_whole)
    assert cluster.read(cluster.leader()) == [1, 2, 3]


def test_a_replica_is_not_taken_for_one_of_a_later_topic_of_the_same_name():
    cluster = Cluster(3, log_flush_interval_messages=1)
    cluster.create_topic()
    assert cluster.produce(cluster.leader(), 1, 2, 3) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    cluster.kill(3, lose_page_cache=True)
    cluster.call(1, DeleteTopicsRequest(((TOPIC, ""),), 1_000))
    cluster.call(1, CreateTopicsRequest((NewTopic(TOPIC, 1, -1, assignments=((0, (1, 2, 3)),)),)))
    cluster.run_until(lambda: cluster.replica(1).get("role") == "leader")
    assert cluster.produce(1, 8) == ErrorCode.NONE
    cluster.start(3)
    cluster.run_until(cluster.is_whole)
    assert cluster.machines[3].node.read_log(TOPIC, 0, 0, 10)["log_end"] == 1


def test_a_new_replica_takes_no_log_that_nothing_says_the_topic_of():
    """KIP-516: such a log may be that of an earlier topic of the same name."""
    cluster = Cluster(3, log_flush_interval_messages=1)
    cluster.create_topic()
    assert cluster.produce(cluster.leader(), 1, 2, 3) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    cluster.kill(3)
    files = cluster.machines[3].files
    for name in ("topic-ids", f"{TOPIC}-0/partition.metadata"):
        files.delete(name)
    assert files.size(f"{TOPIC}-0/00000000000000000000.log")
    cluster.call(1, DeleteTopicsRequest(((TOPIC, ""),), 1_000))
    cluster.call(1, CreateTopicsRequest((NewTopic(TOPIC, 1, -1, assignments=((0, (1, 2, 3)),)),)))
    cluster.run_until(lambda: TOPIC in cluster.machines[1].node.state.image.topics)
    cluster.start(3)
    cluster.run_until(lambda: topic_ids(cluster, 3) == expected_ids(cluster, 1))
    assert cluster.machines[3].node.read_log(TOPIC, 0, 0, 10)["log_end"] == 0


def test_a_start_deletes_what_a_crash_left_of_a_creation():
    """RT-8: its topic may be deleted before the start, and then nobody else would."""
    files = disk_of_a_broker_that_starts({f"{TOPIC}-0/partition.metadata": b"vers", f"{TOPIC}-0/{0:020d}.log": b""})
    assert f"{TOPIC}-0" not in files.list("")


@pytest.mark.parametrize("name", [f"{0:020d}.log", f"{4:020d}.log", "holiday.jpg"])
def test_a_start_keeps_a_directory_that_no_creation_has_left(name):
    """Nothing says of which topic it is either; but there is something in it."""
    files = disk_of_a_broker_that_starts({f"{TOPIC}-0/partition.metadata": b"vers", f"{TOPIC}-0/{name}": b"data"})
    assert files.size(f"{TOPIC}-0/{name}") == 4


def disk_of_a_broker_that_starts(found):
    """The disk of one that starts, with these files on it, in a cluster without topics."""
    cluster = Cluster(3)
    cluster.run_until(lambda: all(machine.node.is_ready() for machine in cluster.machines.values()))
    cluster.kill(2)
    files = cluster.machines[2].files
    for name, data in found.items():
        files.append(name, data)
    cluster.start(2)
    cluster.run_until(cluster.machines[2].node.is_ready)
    return files


def test_checkpoints_forget_a_log_before_it_is_deleted():
    """RT-8: the next log of that name must not be trusted for what the last one had synced, or committed."""
    cluster = Cluster(3)
    cluster.create_topic()
    cluster.produce(cluster.leader(), *range(6))
    files = cluster.machines[2].files
    cluster.run_until(lambda: ("log", 0) in read_checkpoint(files, HIGH_WATERMARK))
    steps = spied(cluster, 2)
    cluster.call(1, DeleteTopicsRequest(((TOPIC, ""),)))
    cluster.run_until(lambda: any(operation == "delete" for operation, *_ in steps))
    (disk,) = (disk for operation, name, disk in steps if operation == "rename")
    assert disk.size("log-0/00000000000000000000.log")
    for name in (HIGH_WATERMARK, RECOVERY_POINT, LOG_START):
        assert read_checkpoint(disk, name) == {}


def test_a_start_forgets_checkpoints_of_a_log_that_is_gone():
    """It may never have been synced; the next log of that name must not be trusted for it."""
    cluster = Cluster(3)
    cluster.create_topic()
    cluster.produce(cluster.leader(), *range(6))
    files = cluster.machines[2].files
    cluster.run_until(lambda: ("log", 0) in read_checkpoint(files, HIGH_WATERMARK))
    cluster.kill(2)
    files.delete("log-0")
    cluster.isolate(2)
    cluster.start(2)
    for name in (HIGH_WATERMARK, RECOVERY_POINT, LOG_START):
        assert read_checkpoint(files, name) == {}


def test_what_a_kill_leaves_of_a_deleted_log_is_not_taken_for_it():
    """It would be a log that lacks records, though no power was lost. Assigned again, the replica begins anew."""
    cluster = Cluster(3, log_segment_bytes=1)
    cluster.create_topic()
    for value in range(4):
        assert cluster.produce(cluster.leader(), value) == ErrorCode.NONE
    cluster.run_until(lambda: cluster.replica(2).get("log_end") == 4)
    log = cluster.machines[2].node.state.replicas[TOPIC, 0].log
    steps = spied(cluster, 2)
    log.delete()
    operation, directory, disk = steps[-1]
    assert operation == "delete"
    segments = [name for name in disk.list(directory) if name.endswith(".log")]
    assert len(segments) == 4
    disk.delete(f"{directory}/{segments[2]}")
    cluster.kill(2)
    cluster.machines[2].files = disk
    cluster.start(2)
    assert (TOPIC, 0) not in cluster.machines[2].node.state.replicas
    assert not [name for name in disk.list("") if name.startswith(TOPIC)]
    cluster.run_until(lambda: cluster.replica(2).get("log_end") == 4)
    assert cluster.replica(2)["log_start"] == 0
