"""The harness's side of the worker processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.environments.machine.kernel.process_identity import wait_until
from harness.run.stopping import RunFailed
from harness.run.workers import Worker, acked
from tests.support.fake_environment import FakeProcess

COMMAND = ("python", "-m", "workloads.worker", "config.json")


def worker(tmp_path: Path, number: int = 0) -> tuple[Worker, FakeProcess]:
    process = FakeProcess(COMMAND)
    return Worker(number, process, tmp_path / "worker.log"), process


def soon(condition: Callable[[], bool]) -> bool:
    return wait_until(condition, 5.0)


def test_reports_are_heard_and_the_latest_of_each_kind_counts(tmp_path: Path) -> None:
    both = [worker(tmp_path, number) for number in (0, 1)]
    workers = [each for each, _ in both]
    assert soon(lambda: all(each.latest("ready") is not None for each in workers))
    assert soon(lambda: acked(workers) >= 2)
    assert workers[0].latest("drained") is None


def test_a_command_is_sent_and_answered(tmp_path: Path) -> None:
    handle, process = worker(tmp_path)
    handle.send("drain")
    assert process.heard == ["drain"]
    assert soon(lambda: handle.latest("drained") is not None)


def test_a_worker_that_is_gone_is_reported_with_its_last_line(tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_text("one\nworker: no broker could be reached\n")
    gone, process = worker(tmp_path)
    process.end(4)
    with pytest.raises(RunFailed, match="expected worker 0 to go on, found that it ended with status 4") as caught:
        gone.check()
    assert "no broker could be reached" in str(caught.value)


def test_a_worker_whose_pipe_is_closed_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handle, process = worker(tmp_path)

    def broken(_data: bytes) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(process.stdin, "write", broken)
    process.end(-9)
    with pytest.raises(RunFailed, match="ended with status -9"):
        handle.send("drain")


def test_a_worker_is_stopped_by_sigterm(tmp_path: Path) -> None:
    handle, process = worker(tmp_path)
    handle.stop()
    handle.stop()
    assert process.terminated
    assert process.status == 0


def test_a_worker_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handle, process = worker(tmp_path)

    def never(_timeout_s: float) -> int:
        raise TimeoutError

    monkeypatch.setattr(process, "terminate", lambda: None)
    monkeypatch.setattr(process, "wait", never)
    handle.stop()
    assert process.status == -9
