"""A broker's copy of the metadata log: a start begins with what is on the disk, and fetches the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.broker_node import publishing
from broker.core.log.checkpoints import CLEAN_SHUTDOWN
from broker.core.messages import (
    CreateTopicsRequest,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    NewTopic,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import METADATA_DIRECTORY, METADATA_TOPIC
from broker.core.node import CombinedNode, WrongCluster, make_node
from broker.core.ports.runtime import Runtime
from broker.core.quorum import observer
from broker.core.quorum.snapshots import file_name
from broker.core.records import encode_batch, iterate_headers
from tests.support.cluster import CONTROLLER, TOPIC, Cluster
from tests.support.memory_files import MemoryFiles

LOG = f"{METADATA_DIRECTORY}/{0:020d}.log"


def state(cluster, number=3):
    return cluster.machines[number].node.state


def ready(**settings):
    cluster = Cluster(3, **settings)
    cluster.create_topic()
    cluster.run_until(cluster.is_whole)
    return cluster


def create(cluster, name):
    answer = cluster.call(1, CreateTopicsRequest((NewTopic(name, 1, 3),)))
    assert answer.topics[0].error_code == ErrorCode.NONE


def caught_up(cluster, number=3):
    return cluster.machines[number].node.is_ready() and state(cluster, number).image == controller_image(cluster)


def controller_image(cluster):
    return state(cluster, CONTROLLER).image


def requests_of(cluster, number=3):
    """The requests for metadata that a broker sends from now on."""
    seen = []

    def look(source, target, message):
        if source == number and isinstance(message, FetchSnapshotRequest):
            seen.append("snapshot")
        elif source == number and isinstance(message, FetchRequest):
            seen.extend(part.fetch_offset for part in message.partitions if part.topic == METADATA_TOPIC)
        return False

    cluster.held = look
    return seen


def lines(cluster, text, number=3):
    return [note for note in cluster.machines[number].notes if text in note]


@pytest.mark.parametrize("snapshot_records", [5_000, 4], ids=["log", "snapshots"])
def test_a_restart_begins_where_the_disk_ends_and_fetches_the_rest(snapshot_records):
    cluster = ready(metadata_snapshot_records=snapshot_records)
    cluster.kill(3)
    end = state(cluster, 1).image.end_offset
    create(cluster, "later")
    seen = requests_of(cluster)
    cluster.start(3)
    on_disk = state(cluster).metadata.image.end_offset
    assert on_disk > 0
    assert TOPIC in state(cluster).metadata.image.topics
    assert on_disk >= end - 4
    cluster.run_until(lambda: caught_up(cluster))
    assert "later" in state(cluster).image.topics
    if snapshot_records == 5_000:
        assert seen[0] == on_disk
        assert "snapshot" not in seen
    cluster.run_until(cluster.is_whole)


def test_a_clean_stop_leaves_the_whole_copy_on_the_disk_and_a_power_failure_what_was_synced():
    cluster = ready()
    cluster.stop(3)
    cluster.run_until(lambda: cluster.machines[3].node is None)
    end = cluster.machines[3].files.size(LOG)
    cluster.machines[3].files = cluster.machines[3].files.crash()
    assert cluster.machines[3].files.size(LOG) == end > 0
    cluster.start(3)
    create(cluster, "later")
    cluster.run_until(lambda: caught_up(cluster))
    cluster.kill(3, lose_page_cache=True)
    assert cluster.machines[3].files.size(LOG) == end
    cluster.start(3)
    cluster.run_until(lambda: caught_up(cluster))


def test_nothing_is_read_from_a_directory_that_has_failed_as_the_broker_starts():
    cluster = ready(log_dirs=("/a", "/b"))
    cluster.kill(3)
    files = cluster.machines[3].files
    files.fail = lambda operation, name: (operation, name) == ("delete", CLEAN_SHUTDOWN)
    cluster.start(3)
    assert state(cluster).failed_directories.keys() == {0}
    assert (state(cluster).metadata.image.end_offset, state(cluster).metadata.stored) == (0, None)
    size = files.size(LOG)
    cluster.run_until(lambda: caught_up(cluster))
    assert files.size(LOG) == size > 0


def test_without_a_controller_a_restarted_broker_knows_its_partitions_and_serves_none():
    cluster = ready()
    leader = cluster.leader()
    assert cluster.produce(leader, 1) == ErrorCode.NONE
    cluster.kill(CONTROLLER)
    cluster.kill(leader)
    cluster.start(leader)
    broker = state(cluster, leader)
    assert broker.metadata.image.partition(TOPIC, 0).leader == leader
    cluster.run(3_000)
    assert cluster.machines[leader].node.describe()["metadata_log_end"] > 0
    assert cluster.machines[leader].node.describe()["metadata_offset"] == -1
    assert broker.fenced
    assert not broker.published
    assert cluster.replica(leader)["role"] == "none"
    assert cluster.produce(leader, 2) in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert cluster.replica(leader)["log_end"] == 1
    cluster.start(CONTROLLER)
    cluster.run_until(cluster.is_whole)
    assert cluster.produce(cluster.leader(), 3) == ErrorCode.NONE
    assert cluster.read(cluster.leader()) == [1, 3]


def test_an_old_copy_does_not_make_a_broker_a_leader_that_was_replaced_meanwhile():
    cluster = ready()
    first = cluster.leader()
    cluster.kill(first)
    cluster.run_until(lambda: cluster.leader() not in (first, -1))
    second = cluster.leader()
    cluster.run_until(lambda: cluster.replica(second)["role"] == "leader")
    assert cluster.produce(second, 1) == ErrorCode.NONE
    cluster.start(first)
    roles = set()

    def whole():
        roles.add(cluster.replica(first)["role"])
        return cluster.is_whole()

    cluster.run_until(whole)
    assert roles == {"none", "follower"}


def damage(files, position, bit=1):
    files.files[LOG].data[position] ^= bit


@pytest.mark.parametrize("place", ["first batch", "last batch", "torn"])
def test_a_damaged_log_is_cut_and_the_rest_fetched_anew(place):
    cluster = ready()
    cluster.kill(3)
    files = cluster.machines[3].files
    if place == "torn":
        files.truncate(LOG, files.size(LOG) - 7)
    else:
        damage(files, 100 if place == "first batch" else files.size(LOG) - 7)
    cluster.start(3)
    assert state(cluster).metadata.image.end_offset < controller_image(cluster).end_offset
    cluster.run_until(lambda: caught_up(cluster))
    assert len(lines(cluster, "to be fetched anew")) == 1


@pytest.mark.parametrize("bit", [1, 2, 64])
def test_a_damaged_epoch_that_no_checksum_covers_is_found_by_the_controller(bit):
    cluster = ready()
    cluster.kill(3)
    files = cluster.machines[3].files
    *_, (position, _) = iterate_headers(bytes(files.files[LOG].data))
    damage(files, position + 15, bit)  # the lowest byte of the leader epoch of the last batch
    cluster.start(3)
    cluster.run_until(lambda: caught_up(cluster))


def test_a_snapshot_that_cannot_be_read_has_the_copy_fetched_anew():
    cluster = ready(metadata_snapshot_records=4)
    cluster.run_until(lambda: state(cluster).metadata.stored.snapshot_id[0] > 0)
    snapshot = file_name(METADATA_DIRECTORY, state(cluster).metadata.stored.snapshot_id)
    cluster.kill(3)
    cluster.machines[3].files.files[snapshot].data[80] ^= 1
    cluster.start(3)
    assert state(cluster).metadata.image.end_offset == 0
    cluster.run_until(lambda: caught_up(cluster))
    assert len(lines(cluster, "dropped and fetched anew")) == 1


def test_a_copy_of_what_the_quorum_has_lost_is_fetched_anew():
    cluster = ready()
    for number in (1, 2, 3):
        cluster.kill(number)
    cluster.kill(CONTROLLER)
    cluster.machines[CONTROLLER].files = MemoryFiles()
    cluster.start(CONTROLLER)
    end = state(cluster, CONTROLLER).quorum.log.end_offset
    cluster.start(3)
    assert state(cluster).metadata.image.end_offset > end
    cluster.run_until(lambda: caught_up(cluster))
    assert TOPIC not in state(cluster).image.topics
    assert len(lines(cluster, "dropped and fetched anew")) == 1
    assert state(cluster).metadata.stored.log.end_offset == controller_image(cluster).end_offset


def test_a_copy_beyond_the_end_of_a_quorum_of_an_older_epoch_is_fetched_anew():
    cluster = ready()
    cluster.kill(3)
    files = cluster.machines[3].files
    end = controller_image(cluster).end_offset
    files.append(LOG, encode_batch([(None, b"leader")], end, 77, 0, control=True))
    cluster.start(3)
    assert state(cluster).metadata.epoch == 77
    cluster.run_until(lambda: caught_up(cluster))
    assert len(lines(cluster, "dropped and fetched anew")) == 1


def test_a_running_broker_goes_on_with_its_image_until_it_has_that_of_a_quorum_that_lost_its_log():
    cluster = ready()
    cluster.kill(CONTROLLER)
    cluster.machines[CONTROLLER].files = MemoryFiles()
    cluster.start(CONTROLLER)
    cluster.run_until(lambda: lines(cluster, "dropped and fetched anew"))
    assert TOPIC in state(cluster).image.topics
    cluster.run_until(lambda: caught_up(cluster))


def test_a_log_directory_of_another_cluster_is_refused():
    cluster = ready()
    settings, files = cluster.machines[3].settings, cluster.machines[3].files
    assert files.read("meta.properties", 0, 100) == b"version=1\ncluster.id=harrow\n"
    with pytest.raises(WrongCluster, match=r"expected / to belong to cluster 'other', found cluster 'harrow' in meta"):
        make_node(replace(settings, cluster_id="other"), files, "3-2")
    make_node(settings, files, "3-2")


def test_directories_that_an_older_version_left_belong_to_the_cluster_that_first_uses_them():
    cluster = ready()
    cluster.kill(3)
    files = cluster.machines[3].files
    files.delete("meta.properties")
    files.delete(METADATA_DIRECTORY)
    files.delete("topic-ids")
    cluster.start(3)
    cluster.run_until(cluster.is_whole)
    assert files.size("meta.properties") > 0


def test_a_broker_takes_a_snapshot_of_its_copy_after_exactly_as_many_records_as_the_setting_says():
    copy = observer.open_copy(MemoryFiles(), Runtime())
    taken = []
    for offset in range(7):
        records = encode_batch([(None, b"value")], offset, 1, 0, control=True)
        assert observer.apply(copy, records, 1)
        observer.store(copy, records, 3)
        taken.append(copy.stored.snapshot_id[0])
    assert taken == [0, 0, 3, 3, 3, 6, 6]


def test_the_broker_of_a_combined_node_begins_with_its_controllers_snapshot_and_writes_none():
    cluster = ready(metadata_snapshot_records=4)
    controller = cluster.machines[CONTROLLER]
    cluster.run_until(lambda: state(cluster, CONTROLLER).quorum.snapshot_id[0] > 0)
    end, epoch = state(cluster, CONTROLLER).quorum.snapshot_id
    settings = replace(controller.settings, roles=("broker", "controller"))
    before = dict(controller.files.files)
    copy = observer.open_snapshot(controller.files, Runtime())
    assert (copy.image.end_offset, copy.epoch, copy.stored) == (end, epoch, None)
    assert controller.files.files == before
    node = CombinedNode(settings, controller.files, "100-2")
    assert node.broker.state.metadata.image == copy.image
    assert node.broker.state.metadata.stored is None


def test_nobody_may_create_a_topic_with_the_name_of_the_metadata_log():
    cluster = ready()
    answer = cluster.call(1, CreateTopicsRequest((NewTopic(METADATA_TOPIC, 1, 3),)))
    assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_snapshot_comes_in_pieces_and_only_the_next_one_is_taken():
    cluster = ready(metadata_snapshot_records=4, metadata_snapshot_fetch_max_bytes=100)
    cluster.kill(3, lose_page_cache=True)
    cluster.machines[3].files.delete(METADATA_DIRECTORY)
    for name in ("one", "two", "three"):
        create(cluster, name)
    seen = requests_of(cluster)
    cluster.start(3)
    cluster.run_until(lambda: seen.count("snapshot") > 2)
    broker, image = state(cluster), state(cluster).image
    data = broker.snapshot_data
    for late in (
        None,
        FetchSnapshotResponse(ErrorCode.SNAPSHOT_NOT_FOUND),
        FetchSnapshotResponse(ErrorCode.NONE, (1, 0), len(data) + 3, len(data) + 1, b"no!"),
    ):
        publishing.snapshot_arrived(broker, late)
        assert (broker.snapshot_data, broker.image) == (data, image)
    cluster.run_until(lambda: caught_up(cluster))
    assert "three" in state(cluster).image.topics


@pytest.mark.parametrize(("ahead", "epochs", "flips"), [(3, 0, 0), (0, -1, 0), (0, 0, 1)], ids=["gap", "epoch", "bits"])
def test_records_that_do_not_continue_the_copy_have_it_fetched_anew_and_damaged_ones_do_not(ahead, epochs, flips):
    cluster = ready()
    broker = state(cluster)
    end = broker.metadata.image.end_offset
    records = bytearray(encode_batch([(None, b"value")], end + ahead, broker.metadata.epoch + epochs, 0, control=True))
    records[-1] ^= flips
    (opened,) = (number for number, each in broker.runtime.open_requests.items() if each.purpose == publishing.FETCH)
    del broker.runtime.open_requests[opened]
    answer = FetchedPartition(METADATA_TOPIC, 0, ErrorCode.NONE, records=bytes(records))
    publishing.fetched(broker, broker.controller_id, FetchResponse((answer,)))
    assert broker.metadata.image.end_offset == (end if flips else 0)
    assert TOPIC in broker.image.topics
    create(cluster, "later")
    cluster.run_until(lambda: caught_up(cluster))
    assert len(lines(cluster, "dropped and fetched anew")) == (0 if flips else 1)
