"""Each property about what the controllers decide is reported when it is broken (P-7, P-16 … P-19, P-23, P-72)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count

import pytest

from broker.core.broker_node import publishing, storage
from broker.core.broker_node.state import BrokerState
from broker.core.log import checkpoints
from broker.core.metadata.records import RECOVERING, ConfigChanged, PartitionSet, PartitionState, TopicCreated
from broker.core.ports.files import Files
from broker.core.replica.state import Replica, Role
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.disk import PowerFailed
from simulation.invariants import metadata
from simulation.invariants.ghost import Batch, Ghost, ReplicaMirror
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.properties import Violation
from simulation.scenario.configuration import SimulatedFault
from tests.simulation.invariants.planting import Plant, broken_by, change_rules, observe, replica_of

LAST_ONE_LEFT = (SimulatedFault(5_000, "kill", 1, 20_000, 0), SimulatedFault(10_000, "kill", 2, 1_000, 0))


def test_an_uncleanly_started_member_of_the_elr_breaks_p_7() -> None:
    plant = change_rules("registration", stopped_cleanly=lambda existing, _previous: existing is not None)
    outcome = observe(plant, faults=LAST_ONE_LEFT)
    assert outcome.failed_property == "P-7"
    assert "broker 3 started uncleanly" in str(outcome.failure)


def test_metadata_that_are_known_and_not_published_break_p_72(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = publishing._apply

    def apply(broker: BrokerState, replica: Replica, state: PartitionState) -> None:
        if state.partition_epoch % 2 == 0:
            honest(broker, replica, state)

    monkeypatch.setattr(publishing, "_apply", apply)
    assert observe(faults=LAST_ONE_LEFT).failed_property == "P-72"


def test_a_fenced_member_of_the_isr_breaks_p_16() -> None:
    plant = change_rules("elections", shrink=lambda isr, _gone: isr)
    assert observe(plant, faults=LAST_ONE_LEFT, lag_ms=8_000).failed_property == "P-16"


@pytest.mark.parametrize("generation", ["K2", "K3"])
def test_before_elr_the_last_member_of_the_isr_may_be_fenced(generation: str) -> None:
    faults = [SimulatedFault(5_000, "kill", broker, 6_000, 0) for broker in range(3)]
    assert observe(faults=faults, generation=generation).failure is None


def test_an_elr_with_a_sufficient_isr_breaks_p_17() -> None:
    outcome = observe(faults=LAST_ONE_LEFT, flaws=("eligible-never-emptied",))
    assert outcome.failed_property == "P-17"


def test_a_partition_that_forgets_who_was_eligible_breaks_p_18() -> None:
    plant = change_rules("elections", eligible=lambda *_sets: ((), ()))
    faults = [SimulatedFault(5_000 + 1_000 * broker, "kill", broker, 20_000, 0) for broker in range(3)]
    assert observe(plant, faults=faults).failed_property == "P-18"


def test_a_reassignment_that_ends_with_too_few_in_sync_breaks_p_23() -> None:
    plant = change_rules("reassignment", is_complete=lambda *_sets: True)
    faults = [SimulatedFault(5_000, "kill", 1, 20_000, 0), SimulatedFault(10_000, "reassignment", 0, 1, 1)]
    outcome = observe(plant, faults=faults, brokers=4)
    assert outcome.failed_property == "P-23"
    assert "min ISR 2" in str(outcome.failure)


BEFORE = PartitionState((1, 2, 3), (1, 2, 3), 1, 4, 7)

TRANSITIONS: dict[str, tuple[str, Callable[[PartitionState], PartitionState]]] = {
    "the partition epoch stays": ("P-19", lambda state: state._replace(partition_epoch=7)),
    "the partition epoch leaps": ("P-19", lambda state: state._replace(partition_epoch=9)),
    "the leader epoch goes back": ("P-19", lambda state: state._replace(leader_epoch=3)),
    "another leader in the same epoch": ("P-19", lambda state: state._replace(leader=2)),
    "in the ISR and in the ELR": ("P-17", lambda state: state._replace(isr=(1,), elr=(1, 2))),
    "a non-replica in the ISR": ("P-16", lambda state: state._replace(isr=(1, 2, 9))),
    "a non-replica in the ELR": ("P-23", lambda state: state._replace(isr=(1,), elr=(9,))),
    "a non-replica last known": (
        "P-17",
        lambda state: state._replace(isr=(1,), elr=(2,), last_known_elr=(9,)),
    ),
}


@pytest.mark.parametrize("what", TRANSITIONS)
def test_an_impossible_change_of_a_partition_is_reported(what: str, knowledge: Knowledge) -> None:
    property_id, change = TRANSITIONS[what]
    metadata.commit(knowledge, [(3, PartitionSet("id", 0, BEFORE))], 4)
    after = change(BEFORE._replace(partition_epoch=8))
    with pytest.raises(Violation) as found:
        metadata.commit(knowledge, [(4, PartitionSet("id", 0, after))], 5)
    assert found.value.property_id == property_id


def test_a_possible_change_of_a_partition_is_not_reported(knowledge: Knowledge) -> None:
    metadata.commit(knowledge, [(3, PartitionSet("id", 0, BEFORE))], 4)
    after = BEFORE._replace(partition_epoch=8, isr=(1,), elr=(2, 3))
    metadata.commit(knowledge, [(4, PartitionSet("id", 0, after))], 5)


def test_a_member_admitted_by_fetches_of_an_earlier_incarnation_breaks_p_7() -> None:
    faults = [SimulatedFault(5_000, "kill", 2, 1_000, 0)]
    plant = change_rules("isr", is_eligible=lambda *_asked: True)
    other = change_rules("alter_partition", is_eligible=lambda *_asked, **_more: True)
    third = change_rules("fetch", check_replica_epoch=lambda *_asked: 0)
    outcome = observe(plant, other, third, _epochs_of_earlier_incarnations(), faults=faults)
    assert outcome.failed_property == "P-7"


def _epochs_of_earlier_incarnations() -> Plant:
    """A leader that says of every follower that it fetched in broker epoch 0."""

    def lie(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = replica_of(cluster, step, Role.LEADER)
        for remote in replica.remotes.values() if replica is not None else ():
            remote.broker_epoch = 0
        return False

    return Plant(lie, after_ms=0)


# --- what excuses that too few are remembered, and what does not ------------------------------------------------------

MIN_ISR = "min.insync.replicas"
STRATEGY = "unclean.recovery.strategy"


def nobody(*last_known: int, leader_epoch: int = 5) -> PartitionState:
    """A partition without a leader, where nobody is eligible."""
    return BEFORE._replace(isr=(), leader=-1, leader_epoch=leader_epoch, last_known_elr=last_known)


UNCLEAN = BEFORE._replace(isr=(3,), leader=3, leader_epoch=6, recovery_state=RECOVERING)

Change = ConfigChanged | PartitionState

EXCUSED = ""

TOO_FEW: dict[str, tuple[str, list[Change | tuple[Change, ...]]]] = {
    "nothing has happened": ("P-18", [nobody(1)]),
    "min ISR was set to what it was": (
        "P-18",
        [ConfigChanged("log", MIN_ISR, "2"), nobody(1)],
    ),
    "min ISR was changed, and enough were in sync since": (
        "P-18",
        [
            ConfigChanged("log", MIN_ISR, "3"),
            BEFORE,
            nobody(1, 2),
        ],
    ),
    "min ISR was changed": (
        EXCUSED,
        [
            BEFORE._replace(isr=(1,), elr=(2, 3)),
            (ConfigChanged("log", MIN_ISR, "3"), BEFORE._replace(isr=(1,))),
            nobody(1),
        ],
    ),
    "min ISR of another topic was changed": (
        "P-18",
        [ConfigChanged("other", MIN_ISR, "3"), nobody(1)],
    ),
    "replicas were added": (
        "P-18",
        [
            BEFORE._replace(replicas=(1, 2, 3, 4), adding=(4,)),
            nobody(1)._replace(replicas=(1, 2, 3, 4), adding=(4,)),
        ],
    ),
    "a replica was given up that nobody had to remember": (
        "P-18",
        [
            BEFORE._replace(isr=(1,), elr=(2,)),
            BEFORE._replace(isr=(1,), elr=(2,), adding=(3,)),
            BEFORE._replace(replicas=(1, 2), isr=(1,), elr=(2,)),
            nobody(1)._replace(replicas=(1, 2)),
        ],
    ),
    "all others that were eligible were given up": (
        "P-23",
        [
            BEFORE._replace(isr=(1,), elr=(3,)),
            BEFORE._replace(isr=(1,), elr=(3,), adding=(3,)),
            BEFORE._replace(replicas=(1, 2), isr=(1,)),
            nobody(1)._replace(replicas=(1, 2)),
        ],
    ),
    "all others that were eligible were given up where losses are accepted": (
        EXCUSED,
        [
            ConfigChanged("log", "unclean.leader.election.enable", "true"),
            BEFORE._replace(isr=(1,), elr=(3,)),
            BEFORE._replace(isr=(1,), elr=(3,), adding=(3,)),
            BEFORE._replace(replicas=(1, 2), isr=(1,)),
            nobody(1)._replace(replicas=(1, 2)),
        ],
    ),
    "replicas were added to fewer than min ISR": (
        EXCUSED,
        [
            BEFORE._replace(replicas=(1,), isr=(1,)),
            BEFORE._replace(isr=(1,)),
            nobody(1),
        ],
    ),
    "an unclean election": (
        EXCUSED,
        [
            nobody(1, 2),
            UNCLEAN,
            nobody(3, leader_epoch=7),
        ],
    ),
    "an unclean election, after which enough were remembered": (
        "P-18",
        [
            nobody(1, 2),
            UNCLEAN,
            UNCLEAN._replace(isr=(3, 2), recovery_state=0),
            nobody(3, leader_epoch=7),
        ],
    ),
}


@pytest.mark.parametrize("what", TOO_FEW)
def test_only_what_may_leave_too_few_excuses_that_too_few_are_remembered(what: str, knowledge: Knowledge) -> None:
    broken, steps = TOO_FEW[what]
    knowledge.image.apply(2, TopicCreated("other", "other"))
    epochs = count()

    def record_of(one: Change) -> ConfigChanged | PartitionSet:
        if isinstance(one, PartitionState):
            return PartitionSet("id", 0, one._replace(partition_epoch=next(epochs)))
        return one

    def play() -> None:
        end = 3
        for step in (BEFORE, *steps):
            together = (step,) if isinstance(step, (PartitionState, ConfigChanged)) else step
            records = list(enumerate(map(record_of, together), end))
            end += len(records)
            metadata.commit(knowledge, records, end)

    if broken == EXCUSED:
        play()
        return
    with pytest.raises(Violation) as found:
        play()
    assert found.value.property_id == broken


@pytest.mark.parametrize("remembered", [(1, 2), (1,)], ids=["enough are remembered", "too few, which is excused"])
def test_a_recovery_that_finds_nobody_complete_breaks_p_1_unless_too_few_were_remembered(
    remembered: tuple[int, ...], knowledge: Knowledge
) -> None:
    metadata.commit(knowledge, [(3, PartitionSet("id", 0, BEFORE._replace(isr=(1,), elr=(2,), partition_epoch=6)))], 4)
    alone = BEFORE._replace(isr=(1,), elr=(2,) if remembered == (1, 2) else (), partition_epoch=7)
    forgets = [] if remembered == (1, 2) else [(4, ConfigChanged("log", MIN_ISR, "3"))]
    metadata.commit(knowledge, [*forgets, (5, PartitionSet("id", 0, alone))], 6)
    knowledge.partitions["id", 0].committed.append(Batch(0, 0, 4, 7, -1, -1, -1, control=False))
    metadata.commit(knowledge, [(6, PartitionSet("id", 0, nobody(*remembered)._replace(partition_epoch=8)))], 7)
    elected = UNCLEAN._replace(partition_epoch=9)
    if remembered == (1,):
        metadata.commit(knowledge, [(7, PartitionSet("id", 0, elected))], 8)
        return
    with pytest.raises(Violation, match="one member had to have it") as found:
        metadata.commit(knowledge, [(7, PartitionSet("id", 0, elected))], 8)
    assert found.value.property_id == "P-1"


@pytest.mark.parametrize(
    ("generation", "accepted", "elected"),
    [
        pytest.param("K4", True, 3, id="by setting"),
        pytest.param("K4", False, -1, id="the last known leader"),
        pytest.param("K5", True, -1, id="by its log, which it has kept by then (UR-15)"),
    ],
)
def test_only_who_is_elected_by_setting_may_have_yet_to_delete_its_log(
    generation: str, accepted: bool, elected: int, knowledge: Knowledge
) -> None:
    knowledge.settings = replace(knowledge.settings, generation=generation, unclean_leader_election_enable=accepted)
    for offset, state in enumerate((nobody(3), UNCLEAN)):
        record = PartitionSet("id", 0, state._replace(partition_epoch=offset))
        metadata.commit(knowledge, [(3 + offset, record)], 4 + offset)
    assert knowledge.partitions["id", 0].elected == elected


@pytest.mark.parametrize(
    ("committed", "found", "remembered", "broken"),
    [
        pytest.param(2, 3, (3,), None, id="a log that was passed over, and of which all replicas are asked"),
        pytest.param(2, 3, (1, 3), "P-1", id="enough replicas may be complete: no other is to be elected"),
        pytest.param(5, 3, (3,), "P-1", id="the leader of the election before has committed a record"),
        pytest.param(2, 2, (3,), "P-1", id="a log that ranks no higher than what is committed"),
        pytest.param(2, 6, (3,), "P-1", id="a later log, which was not passed over"),
    ],
)
def test_a_recovery_may_only_take_back_what_an_unclean_election_passed_over(
    committed: int, found: int, remembered: tuple[int, ...], broken: str | None, knowledge: Knowledge
) -> None:
    """Broker 3 was elected uncleanly in epoch 5, and now broker 1; epochs of the last committed and the found batch."""
    ghost = knowledge.ghost("log", "id", 0)
    ghost.since_epoch = 5
    ghost.committed = [Batch(0, 0, committed, 7, -1, -1, -1, control=False)]
    ghost.mirrors[1] = ReplicaMirror(1, entries=[Batch(0, 0, found, 8, -1, -1, -1, control=False)])
    ghost.mirrors[3] = ReplicaMirror(3, entries=list(ghost.committed))
    leaderless = PartitionState((1, 2, 3), (), -1, 6, 9, last_known_elr=remembered)
    elected = leaderless._replace(isr=(1,), leader=1, leader_epoch=7, last_known_elr=(), recovery_state=RECOVERING)
    assert broken_by(lambda: metadata._check_recovery(knowledge, ghost, leaderless, elected)) == broken


def leaderless_with_a_complete_member(knowledge: Knowledge) -> Ghost:
    """The partition's state up to offset 5 of the metadata: nobody leads, and broker 2 has the committed record."""
    metadata.commit(knowledge, [(3, PartitionSet("id", 0, BEFORE._replace(isr=(1,), elr=(2,), partition_epoch=7)))], 4)
    ghost = knowledge.partitions["id", 0]
    ghost.committed.append(Batch(0, 0, 4, 7, -1, -1, -1, control=False))
    ghost.mirrors[2] = ReplicaMirror(2, entries=list(ghost.committed))
    gone = BEFORE._replace(isr=(), leader=-1, elr=(1, 2), leader_epoch=5, partition_epoch=8)
    metadata.commit(knowledge, [(4, PartitionSet("id", 0, gone))], 5)
    return ghost


@pytest.mark.parametrize(
    ("up", "registered", "broken"), [(True, True, "P-1"), (True, False, None), (False, True, None)]
)
def test_a_recovery_may_elect_a_process_that_has_died_since_it_described_its_log(
    up: bool, registered: bool, broken: str | None, knowledge: Knowledge
) -> None:
    """Broker 3 has lost its disk; only a process that the controller knows could lead without the record."""
    ghost = leaderless_with_a_complete_member(knowledge)
    knowledge.brokers[3].up = up
    knowledge.brokers[3].broker_epoch = knowledge.image.broker_epoch(3) if registered else -1
    elected = PartitionSet("id", 0, UNCLEAN._replace(leader_epoch=6, partition_epoch=9))
    assert broken_by(lambda: metadata.commit(knowledge, [(5, elected)], 6)) == broken
    assert len(ghost.committed) == 1


ON = ConfigChanged("log", "unclean.leader.election.enable", "true")
LOSSES_BY_SETTINGS: dict[str, tuple[bool, list[ConfigChanged]]] = {
    "nothing was altered": (False, []),
    "the topic allows them": (True, [ON]),
    "all brokers allow them": (True, [ON._replace(topic="")]),
    "all brokers allow them, and the topic does not": (False, [ON._replace(topic=""), ON._replace(value="false")]),
    "the topic allowed them": (False, [ON, ON._replace(value=None)]),
    "another topic allows them": (False, [ON._replace(topic="other")]),
    "the topic's recovery prefers availability": (True, [ConfigChanged("log", STRATEGY, "proactive")]),
    "the topic's recovery waits for an operator": (False, [ConfigChanged("log", STRATEGY, "manual")]),
}


@pytest.mark.parametrize("what", LOSSES_BY_SETTINGS)
def test_only_settings_in_force_at_an_election_excuse_what_it_loses(what: str, knowledge: Knowledge) -> None:
    """The complete replica, broker 2, is eligible; broker 3, which lacks the record, is elected."""
    allowed, altered = LOSSES_BY_SETTINGS[what]
    knowledge.image.apply(2, TopicCreated("other", "other"))
    ghost = leaderless_with_a_complete_member(knowledge)
    end = 5
    for record in altered:
        metadata.commit(knowledge, [(end, record)], end + 1)
        end += 1
    elected = PartitionSet("id", 0, UNCLEAN._replace(leader_epoch=6, partition_epoch=9))
    if allowed:
        metadata.commit(knowledge, [(end, elected)], end + 1)
        assert ghost.committed == []
        return
    with pytest.raises(Violation, match=r"P-1.*broker 2 has it"):
        metadata.commit(knowledge, [(end, elected)], end + 1)


def _cut_off_behind_the_marker(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """A broker is killed once it has written that it stops cleanly, and before its process has ended."""

    def write(files: Files, epoch: int, directories: int = 1) -> None:
        honest(files, epoch, directories)
        raise PowerFailed

    honest = checkpoints.write_clean_shutdown
    monkeypatch.setattr(checkpoints, "write_clean_shutdown", write)

    def prepare(cluster: SimulatedCluster, _step: EventStep) -> bool:
        for number, machine in cluster.machines.items():
            machine.when_power_fails = partial(cluster.kill, number)
        return True

    return Plant(prepare)


STOPPED_AS_ONE_OF_TWO = (
    SimulatedFault(5_500, "kill", 2, 20_000, 0),
    SimulatedFault(10_000, "restart", 0, 1_000, 0),
)


def test_a_stop_that_is_cut_off_behind_its_marker_was_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    plant = _cut_off_behind_the_marker(monkeypatch)
    outcome = observe(plant, faults=STOPPED_AS_ONE_OF_TWO)
    assert plant.planted
    assert outcome.failure is None


def test_a_marker_in_front_of_what_was_never_synced_breaks_p_7(monkeypatch: pytest.MonkeyPatch) -> None:
    plant = _cut_off_behind_the_marker(monkeypatch)

    def close(broker: BrokerState) -> None:
        checkpoints.write_clean_shutdown(broker.files, broker.broker_epoch)

    monkeypatch.setattr(storage, "close_cleanly", close)
    assert observe(plant, faults=STOPPED_AS_ONE_OF_TWO).failed_property == "P-7"
