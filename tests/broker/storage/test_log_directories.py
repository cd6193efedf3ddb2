"""Several log directories on a broker, and the failure of one (KIP-112, KIP-858)."""

from __future__ import annotations

import pytest

from broker.core.broker_node import directories
from broker.core.log.checkpoints import read_claims
from broker.core.messages import (
    LOST_DIRECTORY,
    AssignReplicasToDirsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    FetchPartition,
    FetchRequest,
    GetReplicaLogInfoRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    NewTopic,
    ProducePartition,
    ProduceRequest,
    ReplicaLogInfoPartition,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import METADATA_DIRECTORY
from broker.core.ports.files import StorageError, directory_of
from broker.core.records import encode_batch
from tests.support.cluster import CONTROLLER, TOPIC, Cluster

LOG_DIRS = ("/a", "/b")


def cluster_of(brokers=3, partitions=4, factor=3, **settings):
    cluster = Cluster(brokers, log_dirs=LOG_DIRS, **settings)
    cluster.create_topic(partitions, factor)
    cluster.run_until(lambda: sum(len(places(cluster, b)) for b in range(1, brokers + 1)) == partitions * factor)
    return cluster


def places(cluster, number):
    node = cluster.machines[number].node
    return {p["partition"]: p["log_dir"] for p in node.describe()["partitions"]} if node else {}


def break_directory(cluster, number, place, operations=("append", "truncate", "replace", "sync", "list", "read")):
    cluster.machines[number].files.fail = lambda operation, name: (
        operation in operations and directory_of(name if "/" in name else f"{name}/") == place
    )


def partitions_in(cluster, number, path):
    return [partition for partition, place in places(cluster, number).items() if place == path]


def led_in(cluster, number, path):
    return next(p for p in partitions_in(cluster, number, path) if cluster.leader(p) == number)


def is_out(cluster, number, partition):
    view = cluster.view(partition)
    return view["leader"] not in (number, -1) and number not in view["isr"] and view["offline"] == [number]


def described(cluster, number, partitions=None):
    response = cluster.call(number, DescribeLogDirsRequest(partitions))
    return {each.path: (each.error_code, {log.partition: log for log in each.logs}) for each in response.directories}


def test_administrators_see_what_each_directory_holds():
    cluster = cluster_of()
    assert cluster.produce(cluster.leader(0), 1, 2, 3) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    for number in (1, 2, 3):
        found = described(cluster, number)
        assert {p: path for path, (_, logs) in found.items() for p in logs} == places(cluster, number)
        logs = {p: log for _, logs in found.values() for p, log in logs.items()}
        assert logs[0].size > 0
        assert (logs[1].size, logs[0].offset_lag) == (0, 0)
    asked = (DescribeLogDirsPartition(TOPIC, 2), DescribeLogDirsPartition("unknown", 0))
    assert [p for _, logs in described(cluster, 1, asked).values() for p in logs] == [2]


def test_administrators_see_that_a_directory_has_failed():
    cluster = cluster_of()
    partition = led_in(cluster, 1, "/b")
    break_directory(cluster, 1, 1)
    cluster.produce(1, 1, partition=partition)
    found = described(cluster, 1)
    assert found["/b"] == (ErrorCode.KAFKA_STORAGE_ERROR, {})
    assert found["/a"][0] == ErrorCode.NONE
    assert sorted(found["/a"][1]) == sorted(partitions_in(cluster, 1, "/a"))


def test_new_partitions_go_to_the_directory_with_the_fewest():
    cluster = cluster_of(partitions=5)
    assert sorted(places(cluster, 1).values()) == ["/a"] * 3 + ["/b"] * 2


def test_partitions_and_their_checkpoints_are_found_where_they_are_after_a_restart():
    cluster = cluster_of(min_insync_replicas=1, high_watermark_checkpoint_interval_ms=100)
    for partition in range(4):
        assert cluster.produce(cluster.leader(partition), 7, partition=partition) == 0
    cluster.run(500)
    before = places(cluster, 2)
    cluster.kill(2)
    cluster.start(2)
    assert places(cluster, 2) == before
    assert [cluster.replica(2, partition)["high_watermark"] for partition in range(4)] == [1, 1, 1, 1]


def test_a_stop_is_clean_only_if_every_directory_says_so():
    cluster = cluster_of()
    epoch = cluster.broker_epoch(3)
    cluster.stop(3)
    cluster.run_until(lambda: cluster.machines[3].node is None)
    files = cluster.machines[3].files.copy()
    cluster.start(3)
    assert cluster.machines[3].node.state.previous_broker_epoch == epoch
    cluster.kill(3)
    files.delete("1/.kafka_cleanshutdown")
    cluster.machines[3].files = files
    cluster.start(3)
    assert cluster.machines[3].node.state.previous_broker_epoch == -1


def test_a_stop_is_not_clean_for_a_broker_that_has_one_directory_less():
    cluster = cluster_of()
    cluster.stop(3)
    cluster.run_until(lambda: cluster.machines[3].node is None)
    machine = cluster.machines[3]
    machine.settings = type(machine.settings)(**{**vars(machine.settings), "log_dirs": ("/a",)})
    cluster.start(3)
    assert machine.node.state.previous_broker_epoch == -1


@pytest.mark.parametrize("place", [0, 1])
def test_an_append_that_fails_takes_only_its_directory_offline(place):
    cluster = cluster_of()
    broken, whole = LOG_DIRS[place], LOG_DIRS[1 - place]
    partition = led_in(cluster, 1, broken)
    gone, left = partitions_in(cluster, 1, broken), partitions_in(cluster, 1, whole)
    break_directory(cluster, 1, place)
    assert cluster.produce(1, 5, partition=partition) == ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.produce(1, 5, partition=partition) == ErrorCode.KAFKA_STORAGE_ERROR
    assert sorted(places(cluster, 1)) == left
    assert cluster.machines[1].node.describe()["offline_partitions"] == [[TOPIC, p] for p in gone]
    cluster.run_until(lambda: all(is_out(cluster, 1, p) for p in gone))
    assert all(1 in cluster.view(p)["isr"] for p in left)
    cluster.run(50)
    for p in range(4):
        assert cluster.produce(cluster.leader(p), 6, partition=p) == 0
    failures = [note for note in cluster.machines[1].notes if f"log directory {broken} failed" in note]
    assert len(failures) == 1


def test_a_failed_fsync_takes_the_directory_offline():
    cluster = cluster_of(log_flush_interval_messages=1)
    partition = led_in(cluster, 1, "/b")
    break_directory(cluster, 1, 1, operations=("sync",))
    assert cluster.produce(1, 5, partition=partition) == ErrorCode.KAFKA_STORAGE_ERROR
    cluster.run_until(lambda: is_out(cluster, 1, partition))


def test_clients_that_wait_on_a_failed_directory_are_answered():
    cluster = cluster_of()
    partition, other = partitions_in(cluster, 1, "/b")
    cluster.run_until(lambda: cluster.is_whole(partition))
    if cluster.leader(partition) != 1:
        partition, other = other, partition
    leader = cluster.leader(partition)
    node = cluster.machines[leader].node
    assert (leader, places(cluster, leader)[partition]) == (1, "/b")
    cluster.isolate(1)
    produce = cluster.send(1, 9, partition=partition, timeout_ms=60_000)
    fetch = cluster.ask(1, FetchRequest((FetchPartition(TOPIC, partition, 0, 100),), max_wait_ms=60_000, min_bytes=99))
    cluster.run(50)
    assert produce not in cluster.answers
    break_directory(cluster, 1, 1)
    doomed = cluster.send(1, 9, partition=partition)
    cluster.run(1)
    assert {cluster.error_of(own_id) for own_id in (produce, fetch, doomed)} == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert (node.state.produces, node.state.fetches) == ({}, {})


def test_one_request_to_two_partitions_of_a_directory_that_fails_gets_both_errors():
    cluster = cluster_of(brokers=1, factor=1, min_insync_replicas=1)
    first, second = partitions_in(cluster, 1, "/b")
    files = cluster.machines[1].files
    files.fail = lambda operation, name: operation == "append" and name.startswith(f"1/{TOPIC}-{second}/")
    answer = cluster.call(1, produce_request(first, second))
    assert [part.error_code for part in answer.partitions] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


def produce_request(*partitions):
    batch = encode_batch([(None, b"v")], 0, 0, 0)
    return ProduceRequest(-1, 1000, tuple(ProducePartition(TOPIC, partition, batch) for partition in partitions))


def test_every_question_about_an_offline_partition_gets_the_storage_error():
    cluster = cluster_of()
    partition = led_in(cluster, 1, "/b")
    break_directory(cluster, 1, 1)
    cluster.produce(1, 5, partition=partition)
    error = ErrorCode.KAFKA_STORAGE_ERROR
    fetch = FetchRequest((FetchPartition(TOPIC, partition, 0, 100),), max_wait_ms=10)
    offsets = ListOffsetsRequest((ListOffsetsPartition(TOPIC, partition, -1),))
    infos = GetReplicaLogInfoRequest((ReplicaLogInfoPartition(TOPIC, partition),))
    for request in (fetch, offsets, infos):
        assert cluster.call(1, request).partitions[0].error_code == error


def test_a_follower_whose_directory_fails_leaves_the_isr_and_the_elr():
    cluster = cluster_of()
    partition = next(p for p in partitions_in(cluster, 1, "/b") if cluster.leader(p) != 1)
    break_directory(cluster, 1, 1)
    leader = cluster.leader(partition)
    cluster.produce(leader, 5, partition=partition)
    cluster.run_until(lambda: is_out(cluster, 1, partition))
    assert cluster.leader(partition) == leader
    assert 1 not in cluster.view(partition)["elr"]


def test_the_report_to_the_controller_is_repeated_until_it_takes_effect():
    cluster = cluster_of()
    partition = led_in(cluster, 1, "/b")
    cluster.run_until(lambda: cluster.is_whole(partition))
    name = "AssignReplicasToDirs"
    lost = []
    cluster.held = lambda _, __, message: (
        type(message).__name__.startswith(name) and len(lost) < 3 and not lost.append(message)
    )
    break_directory(cluster, 1, 1)
    cluster.produce(1, 5, partition=partition)
    cluster.run_until(lambda: is_out(cluster, 1, partition))
    assert len(lost) == 3


def test_a_replica_that_is_offline_everywhere_is_not_elected_again():
    cluster = cluster_of(brokers=2, factor=1, min_insync_replicas=1)
    partition = led_in(cluster, 1, "/b")
    break_directory(cluster, 1, 1)
    cluster.produce(1, 5, partition=partition)
    cluster.run_until(lambda: cluster.view(partition)["leader"] == -1)
    cluster.kill(2)
    cluster.start(2)
    cluster.run(3_000)
    assert cluster.view(partition)["leader"] == -1


def test_replicas_of_a_repaired_directory_are_back_after_a_restart():
    cluster = cluster_of()
    partition = led_in(cluster, 1, "/b")
    assert cluster.produce(1, 4, partition=partition) == 0
    break_directory(cluster, 1, 1)
    cluster.produce(1, 5, partition=partition)
    cluster.run_until(lambda: is_out(cluster, 1, partition))
    cluster.stop(1)
    cluster.run_until(lambda: cluster.machines[1].node is None)
    cluster.machines[1].files.fail = None
    cluster.start(1)
    assert cluster.machines[1].node.state.previous_broker_epoch == -1
    cluster.run_until(lambda: cluster.is_whole(partition))
    assert cluster.view(partition)["offline"] == []
    assert cluster.replica(1, partition)["log_end"] == 1


def test_what_may_be_in_a_directory_that_cannot_be_read_at_the_start_stays_offline():
    cluster = cluster_of(brokers=1, factor=1, min_insync_replicas=1)
    (partition, other) = partitions_in(cluster, 1, "/b")
    cluster.kill(1)
    break_directory(cluster, 1, 1)
    cluster.start(1)
    cluster.run_until(
        lambda: (
            sorted(cluster.machines[1].node.describe()["offline_partitions"]) == [[TOPIC, partition], [TOPIC, other]]
        )
    )
    cluster.run(2_000)
    assert cluster.view(partition)["leader"] == -1
    assert sorted(places(cluster, 1).values()) == ["/a", "/a"]


def test_new_partitions_are_put_into_a_directory_that_works():
    cluster = cluster_of(brokers=1, factor=1, min_insync_replicas=1)
    cluster.kill(1)
    break_directory(cluster, 1, 0)
    cluster.start(1)
    cluster.run_until(cluster.machines[1].node.is_ready)
    cluster.call(1, CreateTopicsRequest((NewTopic("new", 3, 1),)))
    cluster.run(500)
    state = cluster.machines[1].node.describe()
    assert [p["log_dir"] for p in state["partitions"] if p["topic"] == "new"] == ["/b"] * 3


def test_a_directory_that_fails_at_the_creation_of_a_replica_leaves_it_offline():
    cluster = Cluster(3, log_dirs=LOG_DIRS)
    cluster.run_until(lambda: all(machine.node.is_ready() for machine in cluster.machines.values()))
    cluster.machines[1].files.fail = lambda operation, name: name.startswith(f"{TOPIC}-0/")
    cluster.call(2, CreateTopicsRequest((NewTopic(TOPIC, 1, 3),)))
    cluster.run_until(lambda: is_out(cluster, 1, 0))


def test_new_replicas_go_elsewhere_when_the_first_directory_fails_with_the_copy_of_the_metadata():
    cluster = Cluster(3, log_dirs=LOG_DIRS)
    cluster.run_until(lambda: all(machine.node.is_ready() for machine in cluster.machines.values()))
    break_directory(cluster, 1, 0)
    cluster.call(2, CreateTopicsRequest((NewTopic(TOPIC, 1, 3),)))
    cluster.run_until(lambda: places(cluster, 1) == {0: "/b"})
    cluster.run_until(cluster.is_whole)
    end = cluster.machines[1].node.describe()["metadata_log_end"]
    cluster.call(2, CreateTopicsRequest((NewTopic("other", 1, 3),)))
    cluster.run_until(lambda: cluster.machines[1].node.describe()["metadata_log_end"] > end)  # in memory


def test_an_offline_replica_is_forgotten_with_its_topic():
    cluster = cluster_of()
    break_directory(cluster, 1, 1)
    cluster.produce(1, 5, partition=led_in(cluster, 1, "/b"))
    node = cluster.machines[1].node
    assert node.describe()["offline_partitions"]
    cluster.call(2, DeleteTopicsRequest(((TOPIC, ""),)))
    cluster.run_until(lambda: not node.describe()["offline_partitions"])


def copied(with_record, place=0):
    """A cluster of which broker 1 has the files of a replica in two log directories; its first is `place`."""
    cluster = cluster_of()
    partition = led_in(cluster, 1, LOG_DIRS[place])
    if with_record:
        cluster.produce(1, 5, partition=partition)
    cluster.kill(1)
    files = cluster.machines[1].files
    here, there = ("", "1/") if place == 0 else ("1/", "")
    for name in [name for name in files.files if name.startswith(f"{here}{TOPIC}-{partition}/")]:
        files.append(f"{there}{name.removeprefix(here)}", files.read(name, 0, files.size(name)))
    cluster.start(1)
    cluster.run(10)
    return cluster, partition, cluster.machines[1].node.describe()


@pytest.mark.parametrize("place", [0, 1])
def test_a_log_of_which_only_its_creation_is_in_another_directory_stays(place):
    """RT-8: nothing has claimed the other one yet; the broker ended while it created it."""
    cluster, partition, state = copied(with_record=False, place=place)
    assert [one["failure"] for one in state["log_dirs"]] == [None, None]
    assert logs_of(cluster, 1, partition) == [LOG_DIRS[place]]
    cluster.run_until(lambda: places(cluster, 1).get(partition) == LOG_DIRS[place])


def test_a_log_that_is_in_two_directories_fails_the_second_of_them():
    _, partition, state = copied(with_record=True)
    assert state["log_dirs"][0]["failure"] is None
    assert f"expected {TOPIC}-{partition} in one log directory, found it in /a too" in state["log_dirs"][1]["failure"]


def repaired(cluster, number):
    cluster.kill(number)
    cluster.machines[number].files.fail = lambda _operation, _name: False
    cluster.start(number)
    cluster.run(10)


def logs_of(cluster, number, partition):
    files = cluster.machines[number].files
    return [name for place, name in enumerate(LOG_DIRS) if f"{TOPIC}-{partition}" in files.list("1" if place else "")]


def deleted_and_created_anew(place):
    """A cluster whose first broker has a deleted topic's log in a directory, and the new topic's in the other."""
    cluster = cluster_of(partitions=2)
    partition = partitions_in(cluster, 1, LOG_DIRS[place])[0]
    cluster.produce(cluster.leader(partition), 5, partition=partition)
    break_directory(cluster, 1, place, ("append", "truncate", "replace", "sync"))
    cluster.produce(cluster.leader(partition), 6, partition=partition)
    node = cluster.machines[1].node
    cluster.run_until(lambda: node.describe()["offline_partitions"])
    cluster.call(2, DeleteTopicsRequest(((TOPIC, ""),)))
    cluster.run_until(lambda: not node.describe()["offline_partitions"])
    cluster.create_topic(2, 3)
    cluster.run_until(lambda: len(places(cluster, 1)) == 2)
    return cluster, partition


@pytest.mark.parametrize("place", [0, 1])
def test_the_log_of_a_deleted_topic_in_a_repaired_directory_gives_way_to_that_of_the_new_one(place):
    """RT-8: it is not revived, and does not take its directory offline."""
    cluster, partition = deleted_and_created_anew(place)
    assert logs_of(cluster, 1, partition) == list(LOG_DIRS)
    repaired(cluster, 1)
    state = cluster.machines[1].node.describe()
    assert [one["failure"] for one in state["log_dirs"]] == [None, None]
    assert logs_of(cluster, 1, partition) == [LOG_DIRS[1 - place]]
    assert places(cluster, 1)[partition] == LOG_DIRS[1 - place]
    topic = cluster.machines[CONTROLLER].node.state.image.topics[TOPIC]
    assert cluster.machines[1].node.state.replicas[TOPIC, partition].topic_id == topic.topic_id


def test_a_replica_that_was_given_back_while_its_old_log_was_offline_is_the_one_that_stays():
    """RT-8: it started empty in the other directory; a claim says that it is the later one."""
    cluster, partition = deleted_and_created_anew(1)
    topic_ids = "topic-ids"
    files = cluster.machines[1].files
    later = read_claims(files, topic_ids)[f"{TOPIC}-{partition}"]
    assert later > read_claims(files, f"1/{topic_ids}")[f"{TOPIC}-{partition}"]
    assert later.failed_directories == 1
    repaired(cluster, 1)
    assert read_claims(files, topic_ids)[f"{TOPIC}-{partition}"] == later


def test_what_is_found_while_a_directory_cannot_be_read_is_claimed_again():
    """RT-8: a later log may be in the directory that cannot be read; from now on this one is the later one."""
    cluster = cluster_of()
    files, name = cluster.machines[1].files, "topic-ids"
    before = read_claims(files, name)
    cluster.kill(1)
    break_directory(cluster, 1, 1)
    cluster.start(1)
    cluster.run_until(cluster.machines[1].node.is_ready)
    after = read_claims(files, name)
    assert after.keys() == before.keys()
    assert {claim.broker_epoch for claim in after.values()} == {cluster.broker_epoch(1)}
    assert all(after[one] > before[one] for one in before)


def test_with_one_directory_there_are_no_claims():
    cluster = Cluster(3)
    cluster.create_topic(2, 3)
    cluster.run_until(lambda: len(places(cluster, 1)) == 2)
    assert read_claims(cluster.machines[1].files, "topic-ids") == {}


def test_a_broker_whose_last_directory_fails_ends_with_one_line():
    cluster = cluster_of()
    cluster.machines[1].files.fail = lambda operation, _: operation in ("append", "replace")
    cluster.produce(1, 5, partition=led_in(cluster, 1, "/a"))
    cluster.ask(1, produce_request(led_in(cluster, 1, "/b")))
    cluster.run(10)
    assert cluster.machines[1].node is None
    assert "exit 4: log directory /b failed:" in cluster.machines[1].notes[-1]


def test_a_broker_that_can_read_no_directory_does_not_start():
    cluster = cluster_of()
    cluster.kill(1)
    cluster.machines[1].files.fail = lambda *_: True
    with pytest.raises(StorageError):
        cluster.start(1)


def test_what_comes_late_from_a_directory_that_has_failed_changes_nothing():
    cluster = cluster_of()
    state = cluster.machines[1].node.state
    late = StorageError("late", f"{places_of(state)[0]}/x")
    directories.fail(state, late)
    notes = len(state.runtime.effects)
    directories.fail(state, late)
    assert cluster.machines[1].node.state.failed_directories.keys() == {directory_of(late.name)}
    assert len(state.runtime.effects) == notes


def test_the_copy_of_the_metadata_goes_with_its_directory():
    cluster = cluster_of()
    state = cluster.machines[1].node.state
    assert state.metadata.stored is not None
    directories.fail(state, StorageError("gone", next(r for r in state.replicas.values() if in_first(r)).log.directory))
    assert state.metadata.stored is None


def test_a_report_changes_nothing_if_the_controller_knows_it_or_the_broker_has_no_replica():
    cluster = Cluster(4, log_dirs=LOG_DIRS)
    cluster.create_topic()
    replica, stranger = cluster.view()["replicas"][1], 10 - sum(cluster.view()["replicas"])
    topic_id = cluster.machines[CONTROLLER].node.state.image.topics[TOPIC].topic_id

    def after_report(number):
        lost = ((LOST_DIRECTORY, topic_id, 0),)
        cluster.call(CONTROLLER, AssignReplicasToDirsRequest(number, cluster.broker_epoch(number), lost))
        return cluster.view()

    before = cluster.view()
    assert after_report(stranger) == before
    first = after_report(replica)
    assert first["offline"] == [replica]
    assert after_report(replica) == first


def places_of(state):
    return [replica.log.directory for replica in state.replicas.values()]


def in_first(replica):
    return directories.of(replica) == directory_of(METADATA_DIRECTORY)
