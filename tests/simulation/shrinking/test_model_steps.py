"""Which events count as a step of a model, and which do not."""

from __future__ import annotations

from collections.abc import Sequence

from simulation.engine.event_queue import MS
from simulation.scenario import case as cases
from simulation.scenario.case import Case
from simulation.scenario.configuration import SimulatedFault
from simulation.shrinking.model_steps import ModelSteps
from tests.simulation.small import QUICK

SIMPLEST = {**QUICK, "partitions": 1, "producers": 1, "operations": 1, "idempotence": False}
SECOND_US = 1_000 * MS


def counted(faults: Sequence[SimulatedFault] = (), **overrides: object) -> tuple[ModelSteps, int]:
    """The steps of the simplest simulation, with the shortest latencies and one send; and the end of its set-up."""
    steps = ModelSteps()
    outcome = cases.run(Case(None, {**SIMPLEST, **overrides}, {}, tuple(faults)), (), (steps,))
    assert outcome.failure is None
    return steps, outcome.phases["set-up"][1]


def between(steps: ModelSteps, begin_us: int, end_us: int) -> int:
    return steps.after_time(begin_us) - steps.after_time(end_us)


def test_heartbeats_and_empty_fetches_stutter() -> None:
    steps, _ = counted()
    assert between(steps, 5 * SECOND_US, 12 * SECOND_US) == 0


def test_a_record_is_written_fetched_and_committed() -> None:
    """Written (1); two waiting fetches are answered (1 each), sent and received again (2 each), answered (1 each)."""
    steps, whole_us = counted()
    assert between(steps, whole_us, 5 * SECOND_US) == 9


def test_a_registration_that_is_refused_again_and_again_counts_once() -> None:
    """Until its former session has expired a broker is refused, four times a second."""
    kill = SimulatedFault(5_000, "kill", 2, 10, 0)
    soon, late = (counted([kill], session_timeout_ms=timeout)[0] for timeout in (1_500, 4_000))
    of_soon, of_late = (between(steps, 5 * SECOND_US - 1, 12 * SECOND_US) for steps in (soon, late))
    assert of_soon == of_late > 10
