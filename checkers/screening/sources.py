"""Sources of the records to screen: Spark, or for a short history the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from checkers.input.sizes import Size
from checkers.input.tables import RunFiles
from checkers.relations.polls import returned_by_poll
from checkers.screening import kernel
from checkers.screening.columns import Flags, Longs, known, numbers
from checkers.screening.screen import (
    Screened,
    ScreenedAnswers,
    in_partitions,
    notes_of_answers,
    partition_key,
    replicas_of,
    screened,
    under_suspicion,
)
from checkers.screening.short import Records, Short, plain
from checkers.screening.summaries import Suspicion, suspicion_of


class Source(Protocol):
    """The records that polls returned and those in the dumped logs, and what screening suspects of them."""

    @property
    def returned(self) -> DataFrame:
        """What each poll returned (`checkers.relations.polls.returned_by_poll`)."""

    @property
    def replicas(self) -> DataFrame:
        """One row per replica with a dumped log (`checkers.screening.screen.replicas_of`)."""

    def suspicion(self, answers: ScreenedAnswers) -> Suspicion | None:
        """Screen the history; None if it has operations or values twice."""

    def reads(self, suspicion: Suspicion) -> DataFrame:
        """Return the rows of `reads` under suspicion, as recorded."""

    def logs(self, suspicion: Suspicion) -> DataFrame:
        """Return the rows of `logs` in suspect partitions, as recorded."""


class LongSource:
    """Records that Spark reads."""

    def __init__(
        self, spark: SparkSession, runs: Sequence[RunFiles], recorded: Mapping[str, DataFrame], size: Size
    ) -> None:
        self._spark = spark
        self._rows = {
            table: sum(run.large[table].rows for run in runs) for table in ("sends", "reads", "logs", "polls")
        }
        self._reads, self._logs = recorded["reads"], recorded["logs"]
        self._size = size

    @cached_property
    def returned(self) -> DataFrame:
        """See `Source`."""
        return self._size.kept(returned_by_poll(self._reads))

    @cached_property
    def replicas(self) -> DataFrame:
        """See `Source`."""
        return self._size.kept(replicas_of(self._logs))

    def suspicion(self, answers: ScreenedAnswers) -> Suspicion | None:
        """See `Source`."""
        polls_number = self._rows["polls"]
        history = Screened(
            answers, self._reads, self._logs, self.replicas, sum(self._rows.values()) - polls_number, polls_number
        )
        return screened(history, self._spark)

    def reads(self, suspicion: Suspicion) -> DataFrame:
        """See `Source`."""
        return under_suspicion(self._reads, self._spark, suspicion)

    def logs(self, suspicion: Suspicion) -> DataFrame:
        """See `Source`."""
        return in_partitions(self._logs, self._spark, suspicion.partition_keys)


class ShortSource:
    """Records that the driver holds; Spark gets what is under suspicion."""

    def __init__(self, spark: SparkSession, short: Short, size: Size) -> None:
        self._spark = spark
        self._short = short
        self._size = size

    @cached_property
    def returned(self) -> DataFrame:
        """See `Source`."""
        return self._size.kept(self._frame(self._short.returned))

    @cached_property
    def replicas(self) -> DataFrame:
        """See `Source`."""
        return self._size.kept(self._frame(self._short.replicas))

    @cached_property
    def _partition_keys(self) -> Longs:
        """The keys that Spark gives to partitions, in the order of `Short.partitions`."""
        rows = self._frame(self._short.partitions).select(partition_key().alias("partition_key")).collect()
        return np.array([row.partition_key for row in rows], np.int64)

    def suspicion(self, answers: ScreenedAnswers) -> Suspicion | None:
        """See `Source`."""
        if self._short.twice:
            return None
        own = [note._replace(partition_key=int(self._partition_keys[note.partition_key])) for note in self._short.notes]
        if self._short.malformed:
            own.append(kernel.ScreeningNote(kernel.MALFORMED, 0))
        of_records = pa.Table.from_batches([kernel.batch_of(own)])
        return suspicion_of(pa.concat_tables([of_records, notes_of_answers(answers).cast(of_records.schema)]))

    def reads(self, suspicion: Suspicion) -> DataFrame:
        """See `Source`."""
        of_reads = self._short.reads
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
        """See `Source`."""
        of_logs = self._short.logs
        return self._frame(of_logs.rows.filter(pa.array(self._in_partitions(of_logs, suspicion))))

    def _in_partitions(self, records: Records, suspicion: Suspicion) -> Flags:
        wanted = np.array(sorted(suspicion.partition_keys), np.int64)
        return np.isin(self._partition_keys[records.partition_key], wanted)

    def _frame(self, table: pa.Table) -> DataFrame:
        return self._size.gathered(self._spark.createDataFrame(plain(table)))
