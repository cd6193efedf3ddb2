"""The message chart of a real run: the seconds around the decisive event of an incident."""

import json
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from incidents import Cause
from incidents.partition_history import Sample, partition_history
from reports import render
from reports.data.joined import Joined
from reports.data.stored_run import load_run
from reports.data.story import CLIENTS, NEMESIS
from reports.pictures import decisive_seconds as charts
from reports.pictures.decisive_events import GROWTH, Event, _changes
from tests.reports import synthetic_run
from tests.reports.browser import browsing, chromium
from tests.reports.synthetic_run import LOSSY_PARTITION, LOST, SECOND, TOPIC

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202eevil"
LOSSY_EPOCH = 3
"""The leader epoch in which the lossy partition is led without the records."""
TO_FAULT_NS = int(synthetic_run.FAULTS[3].start_s * SECOND)


@pytest.mark.parametrize(
    ("before", "said"), [(("leader", 2, -1), "leads no more"), (("follower", 1, -1), "is to lead, and does not yet")]
)
def test_a_broker_that_led_is_not_about_to_lead(before, said):
    role, leader, epoch = before
    earlier = Sample(1, 2, role, leader, epoch, 9, 9, (1, 2), ())
    assert _changes(earlier, Sample(2, 2, "follower", 2, -1, 9, 9, (1, 2), ()), has_led=False) == [said]


def charts_of(directory):
    run = load_run(directory)
    return charts.decisive_seconds(run, Joined(run), lambda *pair: partition_history(run.tables["cluster"], *pair))


def of_losses(directory):
    """The chart of the incident in which records were lost."""
    run = load_run(directory)
    number = next(n for n, one in enumerate(run.incidents, 1) if "lost-acked-write" in one.anomalies)
    return next(chart for chart in charts_of(directory) if chart.number == number)


def table(directory, name):
    folder = directory / name if name == "anomalies" else directory / "history" / name
    return [row for part in sorted(folder.glob("*.parquet")) for row in pq.read_table(part).to_pylist()]


def rewrite(directory, name, rows):
    folder = directory / name if name == "anomalies" else directory / "history" / name
    shutil.rmtree(folder)
    synthetic_run.write_table(directory, name, rows)
    results = json.loads((directory / "results.json").read_text())
    results.pop("incidents", None)  # they are found again
    (directory / "results.json").write_text(json.dumps(results))


def chain(story):
    """The steps that the chart marks, from its first step back along the evidence."""
    found, at = [], story.focus
    while at is not None:
        found.append(story.steps[at])
        at = story.steps[at].cause
    return found[::-1]


@pytest.fixture
def by_storage_loss(copy_of):
    """The lossy run, with the page-cache loss as the cause of its loss."""
    directory = copy_of("invalid")
    run = load_run(directory)
    fault = Cause("storage-loss", "broker 1 lost its page cache", (), TO_FAULT_NS, 1, (4,))
    found = [one if one.within_contract else replace(one, causes=(fault,), at_ns=TO_FAULT_NS) for one in run.incidents]
    results = {**run.results, "incidents": [one.to_json() for one in found]}
    (directory / "results.json").write_text(json.dumps(results))
    return directory


def test_the_evidence_leads_from_the_acknowledgements_over_the_fault_to_the_reads_that_miss_them(by_storage_loss):
    chart = of_losses(by_storage_loss)
    told = chain(chart.story)
    assert [(step.lane, step.source) for step in told] == [
        (CLIENTS, 1),  # acknowledged by broker 1
        (NEMESIS, None),  # which the fault hit
        (2, None),  # another broker led
        (CLIENTS, 2),  # and answered with another record
        (CLIENTS, None),
    ]
    assert re.match(r"acknowledges 7 lost records, offsets 645\N{EN DASH}651", told[0].text)
    acknowledged = [
        step.text for step in chart.story.steps if step.text.startswith("acknowledges") and "lost" in step.text
    ]
    assert sum(int(re.search(r"(\d+) lost", text)[1]) for text in acknowledged) == LOST
    assert told[1].text.startswith("fault #4, page-cache-loss of broker 1, begins")
    assert told[2].text.startswith("took over and leads in leader epoch 3")
    assert told[3].text.startswith("2 other records are read, offsets")
    assert re.match(r"VIOLATION of lost-acked-write: 14 acknowledged writes .* were lost$", told[4].text)
    assert [step.at_us for step in told] == sorted(step.at_us for step in told)
    assert chart.story.violation == chart.story.steps.index(told[-1])
    assert chart.partition == f"{TOPIC}-{LOSSY_PARTITION}"
    assert chart.start_ns < TO_FAULT_NS < chart.end_ns


def test_the_cut_of_a_log_is_evidence_where_it_is_the_cause(stored_runs):
    """And the fault that kept a broker from leading that held the records."""
    told = chain(of_losses(stored_runs["invalid"]).story)
    assert [(step.lane, step.source) for step in told] == [
        (CLIENTS, 1),
        (NEMESIS, None),
        (2, None),
        (CLIENTS, 2),
        (CLIENTS, None),
    ]
    assert told[1].text.startswith("fault #4, page-cache-loss of broker 1, begins")
    assert told[2].text.startswith("took over")


def test_the_chart_marks_the_election_that_the_headline_names(copy_of):
    """Broker 3 leads with the records for a moment, before broker 2 leads without them."""
    directory = copy_of("invalid")

    def an_epoch_later(row):
        later = row["partition"] == LOSSY_PARTITION and row["leader_epoch"] == LOSSY_EPOCH
        return {**row, "leader_epoch": LOSSY_EPOCH + 1} if later else row

    for name in ("cluster", "logs"):
        rewrite(directory, name, [an_epoch_later(row) for row in table(directory, name)])
    rows = table(directory, "cluster")
    own = next(row for row in rows if (row["broker"], row["partition"]) == (3, LOSSY_PARTITION))
    between = {"at_ns": TO_FAULT_NS + SECOND // 4, "role": "leader", "leader": 3, "leader_epoch": LOSSY_EPOCH}
    rewrite(directory, "cluster", [*rows, {**own, **between, "log_end": 10_000}])
    chart = of_losses(directory)
    taken = [step for step in chart.story.steps if step.text.startswith("took over")]
    assert [(step.lane, step.state[chart.partition]["epoch"]) for step in taken] == [
        (3, LOSSY_EPOCH),
        (2, LOSSY_EPOCH + 1),
    ]
    assert [step for step in chain(chart.story) if step in taken] == taken[1:]
    assert (
        f"(leader epoch {LOSSY_EPOCH + 1} of {chart.partition}, the second of 2 leaderships seen after the writes)"
        in chart.headline
    )


def test_each_sample_is_a_state_and_growth_alone_is_noise(stored_runs):
    story = of_losses(stored_runs["invalid"]).story
    sampled = [step for step in story.steps if step.state]
    name = f"{TOPIC}-{LOSSY_PARTITION}"
    for step in sampled:
        assert {"role", "epoch", "log_start", "log_end", "high_watermark", "isr"} <= step.state[name].keys()
    seen = {broker: story.before[broker][name] for broker in story.before}
    growing = 0
    for step in sampled:
        now, before = step.state[name], seen.get(step.lane)
        seen[step.lane] = now
        if step.noise:
            growing += 1
            assert step.noise == GROWTH
            assert before is not None
            assert all(now[key] == before[key] for key in ("role", "epoch", "isr", "elr"))
            assert now["log_end"] >= before["log_end"]
    assert growing > 10
    cut = [step for step in sampled if "its log has become shorter, from" in step.text]
    assert cut
    assert not any(step.noise for step in cut)


def test_a_node_that_is_down_is_silent_until_it_answers_again(stored_runs):
    # the cluster's model takes no samples of a node that is down, as fault 2 and 3 have it
    steps = next(chart for chart in charts_of(stored_runs["invalid"]) if chart.partition == f"{TOPIC}-0").story.steps
    told = [(step.lane, step.at_us / 1e6, step.ended) for step in steps if step.ended or "answers again" in step.text]
    assert told == [(2, 18.0, True), (2, 22.0, False), (3, 26.0, True)]


def test_faults_that_overlap_the_seconds_are_told_and_no_others(stored_runs):
    told = {
        chart.partition: [step.text for step in chart.story.steps if step.lane == NEMESIS]
        for chart in charts_of(stored_runs["invalid"])
    }
    (loss,) = told[f"{TOPIC}-{LOSSY_PARTITION}"]
    assert loss.startswith("fault #4, page-cache-loss of broker 1, begins (3 files")
    begun, healed, second = told[f"{TOPIC}-0"]
    assert begun.startswith("fault #2, pause of broker 2, begins")
    assert healed == "fault #2, pause of broker 2, has healed"
    assert second.startswith("fault #3, isolate of broker 3, begins")


def test_where_nothing_stands_at_a_lost_offset_the_read_that_passes_it_is_the_harm(copy_of):
    directory = copy_of("invalid")
    gone = {row["offset"] for row in table(directory, "anomalies") if row["anomaly"] == "lost-acked-write"}
    lost = {row["value"] for row in table(directory, "anomalies") if row["anomaly"] == "lost-acked-write"}
    reads = table(directory, "reads")
    rewrite(
        directory,
        "reads",
        [row for row in reads if row["partition"] != LOSSY_PARTITION or row["offset"] not in gone],
    )
    harm = chain(of_losses(directory).story)[-2]
    assert f"reads past offset {min(gone):,} and gets no record there" in harm.text
    assert harm.at_us * 1_000 > TO_FAULT_NS
    # a read that got the lost record itself before it was gone passes over nothing
    rewrite(directory, "reads", [row for row in reads if row["value"] in lost])
    story = of_losses(directory).story
    got = [step for step in story.steps if "lost record" in step.text and "read" in step.text]
    assert all(step.at_us < chain(story)[-2].at_us for step in got)


def test_an_answer_that_was_stale_follows_the_acknowledgement_that_it_lacks(copy_of):
    directory = copy_of("invalid")
    rows = [row for row in table(directory, "anomalies") if row["anomaly"] == "stale-read"]
    (row,) = rows
    witness = {"offset": 312, "completed_ns": 26 * SECOND, "op": 3900, "process": 4, "node": 1}
    rewrite(directory, "anomalies", [{**row, "evidence": json.dumps({"witness": witness})}])
    (chart,) = charts_of(directory)
    told = chain(chart.story)
    (lacked,) = [step for step in told if step.text == "answers client 4 with offset 312"]
    assert (lacked.source, lacked.at_us) == (1, 26_000_000)
    assert told[-2].text.startswith("stale-read: A fenced leader answered a poll")
    assert told[-2].source == 3
    # allowed by the contract, so no violation
    assert told[-1].text.startswith("Within the contract, stale-read: 1 read of events-0")
    assert not any(step.text.startswith("VIOLATION") for step in chart.story.steps)


def test_a_chart_is_bounded_and_keeps_the_evidence(stored_runs, monkeypatch):
    whole = of_losses(stored_runs["invalid"])
    monkeypatch.setattr(charts, "STEPS_MAX", 12)
    chart = of_losses(stored_runs["invalid"])
    assert len(chart.story.steps) == 12
    assert chart.left_out == len(whole.story.steps) - 12
    assert [step.text for step in chain(chart.story)] == [step.text for step in chain(whole.story)]
    folded = sum(sum(step.folded.values()) for step in chart.story.steps)
    assert 0 < folded <= chart.left_out


def test_lost_records_that_the_table_does_not_list_are_counted_beside_the_chart(copy_of):
    directory = copy_of("invalid")
    assert of_losses(directory).unlisted == 0
    said = "are not in the table of anomalies, and not in this chart"
    assert said not in render(directory).read_text()
    run = load_run(directory)
    results = {**run.results, "incidents": [one.to_json() for one in run.incidents]}
    (counts,) = (one["anomalies"] for one in results["incidents"] if "lost-acked-write" in one["anomalies"])
    counts["lost-acked-write"]["violations"] += 1_200
    (directory / "results.json").write_text(json.dumps(results))
    assert of_losses(directory).unlisted == 1_200
    assert f"Of the incident's lost records 1,200 {said}." in render(directory).read_text()


@pytest.mark.parametrize(("shows", "kept"), [({"took_over": True}, True), ({"was_cut": True}, True), ({}, False)])
def test_a_takeover_or_a_cut_is_a_step_however_many_others_are_nearer(shows, kept):
    far = Event(9_000, 1, "far", **shows)
    near = [Event(at_ns, 0, "near") for at_ns in range(charts.STEPS_MAX + 5)]
    steps, left_out = charts._bounded([*near, far], charts._Window(0, 0, 10_000))
    assert (far in [event for event, _ in steps]) == kept
    assert (len(steps), left_out) == (charts.STEPS_MAX, 6)


def test_only_the_gravest_incidents_get_a_chart(stored_runs, monkeypatch):
    assert len(charts_of(stored_runs["invalid"])) > 1
    monkeypatch.setattr(charts, "CHARTS_MAX", 1)
    assert [chart.number for chart in charts_of(stored_runs["invalid"])] == [1]


def test_without_incident_or_samples_there_is_no_chart(copy_of, stored_runs):
    assert charts_of(stored_runs["valid"]) == []
    assert charts_of(stored_runs["empty"]) == []
    directory = copy_of("invalid")
    shutil.rmtree(directory / "history" / "cluster")
    assert charts_of(directory) == []
    assert "decisive seconds" not in render(directory).read_text()


def test_the_story_of_a_simulated_failure_has_precedence(copy_of):
    directory = copy_of("invalid")
    step = {"at_us": 1, "node_id": 1, "text": "starts", "source": None}
    (directory / "story.json").write_text(json.dumps([step]))
    page = render(directory).read_text()
    assert 'data-chart="chart"' in page
    assert 'data-chart="chart-1"' not in page


def test_what_a_run_says_stays_text(copy_of):
    directory = copy_of("invalid")
    faults = table(directory, "faults")
    rewrite(directory, "faults", [{**row, "kind": HOSTILE, "evidence": HOSTILE * 50} for row in faults])
    anomalies = table(directory, "anomalies")
    rewrite(directory, "anomalies", [{**row, "explanation": HOSTILE} for row in anomalies])
    page = render(directory).read_text()
    assert 'data-chart="chart-1"' in page
    assert "<img" not in page
    assert not set(page) & set("\x1b\u202e")
    assert all(len(step.text) <= 601 for chart in charts_of(directory) for step in chart.story.steps)


@pytest.mark.slow
def test_the_chart_of_each_incident_is_walked_by_keys(by_storage_loss):
    if chromium() is None:
        pytest.skip("needs chromium to run the page's script")
    directory = by_storage_loss
    number = of_losses(directory).number
    other = next(chart.number for chart in charts_of(directory) if chart.number != number)
    page = render(directory)
    steps = f"document.querySelector('#chart-{number}-steps"
    current = f'{steps} [aria-selected="true"] .what\').textContent'
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, browsing(Path(profile)) as browser:
        browser.open(page, 1000, 900)
        assert (browser.requests[1:], browser.errors) == ([], [])
        browser.run(f"document.querySelector('#incident-{number} a[href^=\"#decisive\"]').click()")
        assert browser.run(current).startswith("VIOLATION of lost-acked-write")
        browser.run(f"document.getElementById('chart-{number}-steps').focus()")
        browser.press("c", "c")
        assert "took over and leads in leader epoch 3" in browser.run(current)
        state = browser.run(f"document.getElementById('chart-{number}-state').textContent")
        assert "broker 1" in state
        assert "no sample; last known" in state
        browser.press("c")
        assert "fault #4, page-cache-loss of broker 1" in browser.run(current)
        browser.press("End")
        # the keys of one chart leave the other alone
        untouched = f"document.querySelector('#chart-{other}-steps [aria-selected=\"true\"]').id"
        before = browser.run(untouched)
        browser.press("k", "k")
        assert browser.run(untouched) == before
        for width in (400, 800):
            browser.open(page, width, 900)
            assert browser.run("document.documentElement.scrollWidth") <= width
