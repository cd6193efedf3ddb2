"""What nodes tell each other is so, and what they were asked for is done in full: P-73 to P-78, P-22, P-45, P-A1, V-28,
and voters that go on in an epoch that they have led (P-R1, P-R5), keep old snapshots (P-R4) or forget epochs (P-79).
"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.core.broker_node import compaction, lifecycle, replication
from broker.core.broker_node.requests import fetch_sessions
from broker.core.configuration import cleanup
from broker.core.controller import membership
from broker.core.controller.requests import replica_reports
from broker.core.log.log import Log
from broker.core.messages import (
    AnyResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import PartitionState
from broker.core.node import CombinedNode
from broker.core.ports.events import Reply, RequestReceived, ResponseReceived
from broker.core.quorum import snapshots
from broker.core.quorum.state import Quorum, QuorumRole
from broker.core.records import encode_batch
from broker.core.rules.cluster_metadata import ReassignmentRules
from broker.core.rules.insync_replicas import AfterAnswer, InsyncReplicaRules
from broker.core.rules.quorum import QuorumRules
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.invariants.answers import sizes
from simulation.invariants.ghost import Ghost
from simulation.invariants.knowledge import BrokerMirror, Knowledge, Standing, VoterMirror
from simulation.invariants.metadata import _check_reassignment
from simulation.invariants.quorum import adopted, answered, recognized
from simulation.scenario.configuration import SimulatedFault
from simulation.workload.keyed_topic import CONFIGS as KEYED_CONFIGS
from tests.simulation.invariants.planting import Plant, broken_by, observe

UNATTACHED = QuorumRole.UNATTACHED
BATCH = encode_batch([(None, b"value")] * 4, 0, 0, timestamp_ms=0)
MOVES = [SimulatedFault(3_000 + 1_500 * number, "reassignment", 0, 400, number) for number in range(10)]
RESTARTS = [SimulatedFault(4_000 + 2_000 * number, "restart", number % 3, 1_000, 0) for number in range(8)]
LIMITED = {"fetch_bytes": 100, "operations": 200}


# --- fetches (P-73) ---------------------------------------------------------------------------------------------------


def test_fetches_of_few_bytes_break_nothing() -> None:
    assert observe(faults=[SimulatedFault(5_000, "kill", 1, 6_000, 0)], **LIMITED).failure is None


def test_a_broker_that_sends_more_than_it_was_asked_for_breaks_p_73(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Log.read

    def read(log: Log, offset: int, _size: int, *upto: int, **kept: bool) -> bytes:
        return honest(log, offset, 1 << 20, *upto, **kept)

    monkeypatch.setattr(Log, "read", read)
    assert observe(faults=[SimulatedFault(5_000, "kill", 1, 6_000, 0)], **LIMITED).failed_property == "P-73"


@pytest.mark.parametrize(
    ("records", "of_part", "in_all", "breaks"),
    [
        ((BATCH,), 10, 10, None),  # the first batch
        ((BATCH, BATCH), 2 * len(BATCH), 2 * len(BATCH), None),
        ((BATCH + BATCH,), len(BATCH), 1 << 20, "P-73"),
        ((BATCH, BATCH), 1 << 20, len(BATCH), "P-73"),
        ((b"", BATCH, BATCH), 10, 1 << 20, "P-73"),
        ((b"", BATCH), 10, 10, None),
    ],
)
def test_only_the_first_batch_may_be_larger(
    records: tuple[bytes, ...], of_part: int, in_all: int, breaks: str | None
) -> None:
    broker = BrokerMirror(1)
    asked = tuple(FetchPartition("log", number, 0, of_part, 0) for number in range(len(records)))
    broker.asked[7] = FetchRequest(asked, max_bytes=in_all)
    answer = FetchResponse(
        tuple(FetchedPartition("log", number, 0, records=data) for number, data in enumerate(records))
    )
    assert broken_by(lambda: sizes.answered(broker, 7, answer, 1 << 20)) == breaks


# --- brokers and controllers (P-74 to P-78, P-22) ---------------------------------------------------------------


def test_a_broker_that_claims_to_know_more_metadata_breaks_p_74(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = lifecycle.BrokerHeartbeatRequest

    def boasting(broker_id: int, epoch: int, offset: int, **wishes: bool) -> Any:
        return honest(broker_id, epoch, offset + 1, **wishes)

    monkeypatch.setattr(lifecycle, "BrokerHeartbeatRequest", boasting)
    assert observe().failed_property == "P-74"


def test_a_broker_that_keeps_to_itself_that_it_is_to_stop_breaks_p_74(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = lifecycle.BrokerHeartbeatRequest

    def secretive(*known: int, want_fence: bool, want_shut_down: bool) -> Any:
        return honest(*known, want_fence=want_fence, want_shut_down=False)

    monkeypatch.setattr(lifecycle, "BrokerHeartbeatRequest", secretive)
    assert observe(faults=RESTARTS).failed_property == "P-74"


def test_a_broker_that_is_unfenced_as_it_shuts_down_breaks_p_75(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = membership.next_state

    def next_state(controller: Any, broker: Any, request: Any) -> Any:
        return honest(controller, broker, request._replace(want_shut_down=False, want_fence=False))

    monkeypatch.setattr(membership, "next_state", next_state)
    assert observe().failed_property == "P-75"


def test_a_report_that_is_answered_in_part_breaks_p_76(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = replica_reports.AssignReplicasToDirsResponse
    monkeypatch.setattr(
        replica_reports, "AssignReplicasToDirsResponse", lambda error, results=(): honest(error, results[1:])
    )
    failing = [SimulatedFault(5_000, "directory-error", 1, 4_000, 0)]
    assert observe(log_directories=2, partitions=2, faults=failing).failed_property == "P-76"


def test_a_stopped_broker_whose_log_grows_breaks_p_77() -> None:
    def lie(cluster: SimulatedCluster, step: EventStep) -> bool:
        node = cluster.machines[step.node_id].node
        if not isinstance(node, CombinedNode) or not node.broker_has_ended:
            return False
        broker = known_to_rest.get(step.node_id)
        known_to_rest[step.node_id] = cluster.now_us
        if broker is None or broker == cluster.now_us:
            return False
        for replica in node.broker.state.replicas.values():
            replica.log.truncations += 1
        return True

    known_to_rest: dict[int, int] = {}
    nodes = {"combined": True, "controllers": 3, "brokers": 3, "duration_ms": 40_000}
    assert observe(Plant(lie), faults=RESTARTS, **nodes).failed_property == "P-77"


def test_a_leader_that_asks_again_for_what_it_was_granted_breaks_p_22(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = InsyncReplicaRules.after_answer

    def after_answer(rules: Any, error: int | None) -> AfterAnswer:
        return AfterAnswer.RETRY if error == 0 else honest(rules, error)

    monkeypatch.setattr(InsyncReplicaRules, "after_answer", after_answer)
    unseen = [SimulatedFault(4_900, "late-metadata", number, 8_000, 0) for number in range(3)]
    assert observe(faults=[*unseen, SimulatedFault(5_000, "kill", 1, 6_000, 0)]).failed_property == "P-22"


@pytest.mark.parametrize(("watches", "breaks"), [(True, None), (False, "P-22")])
def test_a_leader_that_looks_for_laggards_and_asks_for_no_isr_without_them_breaks_p_22(
    monkeypatch: pytest.MonkeyPatch, watches: bool, breaks: str | None
) -> None:
    monkeypatch.setattr(InsyncReplicaRules, "is_watched", lambda _rules, appended_since: watches)
    assert observe(faults=[SimulatedFault(5_000, "pause", 1, 5_000, 0)]).failed_property == breaks


def test_a_reassignment_that_waits_for_more_replicas_breaks_p_78(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ReassignmentRules.is_complete

    def is_complete(rules: Any, moved: Any, isr: tuple[int, ...], min_isr: int) -> bool:
        return honest(rules, moved, isr, min_isr) and set(moved.target) <= set(isr) and len(isr) > 3

    monkeypatch.setattr(ReassignmentRules, "is_complete", is_complete)
    assert observe(brokers=4, replication_factor=3, faults=MOVES).failed_property == "P-78"


@pytest.mark.parametrize(
    ("isr", "offline", "breaks"),
    [((1, 2), (), None), ((1, 2, 3), (), None), ((1,), (), "P-23"), ((1,), (2,), None), ((), (), "P-23")],
)
def test_the_beginning_of_a_reassignment_takes_nobody_out_of_the_isr(
    knowledge: Knowledge, isr: tuple[int, ...], offline: tuple[int, ...], breaks: str | None
) -> None:
    old = PartitionState((1, 2), (1, 2), 1, 4, 9)
    new = old._replace(replicas=(1, 2, 3), adding=(3,), isr=isr, offline=offline)
    assert broken_by(lambda: _check_reassignment(knowledge, Ghost("log", 0), old, new)) == breaks


@pytest.mark.parametrize(
    ("replicas", "isr", "breaks"),
    [
        ((2, 3, 4), (2, 3, 4), None),
        ((2, 3, 4), (2, 3), "P-23"),
        ((2, 3), (2, 3), None),  # the broker that is not there yet is given up
    ],
)
def test_a_reassignment_ends_with_all_in_sync_that_it_added(
    knowledge: Knowledge, replicas: tuple[int, ...], isr: tuple[int, ...], breaks: str | None
) -> None:
    old = PartitionState((1, 2, 3, 4), (1, 2, 3), 1, 4, 9, adding=(3, 4), removing=(1,))
    new = old._replace(replicas=replicas, adding=(), removing=(), isr=isr)
    assert broken_by(lambda: _check_reassignment(knowledge, Ghost("log", 0), old, new)) == breaks


def test_a_follower_that_repeats_an_epoch_of_its_fetch_session_breaks_p_45(monkeypatch: pytest.MonkeyPatch) -> None:
    def advance(session: Any, session_id: int) -> None:
        session.session_id, session.epoch = session_id, max(session.epoch, 1)

    monkeypatch.setattr(replication, "_advance", advance)
    assert observe().failed_property == "P-45"


def test_a_full_fetch_that_is_answered_in_part_breaks_p_45(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = fetch_sessions.answer

    def answer(fetch: Any, parts: Iterable[FetchedPartition]) -> tuple[FetchedPartition, ...]:
        found: tuple[FetchedPartition, ...] = honest(fetch, parts)
        return found if fetch.incremental else found[1:]

    monkeypatch.setattr(fetch_sessions, "answer", answer)
    assert observe(partitions=2).failed_property == "P-45"


def test_records_that_are_not_deleted_for_a_reason_that_is_none_break_p_a1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "may_delete_records", lambda *_topic: False)
    asked = [SimulatedFault(4_000 + 1_000 * number, "deleted-records", 0, 100, number) for number in range(5)]
    assert observe(faults=asked).failed_property == "P-A1"


def test_a_compaction_with_too_little_memory_breaks_v_28(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = compaction.Cleaning
    monkeypatch.setattr(compaction, "Cleaning", lambda *given: honest(*given[:-1], 1))
    assert dict(KEYED_CONFIGS)["cleanup.policy"] == "compact"
    assert observe(compacted=True, operations=100).failed_property == "V-28"


def test_a_compaction_that_takes_a_whole_log_for_damaged_breaks_v_28(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction.Cleaning, "step", lambda _cleaning: compaction.Progress.DAMAGED)
    found = observe(compacted=True, operations=100)
    assert (found.failed_property, "takes a log for damaged" in str(found.failure)) == ("V-28", True)


# --- the quorum (P-R1, P-R4, P-R5, P-79) ------------------------------------------------------------------------------


def test_a_leader_that_leads_again_after_a_restart_breaks_p_r1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QuorumRules, "may_act_in_stored_epoch", lambda _rules, was_leader: True)
    assert observe(faults=[SimulatedFault(5_000, "kill", 4, 60, 0)]).failed_property == "P-R1"


@pytest.mark.parametrize(
    ("led", "pre_vote", "granted", "breaks"),
    [(100, False, True, "P-R5"), (100, False, False, None), (100, True, True, None), (101, False, True, None)],
)
def test_a_voter_votes_for_nobody_in_an_epoch_that_it_has_led(
    knowledge: Knowledge, led: int, pre_vote: bool, granted: bool, breaks: str | None
) -> None:
    knowledge.leaders[7] = led
    event = RequestReceived(5, 1, VoteRequest("cluster", 100, 102, 7, 0, 0, pre_vote))
    answer = Reply(5, VoteResponse(0, vote_granted=granted))
    assert broken_by(lambda: answered(knowledge, VoterMirror(100), event, [answer])) == breaks


@pytest.mark.parametrize(("role", "breaks"), [(QuorumRole.LEADER, "P-R5"), (QuorumRole.RESIGNED, None)])
def test_a_leader_tells_nobody_that_it_would_vote_for_it(
    knowledge: Knowledge, role: QuorumRole, breaks: str | None
) -> None:
    knowledge.leaders[7] = 100
    voter = VoterMirror(100)
    voter.before = Standing(7, role, -1, -1, hears=False)
    event = RequestReceived(5, 1, VoteRequest("cluster", 100, 102, 7, 0, 0, pre_vote=True))
    answer = Reply(5, VoteResponse(0, vote_granted=True))
    assert broken_by(lambda: answered(knowledge, voter, event, [answer])) == breaks


@pytest.mark.parametrize(
    ("response", "breaks"),
    [
        (VoteResponse(0, -1, 8), "P-R4"),
        (BeginQuorumEpochResponse(0, 102, 8), "P-R4"),
        (VoteResponse(0, -1, 7), None),
        (FetchResponse(()), None),
    ],
)
def test_a_voter_that_learns_of_a_newer_epoch_from_an_answer_adopts_it(
    response: AnyResponse, breaks: str | None
) -> None:
    quorum = cast("Quorum", SimpleNamespace(epoch=7))
    assert broken_by(lambda: adopted(VoterMirror(100), quorum, ResponseReceived(5, response))) == breaks


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (VoteRequest("", 100, 102, 7, 0, 0), VoteResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)),
        (BeginQuorumEpochRequest("", 100, 102, 7), BeginQuorumEpochResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)),
        (EndQuorumEpochRequest("", 102, 7, ()), EndQuorumEpochResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)),
    ],
)
def test_a_voter_takes_none_of_its_own_cluster_for_a_stranger(request_: Any, answer: Any) -> None:
    quorum = cast("Quorum", SimpleNamespace(settings=SimpleNamespace(cluster_id="own")))

    def breaks(asking: str, response: AnyResponse) -> str | None:
        event = RequestReceived(5, 1, request_._replace(cluster_id=asking))
        return broken_by(lambda: recognized(VoterMirror(100), quorum, event, [Reply(5, response)]))

    assert breaks("own", answer) == "P-R4"
    assert breaks("other", answer) is None
    assert breaks("own", answer._replace(error_code=ErrorCode.NONE)) is None


@pytest.mark.parametrize(
    ("topic", "diverging", "moved_to", "breaks"),
    [
        ("__cluster_metadata", (3, 8), 9, "P-R4"),
        ("__cluster_metadata", (3, 8), 7, None),
        ("__cluster_metadata", None, 9, None),
        ("log", (3, 8), 9, None),
    ],
)
def test_an_answer_that_tells_where_logs_differ_moves_no_voters_high_watermark(
    topic: str, diverging: tuple[int, int] | None, moved_to: int, breaks: str | None
) -> None:
    voter = VoterMirror(100)
    voter.before = Standing(7, QuorumRole.FOLLOWER, 101, -1, hears=True, high_watermark=7)
    quorum = cast("Quorum", SimpleNamespace(epoch=7, leads=False, high_watermark=moved_to))
    answer = FetchResponse((FetchedPartition(topic, 0, ErrorCode.NONE, diverging_epoch=diverging),))
    assert broken_by(lambda: adopted(voter, quorum, ResponseReceived(5, answer))) == breaks


def test_a_voter_that_does_not_write_down_its_epoch_breaks_p_79(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Quorum.persist
    monkeypatch.setattr(Quorum, "persist", lambda quorum: None if quorum.role is UNATTACHED else honest(quorum))
    faults = [SimulatedFault(5_000, "kill", 3, 6_000, 0), SimulatedFault(13_000, "kill", 4, 6_000, 0)]
    assert "P-79" in {observe(seed=seed, faults=faults).failed_property for seed in range(1, 4)}


def test_a_voter_that_keeps_its_snapshots_breaks_p_r4(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = snapshots._write

    def write(stored: Any, snapshot_id: tuple[int, int], data: bytes) -> None:
        directory = stored.log.directory
        names = [snapshots.file_name(directory, one) for one in snapshots.find(stored.files, directory)]
        kept = {name: stored.files.read(name, 0, 1 << 20) for name in names}
        honest(stored, snapshot_id, data)
        for name, content in kept.items():
            stored.files.replace(name, content)

    monkeypatch.setattr(snapshots, "_write", write)
    changes = [SimulatedFault(3_000 + 500 * number, "reassignment", 0, 400, number) for number in range(30)]
    found = observe(brokers=4, metadata_snapshot_records=20, faults=changes, duration_ms=40_000)
    assert (found.failed_property, "keeps the older ones" in str(found.failure)) == ("P-R4", True)
