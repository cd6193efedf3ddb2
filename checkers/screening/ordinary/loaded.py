"""Holds the tables of some runs in memory, with numbers for their runs, partitions and operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.input.run_facts import RunFacts
from checkers.screening.columns import Flags, Longs, read_parts
from checkers.screening.kernel_rows import Performed, partitions_of, returned_by_poll
from history.schema import TABLES

LOADED: Final = ("operations", "sends", "polls", "reads", "cluster", "logs")
RETURNED: Final = "returned"
"""Stands in for the table `reads`, where that is too long to be in memory."""
_OF_PARTITIONS: Final = ("sends", "polls", "reads", "cluster", "logs", RETURNED)
_OF_OPERATIONS: Final = ("sends", "polls", "reads", RETURNED)

OF_NO_RUN: Final = -1


@dataclass(frozen=True)
class Returned:
    """What polls returned, one element for each poll and partition from which it returned any row."""

    table: pa.Table
    """As `checkers.input.polls.returned_by_poll` returns it."""
    run: Longs
    partition: Longs
    op: Longs


class LoadedHistory:
    """The large tables of some runs, whose rows are numbered by run (the place in `facts`), partition and operation."""

    def __init__(self, tables: Mapping[str, pa.Table], facts: Sequence[RunFacts]) -> None:
        self.tables = tables
        self.facts = facts
        self.run_ids = [of_run.run_id for of_run in facts]
        self.run = {name: self._run_numbers(table) for name, table in tables.items()}
        """The run of each row, `OF_NO_RUN` for one that is not among `facts`."""
        of_partitions, of_operations = (
            [name for name in names if name in tables] for names in (_OF_PARTITIONS, _OF_OPERATIONS)
        )
        self.partitions, partitions = partitions_of(
            [tables[name] for name in of_partitions], [self.run[name] for name in of_partitions]
        )
        """The distinct run, topic and partition."""
        self.partition = dict(zip(of_partitions, partitions, strict=True))
        """The partition of each row: a row of `partitions`."""
        self.run_of_partition = self._run_numbers(self.partitions)
        others = ((tables[name], self.run[name]) for name in of_operations)
        self.performed = Performed(tables["operations"], self.run["operations"], *others)
        self.op = dict(zip(of_operations, self.performed.of_others, strict=True))
        """The operation of each row, by its number in `performed`."""

    @classmethod
    def read(cls, files: Mapping[str, Sequence[Path]], facts: Sequence[RunFacts]) -> LoadedHistory:
        """Read all rows of some part files. Raises `OSError`, `pa.ArrowException` and `UnicodeDecodeError`."""
        return cls({name: read_parts(files[name], TABLES[name]) for name in LOADED}, facts)

    @cached_property
    def returned(self) -> Returned:
        """What polls returned."""
        if RETURNED in self.tables:
            run, partition, op = (numbers[RETURNED] for numbers in (self.run, self.partition, self.op))
            return Returned(self.tables[RETURNED], run, partition, op)
        run, partition, op = (numbers["reads"] for numbers in (self.run, self.partition, self.op))
        table, examples = returned_by_poll(self.tables["reads"], partition, op)
        return Returned(table, run[examples], partition[examples], op[examples])

    @property
    def whole(self) -> bool:
        """Whether each row is of a known run."""
        return not any((of_table == OF_NO_RUN).any() for of_table in self.run.values())

    def status(self, table: str, status: str) -> Flags:
        """Say which rows of a table belong to an operation that ended so."""
        performed = self.performed
        return performed.that_are(performed.of("status", status))[self.op[table]]

    def kind(self, table: str, kind: str) -> Flags:
        """Say which rows of a table belong to an operation of a kind."""
        performed = self.performed
        return performed.that_are(performed.of("kind", kind))[self.op[table]]

    def phase(self, table: str, phase: str) -> Flags:
        """Say which rows of a table belong to an operation of a phase."""
        performed = self.performed
        return performed.that_are(performed.of("phase", phase))[self.op[table]]

    def of_operation(self, table: str, column: str) -> Longs:
        """Return a column of the operation of each row of a table; 0 where it is not known."""
        return self.performed.moments(column)[self.op[table]]

    def known_of_operation(self, table: str, column: str) -> Flags:
        """Say for which rows of a table a column of their operation is known."""
        present = np.asarray(pc.is_valid(self.tables["operations"].column(column)).to_numpy(), np.bool_)
        return self.performed.that_are(present)[self.op[table]]

    def by_run(self, values: Sequence[int | None], table: str) -> tuple[Longs, Flags]:
        """Return, for each row of a table, its run's value, and whether there is one."""
        given = np.array([0 if value is None else value for value in values], np.int64)
        present = np.array([value is not None for value in values], np.bool_)
        return np.asarray(given[self.run[table]]), np.asarray(present[self.run[table]])

    def _run_numbers(self, table: pa.Table) -> Longs:
        column = table.column("run_id").combine_chunks()
        wanted = pa.array(self.run_ids, pa.string())
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        of_dictionary = pc.index_in(column.dictionary, wanted).fill_null(OF_NO_RUN).to_numpy()
        return np.asarray(of_dictionary[column.indices.to_numpy()], np.int64)


def last_in_groups(order: Longs, groups: Longs, chosen: Flags) -> Longs:
    """Return, for each row in an order by group, the last row before it in the group that was chosen; -1 for none."""
    places = np.arange(order.size)
    last = np.maximum.accumulate(np.where(chosen[order], places, -1))
    before = np.full(order.size, -1, np.int64)
    before[1:] = last[:-1]
    found = np.where(before >= 0, order[before], -1)
    return np.where((found >= 0) & (groups[found] == groups[order]), found, -1)


def spans(groups: Longs) -> Iterator[tuple[int, slice]]:
    """Yield each group, and the range of its rows, of rows sorted by group."""
    if not groups.size:
        return
    starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    for begin, end in zip(starts.tolist(), [*starts[1:].tolist(), groups.size], strict=True):
        yield int(groups[begin]), slice(begin, end)
