"""The store browser: its pages, what it keeps in memory, damaged and hostile runs, and how long a page takes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.commands import cli
from harness.store.browser import index as indexes
from harness.store.browser.index import StoreIndex
from harness.terminal.exits import ExitStatus
from reports.browser.selection import nearest_passing
from simulation.runs import stored
from simulation.scenario.case import Case
from tests.harness.store.browser.served_store import Served, add_failure, add_run
from tests.support.html_check import Page

Serve = Callable[[Path], Served]
ONE, TWO = "20260105T020000Z-local-log-usual-seed-7", "20260106T020000Z-local-log-usual-seed-8"
THREE = "20260107T020000Z-local-queue-kill-seed-9"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    add_run(tmp_path, ONE)
    add_failure(tmp_path, TWO)
    add_run(tmp_path, THREE, spec={"environment": "docker", "brokers": 5, "flaws": ["unclean-election"]})
    return tmp_path


def rows(text: str) -> list[str]:
    return re.findall(r'<td class="name"><a href="/runs/([^"]+)"', text)


def sound(text: str, tmp_path: Path) -> Page:
    """A page that is well formed and loads nothing."""
    path = tmp_path / "page.html"
    path.write_text(text)
    page = Page(path)
    assert not [name for name, _ in page.elements if name in ("script", "img", "iframe", "object", "link")]
    assert all(reference.startswith(("/", "#", "?")) for reference in page.references), page.references
    return page


def test_the_list_has_all_runs_newest_first_with_their_headlines(serve: Serve, store: Path) -> None:
    answer = serve(store).get("/")
    assert answer.status == 200
    assert rows(answer.text) == [THREE, TWO, ONE]
    assert "1 acknowledged write was lost" in sound(answer.text, store).text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?q=log", [TWO, ONE]),
        ("?q=LOG+seed-8", [TWO]),
        ("?q=acknowledged", [TWO]),
        ("?q=lost-acked", [TWO]),
        ("?q=unclean", [THREE]),
        ("?verdict=valid", [THREE, ONE]),
        ("?environment=docker&verdict=valid", [THREE]),
        ("?q=nothing", []),
        ("?page=999", [THREE, TWO, ONE]),
        ("?page=x", [THREE, TWO, ONE]),
    ],
)
def test_the_list_is_filtered_and_searched(serve: Serve, store: Path, query: str, found: list[str]) -> None:
    assert rows(serve(store).get(f"/{query}").text) == found


def test_a_long_list_has_pages(serve: Serve, tmp_path: Path) -> None:
    for number in range(120):
        add_run(tmp_path, f"20260105T02{number // 60:02}{number % 60:02}Z-local-seed-{number}")
    served = serve(tmp_path)
    first, second = served.get("/?q=seed"), served.get("/?q=seed&page=2")
    assert (len(rows(first.text)), len(rows(second.text))) == (100, 20)
    assert not set(rows(first.text)) & set(rows(second.text))
    assert 'rel="next" href="/?page=2&amp;q=seed"' in first.text


def test_a_run_has_a_page_with_its_report_and_the_nearest_run_that_passed(serve: Serve, store: Path) -> None:
    served = serve(store)
    page = served.get(f"/runs/{TWO}")
    sound(page.text, store)
    assert f'href="/compare?one={ONE}&amp;other={TWO}"' in page.text, "the other has other settings"
    (report,) = re.findall(rf'<a href="(/store/runs/{TWO}/report.html)"><strong>', page.text)
    assert served.get(report).text == "<p>a report</p>"
    assert served.get("/runs/none").status == 404
    assert served.get("/runs/").status == 404


def test_the_nearest_run_that_passed_agrees_in_most_settings(store: Path) -> None:
    entries = StoreIndex(store).runs()
    (failing,) = [entry for entry in entries if entry.verdict == "invalid"]
    nearest = nearest_passing(failing, entries)
    assert nearest is not None
    assert nearest.name == ONE
    assert nearest_passing(failing, [failing]) is None


def test_two_runs_are_compared_as_by_harrow_diff(serve: Serve, tmp_path: Path) -> None:
    for seed, name in ((1, ONE), (2, TWO)):
        run = tmp_path / "runs" / name
        run.mkdir(parents=True)
        stored.store(run, Case(seed, {"operations": 10, "polls": 10, "duration_ms": 6000, "faults": ("kill",)}))
    served = serve(tmp_path)
    answer = served.get(f"/compare?one={ONE}&other={TWO}")
    assert answer.status == 200
    page = sound(answer.text, tmp_path)
    for section in ("configuration", "metrics"):
        assert section in page.text
    assert "Nothing differs" in served.get(f"/compare?one={ONE}&other={ONE}").text
    assert served.get(f"/compare?one={ONE}&other=../{TWO}").status == 404
    assert served.get("/compare").status == 404


def test_suites_are_shown_over_nights(serve: Serve, tmp_path: Path) -> None:
    for night, verdict in (("20260104T020000Z", "valid"), ("20260105T020000Z", "invalid")):
        add_night(tmp_path / "suites" / "smoke" / night, verdict)
    (tmp_path / "suites" / "smoke" / "20260106T020000Z").mkdir()
    answer = serve(tmp_path).get("/suites")
    page = sound(answer.text, tmp_path)
    assert answer.text.index("2026-01-05 02:00 UTC") < answer.text.index("2026-01-04 02:00 UTC")
    assert "/store/suites/smoke/20260105T020000Z/index.html" in page.references
    assert "damaged" in page.text
    assert "1 run invalid" in page.text


def add_night(directory: Path, verdict: str) -> None:
    cell = {"name": "1", "environment": "local", "configuration": "a", "faults": "kill", "seeds": "seed 1"}
    cell |= {"anomaly": None, "first_seed": 1, "last_seed": 1}
    result = {"verdict": verdict, "reasons": [], "seconds": 1.0, "run": None, "log": None, "counts": {}}
    result |= {"anomalies": {}, "again": "", "canary_found": None}
    (directory / "cells").mkdir(parents=True)
    (directory / "cells" / "1.json").write_text(json.dumps({"result": result}))
    head = {"name": "smoke", "about": "", "budget_s": 60.0, "spent_s": 5.0, "ended": "finished", "canary": []}
    (directory / "suite.json").write_text(json.dumps({**head, "cells": [cell]}))


def test_trends_have_a_point_for_each_run_that_has_the_figure(serve: Serve, store: Path) -> None:
    answer = serve(store).get("/trends?q=log")
    page = sound(answer.text, store)
    assert "longest recovery (ms)" in page.text
    assert "acknowledged writes per second" in page.text
    charts = answer.text.split("<h2>")[1:]
    by_title = {chart.partition("<")[0]: chart.count("<circle") for chart in charts}
    assert by_title["longest recovery (ms)"] == 2
    assert by_title["violations"] == 2
    assert 'circle class="invalid"' in answer.text


# --- what changes, what is damaged, what is hostile ------------------------------------------------------------------


def test_only_what_changed_is_read_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = indexes.read_entry
    monkeypatch.setattr(indexes, "read_entry", lambda path: (read.append(path.name), original(path))[1])
    index = StoreIndex(store)
    index.runs()
    index.runs()
    assert sorted(read) == [ONE, TWO, THREE]
    results = store / "runs" / ONE / "results.json"
    results.write_text(results.read_text().replace('"valid"', '"unknown"'))
    assert {entry.name: entry.verdict for entry in index.runs()}[ONE] == "unknown"
    assert read[3:] == [ONE]
    (store / "runs" / THREE).rename(store / "gone")
    assert [entry.name for entry in index.runs()] == [TWO, ONE]


@pytest.mark.parametrize(
    ("file", "content", "verdict"),
    [
        ("results.json", b"{", "damaged"),
        ("results.json", b"[]", "damaged"),
        ("results.json", b"[" * 100_000, "damaged"),
        ("results.json", b"\xff\xfe", "damaged"),
        ("results.json", b'{"verdict": 3, "anomalies": [], "incidents": {"a": 1}, "metrics": 7}', "damaged"),
        ("results.json", b'{"verdict": "valid", "anomalies": {"x": {"violations": "7"}}}', "valid"),
        ("results.json", b'{"verdict": "valid", "metrics": {"acknowledged_per_s": 1e400}}', "valid"),
        ("spec.json", b"null", "damaged"),
        ("spec.json", None, "damaged"),
        ("results.json", None, "not checked"),
    ],
)
def test_a_damaged_run_shows_as_damaged_and_hurts_no_other(
    serve: Serve, store: Path, file: str, content: bytes | None, verdict: str
) -> None:
    path = store / "runs" / TWO / file
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    served = serve(store)
    answer = served.get("/")
    assert rows(answer.text) == [THREE, TWO, ONE]
    assert {entry.name: entry.verdict for entry in served.server.index.runs()}[TWO] == verdict
    for page in (f"/runs/{TWO}", "/trends", "/suites", f"/compare?one={ONE}&other={TWO}"):
        assert served.get(page).status == 200, page


def test_a_page_that_breaks_is_an_error_and_the_next_is_served(
    serve: Serve, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("<b>")

    monkeypatch.setattr(indexes, "compare", broken)
    served = serve(store)
    answer = served.get(f"/compare?one={ONE}&other={TWO}")
    assert (answer.status, "ZeroDivisionError: &lt;b&gt;" in answer.text) == (500, True)
    assert served.get("/").status == 200


HOSTILE = "<script>alert(1)</script>\x1b[31m\u202egnirts \"onload='x'"


def test_hostile_text_stays_text(serve: Serve, tmp_path: Path) -> None:
    name = "20260105T020000Z-<img src=x onerror=alert(1)>&q=1"
    spec = {"environment": HOSTILE, "flaws": [HOSTILE], HOSTILE: HOSTILE}
    run = add_failure(tmp_path, name, headline=HOSTILE, spec=spec)
    add_run(tmp_path, ONE)
    (run / HOSTILE.replace("/", "")).write_text("x")
    served = serve(tmp_path)
    quoted = "20260105T020000Z-%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E%26q%3D1"
    pages = ["/", "/trends", f"/runs/{quoted}", f"/?q={quoted}", f"/compare?one={ONE}&other={quoted}", f"/{quoted}"]
    for path in pages:
        answer = served.get(path)
        sound(answer.text, tmp_path)
        assert "<script" not in answer.text
        assert "<img" not in answer.text
        assert "\x1b" not in answer.text
        assert "\u202e" not in answer.text, path
    assert served.get(f"/runs/{quoted}").status == 200


def test_a_line_of_ten_megabytes_is_cut(serve: Serve, tmp_path: Path) -> None:
    add_failure(tmp_path, ONE, headline="x" * 10_000_000)
    served = serve(tmp_path)
    assert len(served.get("/").text) < 50_000


# --- time ------------------------------------------------------------------------------------------------------------

RUNS = 1_000
PAGE_S_MAX = 0.3


def test_each_page_of_a_thousand_runs_takes_less_than_300_ms(serve: Serve, tmp_path: Path) -> None:
    for number in range(RUNS):
        time_of = f"202601{1 + number // 60:02}T02{number % 60:02}00Z"
        add = add_failure if number % 10 == 0 else add_run
        add(tmp_path, f"{time_of}-local-log-usual-seed-{number}", spec={"seed": number})
    for night in range(60):
        add_night(tmp_path / "suites" / "smoke" / f"202602{1 + night // 24:02}T{night % 24:02}0000Z", "valid")
    served = serve(tmp_path)
    failing = rows(served.get("/?verdict=invalid").text)[0]
    slow = {}
    for path in ("/", "/?q=seed-99", "/?page=7", f"/runs/{failing}", "/suites", "/trends"):
        served.get(path)  # the templates are compiled once
        spent_s = []
        for _ in range(3):
            began_s = time.process_time()
            assert served.get(path).status == 200
            spent_s.append(time.process_time() - began_s)
        if min(spent_s) > PAGE_S_MAX:
            slow[path] = spent_s
    assert not slow


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_its_address_and_ends_with_status_0(store: Path) -> None:
    command = [sys.executable, "-m", "harness", "serve", "--port", "0", "--store", str(store)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ})
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.match(r"http://127\.0\.0\.1:\d+/ shows ", line), line
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "ended\n")


def test_bad_input_is_one_line(serve: Serve, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = str(serve(store).server.server_port)
    for arguments, expected in (
        (["--store", str(store / "none")], "expected a store, found no directory"),
        (
            ["--store", str(store), "--port", taken],
            f"expected the port {taken} to be free, found: Address already in use",
        ),
        (["--store", str(store), "--port", "70000"], "70000 is not in the range"),
    ):
        with pytest.raises(SystemExit) as ended:
            cli.main(["serve", *arguments])
        assert ended.value.code == ExitStatus.USAGE
        line = capsys.readouterr().err
        assert expected in line
        assert line.count("\n") == 1
