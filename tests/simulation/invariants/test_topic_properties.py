"""Topics that vanish, stay, or come back with what they had before break P-T1, P-T2 and V-12."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.broker_node import publishing, storage
from broker.core.broker_node.requests import fetch_sessions
from broker.core.controller.requests import topics
from broker.core.log.log import Log
from broker.core.messages import DeletedTopic, DeleteTopicsRequest, DeleteTopicsResponse, FetchPartition
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import TopicCreated, TopicDeleted
from simulation.invariants import metadata
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.properties import Violation
from simulation.scenario.configuration import SimulatedFault
from simulation.workload import side_topics
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
    monkeypatch.setattr(storage, "delete_logs", lambda _broker, _replicas: None)
    assert broken() == "V-12"


def test_a_fetch_that_waits_on_when_its_replica_is_removed_breaks_v_30(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep_waiting(broker: Any, replicas: Any) -> None:
        for replica in replicas:
            del broker.replicas[replica.key]
        storage.delete_logs(broker, replicas)

    monkeypatch.setattr(publishing, "_remove", keep_waiting)
    assert broken() == "V-30"


def test_a_new_topic_with_the_log_of_an_earlier_one_breaks_p_t2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "delete", lambda _log: None)
    assert broken() == "V-12"


def delete_unasked(known: Knowledge, *requests: DeleteTopicsRequest) -> None:
    """Commit the creation of a topic, and its deletion by what a controller appended for the last of these requests."""
    metadata.commit(known, [(3, TopicCreated("side", "first"))], 4)
    known.administered.committing = (1, 4)
    for offset, request in enumerate(requests, 5 - len(requests)):
        known.administered.deletions[1, offset] = request
    metadata.commit(known, [(4, TopicDeleted("first"))], 5)


def test_a_topic_that_nobody_wants_to_be_deleted_stays(knowledge: Knowledge) -> None:
    with pytest.raises(Violation, match=r"P-T1.*nobody"):
        delete_unasked(knowledge)


def test_a_topic_that_somebody_wants_to_be_deleted_goes(knowledge: Knowledge) -> None:
    delete_unasked(knowledge, DeleteTopicsRequest((("side", ""),)))
    assert "side" not in knowledge.image.topics


@pytest.mark.parametrize("asked", [("other", ""), (None, "second")])
def test_a_request_for_another_topic_excuses_no_deletion(knowledge: Knowledge, asked: tuple[str | None, str]) -> None:
    with pytest.raises(Violation, match="P-T1"):
        delete_unasked(knowledge, DeleteTopicsRequest((asked,)))


def test_an_earlier_request_excuses_no_deletion(knowledge: Knowledge) -> None:
    with pytest.raises(Violation, match="P-T1"):
        delete_unasked(knowledge, DeleteTopicsRequest((("side", ""),)), DeleteTopicsRequest((("other", ""),)))


def test_a_controller_that_dies_while_it_deletes_a_topic_may_have_deleted_it_once(knowledge: Knowledge) -> None:
    knowledge.administered.interrupted.append(DeleteTopicsRequest((("side", ""),)))
    delete_unasked(knowledge)
    metadata.commit(knowledge, [(5, TopicCreated("side", "second"))], 6)
    with pytest.raises(Violation, match="P-T1"):
        metadata.commit(knowledge, [(6, TopicDeleted("second"))], 7)


def test_a_deletion_that_takes_another_topic_along_breaks_p_t1(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = topics.delete

    def delete(controller: Any, request_id: int, request: DeleteTopicsRequest) -> None:
        for name in side_topics.NAMES:
            topic = controller.image.topics.get(name)
            if topic is not None and request.topics[0] not in ((name, ""), (None, topic.topic_id)):
                topics.changes.append(controller, [TopicDeleted(topic.topic_id)])
        honest(controller, request_id, request)

    monkeypatch.setattr(topics, "delete", delete)
    assert broken() == "P-T1"


def test_a_creation_that_is_acknowledged_and_not_committed_breaks_p_t1(monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(controller: Any, request_id: int, _request: Any, response: Any) -> None:
        controller.runtime.reply(request_id, response)

    monkeypatch.setattr(topics.changes, "reply", reply)
    assert broken() == "P-T1"


def ask_for_the_first_topic_of_each_name(monkeypatch: pytest.MonkeyPatch) -> None:
    first: dict[str, str] = {}

    def part(name: str, *position: int, topic_id: str) -> FetchPartition:
        return FetchPartition(name, *position, topic_id=first.setdefault(name, topic_id))

    monkeypatch.setattr(side_topics, "FetchPartition", part)


def test_records_of_another_topic_id_break_p_t2(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_for_the_first_topic_of_each_name(monkeypatch)
    monkeypatch.setattr(fetch_sessions, "_named", lambda part, _image: part)
    assert "P-T2" in {broken(seed) for seed in range(3)}


def test_a_reader_that_asks_for_a_deleted_topic_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_for_the_first_topic_of_each_name(monkeypatch)
    assert {broken(seed) for seed in range(3)} == {None}
