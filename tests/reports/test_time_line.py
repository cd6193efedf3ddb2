"""The time line of a page: what it is given to work with, and what it does in a browser."""

import json
import re
import tempfile
from pathlib import Path

import pytest

from history.processes import MEMBERS_FROM
from history.reader import read_table
from reports import render
from reports.data import operation_cube
from reports.data.joined import UNKNOWN, Joined
from reports.data.stored_run import load_run
from reports.pictures.fault_lanes import fault_rows
from tests.reports import synthetic_run
from tests.reports.browser import browsing, chromium
from tests.support.html_check import Page

HOSTILE = "</script><script>document.title='pwned'</script>\x1b[31m\u202eevil"


def cube_of(directory):
    run = load_run(directory)
    return run, operation_cube.operation_cube(run, Joined(run))


def total(cube, **wanted):
    return sum(sum(group["counts"]) for group in cube["groups"] if all(group[key] == wanted[key] for key in wanted))


def test_the_counts_are_those_of_the_operations(stored_runs):
    run, cube = cube_of(stored_runs["invalid"])
    rows = run.tables["operations"].to_pylist()
    assert total(cube) == len(rows) > 1_000
    sends = [row for row in rows if row["kind"] == "send" and row["status"] == "ok" and row["node"] == 2]
    kind = cube["kinds"].index("send")
    assert total(cube, kind=kind, status=0, node=2) == len(sends) > 100
    assert total(cube, client=90) == sum(row["process"] == 90 for row in rows) > 10
    partition_of = {row["op"]: row["partition"] for row in run.tables["sends"].to_pylist()}
    on_one = sum(partition_of[row["op"]] == 1 for row in sends)
    assert total(cube, kind=kind, status=0, node=2, partition=1) == on_one > 0
    slowest = max(max(group.get("slowest", [0])) for group in cube["groups"])
    exact = max(
        (row["completed_ns"] - row["invoked_ns"]) / 1e6
        for row in rows
        if row["kind"] == "send" and row["status"] == "ok"
    )
    assert slowest == pytest.approx(exact, rel=0.02)


def test_each_operation_is_counted_in_the_bin_in_which_it_ended(stored_runs):
    run, cube = cube_of(stored_runs["valid"])
    counted = {}
    for group in cube["groups"]:
        index = 0
        for step, number in zip(group["bins"], group["counts"], strict=True):
            index += step
            counted[index] = counted.get(index, 0) + number
    expected = {}
    for row in run.tables["operations"].to_pylist():
        ended_ns = row["invoked_ns"] if row["completed_ns"] is None else row["completed_ns"]
        index = int((ended_ns - run.span_ns[0]) // (cube["width_ms"] * 1_000_000))
        expected[index] = expected.get(index, 0) + 1
    assert counted == expected


def test_few_counts_are_enough_for_any_number_of_operations(stored_runs, monkeypatch):
    monkeypatch.setattr(operation_cube, "CELLS_MAX", 500)
    run, cube = cube_of(stored_runs["invalid"])
    cells = sum(len(group["counts"]) for group in cube["groups"])
    assert cells <= 500
    assert total(cube) == run.tables["operations"].num_rows
    assert {group["client"] for group in cube["groups"]} == {operation_cube.OTHERS}


def test_clients_are_named_and_anomalies_that_were_not_kept_are_counted(copy_of):
    run = load_run(copy_of("invalid"))
    results = run.directory / "results.json"
    found = json.loads(results.read_text())
    found["anomalies"]["lost-acked-write"]["violations"] += 5_000
    results.write_text(json.dumps(found))
    rows = read_table(run.directory, "operations").to_pylist()
    synthetic_run.write_table(run.directory, "operations", [{**rows[0], "process": MEMBERS_FROM + 7}, *rows[1:]])
    text = render(run.directory).read_text()
    data = json.loads(re.search(r'id="workbench-data">(.*?)</script>', text)[1])
    assert data["clients"][str(MEMBERS_FROM + 7)] == "member 7"
    assert data["left_out"]["rows"] == 5_000
    assert "spread evenly over each kind; 5,000 others were only counted." in text


def test_a_run_without_operations_has_a_time_line_too(copy_of):
    directory = copy_of("valid")
    synthetic_run.write_table(directory, "operations", [], parts=3)
    _, cube = cube_of(directory)
    assert cube["groups"] == []
    assert 'id="workbench-data"' in render(directory).read_text()


def test_labels_of_faults_never_stand_on_other_bars(copy_of):
    directory = copy_of("valid")
    fault = read_table(directory, "faults").slice(0, 1).to_pylist()[0]
    second = synthetic_run.SECOND
    rows = [
        {**fault, "fault": n, "started_ns": n * second, "ended_ns": n * second + second // 2, "targets": [1]}
        for n in range(1, 40)
    ]
    synthetic_run.write_table(directory, "faults", rows)
    run = load_run(directory)
    character_s = 0.5
    (row,) = fault_rows(run, 0.0, character_s=character_s)
    assert sum(map(len, row.lanes)) == 39
    for lane in row.lanes:
        for bar, following in zip(lane, lane[1:], strict=False):
            needed_s = (len(bar.label(named=True)) + 1.5) * character_s
            behind = bar.end_s + needed_s <= run.span_ns[1] / 1e9
            assert following.start_s >= bar.end_s + (needed_s if behind else 0)
    assert len(fault_rows(run, 0.0)[0].lanes) == 1  # without labels they follow each other


def test_every_fault_of_the_picture_has_its_label(stored_runs):
    page = Page(render(stored_runs["invalid"]))
    texts = [text for tag, text in page.texts if tag == "text"]
    for fault in synthetic_run.FAULTS:
        assert f"{fault.number} {fault.kind}" in texts


def test_faults_incidents_and_records_lead_to_each_other(stored_runs):
    page = Page(render(stored_runs["invalid"]))
    assert page.dangling == []
    data = json.loads(next(text for tag, text in page.texts if tag == "script" and text.startswith("{")))
    mark = next(one for one in data["anomalies"] if one["name"] == "lost-acked-write")
    assert mark["count"] == synthetic_run.LOST
    assert mark["incidents"]
    anchors = [anchor for anchor, _ in mark["records"]]
    assert anchors
    assert {*anchors, "incident-1", "fault-4"} <= page.ids
    links = [attributes for tag, attributes in page.elements if tag == "a"]
    shown = {link.get("data-show") for link in links}
    assert {"fault-4", "incident-1", anchors[0]} <= shown
    guilty = [one for one in data["incidents"] if one["faults"]]
    assert guilty
    assert all(data["faults"][number - 1]["incidents"] for one in guilty for number in one["faults"])
    assert UNKNOWN not in data["faults"][0]["targets"]


def test_texts_without_end_are_cut_and_what_a_terminal_obeys_is_gone(copy_of):
    directory = copy_of("invalid")
    long = HOSTILE + "x" * 10_000_000
    for table, columns in {"anomalies": ("explanation", "evidence"), "faults": ("kind", "evidence")}.items():
        rows = read_table(directory, table).to_pylist()
        rows = [{**row, **dict.fromkeys(columns, long if n == 0 else HOSTILE)} for n, row in enumerate(rows)]
        synthetic_run.write_table(directory, table, rows)
    trouble = {"run_id": "run-1", "at_ns": 1, "phase": HOSTILE, "source": HOSTILE, "text": long}
    synthetic_run.write_table(directory, "troubles", [trouble])
    (directory / "nodes" / "1" / "node.log").write_text(long + "\n" + HOSTILE + "\n")
    results = json.loads((directory / "results.json").read_text())
    (directory / "results.json").write_text(json.dumps({**results, "reasons": ["\ud800" + long]}))
    path = render(directory)
    assert path.stat().st_size < 1_000_000
    source = path.read_text()
    assert "pwned'</script>" not in source
    assert not set(source) & set("\x1b\u202e\ufeff")
    assert "more characters" in source


# --- in a browser


@pytest.fixture(scope="module")
def browser():
    if chromium() is None:
        pytest.skip("needs chromium to run the page's script")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, browsing(Path(profile)) as browser:
        yield browser


def chart(browser, of):
    return browser.run(f"(() => {{ const chart = document.getElementById('workbench-chart'); return {of}; }})()")


def bar_width(browser, key):
    return chart(browser, f"chart.querySelector('[data-keys~=\"{key}\"] rect').getBoundingClientRect().width")


@pytest.mark.slow
def test_keys_wheel_drag_and_filters_work(browser, stored_runs):
    page = render(stored_runs["invalid"])
    browser.open(page)
    assert (browser.requests[1:], browser.errors) == ([], [])
    whole = bar_width(browser, "fault-4-3")
    chart(browser, "chart.focus()")
    browser.press("n", "n", "n", "n")
    focused = browser.run("document.activeElement.getAttribute('aria-label')")
    assert focused.startswith("Fault 4: page-cache-loss on broker 1") or "incident" in focused.lower()
    browser.press("+", "+")
    assert bar_width(browser, "fault-4-3") > whole * 1.5
    details = browser.run("document.getElementById('workbench-details').innerHTML")
    assert 'href="#' in details
    box = chart(browser, "(({x, y, width}) => ({x, y, width}))(chart.getBoundingClientRect())")
    middle = (box["x"] + box["width"] / 2, box["y"] + 60)
    before = bar_width(browser, "fault-4-3")
    browser.wheel(*middle, -200)
    assert bar_width(browser, "fault-4-3") > before
    ticks = "[...chart.querySelectorAll('.tick')].map((one) => one.textContent + one.getAttribute('x')).join()"
    held = chart(browser, ticks)
    browser.drag(middle, (middle[0] - 200, middle[1]))
    assert chart(browser, ticks) != held
    browser.press("0")
    assert bar_width(browser, "fault-4-3") == pytest.approx(whole)
    choose = (
        "(() => { const one = document.getElementById('workbench-%s'); one.value = '%s';"
        " one.dispatchEvent(new Event('change')); return new Promise((done) => requestAnimationFrame(() =>"
        " requestAnimationFrame(done))); })()"
    )
    bars = "chart.querySelectorAll('.bar').length"
    assert chart(browser, bars) == len(synthetic_run.FAULTS)
    browser.run(choose % ("node", "2"))
    assert chart(browser, bars) == sum(fault.target == 2 for fault in synthetic_run.FAULTS)
    browser.run(choose % ("node", ""))
    browser.run(choose % ("kind", "fault kill"))
    assert chart(browser, bars) == 1


@pytest.mark.slow
def test_a_link_shows_its_fault_on_the_time_line_and_without_script_the_picture_stays(browser, stored_runs):
    page = render(stored_runs["invalid"])
    browser.open(page, 400, 800)
    assert browser.run("document.documentElement.scrollWidth") == 400
    assert browser.run("document.querySelector('details.still').open") is False
    browser.run("document.querySelector('[data-show=\"fault-4\"]').click()")
    assert "page-cache-loss" in browser.run("document.getElementById('workbench-details').textContent")
    assert "fault-4" in chart(browser, "chart.querySelector('.current').dataset.keys")
    browser.open(page, script=False)
    assert browser.run("document.getElementById('workbench').offsetHeight") == 0
    assert browser.run("document.querySelector('details.still svg').getBoundingClientRect().height") > 100


@pytest.mark.slow
def test_labels_of_the_time_line_do_not_collide(browser, stored_runs):
    overlapping = """(() => {
      const texts = [...document.querySelectorAll('#workbench-chart .mark text')];
      const boxes = texts.map((one) => one.getBoundingClientRect());
      return boxes.filter((one, index) => boxes.some((other, place) => place > index && one.left < other.right
        && other.left < one.right && one.top < other.bottom - 2 && other.top < one.bottom - 2)).length;
    })()"""
    page = render(stored_runs["invalid"])
    for width in (1280, 800, 400):
        browser.open(page, width)
        assert browser.run(overlapping) == 0
        assert chart(browser, "chart.querySelectorAll('.mark text').length") > 3
