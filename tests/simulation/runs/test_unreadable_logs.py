"""Logs that cannot be read, and checks that raise an error: failures that can be stored, replayed and shrunk."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from broker.core.log.log import Log
from broker.core.metadata.records import METADATA_TOPIC
from broker.core.records import Record
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.invariants.observer import PropertyObserver
from simulation.invariants.properties import CORRUPT, JUDGE
from simulation.runs.failures import Layer
from simulation.runs.stored import replay_run, store
from simulation.runs.sweep import simulate
from simulation.scenario.case import Case
from simulation.shrinking.reduce import ShrinkTarget, failing, reduce
from simulation.workload.recording import value_of
from tests.simulation.small import QUICK

CORRUPTED = 17
"""The offset from which on a leader's records are replaced; the header of their batch stays."""


@pytest.fixture
def damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a leader appends from one offset on cannot be read."""
    append = Log.append_as_leader

    def append_and_damage(self: Log, records: bytes, leader_epoch: int, headers: object = None) -> object:
        if self.end_offset >= CORRUPTED and METADATA_TOPIC not in self.directory:
            records = records[:61] + b"\xff" * (len(records) - 61)
        return append(self, records, leader_epoch, headers)  # type: ignore[arg-type]

    monkeypatch.setattr(Log, "append_as_leader", append_and_damage)


@pytest.mark.usefixtures("damaged")
@pytest.mark.parametrize("observed", [True, False], ids=["observed", "not observed"])
def test_records_that_no_client_can_read_are_found(observed: bool) -> None:
    findings = simulate(3, {**QUICK, "faults": ()}, observed).findings
    assert (Layer.LOGS, CORRUPT) in {finding[:2] for finding in findings}


@pytest.mark.usefixtures("damaged")
def test_it_is_stored_replayed_and_shrunk(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    findings = store(tmp_path / "run", Case(3, {**QUICK, "faults": ()}))
    assert CORRUPT in {finding.property_id for finding in findings}
    assert replay_run(tmp_path / "run").equal
    outcome, _ = failing(Case(3, {**QUICK, "faults": ()}))
    calls = count()
    shrunk = reduce(outcome, ShrinkTarget(Layer.LOGS, CORRUPT), jobs=1, stopped=lambda: next(calls) > 3)
    assert f"VIOLATION of {CORRUPT}" in shrunk.choice_file.dumps()


def test_a_check_that_raises_is_a_failure_of_its_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def after(self: PropertyObserver, cluster: SimulatedCluster, step: EventStep) -> None:
        nonlocal calls
        calls += 1
        if calls == 400:
            raise KeyError("a defect")

    monkeypatch.setattr(PropertyObserver, "after", after)
    (finding, *_) = simulate(3, QUICK, True).findings
    assert (finding.layer, finding.property_id) == (Layer.INVARIANT, JUDGE)
    assert "KeyError: 'a defect'" in finding.what


@pytest.mark.parametrize(
    ("value", "number"), [(None, None), ((7).to_bytes(8, "big"), 7), (b"\xff" * 8, -2), (b"\x01" * 40, -2)]
)
def test_every_value_fits_the_history(value: bytes | None, number: int | None) -> None:
    assert value_of(Record(0, 0, None, value)) == number
