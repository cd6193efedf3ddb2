"""Topics that vanish, stay, or come back with what they had before break P-T1, P-T2 and V-12."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.broker_node import publishing
from broker.core.controller.requests import topics
from broker.core.log.log import Log
from broker.core.messages import DeletedTopic, DeleteTopicsRequest, DeleteTopicsResponse
from broker.core.messages.errors import ErrorCode
from simulation.scenario.configuration import SimulatedFault
from simulation.workload.side_topics import AGAIN, READ
from tests.simulation.invariants.planting import observe

SHAKEN = tuple(SimulatedFault(at_ms, "kill", node, 3_000, 0) for node, at_ms in enumerate((5_000, 9_000, 13_000)))
LONG = {"duration_ms": 30_000, "side_topics": True}


def broken(seed: int = 1) -> str | None:
    return observe(faults=SHAKEN, seed=seed, **LONG).failed_property


def test_topics_come_and_go_while_brokers_are_killed() -> None:
    outcomes = [observe(faults=SHAKEN, seed=seed, **LONG) for seed in range(3)]
    assert {outcome.failure for outcome in outcomes} == {None}
    for mark in (AGAIN, READ):
        assert any(outcome.marks.get(mark.name) for outcome in outcomes), mark.name


def test_a_deletion_that_is_acknowledged_and_not_done_breaks_p_t1(monkeypatch: pytest.MonkeyPatch) -> None:
    def delete(controller: Any, request_id: int, request: DeleteTopicsRequest) -> None:
        image = controller.image
        found = [name or image.topic_names.get(topic_id, "") for name, topic_id in request.topics]
        answers = tuple(
            DeletedTopic(name, image.topics[name].topic_id, ErrorCode.NONE) for name in found if name in image.topics
        )
        controller.runtime.reply(request_id, DeleteTopicsResponse(answers))

    monkeypatch.setattr(topics, "delete", delete)
    assert broken() == "P-T1"


def test_a_topic_that_gets_the_id_of_an_earlier_one_breaks_p_t2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_topic_id", lambda _controller, name: f"id of {name}")
    assert broken() == "P-T2"


def test_a_log_that_outlives_its_topic_breaks_v_12(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(broker: Any, replicas: Any) -> None:
        for replica in replicas:
            del broker.replicas[replica.key]

    monkeypatch.setattr(publishing, "_remove", keep)
    assert broken() == "V-12"


def test_a_new_topic_with_the_log_of_an_earlier_one_breaks_p_t2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "delete", lambda _log: None)
    assert broken() == "V-12"
