"""The pool of processes survives everything that a task does."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulation.runs.pool import AHEAD, FinishedTask, Pool

FOREVER_S = 600.0
PAUSE_S = 4.0


def work(task: str) -> str:
    """What the tasks ask for."""
    match task:
        case "raise":
            raise ValueError("I won't")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(7)
        case "hang":
            time.sleep(FOREVER_S)
        case "stop":
            subprocess.Popen(["/bin/sh", "-c", f"sleep {PAUSE_S}; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)
        case "pause":
            time.sleep(PAUSE_S)
    return task.upper()


def outcomes(tasks: list[str], jobs: int = 2, task_s_max: float = 30.0) -> dict[str, FinishedTask[str, str]]:
    with Pool(work, jobs, task_s_max) as pool:
        return {done.task: done for done in pool.run(tasks)}


def test_every_task_is_done_once() -> None:
    tasks = [f"task {number}" for number in range(50)]
    done = outcomes(tasks)
    assert {task: one.result for task, one in done.items()} == {task: task.upper() for task in tasks}


def test_an_error_is_a_result_and_says_where() -> None:
    done = outcomes(["one", "raise", "two"])
    assert done["raise"].trouble is not None
    assert "ValueError: I won't (test_pool.py:" in done["raise"].trouble
    assert done["two"].result == "TWO"


@pytest.mark.parametrize(("task", "why"), [("die", "SIGKILL"), ("exit", "exit status 7")])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_process_that_dies_costs_its_task_and_no_other(task: str, why: str, jobs: int) -> None:
    others = [f"task {number}" for number in range(10)]
    done = outcomes([*others[:3], task, *others[3:]], jobs)
    assert done[task].trouble == f"its process died: {why}"
    assert [done[other].result for other in others] == [other.upper() for other in others]


def test_a_task_that_never_ends_is_given_up() -> None:
    done = outcomes(["one", "hang", "two", "three"], task_s_max=2.0)
    assert done["hang"].trouble == "did not end within 2 s"
    assert done["three"].result == "THREE"


def test_time_in_which_a_worker_is_stopped_does_not_count() -> None:
    done = outcomes(["one", "stop", "two"], task_s_max=2.0)
    assert done["stop"].result == "STOP"
    assert outcomes(["pause"], task_s_max=2.0)["pause"].trouble == "did not end within 2 s", (
        "the same time, not stopped"
    )


def test_time_in_which_nobody_looks_does_not_count() -> None:
    with Pool(work, 2, 2.0) as pool:
        running = pool.run(["one", "pause"])
        assert next(running).task == "one"
        time.sleep(PAUSE_S - 1.0)  # more than the limit, and the task is not done yet
        assert next(running).result == "PAUSE"


def test_tasks_are_asked_for_only_when_there_is_room() -> None:
    asked = 0

    def tasks() -> Iterator[str]:
        nonlocal asked
        for number in range(20):
            asked += 1
            yield f"task {number}"

    with Pool(work, 1) as pool:
        for seen, _ in enumerate(pool.run(tasks()), 1):
            assert asked <= seen + AHEAD
    assert asked == 20


def test_one_pool_serves_several_rounds() -> None:
    with Pool(work, 2) as pool:
        assert [done.result for done in pool.run(["a"])] == ["A"]
        assert list(pool.run([])) == []
        assert [done.result for done in pool.run(["b"])] == ["B"]


def edition(task: str) -> str:
    """Which of the modules of this name the process imports."""
    import edition_of_a_test

    return str(edition_of_a_test.NAME)


def test_workers_are_replaced_by_ones_that_import_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "edition_of_a_test.py").write_text(f"NAME = {name!r}\n")
    monkeypatch.syspath_prepend(tmp_path / "first")
    seen: dict[str, str | None] = {}
    with Pool(edition, 2) as pool:
        for done in pool.run([f"task {number:02}" for number in range(30)]):
            assert done.task not in seen
            seen[done.task] = done.result
            if len(seen) == 10:
                pool.import_from(tmp_path / "second")
            elif len(seen) == 20:
                pool.import_from(None)
        assert sorted(seen) == [f"task {number:02}" for number in range(30)]
        editions = list(seen.values())
        assert set(editions[:10]) == {"first"}
        # two workers end what they hold before they are replaced, however long that takes them
        assert editions[10:20].count("first") <= 2 * AHEAD
        assert editions[20:].count("second") <= 2 * AHEAD
    with Pool(edition, 1, imports=tmp_path / "second") as pool:
        assert [done.result for done in pool.run(["a", "b"])] == ["second", "second"]
