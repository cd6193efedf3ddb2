"""Decides linearizability of any number of runs inside Spark tasks; the driver gets verdicts and bounded evidence.

A task gets all operations of some keys of one run: a *bucket*. It decides its keys in turn with growing budgets, so
that one hard key does not keep the easy ones from being decided.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.linearizability.check import check_history, model_named
from checkers.linearizability.evidence import verdict_json
from checkers.linearizability.operations import DEFAULT_BUDGET, UNKNOWN, Operation, SearchBudget

OPERATIONS_SCHEMA: Final = (
    "run_id string, key string, process bigint, invoked_ns bigint, completed_ns bigint, function string, "
    "argument string, result string, status string"
)
"""What is decided. `argument` and `result` are JSON; a null `argument` is none, a null `result` is not known."""

VERDICTS_SCHEMA: Final = "run_id string, bucket int, verdict string"
OPERATION_COLUMNS: Final = ("key", "process", "invoked_ns", "completed_ns", "function", "argument", "result", "status")
BUCKETS: Final = 32
UNREADABLE: Final = "unreadable"
EVIDENCE_MAX: Final = 3


def decide_in_tasks(
    operations: DataFrame,
    model: str,
    budget: SearchBudget = DEFAULT_BUDGET,
    *,
    buckets: int = BUCKETS,
    evidence_max: int = EVIDENCE_MAX,
) -> DataFrame:
    """Decide operations of the shape `OPERATIONS_SCHEMA`; return one row a run and bucket, of `VERDICTS_SCHEMA`.

    The budget is that of a bucket, which shows evidence of `evidence_max` keys. No content of a row raises. Raises
    `checkers.linearizability.check.UnknownModelError`.
    """
    model_named(model)
    bucket = fn.pmod(fn.xxhash64("key"), fn.lit(buckets)).cast("int").alias("bucket")
    return operations.groupBy("run_id", bucket).applyInArrow(_deciding(model, budget, evidence_max), VERDICTS_SCHEMA)


def verdicts_by_run(decided: DataFrame, evidence_max: int = EVIDENCE_MAX) -> dict[str, dict[str, Any]]:
    """Collect what `decide_in_tasks` returns: by run, a verdict as `exchange` has it, with evidence of some keys."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in decided.orderBy("run_id", "bucket").toLocalIterator():
        rows.setdefault(row.run_id, []).append(json.loads(row.verdict))
    return {run_id: united(of_run, evidence_max) for run_id, of_run in rows.items()}


def united(verdicts: Iterable[Mapping[str, Any]], evidence_max: int = EVIDENCE_MAX) -> dict[str, Any]:
    """Unite verdicts on different keys: a violation beats what is undecided, and that beats valid."""
    severity = {"valid": 0, "unknown": 1, "invalid": 2}
    ordered = sorted(verdicts, key=lambda verdict: -severity[verdict["outcome"]])
    worst = ordered[0]
    counts: dict[str, int] = {}
    for verdict in ordered:
        for name, number in verdict["counts"].items():
            counts[name] = counts.get(name, 0) + number
    alike = [verdict for verdict in ordered if verdict["outcome"] == worst["outcome"]]
    return {
        "outcome": worst["outcome"],
        "reason": worst["reason"],
        "kinds": sorted({kind for verdict in ordered for kind in verdict["kinds"]}),
        "counts": counts,
        "evidence": [evidence for verdict in alike for evidence in verdict["evidence"]][:evidence_max],
    }


def _deciding(
    model: str, budget: SearchBudget, evidence_max: int
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    def decide(group: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        verdict = verdict_json(check_history(_operations(rows), model, budget, evidence_max=evidence_max))
        run_id, bucket = (scalar.as_py() for scalar in group)
        columns = {"run_id": [run_id], "bucket": [bucket], "verdict": [json.dumps(verdict)]}
        return pa.table(columns, pa.schema({"run_id": pa.string(), "bucket": pa.int32(), "verdict": pa.string()}))

    return decide


def _operations(rows: pa.Table) -> Iterator[Operation]:
    for batch in rows.select(OPERATION_COLUMNS).to_batches():
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield _operation(*row)


def _operation(
    key: str | None,
    process: int | None,
    invoked_ns: int | None,
    completed_ns: int | None,
    function: str | None,
    argument: str | None,
    result: str | None,
    status: str | None,
) -> Operation:
    """Read a row. What cannot be read gets a name that no model has, so that it counts as malformed."""
    readable = process is not None and invoked_ns is not None and status in ("ok", "fail", "info")
    try:
        given = None if argument is None else json.loads(argument)
        answered = UNKNOWN if result is None else json.loads(result)
    except (ValueError, RecursionError):
        given, answered, readable = None, UNKNOWN, False
    return Operation(
        process=-1 if process is None else process,
        invoked_ns=0 if invoked_ns is None else invoked_ns,
        completed_ns=completed_ns,
        function=function if readable and function is not None else UNREADABLE,
        argument=given,
        result=answered,
        status="ok" if status == "ok" else "fail" if status == "fail" else "info",
        key=key,
    )
