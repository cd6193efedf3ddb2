"""Properties over random histories, many of them in one check, because planning costs more than the rows.

A correct log, however its clients interleave, is valid. A correct log with one thing broken shows the anomaly that
belongs to it. And whatever is in the tables, a check ends with a verdict.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from checkers.check import check
from checkers.verdict import RunResult
from history.schema import TABLES
from tests.checkers.histories import FINAL_READER, History

pytestmark = pytest.mark.spark

ONE_BATCH = settings(
    max_examples=1,
    phases=[Phase.generate],  # a smaller batch says no more than the names in the message
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
SEEDS = st.lists(st.integers(0, 2**32), min_size=30, max_size=30, unique=True)


class Log:
    """A linearizable log with concurrent clients: every operation takes effect at one moment within its span."""

    def __init__(self, name: str, seed: int) -> None:
        self.choices = random.Random(seed)
        self.history = History(name)
        self.log: list[int] = []
        self._free_ms = dict.fromkeys((1, 2, 3, 4), 10)
        self._reader_ms = 10
        self._position = 0
        for value in range(100, 100 + self.choices.randint(5, 40)):
            self._send(value)
            if self.choices.random() < 0.4:
                self._poll()
        self.history.final(self.log)

    def _send(self, value: int) -> None:
        """Sends take effect in the order of this call, at the moment `now`, and each spans its moment."""
        choices = self.choices
        process = choices.choice(list(self._free_ms))
        now = max(*self._free_ms.values(), self._reader_ms) + choices.randint(1, 5)
        begins = choices.randint(self._free_ms[process], now)
        ends = now + choices.randint(0, 30)
        status = choices.choices(["ok", "info", "fail"], [8, 2, 1])[0]
        arrives = status == "ok" or (status == "info" and choices.random() < 0.5)
        offset = len(self.log) if status == "ok" else None
        self.history.send(value, (begins, ends), offset=offset, status=status, process=process)
        if arrives:
            self.log.append(value)
        self._free_ms = {other: max(free, now - 40) for other, free in self._free_ms.items()} | {process: ends + 1}

    def _poll(self) -> None:
        choices = self.choices
        seek = choices.random() < 0.1 or self._position == 0
        if seek:
            self._position = choices.randint(0, len(self.log))
        # Everything sent so far has taken effect by now.
        begins = max(*self._free_ms.values(), self._reader_ms) + 1
        records = self.log[self._position : self._position + choices.randint(1, 10)]
        self.history.poll(self._position, records, (begins, begins + 5), assigned=seek)
        self.history.latest(len(self.log), (begins + 6, begins + 7))
        self._position += len(records)
        self._reader_ms = begins + 8


def check_all(spark: SparkSession, histories: Sequence[History]) -> list[RunResult]:
    with TemporaryDirectory() as directory:
        return check([history.write(Path(directory)) for history in histories], spark, acknowledged_min=0)


@given(seeds=SEEDS)
@ONE_BATCH
def test_correct_logs_are_valid(seeds: list[int], spark: SparkSession) -> None:
    logs = [Log(f"log-{seed}", seed) for seed in seeds]
    for seed, result in zip(seeds, check_all(spark, [log.history for log in logs]), strict=True):
        assert (result.verdict, result.anomalies) == ("valid", {}), seed


def _final_reads(history: History) -> list[dict[str, Any]]:
    final = {row["op"] for row in history.tables["operations"] if row["process"] == FINAL_READER}
    return [row for row in history.tables["reads"] if row["op"] in final]


def _acknowledged(log: Log) -> list[dict[str, Any]]:
    return [row for row in log.history.tables["sends"] if row["offset"] is not None]


def drop(log: Log) -> str:
    """The final reads go over an acknowledged record without returning it."""
    lost = log.choices.choice(_acknowledged(log))["value"]
    reads = _final_reads(log.history)
    gone = next(row for row in reads if row["value"] == lost)
    log.history.tables["reads"] = [row for row in log.history.tables["reads"] if row is not gone]
    for poll in log.history.tables["polls"]:
        if poll["op"] == gone["op"]:
            poll["records"] -= 1
    return "lost-acked-write"


def duplicate(log: Log) -> str:
    """A record is read a second time at the end."""
    reads = _final_reads(log.history)
    twice = log.choices.choice(reads)
    end = len(log.log)
    log.history.row("reads", **{**twice, "offset": end, "ordinal": end, "run_id": log.history.name})
    poll = next(row for row in log.history.tables["polls"] if row["op"] == twice["op"])
    poll |= {"next_position": end + 1, "records": poll["records"] + 1}
    log.history.tables["ends"][0]["end_offset"] = end + 1
    return "duplicate"


def swap(log: Log) -> str:
    """Two sends have each other's offsets, in their acknowledgements only."""
    first, second = log.choices.sample(_acknowledged(log), 2)
    first["offset"], second["offset"] = second["offset"], first["offset"]
    return "wrong-offset"


def corrupt(log: Log) -> str:
    """A value is read that nobody sent."""
    log.choices.choice(_final_reads(log.history))["value"] = 10**9
    return "phantom-read"


def unsend(log: Log) -> str:
    """A send whose record is read had failed."""
    value = log.choices.choice(_final_reads(log.history))["value"]
    send = next(row for row in log.history.tables["sends"] if row["value"] == value)
    send["offset"] = None
    operation = next(row for row in log.history.tables["operations"] if row["op"] == send["op"])
    operation |= {"status": "fail", "completed_ns": operation["completed_ns"]}
    return "aborted-read"


def forget(log: Log) -> str:
    """An acknowledged record is not in the answer to a later question for the end."""
    last = max(_acknowledged(log), key=lambda row: row["offset"])
    log.history.tables["runs"][0] |= {"brokers": 1, "replication_factor": 1, "min_insync_replicas": 1}
    log.history.latest(last["offset"], (50_000, 50_010))
    return "stale-read"


MUTATIONS: tuple[Callable[[Log], str], ...] = (drop, duplicate, swap, corrupt, unsend, forget)


@given(seeds=SEEDS)
@ONE_BATCH
def test_each_mutation_shows_its_anomaly(seeds: list[int], spark: SparkSession) -> None:
    logs = []
    expected = []
    for number, seed in enumerate(seeds):
        log = Log(f"log-{seed}", seed)
        if len(_acknowledged(log)) >= 2:
            expected.append(MUTATIONS[number % len(MUTATIONS)](log))
            logs.append(log.history)
    assert set(expected) == {mutation(Log("any", 1)) for mutation in MUTATIONS}
    for wanted, log, result in zip(expected, logs, check_all(spark, logs), strict=True):
        assert result.verdict == "invalid", (wanted, log.name)
        assert result.anomalies[wanted].violations >= 1, (wanted, log.name)


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
