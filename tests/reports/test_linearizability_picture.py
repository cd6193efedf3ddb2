"""The picture of a violation: every point within its bar, in one file without references."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from reports.pictures.linearizability import drawn, render_picture
from tests.support.html_check import Page


def operation(process: int, invoked: int, completed: int | None, text: str) -> dict[str, object]:
    return {"process": process, "invoked": invoked, "completed": completed, "text": text}


EVIDENCE = {
    "key": "</script>",
    "model": "register",
    "initial": "nil",
    "stuck": 3,
    "window": [2],
    "left_out": 4,
    "operations": [
        operation(7, 100, 2_000_000, "write 1"),
        operation(8, 150, 160, "read → 1"),
        operation(9, 155, None, "write 2"),
        operation(8, 3_000_000, 3_000_001, "read → nil"),
    ],
    "orders": [
        [{"operation": 0, "state": "1"}, {"operation": 1, "state": "1"}],
        [{"operation": 0, "state": "1"}, {"operation": 1, "state": "1"}, {"operation": 2, "state": "2"}],
    ],
}
VERDICT = {
    "outcome": "invalid",
    "reason": "no valid order contains read → nil of process 8",
    "kinds": ["not-linearizable"],
    "counts": {"operations": 8, "keys": 1, "keys_valid": 0, "keys_invalid": 1, "keys_unknown": 0},
    "evidence": [EVIDENCE],
}


def test_instants_are_columns_and_processes_are_lanes():
    picture = drawn(EVIDENCE)
    assert picture["lanes"] == ["7", "8", "9"]
    assert [bar["lane"] for bar in picture["bars"]] == [0, 1, 2, 1]
    write, read, lost, stuck = picture["bars"]
    assert write["from"] < read["from"] < lost["from"] < read["to"] < write["to"] < stuck["from"]
    assert lost["open"]
    assert lost["to"] == picture["width"]


def test_points_follow_the_order_and_stand_within_their_bars():
    crowded = {**EVIDENCE, "orders": [[{"operation": index % 3, "state": "1"} for index in range(30)]]}
    for evidence in (EVIDENCE, crowded):
        picture = drawn(evidence)
        for order in picture["orders"]:
            positions = [step["at"] for step in order]
            assert positions == sorted(positions)
        for step in drawn(EVIDENCE)["orders"][1]:
            bar = picture["bars"][step["operation"]]
            assert bar["from"] < step["at"] < bar["to"]


def test_the_page_refers_to_no_other_file(tmp_path):
    page = Page(render_picture(VERDICT, tmp_path / "picture.html", "a history"))
    assert not page.references
    texts = " ".join(text for _, text in page.texts)
    assert "no valid order contains read → nil of process 8" in texts
    assert {"chart", "orders", "steps", "until", "why"} <= page.ids


def test_an_undecided_history_without_evidence_has_a_page_too(tmp_path):
    verdict = {**VERDICT, "outcome": "unknown", "evidence": []}
    assert "nothing to draw" in render_picture(verdict, tmp_path / "picture.html", "a history").read_text()


def test_the_page_draws_what_it_is_given_in_a_browser(tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("needs chromium to run the page's script")
    page = render_picture(VERDICT, tmp_path / "picture.html", "a history")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    drawing = subprocess.run(
        [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    ).stdout
    assert drawing.count('class="point') == len(EVIDENCE["orders"][1])
    assert drawing.count('class="bar placed"') == 3
    assert drawing.count('class="bar stuck"') == 1
    assert "had to be in it before it returned" in drawing
    assert json.dumps("</script>") not in drawing
