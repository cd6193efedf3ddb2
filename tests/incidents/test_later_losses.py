"""How records were lost after a simulated failure's first violation is told where the history shows it, else not."""

import pytest

from incidents import diagnose
from tests.incidents.stored import S, fault, follows, leads, run_in

FIRST = "log-1: broker 4 cut its log from 3 to 2, and what was at 2 is committed: 2…2 of epoch 0"
MISSED = "value 12 was acknowledged at offset 7 of partition 0, and the final reads do not show it (the first of 3: offsets 7 to 9 of partition 0)"  # fmt: skip  # noqa: E501
FINDINGS = [
    {"layer": "invariant", "property_id": "P-6", "what": FIRST},
    {"layer": "history", "property_id": "lost-acked-write", "what": MISSED},
]
STORY = [{"at_us": 3_000_000, "node_id": 0, "text": f"VIOLATION of P-6: {FIRST}", "source": None}]
CLUSTER = [
    *(leads(2, 1, 0, 10, (1, 2, 3)), follows(4.05, 2, 1, 0, 10), follows(4.3, 2, 3, 1, 7)),
    leads(6.8, 2, 2, 7, (2,)),
]
FAULTS = [
    fault(6, "moved-leader", [], 4.2, 4.201),
    fault(7, "kill", [1], 5, 9),
    fault(8, "kill", [1], 20, 21),
]
SEND = {"op": 14, "topic": "log", "partition": 0, "value": 12, "offset": 7}
DONE = {"op": 14, "process": 2, "kind": "send", "status": "ok", "node": 1, "completed_ns": 4 * S}


def cause_in(directory, *, send=None, done=None, cluster=CLUSTER, findings=FINDINGS, faults=FAULTS, more=()):
    run = run_in(
        directory,
        findings=findings,
        story=STORY,
        cluster=[{**row, "topic": "log"} for row in cluster],
        faults=faults,
        sends=[{**SEND, **(send or {})}, *({**SEND, "op": op, "value": value} for op, value, _ in more)],
        operations=[{**DONE, **(done or {})}, *({**DONE, "op": op, "completed_ns": at_ns} for op, _, at_ns in more)],
    )
    (incident,) = diagnose(run)
    return incident.cause


def test_a_loss_after_the_first_violation_is_told_with_its_leader_and_the_faults_before_that_election(tmp_path):
    cause = cause_in(tmp_path)
    assert cause.evidence[-1] == (
        "In the end log-0 lost 1 record, acknowledged by 4.000 s: broker 2 cut them off its log between 4.050 s and"
        " 4.300 s, and was then elected. Broker 2 had begun to follow broker 3 by 4.300 s, in leader epoch 1. Broker 1"
        " had led before that; leaders were elected in quick succession at 4.200 s (fault #6): another broker had to"
        " lead. Broker 1, which held them, was killed at 5.000 s (fault #7), before that election."
    )
    assert {6, 7} <= {*cause.faults}
    assert 8 not in cause.faults
    assert "log-1" in cause.sentence  # which stays that of the first violation


@pytest.mark.parametrize(
    "changed",
    [
        {"send": {"value": 13}},
        {"done": {"status": "info"}},
        {"cluster": CLUSTER[:1]},
        {"findings": [FINDINGS[0], {**FINDINGS[1], "property_id": "inconsistent-offset"}]},
    ],
    ids=["no such write", "not acknowledged", "no sample shows who lacked it", "no loss"],
)
def test_what_the_history_does_not_show_is_not_told(tmp_path, changed):
    assert not any(line.startswith("In the end") for line in cause_in(tmp_path, **changed).evidence)


def test_records_that_were_written_and_lost_at_the_same_offsets_later_are_told_apart(tmp_path):
    later = [leads(10, 2, 2, 10, (2, 3)), follows(10, 3, 2, 2, 10), follows(13, 3, 1, 3, 7), leads(15, 3, 4, 7, (3,))]
    evidence = cause_in(tmp_path, cluster=[*CLUSTER, *later], more=[(15, 29, 11 * S)]).evidence
    told = [line for line in evidence if line.startswith("In the end log-0 lost 1 record, acknowledged by ")]
    assert ["broker 2 cut" in line for line in told] == [True, False]
    assert told[1].partition("acknowledged by ")[2].startswith("11.000 s: broker 3 cut them off its log between 10.000")


@pytest.mark.parametrize(
    ("kind", "later", "named"),
    [
        ("page-cache-loss", [follows(6.4, 3, -1, 1, 10)], False),
        ("page-cache-loss", [], True),
        ("late-connection", [follows(6.4, 3, -1, 1, 10)], False),
    ],
    ids=["it lost others", "it may have lost these", "it was only slowed"],
)
def test_a_fault_that_kept_no_holder_from_leading_is_not_told_as_one_that_did(tmp_path, kind, later, named):
    faults = [*FAULTS, fault(9, "kill", [3], 4.9, 6.5), fault(10, kind, [3], 6, 6.5)]
    cluster = sorted([*CLUSTER, follows(4.02, 3, 1, 0, 10), *later], key=lambda row: row["at_ns"])
    (told,) = (line for line in cause_in(tmp_path, cluster=cluster, faults=faults).evidence if "In the end" in line)
    assert ("(fault #10)" in told) is named
    assert ("Broker 3, which held them, was killed at 4.900 s (fault #9)" in told) is not named
