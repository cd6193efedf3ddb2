"""Real failures shrink to what they need."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.simulation.findings import Layer
from harness.simulation.reduce import Target, failing, reduce
from harness.simulation.schedule import Fault
from nemesis.triggers import Trigger
from tests.simulation.small import quick


def test_a_broker_that_acknowledges_too_early_needs_one_send() -> None:
    outcome, finding = failing(quick(1, flaws=("ack-before-replication",)))
    assert finding is not None
    small = reduce(outcome, Target(finding.layer, finding.property_id), 1)
    assert len(small.tape.faults) <= 1
    assert small.tape.configuration.operations == 1
    assert small.steps <= 12


@pytest.mark.slow
def test_an_isr_that_shrinks_too_early_needs_no_fault() -> None:
    outcome, finding = failing(quick(6, flaws=("eager-shrink",), duration_ms=20_000))
    assert finding is not None
    small = reduce(outcome, Target(finding.layer, finding.property_id), 1)
    assert (len(small.tape.faults), small.tape.configuration.operations) == (0, 1)
    assert small.steps <= 15, "three times the shortest schedule that is known"


def test_faults_that_wait_for_a_condition_are_refused() -> None:
    outcome, _ = failing(quick(1))
    waits = Fault(1_000, "kill", 0, 500, 0, Trigger("isr-at-most"))
    with pytest.raises(ValueError, match="waits for a condition"):
        reduce(replace(outcome, faults=(waits,)), Target(Layer.INVARIANT, "P-2"), 1)
