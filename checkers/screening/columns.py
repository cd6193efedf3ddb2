"""Reads columns of part files as numpy arrays, numbers distinct rows, and aggregates groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from history.schema import LATER_COLUMNS

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_FEW_TEXTS: Final = ("run_id", "topic", "kind", "status", "phase")
"""Columns with few distinct texts, which are kept as numbers of these."""
_GREATEST: Final = np.iinfo(np.int64).max
_SPAN_OF_A_ROW: Final = 4
"""Values that lie closer together, on the average, are numbered without sorting them."""


def read_parts(files: Sequence[Path], schema: pa.Schema) -> pa.Table:
    """Read all rows of some part files that have a run. Raises `OSError` and `pa.ArrowException`."""
    return united([read_part(path, schema) for path in files], schema)


def read_part(path: Path, schema: pa.Schema, row_groups: Sequence[int] | None = None) -> pa.Table:
    """Read all rows of a part file, or those of some row groups. Raises `OSError` and `pa.ArrowException`."""
    few = [name for name in _FEW_TEXTS if name in schema.names]
    with pq.ParquetFile(path, read_dictionary=few) as file:
        later = LATER_COLUMNS.intersection(schema.names).difference(file.schema_arrow.names)
        columns = [name for name in schema.names if name not in later]
        part = file.read(columns) if row_groups is None else file.read_row_groups(row_groups, columns)
    for name in later:
        part = part.append_column(name, pa.nulls(part.num_rows, schema.field(name).type))
    return part.select(schema.names)


def united(parts: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Put parts of a table together; keep the rows that have a run."""
    table = pa.concat_tables(parts).unify_dictionaries() if parts else schema.empty_table()
    run_ids = table.column("run_id")
    return table.filter(pc.is_valid(run_ids)) if run_ids.null_count else table


def numbers(table: pa.Table, column: str, null: int = 0) -> Longs:
    """Return a column of integers, with nulls replaced by `null`."""
    filled = pc.fill_null(table.column(column).cast(pa.int64()), null)
    return np.asarray(filled.to_numpy(), np.int64)


def known(table: pa.Table, *columns: str) -> Flags:
    """Say in which rows none of some columns is null."""
    flags = np.ones(table.num_rows, np.bool_)
    for column in columns:
        flags &= np.asarray(pc.is_valid(table.column(column)).to_numpy(), np.bool_)
    return flags


def among(table: pa.Table, column: str, *values: object) -> Flags:
    """Say which rows have one of some values; a null is none of them."""
    field = table.column(column)
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return np.asarray(pc.is_in(field.cast(kind), value_set=pa.array(values, kind)).to_numpy(), np.bool_)


def texts(tables: Sequence[pa.Table], column: str) -> list[Longs]:
    """Number the distinct texts in a column of some tables; return the numbers table by table, -1 for null."""
    numbered: dict[str | None, int] = {None: -1}
    result = []
    for table in tables:
        encoded = table.column(column).combine_chunks()
        if not pa.types.is_dictionary(encoded.type):
            encoded = encoded.dictionary_encode()
        of_dictionary = [numbered.setdefault(text, len(numbered)) for text in encoded.dictionary.to_pylist()]
        indices = encoded.indices.fill_null(len(of_dictionary)).to_numpy()
        result.append(np.array([*of_dictionary, -1], np.int64)[indices])
    return result


def plain(table: pa.Table) -> pa.Table:
    """Return a table of which no column is kept as numbers of its distinct texts."""
    types = (field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in table.schema)
    return table.cast(pa.schema(list(zip(table.column_names, types, strict=True))))


def distinct(*columns: Longs) -> tuple[Longs, Longs]:
    """Number the distinct rows of some columns from 0; return the number of each row, and a row of each number."""
    number = np.zeros(columns[0].size, np.int64)
    for column in columns:
        of_column, size = _ranked(column)
        if size > 1:
            number, _ = _ranked(number * size + of_column)
    first = np.zeros(int(number.max(initial=-1)) + 1, np.int64)
    first[number[::-1]] = np.arange(number.size)[::-1]  # the last assignment counts
    return number, first


def _ranked(column: Longs) -> tuple[Longs, int]:
    """Number the distinct values of a column in their order; return the number of each row, and how many there are."""
    if not column.size:
        return column, 0
    least, greatest = int(column.min()), int(column.max())
    if greatest - least > _SPAN_OF_A_ROW * column.size:
        values, number = np.unique(column, return_inverse=True)
        return number, values.size
    there = np.zeros(greatest - least + 1, np.bool_)  # much cheaper than sorting
    there[column - least] = True
    ranks = np.cumsum(there) - 1
    return ranks[column - least], int(ranks[-1]) + 1


class Groups:
    """Rows by the number of their group, as `distinct` has them: no group is empty."""

    def __init__(self, number: Longs) -> None:
        self._order = np.argsort(number, kind="stable")
        ordered = number[self._order]
        self._starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if number.size else ordered

    def count(self, chosen: Flags) -> Longs:
        """Return how many of the rows of each group are chosen."""
        return self._reduced(np.add, chosen.astype(np.int64))

    def least(self, values: Longs, chosen: Flags) -> Longs:
        """Return the least value among the chosen rows of each group; any number if there are none."""
        return self._reduced(np.minimum, np.where(chosen, values, _GREATEST))

    def greatest(self, values: Longs, chosen: Flags) -> Longs:
        """Return the greatest value among the chosen rows of each group; any number if there are none."""
        return self._reduced(np.maximum, np.where(chosen, values, ~_GREATEST))

    def _reduced(self, function: np.ufunc, values: Longs) -> Longs:
        if not values.size:
            return values
        return np.asarray(function.reduceat(values[self._order], self._starts), np.int64)
