"""Selects the part of a history to check in full: everything, or what screening suspects."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema

from checkers.findings import KEY
from checkers.input.sizes import Size
from checkers.input.validation import (
    examined_logs,
    examined_operations,
    examined_polls,
    examined_reads,
    examined_samples,
    examined_sends,
)
from checkers.relations.polls import returned_by_poll
from checkers.screening.screen import ScreenedAnswers, in_partitions, under_suspicion
from checkers.screening.sources import Source
from checkers.screening.summaries import Suspicion


@dataclass(frozen=True)
class Selection:
    """The part of a history to check in full."""

    examined: dict[str, DataFrame]
    sends: DataFrame
    """Sends of suspect values."""
    walked: DataFrame
    """Reads of the partitions in which a reader's path may be uneven."""
    dumped: DataFrame
    replicas: DataFrame
    touched: DataFrame
    rows: dict[str, DataFrame]
    ruled_out: frozenset[str]
    """What cannot show an anomaly (`checkers.relations.base.Relations.ruled_out`)."""
    suspicion: Suspicion | None


def whole_history(recorded: Mapping[str, DataFrame], size: Size) -> Selection:
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
    return Selection(
        examined=examined,
        sends=sends,
        walked=reads,
        dumped=logs,
        replicas=logs.select(*KEY, "broker").distinct(),
        touched=_touched(sends, reads.where("value is not null")),
        rows={},
        ruled_out=frozenset(),
        suspicion=None,
    )


def screened_history(
    spark: SparkSession, recorded: Mapping[str, DataFrame], source: Source, size: Size
) -> Selection | None:
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
    suspect_sends = under_suspicion(usable(sends), spark, suspicion)
    logs = examined_logs(source.logs(suspicion))
    ruled_out = set()
    if suspicion.partition_keys:
        logs = size.kept(size.together(logs, *KEY))
    else:
        logs = nothing_of(logs)
        ruled_out |= {"partitions"} if suspicion.malformed else {"partitions", "problems"}
    if suspicion.partition_keys or suspicion.values:
        reads = size.kept(size.together(reads, *KEY))
    else:
        reads, suspect_sends = nothing_of(reads), nothing_of(suspect_sends)
        ruled_out.add("values")
    return Selection(
        examined={
            "operations": operations,
            "sends": sends,
            "reads": reads,
            "cluster": cluster,
            "logs": logs,
            "polls": polls,
        },
        sends=suspect_sends,
        walked=in_partitions(usable(reads), spark, suspicion.partition_keys)
        if suspicion.partition_keys
        else usable(nothing_of(reads)),
        dumped=usable(examined_logs(recorded["logs"])),
        replicas=replicas.where("usable > 0").select(*KEY, "broker"),
        touched=_touched(usable(sends), returned.where("values > 0")),
        rows={
            "reads": returned.select("run_id", "rows"),
            "logs": replicas.select("run_id", "rows"),
        },
        ruled_out=frozenset(ruled_out),
        suspicion=suspicion,
    )


def _touched(sends: DataFrame, reads: DataFrame) -> DataFrame:
    return sends.select(*KEY).union(reads.select(*KEY)).distinct()


def rows_by_run(examined: DataFrame) -> DataFrame:
    """Return numbers of rows of each run (`rows`), to be summed."""
    return examined.select("run_id", fn.lit(1).cast("bigint").alias("rows"))


def nothing_of(frame: DataFrame) -> DataFrame:
    """Return an empty frame with the same columns: Spark hardly plans what builds on a frame known to be empty."""
    return frame.sparkSession.createDataFrame(to_arrow_schema(frame.schema).empty_table(), frame.schema)


def usable(examined: DataFrame) -> DataFrame:
    """Keep the rows that can be used (`checkers.input.validation`)."""
    return examined.where("usable").drop("usable", "problem")
