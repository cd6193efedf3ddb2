"""Findings in final logs and clients' histories, on small histories made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from broker.core.broker_node.requests.deletion import FORGOTTEN
from broker.core.controller.changes import UNCLEAN
from broker.core.controller.recovery import LAST_LEADER
from broker.core.ports.marks import Mark
from broker.core.records import encode_batch
from simulation.invariants.knowledge import LAST_REPLICA_LOST
from simulation.invariants.observer import property_observers
from simulation.invariants.properties import is_documented
from simulation.runs.failures import Layer, findings, history_findings, log_findings
from simulation.scenario.case import Case, run
from simulation.scenario.configuration import Configuration, SimulatedFault
from simulation.scenario.phases import CRASH, SimulationOutcome
from simulation.workload import tables
from simulation.workload.recording import (
    CommitRow,
    OperationRow,
    OwnershipRow,
    ReadRow,
    SendRow,
    SimulatedHistory,
)
from simulation.workload.sampling import ReplicaLog
from simulation.workload.side_settings import LOSSES_ACCEPTED
from tests.simulation.small import LIES, quick, without_later_recipes

Send = tuple[int, str, int | None, int, int]
"""Value, status, offset, invoked, completed."""
Read = tuple[str, int, int]
"""Phase, offset, value."""

FINE: Sequence[Send] = ((1, "ok", 0, 10, 20), (2, "ok", 1, 30, 40))


def outcome(
    sends: Sequence[Send], reads: Sequence[Read], configuration: Configuration | None = None
) -> SimulationOutcome:
    history = SimulatedHistory()
    for op, (value, status, offset, invoked, completed) in enumerate(sends, 1):
        history.sends.append(SendRow(op, "log", 0, value, -1, offset, 0))
        end = None if status == "info" else completed
        history.operations.append(OperationRow(op, 1, "send", status, None, 1, "main", invoked, end))
    for op, (phase, offset, value) in enumerate(reads, 1_000):
        history.reads.append(ReadRow(op, "log", 0, offset, 0, value, 0))
        history.operations.append(OperationRow(op, 2, "poll", "ok", None, 1, phase, 90, 99))
    return SimulationOutcome(
        seed=1,
        configuration=configuration or Configuration(),
        faults=(),
        digest="",
        events=0,
        virtual_ms=0,
        failure=None,
        failed_property=None,
        history=history,
        ends={0: 2},
        marks={},
        values={},
        logs={},
        phases={"recovery": (0, 1), "final": (1, 2)},
    )


def found(sends: Sequence[Send], reads: Sequence[Read], configuration: Configuration | None = None) -> list[str]:
    return [finding.property_id for finding in history_findings(outcome(sends, reads, configuration))]


def test_a_history_in_which_all_is_well_shows_nothing() -> None:
    assert found(FINE, [("main", 0, 1), ("final", 0, 1), ("final", 1, 2)]) == []


@pytest.mark.parametrize(
    ("sends", "reads", "anomaly"),
    [
        (FINE, [("final", 0, 1)], "lost-acked-write"),
        ([(1, "info", None, 10, 20)], [("main", 0, 1)], "lost-read"),
        ([(1, "fail", None, 10, 20)], [("final", 0, 1)], "aborted-read"),
        (FINE, [("final", 0, 1), ("final", 1, 2), ("final", 2, 3)], "phantom-read"),
        (FINE, [("final", 0, 1), ("final", 1, 2), ("final", 2, 1)], "duplicate"),
        ([(1, "ok", 5, 10, 20)], [("final", 0, 1)], "wrong-offset"),
        ([(1, "ok", 1, 10, 20), (2, "ok", 0, 30, 40)], [("final", 1, 1), ("final", 0, 2)], "reordered-send"),
    ],
)
def test_each_anomaly_is_found(sends: Sequence[Send], reads: Sequence[Read], anomaly: str) -> None:
    assert found(sends, reads) == [anomaly]


def test_two_values_at_one_offset_are_found() -> None:
    sends = [(1, "info", None, 10, 20), (2, "info", None, 30, 40)]
    assert "inconsistent-offset" in found(sends, [("main", 0, 1), ("final", 0, 2), ("final", 1, 1)])


@pytest.mark.parametrize(
    ("sends", "reads"),
    [
        ([(1, "info", None, 10, 20)], []),
        ([(1, "fail", None, 10, 20)], []),
        ([(1, "ok", None, 10, 20)], [("final", 7, 1)]),
        ([(1, "ok", 1, 10, 35), (2, "ok", 0, 30, 40)], [("final", 1, 1), ("final", 0, 2)]),
    ],
    ids=["unknown-and-gone", "failed-and-gone", "offset-not-known", "concurrent-sends-in-any-order"],
)
def test_near_misses_are_no_anomalies(sends: Sequence[Send], reads: Sequence[Read]) -> None:
    assert found(sends, reads) == []


@pytest.mark.parametrize(
    "changes", [{"unclean_election": True}, {"lossy_budget": 2}, {"unclean_recovery": "Aggressive"}]
)
@pytest.mark.parametrize("reads", [[("final", 0, 1)], [("main", 0, 1), ("final", 0, 2)]], ids=["lost", "reused"])
def test_what_the_contract_allows_is_no_anomaly(changes: dict[str, object], reads: Sequence[Read]) -> None:
    sends = [(1, "ok", None, 10, 20), (2, "ok", None, 30, 40)]
    assert found(sends, reads, replace(Configuration(), **changes)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("generation", "marks", "documented"),
    [
        ("K5", {LAST_LEADER.name: 1, LAST_REPLICA_LOST.name: 1}, False),
        ("K4", {LAST_REPLICA_LOST.name: 1}, False),
        ("K4", {LAST_LEADER.name: 1}, True),
        ("K3", {}, False),
        ("K3", {LAST_REPLICA_LOST.name: 1}, True),
        ("K1", {}, True),
    ],
)
def test_documented_losses_of_a_protocol_version_are_marked(
    generation: str, marks: dict[str, int], documented: bool
) -> None:
    run = outcome(FINE, (("final", 0, 1),), Configuration(generation=generation))
    (lost,) = history_findings(replace(run, marks=marks))
    assert lost.property_id == "lost-acked-write"
    assert is_documented(lost.what) == documented


@pytest.mark.parametrize(
    ("marks", "exempt"),
    [
        ((), False),
        ((UNCLEAN,), False),
        ((LOSSES_ACCEPTED,), False),
        ((LOSSES_ACCEPTED, UNCLEAN), True),
    ],
)
def test_a_loss_needs_an_unclean_election_and_somebody_who_allowed_it(marks: Sequence[Mark], exempt: bool) -> None:
    run = outcome(FINE, (("final", 0, 1),), Configuration(changing_settings=True))
    lost = [] if exempt else ["lost-acked-write"]
    shown = history_findings(replace(run, marks={mark.name: 1 for mark in marks}))
    assert [one.property_id for one in shown] == lost


@pytest.mark.parametrize(
    ("start", "asked", "lost"),
    [(0, 1, ["lost-acked-write"]), (1, 0, ["lost-acked-write"]), (1, 1, [])],
)
def test_what_was_deleted_on_purpose_is_not_lost(start: int, asked: int, lost: list[str]) -> None:
    shown = outcome(FINE, [("final", 1, 2)])
    shown.logs = {(1, 0): ReplicaLog(start, 2, 2, b"")}
    shown.deleted = {0: asked}
    assert [finding.property_id for finding in history_findings(shown)] == lost


@pytest.mark.parametrize(("offset", "lost"), [(0, True), (1, False)])
def test_a_record_whose_place_a_later_write_has_got_was_lost_though_both_are_deleted_by_now(
    offset: int, lost: bool
) -> None:
    shown = outcome([(1, "ok", 0, 10, 20), (2, "ok", offset, 30, 40)], [])
    shown.logs = {(1, 0): ReplicaLog(2, 2, 2, b"")}
    shown.deleted = {0: 2}
    whats = [finding.what for finding in history_findings(shown) if finding.property_id == "lost-acked-write"]
    assert len(whats) == lost
    assert all("value 1 was acknowledged at offset 0" in what and "first of" not in what for what in whats)


@pytest.mark.parametrize(
    ("lifetime_ms", "forgotten", "held_ms", "jumped_ms", "anomalies"),
    [
        (5_000, 1, 0, 0, []),
        (5_000, 0, 0, 0, ["duplicate"]),
        (0, 1, 0, 0, ["duplicate"]),
        (30_000, 1, 5_000, 13_999, ["duplicate"]),
        (30_000, 1, 5_000, 14_000, []),
        (30_000, 1, 12_000, 0, []),
    ],
)
def test_a_second_copy_is_excused_only_where_a_producer_was_forgotten_while_it_may_have_been_sending(
    lifetime_ms: int, forgotten: int, held_ms: int, jumped_ms: int, anomalies: list[str]
) -> None:
    brief = Configuration(producer_expiration_ms=lifetime_ms)
    shown = outcome(FINE, [("final", 0, 1), ("final", 1, 2), ("final", 2, 1)], brief)
    faults = [SimulatedFault(2_000, "stalled-link", 0, held_ms, 0)]
    shown = replace(shown, marks={FORGOTTEN.name: forgotten}, faults=faults, clocks_jumped_ms=jumped_ms)
    assert [finding.property_id for finding in history_findings(shown)] == anomalies
    assert tables._settings(tables.Recorded("id", "name", shown, ()))[11] is bool(anomalies)


def test_one_copy_of_two_may_be_lost_when_one_acknowledgement_is_enough() -> None:
    shown = outcome([(1, "ok", 5, 10, 20)], [("final", 0, 1)])
    assert [finding.property_id for finding in history_findings(shown)] == ["wrong-offset"]
    shown.history.sends = [row._replace(acks=1) for row in shown.history.sends]
    assert history_findings(shown) == []


def test_an_attempt_that_reappears_after_an_allowed_loss_is_at_no_wrong_offset() -> None:
    risky = Configuration(idempotence=True, unclean_recovery="Aggressive")
    assert found([(1, "ok", 5, 10, 20)], [("final", 0, 1)], risky) == []


def test_a_record_that_moved_where_losses_are_allowed_is_no_duplicate_and_one_at_two_offsets_is() -> None:
    risky = Configuration(idempotence=True, unclean_election=True)
    assert found(FINE, [("main", 0, 1), ("final", 1, 2), ("final", 2, 1)], risky) == []
    assert found(FINE, [("final", 0, 1), ("final", 1, 2), ("final", 2, 1)], risky) == ["duplicate"]


def test_a_duplicate_is_legal_without_idempotence() -> None:
    reads = [("final", 0, 1), ("final", 1, 2), ("final", 2, 1)]
    assert found(FINE, reads, Configuration(idempotence=False)) == []


def batch(value: int, epoch: int = 0) -> bytes:
    return encode_batch([(None, value.to_bytes(8, "big"))], base_offset=0, leader_epoch=epoch, timestamp_ms=0)


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        (ReplicaLog(0, 1, 1, batch(1)), ReplicaLog(0, 1, 1, batch(1)), False),
        (ReplicaLog(0, 1, 1, batch(1)), ReplicaLog(0, 1, 1, batch(2)), True),
        (ReplicaLog(0, 1, 1, batch(1)), ReplicaLog(0, 1, 1, batch(1, epoch=2)), True),
        (ReplicaLog(0, 1, 1, batch(1)), ReplicaLog(0, 1, 0, batch(2)), False),
        (ReplicaLog(0, 1, 1, batch(1)), ReplicaLog(0, 0, 0, b""), False),
    ],
    ids=["equal", "value", "epoch", "above-a-high-watermark", "not-there-yet"],
)
def test_logs_are_compared_below_both_high_watermarks(one: ReplicaLog, other: ReplicaLog, differ: bool) -> None:
    judged = replace(outcome(FINE, []), logs={(1, 0): one, (2, 0): other})
    assert [finding.property_id for finding in log_findings(judged)] == ["divergent-replicas"] * differ


@pytest.mark.parametrize(
    ("property_id", "layer"), [("P-12", Layer.INVARIANT), ("V-4", Layer.LIVENESS), (CRASH, Layer.CRASH)]
)
def test_what_ended_a_simulation_is_its_first_finding(property_id: str, layer: Layer) -> None:
    judged = replace(outcome(FINE, []), failed_property=property_id, failure=f"{property_id}: it broke")
    first = findings(judged)[0]
    assert (first.layer, first.property_id, str(first)) == (layer, property_id, f"{property_id}: it broke")


def test_a_false_acknowledgement_is_found_in_the_history_alone() -> None:
    faulty = {"sole_survivor": True, "duration_ms": 30_000, "operations": 100, "faults": ("kill", "isolate")}
    outcomes = [run(quick(seed, **{**LIES, **faulty})) for seed in range(12)]
    names = {finding.property_id for outcome in outcomes for finding in findings(outcome)}
    assert "lost-acked-write" in names


def test_a_correct_build_shows_nothing() -> None:
    assert [finding for seed in range(8) for finding in findings(run(quick(seed)))] == []


Commit = tuple[str, str, int | None, int, int]
"""Kind, status, offset, invoked, completed; a question for the committed offset is one of the final phase."""


def with_commits(*rows: Commit) -> SimulationOutcome:
    result = outcome(FINE, [("final", 0, 1), ("final", 1, 2)])
    for op, (kind, status, offset, invoked, completed) in enumerate(rows, 2_000):
        phase, generation = ("main", 1) if kind == "commit" else ("final", None)
        end = None if status == "info" else completed
        result.history.operations.append(OperationRow(op, 3, kind, status, None, 1, phase, invoked, end))
        result.history.commits.append(CommitRow(op, "readers", "log", 0, offset, "m", generation, 0))
    return result


@pytest.mark.parametrize(
    ("rows", "anomalies"),
    [
        ([("commit", "ok", 5, 10, 20), ("committed", "ok", 5, 30, 40)], []),
        ([("commit", "ok", 5, 10, 20), ("committed", "ok", None, 30, 40)], ["lost-commit"]),
        ([("commit", "ok", 5, 10, 20), ("commit", "ok", 7, 22, 25), ("committed", "ok", 5, 30, 40)], ["lost-commit"]),
        ([("commit", "info", 5, 10, 20), ("commit", "ok", 7, 22, 25), ("committed", "ok", 5, 30, 40)], []),
        ([("commit", "fail", 5, 23, 24), ("commit", "ok", 7, 22, 25), ("committed", "ok", 5, 30, 40)], ["lost-commit"]),
        ([("commit", "ok", 5, 10, 24), ("commit", "ok", 7, 22, 25), ("committed", "ok", 5, 30, 40)], []),
        ([("commit", "info", 5, 10, 20), ("committed", "ok", None, 30, 40)], []),
    ],
)
def test_a_commit_that_was_acknowledged_is_the_answer_or_a_later_one(
    rows: Sequence[Commit], anomalies: list[str]
) -> None:
    assert [finding.property_id for finding in history_findings(with_commits(*rows))] == anomalies


@pytest.mark.parametrize(
    ("member", "generation", "since", "anomalies"),
    [("b", 3, 15, ["double-ownership"]), ("b", 3, 20, []), ("b", 4, 15, []), ("a", 3, 15, [])],
)
def test_two_owners_of_a_partition_in_one_generation_are_found(
    member: str, generation: int, since: int, anomalies: list[str]
) -> None:
    result = with_commits()
    result.history.ownerships.append(OwnershipRow("readers", "log", 0, 3, "a", 3, 10, 20, 0))
    result.history.ownerships.append(OwnershipRow("readers", "log", 0, 4, member, generation, since, 30, 0))
    assert [finding.property_id for finding in history_findings(result)] == anomalies


FORGETFUL: dict[str, object] = {"producer_expiration_ms": 1_000, "retention_bytes": 1_500, "segment_bytes": 300}
"""Producers are forgotten, and records deleted, soon."""


@pytest.mark.parametrize(
    ("seed", "settings", "without", "found"),
    [
        # It was appended again after its producer had been forgotten; what is left of the two copies was deleted.
        pytest.param(106, FORGETFUL, {"producer_expiration_ms": 0}, "wrong-offset", id="producers that expire"),
        # Retention by size deletes whole segments, and an operator has asked for larger ones.
        pytest.param(1_700_884, {}, {"changing_settings": False}, "lost-acked-write", id="larger segments"),
    ],
)
def test_what_settings_permit_is_no_finding_and_without_them_it_is(
    seed: int, settings: dict[str, object], without: dict[str, Any], found: str
) -> None:
    outcome = run(Case(seed, {**without_later_recipes(seed), **settings}), property_observers())
    assert findings(outcome) == []
    strict = replace(outcome, configuration=replace(outcome.configuration, **without))
    assert found in {one.property_id for one in findings(strict)}
