"""Converts foreign Kafka histories to Harrow's tables, and Harrow's runs to operations of Jepsen's workload.

A partition of Jepsen's workload becomes a topic with one partition, a value a number in order of first mention, a
position in the file a microsecond. An operation that both sends and polls becomes two, of one time and process.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.foreign.events import Value
from checkers.foreign.operations import SUBSCRIPTIONS, KafkaOperation, KafkaRecord
from history.contract import ACKS_ALL
from history.reader import load_table
from history.schema import TABLES

NS_PER_PLACE = 1_000
_INT64_MAX = (1 << 63) - 1


def write_history(operations: Sequence[KafkaOperation], run: Path, run_id: str) -> None:
    """Write the operations as the history of a run. Raises `OSError`."""
    _Writer(run_id, operations).write(run)


class _Writer:
    """The rows of one run."""

    def __init__(self, run_id: str, operations: Sequence[KafkaOperation]) -> None:
        self.run_id = run_id
        self.rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.values: dict[tuple[Hashable, Hashable], int] = {}
        self.topics: dict[Hashable, str] = {}
        self.processes: dict[Hashable, int] = {}
        self.settled: dict[Hashable, set[Hashable]] = defaultdict(set)
        """By process: partitions in which its position follows from its own polls, not from a new assignment."""
        self.number = 0
        self.add("runs", name=run_id, system="foreign", workers=1, faults_wanted=False, idempotence=False)
        self.add("workers", worker=0, operations=len(operations))
        for operation in operations:
            self._add_operation(operation)

    def add(self, table: str, **columns: Value) -> None:
        self.rows[table].append({"run_id": self.run_id, **columns})

    def write(self, run: Path) -> None:
        for table, rows in self.rows.items():
            directory = run / "history" / table
            directory.mkdir(parents=True)
            pq.write_table(pa.Table.from_pylist(rows, schema=TABLES[table]), directory / "part-foreign-000000.parquet")

    def _add_operation(self, operation: KafkaOperation) -> None:
        if operation.f in SUBSCRIPTIONS:
            if operation.type in ("ok", "info"):
                self.settled[operation.process] &= operation.named
            return
        if operation.sends:
            op = self._begin("send", operation)
            for ordinal, record in enumerate(operation.sends):
                self.add(
                    "sends",
                    op=op,
                    **self._partition_of(record.key),
                    value=self._value(record),
                    acks=ACKS_ALL,
                    offset=record.offset if (record.offset or 0) < _INT64_MAX else None,
                    ordinal=ordinal,
                )
        if operation.polls:
            self._add_polls(self._begin("poll", operation), operation)

    def _add_polls(self, op: int, operation: KafkaOperation) -> None:
        by_key: dict[Hashable, list[KafkaRecord]] = defaultdict(list)
        for record in operation.polls:
            if record.offset is not None and record.offset < _INT64_MAX:
                by_key[record.key].append(record)
        for key, records in by_key.items():
            offsets = [record.offset for record in records if record.offset is not None]
            settled = key in self.settled[operation.process] and key not in operation.rebalanced
            self.add(
                "polls",
                op=op,
                **self._partition_of(key),
                position=min(offsets),
                next_position=max(offsets) + 1,
                records=len(records),
                assigned=not settled,
            )
            if operation.type == "ok":
                self.settled[operation.process].add(key)
            for ordinal, record in enumerate(records):
                self.add(
                    "reads",
                    op=op,
                    **self._partition_of(key),
                    offset=record.offset,
                    value=self._value(record),
                    ordinal=ordinal,
                )

    def _begin(self, kind: str, operation: KafkaOperation) -> int:
        self.number += 1
        completed = operation.type in ("ok", "fail") or operation.completed > operation.invoked
        self.add(
            "operations",
            op=self.number,
            process=self.processes.setdefault(operation.process, len(self.processes)),
            client="foreign",
            kind=kind,
            status=operation.type,
            phase="main",
            invoked_ns=operation.invoked * NS_PER_PLACE,
            completed_ns=operation.completed * NS_PER_PLACE if completed else None,
        )
        return self.number

    def _value(self, record: KafkaRecord) -> int:
        return self.values.setdefault((record.key, record.value), len(self.values) + 1)

    def _partition_of(self, key: Hashable) -> dict[str, Any]:
        if key not in self.topics:
            name = str(key)
            self.topics[key] = name if name not in self.topics.values() else f"{name}-{len(self.topics)}"
        return {"topic": self.topics[key], "partition": 0}


def operations_of_run(run: Path) -> list[KafkaOperation]:
    """Read a run of Harrow as operations of Jepsen's workload, in the order in which they completed.

    Malformed rows are left out: checking the run itself reports them.
    """
    sends: dict[int, list[KafkaRecord]] = defaultdict(list)
    polls: dict[int, list[KafkaRecord]] = defaultdict(list)
    for row in _rows(run, "sends", ("ordinal",)):
        sends[row["op"]].append(KafkaRecord(_partition(row), row["offset"], row["value"]))
    for row in _rows(run, "reads", ("ordinal",)):
        polls[row["op"]].append(KafkaRecord(_partition(row), row["offset"], row["value"]))
    assigned: dict[int, set[Hashable]] = defaultdict(set)
    for row in _rows(run, "polls", ("op",)):
        if row["assigned"]:
            assigned[row["op"]].add(_partition(row))
    moments = _rows(run, "operations", ("invoked_ns", "op"))
    rank = {at: rank for rank, at in enumerate(sorted({at for row in moments for at in _times(row)}))}
    last = len(rank)
    operations: list[KafkaOperation] = []
    known: dict[int, set[Hashable]] = defaultdict(set)
    for row in moments:
        invoked = rank[row["invoked_ns"]]
        completed = last if row["completed_ns"] is None else max(invoked, rank[row["completed_ns"]])
        process, op = row["process"], row["op"]
        if assigned[op]:
            # An assignment names what the process keeps, so those that it begins again are forgotten.
            kept = frozenset(known[process] - assigned[op])
            operations.append(KafkaOperation(process, "ok", "assign", invoked, invoked, named=kept))
        known[process] |= {record.key for record in polls[op]}
        f = "send" if row["kind"] == "send" else "poll"
        operations.append(
            KafkaOperation(process, row["status"], f, invoked, completed, tuple(sends[op]), tuple(polls[op]))
        )
    operations.sort(key=lambda operation: operation.completed)
    return operations


def _rows(run: Path, table: str, order: Iterable[str]) -> list[dict[str, Any]]:
    rows = load_table(run, table).table.to_pylist()
    needed = ("op", *order, *(("process", "status") if table == "operations" else ("topic", "partition")))
    whole = [row for row in rows if all(row.get(name) is not None for name in needed)]
    return sorted(whole, key=lambda row: tuple(row[name] for name in order))


def _times(row: dict[str, Any]) -> list[int]:
    return [at for at in (row["invoked_ns"], row["completed_ns"]) if at is not None]


def _partition(row: dict[str, Any]) -> Hashable:
    return json.dumps([row["topic"], row["partition"]])
