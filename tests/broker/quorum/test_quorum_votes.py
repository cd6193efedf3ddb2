"""A voter of the quorum, event by event (§18.1 … §18.3): its answer, its role, what it stores and sends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.messages import BeginQuorumEpochRequest, EndQuorumEpochRequest, VoteRequest, VoteResponse
from broker.core.messages.errors import ErrorCode
from broker.core.quorum import elections
from broker.core.quorum.elections import CHECK
from broker.core.quorum.state import Quorum, QuorumRole, read_stored
from broker.core.rules.flaws import rules_for
from tests.broker.quorum.voters import CLUSTER, END, EPOCH, LAST, ME, NOBODY, OTHER, THIRD, UNKNOWN, sent, timer, voter
from tests.support.memory_files import MemoryFiles

# --- QU-1 -------------------------------------------------------------------------------------------------------------


def stored(epoch: int, leader: int, voted_for: int) -> MemoryFiles:
    files = MemoryFiles()
    quorum = voter(files=files)
    quorum.epoch, quorum.leader, quorum.voted_for = epoch, leader, voted_for
    quorum.persist()
    return files


@pytest.mark.parametrize(
    ("state", "role", "expected"),
    [
        pytest.param((7, OTHER, NOBODY), QuorumRole.FOLLOWER, (7, OTHER, NOBODY), id="follows the stored leader"),
        pytest.param((7, NOBODY, THIRD), QuorumRole.UNATTACHED, (7, NOBODY, THIRD), id="remembers its vote"),
        pytest.param((7, ME, ME), QuorumRole.RESIGNED, (7, NOBODY, ME), id="leads no more in its epoch"),
        pytest.param((LAST, OTHER, NOBODY), QuorumRole.FOLLOWER, (LAST, OTHER, NOBODY), id="as late as the log"),
        pytest.param((3, OTHER, THIRD), QuorumRole.UNATTACHED, (LAST, NOBODY, NOBODY), id="older than the log"),
    ],
)
def test_qu_1_a_voter_goes_on_from_what_it_stored(
    state: tuple[int, int, int], role: QuorumRole, expected: tuple[int, int, int]
) -> None:
    quorum = voter(files=stored(*state))
    quorum.epoch = 0
    elections.boot(quorum)
    assert quorum.role is role
    assert (quorum.epoch, quorum.leader, quorum.voted_for) == expected
    assert timer(quorum) is not None


def test_qu_1_a_new_voter_has_no_epoch_and_one_that_is_alone_leads() -> None:
    quorum = voter()
    quorum.log.truncate_fully(0)
    quorum.epoch = 0
    elections.boot(quorum)
    assert (quorum.epoch, quorum.role) == (0, QuorumRole.UNATTACHED)
    alone = voter(voters=1, files=stored(7, ME, ME))
    elections.boot(alone)
    assert (alone.role, alone.epoch) == (QuorumRole.LEADER, 8)


def with_flaw(name: str, files: MemoryFiles | None = None) -> Quorum:
    quorum = voter(files=files)
    quorum.rules = rules_for("K5", (name,)).quorum
    return quorum


def test_qu_1_a_voter_with_the_flaw_leads_on_in_its_epoch() -> None:
    quorum = with_flaw("lead-again-in-epoch", stored(7, ME, ME))
    elections.boot(quorum)
    assert (quorum.role, quorum.epoch, quorum.leader) == (QuorumRole.LEADER, 7, ME)


# --- QU-2, QU-3, QU-8, QU-9: votes ------------------------------------------------------------------------------------


def request(epoch: int = EPOCH, **other: object) -> VoteRequest:
    fields = {
        "cluster_id": CLUSTER,
        "voter_id": ME,
        "candidate_id": OTHER,
        "candidate_epoch": epoch,
        "last_epoch": LAST,
        "last_epoch_end_offset": END,
        **other,
    }
    return VoteRequest(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        pytest.param(request(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID, id="another cluster"),
        pytest.param(request(voter_id=THIRD), ErrorCode.INVALID_VOTER_KEY, id="meant for another"),
        pytest.param(request(candidate_id=7), ErrorCode.INVALID_REQUEST, id="no voter"),
        pytest.param(request(candidate_id=ME), ErrorCode.INVALID_REQUEST, id="itself"),
        pytest.param(request(last_epoch_end_offset=-1), ErrorCode.INVALID_REQUEST, id="no log"),
        pytest.param(request(last_epoch=EPOCH), ErrorCode.INVALID_REQUEST, id="a log of the epoch that it asks for"),
        pytest.param(request(last_epoch=EPOCH + 1, pre_vote=True), ErrorCode.INVALID_REQUEST, id="of a later one"),
        pytest.param(request(EPOCH - 1, last_epoch=3), ErrorCode.FENCED_LEADER_EPOCH, id="an old epoch"),
    ],
)
def test_qu_2_qu_3_votes_that_are_refused_at_once(asked: VoteRequest, error: ErrorCode) -> None:
    quorum = voter()
    answer = elections.handle_vote(quorum, asked)
    assert (answer.error_code, answer.vote_granted) == (error, False)
    assert (quorum.epoch, quorum.voted_for) == (EPOCH, NOBODY)
    assert read_stored(quorum.files) is None


def test_qu_8_a_candidate_with_an_empty_log_has_the_votes_of_its_like() -> None:
    quorum = voter()
    quorum.log.truncate_fully(0)
    assert elections.handle_vote(quorum, request(last_epoch=0, last_epoch_end_offset=0)).vote_granted


def test_qu_2_a_voter_need_not_be_named() -> None:
    assert elections.handle_vote(voter(), request(voter_id=UNKNOWN)).vote_granted


@pytest.mark.parametrize("role", [QuorumRole.UNATTACHED, QuorumRole.PROSPECTIVE])
def test_qu_8_a_vote_is_stored_before_it_is_given(role: QuorumRole) -> None:
    quorum = voter(role)
    answer = elections.handle_vote(quorum, request())
    assert (answer.error_code, answer.vote_granted, answer.leader_epoch) == (ErrorCode.NONE, True, EPOCH)
    assert read_stored(quorum.files) == (EPOCH, NOBODY, OTHER)
    assert quorum.role is QuorumRole.UNATTACHED
    assert timer(quorum) is not None
    assert not elections.handle_vote(quorum, request(candidate_id=THIRD)).vote_granted
    assert elections.handle_vote(quorum, request()).vote_granted


def test_qu_8_a_voter_with_the_flaw_gives_a_vote_that_it_does_not_store() -> None:
    quorum = with_flaw("vote-not-remembered")
    assert elections.handle_vote(quorum, request()).vote_granted
    assert read_stored(quorum.files) is None


@pytest.mark.parametrize("role", [QuorumRole.CANDIDATE, QuorumRole.RESIGNED, QuorumRole.FOLLOWER, QuorumRole.LEADER])
def test_qu_8_whoever_is_engaged_in_the_epoch_gives_no_vote(role: QuorumRole) -> None:
    quorum = voter(role)
    assert not elections.handle_vote(quorum, request()).vote_granted
    assert quorum.voted_for == NOBODY
    assert quorum.role is role


@pytest.mark.parametrize("role", [QuorumRole.LEADER, QuorumRole.FOLLOWER, QuorumRole.CANDIDATE])
def test_qu_3_a_higher_epoch_is_taken_over(role: QuorumRole) -> None:
    quorum = voter(role, OTHER)
    quorum.voted_for = THIRD
    answer = elections.handle_vote(quorum, request(EPOCH + 1))
    assert answer.vote_granted
    assert read_stored(quorum.files) == (EPOCH + 1, NOBODY, OTHER)


@pytest.mark.parametrize(
    ("role", "has_fetched", "granted"),
    [
        (QuorumRole.LEADER, False, False),
        (QuorumRole.FOLLOWER, True, False),
        (QuorumRole.FOLLOWER, False, True),
        (QuorumRole.UNATTACHED, True, True),
    ],
)
def test_qu_9_a_pre_vote_uses_up_no_vote(role: QuorumRole, has_fetched: bool, granted: bool) -> None:
    quorum = voter(role, OTHER if role is QuorumRole.FOLLOWER else NOBODY)
    quorum.has_fetched = has_fetched
    for candidate in (OTHER, THIRD):
        assert elections.handle_vote(quorum, request(candidate_id=candidate, pre_vote=True)).vote_granted is granted
    assert (quorum.voted_for, quorum.role) == (NOBODY, role)
    assert read_stored(quorum.files) is None


@pytest.mark.parametrize("ahead", [elections.EPOCHS_AHEAD_MAX, elections.EPOCHS_AHEAD_MAX + 1, 2**31 - 1 - EPOCH])
def test_qu_3_an_epoch_out_of_reach_moves_no_voter(ahead: int) -> None:
    epoch = EPOCH + ahead
    adopted = ahead <= elections.EPOCHS_AHEAD_MAX
    refused = ErrorCode.NONE if adopted else ErrorCode.INVALID_REQUEST
    for answered in (
        lambda quorum: elections.handle_vote(quorum, request(epoch)),
        lambda quorum: elections.handle_begin_epoch(quorum, BeginQuorumEpochRequest(CLUSTER, ME, OTHER, epoch)),
        lambda quorum: elections.handle_end_epoch(quorum, EndQuorumEpochRequest(CLUSTER, OTHER, epoch, ())),
    ):
        quorum = voter(QuorumRole.FOLLOWER, OTHER)
        assert answered(quorum).error_code == refused
        assert quorum.epoch == (epoch if adopted else EPOCH)


# --- QU-4: answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "leader", "moves", "role", "now"),
    [
        pytest.param(EPOCH - 1, THIRD, False, QuorumRole.UNATTACHED, (EPOCH, NOBODY), id="older"),
        pytest.param(EPOCH, NOBODY, False, QuorumRole.UNATTACHED, (EPOCH, NOBODY), id="nothing new"),
        pytest.param(EPOCH, ME, False, QuorumRole.UNATTACHED, (EPOCH, NOBODY), id="named itself"),
        pytest.param(EPOCH, OTHER, True, QuorumRole.FOLLOWER, (EPOCH, OTHER), id="the leader is learnt"),
        pytest.param(EPOCH + 1, OTHER, True, QuorumRole.FOLLOWER, (EPOCH + 1, OTHER), id="newer, with its leader"),
        pytest.param(EPOCH + 1, NOBODY, True, QuorumRole.UNATTACHED, (EPOCH + 1, NOBODY), id="newer"),
        pytest.param(EPOCH + 1, ME, True, QuorumRole.UNATTACHED, (EPOCH + 1, NOBODY), id="newer, named itself"),
    ],
)
def test_qu_4_newer_epochs_move_the_voter(
    epoch: int, leader: int, moves: bool, role: QuorumRole, now: tuple[int, int]
) -> None:
    quorum = voter()
    assert elections.follow_newer(quorum, epoch, leader) is moves
    assert (quorum.role, (quorum.epoch, quorum.leader)) == (role, now)


def test_qu_4_two_leaders_in_one_epoch_are_fatal_and_one_is_no_news() -> None:
    quorum = voter(QuorumRole.FOLLOWER, OTHER)
    assert not elections.follow_newer(quorum, EPOCH, OTHER)
    with pytest.raises(AssertionError, match="two leaders"):
        elections.follow_newer(quorum, EPOCH, THIRD)


def test_qu_15_a_resigned_leader_waits_for_another_epoch() -> None:
    quorum = voter(QuorumRole.RESIGNED)
    assert not elections.follow_newer(quorum, EPOCH, OTHER)
    assert quorum.role is QuorumRole.RESIGNED
    leader = voter(QuorumRole.LEADER)
    elections.resign(leader)
    assert (leader.role, leader.leader) == (QuorumRole.RESIGNED, NOBODY)
    assert timer(leader) is not None
    assert timer(leader, CHECK) is None


# --- QU-5 to QU-7: rounds ---------------------------------------------------------------------------------------------


def test_qu_5_an_answer_of_the_leader_starts_its_time_again() -> None:
    quorum = voter(QuorumRole.FOLLOWER, OTHER)
    elections.heard_from_leader(quorum, fetched=False)
    assert not quorum.has_fetched
    elections.heard_from_leader(quorum, fetched=True)
    elections.heard_from_leader(quorum, fetched=False)
    assert quorum.has_fetched
    after_ms = timer(quorum)
    assert after_ms is not None
    assert 2000 <= after_ms < 2500


def test_qu_6_a_prospective_voter_keeps_its_epoch_and_stores_nothing() -> None:
    quorum = voter()
    elections.become_prospective(quorum)
    assert (quorum.role, quorum.epoch, quorum.voted_for) == (QuorumRole.PROSPECTIVE, EPOCH, NOBODY)
    assert read_stored(quorum.files) is None
    expected = {one: VoteRequest(CLUSTER, one, ME, EPOCH, LAST, END, pre_vote=True) for one in (OTHER, THIRD)}
    assert sent(quorum, VoteRequest) == expected


def test_qu_6_a_voter_with_the_flaw_raises_its_epoch_at_once() -> None:
    quorum = with_flaw("no-pre-vote")
    elections.become_prospective(quorum)
    assert (quorum.role, quorum.epoch) == (QuorumRole.CANDIDATE, EPOCH + 1)


def test_qu_7_a_candidate_raises_the_epoch_and_votes_for_itself() -> None:
    quorum = voter(QuorumRole.PROSPECTIVE)
    elections.become_candidate(quorum)
    assert (quorum.role, quorum.epoch) == (QuorumRole.CANDIDATE, EPOCH + 1)
    assert read_stored(quorum.files) == (EPOCH + 1, NOBODY, ME)
    assert sent(quorum, VoteRequest)[OTHER] == VoteRequest(CLUSTER, OTHER, ME, EPOCH + 1, LAST, END)


YES = VoteResponse(ErrorCode.NONE, NOBODY, EPOCH, vote_granted=True)


def in_a_round(role: QuorumRole) -> Quorum:
    quorum = voter(role)
    quorum.granted = {ME: True}
    return quorum


def test_qu_7_a_majority_of_votes_makes_a_leader_and_of_pre_votes_a_candidate() -> None:
    quorum = in_a_round(QuorumRole.CANDIDATE)
    elections.vote_answered(quorum, OTHER, request(candidate_id=ME), YES)
    assert quorum.role is QuorumRole.LEADER
    prospective = in_a_round(QuorumRole.PROSPECTIVE)
    elections.vote_answered(prospective, OTHER, request(candidate_id=ME, pre_vote=True), YES)
    assert (prospective.role, prospective.epoch) == (QuorumRole.CANDIDATE, EPOCH + 1)


@pytest.mark.parametrize(
    ("role", "asked", "answer"),
    [
        pytest.param(QuorumRole.CANDIDATE, request(), None, id="none came"),
        pytest.param(QuorumRole.CANDIDATE, request(pre_vote=True), YES, id="a pre-vote counts for no vote"),
        pytest.param(QuorumRole.PROSPECTIVE, request(), YES, id="a vote counts for no pre-vote"),
        pytest.param(QuorumRole.CANDIDATE, request(EPOCH - 1), YES, id="of an earlier round"),
        pytest.param(
            QuorumRole.CANDIDATE, request(), YES._replace(error_code=ErrorCode.INVALID_REQUEST), id="an error"
        ),
    ],
)
def test_qu_4_answers_of_other_rounds_do_not_count(
    role: QuorumRole, asked: VoteRequest, answer: VoteResponse | None
) -> None:
    quorum = in_a_round(role)
    elections.vote_answered(quorum, OTHER, asked, answer)
    assert (quorum.role, quorum.granted) == (role, {ME: True})


def test_qu_4_an_answer_with_a_newer_epoch_ends_the_round() -> None:
    quorum = in_a_round(QuorumRole.CANDIDATE)
    elections.vote_answered(quorum, OTHER, request(), YES._replace(leader_epoch=EPOCH + 1, leader_id=THIRD))
    assert (quorum.role, quorum.leader) == (QuorumRole.FOLLOWER, THIRD)


@pytest.mark.parametrize(
    ("failed", "bound_ms", "step_ms"),
    [(0, 1_000, 100), (3, 1_000, 800), (20, 1_000, 1_000), (13, 600_000, 600_000), (99, 2**31 - 1, 50 << 20)],
)
def test_qu_7_a_lost_round_is_followed_by_a_wait_that_grows_to_its_bound(
    failed: int, bound_ms: int, step_ms: int
) -> None:
    quorum = in_a_round(QuorumRole.CANDIDATE)
    quorum.settings = replace(quorum.settings, controller_quorum_election_backoff_max_ms=bound_ms)
    quorum.failed_rounds = failed
    for one in (OTHER, THIRD):
        elections.vote_answered(quorum, one, request(), YES._replace(vote_granted=False))
    assert (quorum.role, quorum.failed_rounds) == (QuorumRole.UNATTACHED, failed + 1)
    wait_ms = timer(quorum)
    assert wait_ms is not None
    assert 1 + step_ms // 2 <= wait_ms <= 1 + step_ms // 2 + step_ms


def test_qu_6_who_loses_the_pre_votes_and_knows_no_leader_waits() -> None:
    quorum = in_a_round(QuorumRole.PROSPECTIVE)
    for one in (OTHER, THIRD):
        elections.vote_answered(quorum, one, request(pre_vote=True), YES._replace(vote_granted=False))
    assert (quorum.role, quorum.leader, quorum.failed_rounds) == (QuorumRole.UNATTACHED, NOBODY, 1)
    assert timer(quorum) is not None


def test_qu_6_a_follower_that_loses_the_pre_votes_follows_on() -> None:
    quorum = voter(QuorumRole.PROSPECTIVE, OTHER)
    quorum.granted = {ME: True}
    for one in (OTHER, THIRD):
        answer = VoteResponse(ErrorCode.NONE, OTHER, EPOCH)
        elections.vote_answered(quorum, one, request(pre_vote=True), answer)
    assert (quorum.role, quorum.leader, quorum.failed_rounds) == (QuorumRole.FOLLOWER, OTHER, 0)


def test_qu_7_a_voter_waits_for_another_time_before_each_election() -> None:
    """Two whose waits are alike would ask for votes at the same time again and again."""
    quorum = voter()
    assert len({quorum.jitter_ms(1_000_000) for _ in range(20)}) > 10
