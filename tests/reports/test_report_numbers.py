"""The numbers behind the page, each on a history small enough to count by hand."""

import pyarrow as pa
import pytest

from common.wording import duration, moment, nodes
from history.processes import number_name
from history.schema import ANOMALIES, TABLES
from incidents.partition_history import NO_LEADER, partition_history
from reports.data.availability import outages, quiet_gap_ns
from reports.data.joined import Joined
from reports.data.series import bins_over, latency_quantiles_ms, progress, throughput
from reports.data.stored_run import Run, with_places
from reports.data.suspects import suspects
from reports.page import html
from reports.pictures.decisive_events import of_samples
from reports.pictures.replica_logs import log_picture
from reports.pictures.strips import controller_strip, partition_strips, version_strips
from reports.pictures.theme import fault_family
from reports.pictures.timeline import timeline
from reports.text.anomalies import groups
from reports.text.configuration import contract_sentences, reproduce_command
from reports.text.record_timeline import record_timeline
from reports.text.summary import summarize
from tests.incidents.stored import leads

SECOND = 1_000_000_000


def histories_of(run):
    return lambda topic, partition: partition_history(run.tables["cluster"], topic, partition)


def run_of(tmp_path, spec=None, results=None, **rows):
    """Make a run in memory from a few rows per table; columns that are not given are null."""
    schemas = {**TABLES, "anomalies": ANOMALIES}
    tables = {name: pa.Table.from_pylist(rows.get(name, []), schema=schema) for name, schema in schemas.items()}
    tables["anomalies"] = with_places(tables["anomalies"])
    return Run(tmp_path, spec or {}, None, results or {}, tables, ())


def voter(at_s, controller, role, leader, epoch):
    return {
        "at_ns": int(at_s * SECOND), "controller": controller, "role": role, "leader": leader, "epoch": epoch,
        "log_end": 9, "high_watermark": 9,
    }  # fmt: skip


def test_the_active_controllers_are_drawn_one_after_the_other(tmp_path):
    run = run_of(
        tmp_path,
        quorum=[
            voter(0, 100, "leader", 100, 3),
            voter(0, 101, "follower", 100, 3),
            voter(50, 101, "leader", 101, 5),
            voter(80, 100, "leader", 100, 3),  # deposed, and back with its old belief
            voter(100, 100, "follower", 101, 5),
        ],
    )
    strip = controller_strip(run)
    assert strip.elections == 2
    assert [(segment.label, segment.left, segment.width) for segment in strip.leaderships] == [
        ("100", 0.0, 50.0),
        ("101", 50.0, 50.0),
    ]
    assert "controller 101 leads the quorum in epoch 5" in strip.leaderships[1].title


def test_controllers_that_were_not_sampled_are_not_drawn(tmp_path):
    assert controller_strip(run_of(tmp_path)) is None


def write(op, acked_s, partition=0, offset=0, status="ok", took_s=0.01, **more):
    """Rows of `operations` and `sends` for one record."""
    completed = None if acked_s is None else round(acked_s * SECOND)
    invoked = round(((acked_s or 0) - took_s) * SECOND)
    operation = {"op": op, "process": 1, "kind": "send", "status": status, "phase": "main", "node": 1}
    return (
        {**operation, "invoked_ns": invoked, "completed_ns": completed, **more},
        {"op": op, "topic": "t", "partition": partition, "value": 100 + op, "acks": -1, "offset": offset},
    )


def writes(*pairs):
    return {"operations": [pair[0] for pair in pairs], "sends": [pair[1] for pair in pairs]}


def fault(number, start_s, end_s, targets=(1,), kind="kill", took_hold=True):
    return {
        "fault": number, "kind": kind, "targets": list(targets), "started_ns": int(start_s * SECOND),
        "ended_ns": int(end_s * SECOND), "took_hold": took_hold, "healed": True,
    }  # fmt: skip


def sample(at_s, broker, role="follower", epoch=0, log_end=10, isr=(1, 2, 3)):
    return {
        "at_ns": int(at_s * SECOND), "broker": broker, "topic": "t", "partition": 0, "role": role,
        "leader_epoch": epoch, "log_end": log_end, "isr": list(isr),
    }  # fmt: skip


def log(broker, values, epoch=0, first=0, high_watermark=None):
    return [
        {
            "broker": broker, "topic": "t", "partition": 0, "offset": first + i, "leader_epoch": epoch,
            "value": value, "high_watermark": first + len(values) if high_watermark is None else high_watermark,
        }
        for i, value in enumerate(values)
    ]  # fmt: skip


def test_operations_are_counted_in_the_second_in_which_they_ended(tmp_path):
    rows = writes(
        write(1, 0.5), write(2, 1.5), write(3, 1.6), write(4, 2.5, status="fail"), write(5, None, status="info")
    )
    joined = Joined(run_of(tmp_path, **rows))
    rates = throughput(joined, bins_over(0, 3 * SECOND))
    assert rates.acknowledged_sends.tolist() == [1, 2, 0]
    assert rates.fail.tolist() == [0, 0, 1]
    assert rates.info.tolist() == [1, 0, 0]


def test_latency_quantiles_are_those_of_the_acknowledged_sends_of_a_second(tmp_path):
    pairs = [write(i, 1 + i / 1000, took_s=i / 1000) for i in range(1, 101)] + [
        write(200, 1.5, status="fail", took_s=1)
    ]
    quantiles = latency_quantiles_ms(Joined(run_of(tmp_path, **writes(*pairs))), bins_over(0, 2 * SECOND))
    assert quantiles[:, 1] == pytest.approx([50.5, 95.05, 99.01])
    assert all(value != value for value in quantiles[:, 0])


def test_long_runs_are_drawn_with_at_most_so_many_bins():
    assert bins_over(0, 120 * SECOND).size == 120
    assert bins_over(0, 86_400 * SECOND).size == 600
    assert bins_over(0, 86_400 * SECOND).width_s == 144


def test_progress_sums_partitions_and_takes_the_slowest_final_reader(tmp_path):
    rows = writes(write(1, 0.5, partition=0, offset=4), write(2, 0.6, partition=1, offset=1))
    rows["operations"] += [
        {
            "op": op,
            "process": process,
            "kind": "poll",
            "status": "ok",
            "phase": phase,
            "completed_ns": int(at_s * SECOND),
        }
        for op, process, phase, at_s in ((11, 8, "main", 1.2), (12, 9, "final", 2.2), (13, 10, "final", 2.4))
    ]
    rows["polls"] = [
        {"op": op, "topic": "t", "partition": partition, "next_position": position}
        for op, partition, position in ((11, 0, 3), (12, 0, 5), (12, 1, 2), (13, 0, 1))
    ]
    steps = progress(Joined(run_of(tmp_path, **rows)), bins_over(0, 3 * SECOND))
    assert steps.acknowledged.tolist() == [7, 7, 7]
    assert steps.live.tolist() == [0, 3, 3]
    assert steps.final.tolist()[2] == 1
    assert all(value != value for value in steps.final[:2])


def test_an_outage_is_the_longest_pause_that_touches_the_fault(tmp_path):
    rows = writes(*(write(i, at_s, offset=i) for i, at_s in enumerate((1, 2, 2.5, 6, 6.2, 7))))
    rows["faults"] = [fault(1, 3, 5), fault(2, 20, 21), fault(3, 6.5, 6.6, took_hold=False)]
    run = run_of(tmp_path, **rows)
    first, late = outages(run, Joined(run), [])
    assert (first.gap_ns, first.worst_gap_ns, first.worst_partition) == (3.5 * SECOND, 3.5 * SECOND, "t-0")
    assert first.recovered_ns == SECOND
    assert (late.gap_ns, late.recovered_ns) == (None, None)
    assert quiet_gap_ns(run, Joined(run)) == SECOND


def test_writers_wait_for_the_first_acknowledgement_since_the_main_phase_began(tmp_path):
    rows = writes(write(1, 6), write(2, 7))
    rows["faults"] = [fault(1, 3, 5), fault(2, 6.5, 6.8)]
    rows["phases"] = [{"phase": "main", "started_ns": 2 * SECOND, "ended_ns": 9 * SECOND}]
    run = run_of(tmp_path, **rows)
    early, late = outages(run, Joined(run), [])
    assert (early.gap_ns, early.worst_gap_ns) == (4 * SECOND, None)
    assert late.gap_ns == SECOND


def test_a_write_after_the_main_phase_ends_an_outage_and_is_in_none(tmp_path):
    rows = writes(write(1, 1), write(2, 4), write(3, 9, phase="recovery"))
    rows["faults"] = [fault(1, 3, 5)]
    run = run_of(tmp_path, **rows)
    (outage,) = outages(run, Joined(run), [])
    assert (outage.gap_ns, outage.worst_gap_ns, outage.recovered_ns) == (3 * SECOND, 3 * SECOND, 4 * SECOND)


def test_recovery_waits_for_every_partition_and_every_replica(tmp_path):
    rows = writes(write(1, 1, 0), write(2, 1, 1), write(3, 5.5, 0), write(4, 8, 1))
    rows["faults"] = [fault(1, 3, 5)]
    rows["cluster"] = [
        sample(at_s, 1, "leader", isr=isr) for at_s, isr in ((4, (1,)), (6, (1, 2)), (9, (1, 2, 3)), (10, (1, 2, 3)))
    ]
    run = run_of(tmp_path, **rows)
    (outage,) = outages(run, Joined(run), [partition_history(run.tables["cluster"], "t", 0)])
    assert outage.recovered_ns == 3 * SECOND
    assert outage.isr_ns == 4 * SECOND
    of_others = [
        {**sample(at_s, 1, "leader", isr=(1,)), "partition": number}
        for number, seen in enumerate(((1, 4), (6, 9)), start=1)  # deleted before that, and created later
        for at_s in seen
    ]
    run = run_of(tmp_path, **{**rows, "cluster": [*rows["cluster"], *of_others]})
    histories = [partition_history(run.tables["cluster"], "t", number) for number in range(3)]
    (outage,) = outages(run, Joined(run), histories)
    assert outage.isr_ns == 4 * SECOND


@pytest.mark.parametrize(
    ("seen", "after_s"),
    [
        ([(4, (1, 2, 3)), (6, (1,)), (9, (1, 2, 3))], 4),  # the leader was silent, and told later
        ([(4, (1, 2, 3)), (5.5, (1, 2, 3)), (6, (1,)), (9, (1, 2, 3))], 0),
        ([(4, (1, 2, 3)), (6, (1,))], None),
        ([(4, (1, 2, 3)), (10, (1, 2, 3))], 0),
    ],
)
def test_a_full_isr_from_before_the_end_of_a_fault_counts_if_a_later_sample_agrees(tmp_path, seen, after_s):
    rows = writes(write(1, 1, 0))
    rows["faults"] = [fault(1, 3, 5)]
    rows["cluster"] = [sample(at_s, 1, "leader", isr=isr) for at_s, isr in seen]
    run = run_of(tmp_path, **rows)
    (outage,) = outages(run, Joined(run), [partition_history(run.tables["cluster"], "t", 0)])
    assert outage.isr_ns == (None if after_s is None else after_s * SECOND)


def test_the_leader_is_the_one_of_the_newest_epoch_and_a_silent_one_is_gone(tmp_path):
    cluster = [sample(at_s, 1, "leader", 0) for at_s in range(4)]
    cluster += [sample(at_s, 2, "follower", 0) for at_s in range(10)]
    cluster += [sample(at_s + 0.5, 3, "leader", 1) for at_s in (7, 8, 9)]
    cluster += [sample(8.7, 1, "leader", 0)]
    history = partition_history(run_of(tmp_path, cluster=cluster).tables["cluster"], "t", 0)
    assert [(led.leader, led.leader_epoch) for led in history.leaderships] == [(1, 0), (NO_LEADER, 0), (3, 1)]
    assert history.leader_at(5 * SECOND).leader == NO_LEADER
    assert history.claims == ((int(8.7 * SECOND), 1, 0),)


@pytest.mark.parametrize(("epoch", "does"), [(2, "leads again"), (3, "took over and leads")])
def test_a_leader_that_comes_back_in_its_leader_epoch_has_not_taken_over(tmp_path, epoch, does):
    cluster = [sample(1, 1, "leader", 2), sample(2, 1, "follower", 2), sample(3, 1, "leader", epoch)]
    history = partition_history(run_of(tmp_path, cluster=cluster).tables["cluster"], "t", 0)
    *_, last = of_samples(history, 0, 5 * SECOND)
    assert last.text.startswith(f"{does} in leader epoch {epoch}")
    assert last.took_over


def test_a_log_that_goes_back_is_noticed(tmp_path):
    cluster = [sample(1, 2, log_end=10), sample(2, 2, log_end=12), sample(3, 2, log_end=7), sample(3, 1, log_end=12)]
    (cut,) = partition_history(run_of(tmp_path, cluster=cluster).tables["cluster"], "t", 0).cuts
    assert (cut.broker, cut.log_end_before, cut.log_end, cut.before_ns) == (2, 12, 7, 2 * SECOND)


def test_the_picture_of_the_logs_shows_agreement_and_where_the_record_is_missing(tmp_path):
    rows = writes(write(1, 1, offset=0), write(2, 1, offset=1), write(3, 2, offset=1))
    rows["logs"] = [*log(1, [101, 103]), *log(2, [101, 103, 104]), *log(3, [101, 102])]
    run = run_of(tmp_path, **rows)
    picture = log_picture(run, Joined(run), "t", 0, 1, 102)
    acknowledged, *replicas = picture.rows
    assert [cell.value for cell in acknowledged.cells[:3]] == [101, 102, None]
    assert acknowledged.cells[1].also == (103,)
    assert [[cell.agreement for cell in row.cells[:3]] for row in replicas] == [
        ["agrees", "agrees", "past-end"],
        ["agrees", "agrees", "agrees"],
        ["agrees", "differs", "past-end"],
    ]
    assert [row.cells[1].missing for row in replicas] == [True, True, False]
    assert not any(cell.missing for row in replicas for cell in row.cells if cell.offset != 1)


def test_a_record_before_the_beginning_of_a_log_is_not_missing_there(tmp_path):
    rows = writes(write(1, 1, offset=0), write(2, 1, offset=1))
    rows["logs"] = [*log(1, [101, 103]), *log(2, [101, 103])[1:]]
    run = run_of(tmp_path, **rows)
    _, whole, deleted = log_picture(run, Joined(run), "t", 0, 0, 102).rows
    assert (whole.log_start, whole.cells[0].missing) == (0, True)
    assert (deleted.log_start, deleted.cells[0].missing, deleted.cells[0].agreement) == (1, False, "absent")


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "0"), (4_429, "4429"), ((1 << 40) - 1, "1099511627775"), (1 << 40, "1:0"), ((3 << 40) + 4_383, "3:4383"),
        (1_764_318_471_234_567_890, "1764318471234567890"), (-1, "-1"), (None, "unknown"),
    ],
)  # fmt: skip
def test_a_number_of_a_later_worker_is_named_by_worker_and_its_own_number(number, name):
    assert number_name(number) == name


def test_a_read_of_its_offset_before_a_record_was_written_is_no_sign_of_loss(tmp_path):
    rows = writes(write(1, 5, offset=0))
    rows["operations"].append({"op": 2, "process": 9, "kind": "poll", "status": "ok", "completed_ns": 2 * SECOND})
    rows["reads"] = [{"op": 2, "topic": "t", "partition": 0, "offset": 0, "value": 55}]
    run = run_of(tmp_path, **rows)
    timeline = record_timeline(run, Joined(run), partition_history(run.tables["cluster"], "t", 0), 0, 101)
    assert timeline.gone_ns is None
    assert (timeline.moments[0].text, timeline.moments[0].tone) == (
        "client 9 read another record (55) at offset 0",
        "cluster",
    )


def test_a_timeline_is_in_order_and_knows_when_the_record_was_gone(tmp_path):
    rows = writes(write(1, 1, offset=5))
    rows["operations"] += [
        {"op": op, "process": op, "kind": "poll", "status": "ok", "completed_ns": at_s * SECOND}
        for op, at_s in ((2, 2), (3, 9))
    ]
    rows["reads"] = [
        {"op": 2, "topic": "t", "partition": 0, "offset": 5, "value": 101},
        {"op": 3, "topic": "t", "partition": 0, "offset": 5, "value": 777},
    ]
    rows["cluster"] = [sample(0, 1, "leader"), sample(2, 1, "leader"), sample(3, 2, log_end=9), sample(4, 2, log_end=5)]
    run = run_of(tmp_path, **rows)
    timeline = record_timeline(run, Joined(run), partition_history(run.tables["cluster"], "t", 0), 5, 101)
    assert (timeline.acknowledged_ns, timeline.gone_ns) == (SECOND, 4 * SECOND)
    assert [event.text.split(" at ")[0] for event in timeline.moments] == [
        "client 1 sent it, operation 1",
        "broker 1 led t-0, leader epoch 0",
        "broker 1 acknowledged it",
        "client 2 read it",
        "the log of broker 2 was seen to end",
        "client 3 read another record (777)",
    ]


def test_the_timeline_of_an_unread_record_says_so(tmp_path):
    run = run_of(tmp_path, **writes(write(1, 1)))
    timeline = record_timeline(run, Joined(run), partition_history(run.tables["cluster"], "t", 0), 0, 101)
    assert timeline.moments[-1].text == "no reader ever got it"


def test_faults_are_suspects_when_they_are_named_or_near_in_time(tmp_path):
    run = run_of(tmp_path, faults=[fault(1, 1, 2), fault(2, 9, 11, (3,)), fault(3, 10, 14, (2,)), fault(4, 30, 31)])
    near = suspects(run, set(), (10 * SECOND + 1, "the acknowledgement"), 12 * SECOND, {2})
    assert [suspect.number for suspect in near] == [3, 2]
    assert near[1].sentence.endswith("it was active at the time of the acknowledgement.")
    named = suspects(run, {1, 4}, (10 * SECOND, "the acknowledgement"), None, set())
    assert [suspect.number for suspect in named] == [2, 3, 4, 1]
    assert (
        named[2].sentence == "kill on broker 1, from 30.000 s to 31.000 s: it began 20.0 s after the acknowledgement."
    )
    of_incident = suspects(run, {1, 4}, (10 * SECOND, "the acknowledgement"), None, set(), {4})
    assert of_incident[0].number == 4
    (before,) = suspects(run, set(), (16 * SECOND, "the anomaly"), None, set())
    assert before.sentence.endswith("it had ended 2.00 s before the anomaly.")
    assert suspects(run, set(), None, None, set()) == []


def test_each_partition_has_its_first_anomaly_explained_and_neighbours_share_a_picture(tmp_path):
    positions = [(0, offset) for offset in (3, 4, 5, 900, 901)] + [(1, 50), (2, None)]
    anomalies = [
        {
            "anomaly": "lost-acked-write",
            "within_contract": False,
            "topic": "t",
            "partition": partition,
            "offset": offset,
        }
        for partition, offset in positions
    ]
    run = run_of(tmp_path, anomalies=anomalies)
    (group,) = groups(run, Joined(run), histories_of(run))
    assert [explanation.title for explanation in group.explanations] == ["t-0, offset 3", "t-1, offset 50", "t-2"]
    assert (group.total, len(group.rows), group.unlisted) == (7, 4, 0)
    assert [(each.name, each.rows, each.offsets) for each in group.partitions] == [
        ("t-0", 5, "3 to 901"),
        ("t-1", 1, "50"),
        ("t-2", 1, "not known"),
    ]


def test_totals_are_those_of_the_results_when_the_table_holds_fewer(tmp_path):
    row = {"anomaly": "lost-read", "within_contract": False, "topic": "t", "partition": 0, "offset": 1}
    stated = {"anomalies": {"lost-read": {"violations": 5000, "within_contract": 2}}}
    run = run_of(tmp_path, results=stated, anomalies=[row])
    violations, allowed = groups(run, Joined(run), histories_of(run))
    assert (violations.total, violations.recorded, violations.unlisted) == (5000, 1, 4999)
    assert (allowed.total, allowed.unlisted, allowed.within_contract) == (2, 2, True)


def test_malformed_rows_are_on_neither_side_of_the_contract(tmp_path):
    row = {"anomaly": "malformed-history", "within_contract": True, "explanation": "A row is malformed."}
    run = run_of(tmp_path, results={"verdict": "valid"}, anomalies=[row] * 3)
    summary = summarize(run, Joined(run))
    assert (summary.allowed, summary.anomalies[0].within_contract) == (0, 3)
    page = html(run)
    assert "In the history itself" in page
    assert 'class="part">Within the contract' not in page
    assert "0 anomalies within the contract" in page


def test_the_contract_follows_the_configuration(tmp_path):
    def first(**settings):
        return contract_sentences(run_of(tmp_path, runs=[settings]))[0]

    assert "of 1 replica of" in first(acks=-1, min_insync_replicas=2)
    assert "of 2 replicas of" in first(acks=-1, min_insync_replicas=3)
    assert first(acks=0) == "With acks=0 nothing was promised about any record."
    assert first(acks=1, min_insync_replicas=2).startswith("With acks=1 the leader alone")
    assert any("Unclean" in line for line in contract_sentences(run_of(tmp_path, runs=[{"unclean_election": True}])))


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ("elsewhere/runs/of-old/schedule.json", "RUN/schedule.json"),
        ("elsewhere/runs/of-old/other.json", "elsewhere/runs/of-old/other.json"),  # the run has no such file
        ("elsewhere/schedule.json", "elsewhere/schedule.json"),  # of the user
    ],
)
def test_a_file_of_the_run_s_own_directory_is_named_as_one_of_where_it_is_now(tmp_path, stored, told):
    run = run_of(tmp_path, spec={"reproduce": f"harrow run --schedule {stored}"}, runs=[{"run_id": "of-old"}])
    (run.directory / "schedule.json").write_text("{}")
    assert reproduce_command(run, "RUN") == f"harrow run --schedule {told}"


def test_the_command_is_the_specification_s_own_or_made_of_its_keys(tmp_path):
    def command(**spec):
        return reproduce_command(run_of(tmp_path, spec=spec), "RUN")

    assert command(reproduce="harrow run --seed 7", seed=8) == "harrow run --seed 7"
    assert command(seed=8, acks="1", idempotence=False, unclean_election=True) == (
        "harrow run --acks 1 --no-idempotence --unclean-election --seed 8"
    )
    assert command(faults=["kill", "pause"], flaws=["a", "b"], duration=60.0) == (
        "harrow run --faults kill,pause --duration 60 --flaw a --flaw b"
    )
    assert command(faults=[], name="two words") == "harrow run --name 'two words' --faults none"
    assert command() == ""


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("kill", "process"),
        ("one-way", "network"),
        ("page-cache-loss", "storage"),
        ("reassign", "other"),
        (None, "other"),
    ],
)
def test_faults_belong_to_families(kind, family):
    assert fault_family(kind) == family


def test_times_and_nodes_are_formatted_in_one_way():
    assert [duration(ns) for ns in (0, 82 * 10**6, 3_250 * 10**6, 45 * SECOND, 125 * SECOND, None)] == [
        "0 ms", "82 ms", "3.25 s", "45.0 s", "2 min 05 s", "unknown",
    ]  # fmt: skip
    assert moment(34_218 * 10**6) == "34.218 s"
    assert [nodes(ids) for ids in ([2, 1], [3], [0, 1], [1, 2, 100], [1, 900], [], None)] == [
        "brokers 1 and 2", "broker 3", "broker 1 and the clients", "brokers 1 and 2 and controller 100",
        "broker 1 and the ensemble", "no node", "no node",
    ]  # fmt: skip


def version(at_s, node, name):
    return {"at_ns": int(at_s * SECOND), "node": node, "version": name}


def test_the_versions_of_each_node_follow_one_another(tmp_path):
    quorum = [voter(0, 100, "leader", 100, 3), voter(100, 100, "leader", 100, 3)]
    sample = {"at_ns": 0, "broker": 1, "topic": "t", "partition": 0, "role": "leader", "leader": 1, "isr": [1]}
    run = run_of(
        tmp_path,
        quorum=quorum,
        cluster=[{**sample, "leader_epoch": 0}],
        versions=[
            version(40, 1, "9.1"),
            version(0, 1, "9.0"),
            version(0, 100, "9.0"),
            {**version(5, 1, ""), "version": None},
        ],
    )
    first, second = version_strips(run)
    assert (first.node, second.node) == ("broker 1", "controller 100")
    assert [(each.label, each.left, each.width) for each in first.versions] == [("9.0", 0.0, 40.0), ("9.1", 40.0, 60.0)]
    assert [(each.label, each.left, each.width) for each in second.versions] == [("9.0", 0.0, 100.0)]
    assert first.versions[0].kind == second.versions[0].kind != first.versions[1].kind, "one colour for each version"
    page = html(run)
    assert "version of broker 1" in page
    assert "A diamond marks when a node was first seen to run 9.1; before, it ran 9.0." in page


def test_a_change_of_version_is_marked_on_the_row_of_its_node(tmp_path):
    upgrade = {
        "fault": 1, "kind": "upgrade", "targets": [1, 2], "started_ns": 10 * SECOND, "ended_ns": 90 * SECOND,
        "took_hold": True, "healed": True,
    }  # fmt: skip
    run = run_of(
        tmp_path,
        faults=[upgrade],
        quorum=[voter(0, 100, "leader", 100, 3), voter(100, 100, "leader", 100, 3)],
        versions=[version(0, 1, "9.0"), version(0, 2, "9.0"), version(40, 2, "9.1")],
    )
    drawn = timeline(run, Joined(run)).svg
    assert "version-2" in drawn
    assert "version-1" not in drawn, "it was not seen to run another one"


def test_a_run_without_an_upgrade_has_no_versions(tmp_path):
    assert version_strips(run_of(tmp_path)) == []
    assert "version of" not in html(run_of(tmp_path))


@pytest.mark.parametrize(
    ("led", "changes"),
    [
        ([(2, -1), (2, 1)], 0),  # its epoch was only not told before
        ([(2, 1), (2, 2)], 1),
        ([(2, -1), (3, -1), (2, -1)], 2),
        ([(2, 1), (3, 2), (3, 3)], 2),
    ],
)
def test_an_epoch_that_was_not_told_before_is_no_change_of_leader(tmp_path, led, changes):
    run = run_of(tmp_path, cluster=[leads(at, broker, epoch, 10, (1, 2, 3)) for at, (broker, epoch) in enumerate(led)])
    (strips,) = partition_strips(run, [partition_history(run.tables["cluster"], "t", 0)])
    assert strips.changes == changes


@pytest.mark.parametrize(("acks", "said"), [(0, True), (1, False), (-1, False)])
def test_with_acks_0_no_broker_is_said_to_have_acknowledged(tmp_path, acks, said):
    page = html(run_of(tmp_path, runs=[{"acks": acks}]))
    assert ("acks=0: by no broker, a client counts what it has sent" in page) is said


@pytest.mark.parametrize(
    ("verdict", "said"),
    [("invalid", "a failure may need several attempts"), ("valid", "what happens differs from run")],
)
def test_what_a_repetition_may_need_depends_on_the_verdict(tmp_path, verdict, said):
    spec = {"reproduce": "harrow run --seed 1", "seed": 1}
    runs = [{"environment": "local", "seed": 1}]
    assert said in html(run_of(tmp_path, spec=spec, results={"verdict": verdict}, runs=runs))
