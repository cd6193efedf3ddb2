"""Stories of the first design, step by step: what the leader-epoch notes and the catalogue say goes wrong in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import Create, SetData
from broker.zookeeper import paths
from broker.zookeeper.choices import (
    ACKNOWLEDGES_FIRST,
    FOLLOWS_ON_REQUEST,
    IGNORES_EXPIRY,
    KEEPS_HIGH_WATERMARK,
    RAW_HIGH_WATERMARK,
)
from simulation.engine.disk import Survival
from simulation.invariants.properties import Violation
from simulation.zookeeper.ensemble import ENSEMBLE
from simulation.zookeeper.observer import CUT_TO_HIGH_WATERMARK, NEVER_HELD, NOT_SYNCED, TWO_LEADERS
from simulation.zookeeper.views import isr_of
from tests.support.zookeeper_stage import KEY, Stage


def violation(stage: Stage) -> Violation:
    assert stage.watch.violation is not None, stage.cluster.log_entries
    return stage.watch.violation


def test_a_follower_that_restarts_before_it_hears_of_a_commit_cuts_it_off_and_is_elected() -> None:
    """KIP-101, scenario 1 (B-11, Z-01): B leads and has acknowledged m1; A has it, and does not know that it counts."""
    stage = Stage()
    stage.produce(1, 0)
    stage.run(3_000)  # until A has heard of m0, and its checkpoint says so
    stage.produce(1, 1)
    assert (stage.log(2), stage.high_watermark(2)) == ([0, 1], 1)
    stage.cluster.kill(2)
    stage.cut(1, 2)  # A will not fetch before B fails
    stage.cluster.start(2)
    stage.until(lambda: stage.lines("cut from 2 to 1") == 1)
    stage.cluster.kill(1)
    stage.until(lambda: stage.leader == 2)
    broken = violation(stage)
    assert broken.property_id == "P-1"
    assert CUT_TO_HIGH_WATERMARK in str(broken)
    assert stage.produce(2, 2) == 1, "the offset of m1 is used again"
    assert stage.consume(2) == [0, 2]


def test_without_the_failure_of_the_leader_the_same_follower_fetches_again_what_it_has_cut_off() -> None:
    stage = Stage()
    stage.produce(1, 0)
    stage.run(3_000)
    stage.produce(1, 1)
    stage.cluster.kill(2)
    stage.cluster.start(2)
    stage.until(lambda: stage.lines("cut from 2 to 1") == 1)
    stage.until(lambda: stage.log(2) == [0, 1])
    assert stage.watch.violation is None


def test_after_two_hard_failures_two_logs_differ_for_ever() -> None:
    """KIP-101, scenario 2 (B-12, Z-04): A has synced m0 alone, B all; A is back first and appends at B's offset."""
    stage = Stage()
    stage.produce(1, 0)
    stage.run(3_000)
    stage.cluster.stop(2)  # A syncs m0
    stage.until(lambda: stage.cluster.machines[2].node is None)
    stage.cluster.start(2)
    stage.until(lambda: stage.follows(2) == 1)
    stage.produce(1, 1)
    stage.run(4_000)  # until both know that m1 counts, and B's checkpoint says so
    assert stage.high_watermark(1) == 2
    stage.cluster.kill(1, Survival.EVERYTHING)
    stage.cluster.kill(2, Survival.NOTHING)
    stage.cluster.start(2)
    stage.until(lambda: stage.leader == 2)
    assert stage.log(2) == [0]
    assert NOT_SYNCED in str(violation(stage))
    stage.produce(2, 2)
    stage.cluster.start(1)
    stage.until(lambda: stage.follows(1) == 2)
    stage.run(5_000)
    stage.produce(2, 3)
    stage.run(5_000)
    assert (stage.log(1), stage.log(2)) == ([0, 1, 3], [0, 2, 3])
    assert min(stage.high_watermark(1), stage.high_watermark(2)) > 1, "both take what differs for committed"


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
    broken = violation(stage)
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


def test_a_frozen_follower_leaves_the_isr_and_returns_with_the_next_write_after_it_caught_up() -> None:
    stage = Stage(3, lag_ms=2_000)
    stage.produce(1, 0)
    stage.cluster.pause(3)
    stage.produce(1, 1)
    assert isr_of(stage.ensemble.tree, KEY) == (1, 2)
    stage.cluster.resume(3)
    stage.until(lambda: stage.log(3) == [0, 1])
    stage.run(20_000)
    assert isr_of(stage.ensemble.tree, KEY) == (1, 2), "an idle partition's ISR is never repaired (B-10, Z-13)"
    stage.stall(1, 2)
    number = stage.begin(1, 2)
    stage.until(lambda: stage.replica(1).end_of(3) == 3)
    stage.unstall(1, 2)
    assert stage.produced(number).error_code == ErrorCode.NONE
    assert isr_of(stage.ensemble.tree, KEY) == (1, 2, 3)


def test_an_idle_partition_elects_a_member_of_its_isr_that_lost_its_disk() -> None:
    """B-10, Z-13: nothing was produced meanwhile, so nobody has noticed."""
    stage = Stage(2)
    stage.produce(1, 0)
    stage.cluster.lose_disk(2)
    stage.cut(1, 2)
    stage.cluster.start(2)
    stage.cluster.kill(1)
    stage.until(lambda: stage.leader == 2)
    assert NOT_SYNCED in str(violation(stage))
    assert stage.consume(2) == []


@pytest.mark.parametrize(("switches", "error"), [((), ErrorCode.NOT_LEADER_OR_FOLLOWER), ((ACKNOWLEDGES_FIRST,), 0)])
def test_a_leader_hands_over_before_it_answers(switches: tuple[str, ...], error: int) -> None:
    """B-08, Z-15: what is on all in-sync replicas is reported as failed, and will be sent again."""
    stage = Stage(3, switches)
    stage.produce(1, 0)
    stage.cluster.kill(1)
    stage.until(lambda: stage.leader in (2, 3))
    leader = stage.leader or 0
    stage.cluster.start(1)
    stage.until(lambda: stage.log(1) == [0] and stage.follows(1) == leader)
    stage.stall(leader, 5 - leader)
    number = stage.begin(leader, 1)
    stage.until(lambda: stage.replica(leader).end_of(1) == 2)
    stage.unstall(leader, 5 - leader)  # the last of the ISR has it, and broker 1, the preferred replica, is in sync too
    assert stage.produced(number).error_code == error
    assert stage.lines("hands over to 1") == 1
    stage.until(lambda: stage.leader is not None)
    assert stage.log(stage.leader or 0) == [0, 1]


@pytest.mark.parametrize(("switches", "shown"), [((), [0, 1]), ((KEEPS_HIGH_WATERMARK,), [0])])
def test_a_new_leader_takes_its_log_end_for_committed(switches: tuple[str, ...], shown: list[int]) -> None:
    """B-03, Z-07: m1 was on one follower only, and never acknowledged."""
    stage = Stage(3, switches, lag_ms=2_000)
    stage.produce(1, 0)
    stage.run(5_000)
    stage.cut(1, 3)
    stage.begin(1, 1)
    stage.until(lambda: stage.log(2) == [0, 1])
    stage.cut(2, 3)
    stage.cluster.kill(1)
    stage.until(lambda: stage.leader is not None, 90_000)
    if stage.leader == 3:
        pytest.skip("the other follower won the race")
    assert stage.consume(2) == shown


@pytest.mark.parametrize(("switches", "beyond"), [((), False), ((RAW_HIGH_WATERMARK,), True)])
def test_a_follower_takes_over_a_high_watermark_within_its_log(switches: tuple[str, ...], beyond: bool) -> None:
    """Z-12: it fetches batch by batch, and the leader's high watermark is that of the last."""
    stage = Stage(2, switches, lag_ms=2_000)
    stage.cluster.kill(2)
    for value in range(4):
        stage.produce(1, value)
    machine = stage.cluster.machines[2]
    machine.settings = replace(machine.settings, replica_fetch_max_bytes=1)
    stage.cluster.start(2)
    seen = []

    def caught_up() -> bool:
        log = stage.log(2)
        if log is not None:
            seen.append(stage.high_watermark(2) > len(log))
        return log == [0, 1, 2, 3]

    stage.until(caught_up)
    assert any(seen) == beyond


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


def test_a_znode_with_garbage_ends_the_broker_with_one_line_and_the_status_of_wrong_input() -> None:
    stage = Stage(2)
    stage.produce(1, 0)
    stage.ensemble.administer(SetData(paths.insync(KEY), b"\x00garbage"))
    stage.cluster.kill(1)
    stage.until(lambda: stage.cluster.machines[2].exit_status == 2)
    assert stage.lines("znode /brokers/topics/log/0/ISR: expected broker ids") == 1


def test_a_loss_that_no_flaw_of_the_design_explains_is_not_excused() -> None:
    """Plants the loss in the log of a follower that neither restarted nor was cut: the observer must name no flaw."""
    stage = Stage(3)
    stage.produce(1, 0)
    stage.run(5_000)
    stage.produce(1, 1)
    for broker in (2, 3):
        log = stage.replica(broker).replica.log
        truncations = log.truncations
        log.truncate_to(1)
        log.truncations = truncations  # as if nothing had been cut
        stage.replica(broker).replica.high_watermark = 1
    stage.cluster.kill(1)
    stage.until(lambda: stage.leader is not None)
    broken = violation(stage)
    assert broken.property_id == "P-1"
    assert "documented" not in str(broken)
    assert NEVER_HELD not in str(broken)
