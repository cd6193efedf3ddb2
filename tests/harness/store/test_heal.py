from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from harness.environments.docker.engine import connect, containers_of
from harness.environments.machine.kernel import process_identity
from harness.store.heal import heal
from harness.store.journal import Journal, is_finished, read_journal
from tests.harness.environments.conftest import need

_GONE_S = 10.0


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def _namespaces_of(pids: list[int]) -> set[str]:
    return {str(Path(f"/proc/{pid}/ns/net").readlink()) for pid in pids}


def _namespaces_in_use() -> set[str]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.add(str((entry / "ns/net").readlink()))
            except OSError:  # gone, or another user's
                continue
    return found


def _loop_devices_of(directory: Path) -> list[str]:
    files = (path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file"))
    return [name for name in files if str(directory) in name]


@pytest.fixture
def held() -> Iterator[ExitStack]:
    """Descriptors that are closed at the end."""
    with ExitStack() as stack:
        yield stack


def _kill_a_harness(
    directory: Path, network: str, page_cache: str, victims: str, held: ExitStack
) -> tuple[list[int], Path, set[str]]:
    """Run a harness until it has cut its cluster in two, then SIGKILL it and, on request, its supervisor."""
    harness = subprocess.Popen(
        [sys.executable, "-m", "tests.harness.store.killed_harness", str(directory), network, page_cache],
        stdout=subprocess.PIPE,
    )
    assert harness.stdout is not None
    with harness.stdout:
        made = json.loads(harness.stdout.readline())
    for pid in made["pids"]:  # held open, or others would soon have namespaces of the same numbers
        held.callback(os.close, os.open(f"/proc/{pid}/ns/net", os.O_RDONLY))
    own_namespaces = _namespaces_of(made["pids"]) - _namespaces_of([os.getpid()])
    token = Path(made["sockets"]).name.removeprefix("harrow-")
    doomed = [harness.pid]
    if victims == "harness and helpers":
        doomed += [pid for pid in process_identity.of_run(token) if pid not in made["pids"]]
    assert heal(directory) == [f"{directory.name}: left alone, its harness is alive as process {harness.pid}"]
    for pid in doomed:
        with suppress(ProcessLookupError):  # it went with one before
            os.kill(pid, signal.SIGKILL)
    harness.wait(_GONE_S)
    return made["pids"], Path(made["sockets"]), own_namespaces


@pytest.mark.parametrize("victims", ["harness", "harness and helpers"])
@pytest.mark.parametrize(
    ("network", "page_cache"),
    [
        pytest.param("namespaces", "ext4", marks=[pytest.mark.namespaces, pytest.mark.root]),
        pytest.param("namespaces", "fuse", marks=[pytest.mark.namespaces, pytest.mark.fuse]),
        pytest.param("proxies", "fuse", marks=pytest.mark.fuse),
        pytest.param("proxies", "page-cache"),
        pytest.param("docker", "ext4", marks=pytest.mark.docker),
        pytest.param("docker", "fuse", marks=[pytest.mark.docker, pytest.mark.fuse]),
    ],
)
def test_nothing_is_left_of_a_harness_that_was_killed_in_the_middle_of_a_partition(
    tmp_path: Path, network: str, page_cache: str, victims: str, bystander: subprocess.Popen[bytes], held: ExitStack
) -> None:
    need(network)
    need(page_cache)
    directory = tmp_path / "run"
    pids, sockets, namespaces = _kill_a_harness(directory, network, page_cache, victims, held)
    assert len(namespaces) == (0 if network == "proxies" else 4)

    if victims == "harness":  # the supervisor ends them
        assert process_identity.wait_until(lambda: all(process_identity.states(pid) <= {"Z"} for pid in pids), _GONE_S)

    lines = heal(directory)

    assert lines
    assert all(line.startswith("run: ") for line in lines)
    assert not [line for line in lines if "still" in line or "does not end" in line]
    assert all(process_identity.states(pid) <= {"Z"} for pid in pids)
    assert list(process_identity.of_run(sockets.name.removeprefix("harrow-"))) == []
    assert not namespaces & _namespaces_in_use()
    assert str(directory) not in Path("/proc/self/mountinfo").read_text()
    assert process_identity.wait_until(lambda: not _loop_devices_of(directory), _GONE_S)
    assert not list(directory.rglob("disk*"))
    assert not sockets.exists()
    if network == "docker":
        assert containers_of(connect(), sockets.name.removeprefix("harrow-")) == []
    if page_cache != "ext4":
        assert (directory / "nodes/1/data/a").stat().st_size == 1000
    assert is_finished(list(read_journal(directory)))
    assert heal(directory) == []
    assert bystander.poll() is None


def test_a_process_that_has_the_number_of_one_of_ours_is_left_alone(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    started = process_identity.start_time(bystander.pid)
    assert started is not None
    _write_journal(tmp_path, what="node 1", pid=bystander.pid, start_time=started - 1)
    assert heal(tmp_path) == [f"{tmp_path.name}: nothing was left"]
    assert bystander.poll() is None


def test_a_process_that_was_written_down_is_killed(tmp_path: Path, bystander: subprocess.Popen[bytes]) -> None:
    _write_journal(tmp_path, what="node 1", pid=bystander.pid, start_time=process_identity.start_time(bystander.pid))
    assert heal(tmp_path) == [f"{tmp_path.name}: node 1 killed, process {bystander.pid}"]
    assert bystander.wait(_GONE_S) == -signal.SIGKILL


def test_a_finished_run_is_not_healed(tmp_path: Path, bystander: subprocess.Popen[bytes]) -> None:
    journal = Journal(tmp_path)
    journal.record("process", what="node 1", pid=bystander.pid, start_time=process_identity.start_time(bystander.pid))
    journal.finish()
    assert heal(tmp_path) == []
    assert bystander.poll() is None


def test_a_store_is_healed_run_by_run(tmp_path: Path) -> None:
    for name in ("one", "two"):
        _write_journal(tmp_path / "nightly" / name)
    Journal(tmp_path / "nightly" / "done").finish()
    assert heal(tmp_path) == ["one: nothing was left", "two: nothing was left"]
    assert heal(tmp_path) == []


def test_the_runs_of_suites_are_healed_with_their_store(tmp_path: Path) -> None:
    _write_journal(tmp_path / "suites" / "nightly" / "20260101T000000Z" / "001-local" / "a-run")
    assert heal(tmp_path) == ["a-run: nothing was left"]
    assert heal(tmp_path) == []


def test_a_place_without_runs_needs_no_healing(tmp_path: Path) -> None:
    assert heal(tmp_path) == []
    assert heal(tmp_path / "missing") == []


def _write_journal(directory: Path, **process: object) -> None:
    """A journal whose harness is dead, with one process in it."""
    directory.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, object]] = [{"kind": "opened", "pid": 1, "start_time": -1}]
    if process:
        entries.append({"kind": "process", **process})
    (directory / "journal.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
