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


def read_parts(files: Sequence[Path], schema: pa.Schema) -> pa.Table:
    """Read all rows of some part files that have a run. Raises `OSError` and `pa.ArrowException`."""
    few = [name for name in _FEW_TEXTS if name in schema.names]
    parts = []
    for path in files:
        with pq.ParquetFile(path, read_dictionary=few) as file:
            later = LATER_COLUMNS.intersection(schema.names).difference(file.schema_arrow.names)
            part = file.read(columns=[name for name in schema.names if name not in later])
        for name in later:
            part = part.append_column(name, pa.nulls(part.num_rows, schema.field(name).type))
        parts.append(part.select(schema.names))
    table = pa.concat_tables(parts).unify_dictionaries() if parts else schema.empty_table()
    return table.filter(pc.is_valid(table.column("run_id")))


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
    first = np.zeros(min(1, number.size), np.int64)
    for column in columns:
        values, of_column = np.unique(column, return_inverse=True)
        _, first, number = np.unique(number * values.size + of_column, return_index=True, return_inverse=True)
    return number, first


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
