"""The archive of Spark's classes is made once, is used, and is never an obstacle."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checkers import class_archive, class_archiving, spark
from checkers.class_archive import FAILED_SUFFIX, KEPT, SUFFIX, archive_of, make_later, options_for, remove_old
from checkers.spark import SparkUnavailableError, find_java

ROOT = Path(spark.__file__).parent.parent
COUNTED = """
from pathlib import Path
from checkers.class_archive import archive_of
from checkers.spark import find_java, start_session

session = start_session("local[1]")
mapped = Path(f"/proc/{session.sparkContext._gateway.proc.pid}/maps").read_text()
print(session.range(7).count(), str(archive_of(find_java().home)) in mapped)
"""


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the archive would be, in an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    return archive_of(find_java().home)


def python(*arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.slow
def test_an_archive_is_made_and_the_next_java_uses_it(archive: Path) -> None:
    python("-c", "from checkers import class_archiving as made; made.NICENESS = 0; made.main()")
    assert [each.name for each in archive.parent.iterdir() if each.name != "lock"] == [archive.name]
    assert python("-c", COUNTED) == "7 True\n"


@pytest.mark.slow
def test_an_archive_that_java_cannot_use_is_no_obstacle(archive: Path) -> None:
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"no archive" * 1_000)
    assert python("-c", COUNTED) == "7 False\n"


def test_an_attempt_that_failed_is_noted_and_not_repeated(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(archive_to: Path) -> None:
        archive_to.write_text("half of it")
        raise SparkUnavailableError("this Java writes no archive")

    monkeypatch.setattr(class_archiving, "start_session", fail)
    archive.parent.mkdir(parents=True)
    class_archiving.make(archive)
    (note,) = archive.parent.iterdir()
    assert note == archive.with_suffix(FAILED_SUFFIX)
    assert "this Java writes no archive" in note.read_text()
    assert make_later(find_java().home) is None
    assert options_for(find_java().home) == []


def test_a_java_that_had_no_time_is_asked_again(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archiving, "start_session", lambda archive_to: None)
    monkeypatch.setattr(class_archiving, "use", lambda session: None)
    monkeypatch.setattr(class_archiving, "end_java", lambda wait_s: False)
    archive.parent.mkdir(parents=True)
    class_archiving.make(archive)
    assert list(archive.parent.iterdir()) == []


def test_a_process_is_started_only_if_there_is_no_archive(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    home = find_java().home
    monkeypatch.setattr(class_archive.subprocess, "Popen", lambda command, **_: started.append(command))
    make_later(home)
    archive.parent.mkdir(parents=True)
    archive.touch()
    make_later(home)
    assert [command[-1] for command in started] == ["checkers.class_archiving"]


def test_none_is_started_on_a_machine_that_is_thrown_away(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = find_java().home
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(class_archive.subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    assert make_later(home) is None
    assert not archive.exists()


def test_a_process_that_cannot_be_started_is_no_obstacle(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(command: list[str], **_: object) -> None:
        raise OSError("no more processes")

    home = find_java().home
    monkeypatch.setattr(class_archive.subprocess, "Popen", refuse)
    assert make_later(home) is None


def test_of_two_processes_one_makes_the_archive(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    monkeypatch.setattr(class_archiving, "make", made.append)
    monkeypatch.setattr(class_archiving.os, "nice", lambda niceness: niceness)
    archive.parent.mkdir(parents=True)
    with (archive.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        class_archiving.main()
    assert made == []
    class_archiving.main()
    assert made == [archive]


def test_archives_that_were_used_last_stay(tmp_path: Path) -> None:
    archives = [tmp_path / f"{number}{SUFFIX}" for number in range(KEPT + 2)]
    for number, archive in enumerate(archives):
        archive.touch()
        os.utime(archive, (1_000 + number, 1_000 + number))
    remove_old(tmp_path)
    assert sorted(tmp_path.iterdir()) == archives[2:]
