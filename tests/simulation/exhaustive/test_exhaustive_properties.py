"""The properties, on views made by hand."""

import pytest

from broker.core.metadata.records import PartitionState
from broker.core.replica.state import Role
from simulation.exhaustive.model.events import Decision, NodeOutcome
from simulation.exhaustive.model.views import BrokerView, ControllerView, Registration
from simulation.exhaustive.property_checks import ModelGhost, check_state, lost_data, observe

A, B = (0, 1), (0, 2)  # records: (leader epoch, value)
STATE = PartitionState(replicas=(1, 2, 3), isr=(1, 2), leader=1, leader_epoch=0, partition_epoch=4)


def controller(state=STATE, **brokers):
    registered = {number: Registration(number, active=True, fenced=False) for number in (1, 2, 3)}
    return ControllerView(9, state, {**registered, **{int(k[1:]): v for k, v in brokers.items()}}, ())


def broker(number, log=(), high_watermark=0, *, leads=False, isr=(1, 2), epoch=0, maximal=None):
    return BrokerView(
        alive=True,
        broker_epoch=number,
        role=Role.LEADER if leads else Role.FOLLOWER,
        leader=1,
        leader_epoch=epoch,
        partition_epoch=4,
        high_watermark=high_watermark,
        log=tuple(log),
        isr=frozenset(isr),
        maximal_isr=frozenset(maximal or isr),
    )


def ids(found):
    return [text.partition(":")[0] for text in found if isinstance(text, str)]


def judged(brokers, committed=(), state=STATE, **kept):
    return ids(check_state(controller(state, **kept), list(brokers.items()), ModelGhost(tuple(committed))))


def test_a_whole_partition_breaks_nothing():
    brokers = {1: broker(1, [A], 1, leads=True), 2: broker(2, [A], 1), 3: broker(3)}
    assert judged(brokers, [A]) == []


@pytest.mark.parametrize(
    ("expected", "brokers", "committed"),
    [
        ("P-1", {1: broker(1, [], 0, leads=True), 2: broker(2, [A], 0)}, [A]),
        ("P-2", {1: broker(1, [A], 1, leads=True), 2: broker(2, [], 0)}, [A]),
        ("P-3", {1: broker(1, [A], 1, leads=True), 3: broker(3, [B], 1)}, [A]),
        ("P-4", {3: broker(3, [B], 1, leads=True, epoch=-1)}, [A]),
        ("P-5", {1: broker(1, [A], 1, leads=True, isr=(1, 3)), 2: broker(2, [A], 1)}, [A]),
        ("P-10", {1: broker(1, [A, B], 2, leads=True), 2: broker(2, [A], 1)}, [A]),
        ("P-19", {2: broker(2, [A], 1, epoch=7)}, [A]),
    ],
)
def test_each_property_is_broken_by_its_case(expected, brokers, committed):
    assert expected in judged(brokers, committed)


def test_a_fenced_member_of_the_isr_is_found():
    assert judged({}, _2=Registration(2, active=False, fenced=True)) == ["P-16"]


def test_a_broker_of_an_older_registration_is_no_candidate():
    brokers = {1: broker(1, [A], 1, leads=True), 2: broker(2)}
    assert "P-2" not in judged(brokers, [A], _2=Registration(77, active=True, fenced=False))


def test_more_lossy_replicas_than_the_protocol_survives_end_the_judgement_of_data():
    ghost = lost_data(lost_data(ModelGhost((A,)), 1), 2)
    brokers = [(1, broker(1, leads=True)), (2, broker(2))]
    assert ghost.exempt
    assert not list(check_state(controller(), brokers, ghost))
    assert not lost_data(ModelGhost((A,)), 1).exempt


NOTHING_SEEN = ModelGhost()


def decided(before, after, ghost=NOTHING_SEEN, registered=()):
    outcome = NodeOutcome(0, decisions=(Decision(registered, before, after),))
    return ids(observe(ghost, 0, outcome, controller()))


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("P-19", {"partition_epoch": 6}),
        ("P-19", {"partition_epoch": 5, "leader_epoch": -1}),
        ("P-19", {"partition_epoch": 5, "leader": 2}),
        ("P-17", {"partition_epoch": 5, "elr": (3,)}),
        ("P-17", {"partition_epoch": 5, "isr": (1,), "elr": (1,)}),
        ("P-18", {"partition_epoch": 5, "isr": (), "leader": -1, "leader_epoch": 1, "last_known_elr": (1,)}),
    ],
)
def test_decisions_of_the_controller_are_judged(expected, changes):
    assert decided(STATE, STATE._replace(**changes)) == [expected]


def test_a_broker_that_stopped_uncleanly_is_not_eligible_until_it_is_added():
    shrunk = STATE._replace(isr=(1,), elr=(2,), partition_epoch=5)
    assert decided(STATE, shrunk, registered=(2,)) == ["P-7"]
    assert decided(STATE, shrunk, ModelGhost(unclean=frozenset({2}))) == ["P-7"]
    grown = STATE._replace(isr=(1, 2, 3), partition_epoch=5)
    assert decided(STATE, grown, ModelGhost(unclean=frozenset({3}))) == []


def test_a_leader_commits_and_acknowledges_what_is_committed():
    view = broker(1, [A, B], 1, leads=True)
    *broken, ghost = observe(ModelGhost(), 1, NodeOutcome(0, acknowledged=((1, 0),), appended=0), view)
    assert broken == []
    assert (ghost.committed, ghost.leaders) == ((A,), ((0, 1),))
    assert ids(observe(ModelGhost(), 1, NodeOutcome(0, acknowledged=((2, 1),)), view)) == ["P-12"]
    assert ids(observe(ghost, 2, NodeOutcome(0, appended=0), broker(2))) == ["P-8"]
    assert ids(observe(ghost, 2, NodeOutcome(0, removed=((0, A),)), broker(2))) == ["P-6"]
    assert ids(observe(ghost, 2, NodeOutcome(0, removed=((1, B),)), broker(2))) == []
