"""Lines of brokers' logs come between the samples: leaderships and cuts that no sample shows."""

import json

import pytest

from incidents import diagnose
from incidents.evidence import Evidence
from incidents.logged_states import LoggedState, fencings, logged_states
from incidents.node_logs import LogLine
from reports.pictures.decisive_events import of_samples
from tests.incidents.stored import HERE, S, fault, follows, leads, logged, lost, run_in, settings

OF_ZK = {**HERE, "system": "harrow", "generation": "zk-v1"}


def states(text, node=1, partition=("t", 0)):
    return logged_states([LogLine(1_500, node, text)]).get(partition)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "INFO t-0: leads in epoch 3, log end 2961, high watermark 2960, ISR [3, 1, 2]",
            (1, 3, 2_961, 2_960, (1, 2, 3)),
        ),
        ("INFO t-0: leads again in epoch 3, log end 7, high watermark 7, ISR [1]", (1, 3, 7, 7, (1,))),
        ("INFO t-0: follows 2 in epoch 4, log end 9, high watermark 8, ISR [2]", (2, 4, 9, 8, (2,))),
        ("INFO t-0: follows 2, cut to 9 in epoch 4, log end 9, high watermark 8, ISR []", (2, 4, 9, 8, ())),
        ("INFO t-0: diverges from leader 3; cut from 3208 to 2965", (3, None, 2_965, None, (), True, 3_208)),
        ("INFO t-0: leads, ISR [3, 1], high watermark 12", (1, None, None, 12, (1, 3))),
        ("INFO t-0: cut from 4577 to 3191", (None, None, 3_191, None, (), True, 4_577)),
        (
            (
                "INFO [Broker id=1] Leader t-0 with topic id Some(JEBHuSVSTC-4b0wSYaiylg) starts at leader epoch"
                " 5 from offset 20 with partition epoch 9, high watermark 18, ISR [1,3], adding replicas [] and"
                " removing replicas [] (under-min-isr). Previous leader Some(3) and previous leader epoch was 4."
            ),
            (1, 5, 20, 18, (1, 3)),
        ),
        (
            (
                "INFO [Broker id=1] Follower t-0 starts at leader epoch 5 from offset 22 with partition epoch 9"
                " and high watermark 18. Current leader is 3. Previous leader Some(1) and previous leader epoch was 4."
            ),
            (3, 5, 22, 18, ()),
        ),
        (
            (
                "INFO [ReplicaFetcher replicaId=1, leaderId=3, fetcherId=0] Truncating partition t-0 with"
                " TruncationState(offset=18, completed=true) due to leader epoch and offset EpochEndOffset(...)"
            ),
            (3, None, 18, None, (), True, None),
        ),
    ],
)
def test_what_a_line_says_of_a_replica(text, expected):
    assert states(text) == (LoggedState(1_500 * 1_000_000, 1, *expected),)


@pytest.mark.parametrize(
    "text",
    [
        "INFO t-0: 3 caught up; asking to expand",
        "INFO t-0: leads in epoch three, log end 1, high watermark 1, ISR [1]",
        f"INFO t-0: cut from {'9' * 20} to 1",
        "WARNING t-0: 1735 bytes cut: t-0/00000000000000000000.log: torn batch",
    ],
)
def test_other_lines_say_nothing(text):
    assert states(text) is None


CHANGED = "INFO [QuorumController id=100] Replayed BrokerRegistrationChangeRecord modifying the registration"


@pytest.mark.parametrize(
    ("text", "brokers"),
    [
        ("INFO sessions of brokers [1, 3] expired; fenced", [1, 3]),
        (
            f"{CHANGED} for broker 3: BrokerRegistrationChangeRecord(brokerId=3, fenced=1, logDirs=[])",
            [3],
        ),
        (
            f"{CHANGED} for broker 3: BrokerRegistrationChangeRecord(brokerId=3, fenced=-1, logDirs=[])",
            [],
        ),
        ("INFO broker 1 unfenced", []),
    ],
)
def test_whom_a_controller_has_fenced(text, brokers):
    assert fencings([LogLine(1_500, 100, text)] * 2) == [(1_500 * 1_000_000, broker) for broker in brokers]


@pytest.mark.parametrize(("faults", "known"), [([], True), ([fault(9, "clock-jump", [100], 5, 6)], False)])
def test_what_kafka_does_not_print_is_read_from_its_files_unless_their_clock_was_set(tmp_path, faults, known):
    logged(tmp_path, 100, (40, "starts"))
    fenced = "20:30:42.318 INFO sessions of brokers [3] expired; fenced\n"
    (tmp_path / "nodes" / "100" / "logs").mkdir()
    (tmp_path / "nodes" / "100" / "logs" / "controller.log").write_text(fenced)
    (tmp_path / "nodes" / "100" / "logs" / "other.log").write_text(fenced.replace("[3]", "[4]"))
    evidence = Evidence(run_in(tmp_path, runs=[HERE], faults=faults))
    assert list(evidence.fenced) == ([(42_318_000_000, 3)] if known else [])


def test_an_election_of_an_earlier_epoch_in_the_log_of_the_new_leader_is_not_that_election(tmp_path):
    """Broker 3 was elected before the fault, too."""
    logged(tmp_path, 3, (13, "t-0: leads in epoch 1, log end 20, high watermark 20, ISR [3]"))
    cluster = [leads(12, 2, 0, 20, (2, 3)), leads(25, 3, 2, 0, (3,))]
    faults = [fault(3, "page-cache-loss", [3], 14, 20)]
    (incident,) = diagnose(run_in(tmp_path, runs=[HERE], cluster=cluster, faults=faults, anomalies=[lost(15, 10)]))
    assert incident.cause.evidence[0].startswith("Broker 3 was first seen to lead t-0 in leader epoch 2 at 25.000 s")


FENCED = [(12.3, "sessions of brokers [3] expired; fenced"), (12.4, "sessions of brokers [2] expired; fenced")]


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (
            [(12.5, "sessions of brokers [1] expired; fenced")],
            "broker 2 at 12.400 s and broker 1 at 12.500 s; broker 1, fenced last, stayed in the ISR.",
        ),
        ([], "broker 3 at 12.300 s and broker 2 at 12.400 s."),
        (None, ""),
    ],
    ids=["the last one stays", "it was not fenced", "no log tells"],
)
def test_who_was_fenced_last_and_stayed_in_the_isr_is_told(tmp_path, last, told):
    if last is not None:
        logged(tmp_path, 100, *FENCED, *last)
    leaderless = {**follows(16, 3, -1, 1, 20), "isr": [1]}
    cluster = [leads(9, 3, 0, 20, (1, 2, 3)), leaderless, leads(25, 1, 2, 0, (1,))]
    faults = [fault(3, "page-cache-loss", [1], 12, 24)]
    (incident,) = diagnose(run_in(tmp_path, runs=[HERE], cluster=cluster, faults=faults, anomalies=[lost(15, 9)]))
    fenced = [line for line in incident.cause.evidence if line.startswith("By the controllers' logs")]
    assert bool(fenced) is bool(told)
    assert not fenced or fenced[0].endswith(told)


def records_at_15(*held):
    """What brokers hold at offset 15 after the run, in a design without leader epochs: (broker, value)."""
    place = {"topic": "t", "partition": 0, "offset": 15, "leader_epoch": None}
    return [{**place, "broker": broker, "value": value} for broker, value in held]


def between_samples(directory, *, kind="page-cache-loss", run=HERE, **rows):
    """Broker 3 loses what it had, leads on for less than a second, and broker 1 cuts its log to follow it."""
    logged(directory, 3, (40.412, "t-0: leads in epoch 3, log end 12, high watermark 12, ISR [1, 3]"))
    logged(directory, 1, (40.646, "t-0: diverges from leader 3; cut from 40 to 12"))
    cluster = [
        leads(30, 3, 3, 40, (1, 3)), leads(36, 3, 3, 40, (1, 3)), follows(36, 1, 3, 3, 40), follows(40.3, 1, 3, 3, 40),
        leads(40.8, 1, 4, 13, (1, 3)), leads(50, 1, 4, 60, (1, 3)), *rows.pop("cluster_too", []),
    ]  # fmt: skip
    faults = [fault(8, "page-cache-loss", [3], 37.7, 40), *rows.pop("faults", [])]
    anomalies = [lost(offset, 35) for offset in range(20, 30)]
    return run_in(directory, runs=[run], cluster=cluster, faults=faults, anomalies=anomalies)


def test_a_leader_between_two_samples_is_found_in_its_log(tmp_path):
    (incident,) = diagnose(between_samples(tmp_path))
    lost_by, how = incident.headline.split(": ")
    assert lost_by == "10 acknowledged writes to t-0 (offsets 20\N{EN DASH}29) were lost"
    assert how == "broker 3 lost its page cache at 37.700 s (fault #8) and led on, without an election."
    assert (
        "Broker 1 cut its log of t-0 from 40 to 12 at 40.646 s, to follow broker 3 in leader epoch 3."
        in incident.cause.evidence
    )


def test_a_log_that_was_cut_later_is_told_with_the_leader_of_then(tmp_path):
    logged(tmp_path, 2, (41.5, "t-0: diverges from leader 1; cut from 40 to 12"))
    (incident,) = diagnose(between_samples(tmp_path, cluster_too=[follows(38, 2, 3, 3, 40)]))
    assert (
        "Broker 2 cut its log of t-0 from 40 to 12 at 41.500 s, to follow broker 1 in leader epoch 4."
        in incident.cause.evidence
    )


@pytest.mark.parametrize(
    ("run", "faults"),
    [
        ({**HERE, "environment": "ssh"}, []),
        (HERE, [fault(9, "clock-jump", [1, 3], 5, 6)]),
        (settings(environment="local"), []),
    ],
)
def test_a_log_by_another_clock_is_left_out(tmp_path, run, faults):
    (incident,) = diagnose(between_samples(tmp_path, run=run, faults=faults))
    assert (incident.cause.kind, incident.cause.node) == ("wrong-cut", 1)
    assert "between 40.300 s and 40.800 s" in incident.headline


def test_what_a_line_does_not_tell_is_as_it_was(tmp_path):
    logged(
        tmp_path, 1,
        (11, "t-0: diverges from leader 2; cut from 9 to 5"),
        (12, "t-0: leads in epoch 4, log end 5, high watermark 5, ISR [1, 3]"),
    )  # fmt: skip
    cluster = [leads(10, 2, 3, 9, (1, 2), elr=(3, 4)), follows(10.5, 1, 2, 3, 8)]
    history = Evidence(run_in(tmp_path, runs=[HERE], cluster=cluster)).history_of("t", 0)
    _, _, cut, led = history.samples
    assert (cut.leader, cut.leader_epoch, cut.log_end, cut.elr) == (2, 3, 5, ())
    assert cut.high_watermark is None  # that of the sample before is above the cut
    told = [event.text for event in of_samples(history, 0, 20 * S) if event.was_cut]
    assert told == ["its log was cut from 9 to 5; log end 5, high watermark unknown"]
    assert (led.role, led.leader_epoch, led.elr) == ("leader", 4, (4,))
    assert [(one.at_ns, one.before_ns, one.log_end_before) for one in history.cuts] == [(11 * S, 11 * S, 9)]


def test_the_elr_of_a_leader_that_was_replaced_says_nothing_of_that_of_the_next_one(tmp_path):
    logged(
        tmp_path, 3,
        (12, "t-0: follows 1 in epoch 5, log end 9, high watermark 9, ISR [1]"),
        (13, "t-0: leads in epoch 6, log end 9, high watermark 9, ISR [3]"),
    )  # fmt: skip
    seen = {**follows(10, 3, 2, 4, 9), "isr": [2, 1], "elr": [3]}
    cluster = [leads(9, 2, 4, 9, (2, 1), elr=(3, 4)), seen, leads(11, 3, 3, 9, (3,), elr=(1,))]
    history = Evidence(run_in(tmp_path, runs=[HERE], cluster=cluster)).history_of("t", 0)
    *_, before, follower, leader = history.samples
    assert (before.elr, follower.elr, leader.elr) == ((1,), (), (4,))


@pytest.mark.parametrize(("cut", "kinds"), [(False, {"acknowledged-early"}), (True, {"wrong-cut"})])
def test_a_log_that_tells_of_no_cut_leaves_no_doubt_that_there_was_none(tmp_path, cut, kinds):
    """Broker 2 is of the ISR, no sample shows its log after the acknowledgement, and it leads without the record."""
    told = [(11, "t-0: diverges from leader 1; cut from 16 to 12")] if cut else []
    logged(tmp_path, 2, *told, (14, "t-0: leads in epoch 1, log end 12, high watermark 12, ISR [2, 3]"))
    cluster = [leads(9, 1, 0, 20, (1, 2, 3)), leads(15, 2, 1, 12, (2, 3))]
    (incident,) = diagnose(run_in(tmp_path, runs=[HERE], cluster=cluster, anomalies=[lost(15, 10)]))
    assert {cause.kind for cause in incident.causes} == kinds


@pytest.mark.parametrize(("logs", "kinds"), [(True, {"new-leader"}), (False, {"stale-leader", "new-leader"})])
def test_who_led_until_the_next_leader_began_by_its_log_was_not_replaced(tmp_path, logs, kinds):
    """Broker 1 answers at 12 s in an epoch that is later than that of the acknowledgement; broker 2 leads at 17 s."""
    if logs:
        logged(tmp_path, 2, (17, "t-0: leads in epoch 6, log end 20, high watermark 12, ISR [2]"))
    cluster = [leads(9, 1, 4, 20, (1, 2)), leads(11, 1, 5, 20, (1, 2)), leads(17, 2, 6, 20, (2,))]
    witness = {"offset": 15, "node": 1, "completed_ns": 10 * S, "status": "ok"}
    missed = lost(12, 12, anomaly="stale-read", broker=1, evidence=json.dumps({"witness": witness}))
    (incident,) = diagnose(run_in(tmp_path, runs=[HERE], cluster=cluster, anomalies=[missed]))
    assert {cause.kind for cause in incident.causes} == kinds


@pytest.mark.parametrize("anew", [True, False])
def test_a_leader_whose_own_epoch_has_gone_back_leads_a_topic_that_was_created_anew(tmp_path, anew):
    """Broker 1 followed in epoch 3; if it had not heard of that, it is a leader that was replaced in epoch 0."""
    followed = [follows(11, 1, 2, 3, 9)] if anew else []
    cluster = [leads(9, 1, 0, 9, (1, 2)), leads(10, 2, 3, 9, (2,)), *followed, leads(20, 1, 0, 2, (1, 2))]
    history = Evidence(run_in(tmp_path, runs=[HERE], cluster=cluster)).history_of("t", 0)
    assert history.claims == (() if anew else ((20 * S, 1, 0),))
    assert history.leading[-1].broker == (1 if anew else 2)


@pytest.mark.parametrize(("led_s", "kind"), [(34.2, "acknowledged-early"), (35.2, "diverged-log-kept")])
def test_who_acknowledged_when_another_already_led_by_its_log_was_replaced_and_did_not_know_it(tmp_path, led_s, kind):
    """Broker 2 leads, is cut off, and acknowledges at 34.8 s; no sample shows that broker 3 leads from `led_s` on."""
    logged(tmp_path, 2, (23, "t-0: leads, ISR [2], high watermark 10"))
    logged(tmp_path, 3, (led_s, "t-0: leads, ISR [3], high watermark 12"))
    cluster = [leads(at_s, broker, -1, 40, (2, 3)) for at_s, broker in ((25, 2), (34, 2), (36, 3), (60, 3))]
    logs = records_at_15((3, 7), (2, 1015))
    faults = [fault(4, "isolate", [202], 27, 34), fault(5, "pause", [2], 29, 33), fault(3, "kill", [202], 5, 6)]
    faults.append(fault(2, "kill", [2], 20, 23.5))  # it led after that
    anomalies = [lost(15, 34.8, broker=2)]
    (incident,) = diagnose(
        run_in(tmp_path, runs=[OF_ZK], cluster=cluster, logs=logs, faults=faults, anomalies=anomalies)
    )
    assert incident.cause.kind == kind
    if kind == "acknowledged-early":
        assert "by broker 2 without broker 3, which already led (by its log since 34.200 s)" in incident.cause.sentence
        assert incident.cause.faults == (4, 5)
        assert "(Z-02)" in incident.cause.allowed_by


@pytest.mark.parametrize(("cut_to", "kind"), [(14, "wrong-cut"), (17, "diverged-log-kept")])
def test_who_acknowledged_after_it_had_cut_its_log_wrote_over_what_others_have(tmp_path, cut_to, kind):
    """Broker 2 acknowledges offset 15, and holds it still; broker 1, which leads last, has another record there."""
    logged(tmp_path, 2, (41.98, f"t-0: cut from 40 to {cut_to}"))
    epochless = -1
    cluster = [leads(at_s, broker, epochless, 40, (1, 2)) for at_s, broker in ((30, 1), (48, 2), (55, 1), (60, 1))]
    logs = records_at_15((1, 7), (2, 1015))
    faults = [fault(7, "isolate", [2], 41.952, 49), fault(6, "kill", [2], 20, 25)]
    anomalies = [lost(15, 49, broker=2)]
    (incident,) = diagnose(
        run_in(tmp_path, runs=[HERE], cluster=cluster, logs=logs, faults=faults, anomalies=anomalies)
    )
    assert incident.cause.kind == kind
    if kind == "wrong-cut":
        assert "broker 2 had cut its log from 40 to 14 at 41.980 s, and led; broker 1" in incident.cause.sentence
        assert incident.cause.faults == (7,)


@pytest.mark.parametrize(("isr", "kind"), [((1, 3), "unclean-election"), ((1, 2, 3), "wrong-cut")])
def test_who_led_from_outside_the_isr_lacked_what_others_had_before_it_whatever_it_had_cut_off(tmp_path, isr, kind):
    """Broker 2 is cut off, broker 1 leads without it; then broker 2 cuts a record off, leads alone, and is replaced."""
    logged(tmp_path, 2, (41.98, "t-0: cut from 16 to 15"), (44, "t-0: leads, ISR [2], high watermark 15"))
    logged(tmp_path, 1, (54, "t-0: leads, ISR [1], high watermark 40"))
    cluster = [leads(at_s, broker, -1, end, members) for at_s, broker, end, members in (
        (10, 2, 15, (1, 2, 3)), (30, 1, 40, isr), (48, 2, 17, (2,)), (55, 1, 40, (1,)), (60, 1, 41, (1,)),
    )]  # fmt: skip
    logs = records_at_15((1, 7), (2, 1015))
    faults = [
        fault(5, "isolate", [2], 12, 29), fault(6, "isolate", [1], 40, 47), fault(7, "isolate", [2], 52, 58),
    ]  # fmt: skip
    anomalies = [lost(15, 49, broker=2)]
    (incident,) = diagnose(
        run_in(tmp_path, runs=[OF_ZK], cluster=cluster, logs=logs, faults=faults, anomalies=anomalies)
    )
    assert incident.cause.kind == kind
    if kind == "unclean-election":
        assert "broker 2 led again from 44.000 s, though the ISR last seen before that was [1, 3]" in incident.headline
        told = "Broker 2 was cut off at 12.000 s (fault #5). It had led until 10.000 s, and may not have known who led"
        assert any(line.startswith(told) for line in incident.cause.evidence)
        assert incident.cause.faults == (5, 6, 7)
        assert "(Z-02)" in incident.cause.allowed_by


@pytest.mark.parametrize(("kind", "named"), [("kill", (6, 7)), ("pause", (7,))])
def test_the_restart_at_which_a_log_was_cut_is_named(tmp_path, kind, named):
    """Broker 2 comes back at 41.9 s, cuts its log, and acknowledges offset 15, of which broker 1 has another record."""
    logged(tmp_path, 2, (41.98, "t-0: cut from 40 to 14"))
    cluster = [leads(at_s, broker, -1, 40, (1, 2)) for at_s, broker in ((30, 1), (48, 2), (55, 1), (60, 1))]
    logs = records_at_15((1, 7), (2, 1015))
    faults = [fault(7, "isolate", [2], 41.952, 49), fault(6, kind, [2], 35, 41.979)]
    run = run_in(tmp_path, runs=[HERE], cluster=cluster, logs=logs, faults=faults, anomalies=[lost(15, 49, broker=2)])
    (incident,) = diagnose(run)
    assert (incident.cause.kind, incident.cause.faults) == ("wrong-cut", named)
    before = "Broker 2 was killed at 35.000 s (fault #6), before it cut its log."
    assert (before in incident.cause.evidence) == (kind == "kill")


def test_a_fault_that_took_the_log_is_named_where_others_kept_what_had_been_there(tmp_path):
    """Broker 2 loses its log while it leads, and leads on; it is killed, and broker 1 leads with the old records."""
    cluster = [
        leads(30, 2, -1, 40, (1, 2)), follows(31, 2, -1, -1, 0), leads(33, 2, -1, 9, (1, 2)),
        leads(48, 2, -1, 50, (1, 2)), leads(55, 1, -1, 60, (1,)),
    ]  # fmt: skip
    logs = records_at_15((1, 7), (2, 1015))
    faults = [fault(4, "page-cache-loss", [2], 30.5, 31), fault(5, "kill", [2], 52, 58), fault(6, "kill", [2], 20, 25)]
    anomalies = [lost(15, 49, broker=2)]
    (incident,) = diagnose(
        run_in(tmp_path, runs=[OF_ZK], cluster=cluster, logs=logs, faults=faults, anomalies=anomalies)
    )
    how = (
        "broker 2 acknowledged it after it lost its page cache at 30.500 s (fault #4) and led on with 0 of 40 records"
        " left; broker 1, which led last, had kept what had been at their offsets before"
    )
    assert how in incident.headline
    assert (incident.cause.kind, incident.cause.faults) == ("diverged-log-kept", (4, 5))
    assert "(Z-04 and Z-05)" in incident.cause.allowed_by
    assert "Broker 2 was killed at 52.000 s (fault #5), and broker 1 led by 55.000 s." in (incident.cause.evidence)


def test_a_leader_that_was_replaced_by_the_logs_has_not_taken_over(tmp_path):
    """Broker 2 calls itself leader in a sample, although broker 3 leads by its log; it leads again from 37 s on."""
    logged(
        tmp_path, 2, (20, "t-0: leads, ISR [2, 3], high watermark 10"), (37, "t-0: leads, ISR [2], high watermark 20")
    )
    logged(tmp_path, 3, (29, "t-0: leads, ISR [3], high watermark 20"))
    cluster = [
        leads(25, 2, -1, 20, (2, 3)), leads(30, 3, -1, 22, (3,)), leads(30.5, 2, -1, 20, (2,)),
        leads(31, 3, -1, 40, (3,)), leads(38, 2, -1, 20, (2,)), leads(39, 2, -1, 20, (2,)),
    ]  # fmt: skip
    faults = [fault(6, "kill", [3], 32, 45)]
    anomalies = [lost(30, 30.2, broker=3)]
    (incident,) = diagnose(run_in(tmp_path, runs=[OF_ZK], cluster=cluster, faults=faults, anomalies=anomalies))
    assert "broker 3 was killed at 32.000 s (fault #6), and broker 2" in incident.cause.sentence
    assert "was elected by 38.000 s" in incident.cause.sentence


def test_records_that_no_sample_but_its_own_cut_shows_were_cut_off(tmp_path):
    """Broker 3 acknowledges them after its last sample, is killed, cuts its log when it is back, and leads again."""
    logged(tmp_path, 3, (38, "t-0: cut from 41 to 30"), (44, "t-0: leads, ISR [3], high watermark 30"))
    cluster = [leads(30, 3, -1, 31, (1, 3)), follows(33, 1, 3, -1, 40), leads(45, 3, -1, 30, (3,))]
    faults = [fault(6, "kill", [3], 32, 37), fault(7, "isolate", [1], 40, 50)]
    anomalies = [lost(offset, 31.5, broker=3) for offset in range(30, 41)]
    (incident,) = diagnose(run_in(tmp_path, runs=[OF_ZK], cluster=cluster, faults=faults, anomalies=anomalies))
    assert incident.cause.kind == "wrong-cut"
    assert "broker 3 cut them off its log at 38.000 s, and was then elected" in incident.headline
    assert incident.cause.faults == (6, 7)
    assert "Broker 3 was killed at 32.000 s (fault #6), before it cut its log." in incident.cause.evidence
    assert incident.cause.evidence[0].startswith("By its own log broker 3 began to lead t-0 at 44.000 s")


def test_a_log_that_grew_only_by_what_the_new_leader_wrote_did_not_hold_the_records(tmp_path):
    """Broker 1 has them; broker 2 never had, and its log is as long once broker 3 leads."""
    logged(tmp_path, 3, (38, "t-0: cut from 41 to 30"), (44, "t-0: leads, ISR [3], high watermark 30"))
    cluster = [leads(30, 3, -1, 31, (1, 3)), follows(33, 1, 3, -1, 40), follows(43, 2, 3, -1, 20)]
    cluster += [follows(44.9, 2, 3, -1, 44), leads(45, 3, -1, 30, (3,))]
    faults = [fault(6, "kill", [3], 32, 37), fault(7, "isolate", [1], 40, 50), fault(8, "isolate", [2], 41, 50)]
    anomalies = [lost(offset, 31.5, broker=3) for offset in range(30, 41)]
    (incident,) = diagnose(run_in(tmp_path, runs=[OF_ZK], cluster=cluster, faults=faults, anomalies=anomalies))
    assert incident.cause.faults == (6, 7)
    assert not any("Broker 2" in sentence for sentence in incident.cause.evidence)


def lost_by_one_replaced(directory, *, cut_off_s=40, by=1):
    """Broker 2 is cut off, and takes broker 1, which leads next, out of its ISR; then broker 2 leads again.

    Broker 1 has acknowledged offsets 15 and 16, of which broker 2 has others, and offset 17, which broker 2 lacks.
    """
    began = [(1, "t-0: leads, ISR [1, 2, 3], high watermark 0"), (59, "t-0: leads, ISR [2, 3], high watermark 15")]
    logged(directory, 2, *began)
    logged(directory, 1, (46, "t-0: leads, ISR [1, 3], high watermark 15"))
    cluster = [leads(at_s, broker, -1, end, members) for at_s, broker, end, members in (
        (30, 2, 17, (1, 2, 3)), (42, 2, 17, (2,)), (45, 2, 17, (2,)), (47, 1, 18, (1, 3)), (50, 1, 18, (1, 3)),
        (60, 2, 17, (2, 3)), (61, 2, 30, (2, 3)),
    )]  # fmt: skip
    logs = [{"topic": "t", "partition": 0, "leader_epoch": -1, "offset": at, "broker": broker, "value": value}
            for at in (15, 16, 17) for broker, value in ((1, 1000 + at), (2, 7))]  # fmt: skip
    faults = [fault(5, "isolate", [1], 12, 29), fault(6, "isolate", [2], cut_off_s, 47)]
    anomalies = [lost(at, 48 + at / 100, broker=by if at == 17 else 1) for at in (15, 16, 17)]
    return diagnose(run_in(directory, runs=[OF_ZK], cluster=cluster, logs=logs, faults=faults, anomalies=anomalies))


def test_what_a_new_leader_has_other_records_of_went_in_the_election_in_which_it_lacked_the_rest(tmp_path):
    (incident,) = lost_by_one_replaced(tmp_path)
    assert incident.anomalies["lost-acked-write"] == (3, 0)
    assert incident.cause.node == 2
    assert "which was not in the ISR last seen, was elected" in incident.cause.sentence


@pytest.mark.parametrize("other", [{"by": 3}, {"cut_off_s": 43}])
def test_what_need_not_have_gone_in_that_election_is_an_incident_of_its_own(tmp_path, other):
    """Another broker acknowledged it; or the ISR of broker 2 is from before it was cut off."""
    assert len(lost_by_one_replaced(tmp_path, **other)) == 2


def test_without_epochs_a_leader_leads_from_when_its_log_says_so(tmp_path):
    """Broker 2 still calls itself leader in a sample at 11 s."""
    logged(tmp_path, 2, (1, "t-0: leads, ISR [1, 2], high watermark 0"))
    logged(tmp_path, 1, (10, "t-0: leads, ISR [1], high watermark 15"))
    cluster = [leads(9, 2, -1, 15, (1, 2)), leads(11, 2, -1, 15, (2,)), leads(12, 1, -1, 16, (1,))]
    history = Evidence(run_in(tmp_path, runs=[OF_ZK], cluster=cluster)).history_of("t", 0)
    assert (history.leader_at(9_500_000_000).leader, history.leader_at(10_500_000_000).leader) == (2, 1)
    assert [isr.isr for isr in history.isrs] == [(1, 2), (1,)]
