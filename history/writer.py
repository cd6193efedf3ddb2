"""Writes a run's history while it happens.

Rows are appended to memory by any thread and written by one background thread, every two seconds or whenever many have
gathered; the first rows of a table are written at once. A part file is written under a hidden name and renamed when it
is whole, so however the process dies, its history can be read: it ends at most one interval before the end, and readers
ignore a hidden leftover.

Threads: one `HistoryWriter` per process, shared by all its threads. The handover is a `collections.deque`,
whose `append` and `popleft` are atomic; `add` takes no lock. Two processes of a run must have different
`writer` names.

Memory: at most `rows_max` rows wait per table. When the disk cannot keep up, `add` waits for it; when the
disk fails, `add` and `close` raise `HistoryError`, because a run without its history is worthless.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from common.atomic_files import replacing
from history.parts import PartName
from history.schema import TABLES

FLUSH_INTERVAL_S: Final = 2.0
ROWS_PER_PART: Final = 50_000
"""A part is written as soon as this many rows wait."""
ROWS_MAX: Final = 200_000
"""Rows that may wait per table before `add` waits for the disk."""

Row = Sequence[object] | Mapping[str, object]
"""Values in the order of the schema without `run_id`, or by column name (a missing column is null)."""


class HistoryError(Exception):
    """The history could not be written. One line: what was expected, what was found, what to do."""


class TableWriter:
    """Buffers the rows of one table of the history."""

    def __init__(self, history: HistoryWriter, name: str, schema: pa.Schema) -> None:
        self._history = history
        self._name = name
        self._columns = [column for column in schema.names if column != "run_id"]
        self._schema = schema
        self._waiting: deque[Sequence[object]] = deque()
        self._parts = 0
        self._begun = False

    def add(self, row: Row) -> None:
        """Append one row. Raises `HistoryError` once the disk has failed."""
        if isinstance(row, Mapping):
            row = self._ordered(row)
        self._waiting.append(row)
        if not self._begun or len(self._waiting) >= self._history.rows_per_part or self._history.failed:
            self._begun = True
            self._history.hurry(self)

    def _ordered(self, row: Mapping[str, object]) -> Sequence[object]:
        unknown = row.keys() - set(self._columns)
        if unknown:
            raise HistoryError(f"table {self._name} has no column {', '.join(sorted(unknown))}")
        return [row.get(column) for column in self._columns]

    def __len__(self) -> int:
        """Rows that wait to be written."""
        return len(self._waiting)

    def write_part(self, directory: Path, run_id: str, writer: str) -> None:
        """Write what waits as one part. Only the writing thread calls it."""
        rows = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if not rows:
            return
        columns = [pa.repeat(pa.scalar(run_id, pa.string()), len(rows))]
        fields = [self._schema.field(column) for column in self._columns]
        columns += [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), fields, strict=True)]
        table = pa.Table.from_arrays(columns, schema=self._schema)
        path = directory / self._name / str(PartName(writer, self._parts, self._parts))
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as unfinished:
            pq.write_table(table, unfinished)
        self._parts += 1


class HistoryWriter:
    """One process's part of a history: `directory`/`table`/part-`writer`-NNNNNN.parquet."""

    def __init__(
        self,
        directory: Path,
        run_id: str,
        writer: str,
        *,
        flush_interval_s: float = FLUSH_INTERVAL_S,
        rows_per_part: int = ROWS_PER_PART,
        rows_max: int = ROWS_MAX,
    ) -> None:
        """Create nothing on disk until the first rows of a table are written."""
        self.rows_per_part = rows_per_part
        self._rows_max = rows_max
        self._directory = directory
        self._run_id = run_id
        self._writer = writer
        self._flush_interval_s = flush_interval_s
        self._tables: dict[str, TableWriter] = {}
        self._failure: Exception | None = None
        self._closing = False
        self._hurried = threading.Event()
        self._room = threading.Condition()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._write_until_closed, name="history", daemon=True)
        self._thread.start()

    def table(self, name: str) -> TableWriter:
        """Return the writer of one table; keep it if rows are many. Raises `HistoryError`."""
        known = self._tables.get(name)
        if known is not None:
            return known
        schema = TABLES.get(name)
        if schema is None:
            raise HistoryError(f"the history has no table {name!r}; it has {', '.join(TABLES)}")
        with self._writing:
            return self._tables.setdefault(name, TableWriter(self, name, schema))

    def add(self, table: str, row: Row) -> None:
        """Append one row to a table."""
        self.table(table).add(row)

    @property
    def failed(self) -> bool:
        """Whether the disk has failed; nothing is written any more then."""
        return self._failure is not None

    def flush(self) -> None:
        """Write everything that waits, now. Raises `HistoryError`."""
        self._write_all()
        self._raise_if_failed()

    def close(self) -> None:
        """Write everything that waits and stop. Safe to call twice. Raises `HistoryError`."""
        self._closing = True
        self._hurried.set()
        self._thread.join()
        self.flush()

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def hurry(self, table: TableWriter) -> None:
        """Have a part written soon; wait only if a table has far too many rows."""
        self._hurried.set()
        if len(table) >= self._rows_max:
            with self._room:
                self._room.wait_for(lambda: len(table) < self._rows_max or self.failed)
        self._raise_if_failed()

    def _raise_if_failed(self) -> None:
        if self._failure is not None:
            raise HistoryError(f"cannot write the history in {self._directory}: {self._failure}") from self._failure

    def _write_until_closed(self) -> None:
        while not (self._closing or self.failed):
            self._hurried.wait(self._flush_interval_s)
            self._hurried.clear()
            self._write_all()

    def _write_all(self) -> None:
        with self._writing:
            for table in self._tables.values():
                if not self.failed:
                    self._write(table)
        with self._room:
            self._room.notify_all()

    def _write(self, table: TableWriter) -> None:
        try:
            table.write_part(self._directory, self._run_id, self._writer)
        except (OSError, pa.ArrowException, ValueError, TypeError) as error:
            self._failure = error
