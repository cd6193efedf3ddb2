"""Properties over random histories, many of them in one check, because planning costs more than the rows.

A correct log, however its clients interleave, is valid. A correct log with one thing broken shows the anomaly that
belongs to it. And whatever is in the tables, a check ends with a verdict.
"""

from __future__ import annotations

import itertools
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
SEEDS_OF_A_BATCH = 40
SEEDS = st.lists(st.integers(0, 2**32), min_size=SEEDS_OF_A_BATCH, max_size=SEEDS_OF_A_BATCH, unique=True)


def check_all(spark: SparkSession, histories: Sequence[History]) -> list[RunResult]:
    with TemporaryDirectory() as directory:
        return check([history.write(Path(directory)) for history in histories], spark, acknowledged_min=0)


@given(seeds=SEEDS)
@ONE_BATCH
def test_what_is_correct_is_valid_and_each_mutation_shows_its_anomaly(seeds: list[int], spark: SparkSession) -> None:
    histories: list[History] = []
    expected: list[str | None] = []
    log_changes, group_changes = itertools.cycle((None, *MUTATIONS)), itertools.cycle((None, *GROUP_MUTATIONS))
    for seed in seeds:
        log, group = Log(f"log-{seed}", seed), Group(f"group-{seed}", seed)
        change_group = next(group_changes)
        histories.append(group.history)
        expected.append(None if change_group is None else change_group(group))
        histories.append(log.history)
        change_log = next(log_changes) if len(acknowledged(log)) >= 3 else None
        expected.append(None if change_log is None else change_log(log))
    for wanted, history, result in zip(expected, histories, check_all(spark, histories), strict=True):
        if wanted is None:
            assert (result.verdict, result.anomalies) == ("valid", {}), history.name
        else:
            assert result.verdict == "invalid", (wanted, history.name)
            assert result.anomalies[wanted].violations >= 1, (wanted, history.name)


def test_every_mutation_is_tried() -> None:
    seeds = range(SEEDS_OF_A_BATCH)
    enough = sum(len(acknowledged(Log("any", seed))) >= 3 for seed in seeds)
    assert enough > len(MUTATIONS) > len(GROUP_MUTATIONS)


def test_without_repair_a_record_that_was_read_proves_nothing_of_its_send(spark: SparkSession, tmp_path: Path) -> None:
    history = History("unanswered")
    history.send(100, (10, 20), status="info")
    history.poll(1, [100], (30, 40), assigned=True)
    history.send(101, (50, 60), offset=0, process=2)
    history.final([101, 100])
    run = history.write(tmp_path)

    (left,) = check([run], spark, acknowledged_min=0, repair=False)
    assert (left.verdict, left.anomalies, left.counts["sends_repaired"]) == ("valid", {}, 0)
    assert pq.read_table(run / "repairs").num_rows == 0


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
    "commit",
    "committed",
    "delete",
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
