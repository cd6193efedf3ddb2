"""The design with a controller in the simulation: what controller and leaders do, and what random seeds find."""

from __future__ import annotations

import pytest

from broker.core.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    MetadataRequest,
    MetadataResponse,
    NewTopic,
)
from broker.core.messages.errors import ErrorCode
from broker.core.messages.leadership import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionLeadership,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
)
from broker.core.ports.coordination import SetData
from broker.zookeeper.choices import C1, C2, C3, CONTROLLED
from broker.zookeeper.designs.controller import znodes
from broker.zookeeper.paths import BadZnode
from simulation.invariants.observer import property_observers
from simulation.invariants.properties import divergence_excuse, is_documented
from simulation.runs.failures import findings
from simulation.runs.sweep import simulate
from simulation.scenario import case as cases
from simulation.scenario.case import Case
from simulation.scenario.overrides import check_overrides
from simulation.zookeeper.ensemble import ENSEMBLE
from simulation.zookeeper.evidence import TO_HIGH_WATERMARK, UNSYNCED
from simulation.zookeeper.views import isr_of, leader_of, state_of
from tests.support.zookeeper_stage import KEY, TOPIC, Stage

all_of_them = pytest.mark.parametrize("generation", CONTROLLED)
STATE = znodes.state(KEY)


def staged(brokers: int = 3, **settings: int) -> Stage:
    """A cluster whose partition is replicated by all brokers."""
    return Stage(brokers, generation=C3, **settings)


# --- the controller --------------------------------------------------------------------------------------------------


def test_the_first_broker_becomes_the_controller_and_another_one_after_it() -> None:
    stage = staged()
    assert (stage.data(znodes.CONTROLLER), stage.data(znodes.EPOCH)) == (b"1", b"1")
    stage.cluster.kill(1)
    stage.until(lambda: stage.data(znodes.CONTROLLER) in (b"2", b"3"))
    stage.until(lambda: stage.leader == 2)
    state = state_of(stage.ensemble.tree, KEY)
    assert state == znodes.PartitionState(2, 1, (2, 3), 2)
    assert stage.produce(2, 0) == 0


def test_a_controller_that_is_cut_off_from_the_ensemble_is_not_obeyed_by_those_who_know_the_next() -> None:
    stage = staged()
    stage.produce(1, 0)
    stage.cut_from_ensemble(1)
    stage.until(lambda: stage.leader == 2 and stage.follows(3) == 2)
    late = PartitionLeadership(*KEY, 3, 9, (3,), 1, 0, (1, 2, 3))
    for request in (LeaderAndIsrRequest(1, 1, (late,), ()), UpdateMetadataRequest(1, 1, (late,), ())):
        response = stage.ask(3, request)
        assert getattr(response, "error_code", None) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert stage.ask(3, StopReplicaRequest(1, 1, (KEY,))) == StopReplicaResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
    assert stage.follows(3) == 2
    stage.mend(1, ENSEMBLE)
    stage.until(lambda: stage.lines("resigns as controller 1") == 1)
    stage.until(lambda: isr_of(stage.ensemble.tree, KEY) == (2, 3, 1))


def test_a_request_of_an_earlier_leader_epoch_is_ignored() -> None:
    stage = staged()
    same = PartitionLeadership(*KEY, 3, 0, (3,), 1, 0, (1, 2, 3))
    assert stage.ask(2, LeaderAndIsrRequest(1, 1, (same,), ())) == LeaderAndIsrResponse(ErrorCode.NONE)
    assert stage.follows(2) == 1
    later = same._replace(leader_epoch=1)
    stage.ask(2, LeaderAndIsrRequest(1, 1, (later,), ()))
    assert stage.replica(2).replica.leader == 3


def test_a_new_controller_goes_on_with_what_the_tree_says_and_tells_everybody() -> None:
    stage = Stage(4, generation=C3, assigned=(2, 3, 4))
    stage.produce(2, 0)
    stage.cluster.kill(1)  # the controller, and no replica
    stage.cluster.kill(2)
    stage.until(lambda: stage.leader == 3)
    stage.until(lambda: stage.follows(4) == 3)
    response = stage.ask(4, MetadataRequest())
    assert isinstance(response, MetadataResponse)
    (topic,) = response.topics
    assert [(one.leader, one.isr) for one in topic.partitions] == [(3, (3, 4))]
    assert {one.node_id for one in response.brokers} == {3, 4}


def test_nobody_outside_the_isr_is_elected() -> None:
    stage = staged(2, min_insync_replicas=1)
    stage.cluster.kill(2)
    stage.until(lambda: isr_of(stage.ensemble.tree, KEY) == (1,))
    stage.produce(1, 0)
    stage.cluster.kill(1)
    stage.cluster.start(2)
    stage.until(lambda: leader_of(stage.ensemble.tree, KEY) is None)
    stage.run(30_000)
    assert (stage.leader, isr_of(stage.ensemble.tree, KEY)) == (None, (1,))
    stage.cluster.start(1)
    stage.until(lambda: stage.leader == 1)
    stage.until(lambda: stage.log(2) == [0])


def test_the_preferred_replica_leads_again_once_it_is_in_sync() -> None:
    stage = staged()
    stage.cluster.kill(1)
    stage.until(lambda: stage.leader == 2)
    stage.cluster.start(1)
    stage.until(lambda: isr_of(stage.ensemble.tree, KEY) == (2, 3, 1))
    assert stage.leader == 2
    stage.until(lambda: stage.leader == 1, 10_000)
    assert isr_of(stage.ensemble.tree, KEY) == (2, 3, 1)


def test_a_broker_that_stops_hands_its_leadership_over_first() -> None:
    stage = Stage(4, generation=C3, assigned=(2, 3, 4))
    stage.produce(2, 0)
    stage.cluster.stop(2)
    stage.until(lambda: stage.leader == 3, 1_000)
    assert isr_of(stage.ensemble.tree, KEY) == (3, 4)
    stage.until(lambda: stage.cluster.machines[2].exit_status == 0)
    assert stage.produce(3, 1) == 1
    stage.cluster.stop(4)  # which follows: it stops fetching
    stage.until(lambda: isr_of(stage.ensemble.tree, KEY) == (3,), 1_000)
    stage.until(lambda: stage.cluster.machines[4].exit_status == 0)
    stage.cluster.stop(3)  # which nobody can replace
    stage.until(lambda: stage.cluster.machines[3].exit_status == 0)
    assert leader_of(stage.ensemble.tree, KEY) == 3


def test_a_broker_that_is_not_live_has_nothing_to_hand_over() -> None:
    """Else it would count as stopping when it is back, and never be elected."""
    stage = staged(2)
    stage.cluster.kill(2)
    stage.until(lambda: isr_of(stage.ensemble.tree, KEY) == (1,))
    response = stage.ask(1, ControlledShutdownRequest(2))
    assert response == ControlledShutdownResponse(ErrorCode.BROKER_NOT_AVAILABLE)
    assert stage.ask(1, ControlledShutdownRequest(1)) == ControlledShutdownResponse(ErrorCode.NONE, (KEY,))


def test_a_topic_exists_once() -> None:
    stage = staged()
    response = stage.ask(2, stage.creation(TOPIC, (1, 2, 3)))
    assert isinstance(response, CreateTopicsResponse)
    assert response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    stage.ask(2, CreateTopicsRequest((NewTopic("other", 3, 2),), 5_000))
    stage.until(lambda: all(stage.data(znodes.state(("other", number))) for number in range(3)))


# --- leaders ---------------------------------------------------------------------------------------------------------


def test_an_isr_shrinks_and_grows_again_without_a_write_of_clients() -> None:
    stage = staged(lag_ms=2_000)
    stage.produce(1, 0)
    stage.cluster.pause(3)
    number = stage.begin(1, 1)
    stage.until(lambda: isr_of(stage.ensemble.tree, KEY) == (1, 2))
    assert stage.produced(number).error_code == ErrorCode.NONE
    stage.cluster.resume(3)
    stage.until(lambda: isr_of(stage.ensemble.tree, KEY) == (1, 2, 3))


def test_an_isr_write_that_expects_an_old_version_changes_nothing() -> None:
    """B-22: the leader goes on with the ISR that it knows."""
    stage = staged(lag_ms=2_000)
    stage.produce(1, 0)
    data = stage.data(STATE)
    assert data is not None
    stage.ensemble.administer(SetData(STATE, data))
    stage.cut(1, 3)
    stage.until(lambda: stage.lines("ISR [1, 2] is not written") > 0)
    assert isr_of(stage.ensemble.tree, KEY) == (1, 2, 3)
    assert stage.replica(1).replica.isr == (1, 2, 3)


def test_the_high_watermark_stands_still_while_an_isr_is_written() -> None:
    """Else what is acknowledged meanwhile would be missing in the replica that is in the ISR already (B-37)."""
    stage = staged(min_insync_replicas=1, lag_ms=2_000, session_timeout_ms=20_000)
    stage.cluster.kill(3)
    stage.until(lambda: isr_of(stage.ensemble.tree, KEY) == (1, 2))
    stage.produce(1, 0)
    stage.cut(1, 2)
    stage.cut_from_ensemble(1)
    number = stage.begin(1, 1)
    stage.until(lambda: stage.replica(1).pending_isr == (1,))
    stage.run(200)
    assert stage.high_watermark(1) == 1
    stage.mend(1, ENSEMBLE)
    stage.until(lambda: stage.replica(1).replica.isr == (1,))
    assert stage.produced(number).error_code == ErrorCode.NONE


def test_with_too_small_an_isr_nothing_is_acknowledged() -> None:
    stage = staged(2, min_insync_replicas=2)
    stage.produce(1, 0)
    stage.cluster.pause(2)
    assert stage.produced(stage.begin(1, 1)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert stage.produced(stage.begin(1, 2)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert stage.produced(stage.begin(1, 3, acks=1)).error_code == ErrorCode.NONE
    stage.cluster.resume(2)
    stage.until(lambda: stage.log(2) == [0, 1, 3])


def test_a_leader_whose_session_has_expired_leads_until_it_is_told_otherwise() -> None:
    stage = staged()
    stage.produce(1, 0)
    stage.cut(1, 2)
    stage.cut(1, 3)
    stage.ensemble.expire(1)
    stage.until(lambda: stage.leader == 2)
    assert stage.replica(1).is_open
    stage.mend(1, 2)
    stage.mend(1, 3)
    stage.until(lambda: stage.follows(1) == 2)
    assert stage.watch.violation is None


def test_znodes_with_garbage_end_the_controller_with_one_line_and_the_status_of_wrong_input() -> None:
    stage = staged(2)
    stage.ensemble.administer(SetData(STATE, b"\x00garbage"))
    stage.cluster.kill(2)
    stage.until(lambda: stage.cluster.machines[1].exit_status == 2)
    assert stage.lines(f"znode {STATE}: expected leader, leader epoch, broker ids and controller epoch") == 1


@pytest.mark.parametrize("data", [b"", b"1;2;3", b"1;2;3;4;5", b"x;2;3;4", b"1;-2;3;4", b"1;2;a,b;4", b"1;2;3;"])
def test_a_partition_state_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(BadZnode, match="znode /here: expected"):
        znodes.decoded_state(data, "/here")


@pytest.mark.parametrize("state", [znodes.PartitionState(-1, 0, (), 1), znodes.PartitionState(3, 12, (3, 1), 7)])
def test_a_partition_state_is_read_as_it_was_written(state: znodes.PartitionState) -> None:
    assert znodes.decoded_state(znodes.encoded_state(state), "/here") == state


@pytest.mark.parametrize("data", [b"1", b"a:1", b"0:1;1", b"0:x"])
def test_an_assignment_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(BadZnode, match="znode /here: expected"):
        znodes.decoded_assignment(data, "/here")
    assert znodes.decoded_assignment(b"0:1,2;1:2,1", "/here") == {0: (1, 2), 1: (2, 1)}
    assert znodes.encoded_assignment({1: (2, 1), 0: (1, 2)}) == b"0:1,2;1:2,1"


# --- random seeds ----------------------------------------------------------------------------------------------------


@all_of_them
@pytest.mark.parametrize("seed", range(1, 4))
def test_without_faults_nothing_is_lost(generation: str, seed: int) -> None:
    overrides = {"generation": generation, "faults": (), "acks": -1}
    outcome = cases.run(Case(seed, overrides), property_observers())
    assert outcome.failure is None
    assert not findings(outcome)
    assert sum(row.status == "ok" and row.kind == "send" for row in outcome.history.operations) > 100


@all_of_them
def test_a_seed_is_the_same_simulation_every_time(generation: str) -> None:
    one, other = (simulate(3, {"generation": generation}, observed=True) for _ in range(2))
    assert (one.digest, one.events, one.findings) == (other.digest, other.events, other.findings)


def test_a_random_seed_loses_by_truncation_to_the_high_watermark_what_later_steps_keep() -> None:
    """B-11, without any fault that loses data."""
    safe = {"lossy_budget": 0, "acks": -1}
    (first, *rest) = simulate(1710014, {"generation": C1, **safe}, observed=True).findings
    assert first.property_id == "P-1"
    assert TO_HIGH_WATERMARK in first.what
    assert is_documented(first.what)
    assert "lost-acked-write" in {one.property_id for one in rest}
    for generation in (C2, C3):
        assert not simulate(1710014, {"generation": generation, **safe}, observed=True).findings


@all_of_them
def test_a_random_seed_loses_what_was_not_synced(generation: str) -> None:
    first = simulate(1700002, {"generation": generation}, observed=True).findings[0]
    assert first.property_id == "P-1"
    assert UNSYNCED in first.what


@pytest.mark.parametrize(("generation", "seed"), [(C1, 1730042), (C2, 1740015), (C3, 1730042)])
def test_replicas_stay_different_by_a_documented_flaw(generation: str, seed: int) -> None:
    drawn = {"side_topics": True} if seed == 1740015 else {}
    overrides = {"generation": generation, "lossy_budget": 0, "acks": -1, "search": "dense", **drawn}
    found = simulate(seed, overrides, observed=True).findings
    (divergence,) = (one for one in found if one.property_id == "divergent-replicas")
    assert divergence_excuse(generation) in divergence.what


def test_a_random_seed_of_the_second_step_keeps_what_its_leader_does_not_have_and_the_third_cuts_it() -> None:
    """KIP-279: the leader's log begins with a later epoch than the follower's last."""
    found = {
        generation: {
            one.property_id
            for one in simulate(1700015, {"generation": generation, "side_topics": False}, observed=True).findings
        }
        for generation in (C2, C3)
    }
    assert "divergent-replicas" in found[C2]
    assert "divergent-replicas" not in found[C3]


@all_of_them
def test_the_switches_of_the_first_designs_are_refused(generation: str) -> None:
    with pytest.raises(ValueError, match=r"flaw: expected .*found 'zk-raw-high-watermark'"):
        check_overrides({"generation": generation, "flaws": ("zk-raw-high-watermark",)})
