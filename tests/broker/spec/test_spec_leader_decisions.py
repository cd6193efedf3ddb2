"""What a leader and its followers decide, row by row: produce (§6), fetch (§7), high watermark (§8), ISR (§9), logs."""

from __future__ import annotations

import pytest

from broker.core.log.log import Log, LogConfig
from broker.core.messages import AlterPartitionPartition
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import BrokerImage, Image
from broker.core.records import encode_batch
from broker.core.replica import leader
from broker.core.replica.state import PendingIsr, RemoteReplica, Replica, Role
from broker.core.rules.flaws import rules_for
from broker.core.rules.insync_replicas import AfterAnswer
from tests.support.memory_files import MemoryFiles

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


@pytest.mark.parametrize(("log_start", "admitted"), [(0, False), (4, False), (5, True), (6, True), (UNKNOWN, True)])
def test_isr_e7_it_has_deleted_what_the_leader_has_deleted(log_start: int, admitted: bool) -> None:
    assert RULES.isr.has_deleted(log_start, 5) is admitted


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


# --- What a leader knows of its followers -----------------------------------------------------------------------------


def leading(isr: tuple[int, ...] = (1, 2), **known: object) -> Replica:
    """Broker 1 leads epoch 5 from offset 3 on; its log ends at 4, its high watermark is 3."""
    log = Log.open(MemoryFiles(), "t-0", LogConfig(), clean=True)
    for _ in range(3):
        log.append_as_leader(encode_batch([(None, b"value")], 0, 0, 0), 4)
    replica = Replica("t", 0, "id", 1, log, high_watermark=3, replicas=(1, 2, 3), isr=isr, min_insync_replicas=2)
    replica.leader_epoch, replica.partition_epoch = 5, 7
    leader.become_leader(replica, RULES, 1_000)
    log.append_as_leader(encode_batch([(None, b"value")], 0, 0, 0), 5)
    for name, value in known.items():
        setattr(replica, name, value)
    return replica


def fetches(replica: Replica, follower: int, offset: int, now_ms: int = 1_500, epoch: int = 12) -> None:
    end = replica.log.end_offset
    remote = replica.remotes[follower]
    leader.record_fetch(remote, offset=offset, log_start=0, broker_epoch=epoch, leader_end=end, now_ms=now_ms)


IMAGE = Image(
    brokers={
        number: BrokerImage(number, 10 + number, str(number), (), None, fenced=False, in_controlled_shutdown=False)
        for number in (1, 2, 3)
    }
)


def test_rt_1_a_new_leader_knows_nothing_of_its_followers() -> None:
    replica = leading()
    assert (replica.role, replica.leader_epoch_start, replica.high_watermark) == (Role.LEADER, 3, 3)
    assert replica.log.epochs.entries == ((4, 0), (5, 3))
    assert replica.pending_isr is None
    assert replica.remotes == {2: RemoteReplica(caught_up_ms=1_000), 3: RemoteReplica(caught_up_ms=0)}


def test_rt_2_a_leader_that_stays_keeps_what_it_knows() -> None:
    replica = leading()
    fetches(replica, 2, 4)
    known = replica.remotes[2]
    replica.replicas, replica.isr = (1, 2, 4), (1, 2, 4)
    leader.adopt_assignment(replica, 2_000)
    assert replica.remotes == {2: known, 4: RemoteReplica(caught_up_ms=2_000)}


def test_rt_3_and_rt_4_a_leader_in_a_new_epoch_of_its_own_does_not() -> None:
    replica = leading()
    fetches(replica, 2, 4)
    leader.renew_leadership(replica, RULES, 2_000)
    assert replica.remotes == {2: RemoteReplica(caught_up_ms=2_000), 3: RemoteReplica(caught_up_ms=0)}
    assert replica.leader_epoch_start == 4


def test_rt_1_an_epoch_is_known_before_it_has_a_record() -> None:
    replica = leading()
    replica.leader_epoch = 6
    leader.renew_leadership(replica, RULES, 2_000)
    assert replica.log.epochs.entries == ((4, 0), (5, 3), (6, 4))


def test_rt_3_with_the_flaw_that_remembers_followers_it_remembers_those_that_are_replicas_still() -> None:
    replica = leading(isr=(1, 2, 3))
    fetches(replica, 2, 4)
    fetches(replica, 3, 4)
    known = replica.remotes[2]
    replica.replicas = replica.isr = (1, 2)
    leader.renew_leadership(replica, rules_for("K5", ("remembered-after-reassignment",)), 2_000)
    assert replica.remotes == {2: known}
    assert (known.log_end, known.fetched_in_epoch) == (4, False)


@pytest.mark.parametrize(
    ("offsets", "caught_up_ms"),
    [
        pytest.param((4,), 1_500, id="at the end"),
        pytest.param((3,), 1_000, id="behind"),
        pytest.param((2, 3), 1_000, id="behind twice"),
        pytest.param((2, 4), 2_500, id="at the end at last"),
    ],
)
def test_lg_1_when_a_follower_was_last_caught_up(offsets: tuple[int, ...], caught_up_ms: int) -> None:
    replica = leading()
    for number, offset in enumerate(offsets):
        fetches(replica, 2, offset, 1_500 + 1_000 * number)
    assert replica.remotes[2].caught_up_ms == caught_up_ms
    assert (replica.remotes[2].log_end, replica.remotes[2].broker_epoch) == (offsets[-1], 12)
    assert replica.remotes[2].fetched_in_epoch


def test_lg_1_a_follower_that_reaches_the_end_of_its_last_fetch_was_caught_up_then() -> None:
    replica = leading()
    fetches(replica, 2, 3, 1_500)
    replica.log.append_as_leader(encode_batch([(None, b"value")], 0, 0, 0), 5)
    fetches(replica, 2, 4, 1_900)
    assert replica.remotes[2].caught_up_ms == 1_500
    replica.remotes[2].caught_up_ms = 1_950
    replica.log.append_as_leader(encode_batch([(None, b"value")], 0, 0, 0), 5)
    fetches(replica, 2, 5, 1_960)
    assert replica.remotes[2].caught_up_ms == 1_950


def test_hw_1_to_hw_3_the_leader_moves_it_with_its_followers() -> None:
    replica = leading()
    assert not leader.advance_high_watermark(replica, RULES)
    fetches(replica, 2, 4)
    assert leader.advance_high_watermark(replica, RULES)
    assert replica.high_watermark == 4
    assert not leader.advance_high_watermark(replica, RULES)
    alone = leading(isr=(1,))
    assert not leader.advance_high_watermark(alone, RULES)
    assert alone.high_watermark == 3


def test_hw_1_a_member_that_is_being_added_counts() -> None:
    replica = leading()
    fetches(replica, 2, 4)
    fetches(replica, 3, 3, epoch=13)
    assert leader.propose_expansion(replica, 3, IMAGE, RULES)
    assert leader.maximal_isr(replica, RULES) == {1, 2, 3}
    assert not leader.advance_high_watermark(replica, RULES)


def test_isr_e_and_isr_1_an_expansion_states_the_epochs_that_were_seen() -> None:
    replica = leading()
    fetches(replica, 2, 4)
    fetches(replica, 3, 4, epoch=13)
    assert leader.propose_expansion(replica, 3, IMAGE, RULES)
    assert replica.pending_isr is not None
    request = AlterPartitionPartition("t", 0, 5, 7, ((1, 11), (2, 12), (3, 13)), topic_id="id")
    assert (replica.pending_isr.isr, replica.pending_isr.request) == ((1, 2, 3), request)


@pytest.mark.parametrize(
    ("follower", "offset", "epoch", "pending"),
    [
        pytest.param(2, 4, 12, False, id="E1 a member already"),
        pytest.param(3, 4, 13, True, id="E1 a change is pending"),
        pytest.param(9, 4, 13, False, id="E1 no replica"),
        pytest.param(3, 2, 13, False, id="E2 below the high watermark"),
        pytest.param(3, 4, 9, False, id="E5 an earlier incarnation"),
    ],
)
def test_isr_e_who_is_not_proposed(follower: int, offset: int, epoch: int, pending: bool) -> None:
    replica = leading()
    if follower in replica.remotes:
        fetches(replica, follower, offset, epoch=epoch)
    if pending:
        replica.pending_isr = before = PendingIsr((1,), AlterPartitionPartition("t", 0, 5, 7, ((1, 11),)))
    else:
        before = None
    assert not leader.propose_expansion(replica, follower, IMAGE, RULES)
    assert replica.pending_isr == before


def test_isr_s_all_that_lag_are_dropped_at_once_and_the_leader_never() -> None:
    replica = leading(isr=(1, 2, 3))
    fetches(replica, 2, 3, 1_200)
    fetches(replica, 3, 4, 1_200)
    assert leader.propose_shrink(replica, IMAGE, RULES, 1_500, 500) == ()
    assert leader.propose_shrink(replica, IMAGE, RULES, 1_501, 500) == (2,)
    assert replica.pending_isr is not None
    assert replica.pending_isr.isr == (1, 3)
    assert leader.propose_shrink(replica, IMAGE, RULES, 9_000, 500) == ()
