"""Properties over random histories, many of them in one check, because planning costs more than the rows.

A correct log, however its clients interleave, is valid. A correct log with one thing broken shows the anomaly that
belongs to it. And whatever is in the tables, a check ends with a verdict.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from checkers.check import check
from checkers.verdict import RunResult
from history.schema import TABLES
from tests.checkers.group_mutations import GROUP_MUTATIONS, Group
from tests.checkers.histories import History
from tests.checkers.mutations import MUTATIONS, Log, acknowledged

pytestmark = pytest.mark.spark

ONE_BATCH = settings(
    max_examples=1,
    phases=[Phase.generate],  # a smaller batch says no more than the names in the message
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
SEEDS = st.lists(st.integers(0, 2**32), min_size=60, max_size=60, unique=True)


def check_all(spark: SparkSession, histories: Sequence[History]) -> list[RunResult]:
    with TemporaryDirectory() as directory:
        return check([history.write(Path(directory)) for history in histories], spark, acknowledged_min=0)


@given(seeds=SEEDS)
@ONE_BATCH
def test_correct_logs_are_valid(seeds: list[int], spark: SparkSession) -> None:
    logs = [Log(f"log-{seed}", seed) for seed in seeds]
    for seed, result in zip(seeds, check_all(spark, [log.history for log in logs]), strict=True):
        assert (result.verdict, result.anomalies) == ("valid", {}), seed


@given(seeds=SEEDS)
@ONE_BATCH
def test_each_mutation_shows_its_anomaly(seeds: list[int], spark: SparkSession) -> None:
    logs = []
    expected = []
    for number, seed in enumerate(seeds):
        log = Log(f"log-{seed}", seed)
        if len(acknowledged(log)) >= 3:
            expected.append(MUTATIONS[number % len(MUTATIONS)](log))
            logs.append(log.history)
    assert set(expected) == {mutation(Log("any", 1)) for mutation in MUTATIONS}
    for wanted, log, result in zip(expected, logs, check_all(spark, logs), strict=True):
        assert result.verdict == "invalid", (wanted, log.name)
        assert result.anomalies[wanted].violations >= 1, (wanted, log.name)


@given(seeds=SEEDS)
@ONE_BATCH
def test_correct_groups_are_valid_and_each_mutation_shows_its_anomaly(seeds: list[int], spark: SparkSession) -> None:
    groups = [Group(f"group-{seed}", seed) for seed in seeds]
    changes = (None, *GROUP_MUTATIONS)
    expected = [
        None if (mutation := changes[number % len(changes)]) is None else mutation(group)
        for number, group in enumerate(groups)
    ]
    results = check_all(spark, [group.history for group in groups])
    for wanted, seed, result in zip(expected, seeds, results, strict=True):
        if wanted is None:
            assert (result.verdict, result.anomalies) == ("valid", {}), seed
        else:
            assert result.anomalies[wanted].violations >= 1, (wanted, seed)


def test_without_repair_a_record_that_was_read_proves_nothing_of_its_send(spark: SparkSession, tmp_path: Path) -> None:
    history = History("unanswered")
    history.send(100, (10, 20), status="info")
    history.poll(1, [100], (30, 40), assigned=True)
    history.send(101, (50, 60), offset=0, process=2)
    history.final([101, 100])
    run = history.write(tmp_path)

    (repaired,) = check([run], spark, acknowledged_min=0)
    assert (repaired.verdict, repaired.counts["sends_repaired"]) == ("invalid", 1)
    assert repaired.anomalies["reordered-send"].violations == 1

    (left,) = check([run], spark, acknowledged_min=0, repair=False)
    assert (left.verdict, left.anomalies, left.counts["sends_repaired"]) == ("valid", {}, 0)
    assert pq.read_table(run / "repairs").num_rows == 0, "those of the check before are gone"


INTEGERS = (None, 0, 1, 2, 3, -1, 7, 2**31 - 1, -(2**31))
LONGS = (*INTEGERS, 2**63 - 1, -(2**63), 10**9)
STRINGS = (
    None,
    "log",
    "ok",
    "info",
    "fail",
    "send",
    "poll",
    "latest",
    "main",
    "final",
    "leader",
    "page-cache-loss",
    "",
)


def garbage(choices: random.Random, kind: pa.DataType) -> object:
    if pa.types.is_list(kind):
        length = choices.choice((None, 0, 1, 3))
        return None if length is None else [garbage(choices, kind.value_type) for _ in range(length)]
    if pa.types.is_string(kind):
        return choices.choice(STRINGS)
    if pa.types.is_boolean(kind):
        return choices.choice((None, True, False))
    return choices.choice(LONGS if pa.types.is_int64(kind) else INTEGERS)


def write_garbage(run: Path, seed: int) -> None:
    choices = random.Random(seed)
    for table, schema in TABLES.items():
        rows = choices.choice((0, 1, 5, 30))
        columns = {field.name: [garbage(choices, field.type) for _ in range(rows)] for field in schema}
        columns["run_id"] = [choices.choice((run.name, run.name, run.name, None, "another")) for _ in range(rows)]
        parts = run / "history" / table
        parts.mkdir(parents=True)
        pq.write_table(pa.table(columns, schema=schema), parts / "part-g-000000.parquet")


@given(seeds=SEEDS)
@ONE_BATCH
def test_no_history_raises(seeds: list[int], spark: SparkSession) -> None:
    with TemporaryDirectory() as directory:
        runs = [Path(directory) / f"garbage-{seed}" for seed in seeds]
        for run, seed in zip(runs, seeds, strict=True):
            write_garbage(run, seed)
        results = check(runs, spark)
        assert [result.directory for result in results] == runs
        assert all((run / "results.json").is_file() for run in runs)
        assert "valid" not in {result.verdict for result in results}
