"""Each property about replicas and their logs is reported when it is broken."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from broker.core.broker_node import isr_changes
from broker.core.broker_node.node import BrokerNode
from broker.core.log.log import Log, LogConfig
from broker.core.metadata.records import PartitionState
from broker.core.records import encode_batch
from broker.core.replica.state import Replica, Role
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.invariants.ghost import Batch, Ghost, Mirror, ReplicaMirror
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.observer import PropertyObserver
from simulation.invariants.replicas import last_cut, reset_if_start_moved
from simulation.runs.sweep import simulate
from simulation.scenario.configuration import Configuration, SimulatedFault
from simulation.scenario.scenario import settings_of
from simulation.workload.clients import TOPIC
from tests.simulation.invariants.planting import Plant, broken_by, change_rules, observe, replica_of
from tests.support.memory_files import MemoryFiles

OTHER = Batch(0, 0, 0, 0xBAD, -1, -1, -1, control=False)
KILL_FIRST = (SimulatedFault(6_000, "kill", 0, 9_000, 0),)


def follower(cluster: SimulatedCluster, step: EventStep) -> Replica | None:
    replica = replica_of(cluster, step, Role.FOLLOWER)
    return replica if replica is not None and replica.high_watermark > 3 else None


def leader(cluster: SimulatedCluster, step: EventStep) -> Replica | None:
    replica = replica_of(cluster, step, Role.LEADER)
    return replica if replica is not None and replica.high_watermark > 3 else None


def test_nothing_is_reported_when_nothing_is_wrong() -> None:
    outcome = observe(faults=KILL_FIRST)
    assert (outcome.failure, outcome.failed_property) == (None, None)


def test_an_elected_leader_without_all_that_is_committed_breaks_p_1() -> None:
    faults = [
        SimulatedFault(4_000, "kill", 2, 8_000, 0),
        *(SimulatedFault(8_000, "kill", broker, 30_000, 0) for broker in (0, 1)),
    ]
    outcome = observe(faults=faults, flaws=("unclean-election",))
    assert outcome.failed_property == "P-1"
    assert "broker 3 was elected" in str(outcome.failure)


def test_a_leader_that_finds_less_than_is_committed_when_it_takes_over_breaks_p_1() -> None:
    observer = PropertyObserver()

    def add(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = replica_of(cluster, step, Role.LEADER)
        if replica is None or not replica.leader_epoch:
            return False
        observer.known.partitions[replica.topic_id, 0].committed += [OTHER]
        return True

    outcome = observe(Plant(add), faults=KILL_FIRST, observer=observer)
    assert outcome.failed_property == "P-1"
    assert "leads epoch" in str(outcome.failure)


def test_a_member_of_the_isr_that_lacks_a_record_breaks_p_2() -> None:
    plant = change_rules("high_watermark", candidate=lambda end, _ends: end)
    outcome = observe(plant, faults=[SimulatedFault(5_000, "one-way", 1, 4_000, 1023)])
    assert outcome.failed_property == "P-2"
    assert "committed" in str(outcome.failure)


def test_two_records_of_one_epoch_at_one_offset_break_p_3() -> None:
    def corrupt(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = follower(cluster, step)
        if replica is None:
            return False
        batch = encode_batch([(None, b"not what the leader wrote")], replica.log.end_offset, replica.leader_epoch, 0)
        replica.log.append_as_follower(batch, max_epoch=replica.leader_epoch)
        return True

    assert observe(Plant(corrupt)).failed_property == "P-3"


def test_a_leader_that_commits_another_record_breaks_p_4() -> None:
    observer = PropertyObserver()

    def exchange(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = leader(cluster, step)
        if replica is None or replica.log.end_offset == replica.high_watermark:
            return False
        ghost = observer.known.ghost_of(TOPIC, 0)
        ghost.committed += [OTHER] * (replica.log.end_offset - len(ghost.committed))
        return True

    assert observe(Plant(exchange), observer=observer).failed_property == "P-4"


def test_a_leader_that_does_not_count_a_candidate_breaks_p_5() -> None:
    def forget(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = leader(cluster, step)
        if replica is None:
            return False
        replica.isr = replica.isr[:2]
        return True

    assert observe(Plant(forget)).failed_property == "P-5"


@pytest.mark.parametrize("below", [1, 3])
def test_a_cut_through_committed_records_breaks_p_6(below: int) -> None:
    def cut(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = follower(cluster, step)
        if replica is None:
            return False
        replica.log.truncate_to(replica.high_watermark - below)
        replica.high_watermark = replica.log.end_offset
        return True

    outcome = observe(Plant(cut))
    assert outcome.failed_property == "P-6"
    assert f"{TOPIC}-0: broker" in str(outcome.failure)


def test_synced_records_that_recovery_cuts_off_break_p_6() -> None:
    def lose(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = leader(cluster, step)
        if replica is None:
            return False
        disk = cluster.machines[step.node_id].disk
        name = f"{TOPIC}-0/{0:020d}.log"
        disk.truncate(name, disk.size(name) // 2)
        cluster.kill(step.node_id)
        cluster.start(step.node_id)
        return True

    assert observe(Plant(lose)).failed_property == "P-6"


def test_a_second_broker_that_appends_in_an_epoch_breaks_p_8() -> None:
    def usurp(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = follower(cluster, step)
        if replica is None or replica.log.end_offset > replica.high_watermark:
            return False
        replica.role = Role.LEADER
        batch = encode_batch([(None, b"mine")], 0, 0, 0)
        replica.log.append_as_leader(batch, replica.leader_epoch)
        return True

    assert observe(Plant(usurp)).failed_property == "P-8"


def test_a_leader_whose_high_watermark_goes_back_breaks_p_9() -> None:
    def step_back(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = leader(cluster, step)
        if replica is None:
            return False
        replica.high_watermark -= 1
        return True

    assert observe(Plant(step_back)).failed_property == "P-9"


@pytest.mark.parametrize("offset", [10_000, -1])
def test_a_high_watermark_outside_the_log_breaks_p_10(offset: int) -> None:
    def put(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = follower(cluster, step)
        if replica is None:
            return False
        replica.high_watermark = offset
        return True

    assert observe(Plant(put)).failed_property == "P-10"


def test_a_follower_that_takes_more_for_committed_than_any_leader_breaks_p_10() -> None:
    observer = PropertyObserver()

    def put(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = follower(cluster, step)
        if replica is None or replica.log.end_offset == len(observer.known.partitions[replica.topic_id, 0].committed):
            return False
        replica.high_watermark = replica.log.end_offset
        return True

    assert observe(Plant(put), observer=observer).failed_property == "P-10"


@pytest.mark.parametrize("by", [-1, 5])
def test_a_replica_whose_epoch_goes_back_or_runs_ahead_breaks_p_19(by: int) -> None:
    def change(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = follower(cluster, step)
        if replica is None:
            return False
        replica.partition_epoch += by
        return True

    assert observe(Plant(change)).failed_property == "P-19"


def test_an_image_that_differs_at_one_offset_breaks_p_20() -> None:
    seen: dict[int, int] = {}

    def change(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = replica_of(cluster, step)
        if replica is None:
            return False
        image = cluster.machines[step.node_id].node.state.image  # type: ignore[union-attr]
        if image.end_offset == seen.setdefault(step.node_id, image.end_offset):
            return False
        image.topics[TOPIC].configs["retention.ms"] = "1"
        return True

    assert observe(Plant(change), faults=KILL_FIRST).failed_property == "P-20"


def test_an_epoch_cache_that_contradicts_the_log_breaks_p_21() -> None:
    def change(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = replica_of(cluster, step)
        if replica is None or not replica.leader_epoch:
            return False
        replica.log.epochs.replace(((0, 0), (1, 2)))
        return True

    assert observe(Plant(change), faults=KILL_FIRST).failed_property == "P-21"


def test_a_maximal_isr_without_the_proposed_member_breaks_p_22() -> None:
    plant = change_rules("isr", maximal=lambda committed, _proposed: frozenset(committed))
    assert observe(plant, faults=KILL_FIRST).failed_property == "P-22"


def test_a_change_of_the_isr_that_nobody_asks_for_breaks_p_22(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_changes, "send", lambda _broker, _replica: None)
    assert observe(faults=KILL_FIRST).failed_property == "P-22"


def test_an_assigned_log_that_a_running_broker_deletes_breaks_p_27() -> None:
    def delete(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = follower(cluster, step)
        if replica is None:
            return False
        del cluster.machines[step.node_id].node.state.replicas[TOPIC, 0]  # type: ignore[union-attr]
        replica.log.delete()
        return True

    outcome = observe(Plant(delete))
    assert outcome.failed_property == "P-27"
    assert "assign it" in str(outcome.failure)


def test_a_replica_with_another_min_isr_than_its_broker_s_metadata_breaks_p_29() -> None:
    ends: dict[int, int] = {}

    def keep(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = replica_of(cluster, step, Role.LEADER)
        node = cluster.machines[step.node_id].node
        if replica is None or not isinstance(node, BrokerNode):
            return False
        end = node.state.image.end_offset
        if ends.setdefault(step.node_id, end) == end:
            return False
        replica.min_insync_replicas -= 1  # as if the broker had not published the new metadata
        return True

    outcome = observe(Plant(keep), faults=KILL_FIRST)
    assert outcome.failed_property == "P-29"
    assert "min ISR 1; by the metadata up to" in str(outcome.failure)


@pytest.mark.parametrize("change", ["forgotten", "invented", "behind"])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_producer_s_state_that_contradicts_the_log_breaks_p_28(change: str, compacted: bool) -> None:
    """In a compacted topic too, whatever an unclean election has given up."""
    observer = PropertyObserver()

    def alter(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = replica_of(cluster, step, Role.FOLLOWER)
        if compacted and replica is not None:
            ghost = observer.known.ghost(replica.topic, replica.topic_id, replica.partition)
            ghost.given_up = [(0, Batch(9_000, 9_000, 0, 7, -1, -1, -1, control=False))]
        if replica is None or replica.log.end_offset < 4 or not replica.log.producers.states:
            return False
        states = replica.log.producers.states
        producer, state = next(iter(states.items()))
        if change == "forgotten":
            del states[producer]
        elif change == "invented":
            states[producer + 1] = state
        else:
            states[producer] = state._replace(batches=state.batches[:-1])
        return True

    plant = Plant(alter, after_ms=7_000)  # while there is no leader, so that no batch hides it
    assert observe(plant, faults=KILL_FIRST, observer=observer, compacted=compacted).failed_property == "P-28"


@pytest.mark.parametrize(("start", "entries"), [(2, [None] * 2), (7, [None] * 7), (5, [*[None] * 5, OTHER])])
def test_a_log_that_was_cut_and_starts_elsewhere_begins_anew(start: int, entries: list[Batch | None]) -> None:
    log = Log.open(MemoryFiles(), "log-0", LogConfig(), clean=False)
    log.truncate_fully(start)
    mirror = Mirror(1, entries=[*[None] * 5, OTHER], start=5)
    reset_if_start_moved(mirror, log)
    assert mirror.entries == entries


@pytest.mark.parametrize(
    ("member", "epoch", "owed"),
    [
        pytest.param(3, 4, 2, id="outside, behind a deposed leader: what was committed before"),
        pytest.param(3, 5, 3, id="outside, behind the present leader: everything"),
        pytest.param(1, 4, 3, id="in the ISR: everything"),
        pytest.param(2, 4, 3, id="in the ELR: everything"),
    ],
)
def test_only_who_counts_for_nothing_may_cut_what_was_committed_after_its_leader(
    member: int, epoch: int, owed: int
) -> None:
    state = PartitionState((1, 2, 3), (1,), 1, 5, 7, elr=(2,))
    ghost = Ghost(TOPIC, 0, committed=[None] * 3, state=state, superseded={4: 2})
    assert ghost.owed_to(member, epoch) == owed


@pytest.mark.parametrize(
    ("log_start", "leader_start", "broken"),
    [
        (56, 57, None),  # all that it had, its leader had deleted
        (56, 50, "P-6"),  # its leader has what it cut off
        (40, 57, "P-6"),  # it has not deleted what its leader had deleted
    ],
)
def test_a_follower_that_ends_as_it_begins_anew_below_what_was_deleted_has_cut_nothing(
    log_start: int, leader_start: int, broken: str | None
) -> None:
    cluster = SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration()))
    known = Knowledge.of(cluster)
    ghost = known.ghost("log", "id", 0)
    ghost.log_start = leader_start
    log = SimpleNamespace(start_offset=log_start, end_offset=56, truncations=1)
    mirror = ReplicaMirror(1, entries=[None] * 57, same=57, high_watermark=57, high_watermark_epoch=0)
    mirror.replica = cast("Replica", SimpleNamespace(log=log, leader_epoch=0))
    assert broken_by(lambda: last_cut(known, ghost, mirror)) == broken


@pytest.mark.parametrize(("start", "same"), [(0, 0), (1, 2)])
def test_what_is_deleted_is_equal_to_anything_and_nothing_else_is(start: int, same: int) -> None:
    """A follower that still holds what its leader has deleted might show it to readers as a leader (ISR-E7)."""
    later = OTHER._replace(base=1, last=1)
    assert Mirror(1, entries=[OTHER, later], start=start).compare([None, later]) == same


def test_a_replica_that_is_seen_first_while_its_isr_changes_is_looked_at() -> None:
    """In this seed the look at such a replica once raised an error."""
    found = {one.property_id for one in simulate(32001207, {"generation": "K1"}, observed=True).findings}
    assert "judge" not in found
