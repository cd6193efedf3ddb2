"""Tables of a run whose types are right and whose content is nonsense."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from history.schema import TABLES

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
    "commit",
    "committed",
    "delete",
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
        ids = [choices.choice((run.name, run.name, run.name, None, "another")) for _ in range(rows)]
        columns["run_id"] = [run.name, *ids][:rows]  # the first names the run, and runs of one name are checked apart
        parts = run / "history" / table
        parts.mkdir(parents=True)
        pq.write_table(pa.table(columns, schema=schema), parts / "part-g-000000.parquet")
