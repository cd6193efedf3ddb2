"""Stories of the first design, step by step: what the leader-epoch notes and the catalogue say goes wrong in it."""

from __future__ import annotations

from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import Create
from broker.zookeeper import paths
from broker.zookeeper.choices import (
    FOLLOWS_ON_REQUEST,
    IGNORES_EXPIRY,
)
from simulation.zookeeper.ensemble import ENSEMBLE
from simulation.zookeeper.observer import TWO_LEADERS
from simulation.zookeeper.views import isr_of
from tests.support.zookeeper_stage import KEY, Stage


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
