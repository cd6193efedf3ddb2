"""What a broker or controller makes of a failed log directory breaks P-33, V-15 or another property if it is wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from broker.core.broker_node import directories, publishing, storage
from broker.core.broker_node.node import BrokerNode
from broker.core.broker_node.state import BrokerState
from broker.core.controller import partition_changes
from broker.core.log.log import Log
from broker.core.metadata.records import PartitionSet, PartitionState
from broker.core.ports.files import StorageError
from broker.core.replica.state import Replica, Role
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.invariants.answers import controllers_asked
from simulation.invariants.directories import is_left_behind, is_offline
from simulation.invariants.ghost import Batch, ReplicaMirror
from simulation.invariants.knowledge import BrokerMirror, Knowledge
from simulation.invariants.progress import directories as progress
from simulation.scenario.configuration import Configuration, SimulatedFault
from simulation.scenario.scenario import SimulationOutcome, settings_of
from simulation.workload.clients import TOPIC
from tests.simulation.invariants.planting import Plant, broken_by, change_rules, observe

FAILS = SimulatedFault(4_000, "directory-error", 0, 22_000, 1)
"""Writes in the second directory of broker 1, with one of two partitions."""


CHANGES = SimulatedFault(6_000, "changed-min-isr", 0, 1_000, 0)
"""A change of the metadata, which every broker publishes."""


def observed(*plants: Plant, faults: tuple[SimulatedFault, ...] = (FAILS,), **overrides: object) -> SimulationOutcome:
    settings: dict[str, object] = {"log_directories": 2, "partitions": 2, "duration_ms": 30_000}
    return observe(*plants, faults=faults, **{**settings, **overrides})


def state_of(cluster: SimulatedCluster, broker_id: int) -> BrokerState | None:
    node = cluster.machines[broker_id].node
    return node.state if isinstance(node, BrokerNode) else None


@pytest.mark.parametrize("generation", ["K3", "K5"])
def test_a_directory_that_fails_breaks_nothing_in_a_correct_cluster(generation: str) -> None:
    assert observed(generation=generation).failure is None


def test_an_offline_replica_that_stays_in_the_isr_breaks_p_33() -> None:
    assert observed(change_rules("elections", shrink=lambda isr, _gone: isr)).failed_property == "P-33"


def test_a_directory_that_is_given_up_though_it_works_breaks_p_34() -> None:
    def lie(cluster: SimulatedCluster, step: EventStep) -> bool:
        state = state_of(cluster, 1)
        if step.node_id == 1 and state is not None:
            directories.fail(state, StorageError("it looks ill", "1/"))
            return True
        return False

    outcome = observed(Plant(lie), faults=())
    assert outcome.failed_property == "P-34"
    assert "has given up its log directory 1, which works: it looks ill" in str(outcome.failure)


def test_a_replica_of_another_directory_that_goes_offline_too_breaks_p_34(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = directories.fail

    def fail(broker: BrokerState, error: StorageError) -> None:
        honest(broker, error)
        for key, replica in list(broker.replicas.items()):
            broker.offline[key] = replica.topic_id
            del broker.replicas[key]

    monkeypatch.setattr(directories, "fail", fail)
    outcome = observed()
    assert outcome.failed_property == "P-34"
    assert "its log directory 0 works" in str(outcome.failure)


def created_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "_is_offline", lambda *_: False)


def test_a_new_replica_in_the_place_of_one_that_is_counted_on_breaks_p_34(monkeypatch: pytest.MonkeyPatch) -> None:
    created_elsewhere(monkeypatch)
    unreported(monkeypatch)
    outcome = observed(faults=(FAILS, CHANGES), lag_ms=8_000)
    assert outcome.failed_property == "P-34"
    assert "has created a replica in" in str(outcome.failure)


def test_a_new_replica_in_the_place_of_one_that_nobody_counts_on_breaks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    created_elsewhere(monkeypatch)
    assert observed(faults=(FAILS, CHANGES)).failed_property != "P-34"


def test_a_log_that_comes_back_shorter_than_it_went_offline_breaks_p_6() -> None:
    name = f"1/{TOPIC}-1/{0:020d}.log"

    def lie(cluster: SimulatedCluster, _step: EventStep) -> bool:
        state, disk = state_of(cluster, 1), cluster.machines[1].disk
        if state is None or (TOPIC, 1) not in state.offline or disk.size(name) == 0:
            return False
        del disk.files[name].data[:]
        return True

    plant = Plant(lie)
    outcome = observed(plant, faults=(FAILS._replace(duration_ms=8_000),))
    assert plant.planted
    assert outcome.failed_property == "P-6"


def test_a_directory_whose_failure_is_not_noticed_breaks_v_15(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = storage._checkpoint_directory
    monkeypatch.setattr(
        storage, "_checkpoint_directory", lambda broker, index: None if index else honest(broker, index)
    )
    outcome = observed(partitions=1)
    assert outcome.failed_property == "V-15"
    assert "broker 1 has not noticed for" in str(outcome.failure)
    monkeypatch.undo()
    assert observed(partitions=1).failure is None


def unreported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant that a broker keeps a failure to itself, which P-70 finds before other properties can."""
    monkeypatch.setattr(directories, "report", lambda _broker: None)
    monkeypatch.setattr(controllers_asked, "_check_reported", lambda *_: None)


def test_a_broker_that_keeps_a_failure_to_itself_breaks_p_70(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directories, "report", lambda _broker: None)
    outcome = observed()
    assert outcome.failed_property == "P-70"
    assert "offline, and tells the controller nothing of it" in str(outcome.failure)


def test_a_report_of_other_replicas_than_the_lost_ones_breaks_p_70(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = directories.report

    def report(broker: BrokerState) -> None:
        lost = dict(broker.offline)
        broker.offline.update({(topic, 1 - number): found for (topic, number), found in lost.items()})
        for key in lost:
            del broker.offline[key]
        honest(broker)
        broker.offline.clear()
        broker.offline.update(lost)

    monkeypatch.setattr(directories, "report", report)
    assert observed().failed_property == "P-70"


def test_a_controller_that_acknowledges_a_loss_and_does_not_record_it_breaks_p_76(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_changes, "without_replica", lambda *_: None)
    outcome = observed()
    assert outcome.failed_property == "P-76"
    assert "has not recorded that it is offline" in str(outcome.failure)


def test_a_failure_that_is_not_reported_breaks_v_15(monkeypatch: pytest.MonkeyPatch) -> None:
    unreported(monkeypatch)
    outcome = observed()
    assert outcome.failed_property == "V-15"
    assert outcome.virtual_ms < 26_000


def test_nobody_is_blamed_for_what_is_not_reported_while_no_controller_can_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unreported(monkeypatch)
    cut = SimulatedFault(4_500, "brokers-from-controllers", 0, 21_000, 0)
    assert observed(faults=(FAILS, cut)).failed_property != "V-15"


def test_a_controller_that_is_down_excuses_no_missing_report(monkeypatch: pytest.MonkeyPatch) -> None:
    unreported(monkeypatch)
    down = SimulatedFault(3_500, "kill", 5, 22_000, 0)
    assert observed(faults=(FAILS, down)).failed_property == "V-15"


@pytest.mark.parametrize(
    ("topic_id", "recorded", "after_ms", "breaks"),
    [
        ("id", False, 6_000, "V-15"),
        ("id", False, 4_000, None),
        ("id", True, 6_000, None),
        ("another", False, 6_000, None),
    ],
)
def test_a_replica_that_could_not_be_created_is_reported(
    knowledge: Knowledge,
    monkeypatch: pytest.MonkeyPatch,
    topic_id: str,
    recorded: bool,
    after_ms: int,
    breaks: str | None,
) -> None:
    assigned = PartitionState((1, 2), (2,), 2, 0, 0, offline=(1,) if recorded else ())
    knowledge.image.apply(3, PartitionSet("id", 0, assigned))
    state = SimpleNamespace(broker_id=1, broker_epoch=1, offline={("log", 0): topic_id})
    monkeypatch.setattr(progress, "broker_state", lambda node: state if node == "broker 1" else None)
    cluster = SimpleNamespace(
        now_us=0, machines={one: SimpleNamespace(node=f"broker {one}") for one in knowledge.brokers}
    )

    def looked(at_ms: int) -> None:
        cluster.now_us = at_ms * MS
        progress._check_reported(knowledge, cast("SimulatedCluster", cluster), 5_000 * MS, works=True)

    looked(0)
    assert broken_by(lambda: looked(after_ms)) == breaks


@pytest.mark.parametrize(
    ("role", "other", "high_watermark", "broken"),
    [(Role.LEADER, False, 3, None), (Role.LEADER, True, 3, "P-4"), (Role.FOLLOWER, False, 1, None)],
)
def test_what_a_leader_commits_in_the_step_in_which_its_directory_fails_counts(
    role: Role, other: bool, high_watermark: int, broken: str | None
) -> None:
    """It may acknowledge it before it finds that the directory fails; to a follower a high watermark means nothing."""
    known = Knowledge.of(SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration())))
    batches = [Batch(offset, offset, 0, 1, -1, -1, -1, control=False) for offset in range(3)]
    mirror = ReplicaMirror(1, entries=list(batches), role=role, leader_epoch=0, high_watermark=1)
    log = SimpleNamespace(end_offset=3, truncations=0, directory="1/log-0")
    replica = SimpleNamespace(log=log, leader_epoch=0, topic_id="id", high_watermark=3)
    mirror.replica, mirror.log = cast("Replica", replica), cast("Log", log)
    broker = BrokerMirror(1, mirrors={("log", 0): mirror})
    ghost = known.ghost("log", "id", 0)
    ghost.mirrors[1] = mirror
    ghost.committed = [batches[0], batches[1]._replace(crc=2)] if other else batches[:1]
    state = cast(
        "BrokerState", SimpleNamespace(offline={("log", 0): "id"}, failed_directories={1: "EIO"}, published=True)
    )
    assert broken_by(lambda: is_offline(known, broker, state, ("log", 0), mirror)) == broken
    if broken is None:
        assert (mirror.high_watermark, len(ghost.committed), mirror.offline) == (high_watermark, high_watermark, True)


@pytest.mark.parametrize(
    ("incarnation", "failed", "now_in", "left_behind"),
    [
        pytest.param(2, {1: "EIO"}, "t-0", True, id="an older log is in the directory that works"),
        pytest.param(2, {}, "t-0", False, id="no directory fails"),
        pytest.param(2, {2: "EIO"}, "t-0", False, id="another directory fails"),
        pytest.param(2, {1: "EIO"}, "1/t-0", False, id="the same log"),
        pytest.param(1, {1: "EIO"}, "t-0", False, id="the process that had it open"),
    ],
)
def test_only_a_start_without_the_directory_of_a_replica_takes_an_older_log_for_it(
    incarnation: int, failed: dict[int, str], now_in: str, left_behind: bool
) -> None:
    broker = BrokerMirror(1, incarnation=incarnation, failed_directories=failed)
    mirror = ReplicaMirror(1, incarnation=1)
    mirror.log = cast("Log", SimpleNamespace(directory="1/t-0"))
    opened = cast("Replica", SimpleNamespace(log=SimpleNamespace(directory=now_in)))
    assert is_left_behind(broker, mirror, opened) is left_behind
