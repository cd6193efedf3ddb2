"""Runs that only Spark can reach, by URIs. (That they are judged like those here is in `test_check`.)"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkers.input.remote import RemoteRunError, bring, is_remote
from checkers.input.tables import REMOTE_PARTS, survey
from tests.checkers.histories import History


@pytest.mark.parametrize(
    ("location", "remote"),
    [("store/latest", False), ("/store/log", False), ("a:b", False), ("s3a://bucket/run", True), ("file:/run", True)],
)
def test_a_uri_is_distinguished_from_a_path(location: str, remote: bool) -> None:
    assert is_remote(location) == remote


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    """A run with a lost record, in a directory whose name would be a pattern to Spark."""
    history = History("lost")
    history.written([100, 101])
    history.final([100])
    (tmp_path / "on[e]*").mkdir()
    return history.write(tmp_path / "on[e]*")


@pytest.mark.spark
def test_a_broken_remote_part_is_a_gap(spark: SparkSession, tmp_path: Path, lost: Path) -> None:
    (part,) = (lost / "history" / "sends").glob("part-*")
    part.write_bytes(part.read_bytes()[:-5])
    (lost / "history" / "polls" / "part-short.parquet").write_bytes(b"PAR")
    brought = bring(spark, f"file://{lost}", tmp_path / "here")
    reasons = " ".join(gap.reason for gap in survey(brought).gaps)
    assert f"{part.name}: no footer of Parquet at its end" in reasons
    assert "part-short.parquet: too short for a footer" in reasons


@pytest.mark.spark
def test_a_run_that_is_brought_again_is_new(spark: SparkSession, tmp_path: Path, lost: Path) -> None:
    brought = bring(spark, f"file://{lost}", tmp_path)
    (brought / "results.json").write_text("old")
    assert bring(spark, f"file://{lost}/", tmp_path) == brought
    assert not (brought / "results.json").exists()
    assert (brought / "history" / "sends" / REMOTE_PARTS).is_file()


@pytest.mark.spark
@pytest.mark.parametrize("uri", ["file:///no/such/run", "nosuch://host/run", "s3a://bucket/run"])
def test_a_location_without_a_run_is_reported_in_one_line(spark: SparkSession, tmp_path: Path, uri: str) -> None:
    with pytest.raises(RemoteRunError) as raised:
        bring(spark, uri, tmp_path)
    assert uri in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())
