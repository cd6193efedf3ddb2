"""Errors about partitions that are not true break P-35, and so does a broker that overlooks a true one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.core.broker_node.requests import queries
from broker.core.messages import (
    AnyResponse,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsResponse,
    ProduceResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import PartitionState
from broker.core.rules.requests import FetchRules
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import SimulatedCluster
from simulation.invariants.answers.asked import AskedPartition
from simulation.invariants.answers.errors import in_session, is_another, is_so, unsaid_of
from simulation.invariants.ghost import ReplicaMirror
from simulation.invariants.knowledge import Knowledge, Version
from simulation.runs.sweep import simulate
from simulation.scenario.configuration import Configuration
from simulation.scenario.scenario import settings_of
from tests.simulation.invariants.planting import observe
from tests.simulation.invariants.test_client_properties import falsify, with_part
from tests.simulation.invariants.test_client_properties import the_only as only_part


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (ListOffsetsResponse, ErrorCode.REQUEST_TIMED_OUT),
        (ListOffsetsResponse, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ListOffsetsResponse, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (FetchResponse, ErrorCode.FENCED_LEADER_EPOCH),
        (FetchResponse, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (FetchResponse, ErrorCode.OFFSET_OUT_OF_RANGE),
        (FetchResponse, ErrorCode.UNKNOWN_TOPIC_ID),
        (ProduceResponse, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_an_error_that_is_not_true_breaks_p_35(kind: type[AnyResponse], error: ErrorCode) -> None:
    def change(_cluster: Any, response: AnyResponse) -> AnyResponse | None:
        return with_part(response, error_code=error) if not only_part(response).error_code else None

    outcome = falsify(kind, change, compression="snappy")
    assert outcome.failed_property == "P-35"
    assert f"answered {error.name} to a {kind.__name__.replace('Response', 'Request')}" in str(outcome.failure)


def test_a_follower_that_serves_like_a_leader_breaks_p_35(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FetchRules, "serves", lambda *_asked: True)
    seeds = (simulate(seed, {"search": "mixed"}, observed=True) for seed in range(1, 40))
    assert any(finding.property_id == "P-35" for result in seeds for finding in result.findings)


@pytest.mark.parametrize(("session_id", "error", "unsaid"), [(7, 0, [1]), (0, 0, []), (7, 70, [])])
def test_what_is_left_out_of_the_answer_in_a_session_is_no_error(
    session_id: int, error: int, unsaid: list[int]
) -> None:
    sessions: dict[int, dict[tuple[str, int], AskedPartition]] = {}
    parts = [AskedPartition("", 5, fetch=FetchPartition("log", number, 0, 100)) for number in (0, 1, 2)]
    first = FetchRequest((), session_id=0, session_epoch=0)
    in_session(sessions, first, FetchResponse((), 0, session_id=7), {("log", n): parts[n] for n in (0, 1, 2)})
    later = FetchRequest((), session_id=7, session_epoch=1, forgotten=(("log", "", 2),))
    answer = FetchResponse((FetchedPartition("log", 0, 0),), error, session_id=session_id)
    asked = in_session(sessions, later, answer, {})
    assert set(asked) == {("log", 0), ("log", 1)}
    assert [number for _, number, *_ in unsaid_of(asked, answer)] == unsaid


def test_an_answer_by_id_alone_is_no_silence() -> None:
    """The broker does not know the topic yet, and answers with the id that it was asked for."""
    part = AskedPartition("id", 0, fetch=FetchPartition("log", 0, 0, 100, topic_id="id"))
    unknown = FetchedPartition("", 0, ErrorCode.UNKNOWN_TOPIC_ID, topic_id="id")
    assert not list(unsaid_of({("id", 0): part}, FetchResponse((unknown,), session_id=7)))


def test_a_topic_that_is_deleted_and_created_again_in_one_step_has_lost_its_leader() -> None:
    known = Knowledge.of(SimulatedCluster(ChoiceSequence(0), settings_of(Configuration())))
    for end, topic_id in ((1, "first"), (2, "first"), (3, "second")):
        known.versions[end] = Version({}, {"log": (topic_id, {}, {})}, ({}, {}), 0)
    assert is_another(known, (2, 3), "log")
    assert not is_another(known, (1, 2), "log")
    assert not is_another(known, (0, 3), "log")


@pytest.mark.parametrize(
    ("function", "lie"),
    [
        ("reachable_brokers", lambda _found: ((), -1)),
        ("_partition", lambda found: found._replace(leader=found.replicas[-1], leader_epoch=9)),
        ("_partition", lambda found: found._replace(isr=found.isr[:1])),
        ("_partition", lambda found: found._replace(offline_replicas=found.replicas)),
        ("_topic", lambda found: found._replace(topic_id="another")),
        ("_topic", lambda found: found._replace(partitions=())),
        ("_topic", lambda found: found._replace(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
    ],
)
def test_a_client_that_is_told_of_another_cluster_breaks_p_35(
    monkeypatch: pytest.MonkeyPatch, function: str, lie: Callable[[Any], Any]
) -> None:
    honest = getattr(queries, function)
    monkeypatch.setattr(queries, function, lambda *asked: lie(honest(*asked)))
    outcome = observe()
    assert outcome.failed_property == "P-35"
    assert "tells a client" in str(outcome.failure)


# --- each error ------------------------------------------------------------------------------------------------------


LED = PartitionState((1, 2, 3), (1, 2, 3), 1, 5, 0)
FOLLOWED = LED._replace(leader=2)
LATER = LED._replace(leader_epoch=6)
WITHOUT_3 = LED._replace(replicas=(1, 2), isr=(1, 2))
CONSUMER = AskedPartition("", 5, fetch=FetchPartition("log", 0, 0, 100))
FOLLOWER = AskedPartition("", 5, follower=3, follower_epoch=10, fetch=FetchPartition("log", 0, 0, 100))


@pytest.mark.parametrize(
    ("error", "asked", "states", "so"),
    [
        (ErrorCode.NONE, CONSUMER, (LED,), True),
        (ErrorCode.NONE, CONSUMER, (LED, LATER), True),  # it learnt of the later one in this step
        (ErrorCode.NONE, CONSUMER, (LATER,), False),
        (ErrorCode.NONE, CONSUMER, (FOLLOWED,), False),
        (ErrorCode.NONE, CONSUMER, (None,), False),
        (ErrorCode.NONE, CONSUMER._replace(rack="a"), (FOLLOWED,), True),
        (ErrorCode.NONE, FOLLOWER._replace(rack="a"), (FOLLOWED,), False),
        (ErrorCode.NONE, FOLLOWER, (LATER,), True),  # what comes of it counts
        (ErrorCode.NONE, FOLLOWER._replace(epoch=6), (LED,), False),
        (ErrorCode.NONE, CONSUMER._replace(epoch=-1), (LATER,), True),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, CONSUMER, (FOLLOWED,), True),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, CONSUMER, (LED,), False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, CONSUMER, (LED, None), True),  # it is deleted while the request waits
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, CONSUMER, (None,), False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, FOLLOWER, (LED,), False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, FOLLOWER, (WITHOUT_3,), True),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, FOLLOWER._replace(follower_epoch=9), (LED,), True),  # an earlier incarnation
        (ErrorCode.FENCED_LEADER_EPOCH, CONSUMER, (LATER,), True),
        (ErrorCode.FENCED_LEADER_EPOCH, CONSUMER, (LED,), False),
        (ErrorCode.FENCED_LEADER_EPOCH, CONSUMER._replace(epoch=-1), (LED,), False),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, CONSUMER._replace(epoch=6), (LED,), True),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, CONSUMER, (LATER,), False),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, FOLLOWER, (WITHOUT_3,), True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, CONSUMER, (LED, None), True),  # it learnt of the deletion in this step
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, CONSUMER, (LED,), False),
        (ErrorCode.REQUEST_TIMED_OUT, CONSUMER._replace(fetch=None, is_lookup=True), (LED,), False),
        (ErrorCode.REQUEST_TIMED_OUT, CONSUMER._replace(fetch=None), (LED,), True),  # a write
        (ErrorCode.KAFKA_STORAGE_ERROR, CONSUMER, (LED,), True),  # not judged
    ],
)
def test_each_error_is_true_in_its_states_only(
    error: ErrorCode, asked: AskedPartition, states: tuple[PartitionState | None, ...], so: bool
) -> None:
    assert is_so(1, error, asked, states, ReplicaMirror(1), follower_epoch=10, named=True) is so


@pytest.mark.parametrize(("named", "so"), [(False, True), (True, False)])
def test_an_id_is_unknown_only_if_no_topic_has_it(named: bool, so: bool) -> None:
    """The request has the name of the topic, where there is one with the id that was asked for."""
    mirror = ReplicaMirror(1)
    assert is_so(1, ErrorCode.UNKNOWN_TOPIC_ID, CONSUMER, (LED,), mirror, follower_epoch=-1, named=named) is so
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not is_so(1, unknown, CONSUMER, (None,), mirror, follower_epoch=-1, named=False)


@pytest.mark.parametrize(
    ("offset", "epoch", "so"), [(1, -1, True), (2, -1, False), (2, 1, True), (3, -1, True), (2, 0, True)]
)
def test_an_offset_is_out_of_range_only_outside_of_the_log(offset: int, epoch: int, so: bool) -> None:
    """A log of no records, which begins and ends at 2."""
    mirror = ReplicaMirror(1, start=2, entries=[None, None])
    asked = CONSUMER._replace(fetch=FetchPartition("log", 0, offset, 100, last_fetched_epoch=epoch))
    assert is_so(1, ErrorCode.OFFSET_OUT_OF_RANGE, asked, (LED,), mirror, follower_epoch=-1, named=True) is so


def test_a_request_says_who_asked_and_what_was_stated() -> None:
    assert str(FOLLOWER) == " of follower 3 of broker epoch 10 in leader epoch 5 from offset 0"
    assert str(AskedPartition("")) == ""
