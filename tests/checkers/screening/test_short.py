"""Both implementations of screening, in this process and on Spark, mark the same as suspect."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from checkers.input.frames import KEY
from checkers.input.polls import POLL
from checkers.input.run_facts import facts_of
from checkers.input.sizes import Size, settings_for, size_of
from checkers.input.tables import RunFiles, survey, survey_dataset
from checkers.relations.base import Relations, base_relations
from checkers.screening.in_driver import screen_in_driver
from checkers.spark import SQL_SETTINGS
from history.schema import TABLES
from tests.checkers.histories import History
from tests.checkers.input.garbage import garbage
from tests.checkers.oracle.agreement import longer_than, write_dataset
from tests.checkers.oracle.arbitrary_histories import Wild

HISTORIES = 150
SPOILT = ("operations", "sends", "polls", "reads", "cluster", "logs")
UNIQUE = {("operations", "op"), ("sends", "value")}
"""What comes twice is not screened at all."""


def spoilt(seed: int) -> History:
    """A wild history in which some cells hold garbage."""
    choices, history = random.Random(seed), Wild(f"wild-{seed}", seed).history
    for table in SPOILT:
        for row in history.tables[table]:
            for field in TABLES[table]:
                if choices.random() < 0.02 and field.name != "run_id" and (table, field.name) not in UNIQUE:
                    row[field.name] = garbage(choices, field.type)
    return history


def rows_of(frame: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row) for row in frame.collect())


def relations_of(runs: list[RunFiles], spark: SparkSession, rows_short: int) -> Relations:
    with longer_than(rows_short):
        for name, value in {**SQL_SETTINGS, **settings_for(runs)}.items():
            spark.conf.set(name, value)
        short = screen_in_driver(runs) if size_of(runs) is Size.SHORT else None
        assert (short is None) == (rows_short == 0)
        return base_relations(spark, runs, [facts_of(run) for run in runs], screening=True, in_driver=short)


@pytest.mark.spark
def test_driver_and_spark_suspect_the_same(spark: SparkSession, tmp_path: Path) -> None:
    first = random.randrange(1 << 40)
    write_dataset(tmp_path, [spoilt(seed) for seed in range(first, first + HISTORIES)])
    runs = survey_dataset(tmp_path)
    by_driver, by_spark = (relations_of(runs, spark, rows_short) for rows_short in (1 << 30, 0))
    assert by_spark.suspicion is not None
    assert by_spark.suspicion.partition_keys
    assert by_spark.suspicion.values
    assert by_driver.suspicion == by_spark.suspicion
    assert rows_of(by_driver.used_partitions) == rows_of(by_spark.used_partitions)
    assert rows_of(by_driver.replicas) == rows_of(by_spark.replicas)
    for table in ("reads", "logs"):
        ours, theirs = (each.examined[table] for each in (by_driver, by_spark))
        assert rows_of(ours.select(sorted(ours.columns))) == rows_of(theirs.select(sorted(theirs.columns)))
        ours, theirs = (each.rows[table].groupBy("run_id").sum("rows") for each in (by_driver, by_spark))
        assert rows_of(ours) == rows_of(theirs)
    polls = [each.examined["polls"].select(*POLL, "problem", "usable", "whole") for each in (by_driver, by_spark)]
    assert rows_of(polls[0]) == rows_of(polls[1])


def test_what_comes_twice_is_left_to_a_close_look(tmp_path: Path) -> None:
    history = History("twice")
    history.send(100, (10, 20), offset=0)
    history.send(100, (30, 40), offset=1)
    short = screen_in_driver([survey(history.write(tmp_path))])
    assert short is not None
    assert (short.twice, short.notes) == (True, ())


def test_what_cannot_be_read_to_its_end_is_left_to_spark(tmp_path: Path) -> None:
    history = History("broken")
    history.send(100, (10, 20), offset=0)
    history.final([100])
    run = history.write(tmp_path)
    (part,) = (run / "history" / "reads").glob("*.parquet")
    whole = part.read_bytes()
    part.write_bytes(whole[:4] + bytes(40) + whole[44:])
    assert screen_in_driver([survey(run)]) is None


def test_texts_that_are_none_are_left_to_spark(tmp_path: Path) -> None:
    history = History("mojibake")
    history.send(100, (10, 20), offset=0)
    run = history.write(tmp_path)
    (part,) = (run / "history" / "sends").glob("*.parquet")
    table = pq.read_table(part)
    latin = pa.array([b"caf\xe9"] * table.num_rows, pa.binary())
    topic = pa.Array.from_buffers(pa.string(), len(latin), latin.buffers())
    pq.write_table(table.set_column(table.column_names.index("topic"), "topic", topic), part)
    assert screen_in_driver([survey(run)]) is None


def test_an_empty_history_is_short(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    short = screen_in_driver([survey(tmp_path)])
    assert short is not None
    assert (short.notes, short.twice, short.malformed, short.last_ns) == ((), False, False, {})


def test_logs_are_looked_up_where_findings_point(tmp_path: Path) -> None:
    rows = list(logs())
    parts = tmp_path / "history" / "logs"
    parts.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES["logs"]), parts / "part-t-000000.parquet")
    short = screen_in_driver([survey(tmp_path)])
    assert short is not None
    position = ("looked-up", "log", 0, 7)
    nowhere = ("looked-up", "log", 0, 9)
    assert short.held_at([position, nowhere]) == {position: {1: 107, 2: None}}
    assert short.held_at([]) == {}


def logs() -> Iterator[dict[str, Any]]:
    for broker, offset, value in ((1, 6, 106), (1, 7, 107), (2, 7, None), (None, 7, 999), (3, None, 999)):
        key = dict(zip(KEY, ("looked-up", "log", 0), strict=True))
        yield {**key, "broker": broker, "offset": offset, "value": value}
    yield {**dict(zip(KEY, ("looked-up", "log", 1), strict=True)), "broker": 1, "offset": 7, "value": 999}
