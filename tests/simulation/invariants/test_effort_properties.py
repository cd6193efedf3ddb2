"""Followers that do not wait, laggards that are none, compactions without a reason or an end: P-62 to P-64, V-28, V-30;
and compactions that leave their copy (P-44).

And refusals and elections of a controller without a reason (P-41, P-25), and producers that a restart forgets (P-28).
"""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.broker_node import compaction, replication
from broker.core.broker_node.requests import fetching, producing
from broker.core.controller.requests import metadata_fetches
from broker.core.log import producer_state
from broker.core.log.compaction import filtering
from broker.core.log.compaction.cleaning import Cleaning, Progress
from broker.core.log.compaction.swapping import cleaned_name
from broker.core.log.log import Log
from broker.core.messages import UNKNOWN, FetchRequest
from broker.core.metadata.image import Image
from broker.core.metadata.records import PartitionState
from broker.core.replica import leader
from broker.core.replica.state import RemoteReplica, Role
from broker.core.rules.insync_replicas import AlterPartitionRules
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.invariants import compactions
from simulation.invariants.answers import followers
from simulation.invariants.compactions import check_cut
from simulation.invariants.ghost import Ghost, ReplicaMirror
from simulation.invariants.knowledge import BrokerMirror, Deciding, Knowledge
from simulation.invariants.recoveries import check_needed
from simulation.runs.sweep import simulate
from simulation.scenario import scenario
from simulation.scenario.configuration import Configuration, SimulatedFault
from simulation.scenario.scenario import settings_of
from tests.simulation.invariants.planting import Plant, broken_by, controller_of, observe

COMPACTED: dict[str, object] = {"compacted": True, "operations": 100}
LEADER_DIES = SimulatedFault(4_000, "kill", 6, 8_000, 0)
FOLLOWER_DIES = SimulatedFault(5_000, "kill", 1, 6_000, 0)


def found_in_mixed_seeds(*seeds: int) -> set[str]:
    return {one.property_id for seed in seeds for one in simulate(seed, {"search": "mixed"}, observed=True).findings}


def test_followers_whose_leader_dies_or_moves_break_nothing() -> None:
    moved = [SimulatedFault(at_ms, "moved-leader", 0, 1, 0) for at_ms in range(3_000, 18_000, 1_500)]
    assert observe(faults=[LEADER_DIES, *moved]).failure is None


def test_a_follower_that_pauses_because_of_another_leader_breaks_p_62(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = replication.fetched

    def fetched(broker: Any, leader: int, response: Any) -> None:
        honest(broker, leader, response)
        for replica in broker.replicas.values():
            if response is None and replica.role is Role.FOLLOWER and replica.leader != leader:
                replication._pause(broker, replica)

    monkeypatch.setattr(replication, "fetched", fetched)
    assert "P-62" in found_in_mixed_seeds(4)


def test_a_follower_that_pauses_because_there_is_no_news_breaks_p_62(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = replication.fetched

    def fetched(broker: Any, leader: int, response: Any) -> None:
        named = {part.partition for part in response.partitions} if response is not None else set()
        is_incremental = broker.leader_sessions[leader].epoch > 0
        honest(broker, leader, response)
        for replica in broker.replicas.values():
            if response is not None and is_incremental and replica.leader == leader and replica.partition not in named:
                replication._pause(broker, replica)

    monkeypatch.setattr(replication, "fetched", fetched)
    assert observe(partitions=2).failed_property == "P-62"


def test_a_follower_that_asks_again_at_once_after_an_error_breaks_p_62(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication, "_pause", lambda _broker, _replica: None)
    assert "P-62" in found_in_mixed_seeds(1, 2)


@pytest.mark.parametrize("forgotten", ["caught_up_ms", "last_fetch_ms"])
def test_a_leader_that_forgets_when_a_follower_fetched_or_caught_up_breaks_p_63(
    monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    honest = leader.record_fetch

    def record(remote: Any, **fetch: Any) -> None:
        before_ms = getattr(remote, forgotten)
        honest(remote, **fetch)
        setattr(remote, forgotten, before_ms)

    monkeypatch.setattr(leader, "record_fetch", record)
    assert observe().failed_property == "P-63"


def test_a_write_that_is_left_unanswered_until_something_else_happens_breaks_v_30(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest, calls = producing.complete, count()

    def complete(*arguments: Any) -> None:
        if next(calls) % 2:
            honest(*arguments)

    monkeypatch.setattr(producing, "complete", complete)
    assert observe().failed_property == "V-30"


def test_a_fetch_that_waits_for_more_than_it_asks_for_breaks_v_30(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = fetching.try_answer

    def try_answer(broker: Any, request_id: int, *, at_deadline: bool) -> bool:
        return at_deadline and honest(broker, request_id, at_deadline=True)

    monkeypatch.setattr(fetching, "try_answer", try_answer)
    assert observe().failed_property == "V-30"


@pytest.mark.parametrize("fetcher_is_voter", [True, False])
def test_a_fetch_of_the_metadata_that_is_answered_at_its_deadline_alone_breaks_v_30(
    monkeypatch: pytest.MonkeyPatch, fetcher_is_voter: bool
) -> None:
    honest = metadata_fetches.wake

    def wake(controller: Any) -> None:
        held = {
            number: fetch
            for number, fetch in controller.fetches.items()
            if (fetch.request.replica_id in controller.quorum.voters) is fetcher_is_voter
        }
        for number in held:
            del controller.fetches[number]
        honest(controller)
        controller.fetches |= held

    monkeypatch.setattr(metadata_fetches, "wake", wake)
    found = observe()
    assert found.failed_property == "V-30"
    assert "fetch of the metadata" in str(found.failure)


def test_a_fetch_of_a_topic_that_may_be_deleted_is_judged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = fetching.try_answer

    def try_answer(broker: Any, request_id: int, *, at_deadline: bool) -> bool:
        has_side_topic = any(part.topic != "log" for part in broker.fetches[request_id].fetch.request.partitions)
        return (at_deadline or not has_side_topic) and honest(broker, request_id, at_deadline=at_deadline)

    monkeypatch.setattr(fetching, "try_answer", try_answer)
    found = observe(side_topics=True, operations=1, duration_ms=40_000)
    assert found.failed_property == "V-30"
    assert "side-" in str(found.failure)


def compact_whatever_there_is(monkeypatch: pytest.MonkeyPatch, dirty_ratio: str) -> None:
    """Let brokers compact the closed segments of any log, and the topic's settings ask for a share that is not."""
    ratio = ("min.cleanable.dirty.ratio", dirty_ratio)
    monkeypatch.setattr(scenario, "KEYED_CONFIGS", (*scenario.KEYED_CONFIGS[:-1], ratio))

    def uncompacted(_broker: object, replica: Any) -> tuple[float, list[Any]]:
        log = replica.log
        segments = log.closed_segments(min(replica.high_watermark, log.flushed_offset))
        is_dirty = bool(segments) and segments[-1].end_offset > log.compacted_offset
        return (1.0, segments) if is_dirty and log.config.compaction is not None else (0.0, [])

    monkeypatch.setattr(compaction, "_uncompacted", uncompacted)


@pytest.mark.parametrize(("dirty_ratio", "broken"), [("0.95", "P-64"), ("0", None)])
def test_a_compaction_of_what_is_compacted_for_the_most_part_breaks_p_64(
    monkeypatch: pytest.MonkeyPatch, dirty_ratio: str, broken: str | None
) -> None:
    compact_whatever_there_is(monkeypatch, dirty_ratio)
    assert observe(**COMPACTED).failed_property == broken


def test_a_compaction_that_leaves_two_records_of_a_key_breaks_p_64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering, "_is_obsolete", lambda _record, _header, _limits: False)
    assert observe(**COMPACTED).failed_property == "P-64"


@pytest.mark.parametrize(
    ("high_watermark", "flushed", "broken"), [(8, 9, None), (7, 9, "P-64"), (9, 8, None), (9, 7, "P-64")]
)
def test_a_compaction_of_what_is_not_certain_yet_breaks_p_64(
    high_watermark: int, flushed: int, broken: str | None
) -> None:
    known = Knowledge.of(SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration())))
    config = SimpleNamespace(compaction=None)
    log = SimpleNamespace(config=config, flushed_offset=flushed, truncations=0, start_offset=0, compacted_offset=0)
    replica: Any = SimpleNamespace(topic="log", topic_id="id", partition=0, log=log, high_watermark=high_watermark)
    state: Any = SimpleNamespace(broker_id=1)
    cleaning: Any = SimpleNamespace(ends=8)
    assert broken_by(lambda: compactions._began(known, state, cleaning, replica)) == broken


def test_a_compaction_that_leaves_its_copy_behind_breaks_p_44(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Cleaning.step

    def step(cleaning: Any) -> Progress:
        progress = honest(cleaning)
        if progress is Progress.DONE:
            cleaning._files.append(cleaned_name(cleaning._segments[0]), b"")
        return progress

    monkeypatch.setattr(Cleaning, "step", step)
    assert observe(**COMPACTED).failed_property == "P-44"


@pytest.mark.parametrize(("compacted", "broken"), [(3, None), (4, "P-64")])
def test_a_cut_that_has_more_count_as_compacted_breaks_p_64(compacted: int, broken: str | None) -> None:
    known = Knowledge.of(SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration())))
    log: Any = SimpleNamespace(end_offset=4, start_offset=0, compacted_offset=compacted)
    assert broken_by(lambda: check_cut(known, Ghost("log", 0), ReplicaMirror(1, compacted=3), log)) == broken


def test_a_compaction_that_is_given_up_without_a_reason_breaks_v_28(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "has_segments", lambda _log, _segments: False)
    assert observe(**COMPACTED).failed_property == "V-28"


def test_a_fault_elsewhere_excuses_no_compaction_that_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "has_segments", lambda _log, _segments: False)
    assert observe(faults=[LEADER_DIES], **COMPACTED).failed_property == "V-28"


def test_a_refusal_of_members_that_are_all_active_breaks_p_41(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = AlterPartitionRules.check_members

    def check(rules: Any, image: Image, state: PartitionState, part: Any) -> Any:
        grows = len(part.new_isr) > len(state.isr)
        return 107 if grows else honest(rules, image, state, part)

    assert observe(faults=[FOLLOWER_DIES], duration_ms=30_000).failure is None
    monkeypatch.setattr(AlterPartitionRules, "check_members", check)
    assert observe(faults=[FOLLOWER_DIES], duration_ms=30_000).failed_property == "P-41"


@pytest.mark.parametrize(
    ("heard", "remembered", "broken"),
    [((2, 3), (3,), None), ((2,), (3,), "P-25"), ((2, 3), (), "P-25"), ((1, 2, 3), (1, 3), None)],
)
def test_a_recovery_hears_of_all_that_it_needs_and_remembers_them(
    heard: tuple[int, ...], remembered: tuple[int, ...], broken: str | None
) -> None:
    """With min ISR 2, two of the last known ELR are enough (UR-6), and the one not elected stays there (UR-10)."""
    known = Knowledge.of(SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration(min_insync_replicas=2))))
    before = PartitionState((1, 2, 3), isr=(), leader=-1, leader_epoch=3, partition_epoch=9, last_known_elr=(2, 3))
    after = before._replace(isr=(2,), leader=2, leader_epoch=4, partition_epoch=10, last_known_elr=remembered)
    logs = dict.fromkeys(heard, (0, 26))
    ghost, deciding = Ghost("log", 0), Deciding(before, min_isr=2)
    assert broken_by(lambda: check_needed(known, ghost, deciding, after, logs, Image())) == broken


@pytest.mark.parametrize("strategy", ["proactive", "balanced"])
def test_only_where_losses_are_accepted_a_recovery_may_go_on_without_some(strategy: str) -> None:
    known = Knowledge.of(SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration(min_insync_replicas=2))))
    known.image.configs["unclean.recovery.strategy"] = strategy
    before = PartitionState((1, 2, 3), isr=(), leader=-1, leader_epoch=3, partition_epoch=9, last_known_elr=(2, 3))
    after = before._replace(isr=(2,), leader=2, leader_epoch=4, partition_epoch=10, last_known_elr=())
    ghost, deciding = Ghost("log", 0), Deciding(before, min_isr=2)
    broken = broken_by(lambda: check_needed(known, ghost, deciding, after, {2: (0, 26)}, Image()))
    assert broken == (None if strategy == "proactive" else "P-25")


def test_a_snapshot_of_another_epoch_breaks_p_r4() -> None:
    def lie(cluster: SimulatedCluster, step: EventStep) -> bool:
        state = controller_of(cluster, step, leads=True)
        if state is None or not state.quorum.snapshot_id[0]:
            return False
        end, epoch = state.quorum.snapshot_id
        state.quorum.snapshot_id = (end, epoch + 1)
        return True

    changes = [SimulatedFault(3_000 + 500 * number, "reassignment", 0, 400, number) for number in range(30)]
    plant = Plant(lie, after_ms=0)
    outcome = observe(plant, faults=changes, metadata_snapshot_records=30)
    assert plant.planted
    assert outcome.failed_property == "P-R4"


def test_producers_that_a_restart_forgets_break_p_28(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "P-28" not in found_in_mixed_seeds(1, 2)
    monkeypatch.setattr(producer_state, "_read_snapshot", lambda *_: None)
    assert "P-28" in found_in_mixed_seeds(1, 2)


@pytest.mark.parametrize(
    ("before", "now", "checks", "breaks"),
    [(5, 5, True, None), (5, 9, True, None), (9, 5, True, "P-63"), (9, 5, False, None), (9, UNKNOWN, True, None)],
)
def test_a_fetch_of_an_earlier_incarnation_that_counts_breaks_p_63(
    before: int, now: int, checks: bool, breaks: str | None
) -> None:
    """A protocol version without KIP-903 does not look at incarnations; clients of old versions name none."""
    remote = RemoteReplica(broker_epoch=before)
    replica: Any = SimpleNamespace(topic="log", partition=0, remotes={2: remote}, role=Role.LEADER, leader_epoch=1)
    fetch_rules = SimpleNamespace(check_replica_epoch=lambda given, known, _seen: checks and given < known)
    state: Any = SimpleNamespace(
        replicas={("log", 0): replica}, rules=SimpleNamespace(fetch=fetch_rules), runtime=SimpleNamespace(now_ms=0)
    )
    broker, request = BrokerMirror(1), FetchRequest((), replica_id=2)
    followers.fetched(broker, state, request)
    remote.broker_epoch = now
    assert broken_by(lambda: followers.fetched(broker, state, request)) == breaks
