"""Brokers that do not register break V-17; nodes that do not follow the metadata, V-18."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.broker_node import lifecycle, publishing
from broker.core.quorum import replication
from simulation.runs.sweep import simulate
from simulation.scenario.configuration import SimulatedFault
from tests.simulation.invariants.planting import observe

LONG = {"duration_ms": 60_000}
RESTART = SimulatedFault(5_000, "kill", 1, 1_000, 0)
RESTARTED = 2
"""The id of the broker that target 1 is, which a fault restarts."""

CONTROLLER_DOWN = SimulatedFault(4_000, "kill", 5, 50_000, 0)
CHANGES = [SimulatedFault(5_000 + 1_000 * number, "reassignment", 0, 4_000, number) for number in range(20)]


def broken(*faults: SimulatedFault) -> str | None:
    return observe(faults=list(faults), **LONG).failed_property


def register_never_again(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = lifecycle.register

    def register(broker: Any) -> None:
        if broker.incarnation_id == f"{broker.broker_id}/1":
            honest(broker)

    monkeypatch.setattr(lifecycle, "register", register)


def stop_fetching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one broker ask for no metadata after a while."""
    honest = publishing.fetch

    def fetch(broker: Any) -> None:
        if broker.broker_id != RESTARTED or broker.runtime.now_ms < 4_900:
            honest(broker)

    monkeypatch.setattr(publishing, "fetch", fetch)


def test_brokers_that_start_again_and_follow_the_metadata_break_nothing() -> None:
    assert broken(RESTART, *CHANGES) is None


def test_a_broker_that_does_not_register_again_breaks_v_17(monkeypatch: pytest.MonkeyPatch) -> None:
    register_never_again(monkeypatch)
    assert broken(RESTART) == "V-17"


def test_a_controller_that_is_down_excuses_no_broker_that_is_not_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    register_never_again(monkeypatch)
    assert broken(RESTART, CONTROLLER_DOWN) == "V-17"


def test_a_broker_that_is_cut_off_need_not_be_registered() -> None:
    assert broken(RESTART, SimulatedFault(5_500, "isolate", 1, 50_000, 0)) is None


def test_a_broker_that_does_not_follow_the_metadata_breaks_v_18(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_fetching(monkeypatch)
    assert broken(*CHANGES) == "V-18"


def test_a_controller_that_is_down_excuses_nobody_who_does_not_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_fetching(monkeypatch)
    assert broken(CONTROLLER_DOWN, *CHANGES) == "V-18"


def test_a_broker_whose_answers_are_lost_may_ask_a_frozen_voter_first() -> None:
    """In this seed three of twelve answers, with a record each, are lost; each time it asks a frozen voter for 3 s."""
    assert not simulate(5002531, {"search": "usual"}, observed=True).findings


def test_a_broker_may_ask_both_voters_that_it_cannot_reach_before_the_one_that_it_can() -> None:
    """In this seed a partition ends before another one, so that the broker reaches the active controller alone."""
    assert not simulate(31003836, {"search": "mixed"}, observed=True).findings


def test_lost_answers_excuse_nobody_who_asks_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_fetching(monkeypatch)
    assert observe(faults=CHANGES, answer_lost_of_1000=50, **LONG).failed_property == "V-18"


def test_a_broker_that_is_cut_off_need_not_follow() -> None:
    assert broken(SimulatedFault(4_900, "isolate", 1, 50_000, 0), *CHANGES) is None


def test_a_standby_controller_that_commits_nothing_breaks_v_18(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = replication.fetched

    def fetched(quorum: Any, leader: int, request: Any, response: Any) -> None:
        before = quorum.high_watermark
        honest(quorum, leader, request, response)
        if quorum.high_watermark > before and quorum.runtime.now_ms > 4_900:
            quorum.high_watermark = before

    monkeypatch.setattr(replication, "fetched", fetched)
    assert broken(*CHANGES) == "V-18"
