"""Each cause of a loss is named where it is planted, and not where something else was."""

import json

import pytest

from history.anomalies import Extent
from history.schema import TABLES
from incidents import diagnose
from incidents.model import Election
from tests.incidents.stored import S, fault, follows, leads, lost, run_in, settings


def only(directory, totals=None):
    (incident,) = diagnose(directory, totals)
    assert incident.cause is not None, incident.headline
    return incident


def test_a_page_cache_loss_of_the_last_replica_is_named_with_its_fault(tmp_path):
    # The samples that Apache Kafka gave of itself in a run that lost records so (KIP-966, ELR off).
    cluster = [
        leads(13.73, 3, 0, 3, (1, 2, 3)),
        leads(20.86, 3, 0, 252, (2, 3)),
        leads(27.62, 3, 2, 0, (3,)),
        leads(39.29, 3, 2, 764, (1, 2, 3)),
        leads(13.70, 2, 0, 13, (1, 2, 3), partition=2),
        leads(27.62, 3, 3, 0, (3,), partition=2),
    ]
    faults = [
        fault(1, "pause", [1], 16.56, 38.84),
        fault(2, "pause", [2], 19.80, 36.03),
        fault(3, "page-cache-loss", [3], 22.83, 27.63),
    ]
    rows = [lost(offset, 15) for offset in range(5)] + [lost(offset, 15, partition=2) for offset in range(3)]
    incident = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=rows))
    assert incident.cause.kind == "storage-loss"
    assert incident.cause.faults == (3, 1, 2)
    assert incident.headline == (
        "8 acknowledged writes to 2 partitions (offsets of t-0 0\N{EN DASH}4, t-2 0\N{EN DASH}2) were lost: "
        "broker 3 lost its page cache at 22.830 s (fault #3) and was elected leader."
    )
    assert "KIP-966" in incident.cause.allowed_by
    assert any("Broker 1 was paused at 16.560 s (fault #1)" in sentence for sentence in incident.cause.evidence)


def test_faults_that_ended_the_other_replicas_before_the_election_made_the_loss_possible_too(tmp_path):
    cluster = [leads(9, 3, 0, 20, (1, 2, 3)), leads(40, 3, 2, 5, (3,))]
    faults = [
        fault(1, "page-cache-loss", [3], 22, 24),
        fault(2, "kill", [1, 2], 23, 38),
        fault(3, "kill", [1], 41, 45),
        fault(4, "slow-disk", [2], 25, 30),
    ]
    cause = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10)])).cause
    assert cause.faults == (1, 2)
    assert cause.evidence[-2:] == (
        "Broker 1 was killed at 23.000 s (fault #2), before that election.",
        "Broker 2 was killed at 23.000 s (fault #2), before that election.",
    )
    led_meanwhile = [*cluster[:1], leads(39, 1, 1, 20, (1, 2, 3)), cluster[1]]
    run = run_in(tmp_path / "back", cluster=led_meanwhile, faults=faults, anomalies=[lost(15, 10)])
    assert only(run).cause.faults == (1,)  # they were back before it


def lost_by_a_last_replica(directory, *, pauses):
    """Broker 1 leaves the ISR after a record is acknowledged, then broker 3 loses its page cache."""
    cluster = [leads(9, 3, 0, 20, (1, 3)), leads(12, 3, 0, 20, (3,)), leads(27, 3, 2, 0, (3,))]
    faults = [fault(1, "pause", [1], *pauses), fault(3, "page-cache-loss", [3], 22, 26)]
    return only(run_in(directory, cluster=cluster, faults=faults, anomalies=[lost(15, 10)])).cause


def test_a_replica_that_came_back_outside_of_the_isr_is_said_to_have_left_it(tmp_path):
    """Broker 1 is in the ISR when the fault comes, and no longer when the election does."""
    cluster = [leads(21, 3, 0, 20, (1, 3)), leads(25, 2, 1, 20, (2,)), leads(34, 3, 2, 0, (3,))]
    faults = [fault(1, "kill", [1], 20, 30), fault(3, "page-cache-loss", [3], 22, 26)]
    cause = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10)])).cause
    left = "Broker 1 was killed at 20.000 s (fault #1), and was out of the ISR by the election, so that it could not be"
    left += " elected."
    assert left in cause.evidence


LEADERLESS = {**follows(16, 3, -1, 1, 20), "isr": [1]}
"""Nobody leads, and the ISR is the one that has lost its pages."""


@pytest.mark.parametrize(
    ("faults", "put_out", "later"),
    [
        ([fault(1, "isolate", [100], 11, 15.5)], ": controller 100 was cut off at 11.000 s (fault #1).", (1,)),
        ([fault(1, "isolate", [3], 11, 11.5)], ".", ()),
        ([fault(1, "kill", [2], 18, 30)], ".", ()),  # it was out of the ISR by then
        ([fault(1, "isolate", [100], 3, 5)], ".", ()),
        ([fault(1, "slow-network", [3], 11, 11.5)], ".", ()),
    ],
    ids=["no session was renewed", "over before that", "killed when it was out", "long before", "only slowed"],
)
def test_who_had_left_the_isr_before_the_one_without_its_log_was_elected_is_told(tmp_path, faults, put_out, later):
    cluster = [leads(9, 3, 0, 20, (1, 2, 3)), LEADERLESS, leads(25, 1, 2, 0, (1,))]
    runs = [settings(controllers=1)]
    lossy = fault(3, "page-cache-loss", [1], 12, 24)
    cause = only(run_in(tmp_path, runs=runs, cluster=cluster, faults=[*faults, lossy], anomalies=[lost(15, 9)])).cause
    told = f"Brokers 2 and 3 had left the ISR of t-0 by 16.000 s, which was [1] then{put_out}"
    assert told in cause.evidence
    assert cause.faults == (3, *later)


@pytest.mark.parametrize(
    ("hit", "controllers", "told"), [([100, 101], 3, True), ([101], 3, False), ([100], None, False)]
)
def test_a_fault_on_the_controllers_ends_sessions_if_it_hits_a_majority(tmp_path, hit, controllers, told):
    cluster = [leads(9, 3, 0, 20, (1, 2, 3)), LEADERLESS, leads(25, 1, 2, 0, (1,))]
    faults = [fault(1, "isolate", hit, 11, 15.5), fault(3, "page-cache-loss", [1], 12, 24)]
    runs = [settings(controllers=controllers)]
    cause = only(run_in(tmp_path, runs=runs, cluster=cluster, faults=faults, anomalies=[lost(15, 9)])).cause
    assert (1 in cause.faults) is told


def test_of_an_isr_that_nobody_is_seen_to_have_left_nothing_is_told(tmp_path):
    cluster = [leads(9, 3, 0, 20, (1, 2, 3)), leads(25, 1, 2, 0, (1,))]
    faults = [fault(1, "isolate", [100], 11, 15.5), fault(3, "page-cache-loss", [1], 12, 24)]
    cause = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 9)])).cause
    assert not any("had left the ISR of" in line for line in cause.evidence)
    assert cause.faults == (3,)


@pytest.mark.parametrize(("resumed_s", "named"), [(12.9, True), (14, True), (10, False)])
def test_a_pause_that_ends_when_the_log_is_cut_is_behind_the_cut(tmp_path, resumed_s, named):
    cluster = [
        leads(9, 1, 0, 20, (1, 2, 3)),
        follows(9, 3, 1, 0, 20),
        follows(13, 3, 1, 0, 12),
        leads(15, 3, 1, 12, (2, 3)),
    ]
    faults = [fault(2, "pause", [3], 6, resumed_s), fault(4, "kill", [1], 14, 30)]
    cause = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 8.9)])).cause
    assert cause.kind == "wrong-cut"
    assert (2 in cause.faults) is named
    said = "Broker 3 was paused at 6.000 s (fault #2), and cut its log when it went on."
    assert (said in cause.evidence) is named


@pytest.mark.parametrize(("cut_s", "incidents"), [(13, 1), (30, 2)])
def test_what_was_cut_off_another_log_at_the_same_moment_is_of_the_same_incident(tmp_path, cut_s, incidents):
    """Of partition 1 nobody lost anything that he had been promised, but broker 1 has kept it."""
    cluster = [
        *(
            one
            for place in (0, 1)
            for one in (leads(9, 1, 0, 20, (1, 2, 3), partition=place), follows(9, 3, 1, 0, 20, place))
        ),
        follows(13, 3, 1, 0, 12),
        leads(15, 3, 1, 12, (2, 3)),
        follows(cut_s - 1, 3, 1, 0, 20, 1),
        follows(cut_s, 3, 1, 0, 18, 1),
        leads(cut_s + 2, 3, 1, 18, (2, 3), partition=1),
    ]
    details = {"replicas": [{"broker": 1, "value": 5}, {"broker": 3, "value": 6}]}
    apart = lost(19, 60, 1, anomaly="divergent-replicas", evidence=json.dumps(details))
    found = diagnose(run_in(tmp_path, cluster=cluster, anomalies=[lost(15, 8.9), apart]))
    assert len(found) == incidents
    told = "Broker 3 cut its log of t-1 from 20 or more to 18 between 12.000 s and 13.000 s, too, and another replica"
    assert any(sentence.startswith(told) for sentence in found[0].causes[0].evidence) is (incidents == 1)


def test_replicas_that_cut_the_records_off_to_follow_are_told_but_not_those_that_never_had_them_again(tmp_path):
    """Broker 1 cuts the lost records; broker 2 loses its own storage, and later both cut other records from there."""
    cluster = [
        leads(21, 3, 0, 20, (1, 2, 3)),
        *(follows(21, broker, 3, 0, 20) for broker in (1, 2)),
        leads(34, 3, 2, 0, (3,)),
        *(follows(38, broker, 3, 2, 0) for broker in (1, 2)),
        leads(50, 3, 2, 40, (1, 2, 3)),
        *(follows(50, broker, 3, 2, 40) for broker in (1, 2)),
        leads(55, 3, 3, 10, (3,)),
        *(follows(58, broker, 3, 3, 10) for broker in (1, 2)),
    ]
    faults = [
        fault(1, "page-cache-loss", [3], 22, 26),
        fault(2, "page-cache-loss", [2], 35, 37),
        *(fault(number, "kill", [broker], 22, 36) for number, broker in ((3, 1), (4, 2))),
    ]
    cause = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10)])).cause
    assert [sentence for sentence in cause.evidence if " cut its log " in sentence] == [
        (
            "Broker 1 cut its log of t-0 from 20 or more to 0 between 21.000 s and 38.000 s, to follow broker 3 in"
            " leader epoch 2."
        )
    ]


def test_how_many_of_the_lost_records_a_broker_holds_still_is_told(tmp_path):
    cluster = [leads(9, 3, 0, 20, (1, 2, 3)), leads(25, 1, 2, 0, (1,))]
    faults = [fault(3, "page-cache-loss", [1], 12, 24)]
    holds = {"topic": "t", "partition": 0, "leader_epoch": 0}
    logs = [{**holds, "broker": 2, "offset": 14, "value": 1014}, {**holds, "broker": 2, "offset": 15, "value": 7}]
    rows = [lost(offset, 9) for offset in (14, 15)]
    cause = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=rows, logs=logs)).cause
    still = "After the run broker 2 still holds 1 of the 2 lost records that the table of anomalies has."
    assert cause.evidence[-1] == still


def test_a_replica_that_had_only_some_of_the_records_cut_these_off(tmp_path):
    """Broker 2 had none of them: what it cuts off was not lost."""
    cluster = [
        *(leads(21, 3, 0, 20, (1, 2, 3)), follows(21, 1, 3, 0, 17), follows(21, 2, 3, 0, 15)),
        *(leads(34, 3, 2, 0, (3,)), follows(38, 1, 3, 2, 0), follows(38, 2, 3, 2, 0)),
    ]
    faults = [fault(1, "page-cache-loss", [3], 22, 26), fault(3, "kill", [1, 2], 22, 36)]
    rows = [lost(offset, 10) for offset in (15, 19)]
    cause = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=rows)).cause
    assert [sentence for sentence in cause.evidence if " cut its log " in sentence] == [
        (
            "Broker 1 cut its log of t-0 from 17 or more to 0 between 21.000 s and 38.000 s, to follow broker 3 in"
            " leader epoch 2."
        )
    ]


def test_a_fault_that_put_a_replica_out_of_the_isr_is_one_of_those_that_made_the_loss_possible(tmp_path):
    cause = lost_by_a_last_replica(tmp_path, pauses=(11, 30))
    assert cause.faults == (3, 1)
    assert cause.evidence[-1] == (
        "Broker 1 was paused at 11.000 s (fault #1), and was out of the ISR, so that it could not be elected."
    )


@pytest.mark.parametrize(
    ("level", "said"),
    [
        (None, "no sample of it shows an ELR, and whether these brokers tell of one is not known."),
        (
            0,
            "(eligible.leader.replicas.version=0), which would forbid that: it is a known gap of the protocol",
        ),
        (1, "(eligible.leader.replicas.version=1), which forbid that: it is a bug of the software (KIP-966)."),
    ],
)
def test_whether_the_protocol_or_the_software_is_to_blame_is_what_the_cluster_runs_with(tmp_path, level, said):
    versions = {"apache-kafka": "4.1"} if level is None else {"eligible.leader.replicas.version": str(level)}
    cluster = [leads(9, 3, 0, 20, (1, 3)), leads(12, 3, 0, 20, (3,)), leads(27, 3, 2, 0, (3,))]
    faults = [fault(3, "page-cache-loss", [3], 22, 26)]
    runs = [settings(spec=json.dumps({"versions": versions}))]
    incident = only(run_in(tmp_path, runs=runs, cluster=cluster, faults=faults, anomalies=[lost(15, 10)]))
    assert said in incident.cause.allowed_by


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("K5", "Version K5 has eligible leader replicas (KIP-966), which forbid that: it is a bug of the software."),
        ("K3", "Version K3 has no ELR, which would forbid that: it is a known gap of the protocol (KIP-966)."),
    ],
)
def test_of_harrow_s_own_broker_the_version_says_whether_there_is_an_elr(tmp_path, version, said):
    cluster = [leads(9, 3, 0, 20, (1, 3)), leads(12, 3, 0, 20, (3,)), leads(27, 3, 2, 0, (3,))]
    runs = [settings(system="harrow", generation=version)]
    faults = [fault(3, "page-cache-loss", [3], 22, 26)]
    incident = only(run_in(tmp_path, runs=runs, cluster=cluster, faults=faults, anomalies=[lost(15, 10)]))
    assert incident.cause.allowed_by.endswith(said)


def test_a_fault_that_was_over_when_the_leader_lost_its_data_is_none_of_them(tmp_path):
    assert lost_by_a_last_replica(tmp_path, pauses=(11, 14)).faults == (3,)


def test_a_leader_that_was_alone_in_the_isr_acknowledged_alone(tmp_path):
    cluster = [leads(9, 3, 0, 10, (3,)), leads(11, 3, 0, 20, (3,)), leads(15, 3, 1, 10, (3,))]
    faults = [fault(6, "page-cache-loss", [3], 12.8, 14)]
    incident = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(n, 10) for n in range(10, 20)]))
    assert incident.headline == (
        "10 acknowledged writes to t-0 (offsets 10\N{EN DASH}19) were lost: broker 3 acknowledged them alone, "
        "lost its page cache at 12.800 s (fault #6) and was elected again."
    )


def test_a_loss_of_another_brokers_disk_is_not_the_cause(tmp_path):
    cluster = [
        leads(9, 1, 0, 20, (1, 2)),
        follows(11, 3, 1, 0, 10),
        leads(15, 3, 1, 10, (3,)),
    ]
    faults = [fault(1, "page-cache-loss", [2], 12, 14)]
    cause = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10)])).cause
    assert cause.kind == "unclean-election"
    assert 1 not in cause.faults
    assert cause.node == 3


def test_a_fault_that_did_not_take_effect_is_not_the_cause(tmp_path):
    cluster = [leads(9, 1, 0, 20, (1, 3)), follows(11, 3, 1, 0, 20), leads(15, 3, 1, 10, (3,))]
    faults = [fault(1, "page-cache-loss", [3], 12, 14, took_hold=False)]
    assert only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10)])).cause.kind == "wrong-cut"


@pytest.mark.parametrize(("killed_s", "named"), [(14, (2, 3)), (16, (2,))])
def test_a_wrong_cut_names_what_went_before_it_and_what_kept_who_held_the_records_away(tmp_path, killed_s, named):
    """Broker 3 is cut off, cuts its log and leads at 15 s; broker 1 led before, and is killed before that or after."""
    cluster = [
        leads(9, 1, 0, 20, (1, 3)),
        follows(11, 3, 1, 0, 20),
        follows(13, 3, 1, 0, 10),
        leads(15, 3, 1, 10, (3,)),
    ]
    faults = [fault(2, "isolate", [3], 11.5, 12), fault(3, "kill", [1], killed_s, killed_s + 4)]
    cause = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10)])).cause
    assert (cause.kind, cause.faults) == ("wrong-cut", named)
    assert "Broker 3 was cut off at 11.500 s (fault #2), before it cut its log." in cause.evidence
    away = "Broker 1, which held them, was killed at 14.000 s (fault #3), before that election."
    assert (away in cause.evidence) == (3 in named)


def test_a_wrong_cut_names_what_kept_it_from_being_mended_and_who_held_the_records_outside_the_isr(tmp_path):
    """Broker 3 is cut off when it has cut its log; broker 2, which nothing hits, is out of the ISR, and nobody else."""
    cluster = [
        leads(9, 1, 0, 20, (1, 3)), follows(11, 3, 1, 0, 20), follows(13, 3, 1, 0, 10), follows(13.5, 2, 1, 0, 20),
        leads(15, 3, 1, 10, (3,)),
    ]  # fmt: skip
    faults = [fault(2, "isolate", [3], 13.2, 16), fault(3, "isolate", [3], 15.5, 16)]
    cause = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10)])).cause
    again = "Broker 3 was cut off at 13.200 s (fault #2), when it had cut its log: it may not have fetched them again."
    assert again in cause.evidence
    assert not any("fault #3" in line for line in cause.evidence)
    assert "Broker 2, which held them, was out of the ISR [1, 3] last seen before that election." in cause.evidence
    assert not any(line.startswith("Broker 1, which held them, was out") for line in cause.evidence)


def test_without_leader_epochs_a_leader_that_leads_again_is_a_new_one(tmp_path):
    """Broker 1 leads at 9 s and at 15 s, and in between follows broker 2, with a log that ends at 10."""
    cluster = [
        leads(9, 1, NO_EPOCH, 20, (1, 2)), leads(12, 2, NO_EPOCH, 30, (1, 2)),
        follows(12.5, 1, 2, NO_EPOCH, 20), follows(14, 1, 2, NO_EPOCH, 10), leads(15, 1, NO_EPOCH, 40, (1, 2)),
    ]  # fmt: skip
    cause = only(run_in(tmp_path, cluster=cluster, anomalies=[lost(15, 10)])).cause
    assert (cause.kind, cause.node) == ("wrong-cut", 1)
    assert "and was then elected" in cause.sentence


@pytest.mark.parametrize(("generation", "says"), [("zk-v1", True), ("C1", False), ("K5", False)])
def test_where_leaders_write_the_isr_whatever_is_there_an_election_outside_of_it_says_so(tmp_path, generation, says):
    cluster = [leads(9, 1, 0, 20, (1, 2)), follows(11, 3, 1, 0, 10), leads(15, 3, 1, 10, (3,))]
    runs = [settings(generation=generation)]
    cause = only(run_in(tmp_path, runs=runs, cluster=cluster, anomalies=[lost(15, 10)])).cause
    assert cause.kind == "unclean-election"
    assert ("(Z-02)" in " ".join(cause.evidence)) == says


@pytest.mark.parametrize(
    ("version", "known"), [("zk-v1", "(Z-01)"), ("zk-v2", "(Z-01)"), ("C1", "(B-11)"), ("C2", ""), ("K5", "")]
)
def test_a_version_that_is_known_for_wrong_cuts_says_so_of_one(tmp_path, version, known):
    cluster = [leads(9, 1, 0, 20, (1, 3)), follows(11, 3, 1, 0, 20), leads(15, 3, 1, 10, (3,))]
    runs = [settings(system="harrow", generation=version)]
    cause = only(run_in(tmp_path, runs=runs, cluster=cluster, anomalies=[lost(15, 10)])).cause
    assert cause.kind == "wrong-cut"
    assert cause.allowed_by == "" if not known else known in cause.allowed_by
    assert ("a known gap of the protocol" in cause.allowed_by) == bool(known)


def test_of_a_flaw_of_a_system_that_is_not_ours_no_version_is_known_for_it(tmp_path):
    cluster = [leads(9, 1, 0, 20, (1, 3)), follows(11, 3, 1, 0, 20), leads(15, 3, 1, 10, (3,))]
    runs = [settings(system="apache-kafka", generation="zk-v1")]
    assert only(run_in(tmp_path, runs=runs, cluster=cluster, anomalies=[lost(15, 10)])).cause.allowed_by == ""


@pytest.mark.parametrize(("epoch", "led"), [(1, True), (-1, False)])
def test_without_leader_epochs_nothing_shows_that_a_leader_led_all_the_time(tmp_path, epoch, led):
    cluster = [leads(9, 3, epoch, 20, (1, 3)), leads(15, 3, epoch, 10, (3,))]
    sentence = only(run_in(tmp_path, cluster=cluster, anomalies=[lost(15, 10)])).cause.sentence
    assert ("while it led" in sentence) == led
    assert ("and was then elected" in sentence) != led


def test_an_unclean_election_that_the_setting_allows_says_so(tmp_path):
    cluster = [leads(9, 1, 0, 20, (1,)), leads(15, 3, 1, 10, (3,))]
    rows = [lost(15, 10, within_contract=True)]
    faults = [fault(4, "kill", [1], 12, 20)]
    runs = [settings(unclean_election=True)]
    incident = only(run_in(tmp_path, runs=runs, cluster=cluster, faults=faults, anomalies=rows))
    assert incident.within_contract
    assert incident.cause.kind == "unclean-election"
    assert incident.cause.faults == (4,)
    assert incident.cause.allowed_by == "unclean.leader.election.enable=true lets any replica lead."


@pytest.mark.parametrize(("seen_s", "kind"), [(12, "unclean-election"), (9.5, "wrong-cut")])
def test_a_replica_that_never_had_all_of_the_records_did_not_cut_them_off(tmp_path, seen_s, kind):
    cluster = [leads(9, 1, 0, 20, (1, 2)), follows(seen_s, 3, 1, 0, 12), leads(15, 3, 1, 10, (3,))]
    rows = [lost(offset, 10) for offset in range(10, 20)]
    cause = only(run_in(tmp_path, cluster=cluster, anomalies=rows)).cause
    assert cause.kind == kind
    assert ("a log that ends at 12." in " ".join(cause.evidence)) == (kind == "unclean-election")


@pytest.mark.parametrize(("lacks_s", "guilty"), [(19, 4), (25, 6)])
def test_of_two_losses_of_the_page_cache_that_counts_after_which_the_record_was_gone(tmp_path, lacks_s, guilty):
    samples = [leads(9, 1, 0, 20, (1, 3)), follows(12, 3, 1, 0, 20), follows(lacks_s, 3, 1, 0, 5)]
    cluster = [*samples, leads(30, 3, 1, 5, (3,))]
    faults = [fault(4, "page-cache-loss", [3], 15, 17), fault(6, "page-cache-loss", [3], 21, 23)]
    assert only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10)])).cause.faults[0] == guilty


def test_the_fault_that_kept_a_replica_away_is_one_that_lasted_until_the_election(tmp_path):
    """Broker 1 is away when broker 3 loses its page cache, comes back, leads, and is away again at the election."""
    between = {**follows(20, 3, 1, 1, 5), "isr": [1, 3]}
    cluster = [leads(9, 2, 0, 20, (2, 3)), leads(14, 2, 0, 20, (2, 3)), leads(19, 1, 1, 20, (1, 3)), between]
    faults = [
        fault(1, "kill", [1], 10, 16),
        fault(2, "page-cache-loss", [3], 15, 17),
        fault(3, "kill", [2], 18, 40),
        fault(4, "kill", [1], 25, 40),
    ]
    cluster.append(leads(30, 3, 2, 5, (3,)))
    cause = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10)])).cause
    assert cause.faults == (2, 4, 3)
    assert "Broker 1 was killed at 25.000 s (fault #4), before that election." in cause.evidence


def test_epochs_that_only_followers_knew_count_as_elections(tmp_path):
    unseen = follows(25, 1, 2, 1, 20)
    cluster = [leads(9, 3, 0, 20, (1, 3)), unseen, leads(30, 3, 2, 5, (3,)), leads(35, 1, 3, 5, (1, 3))]
    faults = [fault(4, "page-cache-loss", [3], 15, 17)]
    headline = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10)])).headline
    assert headline.endswith("(leader epoch 2 of t-0, the second of 3 leaderships seen after the write).")


@pytest.mark.parametrize("later", [[], [{**follows(27, 3, 1, 1, 5), "isr": [1], "elr": []}]])
def test_a_replica_that_was_elected_from_the_elr_says_so(tmp_path, later):
    """Also if a later state, of a log that tells no ELR, has it nowhere."""
    eligible = {**follows(26, 3, 1, 1, 20), "isr": [1], "elr": [3]}
    cluster = [leads(9, 3, 0, 20, (1, 3)), eligible, *later, leads(30, 3, 2, 5, (3,))]
    runs = [settings(system="harrow", generation="K5")]
    faults = [fault(4, "page-cache-loss", [3], 15, 17)]
    cause = only(run_in(tmp_path, runs=runs, cluster=cluster, faults=faults, anomalies=[lost(15, 10)])).cause
    assert "was elected from the ELR" in cause.allowed_by


@pytest.mark.parametrize(
    ("isr", "faults", "kind"),
    [
        ((1, 3), [], "eligibility"),
        ((3,), [], "joined-too-early"),
        ((1, 3), [fault(2, "raised-min-isr", [], 11, 40)], "joined-too-early"),
    ],
)
def test_a_replica_that_stays_eligible_beside_an_isr_that_is_large_enough_is_the_controller_s_mistake(
    tmp_path, isr, faults, kind
):
    """Broker 2 lacks the record, and leads next (ELR-1)."""
    cluster = [
        leads(9, 3, 0, 20, (1, 3)),
        leads(12, 3, 0, 20, isr, elr=(2,)),
        {**follows(19, 2, 1, 1, 15), "isr": [1], "elr": [2]},
        leads(20, 2, 2, 15, (2,)),
    ]
    faults = [*faults, fault(8, "kill", [1, 3], 14, 30)]
    cause = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10)])).cause
    assert (cause.kind, cause.node, cause.faults) == (kind, 2, (8,))
    said = "broker 2, which had been left in the ELR although the ISR had min.insync.replicas (2) members, was"
    assert (said in cause.sentence) is (kind == "eligibility")


@pytest.mark.parametrize(("paused_s", "named"), [((8, 13), True), ((11, 13), False)])
def test_the_fault_that_kept_the_records_from_who_was_elected_uncleanly_is_named(tmp_path, paused_s, named):
    """They were acknowledged at 10 s."""
    cluster = [leads(9, 3, 0, 20, (1, 3)), leads(12, 3, 0, 20, (1, 3)), leads(20, 2, 1, 15, (2,))]
    faults = [fault(7, "pause", [2], *paused_s), fault(8, "kill", [1, 3], 14, 30)]
    cause = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10)])).cause
    assert (cause.kind, cause.faults) == ("unclean-election", (8, 7) if named else (8,))
    said = f"Broker 2 was paused at {paused_s[0]}.000 s (fault #7), and may not have got them."
    assert (said in cause.evidence) is named


def test_a_leader_that_was_cut_off_may_not_have_known_who_led_meanwhile(tmp_path):
    cluster = [leads(9, 1, -1, 20, (1, 2)), follows(11, 3, 1, -1, 10), leads(15, 3, -1, 10, (3,))]
    runs = [settings(system="harrow", generation="zk-v1")]
    faults = [fault(4, "isolate", [3], 9.5, 12)]
    cause = only(run_in(tmp_path, runs=runs, cluster=cluster, faults=faults, anomalies=[lost(15, 10)])).cause
    assert cause.faults == (4,)
    assert "Broker 3 was cut off at 9.500 s (fault #4), and may not have known who led meanwhile." in cause.evidence


def test_a_member_of_the_isr_that_never_had_the_record_means_an_early_acknowledgement(tmp_path):
    cluster = [
        leads(9, 1, 0, 20, (1, 2, 3)),
        follows(10.5, 2, 1, 0, 12),
        leads(15, 2, 1, 12, (2, 3)),
    ]
    cause = only(run_in(tmp_path, cluster=cluster, anomalies=[lost(15, 10)])).cause
    assert cause.kind == "acknowledged-early"


def test_a_member_of_the_isr_that_was_killed_before_it_was_sampled_may_have_cut_the_record_off(tmp_path):
    """The samples that show its log without the record are of the process that came back."""
    cluster = [leads(9, 1, 0, 20, (1, 2)), follows(10.5, 2, 1, 0, 12), leads(15, 2, 1, 12, (2, 1))]
    faults = [fault(1, "kill", [2], 10.2, 10.4)]
    (incident,) = diagnose(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10)]), None)
    assert {cause.kind for cause in incident.causes} == {"acknowledged-early", "wrong-cut"}
    (sentence,) = {cause.evidence[1] for cause in incident.causes}
    assert "was killed at 10.200 s (fault #1), and may have cut its log when it came back" in sentence


def test_what_was_only_read_was_shown_too_early(tmp_path):
    cluster = [leads(9, 1, 0, 20, (1, 2, 3)), follows(10.5, 2, 1, 0, 12), leads(15, 2, 1, 12, (2, 3))]
    read_only = only(run_in(tmp_path / "read", cluster=cluster, anomalies=[lost(15, 10, anomaly="lost-read")])).cause
    assert read_only.kind == "dirty-read"
    assert "broker 1 showed them to readers above its high watermark; broker 2 was elected" in read_only.sentence
    told = lost(15, 10, anomaly="lost-read", evidence=json.dumps({"told_high_watermark": 16}))
    too_much = only(run_in(tmp_path / "told", cluster=cluster, anomalies=[told])).cause
    assert "broker 1 showed them to readers and called them committed; broker 2 was elected" in too_much.sentence
    both = [lost(15, 10), lost(16, 10, anomaly="lost-read")]
    assert only(run_in(tmp_path / "both", cluster=cluster, anomalies=both)).cause.kind == "acknowledged-early"


def test_a_replica_that_came_into_the_isr_later_joined_too_early(tmp_path):
    cluster = [
        leads(9, 1, 0, 20, (1, 3)),
        follows(10.5, 2, 1, 0, 12),
        leads(11, 1, 0, 20, (1, 2, 3)),
        leads(15, 2, 1, 12, (2, 3)),
    ]
    cause = only(run_in(tmp_path, cluster=cluster, anomalies=[lost(15, 10)])).cause
    assert cause.kind == "joined-too-early"


def test_where_samples_do_not_decide_there_are_candidates_and_what_speaks_for_each(tmp_path):
    cluster = [leads(9, 1, 0, 20, (1, 2, 3)), leads(15, 2, 1, 12, (2, 3))]
    (incident,) = diagnose(run_in(tmp_path, cluster=cluster, anomalies=[lost(15, 10)]))
    assert incident.cause is None
    assert [cause.kind for cause in incident.causes] == ["acknowledged-early", "wrong-cut"]
    assert all(cause.evidence for cause in incident.causes)
    first, other = incident.causes
    assert incident.common_evidence == tuple(line for line in first.evidence if line in other.evidence)
    assert "the evidence leaves 2 causes" in incident.headline


def test_acks_1_is_the_cause_where_the_leader_changed_before_replication(tmp_path):
    cluster = [leads(9, 1, 0, 20, (1, 2)), leads(15, 2, 1, 12, (2,))]
    rows = [lost(15, 10, within_contract=True)]
    faults = [fault(1, "kill", [1], 11, 20)]
    incident = only(run_in(tmp_path, runs=[settings(acks=1)], cluster=cluster, faults=faults, anomalies=rows))
    assert incident.cause.kind == "weak-acknowledgement"
    assert incident.cause.allowed_by.startswith("acks=1 allows this")
    assert "broker 1 was killed at 11.000 s (fault #1)" in incident.headline


def test_a_late_sample_of_the_same_leader_is_no_new_leader(tmp_path):
    cluster = [leads(9, 1, 0, 10, (1, 2)), leads(10.01, 1, 0, 15, (1, 2)), leads(20, 2, 1, 15, (2,))]
    incident = only(
        run_in(tmp_path, cluster=cluster, faults=[fault(2, "disk-loss", [2], 12, 14)], anomalies=[lost(15, 10)])
    )
    assert incident.cause.node == 2


def of_the_first_leader(directory, *, final_epoch):
    """The first sample comes late, and shows the log from before an acknowledgement that is dated before it."""
    cluster = [leads(10.3, 3, 0, 15, (1, 3)), leads(12, 3, 0, 40, (1, 3)), leads(20, 3, 2, 0, (3,))]
    logs = [{**written(15, final_epoch), "value": 7}]
    faults = [fault(3, "page-cache-loss", [3], 14, 16)]
    return diagnose(run_in(directory, cluster=cluster, logs=logs, faults=faults, anomalies=[lost(15, 10.1)]))


@pytest.mark.parametrize(("after", "led_on"), [(leads(20, 3, 1, 5, (3,)), True), (leads(20, 3, 2, 5, (3,)), False)])
def test_a_leader_that_leads_on_without_what_a_fault_has_taken_was_not_elected_for_it(tmp_path, after, led_on):
    cluster = [leads(9, 1, 0, 15, (1, 3)), leads(12, 3, 1, 18, (1, 3)), leads(13, 3, 1, 20, (1, 3)), after]
    logs = [{**written(15, after["leader_epoch"]), "value": 7}]
    faults = [fault(3, "page-cache-loss", [3], 14, 16)]
    incident = only(run_in(tmp_path, cluster=cluster, logs=logs, faults=faults, anomalies=[lost(15, 10.1)]))
    assert (incident.cause.kind, incident.cause.faults) == ("storage-loss", (3,))
    assert ("led on, without an election" in incident.headline) == led_on
    assert (incident.election is None) == led_on
    assert ("may not lead on" in incident.cause.allowed_by) == led_on


@pytest.mark.parametrize(("partition", "holder", "number"), [(0, 3, 1), (1, 3, 2), (0, 2, 2)])
def test_what_a_leader_wrote_instead_of_what_it_had_lost_belongs_to_that_loss(tmp_path, partition, holder, number):
    """Broker 3 leads on without offset 15, and writes another record there; broker 1, which leads next, has a third."""
    cluster = [leads(9, 1, 0, 15, (1, 3)), leads(12, 3, 1, 18, (1, 3)), leads(13, 3, 1, 20, (1, 3))]
    cluster += [leads(20, 3, 1, 5, (3,)), leads(25, 1, 2, 17, (1,))]
    cluster += [leads(22, 3, 1, 17, (3,), partition=1), leads(25, 1, 2, 17, (1,), partition=1)]
    logs = [{**written(15, 1), "broker": broker, "value": value} for broker, value in ((1, 7), (holder, 8))]
    logs = [{**row, "partition": partition} for row in logs]
    faults = [fault(3, "page-cache-loss", [3], 14, 16)]
    rows = [lost(15, 21, partition, anomaly="lost-read", value=8), lost(16, 10.1)]
    found = diagnose(run_in(tmp_path, cluster=cluster, logs=logs, faults=faults, anomalies=rows))
    assert len(found) == number
    assert found[0].cause.kind == "storage-loss"
    assert ("lost-read" in found[0].anomalies) == (number == 1)


@pytest.mark.parametrize(("number", "told"), [(7, True), (8, False), (None, False)])
def test_a_fault_that_waited_for_a_small_isr_says_how_small_it_was(tmp_path, number, told):
    """Entry 7 of the schedule waits, entry 8 does not; samples show two members until the fault begins."""
    when = {"condition": "isr-at-most", "partition": 0, "value": 1}
    entries = [{"entry": 7, "when": when}, {"entry": 8, "when": None}, {"entry": 9, "when": {"condition": "x"}}, 3]
    (tmp_path / "schedule.json").write_text(json.dumps({"entries": entries[:3]}))
    cluster = [leads(9, 3, 0, 20, (1, 3)), leads(15, 3, 1, 10, (3,))]
    faults = [fault(3, "page-cache-loss", [3], 12, 14, schedule_entry=number)]
    incident = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10)]))
    waited = (
        "The ISR of t-0 last seen before fault #3 was [1, 3], at 9.000 s; fault #3 waited until the ISR of partition 0"
        " had at most 1 member, by the cluster's metadata."
    )
    assert (waited in incident.cause.evidence) == told
    (tmp_path / "schedule.json").write_text(json.dumps({"entries": entries}))
    assert only(tmp_path).cause.kind == "storage-loss"  # what cannot be read is not there


def test_a_first_sample_from_before_the_acknowledgement_shows_no_election(tmp_path):
    (incident,) = of_the_first_leader(tmp_path, final_epoch=2)
    assert (incident.cause.kind, incident.cause.faults, incident.election.epoch) == ("storage-loss", (3,), 2)


def test_a_first_leader_that_wrote_another_record_there_lacked_the_lost_one(tmp_path):
    (incident,) = of_the_first_leader(tmp_path, final_epoch=0)
    assert incident.election.epoch == 0
    assert "storage-loss" not in {cause.kind for cause in incident.causes}


def test_what_retells_a_loss_is_part_of_its_incident_and_what_does_not_is_not(tmp_path):
    cluster = [leads(9, 3, 0, 20, (3,)), leads(15, 3, 1, 10, (3,))]
    faults = [fault(3, "page-cache-loss", [3], 12, 14)]
    rows = [
        lost(15, 10),
        lost(15, 10, anomaly="lost-read"),
        lost(15, 20, anomaly="inconsistent-offset"),
        lost(3, 20, anomaly="inconsistent-offset"),  # before the first lost offset
        lost(0, 20, anomaly="stale-read", evidence=json.dumps({"witness": {"offset": 15}})),
        lost(15, 20, anomaly="inconsistent-offset", partition=1),
    ]
    first, *others = diagnose(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=rows))
    assert first.anomalies == {
        "lost-acked-write": (1, 0),
        "lost-read": (1, 0),
        "inconsistent-offset": (1, 0),
        "stale-read": (1, 0),
    }
    assert sorted(incident.violations for incident in others) == [1, 1]


def test_losses_by_two_faults_are_two_incidents(tmp_path):
    cluster = [
        leads(9, 1, 0, 20, (1,)),
        leads(15, 1, 1, 10, (1,)),
        leads(19, 1, 1, 30, (1,)),
        leads(25, 1, 2, 22, (1,)),
    ]
    faults = [fault(1, "page-cache-loss", [1], 12, 14), fault(2, "page-cache-loss", [1], 22, 24)]
    found = diagnose(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10), lost(25, 20)]))
    assert [incident.cause.faults for incident in found] == [(1,), (2,)]


def test_exact_numbers_count_where_all_rows_that_were_kept_are_in_one_incident(tmp_path):
    cluster = [leads(9, 3, 0, 20, (3,)), leads(15, 3, 1, 10, (3,))]
    faults = [fault(3, "page-cache-loss", [3], 12, 14)]
    run = run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10), lost(16, 10)])
    headline = only(run, {"lost-acked-write": (1655, 0)}).headline
    assert headline.startswith("1,655 acknowledged writes to t-0 (2 of them: offsets 15\N{EN DASH}16) were lost")
    assert "among them" not in only(run, {"lost-acked-write": (2, 0)}).headline


@pytest.mark.parametrize("table", sorted(TABLES))
def test_a_table_of_nothing_but_nulls_does_no_harm(tmp_path, table):
    cluster = [leads(9, 3, 0, 20, (3,)), leads(15, 3, 1, 10, (3,))]
    rows = {"cluster": cluster, "faults": [fault(3, "page-cache-loss", [3], 12, 14)], "anomalies": [lost(15, 10)]}
    rows[table] = [{}, {}, *rows.get(table, ())]
    assert diagnose(run_in(tmp_path, **rows))


def test_rows_of_nulls_and_evidence_that_is_none_do_no_harm(tmp_path):
    rows = [
        {},
        {"anomaly": "lost-acked-write"},
        lost(None, 1),
        lost(1, 1, at_ns=None),
        lost(5, 9, anomaly="stale-read", evidence="["),
    ]
    assert diagnose(run_in(tmp_path, anomalies=rows)) is not None


def test_a_directory_without_anything_has_no_incident(tmp_path):
    assert diagnose(tmp_path) == []


def test_thousands_of_stale_reads_beside_thousands_of_losses_are_one_incident(tmp_path):
    many = 15_000
    cluster = [leads(9.5, 1, 0, many, (1, 2)), leads(15, 3, 1, 0, (3,))]
    rows = [lost(offset, 9.6) for offset in range(many)]
    rows += [lost(offset, 16, anomaly="stale-read", broker=3) for offset in range(many)]
    directory = run_in(tmp_path, cluster=cluster, faults=[fault(1, "kill", [1], 12, 20)], anomalies=rows)
    assert only(directory).anomalies == {"lost-acked-write": (many, 0), "stale-read": (many, 0)}


NO_EPOCH = None
"""What brokers say whose protocol has no leader epochs."""


def written(offset, epoch):
    """A record of a log after the run."""
    return {"broker": 2, "topic": "t", "partition": 0, "offset": offset, "leader_epoch": epoch}


def cut_and_elected(directory, *, epoch, seen_at=(11, 12)):
    """A follower is seen with a shorter log, and as leader only once its log is long again."""
    cluster = [
        leads(9, 1, epoch, 20, (1, 2)),
        follows(9.1, 2, 1, epoch, 20),
        leads(10.4, 1, epoch, 20, (1, 2)),
        follows(seen_at[0], 2, 1, epoch, seen_at[1]),
        leads(15, 2, None if epoch is None else epoch + 1, 40, (2,)),
    ]
    logs = [written(offset, epoch) for offset in range(20)]
    return only(run_in(directory, cluster=cluster, logs=logs, anomalies=[lost(15, 10)])).cause


def test_without_epochs_a_new_leader_is_known_by_its_log_before_it_led(tmp_path):
    cause = cut_and_elected(tmp_path, epoch=NO_EPOCH)
    assert cause.kind == "wrong-cut"
    assert cause.node == 2
    assert cause.sentence == "broker 2 cut them off its log between 9.100 s and 11.000 s, and was then elected"
    assert cause.evidence[0] == (
        "Broker 2 was seen to lead t-0 at 15.000 s; before that its log was last seen to end at 12."
    )


def test_a_replica_that_holds_all_of_the_lost_records_after_the_run_is_named(tmp_path):
    cluster = [
        leads(9, 1, NO_EPOCH, 20, (1, 2)),
        follows(9.1, 2, 1, NO_EPOCH, 20),
        follows(11, 2, 1, NO_EPOCH, 12),
        leads(15, 2, NO_EPOCH, 12, (2,)),
    ]
    rows = [lost(offset, 8, anomaly=anomaly) for offset in (14, 15) for anomaly in ("lost-acked-write", "lost-read")]
    held = [{**written(offset, NO_EPOCH), "broker": 3, "value": 1000 + offset} for offset in (14, 15)]
    still = "After the run broker 3 holds them still."
    assert still in only(run_in(tmp_path / "all", cluster=cluster, logs=held, anomalies=rows)).cause.evidence
    assert still not in only(run_in(tmp_path / "one", cluster=cluster, logs=held[1:], anomalies=rows)).cause.evidence


def test_without_epochs_a_new_leader_that_had_the_record_last_is_not_blamed(tmp_path):
    assert cut_and_elected(tmp_path, epoch=NO_EPOCH, seen_at=(11, 20)).kind == "acknowledged-early"


def test_without_epochs_a_log_before_the_acknowledgement_says_nothing(tmp_path):
    assert cut_and_elected(tmp_path, epoch=NO_EPOCH, seen_at=(9.5, 12)).kind == "acknowledged-early"


def test_where_logs_have_epochs_these_decide(tmp_path):
    assert cut_and_elected(tmp_path, epoch=4).kind == "acknowledged-early"


def gone_apart(directory, kept, **more):
    """The last leader has another record at the offset of a lost one; the follower holds `kept` there."""
    cluster = [leads(9, 1, NO_EPOCH, 20, (1, 2)), leads(15, 1, NO_EPOCH, 40, (1, 2))]
    logs = [{**written(15, NO_EPOCH), "broker": 1, "value": 7}, {**written(15, NO_EPOCH), "value": kept}]
    return only(run_in(directory, cluster=cluster, logs=logs, anomalies=[lost(15, 10)], **more)).cause


@pytest.mark.parametrize(
    ("kind", "broker", "started_s", "cause"),
    [
        ("page-cache-loss", 1, 5, "diverged-log-kept"),
        ("page-cache-loss", 1, 11, "storage-loss"),
        ("disk-rollback", 1, 5, "storage-loss"),
        ("page-cache-loss", 2, 11, "diverged-log-kept"),  # it still holds the record
    ],
)
def test_a_fault_that_crashed_its_node_before_a_record_was_acknowledged_did_not_take_it(
    tmp_path, kind, broker, started_s, cause
):
    """The record is acknowledged at 10 s, the node is back at 12 s. A disk that is rolled back crashes it last."""
    faults = [fault(2, kind, [broker], started_s, 12)]
    assert gone_apart(tmp_path, kept=1015, faults=faults).kind == cause


def test_a_record_that_another_replica_still_holds_is_one_of_a_log_that_went_apart(tmp_path):
    cause = gone_apart(tmp_path, kept=1015)
    assert cause.kind == "diverged-log-kept"
    assert cause.node == 1
    assert cause.sentence == "broker 1, which led last, kept other records at their offsets; broker 2 still holds them"


def test_of_records_that_different_replicas_still_hold_each_is_told_with_its_number(tmp_path):
    cluster = [leads(9, 1, NO_EPOCH, 20, (1, 2)), leads(15, 1, NO_EPOCH, 40, (1, 2))]
    holders = {15: 2, 16: 2, 17: 3}
    logs = [{**written(offset, NO_EPOCH), "broker": 1, "value": 7} for offset in holders]
    logs += [{**written(at, NO_EPOCH), "broker": broker, "value": 1000 + at} for at, broker in holders.items()]
    found = only(run_in(tmp_path, cluster=cluster, logs=logs, anomalies=[lost(offset, 10) for offset in holders]))
    assert found.cause.sentence == (
        "broker 1, which led last, kept other records at their offsets; broker 2 still holds 2 of them and broker 3"
        " still holds 1 of them"
    )


@pytest.mark.parametrize(("started_s", "named"), [(5, (4, 3)), (16, ())])
def test_the_fault_that_kept_the_last_leader_from_those_that_acknowledged_is_named(tmp_path, started_s, named):
    """Broker 1 leads until 9 s and from 15 s on; broker 2 leads at 12 s, and acknowledges the record at 13 s."""
    cluster = [leads(at, broker, NO_EPOCH, 20, (1, 2)) for at, broker in ((2, 1), (9, 1), (12, 2), (15, 1), (20, 1))]
    logs = [{**written(15, NO_EPOCH), "broker": 1, "value": 7}, {**written(15, NO_EPOCH), "value": 1015}]
    faults = [fault(3, "isolate", [2], 3, 4), fault(4, "isolate", [1], started_s, started_s + 4)]
    cause = only(run_in(tmp_path, cluster=cluster, logs=logs, anomalies=[lost(15, 13)], faults=faults)).cause
    assert (cause.kind, cause.faults) == ("diverged-log-kept", named)
    behind = "Broker 2 was cut off at 3.000 s (fault #3), and may have lacked what broker 1 wrote from then on."
    assert (behind in cause.evidence) == bool(named)
    said = "was cut off at 5.000 s (fault #4), and broker 2 led next"
    assert any(said in line for line in cause.evidence) == bool(named)


@pytest.mark.parametrize(("kind", "named"), [("isolate", (5,)), ("kill", ())])
def test_the_fault_that_kept_who_acknowledged_from_hearing_of_the_next_leader_is_named(tmp_path, kind, named):
    """Broker 2 acknowledges at 13 s; it was cut off until 12 s, and broker 1 leads from then on."""
    cluster = [leads(at, broker, NO_EPOCH, 20, (1, 2)) for at, broker in ((2, 2), (9, 2), (15, 1), (20, 1))]
    logs = [{**written(15, NO_EPOCH), "broker": 1, "value": 7}, {**written(15, NO_EPOCH), "broker": 2, "value": 1015}]
    faults = [fault(5, kind, [2], 8, 12)]
    anomalies = [lost(15, 13, broker=2)]
    cause = only(run_in(tmp_path, cluster=cluster, logs=logs, anomalies=anomalies, faults=faults)).cause
    assert (cause.kind, cause.faults) == ("diverged-log-kept", named)
    assert any("may not have known who led" in line for line in cause.evidence) == bool(named)


def test_a_leader_that_holds_the_record_after_the_run_is_not_one_that_lacked_it(tmp_path):
    """Its log was seen to end at 12 when it was elected, before it had the record: the sample is dated after that."""
    cluster = [
        leads(9, 2, NO_EPOCH, 20, (2,)),
        leads(10.5, 2, NO_EPOCH, 12, (2,)),
        leads(15, 1, NO_EPOCH, 40, (1, 2)),
    ]
    logs = [{**written(15, NO_EPOCH), "broker": 1, "value": 7}, {**written(15, NO_EPOCH), "broker": 2, "value": 1015}]
    run = run_in(tmp_path, cluster=cluster, logs=logs, anomalies=[lost(15, 10)])
    cause = only(run).cause
    assert cause.kind == "diverged-log-kept"
    assert cause.sentence == "broker 1, which led last, kept other records at their offsets; broker 2 still holds them"


def test_a_record_that_nobody_holds_did_not_go_apart(tmp_path):
    assert gone_apart(tmp_path, kept=8).kind == "acknowledged-early"


def test_a_record_that_its_client_has_sent_again_is_not_blamed_on_the_cluster(tmp_path):
    resent = json.dumps({"offsets": [4, 9], "resent": {"producer_id": 7, "offsets": [4, 9], "producer_epochs": [0, 1]}})
    row = lost(9, 15, anomaly="duplicate", within_contract=True, evidence=resent)
    incident = only(run_in(tmp_path, anomalies=[row]))
    assert (incident.cause.kind, incident.within_contract) == ("sent-again", True)
    assert "a client had raised the epoch of its producer" in incident.headline


def test_what_clients_without_idempotence_sent_again_is_one_incident_of_a_run(tmp_path):
    evidence = json.dumps({"offsets": [4, 9], "idempotence": False, "resent": None})
    rows = [
        lost(at, 15, anomaly="duplicate", within_contract=True, partition=partition, evidence=evidence)
        for at, partition in ((9, 0), (90, 1))
    ]
    faults = [fault(1, "kill", [1], 8, 16), fault(2, "kill", [2], 14, 16)]
    incident = only(run_in(tmp_path, anomalies=rows, faults=faults))
    assert incident.cause.kind == "not-idempotent"
    assert incident.headline.endswith("were in the log twice: a client had sent them again, without idempotence.")


def test_a_record_twice_in_the_log_of_an_idempotent_producer_is_the_brokers_mistake(tmp_path):
    retried = lost(9, 15, anomaly="duplicate", evidence=json.dumps({"offsets": [4, 9], "resent": None}))
    assert only(run_in(tmp_path / "retried", anomalies=[retried])).cause.kind == "producer-state"


@pytest.mark.parametrize(
    ("kind", "started_s", "sentence"),
    [
        ("page-cache-loss", 12, "what the group had committed was lost after broker 1 lost its page cache at 12.000 s"),
        ("page-cache-loss", 8, "the coordinator of the group forgot or contradicted itself"),
        ("kill", 12, "the coordinator of the group forgot or contradicted itself"),
    ],
)
def test_a_commit_that_was_lost_with_a_page_cache_is_explained_by_that(tmp_path, kind, started_s, sentence):
    evidence = json.dumps({"last_acknowledged": {"completed_ns": 10 * S}})
    row = lost(None, 15, anomaly="lost-commit", evidence=evidence)
    cause = only(run_in(tmp_path, anomalies=[row], faults=[fault(1, kind, [1], started_s, 14)])).cause
    assert cause.kind == "groups"
    assert cause.sentence.startswith(sentence)


ELECTED_AGAIN = [  # broker 2 leads with the records, then broker 3 without them, then broker 1
    leads(9, 1, 0, 20, (1, 2, 3)),
    follows(9.1, 2, 1, 0, 20),
    follows(9.2, 3, 1, 0, 20),
    leads(12, 2, 1, 20, (2, 3)),
    leads(15, 3, 2, 5, (3,)),
    leads(18, 1, 3, 9, (1, 3)),
]


def test_of_several_elections_the_headline_names_the_one_whose_leader_lacked_the_records(tmp_path):
    faults = [fault(1, "page-cache-loss", [3], 11, 13)]
    incident = only(run_in(tmp_path, cluster=ELECTED_AGAIN, faults=faults, anomalies=[lost(15, 10)]))
    assert incident.election == Election("t", 0, 3, 2, 15 * S, 2, 3)
    assert incident.headline == (
        "1 acknowledged write to t-0 (offset 15) was lost: broker 3 lost its page cache at 11.000 s (fault #1) and was "
        "elected leader (leader epoch 2 of t-0, the second of 3 leaderships seen after the write)."
    )


def test_a_single_election_need_not_be_told_from_others(tmp_path):
    incident = only(run_in(tmp_path, cluster=[*ELECTED_AGAIN[:3], ELECTED_AGAIN[4]], anomalies=[lost(15, 10)]))
    assert (incident.election.number, incident.election.elections) == (1, 1)
    assert "elections after" not in incident.headline


def test_no_election_decided_a_loss_of_a_leader_that_went_on_leading(tmp_path):
    cluster = [leads(9, 1, 0, 20, (1, 2)), leads(12, 1, 0, 5, (1, 2)), leads(15, 2, 1, 5, (1, 2))]
    incident = only(run_in(tmp_path, cluster=cluster, anomalies=[lost(15, 10)]))
    assert incident.election is None
    assert "while it led" in incident.headline


def test_exact_numbers_leave_the_decisive_election_in_the_headline(tmp_path):
    run = run_in(tmp_path, cluster=ELECTED_AGAIN, anomalies=[lost(15, 10)])
    (incident,) = diagnose(run, {"lost-acked-write": (7, 0)})
    assert incident.headline.startswith("7 acknowledged writes")
    assert incident.headline.endswith("(leader epoch 2 of t-0, the second of 3 leaderships seen after the writes).")


def stale(directory, *, epochs=(4, 4, 4), answered_by=1, acknowledged_by=1, within_contract=False, changes=()):
    """A reader misses at 12 s what was acknowledged at 10 s; leaders are sampled before, between and after."""
    cluster = [leads(at, 1, epoch, 20, (1, 2), 12) for at, epoch in zip((9, 11, 13), epochs, strict=True)]
    evidence = json.dumps({"witness": {"offset": 15, "node": acknowledged_by, "completed_ns": 10 * S}})
    row = lost(12, 12, anomaly="stale-read", broker=answered_by, evidence=evidence, within_contract=within_contract)
    (incident,) = diagnose(run_in(directory, cluster=[*cluster, *changes], anomalies=[row]))
    return [cause.kind for cause in incident.causes]


def test_a_leader_that_does_not_show_what_it_has_acknowledged_itself_acknowledged_early(tmp_path):
    assert stale(tmp_path / "server", answered_by=1) == ["acknowledged-early"]
    assert stale(tmp_path / "unknown", answered_by=None) == ["acknowledged-early"]


@pytest.mark.parametrize(
    "other",
    [
        {"epochs": (4, 4, 5)},
        {"epochs": (3, 4, 4)},
        {"epochs": (None, None, None)},
        {"acknowledged_by": 2},
        {"answered_by": 2},
        {"changes": [leads(11.5, 2, 4, 20, (1, 2))]},
        {"within_contract": True},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_reader_that_may_have_asked_another_leader_does_not_show_that(tmp_path, other):
    assert "acknowledged-early" not in stale(tmp_path, **other)


def test_early_acknowledgements_of_one_leader_are_one_incident_in_all_partitions(tmp_path):
    cluster = [leads(at, 1, 4, 20, (1, 2), 12, partition=number) for number in (0, 1) for at in (9, 13)]
    evidence = json.dumps({"witness": {"offset": 15, "node": 1, "completed_ns": 10 * S}})
    rows = [lost(12, 12, number, "stale-read", broker=1, evidence=evidence) for number in (0, 1)]
    assert only(run_in(tmp_path, cluster=cluster, anomalies=rows)).headline == (
        "2 reads of 2 partitions (t-0, t-1) missed what had been acknowledged before they began: broker 1"
        " acknowledged writes before they were committed, and showed readers only what was."
    )


def test_a_reader_that_misses_what_another_was_shown_too_early_is_told_of_that(tmp_path):
    """The write has no answer: a reader saw its record, which the next one does not see."""
    cluster = [leads(at, 1, 4, 20, (1, 2), 12) for at in (9, 11, 13)]
    witness = {"offset": 15, "node": 1, "completed_ns": 10 * S, "status": "info"}
    rows = [
        lost(15, 10, anomaly="dirty-read", broker=1),
        lost(12, 12, anomaly="stale-read", broker=1, evidence=json.dumps({"witness": witness})),
    ]
    incident = only(run_in(tmp_path, cluster=cluster, anomalies=rows))
    assert set(incident.anomalies) == {"dirty-read", "stale-read"}
    assert incident.cause.sentence == "broker 1 showed readers records above its high watermark"


def test_what_one_leader_showed_too_early_is_one_incident_whatever_fault_was_near(tmp_path):
    cluster = [leads(at, 1, 4, 20, (1, 2), 12) for at in (9, 11, 33)]
    rows = [lost(15, 10, anomaly="dirty-read"), lost(16, 30, anomaly="dirty-read", broker=1)]
    faults = [fault(1, "pause", [2], 9, 10.5), fault(2, "pause", [1], 29, 31)]
    incident = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=rows))
    assert (incident.anomalies["dirty-read"], incident.cause.node) == ((2, 0), 1)


def test_what_two_leaders_showed_too_early_is_one_mistake(tmp_path):
    cluster = [leads(9, 1, 4, 20, (1, 2)), leads(25, 2, 5, 20, (1, 2)), leads(33, 2, 5, 20, (1, 2))]
    rows = [lost(15, 10, anomaly="dirty-read", broker=1), lost(16, 30, anomaly="dirty-read", broker=2)]
    cause = only(run_in(tmp_path, cluster=cluster, anomalies=rows)).cause
    assert cause.sentence == "brokers 1 and 2 showed readers records above their high watermarks"


def test_what_a_leader_acknowledged_early_and_lost_is_apart_from_what_readers_missed_before(tmp_path):
    """Broker 1 goes on acknowledging when broker 2 leads already, of which the later records are lost too.

    The election of broker 2 has nothing to do with the read that missed a record of another partition.
    """
    cluster = [leads(9, 1, 0, 20, (1, 2, 3)), follows(10.5, 2, 1, 0, 12), leads(15, 2, 1, 12, (2, 3))]
    evidence = json.dumps({"witness": {"offset": 4, "node": 1, "completed_ns": 10 * S}})
    quiet = [leads(at, 1, 0, 20, (1, 2), 4, partition=1) for at in (9, 13)]
    rows = [
        lost(15, 10, broker=1),
        lost(16, 17, broker=1),
        lost(4, 12, 1, "stale-read", broker=1, evidence=evidence),
    ]
    incident, of_reads = diagnose(run_in(tmp_path, cluster=[*cluster, *quiet], anomalies=rows))
    assert incident.anomalies == {"lost-acked-write": (2, 0)}
    assert of_reads.anomalies == {"stale-read": (1, 0)}
    assert of_reads.cause.kind == "acknowledged-early"
    assert "they were acknowledged by broker 1 before broker 2 had them" in incident.headline
    alone = only(run_in(tmp_path / "alone", cluster=cluster, anomalies=rows[1:2]))
    assert alone.cause.sentence == (
        "they were acknowledged by broker 1 without broker 2, which already led (seen at 15.000 s, leader epoch 1)"
    )


@pytest.mark.parametrize(("offset", "known_s", "belongs_to"), [(12, 10, 0), (20, 25, 1), (20, 9, 0)])
def test_what_retells_a_loss_is_of_the_one_by_which_its_record_can_have_been_lost(
    tmp_path, offset, known_s, belongs_to
):
    """Broker 2 is elected by 15 s without offsets from 10 on, broker 1 by 40 s without those from 12 on."""
    cluster = [
        leads(9, 1, 0, 25, (1, 2)), leads(15, 2, 1, 10, (2,)), leads(30, 2, 1, 25, (1, 2)), follows(31, 1, 2, 1, 25),
        leads(40, 1, 2, 12, (1,)), leads(50, 1, 2, 12, (1,)),
    ]  # fmt: skip
    faults = [fault(1, "kill", [1], 12, 20), fault(2, "page-cache-loss", [1], 35, 38)]
    witness = json.dumps({"witness": {"offset": offset, "node": 3, "completed_ns": known_s * S}})
    rows = [lost(11, 9.5), lost(21, 25), lost(12, 45, anomaly="stale-read", evidence=witness)]
    found = diagnose(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=rows))
    losses = sorted((one for one in found if "lost-acked-write" in one.anomalies), key=lambda one: one.at_ns)
    assert ["stale-read" in one.anomalies for one in losses] == [belongs_to == 0, belongs_to == 1]


def test_logs_that_stayed_apart_in_two_partitions_are_one_incident(tmp_path):
    cluster = [leads(9, 1, 0, 20, (1, 2), partition=number) for number in (0, 1)]
    logs = [
        {"broker": 2, "topic": "t", "partition": number, "offset": 15, "value": 1015, "leader_epoch": 0}
        for number in (0, 1)
    ]
    rows = [lost(15, 10.1, number) for number in (0, 1)]
    incident = only(run_in(tmp_path, cluster=cluster, logs=logs, anomalies=rows))
    assert (incident.cause.kind, incident.anomalies["lost-acked-write"]) == ("diverged-log-kept", (2, 0))


def test_violations_and_what_is_within_the_contract_are_one_incident_where_their_causes_say_the_same(tmp_path):
    cluster = [leads(9, 1, 0, 20, (1, 2)), leads(11, 2, 1, 20, (2,)), leads(13, 2, 1, 20, (2,))]
    because = json.dumps({"stale_because": "a deposed leader that could not know it yet may have answered"})
    asked = json.dumps({"witness": {"offset": 15, "node": 2, "completed_ns": 11 * S}})

    def found(directory, partition):
        rows = [
            lost(12, 12, anomaly="stale-read", broker=1, evidence=asked),
            lost(12, 12.5, partition, "stale-read", broker=1, evidence=because, within_contract=True),
        ]
        return [incident.anomalies for incident in diagnose(run_in(directory, cluster=cluster, anomalies=rows))]

    assert found(tmp_path / "same", 0) == [{"stale-read": (1, 1)}]
    assert found(tmp_path / "other", 1) == [{"stale-read": (1, 0)}, {"stale-read": (0, 1)}]


def missed_while_it_changed(directory, server, *, faults=(), writer=1, at_s=(15,), led_first=1):
    """Reads from a server that missed what broker 1 had acknowledged at 10 s; broker 2 leads from 20 s on."""
    because = {"stale_because": "the leadership of the partition was changing at the time"}
    evidence = json.dumps({**because, "witness": {"node": writer, "completed_ns": 10 * S}})
    rows = [lost(12, s, anomaly="stale-read", broker=server, evidence=evidence, within_contract=True) for s in at_s]
    cluster = [leads(5, led_first, 0, 9, (1, 2)), leads(9, 1, 1, 20, (1, 2)), leads(20, 2, 2, 20, (2,))]
    return only(run_in(directory, cluster=cluster, anomalies=rows, faults=faults))


@pytest.mark.parametrize(
    ("server", "led_first", "rules"),
    [(1, 1, ["BL-10"]), (2, 1, ["HW-6"]), (3, 1, ["HW-6"]), (3, 3, ["BL-10", "HW-6"])],
)
def test_which_leader_did_not_know_better_decides_which_exception_it_is(tmp_path, server, led_first, rules):
    """Who has not led before the write cannot be a leader that was replaced."""
    allowed = missed_while_it_changed(tmp_path, server, led_first=led_first).cause.allowed_by
    assert [rule for rule in ("BL-10", "HW-6") if rule in allowed] == rules


def test_a_fault_that_was_over_before_the_write_had_nothing_to_do_with_a_missed_one(tmp_path):
    faults = [fault(3, "kill", [1], 7, 9), fault(4, "kill", [1], 9.5, 18)]
    assert missed_while_it_changed(tmp_path, 2, faults=faults).cause.faults == (4,)


def test_the_fault_of_the_leader_that_acknowledged_is_named_before_a_later_one_of_another(tmp_path):
    faults = [fault(3, "page-cache-loss", [1], 10.1, 18), fault(4, "kill", [3], 12, 18)]
    incident = missed_while_it_changed(tmp_path, 2, faults=faults)
    assert incident.cause.faults == (3, 4)
    assert "broker 1 lost its page cache" in incident.cause.sentence


@pytest.mark.parametrize(("kind", "rules"), [("page-cache-loss", ["HW-6"]), ("isolate", ["BL-10", "HW-6"])])
def test_a_leader_that_was_down_by_then_cannot_have_answered(tmp_path, kind, rules):
    faults = [fault(3, kind, [1], 10.1, 18)]
    allowed = missed_while_it_changed(tmp_path, None, faults=faults).cause.allowed_by
    assert [rule for rule in ("BL-10", "HW-6") if rule in allowed] == rules


def test_missed_writes_after_the_same_two_faults_are_one_incident(tmp_path):
    """At 15 s both faults last, the second one began last; at 19 s the first one alone."""
    faults = [fault(3, "kill", [1], 9, 21), fault(4, "isolate", [3], 9.5, 18)]
    incident = missed_while_it_changed(tmp_path, 2, faults=faults, at_s=(15, 19))
    assert incident.anomalies == {"stale-read": (0, 2)}


def test_the_harm_of_missed_writes_is_dated_by_the_first_answer(tmp_path):
    assert missed_while_it_changed(tmp_path, 2, at_s=(15, 13, 14)).at_ns == 13 * S


def test_a_record_that_a_client_sent_again_belongs_to_no_loss(tmp_path):
    cluster = [leads(9, 3, 0, 20, (3,)), leads(15, 3, 1, 10, (3,))]
    again = lost(16, 20, anomaly="duplicate", within_contract=True, evidence=json.dumps({"idempotence": False}))
    faults = [fault(3, "page-cache-loss", [3], 12, 14)]
    found = diagnose(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10), again]))
    assert [[cause.kind for cause in incident.causes] for incident in found] == [["storage-loss"], ["not-idempotent"]]


def test_numbers_of_incidents_that_share_rows_that_were_not_kept_are_at_least_so_large(tmp_path):
    cluster = [
        leads(at, 3, epoch, end, (3,), partition=number)
        for number in (0, 1)
        for at, epoch, end in ((9, 0, 20), (15 + 30 * number, 1, 10))
    ]
    faults = [fault(1, "page-cache-loss", [3], 12, 14), fault(2, "page-cache-loss", [3], 42, 44)]
    rows = [lost(15, 10), lost(15, 40, 1), lost(16, 40, 1)]
    run = run_in(tmp_path, cluster=cluster, faults=faults, anomalies=rows)
    found = diagnose(run, {"lost-acked-write": (1655, 0)})
    assert [incident.at_least for incident in found] == [("lost-acked-write",)] * 2
    assert found[0].headline.startswith(
        "At least 2 acknowledged writes (of the run's 1,655) to t-1 (among them offsets 15\N{EN DASH}16) were lost"
    )
    assert [incident.at_least for incident in diagnose(run, {"lost-acked-write": (3, 0)})] == [()] * 2
    extents = [
        Extent("t", 0, within_contract=False, number=655, first_offset=10, last_offset=664),
        Extent("t", 1, within_contract=False, number=1000, first_offset=11, last_offset=1200),
    ]
    exact = diagnose(run, {"lost-acked-write": (1655, 0)}, {"lost-acked-write": extents})
    assert [incident.at_least for incident in exact] == [()] * 2
    assert [incident.headline.partition(" were lost")[0] for incident in exact] == [
        "1,000 acknowledged writes to t-1 (among offsets 11\N{EN DASH}1,200)",
        "655 acknowledged writes to t-0 (offsets 10\N{EN DASH}664)",
    ]
    half = diagnose(run, {"lost-acked-write": (1655, 0)}, {"lost-acked-write": extents[:1]})
    assert [incident.at_least for incident in half] == [(), ("lost-acked-write",)], "nothing is known of t-1"


def test_one_partition_of_two_incidents_keeps_its_lower_bounds(tmp_path):
    cluster = [
        leads(9, 3, 0, 20, (3,)),
        leads(15, 3, 1, 10, (3,)),
        leads(30, 3, 1, 40, (3,)),
        leads(45, 3, 2, 30, (3,)),
    ]
    faults = [fault(1, "page-cache-loss", [3], 12, 14), fault(2, "page-cache-loss", [3], 42, 44)]
    run = run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(15, 10), lost(35, 40)])
    extents = [Extent("t", 0, within_contract=False, number=1655, first_offset=1, last_offset=2000)]
    found = diagnose(run, {"lost-acked-write": (1655, 0)}, {"lost-acked-write": extents})
    assert [incident.at_least for incident in found] == [("lost-acked-write",)] * 2
    assert not any("2,000" in incident.headline for incident in found)


def test_the_broker_that_acknowledged_early_is_named(tmp_path):
    cluster = [leads(9, 1, 0, 20, (1, 2, 3)), follows(10.5, 2, 1, 0, 12), leads(15, 2, 1, 12, (2, 3))]
    rows = [lost(15, 10, broker=1), lost(16, 10, broker=1)]
    assert (
        "they were acknowledged by broker 1 before broker 2 had them"
        in only(run_in(tmp_path, cluster=cluster, anomalies=rows)).headline
    )


def test_a_controller_that_loses_its_page_cache_takes_no_records(tmp_path):
    def named(directory, *targets):
        return only(
            run_in(directory, faults=[fault(1, "page-cache-loss", targets, 12, 13)], anomalies=[lost(9, 10)])
        ).cause

    assert named(tmp_path / "controller", 102).kind == "acknowledged-early"
    assert named(tmp_path / "both", 1, 102).kind == "storage-loss"


def test_a_stale_answer_of_a_coordinator_is_one_of_a_leader(tmp_path):
    because = json.dumps({"stale_because": "a deposed leader that could not know it yet may have answered"})
    row = lost(None, 15, anomaly="lost-commit", within_contract=True, broker=3, evidence=because)
    cluster = [leads(9, 3, 0, 20, (1, 3)), leads(14, 1, 1, 20, (1,))]
    cause = only(run_in(tmp_path, cluster=cluster, anomalies=[row])).cause
    assert cause.kind == "stale-leader"
    assert cause.sentence == "broker 3 answered although another broker led by then"


def test_what_a_page_cache_took_of_logs_and_of_groups_is_one_incident(tmp_path):
    cluster = [leads(9, 3, 0, 20, (3,)), leads(27, 3, 2, 0, (3,))]
    evidence = json.dumps({"last_acknowledged": {"completed_ns": 10 * S}})
    rows = [
        lost(15, 10),
        lost(None, 30, anomaly="lost-commit", broker=3, evidence=evidence),
        lost(None, 31, anomaly="committed-offset-regression", partition=1, evidence=evidence),
    ]
    faults = [fault(1, "page-cache-loss", [3], 22, 26)]
    incident = only(run_in(tmp_path, cluster=cluster, faults=faults, anomalies=rows))
    assert incident.cause.kind == "storage-loss"
    assert set(incident.anomalies) == {"lost-acked-write", "lost-commit", "committed-offset-regression"}
    by_groups_alone = only(run_in(tmp_path / "groups", cluster=cluster, faults=faults, anomalies=rows[1:]))
    assert by_groups_alone.cause.kind == "groups"


def test_faults_of_all_reads_that_a_leader_gave_too_much_are_behind_it(tmp_path):
    """Of the first read no fault was near; at the second broker 3, in the ISR, was dead."""
    cluster = [leads(at, 1, 0, 20, (1, 3), high_watermark=12) for at in (9, 11, 19, 21)]
    rows = [lost(offset, at, anomaly="dirty-read", broker=1) for offset, at in ((15, 10), (16, 20))]
    (incident,) = diagnose(run_in(tmp_path, cluster=cluster, faults=[fault(7, "kill", [3], 18, 30)], anomalies=rows))
    assert incident.headline.startswith("2 reads of t-0 (offsets 15\N{EN DASH}16) were given records that were not")
    assert incident.cause.faults == (7,)
    assert any("(fault #7)" in sentence for sentence in incident.cause.evidence)
