"""An ISR that did not become full again: the page says which replica stays out, and whether it or its leader fails."""

import json

import pytest

from incidents import diagnose
from incidents.node_logs import complaints_of
from tests.incidents.stored import S, fault, follows, leads, lost, run_in, settings

MISFIT = "t-0: expected a batch at offset 18 of t-0, found 15"
REFUSED = f"00:00:39.800 ERROR   {MISFIT}"
NOT_FULL = lost(None, 40, anomaly="unavailable", evidence=json.dumps({"what": "isr-not-full"}))
PAUSE = fault(7, "pause", [3], 10, 20)


def samples(end_of_follower=90):
    of_leader = [leads(30 + second, 1, 4, 10 * second, (1, 2)) for second in range(10)]
    return [*of_leader, follows(39.1, 2, 1, 4, 90), follows(39.1, 3, 1, 4, end_of_follower)]


def cause_of(directory, cluster, logs=(), **changed):
    for node, lines in dict(logs).items():
        folder = directory / "nodes" / str(node)
        folder.mkdir(parents=True)
        (folder / "node.log").write_text("\n".join(lines))
    run = run_in(directory, cluster=cluster, faults=[PAUSE], anomalies=[NOT_FULL], runs=[settings(**changed)])
    (incident,) = diagnose(run)
    assert incident.headline.startswith("t-0 did not recover: the ISR did not become full")
    return incident.cause


def test_a_replica_whose_log_speaks_against_the_partition_is_quoted_and_no_fault_is_blamed(tmp_path):
    log = ["00:00:20.000 INFO    t-0: cut from 20 to 18", *[REFUSED.replace("15", "14")] * 2, REFUSED]
    cause = cause_of(tmp_path, samples(end_of_follower=18), {3: log, 2: ["00:00:39.000 INFO    nothing"]})
    assert cause.sentence == (
        "the ISR did not become full again; broker 3 stays out of it, and its log complains 3 times, at last:"
        f" “{MISFIT}”"
    )
    assert (cause.node, cause.faults) == (3, ())
    (explained,) = cause.evidence
    assert explained == (
        "The log of broker 3 ends at 18, inside a batch of its leader's that begins at 15: the two logs have different"
        " records before that end."
    )


TIMES = {"healed_ns": 20 * S, "bound_ns": 50 * S}
UNWRITTEN = lost(None, 40, anomaly="unavailable", evidence=json.dumps({"what": "no-acknowledged-write", **TIMES}))


def test_writes_that_were_not_acknowledged_are_of_the_replica_that_stays_out(tmp_path):
    (tmp_path / "nodes" / "3").mkdir(parents=True)
    (tmp_path / "nodes" / "3" / "node.log").write_text(REFUSED)
    run = run_in(tmp_path, cluster=samples(end_of_follower=18), faults=[PAUSE], anomalies=[NOT_FULL, UNWRITTEN])
    (incident,) = diagnose(run)
    assert (incident.anomalies, incident.cause.node) == ({"unavailable": (2, 0)}, 3)


def test_where_no_write_was_acknowledged_the_time_is_told_in_which_none_was(tmp_path):
    """Not as if none had been since the last fault began."""
    (incident,) = diagnose(run_in(tmp_path, faults=[PAUSE], anomalies=[UNWRITTEN]))
    none = "no write was acknowledged from 20.000 s, when the last fault was over, to 50.000 s"
    assert incident.cause.sentence == none
    assert incident.cause.evidence == ("The last fault: broker 3 was paused at 10.000 s (fault #7).",)


@pytest.mark.parametrize(("version", "known"), [("zk-v1", True), ("C1", True), ("C2", False), ("K5", False)])
def test_a_design_whose_logs_are_compared_by_their_ends_is_known_for_it(tmp_path, version, known):
    log = {3: [REFUSED]}
    cause = cause_of(tmp_path, samples(end_of_follower=18), log, system="harrow", generation=version)
    assert ("(Z-04 and Z-05). It is a known gap of the protocol." in cause.allowed_by) == known


@pytest.mark.parametrize(("shrunk_s", "faults"), [(15, (7,)), (29, ())])
def test_the_fault_that_put_a_replica_out_of_the_isr_is_named_if_it_had_not_ended_long_before(
    tmp_path, shrunk_s, faults
):
    """Broker 3 is paused from 10 s to 20 s."""
    before = [leads(9, 1, 4, 5, (1, 2, 3)), leads(shrunk_s, 1, 4, 9, (1, 2))]
    cause = cause_of(tmp_path, [*before, *samples()])
    assert cause.faults == faults
    story = f"The ISR of t-0 was [1, 2, 3] before, and has been [1, 2] since {shrunk_s}.000 s: broker 3 was paused at "
    assert any(line.startswith(story) for line in cause.evidence) == bool(faults)


def test_a_replica_whose_log_failed_before_a_fault_hit_it_was_not_put_out_by_that(tmp_path):
    """Broker 3 cannot append from 5 s on, leaves the ISR at 12 s, and is paused from 10 s to 20 s."""
    before = [leads(4, 1, 4, 5, (1, 2, 3)), leads(12, 1, 4, 9, (1, 2))]
    log = {3: ["00:00:05.000 " + REFUSED.split(" ", 1)[1].replace("found 15", "found 11"), REFUSED]}
    local = {"environment": "local", "started_unix_ms": 0}
    cause = cause_of(tmp_path, [*before, *samples(end_of_follower=18)], log, **local)
    assert cause.faults == ()
    told = (
        "The ISR of t-0 was [1, 2, 3] before, and has been [1, 2] since 12.000 s: the log of broker 3 says so since 5."
    )
    assert any(line.startswith(told) for line in cause.evidence)


def test_another_complaint_is_not_explained(tmp_path):
    cause = cause_of(tmp_path, samples(end_of_follower=18), {3: [REFUSED.replace("found 15", "found 19")]})
    assert cause.evidence == ()


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([REFUSED, "00:02:00.000 INFO    goes on"], id="it is over"),
        pytest.param([REFUSED.replace("ERROR", "INFO")], id="no complaint"),
        pytest.param([REFUSED.replace("t-0", "t-01")], id="another partition"),
        pytest.param([REFUSED.replace("t-0", "other.t-0")], id="another topic"),
        pytest.param(["no time at all: ERROR t-0"], id="no time"),
        pytest.param(["\udcff\x00ERROR t-0".encode("utf-8", "surrogateescape").decode("latin-1")], id="no text"),
    ],
)
def test_a_log_that_does_not_speak_against_the_partition_at_its_end_is_not_quoted(lines, tmp_path):
    cause = cause_of(tmp_path, samples(end_of_follower=18), {3: lines})
    assert cause.sentence == "the ISR did not become full again after broker 3 was paused at 10.000 s (fault #7)"
    assert complaints_of(tmp_path, 3).against("t", 0) is None


def test_a_replica_that_has_caught_up_and_is_not_taken_in_is_the_failure_of_its_leader(tmp_path):
    cause = cause_of(tmp_path, samples())
    assert cause.sentence == (
        "the ISR did not become full again; broker 3 has caught up, and the leader, broker 1, does not take it in"
    )
    assert (cause.node, cause.evidence) == (1, ())


def test_the_designs_that_look_at_the_isr_only_while_they_commit_say_so(tmp_path):
    cause = cause_of(tmp_path, samples(), generation="zk-v2")
    assert "(Z-13)" in "".join(cause.evidence)


@pytest.mark.parametrize(
    "latest",
    [
        pytest.param(follows(39.1, 3, 2, 3, 90), id="it follows another leader"),
        pytest.param(follows(31.1, 3, 1, 4, 90), id="nothing was heard of it since"),
        pytest.param(follows(39.1, 3, 1, 4, 60), id="it lags"),
    ],
)
def test_a_replica_that_does_not_follow_is_not_called_caught_up(latest, tmp_path):
    cause = cause_of(tmp_path, [*samples()[:-1], latest])
    assert cause.faults == (7,)


SAME_ELSEWHERE = "t-1: expected a batch at offset 7 of t-1, found 6"


@pytest.mark.parametrize(("of_second", "incidents"), [(SAME_ELSEWHERE, 1), ("", 2)])
def test_one_replica_that_stays_out_of_several_partitions_in_one_way_is_one_incident(tmp_path, of_second, incidents):
    folder = tmp_path / "nodes" / "3"
    folder.mkdir(parents=True)
    lines = [REFUSED, *([f"00:00:39.800 ERROR   {of_second}"] if of_second else [])]
    (folder / "node.log").write_text("\n".join(lines))
    others = [{**sample, "partition": 1} for sample in samples(end_of_follower=6)]
    cluster = [*samples(end_of_follower=18), *others]
    rows = [NOT_FULL, {**NOT_FULL, "partition": 1}]
    found = diagnose(run_in(tmp_path, cluster=cluster, faults=[PAUSE], anomalies=rows, runs=[settings()]))
    assert len(found) == incidents
    if incidents == 1:
        assert found[0].headline.startswith("2 partitions (t-0, t-1) did not recover: the ISR did not become full")


def test_a_replica_that_was_moved_away_is_not_asked_for(tmp_path):
    """Broker 4 had one, and was seen later with another partition alone."""
    moved = [follows(20, 4, 1, 4, 60), follows(39, 4, 1, 1, 7, partition=1)]
    cause = cause_of(tmp_path, [*samples(), *moved])
    assert cause.sentence == (
        "the ISR did not become full again; broker 3 has caught up, and the leader, broker 1, does not take it in"
    )


def test_nobody_is_blamed_while_another_replica_is_down(tmp_path):
    cause = cause_of(tmp_path, [*samples(), follows(20, 4, 1, 4, 60)])
    assert cause.sentence == "the ISR did not become full again after broker 3 was paused at 10.000 s (fault #7)"


@pytest.mark.parametrize(("back_s", "faults"), [(19, (7,)), (22, ())])
def test_a_fault_after_which_the_replica_was_back_in_the_isr_has_not_put_it_out(tmp_path, back_s, faults):
    """Broker 3 is paused from 10 s to 20 s, is out of the ISR at 15 s, back at `back_s`, and out again at 24 s."""
    members = [(9, (1, 2, 3)), (15, (1, 2)), (back_s, (1, 2, 3)), (24, (1, 2))]
    before = [leads(at_s, 1, 4, 9, isr) for at_s, isr in members]
    assert cause_of(tmp_path, [*before, *samples()]).faults == faults


def differing(offset, broker, **changed):
    """Offset at which one broker holds another record than the two others."""
    replicas = [{"broker": each, "value": 8 if each == broker else 9} for each in (1, 2, 3)]
    evidence = json.dumps({"values": [8, 9], "holders": 3, "expected_holders": 3, "replicas": replicas})
    return lost(offset, None, anomaly="divergent-replicas", evidence=evidence, **changed)


def incidents_beside(directory, *rows):
    folder = directory / "nodes" / "3"
    folder.mkdir(parents=True)
    (folder / "node.log").write_text(REFUSED)
    return diagnose(run_in(directory, cluster=samples(end_of_follower=18), faults=[PAUSE], anomalies=[NOT_FULL, *rows]))


def test_a_replica_that_stays_out_by_records_that_differ_is_of_the_incident_of_these(tmp_path):
    (incident,) = incidents_beside(tmp_path, differing(16, 3), differing(17, 3))
    assert incident.anomalies == {"divergent-replicas": (2, 0), "unavailable": (1, 0)}
    assert incident.headline.startswith(
        "2 offsets of t-0 (offsets 16\N{EN DASH}17) were different on different replicas"
    )
    assert any(line.startswith("Later t-0 did not recover: the ISR did not") for line in incident.cause.evidence)
    assert any("ends at 18, inside a batch of its leader's" in line for line in incident.cause.evidence)


def test_what_differs_within_the_contract_speaks_for_the_outage(tmp_path):
    allowed = [differing(offset, 3, within_contract=True) for offset in (15, 16, 17)]
    (incident,) = incidents_beside(tmp_path, *allowed)
    assert incident.anomalies == {"divergent-replicas": (0, 3), "unavailable": (1, 0)}
    assert incident.headline.startswith("t-0 did not recover: the ISR did not become full again; broker 3 stays out")
    assert (
        "Broker 3 holds other records than the others at t-0 (offsets 15\N{EN DASH}17), which by itself is within the"
        " contract here." in incident.cause.evidence
    )


@pytest.mark.parametrize(
    "row", [differing(16, 2), differing(16, 3, partition=1)], ids=["another broker's", "of another partition"]
)
def test_records_that_do_not_keep_it_out_are_an_incident_of_their_own(tmp_path, row):
    assert len(incidents_beside(tmp_path, row)) == 2


def test_who_cut_off_what_a_replica_kept_is_told_with_the_faults_meanwhile(tmp_path):
    """Broker 2 cuts its log while broker 3 is paused, between 12 s and 13 s."""
    cut = [follows(12, 2, 1, 3, 18), follows(13, 2, 1, 3, 15)]
    allowed = [differing(offset, 3, within_contract=True) for offset in (15, 16)]
    rows = [NOT_FULL, *allowed, differing(3, 3, partition=1)]
    folder = tmp_path / "nodes" / "3"
    folder.mkdir(parents=True)
    (folder / "node.log").write_text(REFUSED)
    run = run_in(tmp_path, cluster=[*cut, *samples(end_of_follower=18)], faults=[PAUSE], anomalies=rows)
    (outage,) = [incident for incident in diagnose(run) if "unavailable" in incident.anomalies]
    told = "Broker 2 cut its log of t-0 from 18 or more to 15 between 12.000 s and 13.000 s, and another replica"
    assert any(line.startswith(told) for line in outage.cause.evidence)
    assert "Meanwhile broker 3 was paused at 10.000 s (fault #7)." in outage.cause.evidence
    assert outage.cause.faults == (7,)
    (other,) = [incident for incident in diagnose(run) if "unavailable" not in incident.anomalies]
    assert other.cause.faults == ()
