"""What of a history is looked at closely: everything, or, in a long one, what screening suspects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema

from checkers.findings import KEY
from checkers.polled import returned_by_poll
from checkers.screening.screen import Screened, at_places, screened, under_suspicion
from checkers.screening.summaries import Suspicion
from checkers.tables import RunFiles
from checkers.wellformed import (
    examined_logs,
    examined_operations,
    examined_polls,
    examined_reads,
    examined_samples,
    examined_sends,
)


@dataclass(frozen=True)
class Attention:
    """What of a history is looked at closely."""

    examined: dict[str, DataFrame]
    sends: DataFrame
    """Those of whose values something may be wrong."""
    walked: DataFrame
    """Reads of the partitions in which a reader's way may be uneven."""
    dumped: DataFrame
    replicas: DataFrame
    touched: DataFrame
    rows: dict[str, DataFrame]
    barren: frozenset[str]
    """What cannot show an anomaly (`checkers.relations.Relations.barren`)."""
    suspicion: Suspicion | None


def whole_history(recorded: dict[str, DataFrame], kept: Callable[[DataFrame], DataFrame]) -> Attention:
    """Look at everything closely."""
    operations = kept(examined_operations(recorded["operations"]))
    examined = {
        "operations": operations,
        "sends": kept(by_key(examined_sends(recorded["sends"], operations))),
        "reads": kept(by_key(examined_reads(recorded["reads"], operations))),
        "cluster": kept(by_key(examined_samples(recorded["cluster"]))),
        "logs": kept(by_key(examined_logs(recorded["logs"]))),
    }
    reads, sends, logs = (usable(examined[table]) for table in ("reads", "sends", "logs"))
    returned = returned_by_poll(examined["reads"])
    examined["polls"] = kept(by_key(examined_polls(recorded["polls"], operations, returned)))
    return Attention(
        examined=examined,
        sends=sends,
        walked=reads,
        dumped=logs,
        replicas=logs.select(*KEY, "broker").distinct(),
        touched=_touched(sends, reads.where("value is not null")),
        rows={},
        barren=frozenset(),
        suspicion=None,
    )


def screened_history(
    spark: SparkSession,
    runs: Sequence[RunFiles],
    recorded: dict[str, DataFrame],
    kept: Callable[[DataFrame], DataFrame],
) -> Attention | None:
    """Look closely at what screening suspects; None where it cannot tell."""
    with ThreadPoolExecutor(1) as planner:  # planning is most of the work on a small history, so two plan
        of_reads = planner.submit(lambda: kept(returned_by_poll(recorded["reads"])))
        of_cluster = planner.submit(lambda: kept(by_key(examined_samples(recorded["cluster"]))))
        of_logs = planner.submit(lambda: kept(_replicas(recorded["logs"])))
        operations = kept(examined_operations(recorded["operations"].repartition("run_id", "op"), unique=True))
        sends = kept(examined_sends(recorded["sends"], operations, unique=True))
        returned = of_reads.result()
        polls = kept(by_key(examined_polls(recorded["polls"], operations, returned)))
        cluster, replicas = of_cluster.result(), of_logs.result()
    suspicion = screened(
        Screened(
            operations=operations,
            sends=sends,
            reads=recorded["reads"],
            polls=polls,
            returned=returned,
            cluster=cluster,
            logs=recorded["logs"],
            replicas=replicas,
            rows_number=sum(run.large[table].rows for run in runs for table in ("sends", "reads", "logs")),
            polls_number=sum(run.large["polls"].rows for run in runs),
        ),
        spark,
    )
    if suspicion is None:
        return None
    places = suspicion.places
    reads = examined_reads(under_suspicion(recorded["reads"], spark, suspicion), operations)
    suspect_sends = under_suspicion(usable(sends), spark, suspicion)
    logs = examined_logs(at_places(recorded["logs"], spark, places))
    barren = set()
    if places:
        logs = kept(by_key(logs))
    else:
        logs = nothing_of(logs)
        barren |= {"places"} if suspicion.malformed else {"places", "problems"}
    if places or suspicion.values:
        reads = kept(by_key(reads))
    else:
        reads, suspect_sends = nothing_of(reads), nothing_of(suspect_sends)
        barren.add("values")
    return Attention(
        examined={
            "operations": operations,
            "sends": sends,
            "reads": reads,
            "cluster": cluster,
            "logs": logs,
            "polls": polls,
        },
        sends=suspect_sends,
        walked=at_places(usable(reads), spark, places) if places else usable(nothing_of(reads)),
        dumped=usable(examined_logs(recorded["logs"])),
        replicas=replicas.where("usable > 0").select(*KEY, "broker"),
        touched=_touched(usable(sends), returned.where("values > 0")),
        rows={
            "reads": returned.select("run_id", "rows"),
            "logs": replicas.select("run_id", "rows"),
        },
        barren=frozenset(barren),
        suspicion=suspicion,
    )


def _touched(sends: DataFrame, reads: DataFrame) -> DataFrame:
    return sends.select(*KEY).union(reads.select(*KEY)).distinct()


def _replicas(logs: DataFrame) -> DataFrame:
    """Count the records in each replica's log, as they were recorded (`rows`) and those of use (`usable`).

    `watermark_min` and `watermark_max`: the least and the greatest high watermark in it, -1 for one that is not known.
    """
    usable = fn.col("broker").isNotNull() & fn.col("topic").isNotNull() & fn.col("partition").isNotNull()
    every_column = (fn.count(name) for name in ("leader_epoch", "value", "crc"))
    high_watermark = fn.coalesce("high_watermark", fn.lit(-1))
    return logs.groupBy(*KEY, "broker").agg(
        fn.count("*").alias("rows"),
        fn.count(fn.when(usable & (fn.col("offset") >= 0), 1)).alias("usable"),
        fn.min(high_watermark).alias("watermark_min"),
        fn.max(high_watermark).alias("watermark_max"),
        # Every column is read here, so that a file that is broken anywhere is known to lack rows.
        *every_column,
    )


def rows_by_run(examined: DataFrame) -> DataFrame:
    """Numbers of rows of each run (`rows`), to be summed."""
    return examined.select("run_id", fn.lit(1).cast("bigint").alias("rows"))


def nothing_of(frame: DataFrame) -> DataFrame:
    """Return a frame of the same columns of which Spark knows that it has no rows: what needs it is hardly planned."""
    return frame.sparkSession.createDataFrame(to_arrow_schema(frame.schema).empty_table(), frame.schema)


def by_key(frame: DataFrame) -> DataFrame:
    """Bring the rows of each partition of a run together."""
    return frame.repartition(*KEY)


def usable(examined: DataFrame) -> DataFrame:
    """Keep the rows that can be used (`checkers.wellformed`)."""
    return examined.where("usable").drop("usable", "problem")
