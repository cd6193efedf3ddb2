"""Too little room on the disk is said before a long check begins."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
from pyspark.sql import SparkSession

from checkers import check as checking
from checkers.input import room
from checkers.input.room import BYTES_OF_A_ROW, NoRoomError, need_room
from checkers.input.sizes import ROWS_LONG
from checkers.screening.ordinary import recognise
from tests.checkers.histories import History

DiskUsage = namedtuple("DiskUsage", "total used free")
ROWS = 2 * ROWS_LONG


def session(master: str, scratch: Path) -> SparkSession:
    context = SimpleNamespace(master=master, getConf=lambda: {"spark.local.dir": str(scratch)})
    return cast("SparkSession", SimpleNamespace(sparkContext=context))


def free(number: int) -> Any:
    return mock.patch.object(shutil, "disk_usage", return_value=DiskUsage(1 << 50, 0, number))


def test_too_little_room_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    with free(ROWS * BYTES_OF_A_ROW - 1), pytest.raises(NoRoomError) as raised:
        need_room(session("local[2]", tmp_path / "scratch"), ROWS, BYTES_OF_A_ROW)
    assert str(raised.value) == (
        f"expected 0.2 GB free at {tmp_path} to check 6,000,000 rows, found 0.2: "
        "set TMPDIR to a directory with more room"
    )


def test_enough_room_a_short_history_and_the_disks_of_others_are_no_obstacle(tmp_path: Path) -> None:
    with free(ROWS * BYTES_OF_A_ROW):
        need_room(session("local[2]", tmp_path), ROWS, BYTES_OF_A_ROW)
    with free(0):
        need_room(session("local[2]", tmp_path), ROWS_LONG, BYTES_OF_A_ROW)
        need_room(session("spark://somewhere:7077", tmp_path), ROWS, BYTES_OF_A_ROW)


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Path]:
    """A run that is taken for a long one."""
    history = History("whole")
    history.written([100, 101])
    history.final([100, 101])
    with mock.patch.object(room, "ROWS_LONG", 0), mock.patch.object(recognise, "ROWS_OF_A_LONE_RUN_MAX", 1):
        yield history.write(tmp_path)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("as_frames", [False, True])
def test_a_check_without_room_ends_before_it_writes_anything(spark: SparkSession, whole: Path, as_frames: bool) -> None:
    ordinary: dict[str, Any] = {"return_value": {}} if as_frames else {"wraps": checking.recognised_runs}
    with mock.patch.object(checking, "recognised_runs", **ordinary):
        with free(0), pytest.raises(NoRoomError):
            checking.check([whole], spark)
        assert not (whole / "results.json").exists()
        with free(1 << 40):
            checking.check([whole], spark)
        assert (whole / "results.json").exists()
