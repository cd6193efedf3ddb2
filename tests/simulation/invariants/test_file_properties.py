"""A log whose files are not those that its broker works with breaks P-44."""

from __future__ import annotations

import pytest

from broker.core.log import log
from broker.core.log.epoch_cache import EpochCache
from broker.core.log.segments.segment import Segment
from broker.core.ports.files import Files
from broker.core.replica.state import Role
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.scenario.configuration import SimulatedFault
from simulation.scenario.phases import SimulationOutcome
from tests.simulation.invariants.planting import Plant, observe, replica_of

SMALL = {"segment_bytes": 300}
DELETED = [SimulatedFault(at_ms, "deleted-records", 0, 1, 300) for at_ms in range(5_000, 19_000, 2_000)]
LEADER_DIES = SimulatedFault(4_000, "kill", 6, 8_000, 0)


def test_logs_that_are_cut_deleted_from_and_opened_again_break_nothing() -> None:
    assert observe(faults=[LEADER_DIES, *DELETED], **SMALL).failure is None


def test_epochs_that_are_never_written_down_break_p_44(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EpochCache, "_write", lambda _cache: None)
    assert observe().failed_property == "P-44"


def test_a_segment_without_a_file_breaks_p_44(monkeypatch: pytest.MonkeyPatch) -> None:
    def create(files: Files, directory: str, base_offset: int, index_interval_bytes: int) -> Segment:
        return Segment(files, directory, base_offset, index_interval_bytes)

    monkeypatch.setattr(Segment, "create", create)
    assert observe().failed_property == "P-44"


def test_snapshots_of_producers_that_stay_below_the_log_break_p_44(monkeypatch: pytest.MonkeyPatch) -> None:
    assert observe(faults=DELETED, **SMALL).failure is None
    monkeypatch.setattr(log, "prune_snapshots", lambda *_asked: None)
    assert observe(faults=DELETED, **SMALL).failed_property == "P-44"


@pytest.mark.parametrize(
    ("name", "is_wrong"),
    [
        ("00000000000000099999.log", True),
        ("00000000000000099999.index", True),
        ("00000000000000099999.timeindex", True),
        ("00000000000000099999.snapshot", True),
        ("00000000000000000000.log.cleaned", False),
        ("partition.metadata", False),
    ],
)
def test_which_other_files_break_p_44(name: str, is_wrong: bool) -> None:
    def lie(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = replica_of(cluster, step, Role.LEADER)
        if replica is None:
            return False
        cluster.machines[step.node_id].disk.append(f"{replica.log.directory}/{name}", b"")
        return True

    plant = Plant(lie)
    outcome: SimulationOutcome = observe(plant, faults=[SimulatedFault(6_000, "deleted-records", 0, 1, 300)])
    assert plant.planted
    assert (outcome.failed_property == "P-44") is is_wrong
    assert is_wrong or outcome.failure is None


def test_a_log_directory_that_fails_is_not_looked_at() -> None:
    outcome = observe(faults=[SimulatedFault(5_000, "directory-error", 0, 8_000, 0)], log_directories=2, **SMALL)
    assert outcome.failure is None
