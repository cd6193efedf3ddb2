"""Selects the rows of a history to check in full: all of them, or those that screening suspects.

Spark reads the records of a long history; those of a short one are in the driver already, which gives Spark the
suspects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from checkers.input.frames import KEY, nothing_of, usable
from checkers.input.polls import POLL, returned_by_poll
from checkers.input.sizes import Size
from checkers.input.tables import RunFiles
from checkers.input.validation import (
    examined_logs,
    examined_operations,
    examined_polls,
    examined_reads,
    examined_samples,
    examined_sends,
)
from checkers.screening import stretches
from checkers.screening.columns import Flags, Longs, known, numbers, plain
from checkers.screening.in_driver import DriverScreening, Records
from checkers.screening.long.recognise import SuspectRun
from checkers.screening.on_spark import (
    Screened,
    ScreenedAnswers,
    in_partitions,
    notes_of_answers,
    partition_key,
    replicas_of,
    screened,
    under_suspicion,
)
from checkers.screening.stretches import Suspicion, suspicion_of

_PLACES: Final = pa.schema([("run_id", pa.string()), ("topic", pa.string()), ("partition", pa.int32())])
_REPLICAS: Final = pa.schema(
    [*_PLACES, ("broker", pa.int32())]
    + [(name, pa.int64()) for name in ("rows", "usable", "watermark_min", "watermark_max")]
)


class RecordSource(ABC):
    """The records that polls returned and those in the dumped logs, and what screening suspects of them."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    @abstractmethod
    def returned(self) -> DataFrame:
        """What each poll returned (`checkers.input.polls.returned_by_poll`)."""

    @property
    @abstractmethod
    def replicas(self) -> DataFrame:
        """One row per replica with a dumped log (`checkers.screening.on_spark.replicas_of`)."""

    @abstractmethod
    def suspicion(self, answers: ScreenedAnswers) -> Suspicion | None:
        """Screen the history; None if it has operations or values twice."""

    @abstractmethod
    def reads(self, suspicion: Suspicion) -> DataFrame:
        """Return the rows of `reads` under suspicion, as recorded."""

    @abstractmethod
    def logs(self, suspicion: Suspicion) -> DataFrame:
        """Return the rows of `logs` in suspect partitions, as recorded."""

    def sends(self, suspicion: Suspicion, examined: DataFrame, /) -> DataFrame:
        """Return the sends under suspicion that can be used. `examined`: all of them."""
        return under_suspicion(usable(examined), self._spark, suspicion)

    def used_partitions(self, examined: DataFrame, /) -> DataFrame:
        """Return the partitions to which a value was sent, or from which one was read. `examined`: all sends."""
        return _used_partitions(usable(examined), self.returned.where("values > 0"))


class SparkSource(RecordSource):
    """Records that Spark reads."""

    def __init__(
        self, spark: SparkSession, runs: Sequence[RunFiles], recorded: Mapping[str, DataFrame], size: Size
    ) -> None:
        super().__init__(spark)
        self._rows = {
            table: sum(run.large[table].rows for run in runs) for table in ("sends", "reads", "logs", "polls")
        }
        self._reads, self._logs = recorded["reads"], recorded["logs"]
        self._size = size

    @cached_property
    def returned(self) -> DataFrame:
        """See `RecordSource`."""
        return self._size.kept(returned_by_poll(self._reads))

    @cached_property
    def replicas(self) -> DataFrame:
        """See `RecordSource`."""
        return self._size.kept(replicas_of(self._logs))

    def suspicion(self, answers: ScreenedAnswers) -> Suspicion | None:
        """See `RecordSource`."""
        polls_number = self._rows["polls"]
        history = Screened(
            answers, self._reads, self._logs, self.replicas, sum(self._rows.values()) - polls_number, polls_number
        )
        return screened(history, self._spark)

    def reads(self, suspicion: Suspicion) -> DataFrame:
        """See `RecordSource`."""
        return under_suspicion(self._reads, self._spark, suspicion)

    def logs(self, suspicion: Suspicion) -> DataFrame:
        """See `RecordSource`."""
        return in_partitions(self._logs, self._spark, suspicion.partition_keys)


class FilesSource(SparkSource):
    """Records that Spark reads, of runs of which the files have shown already what is suspect."""

    def __init__(
        self,
        spark: SparkSession,
        runs: Sequence[RunFiles],
        recorded: Mapping[str, DataFrame],
        size: Size,
        suspects: Mapping[str, SuspectRun],
    ) -> None:
        super().__init__(spark, runs, recorded, size)
        self._suspects = suspects
        self._operations, self._sends, self._polls = (recorded[table] for table in ("operations", "sends", "polls"))
        self._answers_ordinary = all(run.answers_ordinary for run in suspects.values())

    @cached_property
    def returned(self) -> DataFrame:
        """See `RecordSource`. Where nothing is odd about polls, each has the records that it says."""
        if not self._answers_ordinary:
            return super().returned
        number = fn.coalesce("records", fn.lit(0)).cast("bigint")
        return self._polls.select(*POLL, *(number.alias(name) for name in ("rows", "returned", "values")))

    @cached_property
    def replicas(self) -> DataFrame:
        """See `RecordSource`."""
        rows = [
            {
                **dict(zip(KEY, (run_id, *each.place), strict=True)),
                "broker": each.broker,
                "rows": each.rows,
                "usable": each.rows,
                "watermark_min": each.low,
                "watermark_max": each.high,
            }
            for run_id, run in self._suspects.items()
            for each in run.replicas
        ]
        return self._spark.createDataFrame(pa.Table.from_pylist(rows, schema=_REPLICAS))

    def suspicion(self, answers: ScreenedAnswers) -> Suspicion | None:
        """See `RecordSource`."""
        places = sorted({(run_id, *place) for run_id, run in self._suspects.items() for place, _ in run.notes})
        rows = [dict(zip(KEY, place, strict=True)) for place in places]
        frame = self._spark.createDataFrame(pa.Table.from_pylist(rows, schema=_PLACES))
        keys = {tuple(row[:3]): row[3] for row in frame.select(*KEY, partition_key()).collect()}
        own = [
            note._replace(partition_key=keys[run_id, *place])
            for run_id, run in self._suspects.items()
            for place, note in run.notes
        ]
        of_records = pa.Table.from_batches([stretches.batch_of(own)])
        if self._answers_ordinary:
            return suspicion_of(of_records)
        return suspicion_of(pa.concat_tables([of_records, notes_of_answers(answers).cast(of_records.schema)]))

    def sends(self, suspicion: Suspicion, _: DataFrame, /) -> DataFrame:
        """See `RecordSource`. Only these are joined with their operations."""
        chosen = under_suspicion(self._sends, self._spark, suspicion)
        return usable(examined_sends(chosen, examined_operations(self._operations, unique=True), unique=True))

    def used_partitions(self, _: DataFrame, /) -> DataFrame:
        """See `RecordSource`. No row is malformed."""
        return _used_partitions(self._sends, self._reads.where("value is not null"))


class DriverSource(RecordSource):
    """Records that the driver holds; Spark gets what is under suspicion."""

    def __init__(self, spark: SparkSession, screening: DriverScreening, size: Size) -> None:
        super().__init__(spark)
        self._screening = screening
        self._size = size

    @cached_property
    def returned(self) -> DataFrame:
        """See `RecordSource`."""
        return self._size.kept(self._frame(self._screening.returned))

    @cached_property
    def replicas(self) -> DataFrame:
        """See `RecordSource`."""
        return self._size.kept(self._frame(self._screening.replicas))

    @cached_property
    def _partition_keys(self) -> Longs:
        """The keys that Spark gives to partitions, in the order of `DriverScreening.partitions`."""
        rows = self._frame(self._screening.partitions).select(partition_key().alias("partition_key")).collect()
        return np.array([row.partition_key for row in rows], np.int64)

    def suspicion(self, answers: ScreenedAnswers) -> Suspicion | None:
        """See `RecordSource`."""
        if self._screening.twice:
            return None
        own = [
            note._replace(partition_key=int(self._partition_keys[note.partition_key])) for note in self._screening.notes
        ]
        if self._screening.malformed:
            own.append(stretches.ScreeningNote(stretches.MALFORMED, 0))
        of_records = pa.Table.from_batches([stretches.batch_of(own)])
        return suspicion_of(pa.concat_tables([of_records, notes_of_answers(answers).cast(of_records.schema)]))

    def reads(self, suspicion: Suspicion) -> DataFrame:
        """See `RecordSource`."""
        of_reads = self._screening.reads
        chosen = self._in_partitions(of_reads, suspicion)
        if suspicion.values:
            key, value = self._partition_keys[of_reads.partition_key], numbers(of_reads.rows, "value")
            keys, values = (np.array(column, np.int64) for column in zip(*suspicion.values, strict=True))
            wanted = set(suspicion.values)
            likely = known(of_reads.rows, "value") & np.isin(value, values) & np.isin(key, keys)
            for row in np.flatnonzero(likely & ~chosen).tolist():
                chosen[row] = (int(key[row]), int(value[row])) in wanted
        return self._frame(of_reads.rows.filter(pa.array(chosen)))

    def logs(self, suspicion: Suspicion) -> DataFrame:
        """See `RecordSource`."""
        of_logs = self._screening.logs
        return self._frame(of_logs.rows.filter(pa.array(self._in_partitions(of_logs, suspicion))))

    def _in_partitions(self, records: Records, suspicion: Suspicion) -> Flags:
        wanted = np.array(sorted(suspicion.partition_keys), np.int64)
        return np.isin(self._partition_keys[records.partition_key], wanted)

    def _frame(self, table: pa.Table) -> DataFrame:
        return self._size.gathered(self._spark.createDataFrame(plain(table)))


@dataclass(frozen=True)
class RowsToCheck:
    """The part of a history to check in full."""

    examined: dict[str, DataFrame]
    sends: DataFrame
    """Sends of suspect values."""
    reads_of_uneven_paths: DataFrame
    """Reads of the partitions in which a reader's path may be uneven."""
    dumped: DataFrame
    replicas: DataFrame
    used_partitions: DataFrame
    rows: dict[str, DataFrame]
    free_of: frozenset[str]
    """What the history is certainly free of (`checkers.relations.base.Relations.free_of`)."""
    suspicion: Suspicion | None


def rows_to_check(
    spark: SparkSession,
    runs: Sequence[RunFiles],
    recorded: Mapping[str, DataFrame],
    size: Size,
    *,
    screening: bool,
    in_driver: DriverScreening | None,
    from_files: Mapping[str, SuspectRun],
) -> RowsToCheck:
    """Select what screening suspects; everything without `screening`, or if the history cannot be screened."""
    selected = None
    if screening:
        source: RecordSource
        if from_files:
            source = FilesSource(spark, runs, recorded, size, from_files)
        elif in_driver is not None:
            source = DriverSource(spark, in_driver, size)
        else:
            source = SparkSource(spark, runs, recorded, size)
        selected = _suspects(spark, recorded, source, size)
    return _everything(recorded, size) if selected is None else selected


def _everything(recorded: Mapping[str, DataFrame], size: Size) -> RowsToCheck:
    """Select everything."""
    operations = size.kept(examined_operations(recorded["operations"]))
    examined = {
        "operations": operations,
        "sends": size.kept(size.together(examined_sends(recorded["sends"], operations), *KEY)),
        "reads": size.kept(size.together(examined_reads(recorded["reads"], operations), *KEY)),
        "cluster": size.kept(size.together(examined_samples(recorded["cluster"]), *KEY)),
        "logs": size.kept(size.together(examined_logs(recorded["logs"]), *KEY)),
    }
    reads, sends, logs = (usable(examined[table]) for table in ("reads", "sends", "logs"))
    returned = returned_by_poll(examined["reads"])
    examined["polls"] = size.kept(size.together(examined_polls(recorded["polls"], operations, returned), *KEY))
    return RowsToCheck(
        examined=examined,
        sends=sends,
        reads_of_uneven_paths=reads,
        dumped=logs,
        replicas=logs.select(*KEY, "broker").distinct(),
        used_partitions=_used_partitions(sends, reads.where("value is not null")),
        rows={},
        free_of=frozenset(),
        suspicion=None,
    )


def _suspects(
    spark: SparkSession, recorded: Mapping[str, DataFrame], source: RecordSource, size: Size
) -> RowsToCheck | None:
    """Select what screening suspects; None if the history cannot be screened."""
    with ThreadPoolExecutor(1) as planner:  # planning dominates on a small history, so two threads plan
        of_reads = planner.submit(lambda: source.returned)
        of_cluster = planner.submit(lambda: size.kept(size.together(examined_samples(recorded["cluster"]), *KEY)))
        of_logs = planner.submit(lambda: source.replicas)
        performed = size.together(recorded["operations"], "run_id", "op")
        operations = size.kept(examined_operations(performed, unique=True))
        sends = size.kept(examined_sends(recorded["sends"], operations, unique=True))
        returned = of_reads.result()
        polls = size.kept(size.together(examined_polls(recorded["polls"], operations, returned), *KEY))
        cluster, replicas = of_cluster.result(), of_logs.result()
    suspicion = source.suspicion(ScreenedAnswers(operations, sends, polls, returned, cluster))
    if suspicion is None:
        return None
    reads = examined_reads(source.reads(suspicion), operations)
    suspect_sends = source.sends(suspicion, sends)
    logs = examined_logs(source.logs(suspicion))
    free_of = set()
    if suspicion.partition_keys:
        logs = size.kept(size.together(logs, *KEY))
    else:
        logs = nothing_of(logs)
        free_of |= {"partitions"} if suspicion.malformed else {"partitions", "problems"}
    if suspicion.partition_keys or suspicion.values:
        reads = size.kept(size.together(reads, *KEY))
    else:
        reads, suspect_sends = nothing_of(reads), nothing_of(suspect_sends)
        free_of.add("values")
    return RowsToCheck(
        examined={
            "operations": operations,
            "sends": sends,
            "reads": reads,
            "cluster": cluster,
            "logs": logs,
            "polls": polls,
        },
        sends=suspect_sends,
        reads_of_uneven_paths=in_partitions(usable(reads), spark, suspicion.partition_keys)
        if suspicion.partition_keys
        else usable(nothing_of(reads)),
        dumped=usable(examined_logs(recorded["logs"])),
        replicas=replicas.where("usable > 0").select(*KEY, "broker"),
        used_partitions=source.used_partitions(sends),
        rows={
            "reads": returned.select("run_id", "rows"),
            "logs": replicas.select("run_id", "rows"),
        },
        free_of=frozenset(free_of),
        suspicion=suspicion,
    )


def _used_partitions(sends: DataFrame, reads: DataFrame) -> DataFrame:
    return sends.select(*KEY).union(reads.select(*KEY)).distinct()
