"""Stories of the second design: what its queues and epochs do not prevent, and what they do."""

from __future__ import annotations

import pytest

from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import Create, SetData
from broker.zookeeper import paths
from broker.zookeeper.choices import LEADS_ON_AFTER_EXPIRY, V2
from broker.zookeeper.designs.v2 import queues
from broker.zookeeper.designs.v2.queues import RequestKind, StateChange
from simulation.zookeeper.ensemble import ENSEMBLE
from simulation.zookeeper.observer import DELETED, TWO_LEADERS
from simulation.zookeeper.views import isr_of
from tests.support.zookeeper_stage import KEY, Stage


def test_a_delayed_close_deletes_a_replica_that_is_assigned_and_in_sync_again() -> None:
    """B-05, Z-08: broker 3 is told to close while it hears nothing of the tree, and has been moved back since."""
    stage = Stage(3, generation=V2, lag_ms=2_000)
    stage.produce(1, 0)
    stage.run(1_000)
    stage.stall(3, ENSEMBLE)
    stage.reassign(1, 2)
    stage.run(100)
    stage.produce(1, 1)  # all have caught up: broker 3 is asked to close
    assert stage.children(paths.queue(3)) != ()
    stage.ensemble.administer(SetData(paths.reassigned(KEY), b"1,2,3"))  # the administrator has changed his mind
    stage.produce(1, 2)
    assert (stage.log(3), isr_of(stage.ensemble.tree, KEY)) == ([0, 1, 2], (1, 2, 3))
    stage.cut(1, 3)
    stage.cut(2, 3)
    stage.cluster.kill(2)
    stage.cluster.kill(1)
    stage.unstall(3, ENSEMBLE)
    stage.until(lambda: stage.lines("broker id 3, completed close-replica") == 1)
    stage.cluster.kill(3)
    stage.cluster.start(3)
    stage.until(lambda: stage.leader == 3)
    assert stage.log(3) == []
    assert stage.violation.property_id == "P-1"
    assert DELETED in str(stage.violation)


def overtaken(*switches: str) -> tuple[Stage, int]:
    """A leader that was cut off from ZooKeeper alone, with a request that waits; broker 2 leads and acknowledges."""
    stage = Stage(2, switches, generation=V2, lag_ms=2_000)
    stage.produce(1, 0)
    stage.cut_from_ensemble(1)
    stage.until(lambda: stage.leader == 2)
    number = stage.begin(1, 1)  # nobody fetches from it any more
    stage.run(6_000)
    stage.produce(2, 2)
    stage.mend(1, ENSEMBLE)
    return stage, number


def test_a_leader_that_hears_of_the_end_of_its_session_writes_no_isr_any_more() -> None:
    """What Z-02 is in the first design: here the write waits for the session, and goes with it."""
    stage, number = overtaken()
    assert stage.produced(number).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert stage.data(paths.insync(KEY)) == b"2;2"
    stage.until(lambda: stage.follows(1) == 2)
    stage.run(3_000)
    assert stage.log(1) == stage.log(2) == [0, 2]
    assert stage.watch.violation is None


def test_a_leader_that_leads_on_after_the_end_of_its_session_overwrites_isr_and_epoch() -> None:
    """B-01, Z-02, Q14: neither the version nor the epoch of the ISR is compared (Q22, Q23)."""
    stage, number = overtaken(LEADS_ON_AFTER_EXPIRY)
    assert stage.produced(number).error_code == ErrorCode.NONE
    assert stage.data(paths.insync(KEY)) == b"1;1"
    assert stage.violation.property_id == "P-8"
    assert TWO_LEADERS in str(stage.violation)


@pytest.mark.parametrize("by_zombie", [True, False])
def test_an_epoch_that_does_not_grow_is_found_and_excused_only_where_the_isr_was_overwritten(by_zombie: bool) -> None:
    """P-24, planted: the epoch in the tree is set back."""
    stage = Stage(2, generation=V2)
    stage.ensemble.expire(1)
    stage.until(lambda: stage.leader == 2 and stage.follows(1) == 2)
    stage.ensemble.administer(SetData(paths.insync(KEY), b"1,2;1"))
    if by_zombie:
        stage.ensemble.overwritten.add(KEY)
    stage.ensemble.expire(2)
    stage.until(lambda: stage.leader == 1)
    assert stage.violation.property_id == "P-24"
    assert "broker 1 leads in epoch 2, after one led in 2" in str(stage.violation)
    assert (TWO_LEADERS in str(stage.violation)) == by_zombie
    assert ("documented" in str(stage.violation)) == by_zombie


def test_what_a_close_took_is_no_excuse_once_it_has_come_again() -> None:
    """A replica that was closed, started again and caught up: that it lacks a record later has another cause."""
    stage = Stage(2, generation=V2, lag_ms=2_000)
    stage.produce(1, 0)
    stage.run(1_000)
    for kind in (RequestKind.CLOSE, RequestKind.START):
        change = StateChange(kind, KEY, 1, 1)
        stage.ensemble.administer(Create(paths.request_prefix(2), queues.encoded(change), sequential=True))
    stage.until(lambda: stage.lines("broker id 2, completed close-replica") == 1 and stage.log(2) == [0])
    stage.produce(1, 1)
    stage.run(1_000)
    replica = stage.replica(2).replica
    truncations = replica.log.truncations
    replica.log.truncate_to(0)
    replica.log.truncations = truncations  # as if nothing had been cut
    replica.high_watermark = 0
    stage.cut(1, 2)
    stage.cluster.kill(1)
    stage.until(lambda: stage.leader == 2)
    assert stage.violation.property_id == "P-1"
    assert "documented" not in str(stage.violation)
