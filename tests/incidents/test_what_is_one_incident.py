"""What has one cause is one incident, where real runs with planted flaws had shown several; what has not is not."""

import json

import pytest

from incidents import diagnose
from tests.incidents.stored import S, fault, follows, leads, lost, run_in

BACK_AGAIN = [
    leads(9, 1, 0, 20, (1, 2)),
    leads(12, 1, 0, 40, (1, 2)),
    leads(20, 3, 1, 24, (3,)),
    leads(30, 3, 1, 50, (3,)),
]
"""Broker 3 was outside, leads without what came after its log, and has something else at the places from 20 on."""


@pytest.mark.parametrize(("cut_to", "incidents"), [(20, 1), (24, 2)])
def test_records_at_whose_places_the_next_leader_had_others_went_with_those_that_it_lacked(tmp_path, cut_to, incidents):
    cluster = [*BACK_AGAIN[:3], follows(22, 1, 3, 1, cut_to), BACK_AGAIN[3]]
    rows = [lost(offset, 11, broker=1) for offset in (21, 22, 28)]
    assert len(diagnose(run_in(tmp_path, cluster=cluster, anomalies=rows))) == incidents


@pytest.mark.parametrize(("by", "incidents"), [((1, 1), 1), ((1, 2), 2)])
def test_what_two_brokers_acknowledged_too_early_is_two_mistakes(tmp_path, by, incidents):
    """No sample shows a leader without the records."""
    rows = [lost(offset, 11, broker=broker) for offset, broker in zip((21, 30), by, strict=True)]
    rows += [lost(21, 11, anomaly="lost-read")]
    found = diagnose(run_in(tmp_path, cluster=[leads(9, 1, 0, 20, (1, 2))], anomalies=rows))
    assert len(found) == incidents
    assert max(incident.anomalies.get("lost-read", (0, 0)) for incident in found) == (1, 0)


@pytest.mark.parametrize(("other", "told"), [(2, "broker 2"), (3, "brokers 2 and 3")])
def test_of_what_one_leader_acknowledged_all_are_named_that_were_elected_without_it(tmp_path, other, told):
    """Broker 1 leads two partitions and is cut off; broker 2 leads the first then, and broker 2 or 3 the second."""
    cluster = [leads(9, 1, 0, 20, (1, 2, 3), partition=place) for place in (0, 1)]
    cluster += [follows(10.5, 2, 1, 0, 12), leads(15, 2, 1, 12, (2, 3))]
    cluster += [follows(10.5, other, 1, 0, 12, partition=1), leads(15.5, other, 1, 12, (2, 3), partition=1)]
    rows = [lost(15, 10, place, broker=1) for place in (0, 1)]
    faults = [fault(4, "isolate", [1], 11, 20)]
    (incident,) = diagnose(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=rows))
    assert incident.cause.sentence.startswith(
        f"they were acknowledged by broker 1 before {told} had them; broker 1 was"
    )
    last = "15.000" if other == 2 else "15.500"
    assert incident.cause.sentence.endswith(f"and {told} {'was' if other == 2 else 'were'} elected by {last} s")


def shown(offset, at_s, partition):
    return lost(offset, at_s, partition, anomaly="lost-read")


@pytest.mark.parametrize(
    ("second", "told"),
    [(1, "broker 1 showed them to readers above its high watermark; broker"), (2, "brokers 1 and 2 showed readers")],
)
def test_of_several_leaders_that_showed_too_much_none_is_named_for_all(tmp_path, second, told):
    """Broker 1 leads partition 0, and broker 1 or 2 partition 1; broker 3 is elected without what these showed."""
    cluster = [leads(9.8, 1, 4, 20, (1, 3), 12), follows(10.5, 3, 1, 4, 15), leads(11.5, 3, 5, 15, (3,))]
    cluster += [
        leads(9.8, second, 4, 20, (second, 3), 12, partition=1),
        follows(10.5, 3, second, 4, 15, partition=1),
        leads(21.5, 3, 5, 15, (3,), partition=1),
    ]
    faults = [fault(4, "isolate", [1], 10.9, 13), fault(5, "isolate", [second], 20.9, 23)]
    run = run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[shown(15, 10, 0), shown(15, 10, 1)])
    (incident,) = diagnose(run)
    assert incident.cause.sentence.startswith(told)
    assert incident.cause.faults == (4, 5)
    assert incident.election is not None
    assert not incident.election.is_only
    assert "elections" not in incident.headline


@pytest.mark.parametrize(("acknowledged_at", "incidents"), [(40, 1), (15, 2)])
def test_two_values_of_an_offset_are_of_the_loss_if_one_of_them_was_only_read_there(
    tmp_path, acknowledged_at, incidents
):
    """Broker 1 showed offset 15 to readers; broker 2 led from 11.5 s on, and both values were acknowledged later."""
    cluster = [leads(9.8, 1, 4, 20, (1, 2), 12), follows(10.5, 2, 1, 4, 15), leads(11.5, 2, 5, 15, (2,))]
    entries = [
        {"value": 1, "known_ns": 13 * S, "status": "ok", "acknowledged_offset": acknowledged_at},
        {"value": 2, "known_ns": 14 * S, "status": "ok", "acknowledged_offset": 15},
    ]
    both = lost(15, 14, anomaly="inconsistent-offset", broker=2, evidence=json.dumps({"entries": entries}))
    assert len(diagnose(run_in(tmp_path, cluster=cluster, anomalies=[shown(15, 10, 0), both]))) == incidents


@pytest.mark.parametrize(("status", "incidents"), [("info", 1), ("ok", 2)])
def test_a_read_that_missed_what_was_only_shown_is_of_the_mistake_of_who_showed_it(tmp_path, status, incidents):
    """Broker 1 shows offset 15 after broker 2 has begun to lead without it; acknowledged then, it is a mistake more."""
    cluster = [leads(9.8, 1, 4, 20, (1, 2), 12), follows(10.5, 2, 1, 4, 15), leads(11.5, 2, 5, 15, (2,))]
    witness = {"offset": 15, "node": 1, "completed_ns": 12 * S, "status": status}
    missed = lost(15, 13, anomaly="stale-read", broker=2, evidence=json.dumps({"witness": witness}))
    assert len(diagnose(run_in(tmp_path, cluster=cluster, anomalies=[shown(15, 10, 0), missed]))) == incidents


@pytest.mark.parametrize(("kind", "incidents"), [("page-cache-loss", 1), ("pause", 2)])
def test_a_leader_that_has_lost_its_log_had_not_acknowledged_early(tmp_path, kind, incidents):
    """Broker 1 leads on in its epoch; readers miss what it had acknowledged before the fault."""
    cluster = [leads(9, 1, 0, 20, (1, 2)), leads(14, 1, 0, 0, (1, 2)), leads(30, 1, 0, 9, (1, 2))]
    witness = {"offset": 15, "node": 1, "completed_ns": 10 * S, "status": "ok"}
    asked = {"invoked_ns": 14 * S}
    evidence = json.dumps({"witness": witness, "operation": asked})
    missed = lost(0, 14.5, anomaly="stale-read", broker=1, evidence=evidence)
    faults = [fault(3, kind, [1], 11, 13)]
    found = diagnose(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10, broker=1), missed]))
    assert len(found) == incidents
