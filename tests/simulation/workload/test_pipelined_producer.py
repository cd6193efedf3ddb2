"""The model's idempotent producer with several batches in flight: order, gaps, epochs, and what it makes visible."""

from __future__ import annotations

import pytest

from broker.core.log.producer_state import ACCEPT, ProducerStates, Verdict
from broker.core.messages.errors import ErrorCode
from broker.core.records import BatchHeader
from simulation.invariants.answers import refusals
from simulation.invariants.observer import PropertyObserver
from simulation.runs.failures import findings
from simulation.scenario.case import Case, run
from simulation.scenario.overrides import check_overrides
from simulation.workload.pipelined import EPOCH_BUMPED, GAP_CLOSED, SEVERAL_SENT, Lane, OpenBatch
from tests.simulation.invariants.planting import SIMPLEST, observe
from tests.simulation.small import quick

SEVERAL: dict[str, object] = {"in_flight": 5, "idempotence": True, "acks": -1, "retries": True}


def lane_of(*sizes: int, sent: int | None = None) -> Lane:
    """A lane with batches of so many records, of which the first `sent`, by default all, are in flight."""
    lane = Lane()
    for number, size in enumerate(sizes):
        batch = OpenBatch(number, number, 0, tuple(range(size)), 0)
        lane.batches.append(batch)
        if sent is None or number < sent:
            batch.sequence, batch.request = lane.next_sequence, number
            lane.next_sequence += size
    return lane


def test_new_batches_are_sent_while_earlier_ones_are_not_answered() -> None:
    lane = lane_of(1, 2, 1, sent=2)
    assert lane.next_to_send() is lane.batches[2]


def test_only_the_first_batch_is_repeated_and_nothing_new_is_sent_before() -> None:
    lane = lane_of(1, 2, 1, sent=2)
    first, second, _ = lane.batches
    second.request = None
    assert lane.next_to_send() is None
    first.request = None
    assert lane.next_to_send() is first
    lane.batches.remove(first)
    assert lane.next_to_send() is second


def test_an_out_of_order_batch_waits_for_earlier_ones_and_the_next_one_in_order_shows_a_gap() -> None:
    lane = lane_of(1, 2)
    lane.refused_out_of_order(lane.batches[1])
    assert not lane.has_gap
    lane.refused_out_of_order(lane.batches[0])
    assert lane.has_gap


def test_behind_a_batch_that_was_given_up_only_the_very_next_one_shows_a_gap() -> None:
    lane = lane_of(1, 2, 1)
    first, second, third = lane.batches
    lane.given_up(first)
    lane.batches.remove(first)
    lane.refused_out_of_order(third)
    assert not lane.has_gap
    lane.refused_out_of_order(second)
    assert lane.has_gap


@pytest.mark.parametrize(("acknowledged", "was_appended"), [(2, True), (-1, False)])
def test_what_was_given_up_is_in_the_log_if_what_follows_it_is(acknowledged: int, was_appended: bool) -> None:
    lane = lane_of(1, 2)
    lane.given_up(lane.batches.pop(0))
    assert not lane.resolve()
    assert lane.unresolved == 1
    lane.batches.clear()
    lane.last_acknowledged = acknowledged
    assert lane.resolve() is was_appended
    assert lane.has_gap is not was_appended


def test_nothing_new_is_sent_behind_a_batch_that_was_given_up() -> None:
    lane = lane_of(1, 2, sent=1)
    lane.given_up(lane.batches.pop(0))
    assert lane.next_to_send() is None


def test_a_new_epoch_numbers_the_batches_anew() -> None:
    lane = lane_of(1, 2)
    lane.begin(3)
    assert (lane.epoch, lane.next_sequence, lane.last_acknowledged) == (3, 0, -1)
    assert [batch.sequence for batch in lane.batches] == [-1, -1]


def test_records_of_one_producer_are_in_the_log_in_the_order_in_which_they_were_sent() -> None:
    outcome = observe(PropertyObserver(), **{**SEVERAL, "operations": 150})
    assert findings(outcome) == []
    assert outcome.marks[SEVERAL_SENT.name] > 10
    sends = [row for row in outcome.history.sends if row.offset is not None]
    assert len(sends) == len(outcome.history.sends) > 150
    values = [row.value for row in sorted(sends, key=lambda row: row.offset or 0)]
    assert values == sorted(values)


def test_faults_leave_gaps_that_close_and_gaps_that_stay() -> None:
    marks: dict[str, int] = {}
    faulty = {
        **SIMPLEST,
        **SEVERAL,
        "duration_ms": 40_000,
        "operations": 300,
        "answer_lost_of_1000": 100,
        "faults": ("isolate", "kill", "late-metadata", "brokers-from-controllers"),
        "fault_interval_ms": 1_500,
        "fault_duration_ms": 8_000,
    }
    for seed in range(1, 10):
        outcome = run(Case(seed, {**faulty, "retries": seed % 3 > 0}))
        assert findings(outcome) == []
        for name, count in outcome.marks.items():
            marks[name] = marks.get(name, 0) + count
    assert {mark.name for mark in (SEVERAL_SENT, GAP_CLOSED, EPOCH_BUMPED)} <= marks.keys()


@pytest.mark.parametrize(("in_flight", "broken"), [(1, None), (5, "P-14")])
def test_a_leader_that_takes_what_follows_a_batch_that_it_refused_is_seen_by_several_in_flight(
    monkeypatch: pytest.MonkeyPatch, in_flight: int, broken: str | None
) -> None:
    decide = ProducerStates.verdict
    refused: set[int] = set()

    def hasty(states: ProducerStates, header: BatchHeader) -> Verdict:
        first = header.base_sequence
        if header.producer_id >= 0 and first > 0 and first % 3 == 0 and first not in refused:
            refused.add(first)
            return Verdict(ErrorCode.NOT_ENOUGH_REPLICAS)
        verdict = decide(states, header)
        return ACCEPT if verdict.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER else verdict

    monkeypatch.setattr(ProducerStates, "verdict", hasty)
    monkeypatch.setattr(refusals, "refused", lambda *_: None)  # P-31 would speak of the refusal, and before
    outcome = observe(PropertyObserver(), **{**SEVERAL, "in_flight": in_flight})
    assert refused
    assert outcome.failed_property == broken


def test_clients_without_idempotence_or_with_less_than_all_acks_send_one_batch_at_a_time() -> None:
    for different in ({"idempotence": False}, {"acks": 1}):
        outcome = run(quick(3, **{**SEVERAL, **different, "faults": ()}))
        assert SEVERAL_SENT.name not in outcome.marks


@pytest.mark.parametrize("number", [0, 6])
def test_only_one_to_five_batches_may_be_in_flight(number: int) -> None:
    with pytest.raises(ValueError, match=f"in_flight: expected 1 to 5, found {number}"):
        check_overrides({"in_flight": number})
