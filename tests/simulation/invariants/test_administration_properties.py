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
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedRecords,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectedPartition,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    NamedResult,
    NewPartitions,
    NewTopic,
    Reassignment,
    ReassignmentResult,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import BrokerImage
from broker.core.metadata.records import PartitionState
from simulation.invariants.administration import refusals
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
ONE_IS_LEFT = MOVING._replace(isr=(1,), leader=1)
NONE_IS_LEFT = MOVING._replace(isr=(4,), leader=4)


BROKERS = {
    broker_id: BrokerImage(broker_id, broker_id, "", (), None, fenced=broker_id == 4, in_controlled_shutdown=False)
    for broker_id in range(1, 5)
}
"""Four are registered; the last is fenced."""


def version(state: PartitionState | None = IDLE, **settings: str) -> Version:
    topics_of = {} if state is None else {"log": ("id", {0: state}, dict(settings))}
    return Version(BROKERS, topics_of, ({}, {}), 0)  # type: ignore[arg-type]


def reassigned(replicas: tuple[int, ...] | None, error: ErrorCode, *versions: Version) -> str:
    request = AlterPartitionReassignmentsRequest((Reassignment("log", 0, replicas),))
    result = ReassignmentResult("log", 0, error)
    return meaning(request, AlterPartitionReassignmentsResponse(ErrorCode.NONE, (result,)), versions, 2)


@pytest.mark.parametrize(
    ("replicas", "error", "before", "after", "is_so"),
    [
        ((2, 3, 4), ErrorCode.NONE, IDLE, MOVING, True),
        ((2, 3, 4), ErrorCode.NONE, IDLE, IDLE, False),
        ((2, 3, 4), ErrorCode.INVALID_REPLICA_ASSIGNMENT, IDLE, MOVING, False),
        ((2, 3, 4), ErrorCode.INVALID_REPLICA_ASSIGNMENT, IDLE, IDLE, False),
        ((2, 3, 5), ErrorCode.INVALID_REPLICA_ASSIGNMENT, IDLE, IDLE, True),
        ((2, 2, 3), ErrorCode.INVALID_REPLICA_ASSIGNMENT, IDLE, IDLE, True),
        ((2, 3, 4), ErrorCode.INVALID_REPLICATION_FACTOR, IDLE, IDLE, False),
        ((2, 3), ErrorCode.INVALID_REPLICATION_FACTOR, IDLE, IDLE, True),
        ((2, 3, 4), ErrorCode.INVALID_REQUEST, IDLE, IDLE, False),
        (None, ErrorCode.NONE, IDLE, IDLE, False),
        ((2, 3, 4), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, IDLE, IDLE, False),
        (None, ErrorCode.INVALID_REPLICA_ASSIGNMENT, MOVING, MOVING, False),
        (None, ErrorCode.INVALID_REPLICA_ASSIGNMENT, ONE_IS_LEFT, ONE_IS_LEFT, False),
        (None, ErrorCode.INVALID_REPLICA_ASSIGNMENT, NONE_IS_LEFT, NONE_IS_LEFT, True),
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
    answer = IncrementalAlterConfigsResponse((AlteredConfig(error, None, 2, "log"),))
    return meaning(request, answer, [before, after], 2)


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
    answer = CreateTopicsResponse((CreatedTopic("log", error, None, topic_id, 1, 3),))
    return meaning(request, answer, [before, after], 2)


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
    return meaning(request, answer, [version(None), version()], 2)


def test_a_topic_has_the_replicas_that_its_creation_named() -> None:
    assert placed((1, 2, 3)) == ""
    assert placed((1, 2))
    assert placed((3, 2, 1))


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REQUEST,
    ],
)
def test_a_topic_that_could_be_created_is_not_refused(error: ErrorCode) -> None:
    assert created(error, version(None), version(None))


@pytest.mark.parametrize(
    ("new", "error"),
    [
        (NewTopic("log", 0, 3), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("log", 1, 5), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("log", 1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("l/g", 1, 3), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("log", 1, 3, configs=(("segment.bytes", "-1"),)), ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_refused_creation_has_its_reason(new: NewTopic, error: ErrorCode) -> None:
    assert refusals.of_creation(new, error, version(None))
    assert not refusals.of_creation(new, ErrorCode.INVALID_RECORD, version(None))


def test_the_meaning_of_an_answer_to_a_growth() -> None:
    def grown(count: int, error: ErrorCode, before: Version) -> str:
        request = CreatePartitionsRequest((NewPartitions("log", count),))
        return meaning(request, CreatePartitionsResponse((NamedResult("log", error),)), [before, before], 2)

    assert grown(1, ErrorCode.INVALID_PARTITIONS, version()) == ""
    assert grown(2, ErrorCode.INVALID_PARTITIONS, version())
    assert grown(2, ErrorCode.INVALID_REPLICA_ASSIGNMENT, version())
    assert grown(2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, version())
    assert grown(2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, version(None)) == ""


def test_the_meaning_of_an_answer_to_a_deletion() -> None:
    def deleted(name: str | None, topic_id: str, error: ErrorCode, before: Version) -> str:
        request = DeleteTopicsRequest(((name, topic_id),))
        return meaning(request, DeleteTopicsResponse((DeletedTopic(name, topic_id, error),)), [before, before], 2)

    assert deleted("log", "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, version(None)) == ""
    assert deleted("log", "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, version())
    assert deleted("log", "", ErrorCode.UNKNOWN_TOPIC_ID, version(None))
    assert deleted(None, "id", ErrorCode.UNKNOWN_TOPIC_ID, version())
    assert deleted(None, "other", ErrorCode.UNKNOWN_TOPIC_ID, version()) == ""
    assert deleted("log", "", ErrorCode.INVALID_REQUEST, version())


def test_a_legal_value_is_not_refused_and_another_is() -> None:
    assert altered(ErrorCode.INVALID_CONFIG, version(), version())
    assert altered(ErrorCode.INVALID_CONFIG, version(), version(), "-1") == ""
    assert altered(ErrorCode.INVALID_CONFIG, version(), version(), "many") == ""
    assert altered(ErrorCode.NONE, version(), version(**{"segment.bytes": "-1"}), "-1")
    assert altered(ErrorCode.BROKER_ID_NOT_REGISTERED, version(), version())
    assert altered(ErrorCode.INVALID_CONFIG, version(), version(), None)


LEADERLESS = IDLE._replace(leader=-1, isr=(), elr=(2,))


@pytest.mark.parametrize(
    ("kind", "error", "state", "is_so"),
    [
        (0, ErrorCode.ELECTION_NOT_NEEDED, IDLE, True),
        (0, ErrorCode.ELECTION_NOT_NEEDED, IDLE._replace(leader=2), False),
        (0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, IDLE._replace(leader=2), False),
        (0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, IDLE._replace(leader=2, isr=(2, 3)), True),
        (0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, LEADERLESS, False),
        (0, ErrorCode.REQUEST_TIMED_OUT, LEADERLESS, False),
        (1, ErrorCode.ELECTION_NOT_NEEDED, IDLE, True),
        (1, ErrorCode.ELECTION_NOT_NEEDED, LEADERLESS, False),
        (1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, LEADERLESS, True),
        (1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, IDLE, False),
        (1, ErrorCode.REQUEST_TIMED_OUT, LEADERLESS, True),
        (1, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, LEADERLESS, False),
        (1, ErrorCode.INVALID_REQUEST, LEADERLESS, False),
    ],
)
def test_the_meaning_of_an_answer_to_an_election(
    kind: int, error: ErrorCode, state: PartitionState, is_so: bool
) -> None:
    request = ElectLeadersRequest(kind, (("log", 0),))
    answer = ElectLeadersResponse(ErrorCode.NONE, (ElectedPartition("log", 0, error),))
    assert (meaning(request, answer, [version(state)], 2) == "") is is_so


def test_an_answer_to_an_election_leaves_out_only_what_needs_none() -> None:
    nothing = ElectLeadersResponse(ErrorCode.NONE, ())
    assert meaning(ElectLeadersRequest(0, None), nothing, [version()], 2) == ""
    assert meaning(ElectLeadersRequest(0, None), nothing, [version(IDLE._replace(leader=2))], 2)
    assert meaning(ElectLeadersRequest(0, (("log", 0),)), nothing, [version()], 2)


def test_a_controller_that_refuses_every_alteration_breaks_p_a1(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: Any) -> None:
        raise configs.Refused(ErrorCode.INVALID_REQUEST, "no")

    monkeypatch.setattr(configs, "_of_operations", refuse)
    assert broken() == "P-A1"
