"""A leader of the quorum (§18.4): how it begins, when it resigns, and whom it tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.quorum import elections
from broker.core.quorum.elections import CHECK
from broker.core.quorum.state import QuorumRole, read_stored
from broker.core.rules.flaws import rules_for
from tests.broker.quorum.voters import (
    CLUSTER,
    END,
    EPOCH,
    ME,
    NOBODY,
    OTHER,
    THIRD,
    UNKNOWN,
    sent,
    timer,
    voter,
)


@pytest.mark.parametrize("now_ms", [0, 5_000])
def test_qu_10_a_new_leader_appends_a_record_of_its_epoch_and_announces_it(now_ms: int) -> None:
    quorum = voter(QuorumRole.CANDIDATE)
    quorum.runtime.now_ms = now_ms
    elections.become_leader(quorum)
    assert (quorum.role, quorum.leader, quorum.epoch_start) == (QuorumRole.LEADER, ME, END)
    assert (quorum.log.end_offset, quorum.log.last_epoch) == (END + 1, EPOCH)
    assert read_stored(quorum.files) == (EPOCH, ME, NOBODY)
    announced = {one: BeginQuorumEpochRequest(CLUSTER, one, ME, EPOCH) for one in (OTHER, THIRD)}
    assert sent(quorum, BeginQuorumEpochRequest) == announced
    assert timer(quorum) is None
    assert timer(quorum, CHECK) == 1000


@pytest.mark.parametrize(
    ("asked", "error", "now"),
    [
        pytest.param((CLUSTER, EPOCH, THIRD), ErrorCode.INVALID_VOTER_KEY, (EPOCH, NOBODY), id="meant for another"),
        pytest.param((CLUSTER, EPOCH, UNKNOWN), ErrorCode.NONE, (EPOCH, OTHER), id="for nobody in particular"),
        pytest.param(("other", EPOCH, ME), ErrorCode.INCONSISTENT_CLUSTER_ID, (EPOCH, NOBODY), id="another cluster"),
        pytest.param((CLUSTER, EPOCH - 1, ME), ErrorCode.FENCED_LEADER_EPOCH, (EPOCH, NOBODY), id="old"),
        pytest.param((CLUSTER, EPOCH, ME), ErrorCode.NONE, (EPOCH, OTHER), id="of this epoch"),
        pytest.param((CLUSTER, EPOCH + 1, ME), ErrorCode.NONE, (EPOCH + 1, OTHER), id="newer"),
    ],
)
def test_qu_2_qu_3_qu_10_a_leader_is_announced(
    asked: tuple[str, int, int], error: ErrorCode, now: tuple[int, int]
) -> None:
    quorum = voter()
    cluster, epoch, meant = asked
    answer = elections.handle_begin_epoch(quorum, BeginQuorumEpochRequest(cluster, meant, OTHER, epoch))
    assert answer.error_code == error
    assert (quorum.epoch, quorum.leader) == now


def test_qu_10_a_second_leader_of_an_epoch_is_refused_and_one_of_a_newer_followed() -> None:
    quorum = voter(QuorumRole.FOLLOWER, OTHER)
    second = BeginQuorumEpochRequest(CLUSTER, ME, THIRD, EPOCH)
    answer = elections.handle_begin_epoch(quorum, second)
    assert answer == BeginQuorumEpochResponse(ErrorCode.INVALID_REQUEST, OTHER, EPOCH)
    assert (quorum.role, quorum.leader) == (QuorumRole.FOLLOWER, OTHER)
    answer = elections.handle_begin_epoch(quorum, second._replace(leader_epoch=EPOCH + 1))
    assert answer == BeginQuorumEpochResponse(ErrorCode.NONE, THIRD, EPOCH + 1)
    assert (quorum.role, quorum.leader) == (QuorumRole.FOLLOWER, THIRD)


def test_qu_10_time_passes_between_two_checks_however_short_the_timeout() -> None:
    quorum = voter(QuorumRole.CANDIDATE)
    quorum.settings = replace(quorum.settings, controller_quorum_fetch_timeout_ms=1)
    elections.become_leader(quorum)
    assert timer(quorum, CHECK) == 1


@pytest.mark.parametrize(
    ("fetched_ms", "since_ms", "leads"),
    [
        pytest.param((7_500, UNKNOWN), 0, True, id="one of two fetches"),
        pytest.param((6_900, 6_900), 0, False, id="nobody does any more"),
        pytest.param((UNKNOWN, UNKNOWN), 8_000, True, id="it has only just begun"),
        pytest.param((UNKNOWN, UNKNOWN), 7_000, False, id="nobody came"),
    ],
)
def test_qu_13_a_leader_without_a_majority_resigns(fetched_ms: tuple[int, int], since_ms: int, leads: bool) -> None:
    quorum = voter(QuorumRole.LEADER)
    quorum.runtime.now_ms, quorum.leader_since_ms = 10_000, since_ms
    for one, last_ms in zip((OTHER, THIRD), fetched_ms, strict=True):
        quorum.voters[one].last_fetch_ms = last_ms
    elections.check_quorum(quorum)
    assert quorum.leads is leads
    assert (timer(quorum, CHECK) is not None) is leads


def test_qu_13_a_leader_with_the_flaw_stays_without_a_majority() -> None:
    quorum = voter(QuorumRole.LEADER)
    quorum.rules = rules_for("K5", ("quorum-leader-stays",)).quorum
    quorum.runtime.now_ms = 10_000
    elections.check_quorum(quorum)
    assert quorum.leads
    assert timer(quorum, CHECK) is not None


def test_qu_10_only_who_does_not_fetch_is_told_of_the_epoch_again() -> None:
    quorum = voter(QuorumRole.LEADER)
    quorum.runtime.now_ms = 10_000
    quorum.voters[OTHER].last_fetch_ms, quorum.voters[THIRD].last_fetch_ms = 9_001, 9_000
    elections.check_quorum(quorum)
    assert list(sent(quorum, BeginQuorumEpochRequest)) == [THIRD]
    follower = voter(QuorumRole.FOLLOWER, OTHER)
    elections.check_quorum(follower)
    assert follower.runtime.effects == []


def test_qu_14_a_leader_that_stops_names_the_longest_log_first() -> None:
    quorum = voter(QuorumRole.LEADER)
    quorum.voters[OTHER].log_end, quorum.voters[THIRD].log_end = 5, 9
    elections.end_epoch(quorum)
    told = EndQuorumEpochRequest(CLUSTER, ME, EPOCH, (THIRD, OTHER))
    assert sent(quorum, EndQuorumEpochRequest) == {OTHER: told, THIRD: told}
    assert quorum.role is QuorumRole.RESIGNED
    follower = voter(QuorumRole.FOLLOWER, OTHER)
    elections.end_epoch(follower)
    assert (follower.role, follower.runtime.effects) == (QuorumRole.FOLLOWER, [])


@pytest.mark.parametrize(
    ("cluster", "epoch", "successors", "error", "role", "now"),
    [
        pytest.param(
            "other", EPOCH, (ME,), ErrorCode.INCONSISTENT_CLUSTER_ID, QuorumRole.FOLLOWER, EPOCH, id="another cluster"
        ),
        pytest.param(
            CLUSTER, EPOCH - 1, (ME,), ErrorCode.FENCED_LEADER_EPOCH, QuorumRole.FOLLOWER, EPOCH, id="an old epoch"
        ),
        pytest.param(CLUSTER, EPOCH, (ME, THIRD), ErrorCode.NONE, QuorumRole.PROSPECTIVE, EPOCH, id="it comes first"),
        pytest.param(CLUSTER, EPOCH, (THIRD, ME), ErrorCode.NONE, QuorumRole.UNATTACHED, EPOCH, id="it comes later"),
        pytest.param(CLUSTER, EPOCH, (THIRD,), ErrorCode.NONE, QuorumRole.UNATTACHED, EPOCH, id="it is not named"),
        pytest.param(
            CLUSTER, EPOCH + 1, (ME,), ErrorCode.NONE, QuorumRole.PROSPECTIVE, EPOCH + 1, id="of a newer epoch"
        ),
    ],
)
def test_qu_14_who_begins_when_a_leader_has_stopped(
    cluster: str, epoch: int, successors: tuple[int, ...], error: ErrorCode, role: QuorumRole, now: int
) -> None:
    quorum = voter(QuorumRole.FOLLOWER, OTHER)
    answer = elections.handle_end_epoch(quorum, EndQuorumEpochRequest(cluster, OTHER, epoch, successors))
    assert answer.error_code == error
    assert (quorum.role, quorum.epoch) == (role, now)
    if role is QuorumRole.UNATTACHED:
        assert timer(quorum) == 500


@pytest.mark.parametrize(
    ("sender", "epoch"),
    [
        pytest.param(7, EPOCH, id="who is no voter"),
        pytest.param(7, EPOCH + 1, id="who is no voter, of a newer epoch"),
        pytest.param(ME, EPOCH + 1, id="the voter itself"),
        pytest.param(THIRD, EPOCH, id="a voter that does not lead the epoch"),
    ],
)
def test_qu_14_an_end_told_by_another_than_the_leader_is_refused(sender: int, epoch: int) -> None:
    quorum = voter(QuorumRole.FOLLOWER, OTHER)
    answer = elections.handle_end_epoch(quorum, EndQuorumEpochRequest(CLUSTER, sender, epoch, (ME,)))
    assert answer == EndQuorumEpochResponse(ErrorCode.INVALID_REQUEST, OTHER, EPOCH)
    assert (quorum.role, quorum.epoch, quorum.leader) == (QuorumRole.FOLLOWER, EPOCH, OTHER)


def test_qu_14_the_end_of_a_newer_epoch_is_believed_of_whoever_may_have_led_it() -> None:
    quorum = voter(QuorumRole.FOLLOWER, OTHER)
    answer = elections.handle_end_epoch(quorum, EndQuorumEpochRequest(CLUSTER, THIRD, EPOCH + 1, (ME,)))
    assert answer == EndQuorumEpochResponse(ErrorCode.NONE, NOBODY, EPOCH + 1)
    assert (quorum.role, quorum.epoch) == (QuorumRole.PROSPECTIVE, EPOCH + 1)


def test_qu_14_a_candidate_does_not_begin_again() -> None:
    quorum = voter(QuorumRole.CANDIDATE)
    elections.handle_end_epoch(quorum, EndQuorumEpochRequest(CLUSTER, OTHER, EPOCH, (ME,)))
    assert quorum.role is QuorumRole.CANDIDATE
