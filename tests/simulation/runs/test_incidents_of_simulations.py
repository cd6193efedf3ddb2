"""What the simulator finds is an incident like those of the checkers: in `results.json`, in the counts, on the page."""

import json

import pytest

from benchmarks.simulation.named_causes import KNOWN, OTHER_SIDES, diagnosed
from broker.core.rules.flaws import FLAWS
from checkers.verdict.verdict import RunResult
from harness.run.judging import _with_findings
from incidents import diagnose, incidents_of
from incidents.causes import KINDS
from reports.data.joined import Joined
from reports.data.stored_run import load_run
from reports.page import html
from reports.text.summary import summarize
from simulation.directed.files import schedules
from simulation.runs.failures import SimulationFinding
from simulation.runs.stored import store_schedule_run, write_results


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The run of a schedule whose flaw lets a replica into the ISR too early."""
    directory = tmp_path_factory.mktemp("stored")
    (path,) = schedules()["join-below-epoch-start"]
    assert store_schedule_run(directory, path, flawed=True).failed
    return directory


@pytest.fixture(scope="module")
def correct(tmp_path_factory):
    """The same steps on the build without the flaw."""
    directory = tmp_path_factory.mktemp("correct")
    (path,) = schedules()["join-below-epoch-start"]
    assert not store_schedule_run(directory, path, flawed=False).failed
    return directory


def test_the_cause_is_found_from_samples_and_transitions(stored):
    (incident,) = diagnose(stored)
    assert incident.cause.kind == "joined-too-early"
    assert incident.cause.node == 3
    assert incident.headline.startswith(
        "Broker 2 had broker 3 join the ISR of log-0 at 6.401 s without the committed offset 0. In the end "
    )
    assert incident.findings[0].startswith("P-2: ")
    assert incident.cause.faults == (1, 2)


def test_a_build_without_the_flaw_has_no_incident(correct):
    assert diagnose(correct) == []
    results = json.loads((correct / "results.json").read_text())
    assert (results["verdict"], results["incidents"], results["anomalies"]) == ("valid", [], {})


def test_results_count_the_findings_and_hold_the_incident(stored):
    results = json.loads((stored / "results.json").read_text())
    assert results["verdict"] == "invalid"
    assert results["anomalies"]["P-2"] == {"violations": 1, "within_contract": 0}
    assert incidents_of(results) == diagnose(stored)


def test_the_page_does_not_contradict_itself(stored):
    page = html(load_run(stored))
    assert "had broker 3 join the ISR of log-0" in page
    assert "No violation was found" not in page
    assert "<b>2</b><span>violations" in page
    assert "No fault was fired" not in page
    assert [fault["targets"] for fault in load_run(stored).faults] == [[3], [1], [2]]
    assert "1970-01-01" not in page
    assert summarize(load_run(stored), Joined(load_run(stored))).verdict.sentence == diagnose(stored)[0].headline


def test_a_store_of_an_earlier_release_gets_its_incidents_when_it_is_read(stored):
    path = stored / "results.json"
    now = json.loads(path.read_text())
    earlier = {**now, "anomalies": {}}
    del earlier["incidents"]
    path.write_text(json.dumps(earlier))
    try:
        run = load_run(stored)
        assert [incident.causes for incident in run.incidents] == [one.causes for one in incidents_of(now)]
        assert "<b>2</b><span>violations" in html(run)
    finally:
        path.write_text(json.dumps(now))


def test_a_check_of_a_simulated_run_keeps_what_the_simulator_found(stored, correct):
    for directory, verdict in ((stored, "invalid"), (correct, "valid")):
        judged = _with_findings(RunResult(directory.name, directory, "valid", (), {}, {}, {}))
        assert judged.verdict == verdict
        assert json.loads((directory / "results.json").read_text())["verdict"] == verdict


def test_the_known_causes_are_those_of_all_flaws():
    assert set(KNOWN) == set(FLAWS)
    assert {*KNOWN.values(), *OTHER_SIDES.values()} <= set(KINDS)
    assert set(OTHER_SIDES) <= {path.name for paths in schedules().values() for path in paths}


@pytest.mark.slow
def test_most_flaws_are_named_by_their_schedules():
    found = list(diagnosed())
    assert len(found) >= 85
    assert sum(one.named for one in found) >= 0.95 * len(found), [one for one in found if not one.named]
    assert sum(one.among for one in found) >= 0.97 * len(found)


def test_results_count_all_cases_of_a_finding_once_whatever_the_checkers_excuse(tmp_path):
    found = [
        SimulationFinding("history", "lost-acked-write", "value 1 was acknowledged at offset 0 (the first of 22)"),
        SimulationFinding("history", "unseen", "value 1 was never read (the first of 9)"),
        SimulationFinding("history", "duplicate", "value 1 is in the log twice (the first of 5)"),
    ]
    (tmp_path / "outcome.json").write_text(json.dumps({"findings": [finding._asdict() for finding in found]}))
    counted = {
        "lost-acked-write": {"violations": 0, "within_contract": 20},
        "unseen": {"violations": 3, "within_contract": 4},
    }
    (tmp_path / "results.json").write_text(json.dumps({"reasons": [], "anomalies": counted}))
    write_results(tmp_path, "run", found)
    assert json.loads((tmp_path / "results.json").read_text())["anomalies"] == {
        "lost-acked-write": {"violations": 20, "within_contract": 0},
        "unseen": {"violations": 3, "within_contract": 4},
        "duplicate": {"violations": 5, "within_contract": 0},
    }
