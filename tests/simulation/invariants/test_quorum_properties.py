"""Each property of the controllers' quorum is reported when it is broken (P-R1 … P-R5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.core.controller.node import ControllerNode
from broker.core.log.log import Log, LogConfig
from broker.core.metadata.image import Image
from broker.core.metadata.records import ConfigChanged, PartitionSet
from broker.core.ports.events import TimerFired
from broker.core.quorum import snapshots
from broker.core.quorum.state import Quorum, QuorumRole
from broker.core.records import encode_batch
from broker.core.rules.quorum import QuorumRules
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.invariants.ghost import Batch, batches_of
from simulation.invariants.knowledge import Knowledge, VoterMirror
from simulation.invariants.quorum import ended, stepped
from simulation.scenario.configuration import Configuration, SimulatedFault
from simulation.scenario.scenario import settings_of
from tests.simulation.invariants.planting import Plant, broken_by, controller_of, observe
from tests.support.memory_files import MemoryFiles

CHANGES = [SimulatedFault(3_000 + 500 * number, "reassignment", 0, 400, number) for number in range(30)]
"""They write so many records that there are snapshots."""

Lie = Callable[[Quorum], object]


def quorum_lie(lie: Lie, *, leads: bool) -> Plant:
    def plant(cluster: SimulatedCluster, step: EventStep) -> bool:
        state = controller_of(cluster, step, leads=leads)
        if state is None or not state.quorum.high_watermark:
            return False
        lie(state.quorum)
        return True

    return Plant(plant)


def usurp(quorum: Quorum) -> None:
    quorum.role, quorum.leader = QuorumRole.LEADER, quorum.node_id


def follow_another(quorum: Quorum) -> None:
    quorum.leader = next(voter for voter in quorum.others if voter != quorum.leader)


def lose_a_committed_record(quorum: Quorum) -> None:
    quorum.log.truncate_to(quorum.high_watermark - 1)
    quorum.high_watermark = quorum.log.end_offset


def commit_alone(quorum: Quorum) -> None:
    quorum.log.append_as_leader(quorum.log.read(0, 1, quorum.log.end_offset), quorum.epoch)
    quorum.high_watermark = quorum.log.end_offset


def take_more_for_committed(quorum: Quorum) -> None:
    quorum.log.append_as_leader(quorum.log.read(0, 1, quorum.log.end_offset), quorum.epoch)
    quorum.high_watermark = quorum.log.end_offset


def go_back(quorum: Quorum) -> None:
    quorum.high_watermark -= 1


def go_back_an_epoch(quorum: Quorum) -> None:
    quorum.epoch -= 1
    quorum.leader = -1


def claim_a_snapshot(quorum: Quorum) -> None:
    quorum.snapshot_id = (quorum.high_watermark + 1, quorum.epoch)


def vote_again(quorum: Quorum) -> None:
    quorum.voted_for = 100 if quorum.voted_for != 100 else 101


@pytest.mark.parametrize(
    ("property_id", "lie", "leads"),
    [
        ("P-R1", usurp, False),
        ("P-R2", follow_another, False),
        ("P-R3", lose_a_committed_record, False),
        ("P-R3", commit_alone, True),
        ("P-R3", take_more_for_committed, False),
        ("P-R4", go_back, False),
        ("P-R4", go_back, True),
        ("P-R4", go_back_an_epoch, False),
        ("P-R4", claim_a_snapshot, True),
        ("P-R5", vote_again, True),
    ],
)
def test_a_broken_property_of_the_quorum_is_reported(property_id: str, lie: Lie, leads: bool) -> None:
    assert observe(quorum_lie(lie, leads=leads)).failed_property == property_id


@pytest.mark.parametrize(
    "lie",
    [
        lambda records: [one for one in records if not isinstance(one, PartitionSet)],
        lambda records: [*records, ConfigChanged("", "min.insync.replicas", "7")],
    ],
)
def test_a_snapshot_of_something_else_than_what_was_committed_breaks_p_r4(
    monkeypatch: pytest.MonkeyPatch, lie: Callable[[list[object]], list[object]]
) -> None:
    honest = Image.to_records
    monkeypatch.setattr(Image, "to_records", lambda image: lie(honest(image)))
    assert observe(faults=CHANGES, metadata_snapshot_records=30).failed_property == "P-R4"


def test_a_snapshot_that_is_not_written_breaks_p_r4(monkeypatch: pytest.MonkeyPatch) -> None:
    def written(stored: Any, snapshot_id: tuple[int, int], _data: bytes) -> None:
        stored.snapshot_id = snapshot_id

    assert observe(faults=CHANGES, metadata_snapshot_records=30).failure is None
    monkeypatch.setattr(snapshots, "_write", written)
    assert observe(faults=CHANGES, metadata_snapshot_records=30).failed_property == "P-R4"


@pytest.mark.parametrize("flaw", ["quorum-ack-before-flush"])
def test_a_quorum_without_fear_of_restarts_is_reported(flaw: str) -> None:
    faults = [SimulatedFault(3_000 + 400 * turn, "page-cache-loss", 3 + turn % 3, 150, turn) for turn in range(25)]
    found = {observe(faults=faults, flaws=(flaw,), seed=seed).failed_property for seed in range(6)}
    assert found & {"P-R1", "P-R2", "P-R3", "P-R4", "P-R5", "crash"}


def test_elections_by_themselves_are_no_violation() -> None:
    faults = [SimulatedFault(3_000 + 900 * turn, "kill", 3 + turn % 3, 700, 0) for turn in range(15)]
    assert observe(faults=faults).failure is None


@pytest.mark.parametrize(("epoch", "broken"), [(4, None), (5, "P-R3"), (6, "P-R3")])
def test_a_leader_that_lacks_what_its_own_or_an_earlier_epoch_has_committed_breaks_p_r3(
    epoch: int, broken: str | None
) -> None:
    """One of an earlier epoch cannot know, and commits nothing; a late vote may elect it all the same."""
    cluster = SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration()))
    number = min(node_id for node_id, machine in cluster.machines.items() if machine.settings.is_controller)
    cluster.start(number)
    node = cluster.machines[number].node
    assert isinstance(node, ControllerNode)
    known = Knowledge.of(cluster)
    known.metadata = [Batch(0, 0, 5, 0, -1, -1, -1, control=True)]
    known.committed_in = {5: 1}
    quorum = node.state.quorum
    quorum.epoch, quorum.role, quorum.leader = epoch, QuorumRole.LEADER, number
    quorum.persist()
    assert broken_by(lambda: stepped(known, known.voters[number], node.state, 1, TimerFired(("none",)))) == broken


def voter_that_appended(count: int, controllers: int = 3) -> tuple[Knowledge, VoterMirror, Quorum]:
    """A leader of the quorum, with so many records in its log that are not synced, and its mirror."""
    cluster = SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration(controllers=controllers)))
    known = Knowledge.of(cluster)
    mirror = next(iter(known.voters.values()))
    cluster.start(mirror.holder)
    node = cluster.machines[mirror.holder].node
    assert isinstance(node, ControllerNode)
    quorum = node.state.quorum
    quorum.log = Log.open(MemoryFiles(), "metadata-0", LogConfig(), clean=False)
    quorum.role, quorum.leader, quorum.epoch, quorum.high_watermark = QuorumRole.LEADER, mirror.holder, 1, 0
    for offset in range(count):
        quorum.log.append_as_leader(encode_batch([(None, b"record")], offset, 0, 0), 1)
    mirror.entries = list(batches_of(quorum.log, 0))
    mirror.quorum, mirror.truncations = quorum, quorum.log.truncations
    return known, mirror, quorum


@pytest.mark.parametrize(("committed", "broken"), [(1, None), (2, "P-R3")])
def test_a_voter_that_ended_while_it_cut_its_log_has_lost_nothing_but_what_is_committed(
    committed: int, broken: str | None
) -> None:
    known, mirror, quorum = voter_that_appended(2)
    quorum.log.sync()
    mirror.durable = 2
    known.metadata = mirror.entries[:committed]
    mirror.compare(known.metadata)
    quorum.log.truncate_to(1)
    assert broken_by(lambda: ended(known, mirror)) == broken
    assert mirror.durable == (1 if broken is None else 2)


@pytest.mark.parametrize(("flushed", "durable"), [(1, 1), (2, 2)])
def test_a_voter_that_ended_has_on_its_disk_what_it_heard_of_in_its_last_step(flushed: int, durable: int) -> None:
    known, mirror, quorum = voter_that_appended(2)
    mirror.durable = 1
    quorum.log.mark_flushed(flushed, quorum.log.truncations)
    ended(known, mirror)
    assert mirror.durable == durable


@pytest.mark.parametrize(
    ("controllers", "leads", "deleted", "broken"),
    [
        (1, True, 2, None),
        (1, True, 0, None),  # a snapshot may say that they are committed
        (3, True, 2, "P-R3"),  # the others do not have it
        (3, True, 0, "P-R3"),
        (1, False, 2, "P-R3"),  # only a leader commits
    ],
)
def test_a_voter_that_ended_may_have_committed_in_its_last_step(
    controllers: int, leads: bool, deleted: int, broken: str | None
) -> None:
    """It committed two records, stored a snapshot and maybe deleted the records, and ended before anybody saw it."""
    known, mirror, quorum = voter_that_appended(2, controllers)
    if not leads:
        quorum.role = QuorumRole.FOLLOWER
    known.changes = {(entry.epoch, entry.base): b"" for entry in mirror.entries if entry}
    mirror.entries = [None if entry is None else entry._replace(control=True) for entry in mirror.entries]
    quorum.log.sync()
    quorum.high_watermark = 2
    quorum.log.advance_start(deleted)
    found = broken_by(lambda: ended(known, mirror))
    assert (found, len(known.metadata)) == (broken, 2 if leads else 0)


@pytest.mark.parametrize(("epoch", "broken"), [(1, None), (2, "P-R3")])
def test_a_leader_that_commits_only_records_of_earlier_epochs_breaks_p_r3(epoch: int, broken: str | None) -> None:
    known, mirror, quorum = voter_that_appended(2, controllers=1)
    known.changes = {(entry.epoch, entry.base): b"" for entry in mirror.entries if entry}
    mirror.entries = [None if entry is None else entry._replace(control=True) for entry in mirror.entries]
    quorum.log.sync()
    quorum.epoch, quorum.high_watermark = epoch, 2
    quorum.log.advance_start(2)
    assert broken_by(lambda: ended(known, mirror)) == broken


@pytest.mark.parametrize(
    ("rule", "decides"),
    [
        ("grants_pre_vote", lambda _rules, leads, _hears, candidate, own: not leads and candidate >= own),
        ("grants_pre_vote", lambda *_given: False),
        ("grants_vote", lambda _rules, _candidate, _voted, _leader, candidate, own: candidate >= own),
        ("grants_vote", lambda *_given: False),
    ],
    ids=["a pre-vote though it hears", "no pre-vote at all", "a vote too many", "no vote at all"],
)
def test_a_choice_that_does_not_follow_from_what_a_voter_knows_breaks_p_r5(
    rule: str, decides: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [
        *(SimulatedFault(3_000 + 3_000 * number, "isolate", 3 + number % 3, 1_900, 0) for number in range(5)),
        SimulatedFault(18_000, "halves", 3, 1_500, 1),
    ]
    assert observe(faults=faults, controllers=3).failure is None
    monkeypatch.setattr(QuorumRules, rule, decides)
    assert "P-R5" in {observe(faults=faults, controllers=3, seed=seed).failed_property for seed in range(1, 9)}


def test_a_vote_for_a_log_that_is_behind_breaks_p_r5(monkeypatch: pytest.MonkeyPatch) -> None:
    def grants(_rules: QuorumRules, candidate: int, voted_for: int, leader: int, *_ends: object) -> bool:
        return leader == -1 and voted_for in (-1, candidate)

    monkeypatch.setattr(QuorumRules, "grants_vote", grants)
    monkeypatch.setattr(QuorumRules, "grants_pre_vote", lambda _rules, leads, hears, *_ends: not leads and not hears)
    changes = [SimulatedFault(5_500 + 400 * number, "reassignment", 0, 300, number) for number in range(8)]
    faults = [SimulatedFault(5_000, "isolate", 4, 4_000, 0), *changes, SimulatedFault(9_500, "kill", 3, 8_000, 0)]
    failed = {observe(seed=seed, faults=faults).failed_property for seed in range(1, 9)}
    assert "P-R5" in failed
    monkeypatch.undo()
    assert observe(seed=1, faults=faults).failed_property is None
