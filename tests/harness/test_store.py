from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.store import StoreError, make_run_directory

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


def test_a_run_has_its_own_directory_named_for_time_and_seed(tmp_path: Path) -> None:
    directory = make_run_directory(tmp_path, "log", 7, NOON)
    assert directory == tmp_path / "log" / "20260102T120000Z-7"
    assert directory.is_dir()


def test_latest_points_to_the_newest_run(tmp_path: Path) -> None:
    make_run_directory(tmp_path, "log", 7, NOON)
    newest = make_run_directory(tmp_path, "other", 8, NOON)
    assert (tmp_path / "latest").resolve() == newest.resolve()
    assert not (tmp_path / "latest").readlink().is_absolute(), "a store can be moved"


def test_two_runs_of_one_seed_in_one_second_do_not_share_a_directory(tmp_path: Path) -> None:
    directories = {make_run_directory(tmp_path, "log", 7, NOON) for _ in range(3)}
    assert len(directories) == 3


def test_a_store_that_is_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    with pytest.raises(StoreError, match=r"expected to make a directory in the store .* found: ") as caught:
        make_run_directory(tmp_path / "store", "log", 7)
    assert "\n" not in str(caught.value)
