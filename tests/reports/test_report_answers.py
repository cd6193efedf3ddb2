"""What the first screen answers: which fault was needed, whose mistake it is, which records; nothing it cannot know."""

import html
import json
import re

import pyarrow as pa
import pytest

from history.protocol import failure_sentences
from incidents import diagnose, needed
from incidents.needed import Needed
from reports.data.joined import Joined
from reports.data.stored_run import load_run
from reports.page import html as page_of
from reports.page import render
from reports.templating import prose
from reports.text.anomalies import _chosen
from reports.text.answers import answers
from reports.text.explanation import explain_run
from reports.text.incidents import shown_incidents
from reports.text.summary import summarize
from tests.incidents.stored import S, fault, follows, leads, lost, run_in, settings

LOST_PAGE_CACHE = {
    "cluster": [leads(9, 3, 0, 20, (3,)), leads(15, 3, 1, 10, (3,))],
    "faults": [
        fault(1, "connection-resets", [2], 3, 4),
        fault(4, "kill", [2], 5, 8),
        fault(6, "page-cache-loss", [3], 12.8, 14),
        fault(7, "kill", [1], 16, 17),
    ],
    "anomalies": [lost(offset, 10) for offset in range(10, 20)],
}
CUT = {
    "cluster": [leads(9, 1, 0, 20, (1, 3)), follows(11, 3, 1, 0, 20), leads(15, 3, 1, 10, (3,))],
    "anomalies": [lost(15, 10)],
}
SIMULATED = {
    "findings": [{"layer": "invariant", "property_id": "P-15", "what": "log-0: broker 1, leader of epoch 0, acknowledged offset 7, which is in the logs of [1] only; min ISR is 2"}],  # noqa: E501
    "story": [{"at_us": 20_000_000, "node_id": 0, "text": "VIOLATION of P-15: it did", "source": None}],
    "faults": [fault(1, "kill", [2], 3, 4), fault(2, "pause", [3], 5, 9), fault(3, "kill", [1], 22, 23)],
}  # fmt: skip


def checked(directory, **rows):
    """A run with its incidents in `results.json`."""
    run_in(directory, **rows)
    found = diagnose(directory)
    verdict = "valid" if all(one.within_contract for one in found) else "invalid"
    names = {
        name: {"violations": broken, "within_contract": within}
        for one in found
        for name, (broken, within) in one.anomalies.items()
    }
    results = {"verdict": verdict, "anomalies": names, "incidents": [one.to_json() for one in found]}
    (directory / "results.json").write_text(json.dumps(results))
    return directory


def told(directory):
    return {answer.question: answer.whole for answer in answers(load_run(directory))}


def test_a_fault_that_the_cause_names_without_saying_what_it_did_was_near(tmp_path):
    """Broker 1, which acknowledged, is killed before broker 2 answers; what a fault on broker 3 did is not known."""
    because = {"stale_because": "the leadership of the partition was changing at the time"}
    evidence = json.dumps({**because, "witness": {"node": 1, "completed_ns": 10 * S, "offset": 15, "status": "ok"}})
    row = lost(12, 15, anomaly="stale-read", broker=2, evidence=evidence, within_contract=True)
    faults = [fault(1, "pause", [2], 2, 3), fault(2, "kill", [1], 10.5, 18), fault(3, "slow-disk", [3], 14, 18)]
    cluster = [leads(9, 1, 0, 20, (1, 2)), leads(20, 2, 1, 20, (2,))]
    text = told(checked(tmp_path, cluster=cluster, anomalies=[row], faults=faults))["Faults behind it"]
    assert text.startswith("Broker 1 was killed at 10.500 s (fault #2). The evidence points to this one;")
    assert "Near it, too: broker 3 had its disk slowed down at 14.000 s (fault #3)." in text
    assert text.endswith("Another came before (fault #1) and may have played a part; no evidence shows it.")


def test_the_fault_that_the_cause_rests_on_made_it_possible_and_the_others_only_came_before(tmp_path):
    text = told(checked(tmp_path, **LOST_PAGE_CACHE))["Faults behind it"]
    assert text.startswith("Broker 3 lost its page cache at 12.800 s (fault #6). The evidence points to this one;")
    assert text.endswith("Others came before (faults #1, #4) and may have played a part; no evidence shows it.")
    assert "#7" not in text  # it came later


def test_faults_that_kept_others_from_leading_made_it_possible_too(tmp_path):
    cluster = [leads(9, 3, 0, 20, (1, 3)), leads(15, 3, 1, 10, (3,))]
    faults = [fault(2, "pause", [1], 11, 20), fault(6, "page-cache-loss", [3], 12.8, 14)]
    text = told(checked(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10)]))["Faults behind it"]
    assert "(fault #6); broker 1 was paused at 11.000 s (fault #2)." in text
    assert "What else" not in text


def test_where_no_evidence_connects_a_fault_with_it_that_is_said(tmp_path):
    text = told(checked(tmp_path, **CUT, faults=[fault(1, "kill", [2], 3, 4)]))["Faults before it"]
    assert text == "The evidence does not tell whether the fault before it led to it."


def test_of_a_property_with_several_parts_the_broken_one_was_promised(tmp_path):
    what = "log-0: the reassignment from [1, 2, 3] to [1, 2] ended with the ISR [2], min ISR 2; before it was [2, 3]"
    found = {**SIMULATED["findings"][0], "property_id": "P-23", "what": what}
    run = checked(tmp_path, **{**SIMULATED, "findings": [found]})
    assert told(run)["Promised"] == "The end of a reassignment does not shrink the ISR below min ISR."


def test_without_faults_none_was_needed(tmp_path):
    assert told(checked(tmp_path, **CUT))["Faults before it"] == "No fault had taken effect before it."


@pytest.mark.parametrize(
    ("tried", "said"),
    [
        (
            Needed((2,), (1,), (), 3, 9),
            "Needed: broker 3 was paused at 5.000 s (fault #2). With it alone the failure occurs again. Without",
        ),
        (
            Needed((2,), (1,), (), 3, 9),
            "it it did not, in 4 simulations: one with the same random choices (delays and the like), the rest with",
        ),
        (
            Needed((1, 2), (), (), 3, 9),
            "With these alone the failure occurs again. Without any one of them it did not, in 4",
        ),
        (
            Needed((1, 2), (), (), 3, 9, again=0),
            "Chance plays a part, too: with other random choices it occurred with these alone in none of 3 simula",
        ),
        (
            Needed((2,), (1,), (), 3, 9, again=1),
            " the rest with others. Not needed: broker 2 was killed at 3.000 s (fault #1); without it it occurs, too.",
        ),
        (Needed((), (1, 2), (), 3, 4), "No fault was needed: it occurs without faults #1, #2, too."),
        (Needed((), (), (), 3, 4), "No fault was needed: none had begun by then."),
        (
            Needed((2,), (), (1,), 3, 9),
            "With it and those that were not tried the failure occurs again. Without it it did not, in 4 ",
        ),
        (
            Needed((2,), (), (1,), 3, 9),
            "Not tried, for want of time: fault #1; `harrow explain RUN --time-limit 5m` goes on,",
        ),
        (Needed((), (1,), (2,), 3, 1), "Not needed: fault #1. Not tried, for want of time: fault #2;"),
        (Needed((), (), (1, 2), 3, 1), "Not tried, for want of time: faults #1, #2;"),
        (None, "Not tried: 2 faults began before it. `harrow explain` simulates"),
    ],
)
def test_a_simulated_failure_tells_what_simulations_without_the_faults_have_shown(tmp_path, tried, said):
    if tried is not None:
        needed.write(tmp_path, tried)
    assert said in told(checked(tmp_path, **SIMULATED))["Faults needed" if tried else "Faults before it"]


def test_faults_in_effect_that_were_not_tried_are_told_once(tmp_path):
    down = fault(4, "restart", [3], 6, 30, parameters=json.dumps({"what": "down already"}))
    faults = [fault(1, "kill", [2], 3, 4), fault(2, "pause", [1], 5, 30), fault(3, "kill", [3], 6, 7), down]
    run = checked(tmp_path, **{**SIMULATED, "faults": faults})
    paused = "In effect at the violation, and not tried: broker 1 was paused at 5.000 s (fault #2)."
    needed.write(tmp_path, Needed((), (1,), (2, 3), 3, 1))
    said = told(run)["Faults needed"]
    assert said.startswith(
        f"None is known to be needed yet. Not needed: fault #1. {paused} Not tried either, for want of"
    )
    assert " time: fault #3; " in said
    needed.write(tmp_path, Needed((), (1, 3), (2, 4), 3, 1))
    assert f"{paused} Not tried either, for want of time: fault #4; " in told(run)["Faults needed"]
    needed.write(tmp_path, Needed((), (1, 3, 4), (2,), 3, 1))
    assert f"{paused} There was no time to try them; " in told(run)["Faults needed"]


def test_a_fault_that_the_headline_names_and_the_failure_does_not_need_is_told_apart(tmp_path):
    what = (
        "log-0: broker 3 of broker epoch 4 is in the ISR (ISR [1, 3], ELR []) and has nothing at 5, "
        "where 5…5 is committed"
    )
    rows = {
        **SIMULATED,
        "findings": [{"layer": "invariant", "property_id": "P-2", "what": what}],
        "story": [{"at_us": 20_000_000, "node_id": 0, "text": f"VIOLATION of P-2: {what}", "source": None}],
        "cluster": [{**row, "topic": "log"} for row in (leads(2, 1, 0, 9, (1, 3)), follows(5, 3, 1, 0, 9))],
        "faults": [fault(1, "page-cache-loss", [3], 7, 8), fault(2, "pause", [2], 9, 10)],
    }
    needed.write(tmp_path, Needed((2,), (1,), (), 3, 9))
    run = checked(tmp_path, **rows)
    assert "Broker 3 lost its page cache at 7.000 s (fault #1)" in load_run(run).incidents[0].headline
    assert told(run)["In this run"] == "Broker 3 lost its page cache at 7.000 s (fault #1)."
    another = (
        "The failure occurs without fault #1, too, in another way. Needed: broker 2 was paused at 9.000 s (fault #2)."
    )
    assert told(run)["Faults needed"].startswith(another)
    assert "Not needed" not in told(run)["Faults needed"]  # it is the same one
    needed.write(tmp_path, Needed((1,), (2,), (), 3, 9))
    same = told(checked(tmp_path, **rows))["Faults needed"]
    assert same.startswith(
        "Needed: the one named for this run. With it alone the failure occurs again. Without it it did not, in 4 sim"
    )
    assert same.endswith("Not needed: broker 2 was paused at 9.000 s (fault #2); without it it occurs, too.")
    needed.write(tmp_path, Needed((2,), (), (1,), 3, 9))
    assert told(checked(tmp_path, **rows))["Faults needed"].endswith(
        "What the headline names is among them: broker 3 lost its page cache at 7.000 s (fault #1)."
    )


def test_faults_that_began_at_one_moment_are_told_by_their_numbers(tmp_path):
    """Whatever the order of a set is in this process."""
    what = (
        "log-0: broker 2 of broker epoch 9 is in the ISR (ISR [2], ELR []) and has nothing at 0, where 0…0 is committed"
    )
    left = {"at_us": 8_000_000, "node_id": 101, "text": "log-0: ISR [1, 2, 3] → [2]", "source": None}
    killed = [fault(number, "kill", [1 if number % 2 else 3], 7, 12) for number in range(1, 9)]
    rows = {
        "findings": [{"layer": "invariant", "property_id": "P-2", "what": what}],
        "story": [left, {"at_us": 20_000_000, "node_id": 0, "text": f"VIOLATION of P-2: {what}", "source": None}],
        "cluster": [{**row, "topic": "log"} for row in (leads(2, 1, 0, 1, (1, 2, 3)), follows(7, 2, 1, 0, 1))],
        "faults": [*killed, fault(9, "page-cache-loss", [2], 9, 11)],
    }
    needed.write(tmp_path, Needed((9,), (), (), 3, 4))
    said = told(checked(tmp_path, **rows))["In this run"]
    assert re.findall(r"#(\d)", said) == [str(number) for number in range(1, 10)]


def test_a_finding_about_several_records_names_them_all(tmp_path):
    what = (
        "log-0: broker 3 of broker epoch 4 is in the ISR (ISR [1, 3], ELR []) and has nothing at 5, "
        "where 5…5 is committed"
    )
    found = [{"layer": "invariant", "property_id": "P-2", "what": f"{what}; it lacks the committed offsets 5 to 8"}]
    *_, records = answers(load_run(checked(tmp_path, **{**SIMULATED, "findings": found})))
    assert records.text.startswith("The records of log-0 (offsets 5\N{EN DASH}8); the first: ")


def test_a_recipe_is_one_fault_with_its_parts(tmp_path):
    """Told by what it is for, and by what its parts did, which may be less."""
    parts = [fault(3, "kill", [2], 4, 5), fault(4, "pause", [3], 6, 7), fault(5, "pause", [3], 9, 10)]
    faults = [fault(1, "kill", [1], 3, 4), fault(2, "log-info-held", [], 4, 5), *parts]
    needed.write(tmp_path, Needed((1, 2, 3, 4, 5), (), (), 3, 9, parts=((2, 3, 4, 5),)))
    run = checked(tmp_path, **{**SIMULATED, "faults": faults})
    assert told(run)["Faults needed"].startswith(
        "Needed: broker 1 was killed at 3.000 s (fault #1); a series of faults meant to lose all replicas of a"
        " partition, and hold their answers about their logs back (fault #2), of which by then: broker 2 was killed at"
        " 4.000 s (fault #3) and broker 3 was paused 2 times from 6.000 s to 9.000 s (faults #4, #5). With these alone"
        " the failure occurs again. Without any one of them (what belongs together counts as one) it did not, in"
    )
    (incident,) = load_run(run).incidents
    told_last = "(fault #3) and broker 3 was paused 2 times from 6.000 s to 9.000 s (faults #4, #5)."
    assert incident.cause.evidence[-1].endswith(told_last)
    parts[0] |= {"parameters": json.dumps({"what": "down already"})}
    run = checked(tmp_path, **{**SIMULATED, "faults": [*faults[:2], *parts]})
    assert "(fault #2), of which by then: broker 3 was paused 2 times" in told(run)["Faults needed"]
    assert incident.cause.faults == (1, 2, 3, 4, 5)


def test_where_chance_decides_more_than_many_faults_none_of_them_is_told_as_needed(tmp_path):
    """The headline's fault is told first, and what is left by leaving out without its parts."""
    faults = [fault(1 + n, "kill" if n else "follower-far-behind", [1 + n % 3] if n else [], 3, 4) for n in range(7)]
    tried = {"needed": (1, 2, 3, 4, 5), "not_needed": (6, 7), "untested": (), "redraws": 3, "simulations": 9}
    needed.write(tmp_path, Needed(**tried, parts=((1, 2),), again=0))
    run = checked(tmp_path, **{**SIMULATED, "faults": faults})
    text = told(run)["Faults needed"]
    assert (
        "Leaving faults out does not tell which of 4 matter. With these, what belongs together as one, and the same"
        in text
    )
    assert text.endswith(
        "in none of 3 simulations: what is left out moves everything after it. Without faults #6, #7 it occurs, too."
    )
    assert "Needed" not in text
    (incident,) = load_run(run).incidents
    assert incident.cause.evidence[-1].startswith(
        "Faults without any one of which, and with the same random choices, it does not occur: a series of faults"
        " meant to keep a follower from fetching, and then lose the others (fault #1), of which #2 had begun by then;"
        " broker 3"
    )
    needed.write(run, Needed(**tried, parts=((1, 2),), again=1))
    assert told(run)["Faults needed"].startswith("Needed: a series of faults")
    needed.write(run, Needed(**{**tried, "needed": (1, 2, 3)}, again=0))
    assert told(run)["Faults needed"].startswith("Needed: ")


def test_the_cause_of_a_simulated_failure_leads_to_the_faults_that_it_needs_alone(tmp_path):
    needed.write(tmp_path, Needed((2,), (1,), (), 3, 9))
    (incident,) = diagnose(run_in(tmp_path, **SIMULATED))
    assert incident.cause.faults == (2,)
    assert incident.cause.evidence[-1] == "Faults that it needs: broker 3 was paused at 5.000 s (fault #2)."


def test_while_that_is_open_the_faults_known_to_be_not_needed_are_left_out(tmp_path):
    needed.write(tmp_path, Needed((), (2,), (1,), 3, 9))
    (incident,) = diagnose(run_in(tmp_path, **SIMULATED))
    assert incident.cause.faults == (1,)
    assert incident.cause.evidence[-1] == "Faults before it: broker 2 was killed at 3.000 s (fault #1)."


def test_a_broken_promise_without_an_excuse_is_the_clusters_mistake(tmp_path):
    text = told(checked(tmp_path, **CUT))["Whose mistake"]
    assert text == "The broker software's: neither its configuration nor anything that the clients did excuses it."


def test_what_the_protocol_version_is_known_for_is_not_the_implementations_mistake(tmp_path):
    finding = SIMULATED["findings"][0]
    known = {**finding, "what": finding["what"] + " (documented for K3: an ISR of one, B-52 or B-53)"}
    run = checked(tmp_path, **{**SIMULATED, "findings": [known]})
    assert told(run)["Whose mistake"] == (
        "The protocol's, not this implementation's. Protocol version K3 (as in Kafka 3.5) is known for it: an ISR of"
        " one (`harrow flaws` describes them as B-52 or B-53). No flaw is planted."
    )
    (incident,) = load_run(run).incidents
    assert "documented" not in " ".join([incident.headline, *incident.cause.evidence])


def test_what_was_promised_comes_first_and_is_a_sentence(tmp_path):
    first, *_ = answers(load_run(checked(tmp_path / "real", **CUT)))
    assert first.question == "Promised"
    assert first.text.startswith("A record whose write was acknowledged stays in the log")
    first, *_ = answers(load_run(checked(tmp_path / "simulated", **SIMULATED)))
    assert (first.question, first.text[0], first.text[-1]) == ("Promised", "A", ".")
    allowed = {**CUT, "runs": [settings(acks=1)], "anomalies": [lost(15, 10, within_contract=True)]}
    first, *_ = answers(load_run(checked(tmp_path / "allowed", **allowed)))
    assert first.question == "The rule"


def test_a_needed_fault_without_targets_is_told_too(tmp_path):
    faults = [fault(1, "moved-leader", [], 3, 4), fault(2, "late-connection", [3, 1], 5, 9)]
    needed.write(tmp_path, Needed((1, 2), (), (), 3, 9))
    text = told(checked(tmp_path, **{**SIMULATED, "faults": faults}))["Faults needed"]
    assert text.startswith(
        "Needed: leaders were elected in quick succession at 3.000 s (fault #1); brokers 1 and 3 had one connection"
        " between them delayed at 5.000 s (fault #2)."
    )


def test_what_the_configuration_permits_is_not_the_clusters_mistake(tmp_path):
    rows = [lost(15, 10, within_contract=True)]
    run = checked(tmp_path, runs=[settings(acks=1)], cluster=CUT["cluster"], anomalies=rows)
    assert told(run)["Whose mistake"].startswith("The configuration's: what happened is within the contract. acks=1 ")


@pytest.mark.parametrize(
    ("without", "said"),
    [
        (
            False,
            "That of the planted flaw eager-shrink, in a test of Harrow's own broker: the same simulation without",
        ),
        (True, "The broker software's own: the same simulation fails without the planted flaw eager-shrink, too."),
        (None, "most likely by the planted flaw eager-shrink"),
    ],
)
def test_a_planted_flaw_is_blamed_as_far_as_simulations_without_it_allow(tmp_path, without, said):
    needed.write(tmp_path, Needed((), (1, 2), (), 3, 9, without_flaws=without))
    run = checked(tmp_path, **SIMULATED, runs=[settings(flaws=["eager-shrink"])])
    assert said in told(run)["Whose mistake"]


def test_a_failure_that_the_version_is_known_for_is_not_the_planted_flaws_if_it_occurs_without_it(tmp_path):
    (finding,) = SIMULATED["findings"]
    documented = {**finding, "what": f"{finding['what']} (documented for K1: B-52: the last replica has lost data)"}
    needed.write(tmp_path, Needed((), (1, 2), (), 3, 9, without_flaws=True))
    run = checked(tmp_path, **{**SIMULATED, "findings": [documented]}, runs=[settings(flaws=["eager-shrink"])])
    whose = told(run)["Whose mistake"]
    assert whose.startswith(
        "The protocol's, not this implementation's. Protocol version K1 (as in Kafka 2.8 to 3.2) is"
    )
    assert "known for it: the last replica has lost data (`harrow flaws` describes it as B-52)." in whose
    assert "It is not that of the planted flaw eager-shrink either: the same simulation fails without it, too." in whose
    loaded = load_run(run)
    sentence = summarize(loaded, Joined(loaded)).verdict.planted
    assert "has a bug planted on purpose, eager-shrink. The same simulation fails without it, too." in sentence


@pytest.mark.parametrize(
    ("ended_s", "said"), [(20.5, "The write of value 9 to"), (22, "(no client had been told what stood there)")]
)
def test_a_record_that_was_acknowledged_after_a_finding_is_not_what_it_is_about(tmp_path, ended_s, said):
    send = {"op": 4, "topic": "log", "partition": 0, "value": 9, "acks": -1, "offset": 7, "ordinal": 0}
    operation = {"op": 4, "kind": "send", "status": "ok", "invoked_ns": 19 * S, "completed_ns": int(ended_s * S)}
    (finding,) = SIMULATED["findings"]
    place = {"topic": "log", "partition": 0, "offset": 7}
    run = checked(tmp_path, **{**SIMULATED, "findings": [{**finding, **place}]}, sends=[send], operations=[operation])
    assert said in told(run)["Records"]


@pytest.mark.parametrize(
    ("version", "whose"),
    [
        ("K3", "The protocol's, not this implementation's. A replica that had come back"),
        ("K5", "The broker software's: neither its configuration nor anything that the clients did excuses it."),
    ],
)
def test_a_loss_that_a_version_cannot_prevent_is_the_protocols(tmp_path, version, whose):
    runs = [settings(system="harrow", generation=version)]
    assert told(checked(tmp_path, **{**LOST_PAGE_CACHE, "runs": runs}))["Whose mistake"].startswith(whose)


@pytest.mark.parametrize(
    ("level", "whose"),
    [
        (0, "No mistake of this implementation: it is a gap of the protocol, which the configuration leaves open. A"),
        (1, "The broker software's: neither its configuration nor anything that the clients did excuses it."),
    ],
)
def test_a_gap_that_a_feature_would_close_is_left_open_by_the_configuration(tmp_path, level, whose):
    spec = json.dumps({"versions": {"eligible.leader.replicas.version": str(level)}})
    runs = [settings(system="apache-kafka", spec=spec)]
    assert told(checked(tmp_path, **{**LOST_PAGE_CACHE, "runs": runs}))["Whose mistake"].startswith(whose)


def test_a_known_gap_may_be_enough_without_the_planted_flaw(tmp_path):
    runs = [settings(system="harrow", generation="K3", flaws=["min-isr-unchecked"])]
    assert told(checked(tmp_path, **{**LOST_PAGE_CACHE, "runs": runs}))["Whose mistake"].startswith(
        "The protocol's, which is enough to explain it. A replica that had come back"
    )


def test_the_first_records_are_named_with_value_and_offset_and_lead_to_all(tmp_path):
    *_, records = answers(load_run(checked(tmp_path, **LOST_PAGE_CACHE)))
    assert records.text == (
        "10 in all; among them: the write of value 1010 to t-0 offset 10; "
        "the write of value 1011 to t-0 offset 11; the write of value 1012 to t-0 offset 12."
    )
    assert (records.link, records.link_text) == ("violations-lost-acked-write", "more of them")


def test_what_is_within_the_contract_is_not_counted_with_what_is_not(tmp_path):
    rows = [{**row, "within_contract": number < 6} for number, row in enumerate(LOST_PAGE_CACHE["anomalies"])]
    *_, records = answers(load_run(checked(tmp_path, **{**LOST_PAGE_CACHE, "anomalies": rows})))
    assert records.text.startswith("4 violations; among them: the write of value 1016 to t-0 offset 16; ")


def test_commands_are_set_as_code_and_no_line_ends_within_a_time_or_number():
    assert prose("<b> `harrow explain` at 12.221 s (fault #3) of broker 2") == (
        "&lt;b&gt; <code>harrow explain</code> at 12.221\N{NO-BREAK SPACE}s (fault\N{NO-BREAK SPACE}#3)"
        " of broker\N{NO-BREAK SPACE}2"
    )


def test_the_link_of_the_records_leads_to_a_card_of_their_incident(tmp_path):
    page = page_of(load_run(checked(tmp_path, **LOST_PAGE_CACHE)))
    (link,) = re.findall(r'<dt>Records</dt><dd>[^<]*<a href="#([\w-]+)"', page)
    card = page[page.index(f'id="{link}"') :]
    assert 'href="#incident-1"' in card[: card.index("</article>")]


@pytest.mark.parametrize(("wanted", "chosen"), [(1, [0]), (2, [0, 4]), (3, [0, 2, 4]), (4, [0, 1, 2, 4])])
def test_each_incident_has_a_card_before_any_has_its_second_and_of_one_each_partition(wanted, chosen):
    """Places 0 to 3 are of the first incident, the last two, near each other, of the second."""
    rows = [(0, 10), (0, 500), (1, 10), (1, 500), (1, 1_000), (1, 1_001)]
    columns = {"topic": ["t"] * 6, "partition": [row[0] for row in rows], "offset": [row[1] for row in rows]}
    table = pa.table({**columns, "place": list(range(6))})
    incident_of_place = {place: 1 if place < 4 else 2 for place in range(6)}
    assert _chosen(table, incident_of_place, wanted) == chosen


def test_rows_that_no_table_has_belong_to_no_incident(tmp_path):
    run = checked(tmp_path, **LOST_PAGE_CACHE)
    results = json.loads((run / "results.json").read_text())
    results["incidents"][0]["rows"] = [[-(10**15), 2], [8, 10**15]]
    (run / "results.json").write_text(json.dumps(results))
    assert load_run(run).incident_of_place == dict.fromkeys((0, 1, 2, 8, 9), 1)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "3 reads, answered by broker 3, did not return value 7 at offset 17 of t-0."),
        (
            {"value": 8},
            "3 reads, answered by broker 3, missed records; the first did not return value 7 at offset 17 of t-0.",
        ),
    ],
)
def test_a_record_that_several_reads_missed_is_named_once_and_who_answered_them(tmp_path, changed, told):
    """A read ended at offset 15, before the record that it ought to have returned."""
    row = {"value": 7, "broker": 3, "evidence": json.dumps({"witness": {"offset": 17}}), "anomaly": "stale-read"}
    missed = [lost(15, 10 + n, **row) for n in range(2)] + [lost(15, 12, **{**row, **changed})]
    *_, records = answers(load_run(checked(tmp_path, **{**LOST_PAGE_CACHE, "anomalies": missed})))
    assert records.text == told


def test_of_an_end_that_was_said_to_be_too_low_all_that_it_missed_is_named(tmp_path):
    asked = {"witness": {"offset": 17}, "asked": "latest", "answered_end": 9}
    row = {"value": 7, "broker": 3, "evidence": json.dumps(asked), "anomaly": "stale-read"}
    *_, records = answers(load_run(checked(tmp_path, **{**LOST_PAGE_CACHE, "anomalies": [lost(9, 10, **row)]})))
    assert records.text == (
        "The end of t-0, answered by broker 3, was said to be 9: offsets 9 to 17 were missed, the last of them with"
        " value 7."
    )


@pytest.mark.parametrize(("value", "told"), [(7, False), ((1 << 40) + 7, True)])
def test_the_number_of_a_value_of_another_worker_is_explained(tmp_path, value, told):
    run = checked(tmp_path, **{**LOST_PAGE_CACHE, "anomalies": [lost(15, 10, value=value)]})
    *_, records = answers(load_run(run))
    assert records.text.endswith("A value w:n is number n of client worker w.") == told


@pytest.mark.parametrize(("number", "told"), [(1, ""), (2, "No single one: 2 answers. The first: ")])
def test_answers_are_told_by_what_the_checkers_say_of_the_first_and_not_as_writes(tmp_path, number, told):
    said = "Process 16 asked for the end of t-0 at 43.594 s, and the answer by broker 1 was 572."
    more = "Last fault before: none."
    row = {"anomaly": "end-offset-regression", "op": 7, "value": None, "explanation": f"{said} {more}"}
    anomalies = [lost(572 + n, 43.594 + n, **row) for n in range(number)]
    *_, records = answers(load_run(checked(tmp_path, **{**LOST_PAGE_CACHE, "anomalies": anomalies})))
    assert records.text == f"{told}{said}"


def test_what_only_the_simulators_own_checks_found_had_harmed_no_client(tmp_path):
    assert told(checked(tmp_path, **SIMULATED))["Harm"].startswith(
        "No client lost a record that it was promised, or got a wrong answer, in this run:"
    )


def test_faults_that_lasted_until_shortly_before_the_violation_may_have_led_to_it_in_this_run(tmp_path):
    """The finding is about broker 1, at 20 s."""
    faults = [
        fault(1, "kill", [2], 3, 4), fault(2, "pause", [1], 5, 9), fault(3, "isolate", [1], 10, 18),
        fault(4, "isolate", [3], 10, 18), fault(5, "added-twice", [], 19.5, 19.5),
        {**fault(6, "kill", [1], 19, 19.1), "parameters": json.dumps({"what": "down already"})},
    ]  # fmt: skip
    needed.write(tmp_path, Needed((1,), (2, 3, 4, 5, 6), (), 3, 9))
    text = told(checked(tmp_path, **{**SIMULATED, "faults": faults}))["Faults needed"]
    near = text.split("In this run there were also, in effect then or shortly before: ")[1]
    assert "(fault #5)" in near
    assert "broker 1 was cut off at 10.000 s (fault #3)" in near
    assert not any(number in near for number in ("#2", "#4", "#6"))


def test_a_failure_that_was_shrunk_says_what_is_left_of_it(tmp_path):
    run = checked(tmp_path / "run", **SIMULATED)
    assert "Shrunk" not in told(run)
    needed.write_smallest(run, "small", was_cut_short=False)
    assert "Shrunk" not in told(run)  # it is there no more
    checked(tmp_path / "small", **{**SIMULATED, "faults": [fault(1, "pause", [3], 5, 9)]})
    assert told(run)["Shrunk"] == (
        "In a smaller run this is enough for the same rule to break: broker 3 was paused at 5.000 s. The run small"
        " beside this one shows it."
    )
    (small,) = (one for one in answers(load_run(run)) if one.question == "Shrunk")
    assert small.page == "../small/report.html"
    needed.write_smallest(run, "small", was_cut_short=True)
    assert told(run)["Shrunk"].endswith(
        "shows it. Its shrinking was ended early: it may have more than the failure needs."
    )
    needed.write_smallest(run, "small", was_cut_short=False)
    needed.write(tmp_path / "small", Needed((), (1,), (), 3, 4))
    assert told(run)["Shrunk"].startswith("In a smaller run the same rule breaks without a fault. The run small")
    checked(tmp_path / "small", **{**SIMULATED, "faults": [fault(1 + n, "pause", [3], n, 9) for n in range(30)]})
    needed.write(tmp_path / "small", Needed(tuple(range(1, 31)), (), (), 3, 4))
    short = "In a smaller run 30 faults are enough for the same rule to break. The run small beside this one shows it."
    assert told(run)["Shrunk"] == short
    needed.write(tmp_path / "small", Needed((1,), (2,), (3,), 3, 4))
    assert told(run)["Shrunk"] == "The run small beside this one is what is left of it."


@pytest.mark.parametrize(
    ("small", "enough"),
    [
        (Needed((1,), (), (), 3, 4), "1 fault and fewer steps"),
        (Needed((), (1,), (), 3, 4), "no fault and fewer steps"),
        (Needed((1, 2), (), (), 3, 4, parts=((1, 2),)), "1 fault (a series of faults counts as one) and fewer steps"),
    ],
)
def test_where_it_is_told_what_is_needed_the_story_of_the_shrunk_run_is_not_told_beside_it(tmp_path, small, enough):
    run = checked(tmp_path / "run", **SIMULATED)
    needed.write(run, Needed((2,), (1,), (), 3, 9))
    checked(tmp_path / "small", **SIMULATED)
    needed.write(tmp_path / "small", small)
    needed.write_smallest(run, "small", was_cut_short=False)
    way = "maybe in another way" if small.needed else "so in another way"
    said = f"The run small beside this one breaks the same rule with {enough}, {way}."
    assert told(run)["Shrunk"] == said
    needed.write_smallest(run, "small", was_cut_short=True)
    assert told(run)["Shrunk"] == f"{said} Its shrinking was ended early: it may have more than the failure needs."


def test_of_a_long_series_the_numbers_of_its_parts_are_told(tmp_path):
    faults = [
        fault(1 + n, "kill" if n else "follower-far-behind", [1 + n] if n else [], 3 + n, 4 + n) for n in range(9)
    ]
    run = checked(tmp_path, **{**SIMULATED, "faults": faults})
    needed.write(run, Needed(tuple(range(1, 10)), (), (), 3, 9, parts=((1, *range(3, 10)),)))
    assert told(run)["Faults needed"].startswith(
        "Needed: a series of faults meant to keep a follower from fetching, and then lose the others (fault #1),"
        " of which #3, #4, #5, #6, #7, #8 and #9 had begun by then; broker 2 was killed at 4.000 s (fault #2)."
    )


@pytest.mark.parametrize(
    ("number", "rest"), [(3, ""), (12, "; faults #8, #9, #10, #11, #12, which the incident tells")]
)
def test_of_many_needed_faults_the_first_ones_are_told(tmp_path, number, rest):
    faults = [fault(1 + n, "kill", [1 + n], 3 + n, 4 + n) for n in range(number)]
    run = checked(tmp_path, **{**SIMULATED, "faults": faults})
    needed.write(run, Needed(tuple(range(1, 1 + number)), (), (), 3, 9, parts=((1, 2),)))
    both = "broker 1 was killed at 3.000 s (fault #1), and then broker 2 was killed at 4.000 s (fault #2)"
    told_last = "broker 7 was killed at 9.000 s (fault #7)" if rest else "broker 3 was killed at 5.000 s (fault #3)"
    said = told(run)["Faults needed"]
    assert said.startswith(f"Needed: {both}; broker 3")
    assert f"{told_last}{rest}. With these alone" in said


def test_where_not_all_needed_faults_are_told_what_was_in_effect_at_the_violation_is_told(tmp_path):
    """The finding is about broker 1, at 20 s: the setting is everybody's, a needed fault counts as others do."""
    noted = {"parameters": json.dumps({"what": "to 3"})}
    faults = [fault(1 + n, "kill", [1 + n], 3 + n, 4 + n) for n in range(9)]
    faults += [{**fault(10, "changed-min-isr", [], 12, 25), **noted}, fault(11, "isolate", [1], 19, 30)]
    run = checked(tmp_path, **{**SIMULATED, "faults": faults})
    needed.write(run, Needed(tuple(range(1, 11)), (11,), (), 3, 9))
    assert told(run)["Faults needed"].endswith(
        "without it it occurs, too. In effect at the violation: min.insync.replicas was set to 3 at 12.000 s"
        " (fault #10); broker 1 was cut off at 19.000 s (fault #11)."
    )


@pytest.mark.parametrize("name", ["..", ".", "", "../small", "/small", "sm\0all", 7, None])
def test_no_run_but_one_beside_it_is_what_a_failure_was_shrunk_to(tmp_path, name):
    run = checked(tmp_path / "run", **SIMULATED)
    checked(tmp_path / "small", **SIMULATED)
    needed.write_smallest(run, name, was_cut_short=False)
    assert needed.smallest(run) is None


LATER = {**SIMULATED, "findings": [
    *SIMULATED["findings"],
    {"layer": "history", "property_id": "lost-acked-write", "what": "value 102 was acknowledged at offset 101 of partition 0, and the final reads do not show it"},  # noqa: E501
]}  # fmt: skip


def test_a_graver_harm_that_came_later_is_told_from_the_first_violation(tmp_path):
    needed.write(tmp_path, Needed((), (1, 2), (), 3, 4))
    found = told(checked(tmp_path, **LATER))
    rule = failure_sentences()["P-15"]
    said = f"No fault was needed for the first violation, P-15 ({rule}): it occurs without"
    assert found["Faults needed"].startswith(said)
    first = "The first violation is about log-0 offset 7."
    assert found["Records"] == f"The write of value 102 to log-0 offset 101. {first}"
    assert "Harm" not in found  # the headline tells it
    (incident,) = diagnose(tmp_path)
    assert incident.headline.endswith(". In the end 1 acknowledged write to log-0 (offset 101) was lost.")
    assert incident.headline.startswith("Broker 1 acknowledged the record at offset 7 of log-0, which only [1] had")


def test_findings_with_numbers_that_no_table_can_hold_do_no_harm(tmp_path):
    huge = "9" * 30
    findings = [
        {"layer": "history", "property_id": "lost-acked-write", "what": f"{huge} was acknowledged at {huge}/{huge}"},
        {"layer": "invariant", "property_id": "P-3", "what": f"log-{huge}: broker {huge} has nothing at offset {huge}"},
    ]
    assert "Promised" in told(checked(tmp_path, **{**SIMULATED, "findings": findings}))


def test_a_run_without_incidents_answers_nothing(tmp_path):
    assert answers(load_run(checked(tmp_path))) == ()


def test_what_speaks_for_all_candidates_is_said_once(tmp_path):
    rows = {"cluster": [leads(9, 1, 0, 20, (1, 2, 3)), leads(15, 2, 1, 12, (2, 3))], "anomalies": [lost(15, 10)]}
    directory = checked(tmp_path, **rows)
    (incident,) = load_run(directory).incidents
    common = incident.common_evidence
    assert common
    lines = explain_run(directory).lines
    whichever = [line for line in lines if line.startswith("  evidence, whichever it was: ")]
    assert whichever == [f"  evidence, whichever it was: {sentence}" for sentence in common]
    assert any(line.startswith("  candidate 2 of 2: ") for line in lines)
    page = html.unescape(render(directory).read_text()).replace("\N{NO-BREAK SPACE}", " ")
    section = page.partition('id="incident-1"')[2].partition("</article>")[0]
    assert "Whichever it was" in section
    for sentence in common:
        assert section.count(sentence) == 1
        assert sum(sentence in line for line in lines) == 1


def test_numbers_that_several_incidents_share_are_lower_bounds_everywhere(tmp_path):
    """The table has not all of the lost writes that are counted, and two page caches were lost."""
    cluster = [
        leads(at, 3, epoch, end, (3,), partition=number)
        for number in (0, 1)
        for at, epoch, end in ((9, 0, 20), (15 + 30 * number, 1, 10))
    ]
    faults = [fault(1, "page-cache-loss", [3], 12, 14), fault(2, "page-cache-loss", [3], 42, 44)]
    rows = [lost(15, 10, within_contract=True), *(lost(offset, 40, 1, within_contract=True) for offset in (15, 16))]
    run_in(tmp_path, runs=[settings(acks=1)], cluster=cluster, faults=faults, anomalies=rows)
    totals = {"lost-acked-write": {"violations": 0, "within_contract": 1655}}
    found = [one.to_json() for one in diagnose(tmp_path, {"lost-acked-write": (0, 1655)})]
    (tmp_path / "results.json").write_text(json.dumps({"verdict": "valid", "anomalies": totals, "incidents": found}))
    run = load_run(tmp_path)
    assert answers(run)[-1].text.startswith(
        "At least 2 of the run's 1,655, which the table does not list one by one; among them: the write"
    )
    assert [one.seen_as[0][2] for one in shown_incidents(run)] == [
        "at least 2 within the contract",
        "at least 1 within the contract",
    ]
    assert summarize(run, Joined(run)).verdict.sentence.startswith(
        "Valid under acks=1: 1,655 acknowledged writes lost, as acks=1 permits, in 2 incidents; the largest: broker 3"
    )


def test_incidents_after_one_fault_or_on_both_sides_of_the_contract_lead_to_each_other(tmp_path):
    because = json.dumps({"stale_because": "the leadership was changing"})
    run = checked(
        tmp_path,
        cluster=[leads(9, 3, 0, 20, (3,)), leads(15, 3, 1, 10, (3,))],
        faults=[fault(1, "page-cache-loss", [3], 12, 14)],
        anomalies=[
            lost(15, 10),
            lost(None, 13, 1, "stale-read", evidence=because, within_contract=True),
            lost(None, 33, 2, "stale-read", evidence=because, within_contract=True),
        ],
    )
    assert [one.related for one in shown_incidents(load_run(run))] == [
        ((2, "after the same fault (fault #1), within the contract"),),
        ((1, "after the same fault (fault #1), a violation"),),
        (),
    ]
    assert '<a href="#incident-2">incident 2</a>, after the same fault' in page_of(load_run(run))


def test_what_clients_without_idempotence_sent_again_is_told_no_promise_to_others(tmp_path):
    again = lost(16, 20, anomaly="duplicate", within_contract=True, evidence=json.dumps({"idempotence": False}))
    assert told(checked(tmp_path, anomalies=[again]))["The rule"] == (
        "With an idempotent producer a record is in the log once; these producers were not idempotent."
    )


def test_the_verdict_names_the_kinds_of_the_other_incidents(tmp_path):
    others = [lost(16, 20, anomaly="duplicate", partition=1), lost(17, 21, anomaly="duplicate", partition=2)]
    run = load_run(checked(tmp_path, **{**CUT, "anomalies": [*CUT["anomalies"], *others]}))
    sentence = summarize(run, Joined(run)).verdict.sentence
    assert sentence.startswith(run.incidents[0].headline)
    assert sentence.endswith(" 2 more incidents: records that are in the log twice.")


def test_the_verdict_names_what_else_there_was_within_the_contract(tmp_path):
    other = lost(16, 20, anomaly="duplicate", partition=1, within_contract=True)
    run = load_run(checked(tmp_path, **{**CUT, "anomalies": [*CUT["anomalies"], other]}))
    sentence = summarize(run, Joined(run)).verdict.sentence
    assert sentence.endswith(" 1 more incident within the contract: records that are in the log twice.")


def test_a_reason_that_the_verdict_gives_is_not_repeated(tmp_path):
    run_in(tmp_path)
    reasons = ["nothing was acknowledged", "t-0 was not read"]
    (tmp_path / "results.json").write_text(json.dumps({"verdict": "unknown", "anomalies": {}, "reasons": reasons}))
    run = load_run(tmp_path)
    verdict = summarize(run, Joined(run)).verdict
    assert verdict.sentence == "Not decided: nothing was acknowledged"
    assert verdict.other_reasons == ("t-0 was not read",)


def test_what_is_not_decided_of_an_anomaly_is_told_beside_the_incidents(tmp_path):
    checked(tmp_path, **CUT)
    results = json.loads((tmp_path / "results.json").read_text())
    undecided = "lost-acked-write: of 8 answers it is undecided whether the contract allows it"
    results["reasons"] = ["lost-acked-write: 1 violation", undecided]
    (tmp_path / "results.json").write_text(json.dumps(results))
    run = load_run(tmp_path)
    assert summarize(run, Joined(run)).verdict.other_reasons == (undecided,)


def test_the_election_that_did_the_harm_is_told_with_what_had_hit_the_leader_before(tmp_path):
    """The first violation is about broker 1, at 20 s; 3 leads then."""
    needed.write(tmp_path, Needed((2,), (1,), (), 3, 4))
    of_log = {"topic": "log"}
    cluster = [{**leads(at_s, broker, at_s, 20, (1, 3)), **of_log} for at_s, broker in [(19, 3), (21, 2), (24, 1)]]
    faults = [*LATER["faults"], fault(4, "kill", [3], 20, 30), fault(5, "pause", [2], 22, 30)]
    run = checked(tmp_path, **{**LATER, "cluster": cluster, "faults": faults})
    said = "The harm itself came when broker 1 was elected leader, as was seen at 24.000 s"
    assert told(run)["Faults needed"].endswith(f" {said}, after broker 2 was paused at 22.000 s (fault #5).")
    assert said not in told(checked(tmp_path, **{**LATER, "cluster": cluster[:2], "faults": faults}))["Faults needed"]
    again = {**LATER, "cluster": [cluster[2]], "faults": faults}
    assert told(checked(tmp_path, **again))["Faults needed"].endswith(f" {said}.")


@pytest.mark.parametrize(
    ("node", "whose"), [(200, "ZooKeeper's: the node that ended is one of its servers"), (2, "The broker software's:")]
)
def test_a_server_of_zookeeper_that_ended_is_no_mistake_of_the_broker(tmp_path, node, whose):
    evidence = json.dumps({"fault": {"fault": 1, "kind": "page-cache-loss"}, "last_words": "No snapshot found"})
    ended = lost(None, 9, anomaly="node-lost", topic=None, partition=None, broker=node, evidence=evidence)
    run = checked(tmp_path, faults=[fault(1, "page-cache-loss", [node], 5, 8)], anomalies=[ended])
    assert told(run)["Whose mistake"].startswith(whose)
    assert told(run)["Faults behind it"].endswith(
        "(fault #1): the last fault on this node before it ended; its last words, in the incident, say more. The run"
        " was not repeated without it."
    )
