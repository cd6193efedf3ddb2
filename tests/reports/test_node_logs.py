"""Lines of node logs are put on the run's clock, whatever their zone and form, and the page shows them."""

import datetime as dt
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from history.reader import read_table
from incidents.evidence import Evidence
from reports import render
from reports.data import node_logs
from reports.data.node_logs import lines_to_show
from reports.data.stored_run import load_run
from tests.reports.browser import browsing, chromium
from tests.support.html_check import Page

CHOSEN = (
    "(() => { const one = document.getElementById('workbench-%s'); one.value = '%s';"
    " one.dispatchEvent(new Event('change')); return new Promise((done) => requestAnimationFrame(() =>"
    " requestAnimationFrame(done))); })()"
)
"""Sets a filter, and waits until the time line is drawn again."""


def shown(directory):
    return lines_to_show(load_run(directory), Evidence(directory).log_lines)


def started(directory):
    unix_ms = read_table(directory, "runs").column("started_unix_ms")[0].as_py()
    return dt.datetime.fromtimestamp(unix_ms / 1000, dt.UTC)


def log(directory, node, *lines, name="node.log"):
    (directory / "nodes" / str(node)).mkdir(parents=True, exist_ok=True)
    (directory / "nodes" / str(node) / name).write_text("\n".join(lines) + "\n")


def own(moment, text):
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d} INFO    {text}"


def start_at(directory, moment):
    table = read_table(directory, "runs")
    place = table.schema.get_field_index("started_unix_ms")
    table = table.set_column(place, table.schema.field(place), pa.array([int(moment.timestamp() * 1000)], pa.int64()))
    for path in (directory / "history" / "runs").iterdir():
        path.unlink()
    pq.write_table(table, directory / "history" / "runs" / "part-0.parquet")


def seconds(text):
    return dt.timedelta(seconds=text)


@pytest.mark.parametrize("zone_hours", [0, 2, -7, 5.75])
def test_the_zone_follows_from_the_first_line_of_the_first_node(copy_of, zone_hours):
    directory = copy_of("invalid")
    began = dt.datetime(2026, 11, 5, 12, 30, tzinfo=dt.UTC)
    start_at(directory, began)
    there = began + dt.timedelta(hours=zone_hours)
    log(directory, 1, own(there + seconds(1.25), "harrow-0: leads in epoch 3"), "a line without a time")
    log(directory, 100, f"[{there + seconds(2):%Y-%m-%d %H:%M:%S},007] WARN late (kafka.server.Node)")
    lines, left = shown(directory)
    assert lines == [(1_250, 1, "INFO harrow-0: leads in epoch 3"), (2_007, 100, "WARN late (kafka.server.Node)")]
    assert left == 0


def test_a_time_of_day_that_goes_back_is_of_the_next_day(copy_of):
    directory = copy_of("invalid")
    began = dt.datetime(2026, 11, 5, 23, 59, 50, tzinfo=dt.UTC)
    start_at(directory, began)
    log(directory, 1, own(began + seconds(1), "before"), own(began + seconds(30), "after"))
    assert [line.at_ms for line in shown(directory)[0]] == [1_000, 30_000]


def test_of_too_many_lines_those_nearest_to_an_incident_stay(copy_of, monkeypatch):
    monkeypatch.setattr(node_logs, "LINES_MAX", 3)
    directory = copy_of("invalid")
    run = load_run(directory)
    incident_s = next(one.at_ns for one in run.incidents if one.at_ns is not None) / 1e9
    began = started(directory)
    log(directory, 1, *(own(began + seconds(number), "here") for number in range(60)))
    lines, left = shown(directory)
    assert len(lines) == 3
    assert left == 57
    assert any(abs(line.at_ms / 1000 - incident_s) <= 1 for line in lines)


def data_of(page):
    return json.loads(next(text for tag, text in page.texts if tag == "script" and text.startswith('{"anomalies"')))


def test_the_page_has_the_lines_as_text(copy_of):
    directory = copy_of("invalid")
    hostile = "</script><script>document.title='pwned'</script>\x1b[31m\u202eevil"
    log(directory, 1, own(started(directory) + seconds(3), hostile))
    page = Page(render(directory))
    (line,) = data_of(page)["logs"]
    assert line[:2] == [3_000, 1]
    assert "\x1b" not in line[2]
    assert "\u202e" not in line[2]
    assert "workbench-logs" in page.ids
    assert "<script>document.title" not in page.source


def test_a_run_without_logs_has_no_part_for_them(copy_of):
    directory = copy_of("valid")
    for path in (directory / "nodes").glob("*/*.log"):
        path.unlink()
    page = Page(render(directory))
    assert data_of(page)["logs"] == []
    assert "workbench-logs" not in page.ids


@pytest.mark.slow
def test_the_lines_follow_the_view_and_the_filters_and_point_at_the_time_line(copy_of, tmp_path):
    if chromium() is None:
        pytest.skip("needs chromium to run the page's script")
    directory = copy_of("invalid")
    began = started(directory)
    log(directory, 1, *(own(began + seconds(number), f"one {number}") for number in range(40)))
    log(directory, 2, *(own(began + seconds(number + 0.5), f"two {number}") for number in range(40)))
    rows = "document.querySelectorAll('#workbench-logs li')"
    with browsing(tmp_path / "profile") as browser:
        browser.open(render(directory))
        assert (browser.requests[1:], browser.errors) == ([], [])
        assert browser.run(f"{rows}.length") == 80
        assert browser.run(f"{rows}[1].textContent").endswith("broker 2 INFO two 0")
        browser.run("document.getElementById('workbench-chart').focus()")
        browser.press("+", "+", "+")
        fewer = browser.run(f"{rows}.length")
        assert 0 < fewer < 80
        assert browser.run("document.getElementById('workbench-logs-count').textContent") == f"{fewer} lines in view"
        browser.press("0")
        browser.run(CHOSEN % ("node", "2"))
        assert browser.run(f"[...{rows}].every((row) => row.textContent.includes('two'))")
        assert browser.run(f"{rows}.length") == 40
        cross = "document.querySelector('.cross').getAttribute('%s')"
        browser.run(f"{rows}[20].dispatchEvent(new PointerEvent('pointerover', {{ bubbles: true }}))")
        assert browser.run(cross % "visibility") == "visible"
        place = float(browser.run(cross % "x1"))
        browser.run(f"{rows}[30].dispatchEvent(new PointerEvent('pointerover', {{ bubbles: true }}))")
        assert float(browser.run(cross % "x1")) > place
        browser.run("document.getElementById('timeline').scrollIntoView()")
        stands = browser.run("scrollY")
        browser.run("document.getElementById('workbench-chart').focus({ preventScroll: true })")
        browser.press("n", "n", "n", "n", "n")
        assert browser.run("document.getElementById('workbench-logs').scrollTop") > 0
        assert browser.run("scrollY") == stands


@pytest.mark.parametrize("damage", ["99:99:99.123 INFO no time", "[2026-99-01 10:00:00,000] no date", "\x00\xff", ""])
def test_a_log_without_times_is_left_out(copy_of, damage):
    directory = copy_of("invalid")
    for path in (directory / "nodes").glob("*/*.log"):
        path.unlink()
    log(directory, 1, damage)
    assert shown(directory) == ([], 0)
