"""What of a history is looked at closely: everything, or, in a long one, what screening suspects."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema

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
from checkers.screening.screen import Answers, at_places, under_suspicion
from checkers.screening.sources import Source
from checkers.screening.summaries import Suspicion
from checkers.verdict.findings import KEY


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
    """What cannot show an anomaly (`checkers.relations.base.Relations.barren`)."""
    suspicion: Suspicion | None


def whole_history(recorded: Mapping[str, DataFrame], size: Size) -> Attention:
    """Look at everything closely."""
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
    spark: SparkSession, recorded: Mapping[str, DataFrame], source: Source, size: Size
) -> Attention | None:
    """Look closely at what screening suspects; None where it cannot tell."""
    with ThreadPoolExecutor(1) as planner:  # planning is most of the work on a small history, so two plan
        of_reads = planner.submit(lambda: source.returned)
        of_cluster = planner.submit(lambda: size.kept(size.together(examined_samples(recorded["cluster"]), *KEY)))
        of_logs = planner.submit(lambda: source.replicas)
        performed = size.together(recorded["operations"], "run_id", "op")
        operations = size.kept(examined_operations(performed, unique=True))
        sends = size.kept(examined_sends(recorded["sends"], operations, unique=True))
        returned = of_reads.result()
        polls = size.kept(size.together(examined_polls(recorded["polls"], operations, returned), *KEY))
        cluster, replicas = of_cluster.result(), of_logs.result()
    suspicion = source.suspicion(Answers(operations, sends, polls, returned, cluster))
    if suspicion is None:
        return None
    reads = examined_reads(source.reads(suspicion), operations)
    suspect_sends = under_suspicion(usable(sends), spark, suspicion)
    logs = examined_logs(source.logs(suspicion))
    barren = set()
    if suspicion.places:
        logs = size.kept(size.together(logs, *KEY))
    else:
        logs = nothing_of(logs)
        barren |= {"places"} if suspicion.malformed else {"places", "problems"}
    if suspicion.places or suspicion.values:
        reads = size.kept(size.together(reads, *KEY))
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
        walked=at_places(usable(reads), spark, suspicion.places) if suspicion.places else usable(nothing_of(reads)),
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


def rows_by_run(examined: DataFrame) -> DataFrame:
    """Numbers of rows of each run (`rows`), to be summed."""
    return examined.select("run_id", fn.lit(1).cast("bigint").alias("rows"))


def nothing_of(frame: DataFrame) -> DataFrame:
    """Return a frame of the same columns of which Spark knows that it has no rows: what needs it is hardly planned."""
    return frame.sparkSession.createDataFrame(to_arrow_schema(frame.schema).empty_table(), frame.schema)


def usable(examined: DataFrame) -> DataFrame:
    """Keep the rows that can be used (`checkers.input.validation`)."""
    return examined.where("usable").drop("usable", "problem")
