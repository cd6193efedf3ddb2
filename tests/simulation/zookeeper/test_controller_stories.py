"""Stories of the steps with a controller: the scenarios of the leader-epoch notes and of KIP-279, and their cures."""

from __future__ import annotations

import pytest

from broker.core.messages.leadership import ControlledShutdownRequest
from broker.zookeeper import paths
from broker.zookeeper.choices import C1, C2, C3, CONTROLLED
from simulation.engine.disk import Survival
from simulation.zookeeper.ensemble import ENSEMBLE
from simulation.zookeeper.evidence import (
    EARLIER_LEADER,
    EPOCH_NOT_NOTED,
    JOINED_BELOW,
    NOT_COMPARED,
    TO_HIGH_WATERMARK,
    UNSYNCED,
)
from simulation.zookeeper.views import isr_of, leader_of, states, unnoticed, wrongly_stopping
from tests.support.zookeeper_stage import KEY, Stage

PATIENT_MS = 120_000
"""A lag time within which no follower leaves an ISR."""


def named(stage: Stage) -> int | None:
    """The leader in the tree."""
    return leader_of(stage.ensemble.tree, KEY)


def told(stage: Stage, broker: int) -> int:
    """Whom a broker has been told to follow, whether it does already or not."""
    return stage.replica(broker).replica.leader


# --- KIP-101, scenario 1 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("generation", "kept"), [(C1, False), (C2, True), (C3, True)])
def test_a_follower_that_gets_another_leader_before_it_hears_of_a_commit(generation: str, kept: bool) -> None:
    """B-11: 4 has m1, and does not know that it counts; it becomes 3's follower, cuts, and is elected.

    A broker that restarts leaves the ISR here, since it waits for the end of its last session: so the other occasion
    for a cut, a new leader, takes the restart's place.
    """
    stage = Stage(4, generation=generation, assigned=(2, 3, 4), lag_ms=PATIENT_MS)
    stage.produce(2, 0)
    stage.run(3_000)
    stage.produce(2, 1)
    assert (stage.log(4), stage.high_watermark(4)) == ([0, 1], 1)
    stage.cluster.kill(2)
    stage.cut(3, 4)
    stage.until(lambda: stage.leader == 3 and told(stage, 4) == 3)
    stage.run(500)
    assert stage.log(4) == ([0, 1] if kept else [0])
    stage.cluster.kill(3)
    stage.until(lambda: stage.leader == 4)
    if kept:
        assert stage.watch.violation is None
        assert stage.log(4) == [0, 1]
        return
    assert stage.violation.property_id == "P-1"
    assert TO_HIGH_WATERMARK in str(stage.violation)


# --- KIP-101, scenario 2 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("generation", "kept"), [(C1, False), (C2, True), (C3, True)])
def test_two_hard_failures_after_which_the_shorter_log_leads(generation: str, kept: bool) -> None:
    """B-12: 2 has synced m1, 3 has not; 3 is back first, leads, and appends m2 at the offset of m1."""
    stage = Stage(3, generation=generation, assigned=(2, 3), lag_ms=PATIENT_MS, min_insync_replicas=1)
    stage.produce(2, 0)
    stage.run(3_000)
    stage.cluster.stop(3)  # which syncs m0
    stage.until(lambda: stage.cluster.machines[3].node is None)
    stage.cluster.start(3)
    stage.until(lambda: isr_of(stage.ensemble.tree, KEY) == (2, 3))
    stage.produce(2, 1)
    stage.run(4_000)
    assert stage.high_watermark(2) == stage.high_watermark(3) == 2
    stage.cluster.kill(2, Survival.EVERYTHING)
    stage.run(1_000)
    stage.cluster.kill(3, Survival.NOTHING)
    stage.run(10_000)
    assert named(stage) is None
    stage.cluster.start(3)
    stage.until(lambda: stage.leader == 3)
    assert UNSYNCED in str(stage.violation)
    assert stage.produce(3, 2) == 1
    stage.cluster.start(2)
    stage.until(lambda: stage.follows(2) == 3)
    stage.run(10_000)
    stage.produce(stage.leader or 0, 3)  # 2 again, if it is in sync
    stage.run(2_000)
    logs = (stage.log(2), stage.log(3))
    assert logs == (([0, 2, 3], [0, 2, 3]) if kept else ([0, 1, 3], [0, 2, 3]))


# --- KIP-279 ---------------------------------------------------------------------------------------------------------


def fast_fail_over(generation: str) -> Stage:
    """3 leads and has m1 that 2 lacks; 2 leads and appends m2 at its offset; 3 leads again and has heard of nothing."""
    stage = Stage(3, generation=generation, assigned=(2, 3), lag_ms=PATIENT_MS, min_insync_replicas=1)
    stage.produce(2, 0)
    stage.run(3_000)
    stage.cluster.kill(2)
    stage.until(lambda: stage.leader == 3)
    stage.cluster.start(2)
    stage.until(lambda: isr_of(stage.ensemble.tree, KEY) == (3, 2))
    stage.cut(3, 1)  # the controller
    stage.cut(3, 2)
    stage.produced(stage.begin(3, 1, acks=1))
    stage.until(lambda: stage.leader == 2)  # the preferred replica
    assert isr_of(stage.ensemble.tree, KEY) == (3, 2)
    stage.produced(stage.begin(2, 2, acks=1))
    stage.cluster.kill(2)
    stage.until(lambda: named(stage) == 3)
    stage.mend(3, 1)
    stage.mend(3, 2)
    stage.until(lambda: stage.leader == 3 and stage.replica(3).replica.leader_epoch > 2)
    assert (stage.log(3), stage.watch.violation) == ([0] if generation == C1 else [0, 1], None)
    return stage


@pytest.mark.parametrize(("generation", "kept"), [(C1, True), (C2, False), (C3, True)])
def test_a_follower_of_an_epoch_that_its_leader_never_heard_of(generation: str, kept: bool) -> None:
    """B-13: 2 asks where its epoch ends, 3 answers where the next one of its own begins; C1 does not ask."""
    stage = fast_fail_over(generation)
    stage.produce(3, 3)
    stage.cluster.start(2)
    stage.until(lambda: stage.follows(2) == 3)
    stage.run(10_000)
    stage.produce(stage.leader or 0, 4)
    stage.run(3_000)
    agreed = [0, 3, 4] if generation == C1 else [0, 1, 3, 4]  # C1 has cut m1, which nobody was promised, in 3 too
    assert (stage.log(2), stage.log(3)) == (agreed if kept else [0, 2, 3, 4], agreed)
    assert stage.high_watermark(2) == stage.high_watermark(3) == len(agreed)


# --- the other flaws of the time: what the observer names them by ----------------------------------------------------

with_epochs = pytest.mark.parametrize("generation", [C2, C3])
all_of_them = pytest.mark.parametrize("generation", CONTROLLED)


@with_epochs
def test_a_leader_that_has_appended_nothing_does_not_know_its_epoch(generation: str) -> None:
    """B-17: 3 leads again and appends nothing; 2, which led between, cuts to its high watermark, which lags."""
    stage = Stage(4, generation=generation, assigned=(3, 2, 4), lag_ms=PATIENT_MS, min_insync_replicas=1)
    stage.produce(3, 0)
    stage.run(3_000)
    stage.produce(3, 1)
    stage.cluster.kill(3)
    stage.cut(2, 4)
    stage.until(lambda: stage.leader == 2)
    assert stage.high_watermark(2) == 1, "4 is in the ISR, and has not fetched from 2 yet"
    stage.cluster.start(3)
    stage.until(lambda: isr_of(stage.ensemble.tree, KEY) == (2, 4, 3))
    stage.cut(2, 3)
    stage.produced(stage.begin(2, 2, acks=1))
    stage.until(lambda: stage.leader == 3)
    stage.mend(2, 3)
    stage.until(lambda: stage.lines("cut from 3 to 1") == 1, every_us=0)
    stage.cut(2, 3)
    stage.cluster.kill(3)
    stage.until(lambda: stage.leader == 2)
    assert stage.violation.property_id == "P-1"
    assert EPOCH_NOT_NOTED in str(stage.violation)


@with_epochs
def test_a_follower_that_missed_an_epoch_keeps_what_its_leader_has_cut(generation: str) -> None:
    """B-18: 4 has m1 of 2, which follows 3 for a while and cuts it, and leads again: 4 has not heard of 3."""
    stage = Stage(4, generation=generation, assigned=(2, 3, 4), lag_ms=PATIENT_MS, min_insync_replicas=1)
    stage.produce(2, 0)
    stage.run(3_000)
    stage.cut(1, 4)  # the controller
    stage.cut(2, 3)
    stage.produced(stage.begin(2, 1, acks=1))
    stage.until(lambda: stage.log(4) == [0, 1])
    stage.ensemble.expire(2)
    stage.until(lambda: stage.leader == 3)
    stage.mend(2, 3)
    stage.until(lambda: stage.log(2) == [0])
    stage.until(lambda: stage.leader == 2, every_us=0)
    assert stage.produce(2, 2) == 1
    assert (stage.log(3), stage.log(4)) == ([0, 2], [0, 1])
    stage.mend(1, 4)
    stage.cluster.kill(3)
    stage.run(500)
    stage.cluster.kill(2)
    stage.until(lambda: stage.leader == 4)
    assert stage.violation.property_id == "P-1"
    assert NOT_COMPARED in str(stage.violation)


@all_of_them
def test_a_replica_joins_the_isr_below_the_start_of_its_leaders_epoch(generation: str) -> None:
    """B-19: 3 leads, and its high watermark is below m1, which 2 has acknowledged; 5 has reached it without m1."""
    stage = Stage(5, generation=generation, assigned=(2, 3, 4, 5), lag_ms=PATIENT_MS, min_insync_replicas=1)
    stage.produce(2, 0)
    stage.run(3_000)
    stage.cluster.kill(5)
    stage.until(lambda: isr_of(stage.ensemble.tree, KEY) == (2, 3, 4))
    stage.run(3_000)
    stage.produce(2, 1)
    stage.cluster.kill(2)
    stage.cut(3, 4)
    stage.until(lambda: stage.leader == 3)
    assert stage.high_watermark(3) == 1
    stage.cluster.start(5)
    stage.until(lambda: 5 in isr_of(stage.ensemble.tree, KEY), every_us=0)
    stage.cut(3, 5)
    assert stage.log(5) == [0]
    stage.cluster.kill(4)
    stage.cluster.kill(3)
    stage.until(lambda: stage.leader == 5)
    assert stage.violation.property_id == "P-1"
    assert JOINED_BELOW in str(stage.violation)


@with_epochs
def test_a_follower_compares_its_log_with_that_of_an_earlier_leader(generation: str) -> None:
    """B-15: 4 counts for 2, which leads in the third epoch; then it hears of the second, and cuts what 3 lacks."""
    stage = Stage(4, generation=generation, assigned=(2, 3, 4), lag_ms=PATIENT_MS, min_insync_replicas=1)
    stage.produce(2, 0)
    stage.run(3_000)
    stage.cut(1, 4)  # the controller
    stage.ensemble.expire(2)
    stage.until(lambda: stage.leader == 3)
    stage.cut(1, 3)
    stage.until(lambda: stage.leader == 2)
    stage.ensemble.expire(3)
    stage.until(lambda: isr_of(stage.ensemble.tree, KEY) == (4, 2) and stage.replica(2).replica.isr == (4, 2))
    assert stage.produce(2, 1) == 1
    assert stage.log(4) == [0, 1]
    stage.mend(1, 4)
    stage.until(lambda: stage.lines("cut from 2 to 1") == 1, every_us=0)
    stage.cut(2, 4)
    stage.cluster.kill(2)
    stage.until(lambda: stage.leader == 4)
    assert stage.violation.property_id == "P-1"
    assert EARLIER_LEADER in str(stage.violation)


@all_of_them
def test_a_broker_that_was_away_between_two_looks_of_the_controller_is_told_nothing(generation: str) -> None:
    """KAFKA-1120: 2 restarts while the controller cannot hear of it, and is back before it can."""
    stage = Stage(3, generation=generation, assigned=(2, 3), lag_ms=PATIENT_MS, session_timeout_ms=3_000)
    stage.produce(2, 0)
    assert unnoticed(stage.cluster) == []
    stage.cluster.kill(2)
    stage.run(2_000)
    stage.cut_from_ensemble(1)  # the controller; for less than its session's timeout
    stage.until(lambda: stage.data(paths.broker(2)) is None, 2_000, every_us=0)
    stage.cluster.start(2)
    stage.until(lambda: stage.data(paths.broker(2)) is not None, 500, every_us=0)
    stage.mend(1, ENSEMBLE)
    stage.run(20_000)
    assert unnoticed(stage.cluster) == [2]
    assert (leader_of(stage.ensemble.tree, KEY), stage.leader, stage.log(2)) == (2, None, None)


@all_of_them
def test_a_broker_that_the_controller_has_seen_go_and_come_has_been_told(generation: str) -> None:
    stage = Stage(3, generation=generation, assigned=(2, 3), lag_ms=PATIENT_MS)
    stage.cluster.kill(2)
    stage.until(lambda: stage.data(paths.broker(2)) is None)
    stage.cluster.start(2)
    stage.until(lambda: stage.data(paths.broker(2)) is not None, 20_000, every_us=0)
    assert unnoticed(stage.cluster) == [], "it is told soon"
    stage.until(lambda: stage.log(2) == [])
    del next(state for broker, state in states(stage.cluster) if broker == 2).hosted[KEY]
    assert unnoticed(stage.cluster) == [], "as if the controller had told it nothing, and not because it was away"


@all_of_them
def test_a_request_to_stop_of_an_earlier_process_is_obeyed(generation: str) -> None:
    """B-21: it comes once the next process runs, which has not asked for anything."""
    stage = Stage(3, generation=generation, assigned=(2,), min_insync_replicas=1)
    stage.produce(2, 0)
    stage.ask(1, ControlledShutdownRequest(2))  # as if it had been under way since before a restart
    assert wrongly_stopping(stage.cluster) == [2]
    stage.ensemble.expire(2)
    stage.until(lambda: stage.lines("leader -1 in epoch 1") == 1)
    stage.until(lambda: stage.leader == 2)
    assert wrongly_stopping(stage.cluster) == [], "the controller has seen it go"
    stage.cluster.stop(2)
    stage.run(200)
    assert stage.cluster.machines[2].node is not None
    assert wrongly_stopping(stage.cluster) == [], "it does want to stop"


@all_of_them
def test_a_loss_that_no_flaw_of_the_time_explains_is_not_excused(generation: str) -> None:
    """Plants the loss in the logs of followers that neither restarted nor were cut: the observer must name no flaw."""
    stage = Stage(3, generation=generation, lag_ms=PATIENT_MS)
    stage.produce(1, 0)
    stage.run(3_000)
    stage.produce(1, 1)
    for broker in (2, 3):
        stage.lose(broker, 1)
    stage.cluster.kill(1)
    stage.until(lambda: stage.leader is not None)
    assert stage.violation.property_id == "P-1"
    assert "documented" not in str(stage.violation)
