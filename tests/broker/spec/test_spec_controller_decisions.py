"""What controllers decide, row by row: registration (§5), AlterPartition (§10), elections (§13 … §15)."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from broker.core.controller.partition_changes import changed
from broker.core.messages import AlterPartitionPartition
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import BrokerImage, Image
from broker.core.metadata.records import RECOVERED, RECOVERING, PartitionState
from broker.core.rules.cluster_metadata import Move
from broker.core.rules.elections import Election, IsrChange
from broker.core.rules.flaws import rules_for
from broker.core.rules.insync_replicas import first_failed_check

RULES = rules_for("K5", ())
K4 = rules_for("K4", ())
K3 = rules_for("K3", ())
NOBODY, UNKNOWN = -1, -1
NONE = ErrorCode.NONE
BROKER = BrokerImage(1, 10, "one", (), None, fenced=False, in_controlled_shutdown=False)


# --- Registration -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("existing", "incarnation", "in_contact", "duplicate"),
    [
        pytest.param(BROKER, "two", True, True, id="another one in session"),
        pytest.param(BROKER, "one", True, False, id="the same one"),
        pytest.param(BROKER, "two", False, False, id="its session has ended"),
        pytest.param(BROKER._replace(fenced=True), "two", True, False, id="fenced"),
        pytest.param(BROKER._replace(in_controlled_shutdown=True), "two", True, False, id="stopping"),
        pytest.param(None, "two", True, False, id="none before"),
    ],
)
def test_rg_2_a_second_incarnation(
    existing: BrokerImage | None, incarnation: str, in_contact: bool, duplicate: bool
) -> None:
    assert RULES.registration.is_duplicate(existing, incarnation, in_contact) is duplicate


@pytest.mark.parametrize(("existing", "previous", "clean"), [(BROKER, 10, True), (BROKER, 9, False), (None, 10, False)])
def test_rg_5_a_clean_stop_is_proved_by_the_epoch(existing: BrokerImage | None, previous: int, clean: bool) -> None:
    assert RULES.registration.stopped_cleanly(existing, previous) is clean


def test_rg_7_only_the_registered_epoch_is_current() -> None:
    assert RULES.registration.is_current(10, 10)
    assert not RULES.registration.is_current(10, 9)
    assert not RULES.registration.is_current(10, 11)


def test_hb_4_one_broker_at_a_time_is_fenced() -> None:
    assert RULES.registration.to_fence((3, 1, 2)) == (3,)


@pytest.mark.parametrize(("epoch", "news"), [(4, False), (5, False), (6, True)])
def test_md_3_only_a_later_state_is_news(epoch: int, news: bool) -> None:
    assert RULES.metadata.is_news(epoch, 5) is news


# --- AlterPartition ---------------------------------------------------------------------------------------------------


STATE = PartitionState((1, 2, 3), (1, 2), 1, 5, 7)


def asked(**other: object) -> AlterPartitionPartition:
    fields: dict[str, object] = {"leader_epoch": 5, "partition_epoch": 7, "new_isr": ((1, 11), (2, 12)), **other}
    return AlterPartitionPartition("t", 0, **fields)  # type: ignore[arg-type]


def image(fenced: Collection[int] = (), stopping: Collection[int] = ()) -> Image:
    """Brokers 1 to 4, whose epochs are 11 to 14."""
    brokers = {
        number: BrokerImage(number, 10 + number, str(number), (), None, number in fenced, number in stopping)
        for number in (1, 2, 3, 4)
    }
    return Image(brokers=brokers)


@pytest.mark.parametrize(
    ("sender", "change", "error"),
    [
        pytest.param(1, {}, NONE, id="all hold"),
        pytest.param(1, {"leader_epoch": 6}, ErrorCode.NOT_CONTROLLER, id="AP-4 leader epoch"),
        pytest.param(1, {"partition_epoch": 8}, ErrorCode.NOT_CONTROLLER, id="AP-4 partition epoch"),
        pytest.param(1, {"partition_epoch": 8, "leader_epoch": 4}, ErrorCode.NOT_CONTROLLER, id="AP-4 before AP-5"),
        pytest.param(1, {"leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH, id="AP-5 older epoch"),
        pytest.param(2, {}, ErrorCode.INVALID_REQUEST, id="AP-5 not the leader"),
        pytest.param(2, {"partition_epoch": 6}, ErrorCode.INVALID_REQUEST, id="AP-5 before AP-6"),
        pytest.param(1, {"partition_epoch": 6}, ErrorCode.INVALID_UPDATE_VERSION, id="AP-6"),
        pytest.param(1, {"partition_epoch": 6, "new_isr": ()}, ErrorCode.INVALID_UPDATE_VERSION, id="AP-6 before AP-7"),
        pytest.param(1, {"new_isr": ()}, ErrorCode.INVALID_REQUEST, id="AP-7 nobody"),
        pytest.param(1, {"new_isr": ((1, 11), (1, 11))}, ErrorCode.INVALID_REQUEST, id="AP-7 twice"),
        pytest.param(1, {"new_isr": ((1, 11), (4, 14))}, ErrorCode.INVALID_REQUEST, id="AP-7 no replica"),
        pytest.param(1, {"new_isr": ((2, 12),)}, ErrorCode.INVALID_REQUEST, id="AP-7 without the leader"),
        pytest.param(
            1, {"leader_recovery_state": RECOVERING, "new_isr": ((1, 11),)}, ErrorCode.INVALID_REQUEST, id="AP-7 back"
        ),
        pytest.param(1, {"new_isr": ((1, 11), (2, 9), (1, 1))}, ErrorCode.INVALID_REQUEST, id="AP-7 before AP-8"),
        pytest.param(1, {"new_isr": ((1, 11), (2, 9))}, ErrorCode.INELIGIBLE_REPLICA, id="AP-8 earlier incarnation"),
        pytest.param(1, {"new_isr": ((1, 10), (2, 12))}, ErrorCode.INELIGIBLE_REPLICA, id="AP-8 of the leader"),
        pytest.param(1, {"new_isr": ((1, 11), (2, UNKNOWN))}, NONE, id="AP-8 a member without an epoch"),
        pytest.param(
            1, {"new_isr": ((1, 11), (3, UNKNOWN))}, ErrorCode.INELIGIBLE_REPLICA, id="AP-8 a new one without"
        ),
        pytest.param(1, {"new_isr": ((1, 11), (3, 13))}, NONE, id="a new one"),
    ],
)
def test_ap_4_to_ap_8_the_first_check_that_fails_is_the_answer(
    sender: int, change: dict[str, object], error: ErrorCode
) -> None:
    assert first_failed_check(RULES.alter_partition, image(), STATE, sender, asked(**change)) == error


def test_ap_7_a_partition_in_recovery_has_one_member() -> None:
    state = STATE._replace(recovery_state=RECOVERING)

    def error(*members: int) -> ErrorCode:
        part = asked(new_isr=tuple((one, 10 + one) for one in members), leader_recovery_state=RECOVERING)
        return first_failed_check(RULES.alter_partition, image(), state, 1, part)

    assert error(1) == NONE
    assert error(1, 2) == ErrorCode.INVALID_REQUEST
    assert first_failed_check(RULES.alter_partition, image(), state, 1, asked(leader_recovery_state=RECOVERED)) == NONE


@pytest.mark.parametrize("standing", [{"fenced": (2,)}, {"stopping": (2,)}])
def test_ap_8_no_fenced_or_stopping_member(standing: dict[str, tuple[int, ...]]) -> None:
    for epoch in (12, UNKNOWN):
        part = asked(new_isr=((1, 11), (2, epoch)))
        error = first_failed_check(RULES.alter_partition, image(**standing), STATE, 1, part)
        assert error == ErrorCode.INELIGIBLE_REPLICA


def test_ap_8_no_member_whose_log_directory_failed() -> None:
    state = STATE._replace(offline=(2,))
    assert first_failed_check(RULES.alter_partition, image(), state, 1, asked()) == ErrorCode.INELIGIBLE_REPLICA


# --- Elections --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leader", "isr", "elr", "active", "options", "expected"),
    [
        pytest.param(2, (1, 2), (), {1, 2, 3}, {}, Election(2, (1, 2), ()), id="EL-3 the leader stays"),
        pytest.param(2, (1, 2), (), {1, 2, 3}, {"first": True}, Election(1, (1, 2), ()), id="EL-4 preferred"),
        pytest.param(2, (1, 2), (), {2, 3}, {"first": True}, Election(2, (1, 2), ()), id="EL-4 preferred is inactive"),
        pytest.param(2, (2, 3), (), {1, 2, 3}, {"first": True}, Election(2, (2, 3), ()), id="EL-4 preferred lags"),
        pytest.param(3, (2, 3), (), {1, 2, 3}, {"first": True}, Election(3, (2, 3), ()), id="EL-4 only the preferred"),
        pytest.param(3, (1, 2, 3), (), {2, 3}, {"first": True}, Election(3, (1, 2, 3), ()), id="EL-4 and only active"),
        pytest.param(
            2, (2, 3), (), {1, 3}, {}, Election(3, (2, 3), ()), id="EL-3 the first that is active and in sync"
        ),
        pytest.param(2, (1, 3), (), {1, 2, 3}, {}, Election(1, (1, 3), ()), id="EL-3 the leader left the ISR"),
        pytest.param(NOBODY, (), (2, 3), {1, 3}, {}, Election(3, (3,), (2,)), id="EL-3 from the ELR"),
        pytest.param(2, (2,), (3,), {3}, {}, Election(NOBODY, (2,), (3,)), id="EL-3 the ISR comes before the ELR"),
        pytest.param(2, (2,), (), {1, 3}, {}, Election(NOBODY, (2,), ()), id="EL-9 not allowed"),
        pytest.param(
            2, (2,), (), {1, 3}, {"unclean": True}, Election(1, (1,), (), unclean=True), id="EL-9 unclean is allowed"
        ),
        pytest.param(2, (2,), (), set(), {"unclean": True}, Election(NOBODY, (2,), ()), id="EL-9 nobody is active"),
    ],
)
def test_el_3_el_4_el_9_who_is_elected(
    leader: int,
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    active: Collection[int],
    options: dict[str, bool],
    expected: Election,
) -> None:
    elected = RULES.elections.elect(
        leader,
        (1, 2, 3),
        isr,
        elr,
        lambda broker: broker in active,
        prefer_first=options.get("first", False),
        unclean_allowed=options.get("unclean", False),
    )
    assert elected == expected


@pytest.mark.parametrize(
    ("isr", "elr", "expected"),
    [
        pytest.param((1, 2), (3,), ((), ()), id="as many as min ISR"),
        pytest.param((1, 2, 4), (3,), ((), ()), id="more"),
        pytest.param((1,), (3,), ((2, 3), (4,)), id="fewer: who leaves stays eligible"),
        pytest.param((1,), (3, 5), ((2, 3), (4,)), id="but nobody who is no replica"),
    ],
)
def test_elr_1_elr_2_who_stays_eligible(
    isr: tuple[int, ...], elr: tuple[int, ...], expected: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    change = IsrChange((1, 2), isr, elr, (4,), (1, 2, 3, 4), 2, frozenset())
    assert RULES.elections.eligible(change) == expected


def test_elr_4_who_stopped_uncleanly_is_only_remembered() -> None:
    change = IsrChange((1, 2), (1,), (3,), (), (1, 2, 3), 2, frozenset({3}))
    assert RULES.elections.eligible(change) == ((2,), (3,))


def test_el_11_a_shrink_raises_the_leader_epoch_in_k1_alone() -> None:
    state = PartitionState((1, 2, 3), (1, 2, 3), 1, 5, 7)
    for generation, epoch in (("K1", 6), ("K2", 5), ("K5", 5)):
        new = changed(rules_for(generation, ()), state, (1, 2), lambda broker: True, 2)
        assert new is not None
        assert (new.leader_epoch, new.partition_epoch) == (epoch, 8)


@pytest.mark.parametrize(("candidate", "moves"), [(6, True), (5, False), (4, False)])
def test_hw_2_without_hw_3_before_k4(candidate: int, moves: bool) -> None:
    assert K3.high_watermark.may_advance(5, candidate, (1,), frozenset({1}), 2) is moves


@pytest.mark.parametrize(
    ("generation", "fenced_joins", "rebooted_joins"), [("K1", True, True), ("K2", False, True), ("K3", False, False)]
)
def test_isr_e5_and_ap_8_in_older_versions(generation: str, fenced_joins: bool, rebooted_joins: bool) -> None:
    rules = rules_for(generation, ())
    fenced = image(fenced=(2,))
    for metadata, epoch, joins in ((fenced, 12, fenced_joins), (image(), 9, rebooted_joins), (image(), 12, True)):
        assert rules.isr.is_eligible(metadata.brokers[2], epoch) is joins
        assert rules.alter_partition.is_eligible(metadata, 2, epoch, added=True) is joins
    assert rules.isr.is_eligible(None, 12) is (generation == "K1")


def test_el_5_who_is_gone_leaves_the_isr_even_as_the_last() -> None:
    assert RULES.elections.shrink((1, 2), 2) == (1,)
    assert RULES.elections.shrink((1,), 1) == ()
    assert RULES.elections.shrink((1, 2), 3) == (1, 2)
    assert K3.elections.shrink((1, 2), 2) == (1,)
    assert K3.elections.shrink((1,), 1) == (1,)


@pytest.mark.parametrize(
    ("before", "leader", "isr", "known"),
    [
        pytest.param((2, ()), NOBODY, (), (2,), id="the leader that is lost"),
        pytest.param((NOBODY, (2,)), NOBODY, (), (2,), id="remembered"),
        pytest.param((2, ()), 3, (3,), (), id="another leads"),
        pytest.param((2, ()), 3, (), (), id="another is to lead"),
        pytest.param((NOBODY, (2,)), NOBODY, (3,), (), id="somebody is in sync"),
    ],
)
def test_ur_4_in_k4_only_the_last_leader_is_known(
    before: tuple[int, tuple[int, ...]], leader: int, isr: tuple[int, ...], known: tuple[int, ...]
) -> None:
    assert K4.elections.last_known(before, leader, isr, (1, 3), (1, 2, 3)) == known
    assert K4.elections.last_known(before, leader, isr, (1, 3), (4, 5)) == ()
    assert RULES.elections.last_known(before, leader, isr, (1, 3), (1, 2, 3)) == (1, 3)


@pytest.mark.parametrize(("active", "replica", "may"), [(True, True, True), (False, True, False), (True, False, False)])
def test_ur_4_in_k4_the_last_leader_leads_again(active: bool, replica: bool, may: bool) -> None:
    assert K4.elections.may_lead_again(active, replica=replica) is may


@pytest.mark.parametrize(("known", "asked_"), [((1,), (1, 2, 3)), ((1, 2), (1, 2)), ((1, 2, 3), (1, 2, 3))])
def test_ur_6_who_has_to_answer(known: tuple[int, ...], asked_: tuple[int, ...]) -> None:
    assert RULES.elections.recovery_quorum(known, (1, 2, 3), 2) == asked_


def test_ur_6_only_who_is_needed_has_to_answer() -> None:
    assert RULES.elections.needs_log_info(2, (2, 3))
    assert not RULES.elections.needs_log_info(1, (2, 3))


@pytest.mark.parametrize(("quorum", "suffices"), [((1,), False), ((1, 2), True), ((1, 2, 3), True)])
def test_elr_8_at_least_min_isr(quorum: tuple[int, ...], suffices: bool) -> None:
    assert RULES.elections.is_recovery_quorum(quorum, 2) is suffices


@pytest.mark.parametrize(
    ("epoch", "asked_", "counts"), [(7, True, True), (6, True, False), (8, True, False), (7, False, False)]
)
def test_ur_7_an_answer_of_the_present_recovery(epoch: int, asked_: bool, counts: bool) -> None:
    assert RULES.elections.awaits_log_info(epoch, 7, asked=asked_) is counts


@pytest.mark.parametrize(
    ("answered", "asked_", "registered", "active", "counts"),
    [
        (5, 5, 5, True, True),
        (4, 5, 5, True, False),
        (5, 5, 6, True, False),
        (6, 5, 6, True, False),
        (5, 5, 5, False, False),
    ],
)
def test_ur_7_ur_9_an_answer_of_the_registered_incarnation(
    answered: int, asked_: int, registered: int, active: bool, counts: bool
) -> None:
    assert RULES.elections.accepts_log_info(answered, asked_, registered, active=active) is counts


@pytest.mark.parametrize(("answered", "counts"), [(6, False), (7, True), (8, True)])
def test_ur_15_an_answer_in_the_present_leader_epoch(answered: int, counts: bool) -> None:
    assert RULES.elections.knows_leader_epoch(answered, 7) is counts


@pytest.mark.parametrize(
    ("first", "second", "better"),
    [((2, 1), (1, 9), True), ((1, 9), (1, 8), True), ((1, 8), (1, 8), False), ((1, 9), (2, 1), False)],
)
def test_ur_8_the_later_epoch_and_then_the_longer_log(
    first: tuple[int, int], second: tuple[int, int], better: bool
) -> None:
    assert RULES.elections.better_log(first, second) is better


TWO_FOR_TWO = Move((4, 5, 6), adding=(4, 5), removing=(1, 2))
ONE_FOR_TWO = Move((4, 6), adding=(4,), removing=(1, 2))


@pytest.mark.parametrize(
    ("move", "isr", "complete"),
    [
        pytest.param(TWO_FOR_TWO, (4, 5, 6), True, id="all of the target"),
        pytest.param(TWO_FOR_TWO, (4, 6), False, id="an added one is missing"),
        pytest.param(TWO_FOR_TWO, (4, 5), True, id="min ISR, and the target is as large as before"),
        pytest.param(TWO_FOR_TWO._replace(adding=(4,)), (4,), False, id="fewer than min ISR"),
        pytest.param(ONE_FOR_TWO, (4, 5), False, id="min ISR, and the target is smaller"),
        pytest.param(ONE_FOR_TWO, (4, 6), True, id="all of a smaller target"),
        pytest.param(Move((), (), ()), (), False, id="nobody in sync"),
    ],
)
def test_ra_3_when_a_reassignment_is_complete(move: Move, isr: tuple[int, ...], complete: bool) -> None:
    assert RULES.reassignment.is_complete(move, isr, 2) is complete


def test_ra_3_before_k5_the_added_ones_are_in_sync() -> None:
    assert K4.reassignment.is_complete(ONE_FOR_TWO, (4,), 2)
    assert not K4.reassignment.is_complete(TWO_FOR_TWO, (4, 6), 2)
    assert not K4.reassignment.is_complete(Move((5, 6), (), ()), (), 2)


@pytest.mark.parametrize(
    ("isr", "elr", "last_known", "strands"),
    [
        pytest.param((2,), (), (), False, id="a member of the ISR stays"),
        pytest.param((1,), (), (), True, id="none of the ISR stays"),
        pytest.param((1,), (2,), (), True, id="the ELR does not count beside an ISR"),
        pytest.param((), (2,), (), False, id="a member of the ELR stays"),
        pytest.param((1,), (2, 3), (), True, id="none of the ISR stays, though min ISR of the ELR do"),
        pytest.param((), (1,), (2,), True, id="none of the ELR stays"),
        pytest.param((), (), (2, 3), False, id="all last known ones stay"),
        pytest.param((), (), (1, 2), True, id="a last known one leaves"),
        pytest.param((1, 2, 3), (), (), False, id="min ISR of the ISR stay"),
        pytest.param((1, 4, 2), (), (), True, id="fewer than min ISR of the ISR stay"),
        pytest.param((1, 2), (3,), (), False, id="min ISR of ISR and ELR stay"),
        pytest.param((2,), (1,), (3,), True, id="fewer than min ISR of ISR and ELR stay"),
        pytest.param((2,), (), (1, 3), False, id="min ISR stay with the last known ones"),
        pytest.param((2,), (), (1,), True, id="fewer than min ISR stay with the last known ones"),
    ],
)
def test_ra_6_as_many_as_min_isr_of_those_who_are_complete_are_kept(
    isr: tuple[int, ...], elr: tuple[int, ...], last_known: tuple[int, ...], strands: bool
) -> None:
    assert RULES.reassignment.strands((isr, elr, last_known), (2, 3), 2) is strands


def test_el_0_whether_replicas_leave() -> None:
    assert RULES.reassignment.drops((1, 2, 3), (1, 2))
    assert RULES.reassignment.drops((1, 2, 3), (1, 2, 4))
    assert not RULES.reassignment.drops((1, 2), (1, 2, 3))


def test_elr_5_only_replicas_of_the_target_are_remembered() -> None:
    assert RULES.reassignment.eligible_among((2, 3), (1, 2)) == (2, 3)


@pytest.mark.parametrize(
    ("needed", "min_isr", "kept"),
    [
        pytest.param((3, 1, 2), 2, (1, 3), id="the others whose answers were needed"),
        pytest.param((2,), 2, (), id="nobody else was needed"),
        pytest.param((), 2, (), id="losses are accepted"),
        pytest.param((1, 2), 1, (), id="the leader alone is enough to commit"),
    ],
)
def test_ur_10_who_else_may_be_complete_is_remembered(needed: tuple[int, ...], min_isr: int, kept: tuple[int]) -> None:
    assert RULES.elections.remembered(needed, 2, min_isr) == kept
