"""Counts operations in bins of time by kind, outcome, node, partition and client: what the page's time line filters.

However many operations there are, the counts stay few: the bins are as narrow as `CELLS_MAX` counts allow, and where
not even the widest are enough, first clients and then partitions are counted together.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from common.wording import printable
from reports.data.joined import UNKNOWN, Joined
from reports.data.stored_run import Integers, Run

CELLS_MAX: Final = 60_000
"""Counts in a page, of about ten bytes each."""
BINS_MAX: Final = 1_500
BINS_MIN: Final = 150
STATUSES: Final = ("ok", "fail", "info")
OTHERS: Final = -2
"""Stands for all values of a dimension that are counted together."""
CLIENTS_MAX: Final = 64
"""Clients that are counted each by itself: those with the most operations."""
PARTITIONS_MAX: Final = 256
KINDS_MAX: Final = 16
KIND_CHARACTERS: Final = 40
_MS: Final = 1_000_000
_WIDTHS_MS: Final = tuple(step * 10**power for power in range(8) for step in (1, 2, 5))


def operation_cube(run: Run, joined: Joined) -> dict[str, Any]:
    """Return the counts, ready for JSON.

    `start_ms` and `width_ms` are those of the bins. Each of the `groups` has `kind` (an index in `kinds`), `status`
    (an index in `STATUSES`), `node`, `partition` (an index in `Joined.partitions`) and `client`, -1 where one is not
    known and `OTHERS` where it is counted with others; `bins` (the first is an index, each later one the distance to
    the one before it), `counts`, and `slowest`: for writes that were acknowledged the greatest latency in ms.
    """
    operations = joined.operations
    start_ns, end_ns = run.span_ns
    ended_ns = np.where(operations.completed_ns < 0, operations.invoked_ns, operations.completed_ns)
    known = ended_ns >= start_ns
    names, kind = _kinds(run)
    status = np.where(operations.ok, 0, np.where(operations.fail, 1, 2))
    dimensions = [
        kind[known],
        status[known],
        operations.node[known],
        _most_frequent(_partition_of_each(run, joined)[known], PARTITIONS_MAX),
        _most_frequent(operations.process[known], CLIENTS_MAX),
    ]
    timed = operations.ok & operations.send & (operations.completed_ns >= 0) & (operations.invoked_ns >= 0)
    latency_ns = np.where(timed, operations.completed_ns - operations.invoked_ns, UNKNOWN)[known]
    ended_ns = ended_ns[known] - start_ns
    narrowest = next(n for n, ms in enumerate(_WIDTHS_MS) if (end_ns - start_ns) / _MS / ms <= BINS_MAX or ms >= 5e7)
    for coarser in ((), (4,), (3, 4)):
        for dimension in coarser:
            dimensions[dimension] = np.full_like(dimensions[dimension], OTHERS)
        rows, group = _grouped(dimensions)
        for width_ms in _WIDTHS_MS[narrowest:]:
            bins = 1 + (end_ns - start_ns) // (width_ms * _MS)
            cell, first, counts = np.unique(
                group * bins + ended_ns // (width_ms * _MS), return_inverse=True, return_counts=True
            )
            if cell.size <= CELLS_MAX or bins < BINS_MIN:
                break
        if cell.size <= CELLS_MAX:
            break
    slowest = np.full(cell.shape, UNKNOWN, dtype=np.int64)
    np.maximum.at(slowest, first, latency_ns)
    return {
        "start_ms": start_ns / _MS,
        "width_ms": width_ms,
        "bins": int(bins),
        "kinds": names,
        "statuses": STATUSES,
        "groups": _encoded(rows, cell // bins, cell % bins, counts, slowest),
    }


def _kinds(run: Run) -> tuple[list[str], Integers]:
    """Return the kinds' names, and each operation's index in them, in the order of `OperationColumns`."""
    table = run.tables["operations"]
    column = table.column("kind").fill_null("unknown").combine_chunks()
    encoded = (column.chunk(0) if isinstance(column, pa.ChunkedArray) else column).dictionary_encode()
    indices = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    names = [printable(name[:KIND_CHARACTERS]) for name in encoded.dictionary.to_pylist()]
    numbers = np.asarray(table.column("op").fill_null(UNKNOWN).to_numpy(), dtype=np.int64)
    kind = np.minimum(indices, KINDS_MAX)[np.argsort(numbers, kind="stable")]
    return [*names[:KINDS_MAX], *(["others"] if len(names) > KINDS_MAX else [])], kind


def _partition_of_each(run: Run, joined: Joined) -> Integers:
    """Return the partition that each operation was about, `UNKNOWN` where it was about none or several."""
    operations = joined.operations
    lowest = np.full(operations.op.shape, np.iinfo(np.int64).max, dtype=np.int64)
    highest = np.full(operations.op.shape, UNKNOWN, dtype=np.int64)
    for name in ("sends", "polls"):
        table = run.tables[name]
        rows = operations.rows_of(np.asarray(table.column("op").fill_null(UNKNOWN).to_numpy(), dtype=np.int64))
        partition = joined.partition_of(table)
        kept = rows != UNKNOWN
        np.minimum.at(lowest, rows[kept], partition[kept])
        np.maximum.at(highest, rows[kept], partition[kept])
    return np.where(lowest == highest, highest, UNKNOWN)


def _most_frequent(values: Integers, kept_max: int) -> Integers:
    found, counts = np.unique(values, return_counts=True)
    if found.size <= kept_max:
        return values
    kept = found[np.argsort(-counts, kind="stable")[:kept_max]]
    return np.where(np.isin(values, kept), values, OTHERS)


def _grouped(dimensions: list[Integers]) -> tuple[list[list[int]], Integers]:
    """Return the combinations of values that there are, and each operation's index in them."""
    key = np.zeros(dimensions[0].shape, dtype=np.int64)
    values = []
    for dimension in dimensions:
        found, index = np.unique(dimension, return_inverse=True)
        values.append(found)
        key = key * max(found.size, 1) + index
    combined, group = np.unique(key, return_inverse=True)
    columns = []
    for found in reversed(values):
        size = max(found.size, 1)
        columns.append(found[combined % size] if found.size else combined)
        combined = combined // size
    return [list(map(int, row)) for row in zip(*reversed(columns), strict=True)], group


def _encoded(
    rows: list[list[int]], group: Integers, index: Integers, counts: Integers, slowest: Integers
) -> list[dict[str, Any]]:
    names = ("kind", "status", "node", "partition", "client")
    borders = np.flatnonzero(np.diff(group)) + 1
    parts = (np.split(column, borders) for column in (group, index, counts, slowest))
    encoded = []
    for numbers, bins, how_many, longest in zip(*parts, strict=True):
        if not numbers.size:
            continue
        one: dict[str, Any] = dict(zip(names, rows[int(numbers[0])], strict=True))
        one["bins"] = np.diff(bins, prepend=0).tolist()
        one["counts"] = how_many.tolist()
        if (longest >= 0).any():
            one["slowest"] = [round(ns / _MS, 1 if ns < 100 * _MS else None) for ns in longest.tolist()]
        encoded.append(one)
    return encoded
