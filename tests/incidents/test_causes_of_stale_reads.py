"""A reader that missed an acknowledged write: who led, what was committed, and which faults kept others from it."""

import json

import pytest

from incidents import diagnose
from tests.incidents.stored import S, fault, follows, leads, lost, run_in

EARLY = "Broker 1 acknowledged offset 15 of t-0 at 10.000 s, and at 11.000 s its high watermark was still 12"
HIT = "Broker 2, in the ISR [1, 2] last seen before, was killed at 9.500 s (fault #4): it may not have had the write."
HAD_TO = (
    "Broker 1, the leader when the write was acknowledged, was killed at 10.500 s (fault #4): another broker had to"
)
CHANGING = "the leadership of the partition was changing at the time"


def missed(*, at_s=12, asked_s=None, status="ok", because="", within_contract=False):
    """A read that missed at `at_s` what broker 1 had acknowledged at 10 s, at offset 15."""
    witness = {"offset": 15, "node": 1, "completed_ns": 10 * S, "status": status}
    operation = {} if asked_s is None else {"operation": {"invoked_ns": int(asked_s * S)}}
    evidence = json.dumps({"witness": witness, "stale_because": because, **operation})
    return lost(12, at_s, anomaly="stale-read", broker=1, evidence=evidence, within_contract=within_contract)


def cause_of(directory, row, cluster, *faults):
    (incident,) = diagnose(run_in(directory, cluster=cluster, anomalies=[row], faults=faults))
    return incident.causes[0]


@pytest.mark.parametrize(("high_watermark", "told"), [(12, True), (15, True), (16, False)])
def test_a_high_watermark_that_is_not_beyond_the_write_shows_that_it_was_acknowledged_early(
    tmp_path, high_watermark, told
):
    cluster = [leads(at, 1, 4, 20, (1, 2), high_watermark) for at in (9, 11, 13)]
    cause = cause_of(tmp_path, missed(), cluster)
    assert cause.kind == "acknowledged-early"
    assert any(line.startswith(EARLY.replace("still 12", f"still {high_watermark}")) for line in cause.evidence) == told


@pytest.mark.parametrize(
    ("hit", "named"),
    [
        (fault(4, "kill", [2], 9.5, 20), True),
        (fault(4, "kill", [3], 9.5, 20), False),  # no member of the ISR
        (fault(4, "kill", [2], 8, 9.8), False),  # it was over
        (fault(4, "kill", [2], 10.5, 20), False),  # it came later
        (fault(4, "kill", [1], 9.5, 20), False),  # the leader itself
    ],
)
def test_the_fault_that_kept_a_member_of_the_isr_from_an_early_acknowledgement_is_named(tmp_path, hit, named):
    cluster = [leads(at, 1, 4, 20, (1, 2), 12) for at in (9, 11, 13)]
    cause = cause_of(tmp_path, missed(), cluster, hit)
    assert (HIT in cause.evidence, cause.faults) == ((True, (4,)) if named else (False, ()))


@pytest.mark.parametrize(("asked_s", "kinds"), [(10.5, {"acknowledged-early"}), (11.5, {"stale-leader", "new-leader"})])
def test_a_sample_after_a_read_has_begun_shows_who_led_then(tmp_path, asked_s, kinds):
    """Broker 1 was last seen at 11 s; broker 2 leads from 17 s on."""
    cluster = [leads(9, 1, 4, 20, (1, 2), 12), leads(11, 1, 4, 20, (1, 2), 12), leads(17, 2, 5, 20, (2,))]
    (incident,) = diagnose(run_in(tmp_path, cluster=cluster, anomalies=[missed(asked_s=asked_s)]))
    assert {cause.kind for cause in incident.causes} == kinds


@pytest.mark.parametrize(("started_s", "held_s", "named"), [(8, 8.5, (4,)), (11.4, 11.9, ()), (11.8, None, ())])
def test_a_fault_that_took_hold_when_the_new_leader_led_already_is_not_behind_its_answer(
    tmp_path, started_s, held_s, named
):
    """Broker 2 leads from 11.5 s on, and answers at 12 s."""
    cluster = [leads(9, 1, 4, 20, (1, 2)), leads(11.5, 2, 5, 20, (2,)), leads(13, 2, 5, 20, (2,))]
    held = {} if held_s is None else {"held_ns": int(held_s * S)}
    row = {**missed(because="the leader was new"), "broker": 2}
    cause = cause_of(tmp_path, row, cluster, fault(4, "isolate", [1], started_s, 20, **held))
    assert (cause.kind, cause.faults) == ("new-leader", named)


@pytest.mark.parametrize(
    ("kind", "until_s", "told"), [("kill", 18, True), ("kill", 11, False), ("slow-network", 18, False)]
)
def test_a_fault_that_kept_the_leader_from_leading_on_made_another_one_lead(tmp_path, kind, until_s, told):
    """The answer came at 15 s."""
    cluster = [leads(9, 1, 0, 20, (1, 2)), leads(20, 2, 1, 20, (2,))]
    row = missed(at_s=15, because=CHANGING, within_contract=True)
    cause = cause_of(tmp_path, row, cluster, fault(4, kind, [1], 10.5, until_s))
    assert cause.kind == "leader-change"
    assert any(line.startswith(HAD_TO) for line in cause.evidence) == told
    assert "Broker 1 acknowledged the write at 10.000 s." in cause.evidence


@pytest.mark.parametrize(
    ("kind", "until_s", "told"), [("isolate", 18, True), ("isolate", 14, False), ("kill", 18, False)]
)
def test_a_leader_that_answered_while_it_was_cut_off_may_have_been_unable_to_commit(tmp_path, kind, until_s, told):
    """Broker 2 answers at 15 s, and leads by 20 s."""
    cluster = [leads(9, 1, 0, 20, (1, 2)), leads(20, 2, 1, 20, (2,))]
    row = {**missed(at_s=15, because=CHANGING, within_contract=True), "broker": 2}
    cause = cause_of(tmp_path, row, cluster, fault(4, kind, [2], 11, until_s))
    alone = "Broker 2, which answered, was cut off at 11.000 s (fault #4): without followers it may have been unable to"
    assert any(line.startswith(alone) for line in cause.evidence) == told


def test_an_end_that_was_below_an_earlier_one_is_not_told_as_a_write_that_was_missed(tmp_path):
    """The same incident as stale reads: it is told by these, whichever comes first in the table."""
    cluster = [leads(9, 1, 0, 20, (1, 2)), leads(20, 2, 1, 20, (2,))]
    read = missed(at_s=15, because=CHANGING, within_contract=True)
    end = {**missed(at_s=14, because=CHANGING, within_contract=True), "anomaly": "end-offset-regression"}
    acknowledged = "Broker 1 acknowledged the write at 10.000 s."
    assert acknowledged not in cause_of(tmp_path / "end", end, cluster).evidence
    both = run_in(tmp_path / "both", cluster=cluster, anomalies=[end, read])
    assert all(acknowledged in incident.causes[0].evidence for incident in diagnose(both))


@pytest.mark.parametrize(
    ("started_s", "held", "told"),
    [
        (9.9, {"held_ns": int(10.2 * S)}, True),
        (9.9, {"held_ns": int(9.95 * S)}, False),
        (9.9, {}, True),
        (8, {}, False),
    ],
)
def test_a_broker_that_acknowledged_while_a_fault_took_hold_was_not_ended_yet(tmp_path, started_s, held, told):
    cluster = [leads(7, 1, 0, 20, (1, 2)), leads(20, 2, 1, 20, (2,))]
    row = missed(at_s=15, because=CHANGING, within_contract=True)
    cause = cause_of(tmp_path, row, cluster, fault(4, "page-cache-loss", [1], started_s, 18, **held))
    meanwhile = "Broker 1 acknowledged the write at 10.000 s, while fault #4 took hold."
    assert (meanwhile in cause.evidence) == told


@pytest.mark.parametrize(("second", "incidents"), [(2, 1), (None, 2)])
def test_what_several_leaders_acknowledged_too_early_is_one_incident(tmp_path, second, incidents):
    """Broker 1 leads partition 0, broker 2 partition 1. Where no leader of that is sampled, nothing shows it."""
    cluster = [leads(at, 1, 4, 20, (1, 3), 12) for at in (9, 11, 13)]
    cluster += [leads(at, 2, 4, 20, (2, 3), 12, partition=1) for at in (9, 11, 13) if second]
    witness = {"offset": 15, "node": 2, "completed_ns": 10 * S}
    other = lost(12, 12, 1, anomaly="stale-read", broker=2, evidence=json.dumps({"witness": witness}))
    faults = [fault(4, "kill", [3], 9.5, 20)]
    found = diagnose(run_in(tmp_path, cluster=cluster, anomalies=[missed(), other], faults=faults))
    assert len(found) == incidents
    if second:
        assert "brokers 1 and 2 acknowledged writes before they were committed" in found[0].headline
        assert (found[0].anomalies["stale-read"], found[0].cause.faults) == ((2, 0), (4,))


def test_records_that_were_shown_too_early_and_lost_are_of_the_mistake_of_who_showed_them(tmp_path):
    """Broker 1 shows offset 15, and is killed; broker 2 is elected without it, and shows offset 30 of partition 1."""
    cluster = [leads(9.8, 1, 4, 20, (1, 2), 12), follows(10.5, 2, 1, 4, 15), leads(11.5, 2, 5, 15, (2,))]
    cluster += [leads(at, 2, 4, 40, (2, 3), 25, partition=1) for at in (9, 33)]
    sampled = json.dumps({"sampled_ns": 31 * S, "sampled_high_watermark": 26})
    rows = [
        lost(15, 10, anomaly="lost-read"),
        lost(30, 30, 1, anomaly="dirty-read", broker=2, evidence=sampled),
        lost(31, 30, 1, anomaly="dirty-read", broker=2),
    ]
    faults = [fault(4, "kill", [1], 11, 20), fault(5, "isolate", [3], 29, 32)]
    (incident,) = diagnose(run_in(tmp_path, cluster=cluster, anomalies=rows, faults=faults))
    assert incident.cause.sentence.startswith(
        "broker 1 showed them to readers above its high watermark; broker 1 was killed at 11.000 s (fault #4), and"
    )
    assert set(incident.anomalies) == {"lost-read", "dirty-read"}
    evidence = " ".join(incident.cause.evidence)
    for told in (
        "Broker 2 was first seen to lead t-0 in leader epoch 5 at 11.500 s",
        "Broker 2 showed a reader offset 30 of t-1 by 30.000 s, and at 31.000 s its high watermark was still 26,",
        "Broker 3, in the ISR [2, 3] last seen before, was cut off at 29.000 s (fault #5): it may not have had",
    ):
        assert told in evidence
    assert incident.cause.faults == (4,)  # what it was lost by
