"""Each cause of a loss is named where it is planted, and not where something else was."""

import json
import time

import pytest

from history.schema import TABLES
from incidents import diagnose
from tests.incidents.stored import fault, follows, leads, lost, run_in, settings


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


def test_a_member_of_the_isr_that_never_had_the_record_means_an_early_acknowledgement(tmp_path):
    cluster = [
        leads(9, 1, 0, 20, (1, 2, 3)),
        follows(10.5, 2, 1, 0, 12),
        leads(15, 2, 1, 12, (2, 3)),
    ]
    cause = only(run_in(tmp_path, cluster=cluster, anomalies=[lost(15, 10)])).cause
    assert cause.kind == "acknowledged-early"


def test_what_was_only_read_was_shown_too_early(tmp_path):
    cluster = [leads(9, 1, 0, 20, (1, 2, 3)), follows(10.5, 2, 1, 0, 12), leads(15, 2, 1, 12, (2, 3))]
    read_only = only(run_in(tmp_path / "read", cluster=cluster, anomalies=[lost(15, 10, anomaly="lost-read")])).cause
    assert read_only.kind == "dirty-read"
    assert "they were read before broker 2 had them" in read_only.sentence
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
    assert only(run, {"lost-acked-write": (1655, 0)}).headline.startswith("1,655 acknowledged writes")


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


def test_thousands_of_stale_reads_beside_thousands_of_losses_are_attributed_in_seconds(tmp_path):
    many, limit_s = 15_000, 20
    cluster = [leads(9.5, 1, 0, many, (1, 2)), leads(15, 3, 1, 0, (3,))]
    rows = [lost(offset, 9.6) for offset in range(many)]
    rows += [lost(offset, 16, anomaly="stale-read", broker=3) for offset in range(many)]
    directory = run_in(tmp_path, cluster=cluster, faults=[fault(1, "kill", [1], 12, 20)], anomalies=rows)
    began_s = time.monotonic()
    assert only(directory).anomalies == {"lost-acked-write": (many, 0), "stale-read": (many, 0)}
    assert time.monotonic() - began_s < limit_s
