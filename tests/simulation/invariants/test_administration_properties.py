"""Administrators that are told what is not so break P-A1; records that nobody wanted deleted, P-D1."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.broker_node.requests import deletion, forwarding
from broker.core.controller import changes
from broker.core.controller.requests import configs, leader_elections, partitions, topics
from broker.core.log.log import Log
from broker.core.messages import (
    AlteredConfig,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ConfigOperation,
    ConfigResource,
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedRecords,
    ElectedPartition,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    NewTopic,
    Reassignment,
    ReassignmentResult,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import PartitionState
from simulation.invariants.administration.meanings import meaning
from simulation.invariants.knowledge import Version
from simulation.scenario.configuration import SimulatedFault
from tests.simulation.invariants.planting import Plant, observe, replica_of

ASKED = [
    SimulatedFault(at_ms, kind, 0, 4_000, parameter)
    for at_ms, kind, parameter in (
        (5_000, "reassignment", 1),
        (6_000, "preferred-election", 1),
        (7_000, "deleted-records", 300),
        (8_000, "changed-min-isr", 0),
        (9_000, "cancelled-reassignment", 0),
        (10_000, "deleted-records", 100),
        (11_000, "added-partition", 0),
        (12_000, "moved-leader", 250),
        (14_000, "preferred-election", 3),
    )
]
FOUR: dict[str, object] = {"brokers": 4, "combined": False}


def broken(**overrides: object) -> str | None:
    return observe(faults=ASKED, **{**FOUR, **overrides}).failed_property


def test_administrators_who_are_told_the_truth_break_nothing() -> None:
    assert broken() is None
    assert broken(side_topics=True) is None


def succeed(monkeypatch: pytest.MonkeyPatch, module: Any, function: str, answer: Any) -> None:
    """Let one function of the controller do nothing and answer that it has."""
    monkeypatch.setattr(module, function, lambda *_arguments, **_keywords: answer)


def test_a_reassignment_that_is_only_acknowledged_breaks_p_a1(monkeypatch: pytest.MonkeyPatch) -> None:
    succeed(monkeypatch, partitions, "_start", (ErrorCode.NONE, None))
    assert broken() == "P-A1"


def test_an_election_that_is_only_acknowledged_breaks_p_a1(monkeypatch: pytest.MonkeyPatch) -> None:
    def elect(_controller: Any, name: str, number: int, *, preferred: bool) -> ElectedPartition:
        return ElectedPartition(name, number, ErrorCode.NONE if preferred else ErrorCode.ELECTION_NOT_NEEDED)

    monkeypatch.setattr(leader_elections, "_elect", elect)
    assert broken() == "P-A1"


def test_a_setting_that_is_only_acknowledged_breaks_p_a1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs, "_change", lambda *_arguments: None)
    assert broken() == "P-A1"


def test_a_request_that_is_refused_and_done_breaks_p_a1(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = topics._add_partitions

    def add(*arguments: Any, **keywords: Any) -> int:
        honest(*arguments, **keywords)
        raise topics.Refused(ErrorCode.INVALID_PARTITIONS, "no")

    monkeypatch.setattr(topics, "_add_partitions", add)
    assert broken() == "P-A1"


def test_an_answer_before_the_commit_breaks_p_a1(monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(controller: Any, request_id: int, _request: Any, response: Any) -> None:
        controller.runtime.reply(request_id, response)

    monkeypatch.setattr(changes, "reply", reply)
    assert broken(side_topics=False) in ("P-A1", "P-T1")


def test_an_answer_that_no_controller_gave_breaks_p_a1(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(broker: Any, request_id: int, request: Any) -> None:
        if isinstance(request, AlterPartitionReassignmentsRequest):
            one = request.reassignments[0]
            done = ReassignmentResult(one.topic, one.partition, ErrorCode.NONE)
            broker.runtime.reply(request_id, AlterPartitionReassignmentsResponse(ErrorCode.NONE, (done,)))
        else:
            honest(broker, request_id, request)

    honest = forwarding.forward
    monkeypatch.setattr(forwarding, "forward", forward)
    assert broken() == "P-A1"


def test_records_that_are_not_deleted_though_it_is_acknowledged_break_p_a1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "advance_start", lambda _log, _offset: None)
    assert broken() == "P-A1"


def test_more_records_deleted_than_asked_for_break_p_d1(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = deletion._delete

    def delete(broker: Any, part: Any) -> DeletedRecords:
        return honest(broker, part._replace(offset=max(0, broker.replicas[part.topic, part.partition].high_watermark)))

    monkeypatch.setattr(deletion, "_delete", delete)
    assert broken() == "P-D1"


def test_a_log_start_that_moves_by_itself_breaks_p_d1() -> None:
    def lie(cluster: Any, step: Any) -> bool:
        replica = replica_of(cluster, step)
        if replica is None or replica.role.value != "leader" or replica.high_watermark < 3:
            return False
        replica.log.advance_start(2)
        return True

    plant = Plant(lie)
    assert observe(plant).failed_property == "P-D1"


def test_a_follower_that_deletes_what_its_leader_keeps_breaks_p_d1() -> None:
    def lie(cluster: Any, step: Any) -> bool:
        replica = replica_of(cluster, step)
        if replica is None or replica.role.value != "follower" or replica.high_watermark < 3:
            return False
        replica.log.advance_start(2)
        return True

    assert observe(Plant(lie)).failed_property == "P-D1"


# --- what answers mean ------------------------------------------------------------------------------------------------

IDLE = PartitionState((1, 2, 3), (1, 2, 3), 1, 0, 0)
MOVING = IDLE._replace(replicas=(2, 3, 4, 1), adding=(4,), removing=(1,))


def version(state: PartitionState | None = IDLE, **settings: str) -> Version:
    topics_of = {} if state is None else {"log": ("id", {0: state}, dict(settings))}
    return Version({}, topics_of, ({}, {}), 0)  # type: ignore[arg-type]


def reassigned(replicas: tuple[int, ...] | None, error: ErrorCode, *versions: Version) -> str:
    request = AlterPartitionReassignmentsRequest((Reassignment("log", 0, replicas),))
    result = ReassignmentResult("log", 0, error)
    return meaning(request, AlterPartitionReassignmentsResponse(ErrorCode.NONE, (result,)), versions)


@pytest.mark.parametrize(
    ("replicas", "error", "before", "after", "is_so"),
    [
        ((2, 3, 4), ErrorCode.NONE, IDLE, MOVING, True),
        ((2, 3, 4), ErrorCode.NONE, IDLE, IDLE, False),
        ((2, 3, 4), ErrorCode.INVALID_REPLICA_ASSIGNMENT, IDLE, MOVING, False),
        (None, ErrorCode.NONE, MOVING, IDLE, True),
        (None, ErrorCode.NONE, MOVING, MOVING, False),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, IDLE, IDLE, True),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, MOVING, MOVING, False),
        (None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, None, True),
        (None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, IDLE, IDLE, False),
    ],
)
def test_the_meaning_of_an_answer_to_a_reassignment(
    replicas: tuple[int, ...] | None,
    error: ErrorCode,
    before: PartitionState | None,
    after: PartitionState | None,
    is_so: bool,
) -> None:
    assert (reassigned(replicas, error, version(before), version(after)) == "") is is_so


def altered(error: ErrorCode, before: Version, after: Version, value: str | None = "7") -> str:
    operation = ConfigOperation("segment.bytes", 1 if value is None else 0, value)
    request = IncrementalAlterConfigsRequest((ConfigResource(2, "log", (operation,)),))
    return meaning(request, IncrementalAlterConfigsResponse((AlteredConfig(error, None, 2, "log"),)), [before, after])


def test_the_meaning_of_an_answer_to_a_change_of_settings() -> None:
    changed = version(**{"segment.bytes": "7"})
    assert altered(ErrorCode.NONE, version(), changed) == ""
    assert altered(ErrorCode.NONE, changed, version(), None) == ""
    assert altered(ErrorCode.NONE, version(), version())
    assert altered(ErrorCode.NONE, version(), version(**{"segment.bytes": "7", "flush.ms": "1"}))
    assert altered(ErrorCode.INVALID_CONFIG, version(), changed)
    assert altered(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, version(), version())


def created(error: ErrorCode, before: Version, after: Version, topic_id: str = "id") -> str:
    request = CreateTopicsRequest((NewTopic("log", 1, 3),))
    return meaning(request, CreateTopicsResponse((CreatedTopic("log", error, None, topic_id, 1, 3),)), [before, after])


def test_the_meaning_of_an_answer_to_a_creation() -> None:
    nothing = version(None)
    assert created(ErrorCode.NONE, nothing, version()) == ""
    assert created(ErrorCode.NONE, nothing, version(), topic_id="other")
    assert created(ErrorCode.NONE, version(), version())
    assert created(ErrorCode.NONE, nothing, version(IDLE._replace(replicas=(1, 2))))
    assert created(ErrorCode.TOPIC_ALREADY_EXISTS, version(), version()) == ""
    assert created(ErrorCode.TOPIC_ALREADY_EXISTS, nothing, nothing)
    assert created(ErrorCode.INVALID_PARTITIONS, nothing, version())


def placed(replicas: tuple[int, ...]) -> str:
    request = CreateTopicsRequest((NewTopic("log", assignments=((0, replicas),)),))
    answer = CreateTopicsResponse((CreatedTopic("log", ErrorCode.NONE, None, "id", 1, 3),))
    return meaning(request, answer, [version(None), version()])


def test_a_topic_has_the_replicas_that_its_creation_named() -> None:
    assert placed((1, 2, 3)) == ""
    assert placed((1, 2))
    assert placed((3, 2, 1))
