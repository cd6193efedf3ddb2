"""A checkpoint that is not written, or not with what is so, breaks P-30."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from broker.core.broker_node import storage
from broker.core.log import checkpoints
from broker.core.ports.files import Files
from simulation.invariants import intervals
from simulation.runs.sweep import simulate
from simulation.scenario.configuration import SimulatedFault
from tests.simulation.invariants.planting import observe
from tests.simulation.small import QUICK

NAMES = (checkpoints.HIGH_WATERMARK, checkpoints.RECOVERY_POINT, checkpoints.LOG_START)
DELETED = [SimulatedFault(at_ms, "deleted-records", 0, 1, 300) for at_ms in range(5_000, 19_000, 2_000)]


def never_written(monkeypatch: pytest.MonkeyPatch, dropped: str) -> None:
    honest = checkpoints.write_checkpoint

    def write(files: Files, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
        if name.rpartition("/")[2] != dropped:
            honest(files, name, offsets)

    monkeypatch.setattr(checkpoints, "write_checkpoint", write)


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_that_is_never_written_breaks_p_30(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    never_written(monkeypatch, name)
    assert observe().failed_property == "P-30"


@pytest.mark.parametrize("name", NAMES)
def test_one_of_a_few_random_seeds_notices_that_a_checkpoint_is_never_written(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    never_written(monkeypatch, name)
    found = {finding.property_id for seed in range(3) for finding in simulate(seed, QUICK, observed=True).findings}
    assert "P-30" in found


def test_a_timer_that_is_not_set_again_breaks_p_71_and_p_30(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "checkpoint_regularly", storage.checkpoint)
    assert observe().failed_property == "P-71"
    monkeypatch.setattr(intervals, "_check_planned", lambda *_: None)
    assert observe().failed_property == "P-30"


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_that_never_changes_breaks_p_30(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    honest = checkpoints.write_checkpoint

    def write(files: Files, path: str, offsets: Mapping[tuple[str, int], int]) -> None:
        honest(files, path, dict.fromkeys(offsets, 0) if path.rpartition("/")[2] == name else offsets)

    monkeypatch.setattr(checkpoints, "write_checkpoint", write)
    assert observe(faults=DELETED, flush_messages=1).failed_property == "P-30"


def test_a_clean_stop_without_checkpoints_breaks_p_30(monkeypatch: pytest.MonkeyPatch) -> None:
    def close(broker: storage.BrokerState) -> None:
        for replica in broker.replicas.values():
            replica.log.close_clean()
        storage.mark_clean_stop(broker)

    monkeypatch.setattr(storage, "close_cleanly", close)
    outcome = observe(faults=[SimulatedFault(8_000, "restart", 1, 1_000, 0)])
    assert outcome.failed_property == "P-30"
    assert "clean stop" in str(outcome.failure)


def test_a_machine_that_was_frozen_is_not_late() -> None:
    faults = [SimulatedFault(at_ms, "pause", node, 3_900, 0) for node, at_ms in enumerate((4_000, 8_000, 12_000))]
    jumps = [SimulatedFault(at_ms, "clock-jump", 1, 1, 700) for at_ms in (6_000, 9_500, 13_000)]
    assert observe(faults=[*faults, *jumps, *DELETED], flush_messages=1).failure is None


def test_a_pause_excuses_no_checkpoint_that_is_late_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "checkpoint_regularly", storage.checkpoint)
    monkeypatch.setattr(intervals, "_check_planned", lambda *_: None)
    pauses = [
        SimulatedFault(at_ms, "pause", node, 900, 0) for at_ms in range(4_000, 19_000, 1_000) for node in range(3)
    ]
    assert observe(faults=pauses).failed_property == "P-30"
