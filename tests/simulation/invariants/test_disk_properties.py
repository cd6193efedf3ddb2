"""What a broker leaves on its disk, and what not, breaks P-46 to P-49, P-60, P-61, P-65, V-23 or V-24 if wrong."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.broker_node import directories, storage
from broker.core.broker_node.node import BrokerNode
from broker.core.broker_node.requests import deletion
from broker.core.log import checkpoints
from broker.core.log.log import Log
from broker.core.log.segments.indexes import Indexes
from broker.core.metadata.image import Image
from broker.core.ports.files import Files
from broker.core.quorum import observer, snapshots
from broker.core.replica.state import Replica, Role
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.invariants.checkpoints import check_certain, check_names, check_recovery_point
from simulation.invariants.observer import PropertyObserver
from simulation.runs.sweep import simulate
from simulation.scenario.configuration import SimulatedFault
from simulation.workload.clients import TOPIC
from tests.simulation.invariants.planting import Plant, broken_by, observe, replica_of

CHANGES = [SimulatedFault(3_000 + 500 * number, "reassignment", 0, 400, number) for number in range(30)]
RESTART = SimulatedFault(8_000, "restart", 1, 1_000, 0)
SMALL: dict[str, object] = {"segment_bytes": 300, "index_interval_bytes": 1}
OLD_GO: dict[str, object] = {**SMALL, "retention_ms": 3_000}


def test_a_recovery_point_beyond_what_is_synced_breaks_p_46() -> None:
    found: list[str | None] = []
    watching = PropertyObserver()

    def lie(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = replica_of(cluster, step, Role.FOLLOWER)
        if replica is None or not replica.log.end_offset:
            return False
        known, disk = watching.known, cluster.machines[step.node_id].disk
        ghost = known.ghost(TOPIC, replica.topic_id, 0)
        mirror = ghost.mirrors[step.node_id]
        for point in (replica.log.flushed_offset, replica.log.flushed_offset + 1):
            checkpoints.write_checkpoint(disk, checkpoints.RECOVERY_POINT, {replica.key: point})
            found.append(broken_by(lambda: check_recovery_point(known, ghost, mirror, replica)))
        checkpoints.RewrittenRange(disk, replica.log.directory).extend(replica.log.flushed_offset, 1 << 40)
        found.append(broken_by(lambda: check_recovery_point(known, ghost, mirror, replica)))
        return True

    observe(Plant(lie), observer=watching)
    assert found == [None, "P-46", None]


def test_a_start_that_is_certain_of_more_than_the_log_has_breaks_p_46() -> None:
    found: list[str | None] = []
    watching = PropertyObserver()

    def lie(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = replica_of(cluster, step, Role.FOLLOWER)
        if replica is None:
            return False
        ghost = watching.known.ghost(TOPIC, replica.topic_id, 0)
        mirror, before = ghost.mirrors[step.node_id], replica.log.certain_end
        for end in (replica.log.end_offset, replica.log.end_offset + 1):
            replica.log.certain_end = end
            found.append(broken_by(lambda: check_certain(watching.known, ghost, mirror, replica)))
        replica.log.certain_end = before
        return True

    observe(Plant(lie), observer=watching)
    assert found == [None, "P-46"]


def test_a_start_that_keeps_a_checkpoint_of_other_logs_breaks_p_46() -> None:
    """One of a log that is not there, or of more than what the start takes to be committed."""
    found: list[str | None] = []
    watching = PropertyObserver()

    def lie(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = replica_of(cluster, step, Role.FOLLOWER)
        node = cluster.machines[step.node_id].node
        if replica is None or not isinstance(node, BrokerNode):
            return False
        disk, broker = cluster.machines[step.node_id].disk, watching.known.brokers[step.node_id]
        before = checkpoints.read_checkpoint(disk, checkpoints.HIGH_WATERMARK)
        assert not isinstance(before, checkpoints.Unusable)
        committed = replica.high_watermark
        for noted in ({}, {replica.key: committed}, {replica.key: committed + 1}, {("gone", 0): 0}):
            checkpoints.write_checkpoint(disk, checkpoints.HIGH_WATERMARK, noted)
            found.append(broken_by(lambda: check_names(watching.known, broker, node.state)))
        checkpoints.write_checkpoint(disk, checkpoints.HIGH_WATERMARK, before)
        return True

    observe(Plant(lie), observer=watching)
    assert found == [None, None, "P-46", "P-46"]


def test_a_start_that_leaves_the_checkpoints_as_they_were_breaks_p_46(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = storage._open_directory

    def opened(broker: Any, index: int) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(storage, "_checkpoint_directory", lambda *_: None)
            honest(broker, index)

    monkeypatch.setattr(storage, "_open_directory", opened)
    swept = [simulate(seed, {"search": "mixed"}, observed=True) for seed in range(1, 4)]
    found = {one.property_id for result in swept for one in result.findings}
    assert "P-46" in found


def test_a_cut_that_is_not_noted_breaks_p_46(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints.RewrittenRange, "extend", lambda _range, _start, _end: None)
    found = {one.property_id for one in simulate(20, {"search": "mixed"}, observed=True).findings}
    assert "P-46" in found


def test_a_metadata_log_that_a_clean_stop_does_not_sync_breaks_p_47(monkeypatch: pytest.MonkeyPatch) -> None:
    assert observe(faults=[RESTART]).failure is None
    monkeypatch.setattr(observer, "close", lambda _copy: None)
    assert observe(faults=[RESTART]).failed_property == "P-47"


def test_a_log_that_a_clean_stop_does_not_sync_breaks_p_47(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "sync", lambda log: log.mark_flushed(log.end_offset))
    assert observe(faults=[RESTART]).failed_property == "P-47"


def test_metadata_that_are_not_in_the_copy_break_p_48(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "store", lambda _copy, _records, _every: None)
    assert observe().failed_property == "P-48"


def test_a_copy_whose_beginning_is_in_no_snapshot_breaks_p_48(monkeypatch: pytest.MonkeyPatch) -> None:
    assert observe(faults=CHANGES, metadata_snapshot_records=30).failure is None
    honest = snapshots.take

    def take(stored: Any, image: Image) -> None:
        if not isinstance(stored, observer.StoredCopy):
            honest(stored, image)

    monkeypatch.setattr(snapshots, "take", take)
    assert observe(faults=CHANGES, metadata_snapshot_records=30).failed_property == "P-48"


def test_an_index_entry_for_another_position_breaks_p_49(monkeypatch: pytest.MonkeyPatch) -> None:
    assert observe(**SMALL).failure is None
    honest = Indexes.write

    def write(indexes: Indexes, files: Files, stem: str, base_offset: int) -> None:
        wrong = indexes.copy()
        for number in range(len(wrong.positions)):
            wrong.positions[number] -= 1
        honest(wrong, files, stem, base_offset)

    monkeypatch.setattr(Indexes, "write", write)
    assert observe(**SMALL).failed_property == "P-49"


def test_a_time_index_that_keeps_another_time_breaks_p_49(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Indexes.add_time
    monkeypatch.setattr(Indexes, "add_time", lambda indexes, time, offset: honest(indexes, time + 1, offset))
    assert observe(**SMALL, retention_ms=60_000).failed_property == "P-49"


def test_an_index_that_is_not_written_breaks_p_49(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Indexes, "write", lambda _indexes, _files, _stem, _base: None)
    assert observe(**SMALL).failed_property == "P-49"


def test_a_new_log_in_the_fuller_directory_breaks_p_60(monkeypatch: pytest.MonkeyPatch) -> None:
    several: dict[str, object] = {"log_directories": 2, "partitions": 3}
    assert observe(**several).failure is None
    monkeypatch.setattr(directories, "choose", lambda _broker: 0)
    assert observe(**several).failed_property == "P-60"


def test_a_fetch_that_claims_what_is_not_synced_breaks_p_61(monkeypatch: pytest.MonkeyPatch) -> None:
    assert observe(flush_messages=1).failure is None
    monkeypatch.setattr(Replica, "acknowledges_flushed_only", False)
    assert observe(flush_messages=1).failed_property == "P-61"


def test_a_directory_that_does_not_name_the_cluster_breaks_p_65(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "write_cluster_id", lambda *_: None)
    assert observe().failed_property == "P-65"


def test_a_directory_that_is_forgotten_breaks_p_65(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = checkpoints.write_cluster_id

    def write(files: Files, cluster_id: str, directory: int = 0) -> None:
        if directory == 0:
            honest(files, cluster_id, directory)

    monkeypatch.setattr(checkpoints, "write_cluster_id", write)
    assert observe(log_directories=2).failed_property == "P-65"


def test_old_records_that_stay_break_v_23(monkeypatch: pytest.MonkeyPatch) -> None:
    assert observe(**OLD_GO).failure is None
    monkeypatch.setattr(deletion, "_retain_ms", lambda *_: None)
    assert observe(**OLD_GO).failed_property == "V-23"


def test_a_log_that_is_too_large_breaks_v_23(monkeypatch: pytest.MonkeyPatch) -> None:
    assert observe(**SMALL, retention_bytes=500).failure is None
    monkeypatch.setattr(deletion, "_retain_bytes", lambda *_: None)
    assert observe(**SMALL, retention_bytes=500).failed_property == "V-23"


def test_a_fault_elsewhere_excuses_no_old_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "_retain_ms", lambda *_: None)
    away = SimulatedFault(4_000, "kill", 5, 14_000, 0)
    assert observe(faults=[away], **OLD_GO).failed_property == "V-23"


def test_records_that_a_leader_has_deleted_already_are_not_missed() -> None:
    """In this seed a log is empty when its broker begins to lead it, and its segment was deleted before."""
    found = {one.property_id for one in simulate(1946316, {"search": "mixed"}, observed=True).findings}
    assert not found


def test_what_a_cut_within_a_batch_has_rewritten_is_synced_in_its_interval_too() -> None:
    """In this seed a follower of offsets cuts a batch that only fills offsets, and appends nothing for a while."""
    found = {one.property_id for one in simulate(9204149, {}, observed=True).findings}
    assert not found


def test_an_empty_log_that_begins_at_0_does_not_rank_above_those_with_records() -> None:
    """In this seed a follower was cut to nothing by a leader without records, and won a recovery long after."""
    found = {one.property_id for one in simulate(11003911, {"search": "mixed"}, observed=True).findings}
    assert not found


def test_an_index_that_a_power_failure_took_below_the_recovery_point_is_written_anew() -> None:
    """In this seed a segment is cut and closed, and the power fails before the cut is synced."""
    found = {one.property_id for one in simulate(21003525, {"search": "mixed"}, observed=True).findings}
    assert not found


def test_a_log_that_is_not_synced_in_its_interval_breaks_v_24(monkeypatch: pytest.MonkeyPatch) -> None:
    assert observe(flush_ms=500).failure is None
    monkeypatch.setattr(storage, "flush_all", lambda _broker: None)
    assert observe(flush_ms=500).failed_property == "V-24"


def test_a_log_with_too_many_records_in_memory_breaks_v_24(monkeypatch: pytest.MonkeyPatch) -> None:
    assert observe(flush_messages=5).failure is None
    monkeypatch.setattr(storage, "appended", lambda _broker, _replica: None)
    assert observe(flush_messages=5).failed_property == "V-24"
