"""What administrators and consumers in a rack are told: P-72 to P-74, and reassignments (P-A1)."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.broker_node.requests import configs, descriptions, follower_reads, forwarding
from broker.core.messages import (
    AnyResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingReassignment,
)
from broker.core.metadata.records import PartitionState
from simulation.invariants.administration.meanings import meaning
from simulation.invariants.knowledge import Version
from simulation.scenario.configuration import SimulatedFault
from simulation.workload.inquiries import ANSWERED
from tests.simulation.invariants.planting import observe

ASKING: dict[str, object] = {"inquiries": True, "group_members": 2, "duration_ms": 40_000}
LEADER_DIES = SimulatedFault(6_000, "kill", 6, 4_000, 0)


@pytest.mark.parametrize("racks", ["", "leader", "rack-aware"])
def test_an_administrator_who_asks_while_a_leader_dies_finds_nothing_wrong(racks: str) -> None:
    outcome = observe(faults=[LEADER_DIES], **ASKING, racks=racks)
    assert outcome.failure is None
    assert outcome.marks.get(ANSWERED.name, 0) > 10
    assert bool(outcome.marks.get(follower_reads.SENT_TO_FOLLOWER.name)) is (racks == "rack-aware")


def altered(monkeypatch: pytest.MonkeyPatch, module: Any, function: str, change: Any) -> None:
    honest = getattr(module, function)
    monkeypatch.setattr(module, function, lambda *arguments: change(honest(*arguments)))


def test_a_setting_that_is_described_with_another_value_breaks_p_72(monkeypatch: pytest.MonkeyPatch) -> None:
    def another(response: AnyResponse) -> AnyResponse:
        results = [
            result._replace(configs=tuple(one._replace(value=f"{one.value}0") for one in result.configs))
            for result in response.results  # type: ignore[union-attr]
        ]
        return response._replace(results=tuple(results))  # type: ignore[call-arg]

    altered(monkeypatch, configs, "describe", another)
    assert observe(**ASKING).failed_property == "P-72"


def test_a_partition_that_is_described_without_its_isr_breaks_p_72(monkeypatch: pytest.MonkeyPatch) -> None:
    altered(monkeypatch, descriptions, "_partition", lambda part: part._replace(isr=()))
    assert observe(**ASKING).failed_property == "P-72"


@pytest.mark.parametrize(("racks", "choice"), [("leader", 3), ("rack-aware", -1)])
def test_a_consumer_that_is_sent_elsewhere_than_the_selector_says_breaks_p_73(
    monkeypatch: pytest.MonkeyPatch, racks: str, choice: int
) -> None:
    monkeypatch.setattr(follower_reads, "preferred_replica", lambda *_: choice)
    assert observe(**ASKING, racks=racks).failed_property == "P-73"


def test_a_topic_that_a_client_names_and_nobody_creates_breaks_p_74(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "create_missing_topics", lambda *_: None)
    assert observe(**ASKING).failed_property == "P-74"


@pytest.mark.parametrize(
    ("told", "is_so"),
    [
        ((), False),
        ((OngoingReassignment("log", 0, (1, 2, 3), (3,), (1,)),), True),
        ((OngoingReassignment("log", 0, (1, 2, 3), (3,), ()),), False),
    ],
)
def test_a_reassignment_under_way_that_is_not_listed_as_it_is_breaks_p_a1(
    told: tuple[OngoingReassignment, ...], is_so: bool
) -> None:
    state = PartitionState((1, 2, 3), (1, 2), 1, 4, 9)._replace(adding=(3,), removing=(1,))
    version = Version({}, {"log": ("id", {0: state}, {})}, ({}, {}), 0)
    request, response = ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse(0, told)
    assert (meaning(request, response, [version], 2) == "") is is_so
