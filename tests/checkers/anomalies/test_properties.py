"""Properties over random histories.

A correct log, however its clients interleave, is valid. A correct log with one thing broken shows the anomaly that
belongs to it. (That a check ends with a verdict, whatever is in the tables, is in `test_check`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from checkers.check import check
from tests.checkers.conftest import Batches
from tests.checkers.histories import History

pytestmark = pytest.mark.spark


def test_what_is_correct_is_valid_and_each_mutation_shows_its_anomaly(
    mutated: Sequence[tuple[History, str | None]], batches: Batches
) -> None:
    for history, wanted in mutated:
        result = batches.whole[history.name]
        if wanted is None:
            assert (result.verdict, result.anomalies) == ("valid", {}), history.name
        else:
            assert result.verdict == "invalid", (wanted, history.name)
            assert result.anomalies[wanted].violations >= 1, (wanted, history.name)


@pytest.mark.slow
def test_without_repair_a_record_that_was_read_proves_nothing_of_its_send(spark: SparkSession, tmp_path: Path) -> None:
    history = History("unanswered")
    history.send(100, (10, 20), status="info")
    history.poll(1, [100], (30, 40), assigned=True)
    history.send(101, (50, 60), offset=0, process=2)
    history.final([101, 100])
    run = history.write(tmp_path)

    (left,) = check([run], spark, acknowledged_min=0, resolve_outcomes=False)
    assert (left.verdict, left.anomalies, left.counts["sends_repaired"]) == ("valid", {}, 0)
    assert pq.read_table(run / "repairs").num_rows == 0
