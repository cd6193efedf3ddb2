"""Which stored runs `harrow prune` removes, which never, and how it answers bad input."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.commands import cli
from harness.environments.machine.kernel import process_identity
from harness.store.journal import FILE_NAME, Journal
from harness.store.pruning import Limits, stored_runs, to_remove
from harness.terminal.exits import ExitStatus

NOW = datetime(2026, 1, 31, tzinfo=UTC)
KIBIBYTE = 1024


def made(store: Path, days: int, *, verdict: str | None = "valid", kibibytes: int = 1, name: str = "") -> Path:
    """A run made so many days before `NOW`, last written to a day before it."""
    time = (NOW - timedelta(days=days)).strftime("%Y%m%dT%H%M%SZ")
    run = store / "runs" / f"{time}-{name or 'simulation'}-seed-{days}"
    (run / "history").mkdir(parents=True)
    (run / "spec.json").write_text("{}")
    results = "" if verdict is None else json.dumps({"verdict": verdict})
    if verdict is not None:
        (run / "results.json").write_text(results)
    (run / "history" / "part").write_bytes(b"x" * (kibibytes * KIBIBYTE - len(results) - 2))
    yesterday = (NOW - timedelta(days=1)).timestamp()
    for path in (*run.rglob("*"), run):
        os.utime(path, (yesterday, yesterday))
    return run


def removed(store: Path, **limits: object) -> list[int]:
    """The days of the runs that would be removed, in the order of their removal."""
    chosen = to_remove(stored_runs(store, NOW), Limits(**limits), NOW)  # type: ignore[arg-type]
    return [int(removal.run.directory.name.rpartition("-")[2]) for removal in chosen]


def harrow(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main([str(argument) for argument in arguments])
    status = ended.value.code or 0
    assert isinstance(status, int)
    return status


# --- the choice ------------------------------------------------------------------------------------------------------


def test_age_spares_what_fails_unless_it_has_an_age_of_its_own(tmp_path: Path) -> None:
    for days, verdict in ((5, "valid"), (40, "invalid"), (50, "valid"), (60, "unknown"), (200, "invalid"), (70, None)):
        made(tmp_path, days, verdict=verdict)
    month = timedelta(days=30)
    assert removed(tmp_path, older_than=month) == [70, 60, 50]
    assert removed(tmp_path, older_than=month, failing_older_than=timedelta(days=100)) == [70, 60, 50, 200]


def test_a_number_leaves_failing_runs_longest(tmp_path: Path) -> None:
    for days, verdict in ((1, "valid"), (2, "invalid"), (3, "valid"), (4, "invalid"), (5, "valid")):
        made(tmp_path, days, verdict=verdict)
    assert removed(tmp_path, runs_max=5) == []
    assert removed(tmp_path, runs_max=3) == [5, 3]
    assert removed(tmp_path, runs_max=1) == [5, 3, 1, 4]


def test_a_size_leaves_failing_runs_longest(tmp_path: Path) -> None:
    for days, verdict in ((1, "valid"), (2, "invalid"), (3, "valid")):
        made(tmp_path, days, verdict=verdict, kibibytes=10)
    assert removed(tmp_path, size_max_bytes=30 * KIBIBYTE) == []
    assert removed(tmp_path, size_max_bytes=30 * KIBIBYTE - 1) == [3]
    assert removed(tmp_path, size_max_bytes=10 * KIBIBYTE) == [3, 1]
    assert removed(tmp_path, size_max_bytes=0) == [3, 1, 2]


def test_limits_add_up(tmp_path: Path) -> None:
    for days in (1, 2, 3, 40):
        made(tmp_path, days, kibibytes=10)
    limits = {"older_than": timedelta(days=30), "runs_max": 2, "size_max_bytes": 10 * KIBIBYTE}
    assert removed(tmp_path, **limits) == [40, 3, 2]


def test_results_that_cannot_be_read_count_as_a_failure(tmp_path: Path) -> None:
    (made(tmp_path, 9) / "results.json").write_text("{")
    made(tmp_path, 8)
    assert removed(tmp_path, runs_max=1) == [8]


# --- what stays always -----------------------------------------------------------------------------------------------


def test_the_newest_stays_and_counts(tmp_path: Path) -> None:
    run = made(tmp_path, 9)
    made(tmp_path, 8)
    (tmp_path / "latest").symlink_to(run.relative_to(tmp_path))
    assert removed(tmp_path, size_max_bytes=0) == [8]
    (tmp_path / "latest").unlink()
    assert removed(tmp_path, size_max_bytes=0) == [9, 8]


def test_a_run_whose_harness_is_alive_stays_even_after_its_tear_down(tmp_path: Path) -> None:
    Journal(made(tmp_path, 9)).finish()  # by this process, which is alive
    assert removed(tmp_path, size_max_bytes=0) == []
    assert stored_runs(tmp_path, NOW)[0].protected == "in progress"


def test_a_run_of_a_dead_harness_stays_until_it_is_healed(tmp_path: Path) -> None:
    run = made(tmp_path, 9)
    started = process_identity.start_time(os.getpid())
    assert started is not None
    opened = {"kind": "opened", "pid": os.getpid(), "start_time": started + 1}  # the pid is another process by now
    (run / FILE_NAME).write_text(json.dumps(opened) + "\n")
    assert stored_runs(tmp_path, NOW)[0].protected == "not healed: see `harrow heal`"
    with (run / FILE_NAME).open("a") as journal:
        journal.write('{"kind": "healed"}\n')
    assert removed(tmp_path, size_max_bytes=0) == [9]


@pytest.mark.parametrize("opened", ['{"kind": "opened"}', '{"kind": "opened", "pid": "x", "start_time": null}'])
def test_a_damaged_journal_hurts_nothing_else(tmp_path: Path, opened: str) -> None:
    (made(tmp_path, 9) / FILE_NAME).write_text(opened + "\n")
    (made(tmp_path, 8) / FILE_NAME).mkdir()
    made(tmp_path, 7)
    assert removed(tmp_path, size_max_bytes=0) == [7]


def test_a_simulated_run_that_is_being_written_stays(tmp_path: Path) -> None:
    run = made(tmp_path, 9, verdict=None)
    assert removed(tmp_path, size_max_bytes=0) == [9]
    now = NOW.timestamp()
    os.utime(run / "history" / "part", (now, now))
    assert removed(tmp_path, size_max_bytes=0) == []


def test_what_is_no_run_is_not_seen(tmp_path: Path) -> None:
    outside = made(tmp_path / "elsewhere", 9)
    runs = tmp_path / "runs"
    (runs / "notes").mkdir(parents=True)
    (runs / "notes" / "spec.json").write_text("{}")
    (runs / "20260101T000000Z-empty-seed-1").mkdir()
    (runs / "20269999T000000Z-no-such-day-seed-1").mkdir()
    (runs / "20269999T000000Z-no-such-day-seed-1" / "spec.json").write_text("{}")
    (runs / "20260101T000000Z-file-seed-1").write_text("")
    (runs / outside.name).symlink_to(outside)
    assert stored_runs(tmp_path, NOW) == []


# --- the command -----------------------------------------------------------------------------------------------------


def test_without_yes_nothing_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made(tmp_path, 9)
    assert harrow("prune", "--max-size", "0K", "--store", tmp_path) == ExitStatus.VALID
    first, last = capsys.readouterr().out.splitlines()
    assert first == f"would remove  {run.name}  0.0 MiB (size)"
    assert last == "1 run of 1, 0.0 MiB of 0.0 MiB; nothing was removed: --yes removes them"
    assert run.is_dir()


def test_with_yes_only_the_chosen_runs_are_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, bad, new = made(tmp_path, 9), made(tmp_path, 8, verdict="invalid"), made(tmp_path, 7)
    (tmp_path / "latest").symlink_to(new.relative_to(tmp_path))
    assert harrow("prune", "--keep-last", "2", "--yes", "--store", tmp_path) == ExitStatus.VALID
    assert sorted((tmp_path / "runs").iterdir()) == sorted([bad, new])
    assert capsys.readouterr().out.startswith(f"removed       {old.name}  ")
    assert harrow("prune", "--failing-older-than", "1h", "--yes", "--store", tmp_path) == ExitStatus.VALID
    assert list((tmp_path / "runs").iterdir()) == [new]
    assert ", failing (age)" in capsys.readouterr().out


def test_what_a_link_in_a_run_points_to_stays(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    (made(tmp_path, 9) / "link").symlink_to(outside)
    assert harrow("prune", "--max-size", "0K", "--yes", "--store", tmp_path) == ExitStatus.VALID
    assert not list((tmp_path / "runs").iterdir())
    assert (outside / "file").read_text() == "mine"


def test_a_run_that_cannot_be_removed_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(tmp_path, 9)

    def refuse(directory: Path) -> None:
        raise PermissionError(13, "Permission denied", str(directory))

    monkeypatch.setattr("shutil.rmtree", refuse)
    assert harrow("prune", "--max-size", "0K", "--yes", "--store", tmp_path) == ExitStatus.FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"harrow: {run}: could not be removed: {run}: Permission denied"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", "expected a limit: --older-than, --failing-older-than, --keep-last or --max-size"),
        ("--older-than soon", "expected an age like 12h, 30d or 8w, found 'soon'"),
        ("--older-than 30", "expected an age like 12h, 30d or 8w, found '30'"),
        ("--older-than 99999w", "expected an age like 12h, 30d or 8w, found '99999w'"),
        ("--older-than -3d", "expected an age like 12h, 30d or 8w, found '-3d'"),
        ("--max-size 2", "expected a size like 500M or 2G, found '2'"),
        ("--max-size 2X", "expected a size like 500M or 2G, found '2X'"),
        ("--keep-last 0", "0 is not in the range"),
        ("--keep-last 3 --store gone", "expected a store, found no directory gone"),
    ],
)
def test_bad_input_is_one_line(
    arguments: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert harrow("prune", *arguments.split()) == ExitStatus.USAGE
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert expected in line
