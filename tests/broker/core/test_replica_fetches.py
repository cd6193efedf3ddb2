"""A follower's fetches, answer by answer: when the next one is sent, and which answers no longer count (§12.4)."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from broker.core.broker_node import replication, storage
from broker.core.broker_node.state import BrokerState
from broker.core.messages import (
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    ListedOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import Effect, Flush, LogEntry, Send, SetTimer
from broker.core.records import encode_batch, filler
from broker.core.replica import follower
from broker.core.replica.follower import AppendOutcome
from broker.core.replica.state import Replica, Role
from tests.support.cluster import TOPIC, Cluster

Known = Callable[[BrokerState, ListOffsetsPartition, str, ListOffsetsResponse], None]
ANSWERS = pytest.mark.parametrize(
    ("known", "offset"), [(replication.leader_end_known, 0), (replication.leader_start_known, 7)], ids=["end", "start"]
)
"""A leader's answers on where its log ends and begins: a replica of two records that takes one begins again there."""


def following(*flaws: str) -> tuple[BrokerState, Replica]:
    """A broker that follows, and its replica with two records. It has no effects that wait."""
    cluster = Cluster(flaws=flaws)
    cluster.create_topic()
    assert cluster.produce(cluster.leader(), 1, 2) == ErrorCode.NONE
    cluster.run_until(cluster.is_whole)
    number = next(number for number in (1, 2, 3) if number != cluster.leader())
    state: BrokerState = cluster.machines[number].node.state  # type: ignore[union-attr]
    assert state.runtime.effects == []
    return state, state.replicas[TOPIC, 0]


def gets(state: BrokerState, replica: Replica, answer: FetchedPartition) -> list[Effect]:
    """What the broker does on an answer to its open fetch."""
    session = state.leader_sessions[replica.leader]
    replication.fetched(state, replica.leader, FetchResponse((answer,), session_id=session.session_id))
    return state.runtime.take_effects()


def timers(effects: list[Effect]) -> dict[object, int]:
    return {effect.key: effect.at_ms for effect in effects if isinstance(effect, SetTimer)}


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_tr_7_a_follower_that_is_refused_pauses_before_it_asks_again(error: ErrorCode) -> None:
    state, replica = following()
    effects = gets(state, replica, FetchedPartition(TOPIC, 0, error))
    assert not [effect for effect in effects if isinstance(effect, Send)]
    pause_ms = state.settings.replica_fetch_backoff_ms
    assert timers(effects) == {(replication.RETRY, replica.leader): state.runtime.now_ms + pause_ms}


def test_tr_1_a_follower_whose_log_parts_from_the_leaders_cuts_it_says_so_and_asks_at_once() -> None:
    state, replica = following()
    effects = gets(state, replica, FetchedPartition(TOPIC, 0, ErrorCode.NONE, diverging_epoch=(0, 1)))
    assert replica.log.end_offset == 0, "the whole batch of two records"
    lines = [effect.text for effect in effects if isinstance(effect, LogEntry)]
    assert lines == [f"{TOPIC}-0: diverges from leader {replica.leader}; cut from 2 to 0"]
    assert [effect.to for effect in effects if isinstance(effect, Send)] == [replica.leader]


def test_tr_3_what_a_cut_within_compacted_offsets_leaves_is_synced_before_the_next_fetch() -> None:
    """Where each record is to be on the disk before it is acknowledged; nothing else would sync it."""
    state, replica = following()
    log = replica.log
    log.config = log.config._replace(flush_messages=1)
    log.append_as_follower(filler(2, 5, 0), max_epoch=0)
    log.mark_flushed(6)
    state.leader_sessions[replica.leader].asked[replica.key] = follower.fetch_position(replica, state.rules, 1 << 20)
    effects = gets(state, replica, FetchedPartition(TOPIC, 0, ErrorCode.NONE, diverging_epoch=(0, 4)))
    assert (log.flushed_offset, log.end_offset) == (2, 4)
    assert [type(effect) for effect in effects if isinstance(effect, (Flush, Send))] == [Flush]
    storage.flushed(state, replica)
    replication.fetch_from(state, replica.leader)
    assert log.flushed_offset == 4
    assert [type(effect) for effect in state.runtime.take_effects() if isinstance(effect, (Flush, Send))] == [Send]


def test_a_cut_that_the_flaw_makes_late_is_still_before_the_next_fetch() -> None:
    state, replica = following("late-cut")
    effects = gets(state, replica, FetchedPartition(TOPIC, 0, ErrorCode.NONE, diverging_epoch=(0, 1)))
    assert replica.log.end_offset == 2
    at_ms = timers(effects)
    assert at_ms[replication.RETRY, replica.leader] > at_ms[replication.CUT, TOPIC, 0, 1]


def sent(effects: list[Effect]) -> list[type[object]]:
    return [type(effect.request) for effect in effects if isinstance(effect, Send)]


def follow_another(state: BrokerState, replica: Replica) -> None:
    """Let it follow a second partition of the same leader."""
    other = copy.copy(replica)
    other.partition = 1
    state.replicas[other.key] = other


def test_tr_8_a_follower_out_of_range_fetches_nothing_from_its_leader_until_it_knows_its_place() -> None:
    state, replica = following()
    follow_another(state, replica)
    effects = gets(state, replica, FetchedPartition(TOPIC, 0, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert sent(effects) == [ListOffsetsRequest]
    later_ms = state.runtime.now_ms + state.settings.replica_fetch_backoff_ms
    assert timers(effects) == {(replication.RETRY, replica.leader): later_ms}, "should no answer come"
    replication.fetch_from(state, replica.leader)
    assert sent(state.runtime.take_effects()) == []


@ANSWERS
def test_tr_8_a_follower_that_knows_its_place_fetches_at_once(known: Known, offset: int) -> None:
    state, replica = following()
    gets(state, replica, FetchedPartition(TOPIC, 0, ErrorCode.OFFSET_OUT_OF_RANGE))
    known(
        state,
        question(replica),
        replica.topic_id,
        ListOffsetsResponse((ListedOffset(TOPIC, 0, ErrorCode.NONE, offset=offset),)),
    )
    assert sent(state.runtime.take_effects()) == [FetchRequest]


def test_tr_8_a_follower_whose_log_fits_by_now_fetches_at_once() -> None:
    state, replica = following()
    gets(state, replica, FetchedPartition(TOPIC, 0, ErrorCode.OFFSET_OUT_OF_RANGE))
    answer = ListOffsetsResponse((ListedOffset(TOPIC, 0, ErrorCode.NONE, offset=0),))
    replication.leader_start_known(state, question(replica), replica.topic_id, answer)
    assert (replica.log.start_offset, replica.log.end_offset) == (0, 2)
    assert sent(state.runtime.take_effects()) == [FetchRequest]


@ANSWERS
def test_tr_8_a_follower_that_its_leader_does_not_tell_its_place_goes_on_with_the_others(
    known: Known, offset: int
) -> None:
    state, replica = following()
    follow_another(state, replica)
    gets(state, replica, FetchedPartition(TOPIC, 0, ErrorCode.OFFSET_OUT_OF_RANGE))
    refused = ListOffsetsResponse((ListedOffset(TOPIC, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, offset=-1),))
    known(state, question(replica), replica.topic_id, refused)
    (request,) = (effect.request for effect in state.runtime.take_effects() if isinstance(effect, Send))
    assert isinstance(request, FetchRequest)
    assert [part.partition for part in request.partitions] == [1]


def question(replica: Replica) -> ListOffsetsPartition:
    return ListOffsetsPartition(TOPIC, 0, -1, replica.leader_epoch)


def test_tr_5_what_a_leader_sent_of_a_deleted_topic_is_not_taken_into_the_next_one_of_its_name() -> None:
    state, replica = following()
    asked = follower.fetch_position(replica, state.rules, 1 << 20)
    late = FetchedPartition(TOPIC, 0, ErrorCode.NONE, 3, records=encode_batch([(None, b"value")], 2, 0, 0))
    for topic_id, appended in (("created-again", 0), (asked.topic_id, 1)):
        replica.topic_id = topic_id
        assert follower.take_answer(replica, asked, late, state.rules) == AppendOutcome(appended=appended)


def test_tr_5_what_a_session_still_holds_of_a_deleted_topic_is_not_taken_into_the_next_one_of_its_name() -> None:
    state, replica = following()
    records = encode_batch([(None, b"value")], 2, 0, 0)
    for topic_id, end in (("deleted", 2), (replica.topic_id, 3)):
        gets(state, replica, FetchedPartition(TOPIC, 0, ErrorCode.NONE, 2, records=records, topic_id=topic_id))
        assert replica.log.end_offset == end


def test_fe_11_a_session_forgets_a_topic_that_was_deleted_when_the_next_one_of_its_name_is_asked_for() -> None:
    state, replica = following()
    deleted, replica.topic_id = replica.topic_id, "created-again"
    effects = gets(state, replica, FetchedPartition(TOPIC, 0, ErrorCode.UNKNOWN_TOPIC_ID, topic_id=deleted))
    (request,) = (effect.request for effect in effects if isinstance(effect, Send))
    assert isinstance(request, FetchRequest)
    assert [part.topic_id for part in request.partitions] == ["created-again"]
    assert request.forgotten == ((TOPIC, deleted, 0),)


def _is_gone(state: BrokerState, replica: Replica) -> None:
    del state.replicas[replica.key]


def _leads(state: BrokerState, replica: Replica) -> None:
    replica.role = Role.LEADER


def _follows_in_a_later_epoch(state: BrokerState, replica: Replica) -> None:
    replica.leader_epoch += 1


def _is_of_another_topic_of_that_name(state: BrokerState, replica: Replica) -> None:
    replica.topic_id = "created-again"


def _goes_on(state: BrokerState, replica: Replica) -> None:
    pass


@pytest.mark.parametrize(
    ("meanwhile", "error"),
    [
        (_is_gone, ErrorCode.NONE),
        (_leads, ErrorCode.NONE),
        (_follows_in_a_later_epoch, ErrorCode.NONE),
        (_is_of_another_topic_of_that_name, ErrorCode.NONE),
        (_goes_on, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
@ANSWERS
def test_tr_8_what_a_leader_says_of_its_log_counts_for_who_still_follows_it(
    known: Known, offset: int, meanwhile: Callable[[BrokerState, Replica], None], error: ErrorCode
) -> None:
    state, replica = following()
    asked, topic_id = question(replica), replica.topic_id
    meanwhile(state, replica)
    answer = ListedOffset(TOPIC, 0, error, offset=-1 if error else offset)
    known(state, asked, topic_id, ListOffsetsResponse((answer,)))
    assert (replica.log.start_offset, replica.log.end_offset, replica.high_watermark) == (0, 2, 2)
    assert state.runtime.effects == []


@ANSWERS
def test_tr_8_a_log_that_ends_elsewhere_than_its_leaders_begins_again_where_that_does(
    known: Known, offset: int
) -> None:
    state, replica = following()
    answer = ListOffsetsResponse((ListedOffset(TOPIC, 0, 0, offset=offset),))
    known(state, question(replica), replica.topic_id, answer)
    assert (replica.log.start_offset, replica.log.end_offset) == (offset, offset)
