"""Runs that this user may read and not write: they are checked in a directory of links."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkers.check import check
from checkers.input.read_only import is_read_only, linked
from harness.commands import cli
from harness.terminal.exits import ExitStatus
from tests.checkers.histories import History

not_as_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    history = History("lost")
    history.written([100, 101])
    history.final([100])
    run = history.write(tmp_path / "runs")
    (run / "results.json").write_text("of an earlier check")
    return run


@pytest.fixture
def read_only(lost: Path) -> Iterator[Path]:
    lost.chmod(0o555)
    yield lost
    lost.chmod(0o755)


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_is_judged_through_links(spark: SparkSession, tmp_path: Path, lost: Path) -> None:
    directory = linked(lost, tmp_path / "here")
    (through_links,) = check([directory], spark)
    assert (lost / "results.json").read_text() == "of an earlier check"
    assert not (lost / "anomalies").exists()
    (itself,) = check([lost], spark)
    assert through_links.anomalies == itself.anomalies
    assert through_links.anomalies["lost-acked-write"].violations == 1
    assert len(through_links.incidents) == len(itself.incidents) == 1


def test_links_are_made_anew_each_time(tmp_path: Path, lost: Path) -> None:
    directory = linked(lost, tmp_path / "here")
    (directory / "results.json").write_text("of this check")
    assert linked(lost, tmp_path / "here") == directory
    assert not (directory / "results.json").exists()


@not_as_root
def test_a_run_is_read_only_if_anything_to_be_written_is(lost: Path) -> None:
    assert not is_read_only(lost)
    (lost / "anomalies").mkdir(mode=0o555)
    assert is_read_only(lost)


@pytest.mark.slow
@not_as_root
@pytest.mark.spark
def test_the_command_says_where_the_results_of_a_read_only_run_are(
    read_only: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["check", "--store", str(tmp_path / "store"), str(read_only)])
    assert ended.value.code == ExitStatus.ANOMALIES
    (results,) = (tmp_path / "store" / "elsewhere").glob("*/results.json")
    assert f"{read_only} is read-only: its results go into {results.parent}" in capsys.readouterr().err
    assert (read_only / "results.json").read_text() == "of an earlier check"
