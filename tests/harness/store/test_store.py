from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.spec.spec import Spec, resolve
from harness.store.run_directories import StoreError, find_run, make_run_directory, runs
from harness.store.run_names import of_run, of_simulation, plain

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


def test_a_run_has_its_own_directory_named_for_time_what_it_was_and_seed(tmp_path: Path) -> None:
    directory = make_run_directory(tmp_path, "local-log-usual", 7, NOON)
    assert directory == tmp_path / "runs" / "20260102T120000Z-local-log-usual-seed-7"
    assert directory.is_dir()
    assert make_run_directory(tmp_path, "cluster", None, NOON).name == "20260102T120000Z-cluster"


def test_latest_points_to_the_newest_run(tmp_path: Path) -> None:
    make_run_directory(tmp_path, "log", 7, NOON)
    newest = make_run_directory(tmp_path, "other", 8, NOON)
    assert (tmp_path / "latest").resolve() == newest.resolve()
    assert not (tmp_path / "latest").readlink().is_absolute(), "a store can be moved"


def test_two_runs_of_one_seed_in_one_second_do_not_share_a_directory(tmp_path: Path) -> None:
    directories = {make_run_directory(tmp_path, "log", 7, NOON) for _ in range(3)}
    assert len(directories) == 3
    assert list(runs(tmp_path, "log")) == sorted(directories)
    assert not runs(tmp_path, "og")


def test_a_store_that_is_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    with pytest.raises(StoreError, match=r"expected to make a directory in the store .* found: ") as caught:
        make_run_directory(tmp_path / "store", "log", 7)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "local-log-usual"),
        ({"faults": "none", "workload": "queue"}, "local-queue-no-faults"),
        ({"faults": "all"}, "local-log-all"),
        ({"faults": "network,kill"}, "local-log-network+kill"),
        ({"faults": "usual,disk"}, "local-log-usual+disk"),
        ({"faults": "kill,pause,restart,isolate"}, "local-log-4-faults"),
        ({"flaws": ["unclean-election", "late-cut"]}, "local-log-usual-unclean-election+1"),
        ({"vms": 3}, "vms-log-usual"),
        ({"name": "nightly"}, "nightly"),
    ],
)
def test_a_run_is_named_for_what_it_is(given: dict[str, object], name: str) -> None:
    assert of_run(resolve(given, 1)) == name


def test_a_schedule_replaces_the_drawn_faults() -> None:
    assert of_run(Spec(seed=1), schedule="last-replica-standing") == "local-log-last-replica-standing"


def test_another_broker_is_named_first() -> None:
    assert of_run(Spec(seed=1), "my broker") == "my-broker-local-log-usual"


def test_a_simulation_is_named_for_what_the_seed_did_not_decide() -> None:
    assert of_simulation({}) == "simulation"
    assert of_simulation({"generation": "K3", "flaws": ("late-cut",), "brokers": 5}) == "simulation-K3-late-cut"


def test_a_name_needs_no_quotes_and_is_not_too_long_for_a_file() -> None:
    assert plain(["schedule", "a b/ü*"]) == "schedule-a-b---"
    assert len(plain(["x" * 300])) == 100


@pytest.mark.parametrize("what", [None, "latest", "20260102T120000Z-log-seed-7"])
def test_a_run_is_found_by_its_name_in_the_store(what: str | None, tmp_path: Path) -> None:
    made = make_run_directory(tmp_path, "log", 7, NOON)
    assert find_run(tmp_path, what).resolve() == made.resolve()


def test_a_run_is_found_by_its_path_and_in_a_store_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "store" / "log" / "20250102T120000Z-7"
    old.mkdir(parents=True)
    (tmp_path / "store" / "latest").symlink_to("log/20250102T120000Z-7")
    monkeypatch.chdir(tmp_path)
    store = Path("store")
    for what in (None, "latest", "store/latest", "log/20250102T120000Z-7", str(old)):
        assert find_run(store, what).resolve() == old


def test_a_run_that_is_not_there_is_answered_with_one_that_is(tmp_path: Path) -> None:
    made = make_run_directory(tmp_path, "local-log-usual", 7, NOON)
    with pytest.raises(StoreError, match=f"did you mean {made.name}\\?"):
        find_run(tmp_path, made.name.replace("usual", "usuel"))
    with pytest.raises(StoreError, match=r"found no 12, here or in the store .*; see .*runs"):
        find_run(tmp_path, "12")
