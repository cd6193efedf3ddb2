"""Real failures shrink to what they need."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from nemesis.targets import Trigger
from simulation.engine.choices import STREAMS
from simulation.invariants.observer import property_observers
from simulation.runs.failures import Layer
from simulation.scenario.case import Case, run
from simulation.scenario.configuration import SimulatedFault
from simulation.shrinking import reduce as module
from simulation.shrinking.reduce import SHAPE, ShrinkTarget, failing, reduce
from tests.simulation.small import quick

FAULTS = ("kill", "pause", "clock-jump")


def test_a_broker_that_acknowledges_too_early_needs_one_send() -> None:
    outcome, finding = failing(quick(1, flaws=("ack-before-replication",)))
    assert finding is not None
    small = reduce(outcome, ShrinkTarget(finding.layer, finding.property_id), 1)
    assert len(small.choice_file.faults) <= 1
    assert small.choice_file.configuration.operations == 1
    assert small.steps <= 12


def test_what_comes_after_the_failure_goes_first() -> None:
    """Cut off before anything is tried, so that it is gone even if there is no time to try anything."""
    outcome, finding = failing(quick(1, flaws=("ack-before-replication",), faults=FAULTS))
    assert finding is not None
    failed_ms = run(quick(1, flaws=("ack-before-replication",), faults=FAULTS), property_observers()).virtual_ms
    assert any(fault.at_ms > failed_ms for fault in outcome.faults)
    cut = reduce(outcome, ShrinkTarget(finding.layer, finding.property_id), 1, stopped=lambda: True)
    assert all(fault.at_ms <= failed_ms for fault in cut.choice_file.faults)


@pytest.mark.slow
def test_an_isr_that_shrinks_too_early_needs_no_fault() -> None:
    outcome, finding = failing(quick(25, flaws=("eager-shrink",), duration_ms=20_000))
    assert finding is not None
    end_s = time.monotonic() + 40  # what is left after that is noise
    small = reduce(
        outcome, ShrinkTarget(finding.layer, finding.property_id), 1, stopped=lambda: time.monotonic() > end_s
    )
    assert (len(small.choice_file.faults), small.choice_file.configuration.operations) == (0, 1)
    assert small.steps <= 15, "three times the shortest schedule that is known"


def test_what_only_observers_see_make_no_progress_is_kept() -> None:
    """V-14 is judged while the faults go on."""
    outcome, finding = failing(Case(1, {"search": "mixed", "flaws": ("epoch-cached-at-first-append",)}))
    assert finding is not None
    assert (finding.layer, finding.property_id) == (Layer.LIVENESS, "V-14")
    small = reduce(outcome, ShrinkTarget(finding.layer, finding.property_id), 1, stopped=lambda: True)
    assert small.choice_file.property_id == "V-14"


def test_a_candidate_that_is_busy_for_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the usual room this failure needs one send; without room for its events no candidate can show it."""
    monkeypatch.setattr(module, "EVENTS_TIMES", 0)
    monkeypatch.setattr(module, "EVENTS_MIN", 10)
    outcome, finding = failing(quick(1, flaws=("ack-before-replication",)))
    assert finding is not None
    budget = iter(range(30))
    small = reduce(
        outcome, ShrinkTarget(finding.layer, finding.property_id), 1, stopped=lambda: next(budget, None) is None
    )
    assert small.tried > 0
    assert small.choice_file.configuration.operations == outcome.configuration.operations > 1


def test_faults_that_wait_for_a_condition_are_refused() -> None:
    outcome, _ = failing(quick(1))
    waits = SimulatedFault(1_000, "kill", 0, 500, 0, Trigger("isr-at-most"))
    with pytest.raises(ValueError, match="waits for a condition"):
        reduce(replace(outcome, faults=(waits,)), ShrinkTarget(Layer.INVARIANT, "P-2"), 1)


def test_every_stream_of_choices_is_shrunk() -> None:
    """What has no lane is lost with the first step: then a failure that needs it cannot get smaller."""
    assert set(STREAMS) <= set(SHAPE)
