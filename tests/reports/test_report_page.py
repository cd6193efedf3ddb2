"""The page of a run is one valid file that agrees with the tables, however incomplete the run's directory is."""

import json
import shutil

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from history.processes import NUMBERS_PER_WORKER
from history.reader import read_table, table_directory
from history.schema import ANOMALIES, TABLES
from reports import render
from reports.data.stored_run import EXPECTED_TABLES, RunNotFoundError
from tests.reports import synthetic_run
from tests.support.html_check import Page

RUNS = ("valid", "invalid", "unknown", "empty")
HOSTILE = "</td></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&<!--"


def page_of(directory):
    page = Page(render(directory))
    assert page.dangling == []
    return page


def scripts(page):
    """The types of the page's scripts, the one that runs first: the others hold data."""
    return sorted((one.get("type") for tag, one in page.elements if tag == "script"), key=lambda kind: kind or "")


@pytest.fixture(scope="module")
def pages(stored_runs):
    return {name: page_of(directory) for name, directory in stored_runs.items()}


@pytest.mark.parametrize("name", RUNS)
def test_a_page_is_well_formed_and_refers_to_nothing_outside_itself(pages, name):
    page = pages[name]
    assert "http:" not in page.source
    assert "https:" not in page.source
    assert scripts(page) == [None, *["application/json"] * (page.count("script") - 1)]
    assert page.count("link") == page.count("img") == page.count("iframe") == 0


@pytest.mark.parametrize("name", RUNS)
def test_the_verdict_comes_first_and_in_words(pages, name):
    headings = [(tag, text) for tag, text in pages[name].texts if tag in ("h1", "h2", "h3")]
    assert headings[0] == ("h1", "unknown" if name == "empty" else name)
    assert [tag for tag, _ in headings].count("h1") == 1
    body = [text for tag, text in pages[name].texts if tag not in ("style", "title")]
    assert body[0] == headings[0][1]


def test_every_picture_has_a_text_alternative(pages):
    pictures = [attributes for tag, attributes in pages["invalid"].elements if attributes.get("role") == "img"]
    assert len(pictures) > 5
    assert all(picture["aria-label"] for picture in pictures)
    timeline, *charts = (attributes for tag, attributes in pages["invalid"].elements if tag == "svg")
    assert "page-cache-loss" in timeline["aria-label"]
    assert {chart["aria-label"] for chart in charts} == {"Sequence of the last steps"}


def test_the_picture_takes_its_colours_and_its_text_from_the_page(pages):
    source = pages["invalid"].source
    assert "#00a0" not in source
    assert "var(--storage)" in source
    assert any(tag == "text" and "page-cache-loss" in text for tag, text in pages["invalid"].texts)


def test_the_numbers_are_those_of_the_tables(pages, stored_runs):
    text = pages["invalid"].text
    directory = stored_runs["invalid"]
    operations = read_table(directory, "operations")
    acknowledged = operations.filter(
        pc.and_(pc.equal(operations["kind"], "send"), pc.equal(operations["status"], "ok"))
    ).num_rows
    reads = read_table(directory, "reads")
    assert f"{acknowledged:,} writes acknowledged, of {read_table(directory, 'sends').num_rows:,} sent" in text
    assert f"{reads.num_rows:,} records read, {len(reads['value'].unique()):,} distinct" in text
    for kind in ("send", "poll"):
        mine = operations.filter(pc.equal(operations["kind"], kind))
        counts = [pc.sum(pc.equal(mine["status"], status)).as_py() for status in ("ok", "fail", "info")]
        assert " ".join([kind, *(f"{number:,}" for number in counts), f"{mine.num_rows:,}"]) in text
    assert f"5 faults took effect, of {len(synthetic_run.FAULTS)} fired" in text
    anomalies = read_table(directory, "anomalies").to_pylist()
    lost = sum(row["anomaly"] == "lost-acked-write" for row in anomalies)
    assert f"lost-acked-write {lost} 0" in text
    assert "stale-read 0 1" in text


def test_the_page_names_the_record_the_replica_and_the_fault(pages, stored_runs):
    text = pages["invalid"].text
    lost = read_table(stored_runs["invalid"], "anomalies").slice(0, 1).to_pylist()[0]
    assert f"events-1, offset {lost['offset']:,}, value {lost['value']}" in text
    assert "Broker 2 holds it, leader epoch 2." in text
    assert "Broker 1 holds the record" in text
    assert "page-cache-loss on broker 1 (chosen as the leader of events-1), from 36.000 s to 41.000 s: it began" in text
    assert "broker 1 acknowledged it at offset" in text
    assert "read another record" in text
    cells = [
        attributes["class"] for tag, attributes in pages["invalid"].elements if tag == "td" and "class" in attributes
    ]
    assert any("missing" in cell and "asked" in cell for cell in cells)
    assert any("sought" in cell and "differs" in cell for cell in cells)


@pytest.mark.parametrize("acknowledged", [True, False])
def test_of_records_that_differ_the_one_that_was_acknowledged_is_the_one_in_question(copy_of, acknowledged):
    """The row has the record of broker 1, which has another one there; when it was written is not known."""
    directory = copy_of("invalid")
    anomalies = read_table(directory, "anomalies")
    row = next(row for row in anomalies.to_pylist() if row["anomaly"] == "divergent-replicas")
    (stored,) = table_directory(directory, "anomalies").glob("*.parquet")
    pq.write_table(pa.Table.from_pylist([{**row, "value": 987_654_321}], schema=anomalies.schema), stored)
    if not acknowledged:
        shutil.rmtree(directory / "history" / "sends")
        shutil.rmtree(directory / "history" / "cluster")  # whose samples tell of a cut
    page = page_of(directory)
    missing = [attributes["class"] for tag, attributes in page.elements if "missing" in attributes.get("class", "")]
    assert len(missing) == (3 if acknowledged else 4)  # the key of the picture, and the replicas without it
    assert ("do not tell when it happened" in page.text) == (not acknowledged)


def test_what_is_within_the_contract_stands_apart_from_violations(pages):
    headings = [text for tag, text in pages["invalid"].texts if tag in ("h3", "span")]
    assert headings.index("lost-acked-write") < headings.index("The contract")
    assert headings.index("The contract") < headings.index("Within the contract") < headings.index("stale-read")


def test_the_page_gives_the_command_that_runs_it_again(pages):
    (command,) = (text for tag, text in pages["invalid"].texts if tag == "code")
    assert command.startswith("harrow run ")
    assert "--seed 42" in command
    assert "--flaw ack-before-replication" in command


def test_the_definition_of_a_system_is_shown_with_the_configuration(copy_of):
    directory = copy_of("valid")
    assert "system.toml" not in page_of(directory).text
    (directory / "system.toml").write_text('name = "theirs"\nstart = ["<run>"]\n')
    assert 'start = ["<run>"]' in page_of(directory).text


@pytest.mark.parametrize("table", [*TABLES, "anomalies"])
def test_a_missing_table_is_reported_and_does_no_harm(copy_of, table):
    directory = copy_of("invalid")
    shutil.rmtree(table_directory(directory, table))
    page = page_of(directory)
    assert (f"The table {table} is missing." in page.text) == (table in EXPECTED_TABLES)


@pytest.mark.parametrize("table", [*TABLES, "anomalies"])
def test_a_half_written_part_is_named_and_does_no_harm(copy_of, table):
    directory = copy_of("invalid")
    part = min(table_directory(directory, table).glob("part-*"))
    part.write_bytes(part.read_bytes()[:-20])
    assert f"A part of the table {table} could not be read: {part.name}" in page_of(directory).text


@pytest.mark.parametrize("table", [*TABLES, "anomalies"])
def test_rows_of_nothing_but_nulls_do_no_harm(copy_of, table):
    directory = copy_of("invalid")
    schema = ANOMALIES if table == "anomalies" else TABLES[table]
    nulls = pa.table([pa.nulls(5, field.type) for field in schema], schema=schema)
    pq.write_table(nulls, table_directory(directory, table) / "part-zzz.parquet")
    assert page_of(directory).count("h2") == 11 + (table == "troubles")  # a section of its own, where there is any


def test_trouble_of_the_run_itself_is_shown_as_text(copy_of):
    directory = copy_of("valid")
    row = {"run_id": "x", "at_ns": 5_000_000_000, "phase": "main", "source": "harness", "text": f"{HOSTILE}\nsecond"}
    pq.write_table(
        pa.Table.from_pylist([row], TABLES["troubles"]), table_directory(directory, "troubles") / "part-0.parquet"
    )
    page = page_of(directory)
    assert ("h2", "Trouble in the run itself") in page.texts
    assert any(text == HOSTILE for _, text in page.texts)
    assert ("small", "second") in page.texts
    assert scripts(page) == [None, "application/json"]


@pytest.mark.parametrize(
    "content", ["", "[1, 2]", '"valid"', '{"verdict": 7, "reasons": 3, "anomalies": [], "metrics": null}']
)
def test_results_that_make_no_sense_leave_the_run_unknown(copy_of, content):
    directory = copy_of("valid")
    (directory / "results.json").write_text(content)
    page = page_of(directory)
    assert ("h1", "unknown") in page.texts
    assert "has not been checked" in page.text


def test_a_verdict_that_contradicts_the_anomalies_is_called_out(copy_of):
    directory = copy_of("invalid")
    results = json.loads((directory / "results.json").read_text())
    (directory / "results.json").write_text(json.dumps({**results, "verdict": "valid"}))
    assert "results.json says valid although there are 17 violations." in page_of(directory).text


@pytest.mark.parametrize(("start_up_s", "said"), [(0, False), (70, True)])
def test_a_long_start_up_is_told_because_times_count_from_its_beginning(copy_of, start_up_s, said):
    start_up_ns = start_up_s * synthetic_run.SECOND
    directory = copy_of("valid")
    for table, columns in {
        "operations": ("invoked_ns", "completed_ns"),
        "faults": ("started_ns", "ended_ns"),
        "cluster": ("at_ns",),
        "quorum": ("at_ns",),
    }.items():
        rows = [
            {**row, **{name: None if row[name] is None else row[name] + start_up_ns for name in columns}}
            for row in read_table(directory, table).to_pylist()
        ]
        shutil.rmtree(table_directory(directory, table), ignore_errors=True)
        synthetic_run.write_table(directory, table, rows)
    text = page_of(directory).text
    assert ("Times are seconds since the start-up began." in text) == said
    assert ("Times are seconds since its start." in text) != said
    assert ("long, after a start-up of 1 min 10 s" in text) == said
    assert ("start-up" in text) == said


def test_hostile_strings_stay_text(copy_of):
    directory = copy_of("invalid")
    for table, columns in {
        "anomalies": ("anomaly", "topic", "explanation", "evidence"),
        "faults": ("kind", "parameters", "evidence"),
        "operations": ("client", "kind", "error"),
        "sends": ("topic",),
        "logs": ("topic",),
        "cluster": ("topic",),
        "runs": ("name", "system", "environment", "generation"),
        "phases": ("phase",),
    }.items():
        rows = [{**row, **dict.fromkeys(columns, HOSTILE)} for row in read_table(directory, table).to_pylist()]
        shutil.rmtree(table_directory(directory, table))
        synthetic_run.write_table(directory, table, rows)
    (directory / "nodes" / "1" / "node.log").write_text(f"{HOSTILE}\n\x1b[31mred\x1b[0m\n")
    spec = {"name": HOSTILE, "seed": HOSTILE, "mechanisms": {HOSTILE: HOSTILE}, "versions": {HOSTILE: HOSTILE}}
    (directory / "spec.json").write_text(json.dumps(spec))
    (directory / "schedule.json").write_text(json.dumps([HOSTILE]))
    results = {"verdict": "invalid", "reasons": [HOSTILE], "metrics": {HOSTILE: HOSTILE}}
    (directory / "results.json").write_text(json.dumps(results))
    page = page_of(directory)
    assert scripts(page) == [None, *["application/json"] * 3]  # the time line and the charts of two incidents
    assert page.count("img") == 0
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert page.text.count(HOSTILE) > 10
    assert "\x1b" not in page.source


@pytest.mark.slow
def test_the_page_stays_small_and_the_totals_exact_however_much_there_is(copy_of):
    directory = copy_of("invalid")
    row = read_table(directory, "anomalies").slice(0, 1).to_pylist()[0]
    names = ["lost-acked-write", "lost-read", "duplicate", "skipped-poll", "stale-read", "unheard-of"]
    rows = [
        {**row, "anomaly": names[i % 6], "offset": i * 7, "at_ns": i * 1_000_000, "within_contract": i % 12 == 4}
        for i in range(30_000)
    ]
    synthetic_run.write_table(directory, "anomalies", rows)
    fault = read_table(directory, "faults").slice(0, 1).to_pylist()[0]
    faults = [
        {**fault, "fault": i, "targets": [i % 9], "started_ns": i * 20_000_000, "ended_ns": i * 20_000_000 + 90_000_000}
        for i in range(3_000)
    ]
    synthetic_run.write_table(directory, "faults", faults)
    path = render(directory)
    assert path.stat().st_size < 2_000_000
    page = Page(path)
    assert page.dangling == []
    text = page.text
    assert "lost-acked-write 5,000 violations" in text
    assert "stale-read 2,500 within the contract" in text
    assert "unheard-of 5,000 0" in text
    assert "Only the first 400 of 3000 faults are drawn." in text


def test_a_run_that_is_not_there_is_refused_in_one_line(tmp_path):
    with pytest.raises(RunNotFoundError, match=r"expected the directory of a run, found nothing at .*nowhere"):
        render(tmp_path / "nowhere")


def test_rendering_again_replaces_the_page_and_leaves_nothing_else(copy_of):
    directory = copy_of("valid")
    first = render(directory).read_text()
    assert render(directory).read_text() == first
    assert [path.name for path in directory.glob("report*")] == ["report.html"]


def test_the_numbers_of_later_workers_are_explained_where_they_are_named(copy_of):
    run = copy_of("invalid")
    explained = "1:17 is number 17 of worker 1"
    assert explained not in render(run).read_text()
    part = next((run / "anomalies").iterdir())
    rows = pq.read_table(part).to_pylist()
    rows[0]["value"] = NUMBERS_PER_WORKER + 7
    pq.write_table(pa.Table.from_pylist(rows, schema=ANOMALIES), part)
    page = render(run).read_text()
    assert explained in page
    assert "value 1:7" in page
