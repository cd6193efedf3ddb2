"""A power failure may bring back what a follower cut off: its high watermark says nothing of it (HW-7)."""

from __future__ import annotations

import pytest

from broker.core.broker_node import replication, storage
from broker.core.log.checkpoints import RewrittenRange
from broker.core.log.log import Log, LogConfig
from broker.core.messages import ListedOffset, ListOffsetsPartition, ListOffsetsResponse
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import SetTimer
from broker.core.records import encode_batch, filler
from broker.zookeeper.node import ZooKeeperNode
from simulation.scenario.configuration import Configuration
from simulation.zookeeper.scenario import settings_of
from tests.support.cluster import Cluster
from tests.support.memory_files import MemoryFiles

FOLLOWER = 3


def with_a_killed_follower() -> tuple[Cluster, MemoryFiles]:
    """A cluster, and the files of a follower that was killed when the high watermark 6 had been checkpointed."""
    cluster = Cluster(3)
    cluster.create_topic()
    for value in range(6):
        assert cluster.produce(cluster.view()["leader"], value) == 0
    cluster.run_until(lambda: cluster.replica(FOLLOWER).get("high_watermark") == 6)
    cluster.run(6_000)  # it is checkpointed
    files = cluster.machines[FOLLOWER].files
    cluster.kill(FOLLOWER)
    return cluster, files


@pytest.mark.parametrize(("first_cut", "high_watermark"), [(None, 6), (2, 2), (9, 6)])
def test_after_an_unclean_stop_a_high_watermark_above_a_cut_is_not_trusted(
    first_cut: int | None, high_watermark: int
) -> None:
    cluster, files = with_a_killed_follower()
    if first_cut is not None:
        RewrittenRange(files, "log-0").extend(first_cut, 10)
    cluster.isolate(FOLLOWER)
    cluster.start(FOLLOWER)
    assert cluster.replica(FOLLOWER)["high_watermark"] == high_watermark


@pytest.mark.parametrize("generation", ["zk-v1", "zk-v2", "C1"])
def test_the_designs_on_zookeeper_take_the_checkpoint_as_it_is(generation: str) -> None:
    """They cut their logs to it: a lower one would lose what no step of theirs loses."""
    _, files = with_a_killed_follower()
    RewrittenRange(files, "log-0").extend(2, 10)
    (settings,) = [one for one in settings_of(Configuration(generation=generation)) if one.node_id == FOLLOWER]
    node = ZooKeeperNode(settings, files, "incarnation")
    (replica,) = node.state.broker.replicas.values()
    assert (replica.high_watermark, replica.log.end_offset) == (6, 6)


def test_a_high_watermark_that_was_lowered_stays_so_for_the_next_start() -> None:
    cluster, files = with_a_killed_follower()
    cut = RewrittenRange(files, "log-0")
    cut.extend(2, 6)
    cluster.isolate(FOLLOWER)
    cluster.start(FOLLOWER)
    cluster.kill(FOLLOWER)
    cut.forget(6)  # as soon as all is flushed
    cluster.start(FOLLOWER)
    assert (cluster.replica(FOLLOWER)["high_watermark"], cluster.replica(FOLLOWER)["log_end"]) == (2, 6)


def test_a_high_watermark_below_which_a_log_was_cut_is_not_that_of_what_follows() -> None:
    cluster = Cluster(3)
    cluster.create_topic()
    for value in range(6):
        assert cluster.produce(cluster.view()["leader"], value) == 0
    cluster.run_until(lambda: cluster.replica(FOLLOWER).get("high_watermark") == 6)
    cluster.run(6_000)  # it is checkpointed
    cluster.isolate(FOLLOWER)
    broker = cluster.machines[FOLLOWER].node.state
    replica = broker.replicas["log", 0]
    asked = ListOffsetsPartition("log", 0, -1, replica.leader_epoch)
    shorter = ListOffsetsResponse((ListedOffset("log", 0, ErrorCode.NONE, -1, 2),))
    replication.leader_end_known(broker, asked, replica.topic_id, shorter)
    replica.log.append_as_follower(encode_batch([(None, b"other")] * 4, 2, replica.leader_epoch, 0), max_epoch=9)
    replica.log.sync()  # the cut cannot be undone any more
    cluster.kill(FOLLOWER)
    cluster.start(FOLLOWER)
    assert (cluster.replica(FOLLOWER)["high_watermark"], cluster.replica(FOLLOWER)["log_end"]) == (2, 6)


def test_a_cut_that_was_not_synced_before_a_crash_is_remembered_by_the_next_process() -> None:
    """A power failure may still bring it back, under a high watermark of what followed; until a flush of the file."""
    files = MemoryFiles()
    log = Log.open(files, "log-0", LogConfig(), clean=True)
    for _ in range(6):
        log.append_as_leader(encode_batch([(None, b"old")], 0, 0, 0), 0)
    log.mark_flushed(6)
    log.truncate_to(0)
    for _ in range(2):
        log = Log.open(files, "log-0", LogConfig(), clean=False)
        assert RewrittenRange(files, "log-0").start == 0
    log.append_as_leader(encode_batch([(None, b"new")], 0, 0, 0), 1)
    log.mark_flushed(1)
    assert RewrittenRange(files, "log-0").start is None


def test_what_a_cut_within_a_batch_has_rewritten_is_flushed_in_its_interval() -> None:
    cluster = Cluster(3, log_flush_interval_ms=1_000)
    cluster.create_topic()
    cluster.isolate(FOLLOWER)
    broker = cluster.machines[FOLLOWER].node.state
    replica = broker.replicas["log", 0]
    replica.log.append_as_follower(filler(0, 5, replica.leader_epoch), max_epoch=9)
    replica.log.mark_flushed(6)
    asked = ListOffsetsPartition("log", 0, -1, replica.leader_epoch)
    shorter = ListOffsetsResponse((ListedOffset("log", 0, ErrorCode.NONE, -1, 3),))
    replication.leader_end_known(broker, asked, replica.topic_id, shorter)
    assert (replica.log.end_offset, replica.log.flushed_offset) == (3, 0)
    timers = [effect.key for effect in broker.runtime.effects if isinstance(effect, SetTimer)]
    assert timers == [(storage.FLUSH_INTERVAL,)]
