"""Converts Arrow columns to numpy arrays, without turning 64-bit integers into floats."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


def integers(table: pa.Table, column: str, null: int) -> Integers:
    """Return an integer column, with nulls replaced by `null`."""
    filled = pc.fill_null(table.column(column).cast(pa.int64()), null)
    return np.asarray(filled.to_numpy(), dtype=np.int64)


def is_one_of(table: pa.Table, column: str, *values: object) -> Booleans:
    """Return which rows have one of these values; a null is none of them."""
    field = table.column(column)
    mask = pc.fill_null(pc.is_in(field, value_set=pa.array(values, field.type)), False)
    return np.asarray(mask.to_numpy(zero_copy_only=False), dtype=np.bool_)


def rows_where(table: pa.Table, **wanted: object) -> pa.Table:
    """Return the rows whose columns equal the given values."""
    mask = np.ones(table.num_rows, dtype=np.bool_)
    for column, value in wanted.items():
        mask &= is_one_of(table, column, value)
    return table.filter(pa.array(mask))


def partitions_of(table: pa.Table) -> list[tuple[str, int]]:
    """Return the distinct (topic, partition) of a table, sorted; rows without them are ignored."""
    pairs = table.select(["topic", "partition"]).group_by(["topic", "partition"]).aggregate([]).to_pylist()
    known = [pair for pair in pairs if pair["topic"] is not None and pair["partition"] is not None]
    return sorted((str(pair["topic"]), int(pair["partition"])) for pair in known)


def counts_by(table: pa.Table, *columns: str) -> dict[tuple[str, ...], int]:
    """Count rows by the values of some columns, a null counted as "unknown"."""
    rows = table.group_by(list(columns)).aggregate([([], "count_all")]).to_pylist()
    counts: dict[tuple[str, ...], int] = {}
    for row in rows:
        key = tuple("unknown" if row[column] is None else str(row[column]) for column in columns)
        counts[key] = counts.get(key, 0) + int(row["count_all"])
    return counts
