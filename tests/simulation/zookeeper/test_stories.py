"""Stories of both designs without a controller, step by step: what the documents say goes wrong in them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import SetData
from broker.zookeeper import paths
from broker.zookeeper.choices import (
    ACKNOWLEDGES_FIRST,
    KEEPS_HIGH_WATERMARK,
    LEADER_RACES,
    RAW_HIGH_WATERMARK,
)
from simulation.engine.disk import Survival
from simulation.zookeeper.observer import CUT_TO_HIGH_WATERMARK, NEVER_HELD, NOT_SYNCED
from simulation.zookeeper.views import isr_of
from tests.support.zookeeper_stage import KEY, Stage

pytestmark = pytest.mark.parametrize("generation", LEADER_RACES)


def test_a_follower_that_restarts_before_it_hears_of_a_commit_cuts_it_off_and_is_elected(generation: str) -> None:
    """KIP-101, scenario 1 (B-11, Z-01): B leads and has acknowledged m1; A has it, and does not know that it counts."""
    stage = Stage(generation=generation)
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
    broken = stage.violation
    assert broken.property_id == "P-1"
    assert CUT_TO_HIGH_WATERMARK in str(broken)
    assert stage.produce(2, 2) == 1, "the offset of m1 is used again"
    assert stage.consume(2) == [0, 2]


def test_without_the_failure_of_the_leader_the_same_follower_fetches_again_what_it_has_cut_off(generation: str) -> None:
    stage = Stage(generation=generation)
    stage.produce(1, 0)
    stage.run(3_000)
    stage.produce(1, 1)
    stage.cluster.kill(2)
    stage.cluster.start(2)
    stage.until(lambda: stage.lines("cut from 2 to 1") == 1)
    stage.until(lambda: stage.log(2) == [0, 1])
    assert stage.watch.violation is None


def test_after_two_hard_failures_two_logs_differ_for_ever(generation: str) -> None:
    """KIP-101, scenario 2 (B-12, Z-04): A has synced m0 alone, B all; A is back first and appends at B's offset."""
    stage = Stage(generation=generation)
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
    assert NOT_SYNCED in str(stage.violation)
    stage.produce(2, 2)
    stage.cluster.start(1)
    stage.until(lambda: stage.follows(1) == 2)
    stage.run(5_000)
    stage.produce(2, 3)
    stage.run(5_000)
    assert (stage.log(1), stage.log(2)) == ([0, 1, 3], [0, 2, 3])
    assert min(stage.high_watermark(1), stage.high_watermark(2)) > 1, "both take what differs for committed"


def test_a_frozen_follower_leaves_the_isr_and_returns_with_the_next_write_after_it_caught_up(generation: str) -> None:
    stage = Stage(3, lag_ms=2_000, generation=generation)
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


def test_an_idle_partition_elects_a_member_of_its_isr_that_lost_its_disk(generation: str) -> None:
    """B-10, Z-13: nothing was produced meanwhile, so nobody has noticed."""
    stage = Stage(2, generation=generation)
    stage.produce(1, 0)
    stage.cluster.lose_disk(2)
    stage.cut(1, 2)
    stage.cluster.start(2)
    stage.cluster.kill(1)
    stage.until(lambda: stage.leader == 2)
    assert NOT_SYNCED in str(stage.violation)
    assert stage.consume(2) == []


@pytest.mark.parametrize(("switches", "error"), [((), ErrorCode.NOT_LEADER_OR_FOLLOWER), ((ACKNOWLEDGES_FIRST,), 0)])
def test_a_leader_hands_over_before_it_answers(generation: str, switches: tuple[str, ...], error: int) -> None:
    """B-08, Z-15: what is on all in-sync replicas is reported as failed, and will be sent again."""
    stage = Stage(3, switches, generation=generation)
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
def test_a_new_leader_takes_its_log_end_for_committed(
    generation: str, switches: tuple[str, ...], shown: list[int]
) -> None:
    """B-03, Z-07: m1 was on one follower only, and never acknowledged."""
    stage = Stage(3, switches, lag_ms=2_000, generation=generation)
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
def test_a_follower_takes_over_a_high_watermark_within_its_log(
    generation: str, switches: tuple[str, ...], beyond: bool
) -> None:
    """Z-12: it fetches batch by batch, and the leader's high watermark is that of the last."""
    stage = Stage(2, switches, lag_ms=2_000, generation=generation)
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


def test_a_znode_with_garbage_ends_the_broker_with_one_line_and_the_status_of_wrong_input(generation: str) -> None:
    stage = Stage(2, generation=generation)
    stage.produce(1, 0)
    stage.ensemble.administer(SetData(paths.insync(KEY), b"\x00garbage"))
    stage.cluster.kill(1)
    stage.until(lambda: stage.cluster.machines[2].exit_status == 2)
    assert stage.lines("znode /brokers/topics/log/0/ISR: expected broker ids") == 1


def test_a_loss_that_no_flaw_of_the_design_explains_is_not_excused(generation: str) -> None:
    """Plants the loss in the log of a follower that neither restarted nor was cut: the observer must name no flaw."""
    stage = Stage(3, generation=generation)
    stage.produce(1, 0)
    stage.run(5_000)
    stage.produce(1, 1)
    for broker in (2, 3):
        stage.lose(broker, 1)
    stage.cluster.kill(1)
    stage.until(lambda: stage.leader is not None)
    broken = stage.violation
    assert broken.property_id == "P-1"
    assert "documented" not in str(broken)
    assert NEVER_HELD not in str(broken)
