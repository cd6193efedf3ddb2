"""A record that is in the log twice is told with who appended it again, and what came between the two."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from incidents import diagnose
from incidents.model import Incident
from tests.incidents.stored import S, fault, follows, leads, lost, run_in

CHANGED = [
    leads(9, 3, 0, 20, (1, 2, 3)),
    follows(11, 1, 3, 0, 23),
    leads(14, 1, 1, 23, (1, 2)),
    leads(16, 1, 1, 26, (1, 2)),
]
KEPT = [leads(9, 1, 0, 20, (1, 2, 3)), leads(14, 1, 0, 23, (1, 2)), leads(16, 1, 0, 26, (1, 2))]


def twice(name: str, places: tuple[int, ...] = (20, 23), **details: object) -> dict:
    """Broker 1 acknowledged, at 15 s and at offset 23, what was sent at 10 s."""
    operation = {"op": 1, "node": 1, "invoked_ns": 10 * S, "completed_ns": 15 * S}
    found = {"duplicate": "offsets", "wrong-offset": "polled_at"}[name]
    evidence = json.dumps({"operation": operation, found: places, "idempotence": True, **details})
    return lost(23, 15, anomaly=name, broker=1, evidence=evidence)


def only(directory: Path) -> Incident:
    (incident,) = diagnose(directory)
    assert incident.cause is not None
    return incident


def test_who_took_a_retry_for_new_is_told_with_the_leader_before_and_its_fault(tmp_path: Path) -> None:
    faults = [fault(1, "isolate", [3], 11, 19), fault(2, "pause", [2], 11, 19)]
    incident = only(run_in(tmp_path, cluster=CHANGED, faults=faults, anomalies=[twice("duplicate")]))
    assert incident.headline.endswith(
        "in the log twice: broker 1 took a retried batch for a new one, which broker 3 had appended when it led."
    )
    assert incident.cause is not None
    assert (incident.cause.kind, incident.cause.node, incident.cause.faults) == ("producer-state", 1, (1,))
    assert incident.cause.evidence == (
        "When it was sent, at 10.000 s, broker 3 led t-0, leader epoch 0.",
        "Broker 3 was cut off at 11.000 s (fault #1), and then broker 1 led.",
        "Broker 1 was first seen as leader at 14.000 s, leader epoch 1, with a log that ended at 23.",
        "Broker 1 acknowledged it at offset 23, at 15.000 s; it is at offset 20, too.",
    )


@pytest.mark.parametrize(("log_end", "had_it"), [(21, True), (20, False)])
def test_who_had_not_got_the_first_copy_took_nothing_for_new(tmp_path: Path, log_end: int, had_it: bool) -> None:
    cluster = [CHANGED[0], leads(14, 1, 1, log_end, (1, 2)), CHANGED[3]]
    incident = only(run_in(tmp_path, cluster=cluster, anomalies=[twice("duplicate")]))
    assert incident.cause is not None
    assert (incident.cause.node == 1 and "took a retried batch" in incident.cause.sentence) is had_it


@pytest.mark.parametrize(("cut_to", "incidents"), [(20, 1), (24, 2)])
def test_what_a_leader_brought_back_is_of_the_loss_that_it_caused(tmp_path: Path, cut_to: int, incidents: int) -> None:
    """Broker 3 is elected again with its old tail, and broker 1 cuts off to follow it: from 20 on, or from 24 on."""
    cluster = [
        leads(9, 3, 0, 20, (1, 2, 3)),
        leads(14, 1, 1, 20, (1, 2)),
        leads(16, 1, 1, 30, (1, 2)),
        leads(20, 3, 2, 26, (3,)),
        follows(22, 1, 3, 2, cut_to),
    ]
    rows = [twice("duplicate"), lost(28, 16.5, broker=1)]
    assert len(diagnose(run_in(tmp_path, cluster=cluster, anomalies=rows))) == incidents


def test_of_one_leader_that_appended_both_nobody_else_is_said_to_have_led(tmp_path: Path) -> None:
    incident = only(run_in(tmp_path, cluster=KEPT, anomalies=[twice("duplicate")]))
    assert incident.cause is not None
    assert incident.cause.sentence == "a retried batch was taken for a new one"


def test_the_wrong_offset_of_a_record_that_is_there_twice_is_no_incident_of_its_own(tmp_path: Path) -> None:
    rows = [twice("duplicate"), twice("wrong-offset")]
    incident = only(run_in(tmp_path, cluster=CHANGED, faults=[fault(1, "isolate", [3], 11, 19)], anomalies=rows))
    assert incident.anomalies == {"duplicate": (1, 0), "wrong-offset": (1, 0)}


@pytest.mark.parametrize("places", [(20,), (20, 21)])
def test_that_of_a_record_that_is_only_elsewhere_is_one(tmp_path: Path, places: tuple[int, ...]) -> None:
    rows = [twice("duplicate"), twice("wrong-offset", places)]
    assert len(diagnose(run_in(tmp_path, cluster=CHANGED, anomalies=rows))) == 2
