"""A cluster that does not become whole is reported by the most basic property that it lacks (V-1 … V-9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from broker.core.controller.requests.partitions import STRANDED
from broker.core.metadata.records import PartitionState
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import EventStep, Observer, SimulatedCluster
from simulation.invariants import liveness
from simulation.invariants.liveness import unmet
from simulation.invariants.properties import Violation, is_documented
from simulation.scenario.configuration import SimulatedFault
from simulation.scenario.phases import SimulationOutcome
from simulation.scenario.scenario import run
from tests.simulation.invariants.planting import SIMPLEST, Plant, change_rules, observe


class Judge(Plant):
    """Asks what is missing in the middle of a simulation, after doing something to it."""

    def __init__(self, act: Callable[[SimulatedCluster], object]) -> None:
        self.found = ""

        def lie(cluster: SimulatedCluster, step: EventStep) -> bool:
            act(cluster)
            self.found = unmet(cluster, "in a test").property_id
            return True

        super().__init__(lie, after_ms=6_000)


def unobserved(*plants: Observer, faults: Sequence[SimulatedFault]) -> SimulationOutcome:
    """Simulate without the observer, which would report V-14 before the faults have ended."""
    return run(ChoiceSequence(1), overrides=SIMPLEST, faults=list(faults), observers=plants)


def kill(*nodes: int) -> Callable[[SimulatedCluster], object]:
    return lambda cluster: [cluster.kill(node) for node in nodes]


@pytest.mark.parametrize(("act", "property_id"), [(kill(100, 101, 102), "V-9"), (kill(2), "V-1")])
def test_the_missing_property_is_named(act: Callable[[SimulatedCluster], object], property_id: str) -> None:
    judge = Judge(act)
    observe(judge)
    assert judge.found == property_id


def test_a_leader_without_an_answer_to_its_isr_change_breaks_v_7() -> None:
    plant = change_rules("isr", after_answer=lambda _error: None)
    metadata = change_rules("metadata", refreshes_leader=lambda: False)
    outcome = unobserved(plant, metadata, faults=[SimulatedFault(5_000, "kill", 2, 1_000, 0)])
    assert outcome.failed_property in ("V-7", "V-5")


def test_replicas_that_never_fetch_break_v_4_or_v_5() -> None:
    plant = change_rules("isr", has_caught_up=lambda *_ends: False)
    outcome = unobserved(plant, faults=[SimulatedFault(5_000, "kill", 2, 1_000, 0)])
    assert outcome.failed_property == "V-4"
    assert "ISR" in str(outcome.failure)


def test_a_violation_knows_its_property() -> None:
    assert str(Violation("V-4", "not whole")) == "V-4: not whole"


@pytest.mark.parametrize(
    ("generation", "state", "stranded", "documented"),
    [
        ("K4", {}, True, True),
        ("K5", {}, True, False),  # it asks the others for their logs
        ("K4", {}, False, False),  # nobody had accepted losses
        ("K4", {"last_known_elr": (2,)}, True, False),
        ("K4", {"elr": (2,)}, True, False),
        ("K4", {"isr": (2,), "leader": 2}, True, False),
    ],
)
def test_only_a_partition_of_which_an_operator_gave_up_all_may_wait_for_one(
    generation: str, state: dict[str, object], stranded: bool, documented: bool
) -> None:
    partition = PartitionState((1, 2, 3), (), -1, 4, 5)._replace(**state)
    cluster = cast("SimulatedCluster", SimpleNamespace(marks={STRANDED.name: 1} if stranded else {}))
    assert is_documented(liveness._with_excuse(cluster, generation, partition, "it waits")) == documented
