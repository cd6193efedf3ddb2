"""The page of what runs now, with planted progress files: live, dead, silent, damaged and hostile ones."""

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

from harness.environments.machine.kernel import process_identity
from harness.environments.machine.kernel.process_identity import wait_until
from harness.store.progress import DIRECTORY, FORGOTTEN_AFTER_S, ProgressFile, this_machine
from tests.harness.store.browser.served_store import Served, add_run
from tests.support.html_check import Page

Serve = Callable[[Path], Served]
ONE = "20260105T020000Z-local-log-usual-seed-7"
PATIENCE_S = 120


def plant(store: Path, name: str, **more: object) -> Path:
    now_ms = time.time_ns() // 1_000_000
    content = {
        "kind": "run",
        "title": name,
        "directory": "",
        "started_unix_ms": now_ms - 65_000,
        "told_unix_ms": now_ms,
        "pid": os.getpid(),
        "start_time": process_identity.start_time(os.getpid()),
        "machine": this_machine(),
        "phase": "main",
        "detail": "12 records acked",
        "share": 0.425,
        "left_s": 35.2,
    }
    path = store / DIRECTORY / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**content, **more}))
    return path


def sections(text: str) -> list[str]:
    """The texts of what runs, in order, without tags."""
    return [
        " ".join(re.sub(r"<[^>]*>", " ", part).split())
        for part in re.findall(r'<section class="running">(.*?)</section>', text, re.DOTALL)
    ]


def test_nothing_runs(serve: Serve, tmp_path: Path) -> None:
    add_run(tmp_path, ONE)
    served = serve(tmp_path)
    answer = served.get("/now")
    assert (answer.status, sections(answer.text)) == (200, [])
    assert "Nothing writes into this store." in answer.text
    assert "running now" not in served.get("/").text


def test_a_live_run_is_shown_with_share_and_time_to_go(serve: Serve, tmp_path: Path) -> None:
    add_run(tmp_path, ONE)
    plant(tmp_path, "one", title=ONE, directory=f"runs/{ONE}")
    served = serve(tmp_path)
    answer = served.get("/now")
    (shown,) = sections(answer.text)
    assert shown == (f"{ONE} main: 12 records acked 42% of this phase · about 35 s to go run · since 1 min 05 s")
    assert f'href="/runs/{ONE}"' in answer.text
    assert '<progress aria-label="Done of this phase" value="0.425" max="1">' in answer.text
    assert '<a class="chip now" href="/now">' in served.get("/").text
    (tmp_path / "page.html").write_text(answer.text)
    page = Page(tmp_path / "page.html")
    assert not [name for name, _ in page.elements if name in ("script", "img", "meta-refresh", "link")]


def test_the_browser_asks_again_by_a_header_until_it_is_told_to_stop(serve: Serve, tmp_path: Path) -> None:
    served = serve(tmp_path)
    assert served.get("/now").headers["Refresh"] == "5"
    assert "Refresh" not in served.get("/now?still=1").headers
    for path in ("/", "/suites", "/trends", "/none"):
        assert "Refresh" not in served.get(path).headers


def test_a_share_that_is_not_known_has_no_number(serve: Serve, tmp_path: Path) -> None:
    plant(tmp_path, "one", share=None, left_s=None, phase="", detail="")
    answer = serve(tmp_path).get("/now")
    assert sections(answer.text) == ["one run · since 1 min 05 s"]
    assert '<progress aria-label="Done of this phase" max="1">' in answer.text


def test_a_dead_run_is_not_shown_as_live(serve: Serve, tmp_path: Path) -> None:
    plant(tmp_path, "killed", start_time=1, phase="recovery")
    plant(tmp_path, "forgotten", machine="another", told_unix_ms=1)
    served = serve(tmp_path)
    answer = served.get("/now")
    assert sections(answer.text) == []
    assert "killed: run, in recovery; its process is gone" in answer.text
    assert "running now" not in served.get("/").text
    assert "forgotten" not in answer.text
    assert sorted(path.name for path in (tmp_path / DIRECTORY).iterdir()) == ["forgotten.json", "killed.json"]


def test_one_of_another_machine_that_is_silent_says_so(serve: Serve, tmp_path: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    assert FORGOTTEN_AFTER_S > 7200
    plant(tmp_path, "far", machine="another", told_unix_ms=now_ms - 7_200_000)
    plant(tmp_path, "near", machine="another")
    plant(tmp_path, "stuck", told_unix_ms=now_ms - 120_000)
    answer = serve(tmp_path).get("/now")
    assert "on another machine, no news for 2 h 00 min" in answer.text
    by_title = {shown.split()[0]: shown for shown in sections(answer.text)}
    assert set(by_title) == {"near", "stuck"}
    assert by_title["stuck"].endswith("no news for 2 min 00 s")
    assert "no news" not in by_title["near"]


def test_a_suite_is_shown_with_the_cells_that_run(serve: Serve, tmp_path: Path) -> None:
    directory = tmp_path / "suites" / "smoke" / "20260105T020000Z"
    plant(tmp_path, "smoke", kind="suite", directory="suites/smoke/20260105T020000Z", phase="runs")
    plant(directory, "cell", kind="sweep", title="sim, seeds 1 to 9")
    plant(directory, "dead-cell", start_time=1)
    answer = serve(tmp_path).get("/now")
    (shown,) = sections(answer.text)
    assert "sim, seeds 1 to 9" in shown
    assert "dead-cell" not in shown
    assert 'href="/store/suites/smoke/20260105T020000Z/index.html"' in answer.text


def test_damaged_files_are_counted_and_hurt_no_other(serve: Serve, tmp_path: Path) -> None:
    plant(tmp_path, "one")
    directory = tmp_path / DIRECTORY
    (directory / "cut.json").write_text('{"kind": "run"')
    (directory / "large.json").write_text(" " * 100_000)
    (directory / "link.json").symlink_to(directory / "one.json")
    (directory / "other.txt").write_text("x")
    (directory / "folder.json").mkdir()
    os.mkfifo(directory / "pipe.json")
    served = serve(tmp_path)
    answer = served.get("/now")
    assert len(sections(answer.text)) == 1
    assert "5 files in <code>progress/</code> cannot be read" in answer.text
    assert served.get("/").status == 200


def test_hostile_text_stays_text_and_leads_nowhere(serve: Serve, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\x1b[31m\u202e\"onload='x'"
    outside = tmp_path / "outside"
    plant(outside, "secret", title="a secret outside the store")
    store = tmp_path / "store"
    for number, directory in enumerate(
        [
            "runs/../../outside",
            "//evil.example/x",
            "javascript:alert(1)",
            "suites/../../outside",
            "suites/x/../../../outside",
            f"suites/{hostile}/y",
            "suites/linked/night",
        ]
    ):
        kind = "suite" if directory.startswith("suites") else "run"
        plant(store, f"hostile-{number}", kind=kind, title=hostile, phase=hostile, detail=hostile, directory=directory)
    (store / "suites").mkdir()
    (store / "suites" / "linked").mkdir()
    (store / "suites" / "linked" / "night").symlink_to(outside)
    answer = serve(store).get("/now")
    assert len(sections(answer.text)) == 7
    assert "<script" not in answer.text
    assert "\x1b" not in answer.text
    assert "\u202e" not in answer.text
    assert "a secret" not in answer.text
    links = set(re.findall(r'href="([^"]*)"', answer.text)) - {"/", "/suites", "/trends", "/now", "/now?still=1"}
    assert all(link.startswith("/store/suites/") and ".." not in link for link in links), links
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_a_progress_directory_that_is_a_link_is_not_followed(serve: Serve, tmp_path: Path) -> None:
    plant(tmp_path / "outside", "secret")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / DIRECTORY).symlink_to(tmp_path / "outside" / DIRECTORY)
    answer = serve(tmp_path / "store").get("/now")
    assert (answer.status, sections(answer.text)) == (200, [])


def test_a_foreign_page_does_not_learn_what_runs(serve: Serve, tmp_path: Path) -> None:
    with ProgressFile(tmp_path, "run", "one"):
        answer = serve(tmp_path).get("/now", Origin="https://evil.example")
    assert answer.status == 403
    assert "one" not in sections(answer.text)


def test_a_real_sweep_is_seen_while_it_runs_and_is_gone_afterwards(serve: Serve, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness", "sim", "--seeds", "1:1000000", "--jobs", "1", "--no-check"]
    sweep = subprocess.Popen([*command, "--store", str(tmp_path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        served = serve(tmp_path)
        assert wait_until(lambda: "of 1,000,000 seeds" in served.get("/now").text, PATIENCE_S, 0.1)
        (shown,) = sections(served.get("/now").text)
        assert re.match(r"sim.*, seeds 1 to 1,000,000 sweep: [\d,]+ of 1,000,000 seeds, \d+ failed 0% of this", shown)
        assert "to go" in shown
    finally:
        sweep.send_signal(signal.SIGINT)
        sweep.wait(PATIENCE_S)
    assert not (tmp_path / DIRECTORY).exists()
    assert sections(served.get("/now").text) == []
