"""Decides whether objects that clients kept in a log are linearizable: the anomaly `nonlinearizable`.

Spark tasks decide each object by itself (`checkers.linearizability.tasks`) and return verdicts and bounded evidence. A
history that lacks commands decides nothing: a missing command may explain what clients observed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from checkers.anomalies.rows import findings, one_promise
from checkers.input.run_facts import RunFacts
from checkers.input.tables import RunFiles
from checkers.linearizability.operations import NOT_LINEARIZABLE
from checkers.linearizability.tasks import UNREADABLE, decide_in_tasks, united, verdicts_by_run
from checkers.relations.base import Relations
from common.atomic_files import replacing

NAME: Final = "nonlinearizable"
TABLE: Final = "commands"
FILE: Final = "linearizability.json"
FINDINGS_PER_BUCKET: Final = 30
"""Objects shown of each of the `checkers.linearizability.tasks.BUCKETS` parts of a run's."""
SHOWN_MAX: Final = 1_000
CONCURRENT_MAX: Final = 12

ACKS_UNKNOWN: Final = 0
"""For producers whose acks are not known: nothing was promised."""


@dataclass(frozen=True)
class Decided:
    """What was decided about the objects of one run."""

    verdict: Mapping[str, Any]
    """As `checkers.linearizability.evidence` has it."""
    ok: int
    """Commands whose outcome is known."""
    whole: bool
    """Whether all commands are in the history."""

    @property
    def keys_unknown(self) -> int:
        """Objects that were not decided."""
        return int(self.verdict["counts"]["keys_unknown"])

    @property
    def keys(self) -> int:
        """All objects."""
        return int(self.verdict["counts"]["keys"])


def decide(relations: Relations, runs: Sequence[RunFiles], facts: Sequence[RunFacts]) -> dict[str, Decided]:
    """Decide the objects of all runs that have any, by run."""
    commands = relations.examined.get(TABLE)
    if commands is None:
        return {}
    counted = commands.groupBy("run_id").agg(
        fn.count("*").alias("rows"),
        fn.count(fn.when(fn.col("status") == "ok", 1)).alias("ok"),
        fn.collect_set(fn.when(fn.col("problem").isNull(), fn.col("model"))).alias("models"),
    )
    numbers = {row.run_id: row for row in counted.collect()}
    verdicts: dict[str, list[dict[str, Any]]] = {}
    for model in sorted({model for row in numbers.values() for model in row.models}):
        for run_id, verdict in verdicts_by_run(
            decide_in_tasks(_operations(commands, model), model, evidence_max=FINDINGS_PER_BUCKET), SHOWN_MAX
        ).items():
            if model in numbers[run_id].models:
                verdicts.setdefault(run_id, []).append(verdict)
    decided = {}
    for files, of_run in zip(runs, facts, strict=True):
        if files.run_id in verdicts:
            read = numbers[files.run_id]
            decided[files.run_id] = Decided(
                verdict=united(verdicts[files.run_id], SHOWN_MAX),
                ok=read.ok,
                whole=(
                    of_run.sends_known
                    and TABLE not in {gap.table for gap in files.gaps}
                    and read.rows >= files.large[TABLE].rows
                ),
            )
    return decided


def nonlinearizable(
    spark: SparkSession, relations: Relations, decided: Mapping[str, Decided], facts: Sequence[RunFacts]
) -> list[DataFrame]:
    """Find the objects that no order explains; no frame at all where there is none.

    Whatever excuses the loss of a record since the first command to the object also excuses its history.
    """
    acks = {of_run.run_id: of_run.settings.acks for of_run in facts}
    rows = [
        _finding(run_id, evidence, acks[run_id])
        for run_id, of_run in sorted(decided.items())
        if of_run.whole and NOT_LINEARIZABLE in of_run.verdict["kinds"]
        for evidence in of_run.verdict["evidence"]
    ]
    if not rows:
        return []
    schema = pa.schema(
        [
            ("run_id", pa.string()),
            ("key", pa.string()),
            ("acks", pa.int32()),
            ("process", pa.int64()),
            ("at_ns", pa.int64()),
            ("model", pa.string()),
            ("stuck", pa.string()),
            ("concurrent", pa.list_(pa.string())),
            ("longest", pa.int32()),
            ("state", pa.string()),
        ]
    )
    partitions = relations.examined[TABLE].groupBy("run_id", "key").agg(
        fn.min("topic").alias("topic"), fn.min("partition").alias("partition"), fn.min("invoked_ns").alias("since_ns")
    )  # fmt: skip
    found = partitions.join(
        fn.broadcast(spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema))), ["run_id", "key"]
    )
    shown = ("key", "model", "stuck", "concurrent", "longest", "state", "since_ns")
    return [
        findings(
            found,
            NAME,
            promises=one_promise(fn.col("acks"), fn.col("since_ns")),
            details={name: fn.col(name) for name in shown},
        )
    ]


def write_verdict(decided: Decided | None, directory: Path) -> None:
    """Write the verdict with some of its evidence into the run, for its picture; remove it if nothing was decided."""
    path = directory / FILE
    if decided is None:
        path.unlink(missing_ok=True)
        return
    with replacing(path) as unfinished:
        unfinished.write_text(json.dumps(united([decided.verdict])) + "\n")


def _operations(commands: DataFrame, model: str) -> DataFrame:
    """Shape the commands of one model. A row with a problem spoils its object, whichever model it was meant for."""
    good = fn.col("problem").isNull()
    return commands.where(~good | (fn.col("model") == model)).withColumn(
        "function", fn.when(good, fn.col("function")).otherwise(fn.lit(UNREADABLE))
    )


def _finding(run_id: str, evidence: Mapping[str, Any], acks: int | None) -> dict[str, Any]:
    operations = evidence["operations"]
    stuck = operations[evidence["stuck"]]
    longest = max(evidence["orders"], key=len)
    return {
        "run_id": run_id,
        "key": evidence["key"],
        "acks": ACKS_UNKNOWN if acks is None else acks,
        "process": stuck["process"],
        "at_ns": stuck["invoked"],
        "model": evidence["model"],
        "stuck": stuck["text"],
        "concurrent": [operations[index]["text"] for index in evidence["window"][:CONCURRENT_MAX]],
        "longest": len(longest),
        "state": longest[-1]["state"] if longest else evidence["initial"],
    }
