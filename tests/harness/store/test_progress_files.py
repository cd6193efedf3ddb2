"""Progress files: what a process writes while it works, and who is taken for alive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.environments.machine.kernel import process_identity
from harness.store import progress as module
from harness.store.progress import (
    DIRECTORY,
    FORGOTTEN_AFTER_S,
    SILENT_AFTER_S,
    SIZE_MAX_BYTES,
    Progress,
    ProgressFile,
    life,
    parse,
)

NOW_MS = 1_767_000_000_000
PATIENCE_S = 60


def told(store: Path) -> list[Progress]:
    found = [parse(path.read_bytes()) for path in sorted((store / DIRECTORY).glob("*.json"))]
    assert None not in found
    return [each for each in found if each is not None]


def of_this_process(**more: object) -> Progress:
    return replace(
        Progress(
            kind="run",
            title="one",
            directory="runs/one",
            started_unix_ms=NOW_MS,
            told_unix_ms=NOW_MS,
            pid=os.getpid(),
            start_time=process_identity.start_time(os.getpid()) or 0,
            machine=module.this_machine(),
        ),
        **more,
    )


def test_a_file_tells_what_its_process_last_said_and_goes_with_it(tmp_path: Path) -> None:
    with ProgressFile(tmp_path, "run", "one", tmp_path / "runs" / "one") as file:
        file.tell("main", "60 s")
        file.tell(None, "7 records acked", 0.25, 45.0, at_once=True)
        (found,) = told(tmp_path)
        assert (found.kind, found.title, found.directory) == ("run", "one", "runs/one")
        assert (found.phase, found.detail, found.share, found.left_s) == ("main", "7 records acked", 0.25, 45.0)
        assert life(found, found.told_unix_ms) == "live"
    assert list(tmp_path.iterdir()) == []
    file.tell("report")
    assert list(tmp_path.iterdir()) == [], "nothing is written after the end"


def test_news_within_a_phase_is_not_written_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now.s, time_ns=lambda: NOW_MS * 1_000_000))
    with ProgressFile(tmp_path, "sweep", "seeds") as file:
        seen = []
        for phase, detail, later_s in (
            ("sweep", "1", 0.0),
            ("sweep", "2", 0.9),
            ("store", "3", 0.0),
            ("store", "4", 2.0),
        ):
            now.s += later_s
            file.tell(phase, detail)
            seen.append(told(tmp_path)[0].detail)
    assert seen == ["1", "1", "3", "4"]


def test_a_store_that_was_made_for_it_alone_goes_with_it(tmp_path: Path) -> None:
    with ProgressFile(tmp_path / "store", "sweep", "seeds"):
        assert (tmp_path / "store" / DIRECTORY).is_dir()
    assert list(tmp_path.iterdir()) == []
    with ProgressFile(tmp_path / "store", "sweep", "seeds"):
        (tmp_path / "store" / "runs").mkdir()
    assert (tmp_path / "store" / "runs").is_dir()


def test_two_in_one_process_have_two_files(tmp_path: Path) -> None:
    with ProgressFile(tmp_path, "suite", "one"):
        with ProgressFile(tmp_path, "run", "two"):
            assert sorted(each.title for each in told(tmp_path)) == ["one", "two"]
        assert [each.title for each in told(tmp_path)] == ["one"]


def test_a_store_that_cannot_be_written_ends_no_run(tmp_path: Path) -> None:
    (tmp_path / DIRECTORY).write_text("a file where the directory should be")
    with ProgressFile(tmp_path, "run", "one") as file:
        file.tell("main")
    assert (tmp_path / DIRECTORY).read_text() == "a file where the directory should be"


def test_a_killed_process_is_known_to_be_dead_and_the_next_one_removes_its_file(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\nfrom harness.store.progress import ProgressFile\n"
        "with ProgressFile(pathlib.Path(sys.argv[1]), 'run', 'killed'):\n"
        "    print('told', flush=True)\n"
        "    sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "told\n"
    (found,) = told(tmp_path)
    assert (found.pid, life(found, found.told_unix_ms)) == (process.pid, "live")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    (left,) = told(tmp_path)
    assert life(left, left.told_unix_ms) == "dead"
    with ProgressFile(tmp_path, "run", "next"):
        assert [each.title for each in told(tmp_path)] == ["next"]


def test_a_pid_that_another_process_has_now_is_not_taken_for_the_first() -> None:
    known = of_this_process()
    assert life(known, NOW_MS) == "live"
    assert life(replace(known, start_time=known.start_time + 1), NOW_MS) == "dead"
    assert life(known, NOW_MS + 3_600_000) == "live", "the kernel knows better than the clock"


@pytest.mark.parametrize(
    ("later_s", "expected"),
    [
        (0.0, "live"),
        (SILENT_AFTER_S, "live"),
        (SILENT_AFTER_S + 1, "silent"),
        (FORGOTTEN_AFTER_S + 1, "forgotten"),
        (-3600.0, "forgotten"),
    ],
)
@pytest.mark.parametrize("machine", ["another boot pid:[1]", ""])
def test_a_process_of_another_machine_lives_as_long_as_it_tells(machine: str, later_s: float, expected: str) -> None:
    foreign = of_this_process(machine=machine)
    assert life(foreign, NOW_MS + int(later_s * 1000)) == expected


def test_files_of_dead_processes_go_and_all_others_stay(tmp_path: Path) -> None:
    directory = tmp_path / DIRECTORY
    directory.mkdir()
    contents = {
        "dead": json.dumps(asdict(of_this_process(start_time=1))),
        "live": json.dumps(asdict(of_this_process())),
        "damaged": "{",
        "large": json.dumps(asdict(of_this_process(start_time=1))) + " " * SIZE_MAX_BYTES,
    }
    for name, content in contents.items():
        (directory / f"{name}.json").write_text(content)
    (directory / "link.json").symlink_to(directory / "dead.json")
    os.mkfifo(directory / "pipe.json")
    module.remove_dead(directory)
    assert sorted(path.stem for path in directory.iterdir()) == ["damaged", "large", "link", "live", "pipe"]


SOUND = asdict(of_this_process())
DAMAGED = {
    "cut": json.dumps(SOUND)[:-5].encode(),
    "no object": b"[]",
    "deep": b"[" * 16_000,
    "no text": b"\xff\xfe\x00",
    "empty": b"",
    **{f"without {name}": json.dumps({key: SOUND[key] for key in SOUND if key != name}).encode() for name in SOUND},
    **{
        f"{name} is {value!r:.20}": json.dumps({**SOUND, name: value}).encode()
        for name, value in [
            ("kind", "party"),
            ("kind", ["run"]),
            ("title", 7),
            ("pid", -1),
            ("pid", True),
            ("pid", "1"),
            ("start_time", 1.5),
            ("told_unix_ms", 10**18),
            ("share", 1.5),
            ("share", float("nan")),
            ("share", True),
            ("left_s", float("inf")),
            ("left_s", -1),
        ]
    },
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_says_nothing(name: str) -> None:
    assert parse(DAMAGED[name]) is None


def test_a_sound_file_is_read_and_its_texts_are_cut_and_made_harmless() -> None:
    assert parse(json.dumps(SOUND).encode()) == of_this_process()
    hostile = parse(json.dumps({**SOUND, "title": "\x1b[31m\u202e\ud800" + "x" * 5000, "more": 1}).encode())
    assert hostile is not None
    assert hostile.title.startswith("\ufffd[31m\ufffd\ufffdxxx")
    assert len(hostile.title) == 400
