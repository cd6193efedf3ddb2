"""The examination of healed brokers passes the correct build, and finds what no reader would (P-E1 to P-E5)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.core.broker_node.groups import state as groups
from broker.core.broker_node.requests import descriptions, follower_reads, producers, producing, queries
from broker.core.configuration import alteration
from broker.core.controller.requests import configs, topics
from broker.core.log.compaction import filtering
from broker.core.log.log import Log
from broker.core.messages import (
    CreateTopicsRequest,
    DescribedProducer,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    ElectLeadersResponse,
    FetchRequest,
    MetadataBroker,
    MetadataResponse,
    MetadataTopic,
)
from broker.core.messages.errors import ErrorCode
from broker.core.records import uncompressed, unfolded
from broker.core.replica import intake
from simulation.examination import reading
from simulation.examination.examiner import Examiner, WrongAnswer, errors_of
from simulation.scenario.configuration import EXAMINATIONS
from simulation.scenario.phases import SimulationOutcome
from tests.simulation.invariants.planting import observe

Patch = Callable[[pytest.MonkeyPatch], None]


def examined(kind: str, **overrides: object) -> SimulationOutcome:
    """A quiet simulation that ends with questions of one kind."""
    return observe(duration_ms=3_000, operations=10, polls=10, examination=kind, **overrides)


@pytest.mark.parametrize("kind", EXAMINATIONS)
@pytest.mark.parametrize(
    "shape", [{}, {"combined": True, "brokers": 3}, {"generation": "K1"}, {"compacted": True}, {"racks": 2}]
)
def test_the_correct_build_passes(kind: str, shape: dict[str, object]) -> None:
    assert examined(kind, **shape).failure is None


def wrong_pages(patch: pytest.MonkeyPatch) -> None:
    honest = descriptions.topic_partitions
    patch.setattr(descriptions, "topic_partitions", lambda *asked: honest(*asked)._replace(next_cursor=None))


def longer_pages(patch: pytest.MonkeyPatch) -> None:
    honest = descriptions.topic_partitions

    def described(broker: Any, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        return honest(broker, request._replace(partition_limit=max(request.partition_limit, 4)))

    patch.setattr(descriptions, "topic_partitions", described)


def unknown_names(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queries, "is_legal_name", lambda _name: True)


def producers_without_times(patch: pytest.MonkeyPatch) -> None:
    honest = producers._producer

    def described(*asked: Any) -> DescribedProducer:
        return honest(*asked)._replace(last_timestamp=-1)

    patch.setattr(producers, "_producer", described)


def unconverted_batches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producing, "taken", lambda _intake, records, header, *_limits: (records, header))


def larger_batches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(intake, "uncompressed", lambda body, header: uncompressed(body, header, 1 << 30))
    patch.setattr(filtering, "unfolded", lambda batch: unfolded(batch, 0, 1 << 30))


def refusals_in_pieces(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(alteration.Refused, "__init__", lambda refused, error, _text: setattr(refused, "error", error))


def repeated_settings(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(configs, "refuse_repeated", lambda _keys: None)


def members_without_metadata(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(groups.Member, "metadata_for", lambda _member, _protocol: b"")


@pytest.mark.parametrize(
    ("kind", "plant", "breaks"),
    [
        ("describing", wrong_pages, "P-E1"),
        ("describing", longer_pages, "P-E1"),
        ("describing", unknown_names, "P-E1"),
        ("reading", producers_without_times, "P-E2"),
        ("writing", unconverted_batches, "P-E3"),
        ("writing", larger_batches, "P-31"),
        ("administering", refusals_in_pieces, "P-E4"),
        ("administering", repeated_settings, "P-E4"),
        ("grouping", members_without_metadata, "P-E5"),
    ],
)
def test_each_kind_of_question_finds_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, kind: str, plant: Patch, breaks: str
) -> None:
    plant(monkeypatch)
    assert examined(kind).failed_property == breaks


@pytest.mark.parametrize("to", [{"elsewhere": 1}, {"rack 0": -1, "rack 1": -1}, {}])
def test_advice_that_does_not_go_by_the_racks_is_found(monkeypatch: pytest.MonkeyPatch, to: dict[str, int]) -> None:
    honest = follower_reads.preferred_replica

    def advised(broker: Any, replica: Any, rack: str, part: Any) -> int:
        return to.get(rack, honest(broker, replica, rack, part))

    monkeypatch.setattr(follower_reads, "preferred_replica", advised)
    assert examined("reading", racks=2).failed_property == ("P-E2" if to else None)


@pytest.mark.parametrize(("of_follower", "as_expected"), [("c d", True), ("d", False), ("", False)])
def test_of_a_follower_that_has_deleted_more_only_what_it_still_has_is_asked(
    monkeypatch: pytest.MonkeyPatch, of_follower: str, as_expected: bool
) -> None:
    """As after an unclean election of a leader that had deleted less; P-D1 judges who deletes what nobody asked for."""
    asked = []

    def fetched(_examiner: Any, _cluster: Any, broker: int, request: FetchRequest) -> Any:
        asked.append(request.partitions[0].fetch_offset)
        return SimpleNamespace(partitions=(SimpleNamespace(records=of_follower if broker == 2 else "c d"),))

    def log_from(start: int) -> Any:
        return SimpleNamespace(topic="t", partition=0, broker_id=1, log=SimpleNamespace(start_offset=start))

    follower = SimpleNamespace(replicas={("t", 0): log_from(3)})
    monkeypatch.setattr(reading, "brokers_up", lambda _: [(2, follower)])
    monkeypatch.setattr(reading, "_fetched", fetched)
    monkeypatch.setattr(reading, "_shown", str)
    examiner, found = Examiner(0, producers_expire=False), []
    monkeypatch.setattr(examiner, "expect", lambda _about, told, expected: found.append(told == expected))
    reading._read_nearby(examiner, cast("Any", None), log_from(0), 2, "rack 0")
    assert (asked, found) == ([3, 3], [as_expected])


def test_a_consumer_without_a_rack_that_is_sent_to_a_follower_breaks_p_13(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has asked for stays with the leader: only who names a rack may be answered without the records."""
    monkeypatch.setattr(follower_reads, "preferred_replica", lambda _broker, replica, *_asked: max(replica.remotes))
    assert examined("reading", racks=2).failed_property == "P-13"


# --- what the older properties say of what only the examination asks --------------------------------------------------


def test_a_topic_that_was_only_to_be_tried_and_is_created_breaks_p_a1(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = topics.create

    def create(controller: Any, request_id: int, request: CreateTopicsRequest) -> None:
        honest(controller, request_id, request._replace(validate_only=False))

    monkeypatch.setattr("broker.core.controller.node.topics.create", create)
    assert examined("administering").failed_property == "P-A1"


def test_a_converted_batch_of_other_records_breaks_p_12(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = intake.uncompressed

    def other_records(*asked: Any) -> bytes:
        return honest(*asked).replace(b"\x05", b"\x06")

    monkeypatch.setattr(intake, "uncompressed", other_records)
    assert examined("writing").failed_property == "P-12"


def test_a_sound_batch_that_is_called_corrupt_breaks_p_31(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Log.check_batches

    def check_batches(log: Log, records: bytes) -> Any:
        found = honest(log, records)
        return ErrorCode.CORRUPT_MESSAGE if found == ErrorCode.INVALID_RECORD else found

    monkeypatch.setattr(Log, "check_batches", check_batches)
    assert examined("writing").failed_property == "P-31"


@pytest.mark.parametrize("error", [ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP])
def test_a_damaged_batch_that_is_refused_for_another_reason_breaks_p_31_or_p_e3(
    monkeypatch: pytest.MonkeyPatch, error: ErrorCode
) -> None:
    honest = Log.check_batches

    def check_batches(log: Log, records: bytes) -> Any:
        found = honest(log, records)
        return error if found == ErrorCode.CORRUPT_MESSAGE else found

    monkeypatch.setattr(Log, "check_batches", check_batches)
    expected = "P-31" if error == ErrorCode.INVALID_RECORD else "P-E3"  # the topic bounds times
    assert examined("writing").failed_property == expected


# --- the examiner -----------------------------------------------------------------------------------------------------


def test_the_errors_of_a_response_are_its_own_or_those_of_its_parts() -> None:
    brokers = (MetadataBroker(1, "b1", 1),)
    found = MetadataTopic(ErrorCode.NONE, "a", "", False, ())
    missing = MetadataTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, "id", False, ())
    assert errors_of(MetadataResponse(brokers, "", 1, (found, missing))) == (0, ErrorCode.UNKNOWN_TOPIC_ID)
    assert errors_of(ElectLeadersResponse(ErrorCode.NOT_CONTROLLER, ())) == (ErrorCode.NOT_CONTROLLER,)


def test_what_is_not_as_expected_names_both() -> None:
    examiner = Examiner(1, producers_expire=False)
    with pytest.raises(WrongAnswer, match="the question: expected 2, found 1"):
        examiner.expect("the question", 1, 2)
