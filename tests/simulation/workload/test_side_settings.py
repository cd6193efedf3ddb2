"""Settings that an operator alters at run time are in force on every log, and restored at last (P-31, P-32)."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.broker_node import publishing
from broker.core.log.log import Log
from broker.core.messages.errors import ErrorCode
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.node_views import leading
from simulation.runs.sweep import simulate
from simulation.scenario.configuration import SimulatedFault
from simulation.scenario.scenario import run
from simulation.workload.clients import TOPIC
from simulation.workload.side_settings import ALTERED, LOSSES_ACCEPTED, REFUSED
from tests.simulation.invariants.planting import SIMPLEST, observe

SHAKEN = tuple(SimulatedFault(at_ms, "kill", node, 3_000, 0) for node, at_ms in enumerate((5_000, 9_000, 13_000)))
LONG: dict[str, object] = {"duration_ms": 30_000, "changing_settings": True}


def broken(seed: int = 1, **overrides: object) -> str | None:
    return observe(faults=SHAKEN, seed=seed, **{**LONG, **overrides}).failed_property


def test_settings_change_while_brokers_are_killed() -> None:
    outcomes = [observe(faults=SHAKEN, seed=seed, **LONG) for seed in range(3)]
    assert {outcome.failure for outcome in outcomes} == {None}
    for mark in (ALTERED, REFUSED, LOSSES_ACCEPTED):
        assert any(outcome.marks.get(mark.name) for outcome in outcomes), mark.name


def test_settings_of_a_compacted_topic_change() -> None:
    assert {broken(seed, compacted=True) for seed in range(2)} == {None}


def test_a_log_that_was_compacted_for_what_an_unclean_election_gave_up_lacks_batches_of_producers() -> None:
    assert (
        simulate(
            1_520_524, {"changing_settings": True, "compacted": True, "log_directories": 1}, observed=True
        ).findings
        == ()
    )


def test_a_deposed_leader_commits_nothing_by_the_settings_that_came_with_its_deposition() -> None:
    assert simulate(1_520_710, {"changing_settings": True, "side_topics": True}, observed=True).findings == ()


class Last:
    """Remembers the settings that the active controller has."""

    def __init__(self) -> None:
        self.of_topic: dict[str, str] = {}
        self.of_all: dict[str, str] = {}

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        controller = leading(cluster)
        if controller is not None and TOPIC in controller.image.topics:
            self.of_topic = dict(controller.image.topics[TOPIC].configs)
            self.of_all = dict(controller.image.configs)

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """Nothing to do."""


def test_all_settings_are_restored_at_last() -> None:
    last = Last()
    overrides = {**SIMPLEST, **LONG, "segment_bytes": 1_000, "index_interval_bytes": 200}
    outcome = run(ChoiceSequence(1), overrides=overrides, faults=list(SHAKEN), observers=[last])
    assert outcome.failure is None
    min_isr = last.of_topic.pop("min.insync.replicas", "2")
    assert last.of_topic == {"segment.bytes": "1000", "index.interval.bytes": "200"}
    assert (min_isr, last.of_all) == ("2", {"min.insync.replicas": "2"})


def test_the_operator_changes_nothing_of_seeds_without_one() -> None:
    without = [run(ChoiceSequence(3), overrides={**SIMPLEST, **more}, faults=[]) for more in ({}, {"brokers": 3})]
    assert without[0].digest == without[1].digest
    assert without[0].values["settings"] == []


def test_a_log_that_keeps_its_old_settings_breaks_p_32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "_reconfigure", lambda *_arguments: None)
    assert broken() == "P-32"


def test_a_compacted_topic_that_is_compacted_no_more_and_is_breaks_p_32(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = publishing._reconfigure

    def reconfigure(broker: Any, replica: Any, config: Any) -> None:
        honest(broker, replica, config._replace(compaction=config.compaction or replica.log.config.compaction))

    monkeypatch.setattr(publishing, "_reconfigure", reconfigure)
    assert "P-32" in {broken(seed, compacted=True) for seed in range(2)}


def test_a_batch_of_a_legal_size_that_is_refused_breaks_p_31(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if max.message.bytes were that of another topic."""
    honest = Log.check_batches

    def check(log: Log, records: bytes) -> Any:
        return ErrorCode.MESSAGE_TOO_LARGE if len(records) > 90 else honest(log, records)

    monkeypatch.setattr(Log, "check_batches", check)
    assert broken() == "P-31"
