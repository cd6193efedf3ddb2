"""What a leader and its followers decide, row by row: produce (§6), fetch (§7), high watermark (§8), ISR (§9), logs."""

from __future__ import annotations

import pytest

from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import BrokerImage
from broker.core.rules.flaws import rules_for
from broker.core.rules.insync_replicas import AfterAnswer

RULES = rules_for("K5", ())
NONE, UNKNOWN = ErrorCode.NONE, -1
ACTIVE = BrokerImage(2, 10, "two", (), None, fenced=False, in_controlled_shutdown=False)


# --- Fetch ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error"),
    [(UNKNOWN, NONE), (5, NONE), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_fe_2_an_older_epoch_is_fenced_and_a_newer_one_unknown(given: int, error: ErrorCode) -> None:
    assert RULES.fetch.check_epoch(given, 5) == error


@pytest.mark.parametrize(
    ("assigned", "epoch_given", "error"),
    [
        (True, True, NONE),
        (True, False, NONE),
        (False, True, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (False, False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_fe_4_a_follower_must_be_a_replica(assigned: bool, epoch_given: bool, error: ErrorCode) -> None:
    assert RULES.fetch.check_replica(assigned, epoch_given) == error


@pytest.mark.parametrize(
    ("given", "known", "seen", "error"),
    [
        (10, 10, 10, NONE),
        (10, 9, 8, NONE),
        (UNKNOWN, 10, 10, NONE),
        (9, 10, 8, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (9, 8, 10, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_fe_5_an_earlier_incarnation_is_refused(given: int, known: int, seen: int, error: ErrorCode) -> None:
    assert RULES.fetch.check_replica_epoch(given, known, seen) == error


@pytest.mark.parametrize(
    ("last_epoch", "epoch", "end", "diverges"),
    [(3, 3, 7, False), (3, 3, 9, False), (3, 2, 7, True), (3, 3, 6, True)],
)
def test_fe_6_logs_part_before_the_fetch_offset(last_epoch: int, epoch: int, end: int, diverges: bool) -> None:
    assert RULES.fetch.diverges(7, last_epoch, epoch, end) is diverges


@pytest.mark.parametrize(("offset", "inside"), [(1, False), (2, True), (5, True), (6, False)])
def test_fe_7_the_log_includes_its_end(offset: int, inside: bool) -> None:
    assert RULES.fetch.is_in_log(offset, 2, 5) is inside


def test_fe_8_followers_read_to_the_end_and_consumers_to_the_high_watermark() -> None:
    assert RULES.fetch.read_bound(True, 4, 9) == 9
    assert RULES.fetch.read_bound(False, 4, 9) == 4


@pytest.mark.parametrize(
    ("error", "diverging", "moves"),
    [(NONE, False, True), (NONE, True, False), (ErrorCode.OFFSET_OUT_OF_RANGE, False, False)],
)
def test_fe_9_only_a_valid_fetch_tells_what_a_follower_holds(error: ErrorCode, diverging: bool, moves: bool) -> None:
    assert RULES.fetch.moves_follower_state(error, diverging) is moves


def test_lo_3_nothing_above_the_high_watermark_is_deleted() -> None:
    assert RULES.fetch.deletion_bound(4, 9) == 4


@pytest.mark.parametrize(("acks", "waits"), [(-1, True), (1, False), (0, False)])
def test_pr_4_only_acks_all_waits(acks: int, waits: bool) -> None:
    assert RULES.produce.waits_for_replicas(acks) is waits


# --- High watermark ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ends", "candidate"), [((9, 7, 8), 7), ((12, 11), 9), ((), 9), ((9, UNKNOWN), UNKNOWN), ((UNKNOWN, 3), UNKNOWN)]
)
def test_hw_1_the_lowest_end_is_the_candidate(ends: tuple[int, ...], candidate: int) -> None:
    assert RULES.high_watermark.candidate(9, ends) == candidate


@pytest.mark.parametrize(
    ("candidate", "committed", "maximal", "moves"),
    [
        (6, (1, 2), {1, 2}, True),
        (5, (1, 2), {1, 2}, False),
        (4, (1, 2), {1, 2}, False),
        (UNKNOWN, (1, 2), {1, 2}, False),
        (6, (1,), {1}, False),
        (6, (1,), {1, 2}, False),
        (6, (1, 2, 3), {1, 2, 3}, True),
    ],
)
def test_hw_2_and_hw_3_forward_and_only_with_enough_in_sync(
    candidate: int, committed: tuple[int, ...], maximal: set[int], moves: bool
) -> None:
    assert RULES.high_watermark.may_advance(5, candidate, committed, frozenset(maximal), 2) is moves


@pytest.mark.parametrize(("of_image", "knows"), [(6, False), (7, True), (8, True)])
def test_hw_3_min_isr_is_that_of_the_isrs_moment(of_image: int, knows: bool) -> None:
    assert RULES.high_watermark.knows_min_isr(7, of_image) is knows


@pytest.mark.parametrize(("reported", "taken"), [(1, 3), (5, 5), (9, 7)])
def test_hw_5_a_follower_is_bounded_by_its_own_log(reported: int, taken: int) -> None:
    assert RULES.high_watermark.of_follower(reported, 3, 7) == taken


def test_hw_5_an_answer_that_only_reports_divergence_moves_nothing() -> None:
    assert RULES.high_watermark.after_divergence(2, 5, 9) == 2


def test_hw_6_a_new_leader_keeps_its_high_watermark() -> None:
    assert RULES.high_watermark.on_becoming_leader(4, 9) == 4


@pytest.mark.parametrize(("checkpointed", "expected"), [(None, 3), (1, 3), (5, 5), (9, 7)])
def test_hw_7_the_checkpointed_one_within_the_log(checkpointed: int | None, expected: int) -> None:
    assert RULES.storage.initial_high_watermark(checkpointed, 3, 7) == expected


@pytest.mark.parametrize(("high_watermark", "certain"), [(4, False), (5, True), (6, True)])
def test_hw_9_certain_from_the_start_of_the_epoch_on(high_watermark: int, certain: bool) -> None:
    assert RULES.high_watermark.is_certain(high_watermark, 5) is certain


# --- ISR --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proposed", "maximal"), [(None, {1, 2}), ((1, 2, 3), {1, 2, 3}), ((1,), {1, 2}), ((1, 3), {1, 2, 3})]
)
def test_isr_0_an_expansion_counts_at_once_and_a_shrink_when_committed(
    proposed: tuple[int, ...] | None, maximal: set[int]
) -> None:
    assert RULES.isr.maximal((1, 2), proposed) == maximal


@pytest.mark.parametrize(
    ("end", "start", "fetched", "caught_up"),
    [
        pytest.param(7, 5, True, True, id="all hold"),
        pytest.param(6, 5, True, False, id="E2 below the high watermark"),
        pytest.param(8, 8, True, True, id="at the start of the epoch"),
        pytest.param(8, 9, True, False, id="E3 below the start of the epoch"),
        pytest.param(7, 5, False, False, id="E4 has not fetched in this epoch"),
    ],
)
def test_isr_e2_to_e4_a_follower_has_caught_up(end: int, start: int, fetched: bool, caught_up: bool) -> None:
    assert RULES.isr.has_caught_up(end, 7, start, fetched) is caught_up


@pytest.mark.parametrize(
    ("broker", "epoch", "eligible"),
    [
        (ACTIVE, 10, True),
        (ACTIVE, UNKNOWN, True),
        (ACTIVE, 9, False),
        (ACTIVE._replace(fenced=True), 10, False),
        (ACTIVE._replace(in_controlled_shutdown=True), 10, False),
        (None, 10, False),
    ],
)
def test_isr_e5_active_and_of_the_registered_incarnation(
    broker: BrokerImage | None, epoch: int, eligible: bool
) -> None:
    assert RULES.isr.is_eligible(broker, epoch) is eligible


@pytest.mark.parametrize(("end", "since", "lags"), [(8, 501, True), (8, 500, False), (9, 501, False), (9, 0, False)])
def test_isr_s_behind_and_not_caught_up_in_time(end: int, since: int, lags: bool) -> None:
    assert RULES.isr.lags(end, 9, since, 500) is lags


@pytest.mark.parametrize(
    ("error", "then"),
    [
        (NONE, AfterAnswer.ADOPT),
        (ErrorCode.INELIGIBLE_REPLICA, AfterAnswer.ROLL_BACK),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, AfterAnswer.ROLL_BACK),
        (ErrorCode.FENCED_LEADER_EPOCH, AfterAnswer.STAY_PENDING),
        (ErrorCode.INVALID_UPDATE_VERSION, AfterAnswer.STAY_PENDING),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, AfterAnswer.STAY_PENDING),
        (ErrorCode.NEW_LEADER_ELECTED, AfterAnswer.STAY_PENDING),
        (ErrorCode.NOT_CONTROLLER, AfterAnswer.RETRY),
        (None, AfterAnswer.RETRY),
    ],
)
def test_isr_4_what_an_answer_proves(error: ErrorCode | None, then: AfterAnswer) -> None:
    assert RULES.isr.after_answer(error) is then


# --- A follower's log -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("requested", "counts"), [((7, 3), True), ((6, 3), False), ((7, 2), False)])
def test_tr_5_an_answer_counts_for_its_request(requested: tuple[int, int], counts: bool) -> None:
    assert RULES.truncation.accepts_answer(requested, (7, 3)) is counts


def test_tr_8_a_log_that_starts_again_holds_nothing_uncommitted_below() -> None:
    assert RULES.high_watermark.on_restart(2, 6) == 6
