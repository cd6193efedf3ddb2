"""Incidents survive `results.json`, and a file that holds something else is no list of incidents."""

import json
from dataclasses import replace

import pytest

from incidents import Cause, Incident, Span, incidents_of
from incidents.model import Election

INCIDENT = Incident(
    headline="3 acknowledged writes were lost.",
    within_contract=False,
    anomalies={"lost-acked-write": (3, 0), "stale-read": (0, 2)},
    spans=(Span("t", 0, 5, 7), Span(None, None)),
    causes=(Cause("storage-loss", "broker 1 lost its disk", ("It says so.",), 5, 1, (3, 2), "nothing"),),
    at_ns=5,
    findings=("P-6: broker 1 cut its log",),
    election=Election("t", 0, 2, 3, 5, 1, 2, is_only=False),
)


def test_an_incident_is_read_as_it_was_written():
    assert incidents_of(json.loads(json.dumps({"incidents": [INCIDENT.to_json()]}))) == [INCIDENT]


def test_an_incident_of_an_earlier_release_has_no_election():
    stored = {key: value for key, value in INCIDENT.to_json().items() if key != "election"}
    assert incidents_of({"incidents": [stored]}) == [replace(INCIDENT, election=None)]


def test_results_of_an_earlier_release_have_none():
    assert incidents_of({"verdict": "valid"}) is None


@pytest.mark.parametrize(
    "stored",
    [
        "text",
        {"a": 1},
        [1],
        [{}],
        [{**INCIDENT.to_json(), "anomalies": []}],
        [{**INCIDENT.to_json(), "at_ns": "soon"}],
        [{**INCIDENT.to_json(), "causes": None}],
        [{**INCIDENT.to_json(), "election": {"topic": "t"}}],
        [{**INCIDENT.to_json(), "at_ns": float("nan")}],
    ],
)
def test_what_is_no_list_of_incidents_is_refused(stored):
    assert incidents_of({"incidents": stored}) is None
