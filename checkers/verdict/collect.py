"""Collects the findings in the driver: exact counts, and a bounded number of rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.input.frames import KEY
from checkers.input.run_facts import RunFacts
from checkers.relations.base import Relations
from history.anomalies import MALFORMED, NODE_LOST, Extent
from history.schema import ANOMALIES as ANOMALIES_SCHEMA

ROWS_MAX = 1_000
"""Rows kept per run, anomaly and side of the contract."""

Row = dict[str, Any]


@dataclass
class Collected:
    """The findings of one run."""

    rows: list[Row] = field(default_factory=list)
    totals: dict[tuple[str, bool], int] = field(default_factory=dict)
    """Exact number by anomaly and `within_contract`, including findings whose rows were not kept."""
    extents: dict[str, list[Extent]] = field(default_factory=dict)
    """Anomaly → its partitions, for those of which not all rows were kept."""
    undecided: dict[str, int] = field(default_factory=dict)
    """Exact number by anomaly of those within the contract of which nothing tells whether they are."""

    @property
    def total(self) -> int:
        """The exact number of all findings."""
        return sum(self.totals.values())

    def take(self, anomaly: str) -> Collected:
        """Remove the findings of one name, and return them."""
        taken = Collected(
            [row for row in self.rows if row["anomaly"] == anomaly],
            {key: number for key, number in self.totals.items() if key[0] == anomaly},
        )
        self.rows = [row for row in self.rows if row["anomaly"] != anomaly]
        self.totals = {key: number for key, number in self.totals.items() if key[0] != anomaly}
        return taken


def collect_findings(classified: DataFrame) -> dict[str, Collected]:
    """Collect the findings by run, in an order that does not depend on Spark.

    Where there are too many of a kind, it keeps some that are spread evenly over all, the earliest among them. So it
    also keeps some of those that a second fault led to.
    """
    kind = ["run_id", "anomaly", "within_contract"]
    order = [fn.col(name).asc_nulls_last() for name in ("at_ns", *KEY[1:], "offset", "value", "op")]
    by_kind, by_partition = Window.partitionBy(*kind), Window.partitionBy(*kind, *KEY[1:])
    kept = (
        classified.withColumn("turn", fn.row_number().over(by_kind.orderBy(*order, "details")))
        .withColumn("total", fn.count("*").over(by_kind))
        .withColumn("total_undecided", fn.sum(fn.col("undecided").cast("int")).over(by_kind))
        .withColumn("in_partition", fn.count("*").over(by_partition))
        .withColumn("first_offset", fn.min("offset").over(by_partition))
        .withColumn("last_offset", fn.max("offset").over(by_partition))
        .where(_is_kept(fn.col("turn"), fn.col("total")))
        .drop("promises", "promises_needed")
    )
    collected: dict[str, Collected] = {}
    rows = [row.asDict(recursive=True) for row in kept.collect()]
    for row in sorted(rows, key=lambda row: (row["anomaly"], row["within_contract"], row["turn"])):
        of_run = collected.setdefault(row["run_id"], Collected())
        of_run.totals[row["anomaly"], row["within_contract"]] = row["total"]
        if row["total_undecided"]:
            of_run.undecided[row["anomaly"]] = row["total_undecided"]
        of_run.rows.append(row)
    for of_run in collected.values():
        of_run.extents = _extents(of_run)
    return collected


def _extents(collected: Collected) -> dict[str, list[Extent]]:
    """Return the partitions of the anomalies of which not all rows were kept, if a row of each partition was."""
    extents: dict[tuple[str, bool], set[Extent]] = {}
    for row in collected.rows:
        kind = (row["anomaly"], row["within_contract"])
        if collected.totals[kind] > ROWS_MAX:
            offsets = (row["first_offset"], row["last_offset"])
            extent = Extent(row["topic"], row["partition"], row["within_contract"], row["in_partition"], *offsets)
            extents.setdefault(kind, set()).add(extent)
    found: dict[str, list[Extent]] = {}
    for kind, of_kind in extents.items():
        if sum(extent.number for extent in of_kind) == collected.totals[kind]:
            found.setdefault(kind[0], []).extend(sorted(of_kind, key=str))
    return found


def _is_kept(turn: Column, total: Column) -> Column:
    """Whether the row of this turn, from 1 on, is one of `ROWS_MAX` that are spread evenly over so many in all."""
    before = fn.floor((turn - 2) * ROWS_MAX / total)
    return (total <= ROWS_MAX) | (turn == 1) | (fn.floor((turn - 1) * ROWS_MAX / total) > before)


def positions_of(rows: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the positions that findings point at, where known: run, topic, partition and offset."""
    positions = {tuple(row[name] for name in (*KEY, "offset")) for row in rows}
    return sorted(position for position in positions if None not in position)


def held_at(relations: Relations, positions: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], dict[int, int | None]]:
    """Look up what the dumped logs hold at some positions: position → broker → value.

    A broker whose log does not reach the offset is left out.
    """
    if not positions:
        return {}
    schema = "run_id string, topic string, partition int, offset bigint"
    wanted = relations.dumped.sparkSession.createDataFrame(list(positions), schema)
    held = relations.dumped.join(fn.broadcast(wanted), [*KEY, "offset"]).select(*KEY, "offset", "broker", "value")
    found: dict[tuple[Any, ...], dict[int, int | None]] = {}
    for row in held.collect():
        found.setdefault((row.run_id, row.topic, row.partition, row.offset), {})[row.broker] = row.value
    return found


def add_lost_nodes(collected: Collected, facts: RunFacts) -> None:
    """Add a finding for each node that did not come back; within the contract if a fault excuses it."""
    for loss in facts.losses:
        within = loss.excuse is not None
        row: Row = dict.fromkeys(ANOMALIES_SCHEMA.names)
        row |= {"run_id": facts.run_id, "anomaly": NODE_LOST, "within_contract": within}
        row |= {"broker": loss.node, "at_ns": loss.at_ns}
        named = {"fault": loss.fault, "excuse": loss.excuse}
        row["details"] = json.dumps(
            {
                "exit_status": loss.exit_status,
                "last_words": loss.last_words,
                **{key: fault and {"fault": fault.number, "kind": fault.kind} for key, fault in named.items()},
            }
        )
        collected.rows.append(row)
        collected.totals[NODE_LOST, within] = collected.totals.get((NODE_LOST, within), 0) + 1


def add_malformed_small_rows(collected: Collected, facts: RunFacts) -> None:
    """Add the malformed rows of the small tables, which no anomaly function sees."""
    for table, problem in facts.malformed:
        row: Row = dict.fromkeys(ANOMALIES_SCHEMA.names)
        row |= {"run_id": facts.run_id, "anomaly": MALFORMED, "within_contract": True}
        row["details"] = json.dumps({"table": table, "problem": problem})
        collected.rows.append(row)
        key = (MALFORMED, True)
        collected.totals[key] = collected.totals.get(key, 0) + 1
