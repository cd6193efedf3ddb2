"""Stories of the first design, step by step: what the leader-epoch notes and the catalogue say goes wrong in it."""

from __future__ import annotations

from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import Create
from broker.zookeeper import paths
from broker.zookeeper.choices import (
    FOLLOWS_ON_REQUEST,
    IGNORES_EXPIRY,
)
from simulation.invariants.properties import is_documented
from simulation.zookeeper.ensemble import ENSEMBLE
from simulation.zookeeper.observer import LATE_RACE, TWO_LEADERS
from simulation.zookeeper.views import isr_of
from tests.support.zookeeper_stage import KEY, TOPIC, Stage


def overtaken() -> tuple[Stage, int]:
    """A leader that was cut off from ZooKeeper alone, with a request that waits; broker 2 leads and acknowledges."""
    stage = Stage(2, lag_ms=2_000)
    stage.produce(1, 0)
    stage.cut_from_ensemble(1)
    stage.until(lambda: stage.leader == 2)
    number = stage.begin(1, 1)  # nobody fetches from it any more
    stage.run(6_000)
    stage.produce(2, 2)
    assert (stage.log(1), stage.log(2)) == ([0, 1], [0, 2])
    return stage, number


def test_a_leader_that_only_the_ensemble_has_lost_acknowledges_beside_the_next() -> None:
    """B-01, Z-02: cut off from ZooKeeper alone, it still serves; its ISR is written when it is back."""
    stage, number = overtaken()
    stage.mend(1, ENSEMBLE)
    answer = stage.produced(number)
    assert answer.error_code == ErrorCode.NONE, "acknowledged by a broker that leads no more"
    assert isr_of(stage.ensemble.tree, KEY) == (1,), "written without a version, over that of the leader"
    broken = stage.violation
    assert broken.property_id == "P-8"
    assert TWO_LEADERS in str(broken)


def test_the_leader_whose_isr_was_overwritten_loses_what_it_acknowledged() -> None:
    stage, number = overtaken()
    stage.mend(1, ENSEMBLE)
    stage.until(lambda: isr_of(stage.ensemble.tree, KEY) == (1,))
    stage.cluster.kill(2)
    stage.until(lambda: stage.leader == 1)  # the only one in the ISR
    assert stage.produced(number).error_code in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert 2 not in (stage.log(1) or ())


def test_a_broker_that_ignores_the_end_of_its_session_leads_for_ever() -> None:
    stage = Stage(2, (IGNORES_EXPIRY,))
    stage.ensemble.expire(1)
    stage.until(lambda: stage.leader == 2)
    stage.run(30_000)
    assert stage.replica(1).is_open
    assert stage.produced(stage.begin(1, 7, acks=1)).error_code == ErrorCode.NONE


def test_a_broker_that_hears_of_the_end_of_its_session_follows_the_new_leader() -> None:
    stage = Stage(2)
    stage.ensemble.expire(1)
    stage.until(lambda: stage.leader == 2)
    stage.until(lambda: stage.follows(1) == 2)
    assert stage.produced(stage.begin(1, 7)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_replica_that_follows_only_on_request_follows_nobody_after_a_restart() -> None:
    stage = Stage(2, (FOLLOWS_ON_REQUEST,), lag_ms=2_000)
    stage.cluster.kill(2)
    stage.cluster.start(2)
    stage.run(20_000)
    stage.produce(1, 0)
    assert stage.log(2) == []
    assert isr_of(stage.ensemble.tree, KEY) == (1,)


def test_a_partition_moves_to_other_replicas_once_they_have_all() -> None:
    stage = Stage(3, lag_ms=2_000)
    stage.produce(1, 0)
    stage.ensemble.administer(Create(paths.reassigned_topic("log")))
    stage.ensemble.administer(Create(paths.reassigned(KEY), paths.encoded((2, 3))))
    stage.run(1_000)
    stage.begin(1, 1)
    stage.until(lambda: stage.leader in (2, 3))
    assert stage.ensemble.tree.data(paths.replicas(KEY)) == b"2,3"
    assert stage.ensemble.tree.data(paths.reassigned(KEY)) is None
    stage.run(3_000)
    assert KEY not in stage.cluster.machines[1].node.state.hosted  # type: ignore[union-attr]
    assert stage.log(2) == stage.log(3) == [0, 1]


def late_winner() -> Stage:
    """A candidate that read the ISR, was away while another led alone, and wins the race once that one is gone."""
    stage = Stage(3, lag_ms=2_000)
    stage.produce(1, 0)
    stage.cluster.kill(1)
    stage.until(lambda: stage.data(paths.leader(KEY)) is None)
    stage.run(150)  # both others have read that all are in sync, and leave the preferred replica its head start
    stage.cut_from_ensemble(3)
    stage.until(lambda: stage.leader == 2)
    stage.produce(2, 1)
    assert isr_of(stage.ensemble.tree, KEY) == (2,)
    stage.cluster.kill(2)
    stage.until(lambda: stage.data(paths.leader(KEY)) is None)
    return stage


def test_a_candidate_wins_by_an_isr_that_it_has_read_before_another_was_written() -> None:
    """Z-11: the call that the end of its session left open is made again in the next."""
    stage = late_winner()
    stage.mend_to_ensemble(3)
    stage.until(lambda: stage.watch.violation is not None)
    assert stage.violation.property_id == "P-1"
    assert LATE_RACE in str(stage.violation)
    assert 1 not in (stage.log(3) or ())


def test_a_leader_without_what_was_acknowledged_is_not_excused_where_nobody_outside_the_isr_has_won() -> None:
    stage = late_winner()
    stage.mend_to_ensemble(3)
    stage.until(lambda: bool(stage.ensemble.won_outside), every_us=0)
    stage.ensemble.won_outside.clear()
    stage.until(lambda: stage.watch.violation is not None)
    assert not is_documented(str(stage.violation))


def test_what_was_noted_of_a_partition_goes_with_it() -> None:
    stage = Stage(2)
    stage.ensemble.overwritten.add(KEY)
    stage.ensemble.won_outside.add(KEY)
    assert stage.delete(TOPIC) == ErrorCode.NONE
    assert not stage.ensemble.overwritten | stage.ensemble.won_outside
