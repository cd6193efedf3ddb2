"""Builds tiny histories: each method adds rows; times are milliseconds; everything has a valid default."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from history.schema import TABLES

TOPIC = "log"
MS = 1_000_000
BOUND_MS = 1_000
READER = 900
FINAL_READER = 990
MAIN_MS, RECOVERY_MS, FINAL_MS, END_MS = 0, 100_000, 110_000, 120_000

Moments = tuple[int, int | None]


class History:
    """The history of one run; `name` is its run id. It begins with one send, of value 1, that never arrived."""

    def __init__(self, name: str, **settings: Any) -> None:
        self.name = name
        self.tables: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
        self._op = 0
        self.row(
            "runs",
            **{
                "name": name,
                "seed": 1,
                "system": "harrow",
                "environment": "local",
                "brokers": 3,
                "replication_factor": 3,
                "min_insync_replicas": 2,
                "acks": -1,
                "idempotence": True,
                "unclean_election": False,
                "workers": 1,
                "faults_wanted": False,
                "unavailable_after_ms": BOUND_MS,
                **settings,
            },
        )
        self.row("workers", worker=0, operations=0)
        self.send(1, (1, 2), process=50, status="info", node=None)
        bounds = [MAIN_MS, RECOVERY_MS, FINAL_MS, END_MS]
        for phase, started, ended in zip(("main", "recovery", "final"), bounds, bounds[1:], strict=False):
            self.row("phases", phase=phase, started_ns=started * MS, ended_ns=ended * MS)

    def row(self, table: str, **columns: Any) -> None:
        """Add any row."""
        self.tables[table].append({"run_id": self.name, **columns})

    def has_duplicates(self) -> bool:
        """Whether an operation or a value that was sent is there twice."""
        operations = [row["op"] for row in self.tables["operations"]]
        values = [row["value"] for row in self.tables["sends"]]
        return len({*operations}) < len(operations) or len({*values}) < len(values)

    def operation(self, kind: str, at: Moments, *, process: int, status: str, phase: str, node: int | None) -> int:
        self._op += 1
        invoked, completed = at
        self.row(
            "operations",
            op=self._op,
            process=process,
            client="test",
            kind=kind,
            status=status,
            node=node,
            phase=phase,
            invoked_ns=invoked * MS,
            completed_ns=None if completed is None else completed * MS,
        )
        return self._op

    def send(
        self,
        value: int,
        at: Moments,
        *,
        offset: int | None = None,
        process: int = 1,
        status: str = "ok",
        acks: int = -1,
        node: int | None = 1,
        partition: int = 0,
        topic: str = TOPIC,
    ) -> int:
        """A send of one record."""
        op = self.operation("send", at, process=process, status=status, phase="main", node=node)
        self.row("sends", op=op, topic=topic, partition=partition, value=value, acks=acks, offset=offset, ordinal=0)
        return op

    def command(
        self,
        value: int,
        at: Moments,
        function: str,
        argument: object = None,
        result: object = None,
        *,
        key: int = 0,
        process: int = 1,
        status: str = "ok",
        model: str = "cas-register",
        partition: int = 0,
    ) -> None:
        """A command to an object; a result of None is nothing there, for functions that have one."""
        invoked, completed = at
        has_result = status == "ok" and function in ("read", "cas", "dequeue")
        self.row(
            "commands",
            value=value,
            topic=TOPIC,
            partition=partition,
            key=f"{TOPIC}-{partition}/{key}",
            model=model,
            process=process,
            function=function,
            argument=None if argument is None else json.dumps(argument),
            result=json.dumps(result) if has_result else None,
            status=status,
            invoked_ns=invoked * MS,
            completed_ns=None if completed is None else completed * MS,
        )

    def poll(
        self,
        position: int,
        records: Sequence[int | tuple[int, int | None] | None],
        at: Moments,
        *,
        next_position: int | None = None,
        process: int = READER,
        status: str = "ok",
        phase: str = "main",
        node: int | None = 1,
        high_watermark: int | None = None,
        assigned: bool = False,
        partition: int = 0,
        epochs: Sequence[int] = (),
    ) -> int:
        """A poll that returned values from `position` on, or pairs of offset and value."""
        op = self.operation("poll", at, process=process, status=status, phase=phase, node=node)
        pairs = [
            record if isinstance(record, tuple) else (position + index, record) for index, record in enumerate(records)
        ]
        if next_position is None:
            next_position = max((offset for offset, _ in pairs), default=position - 1) + 1
        self.row(
            "polls",
            op=op,
            topic=TOPIC,
            partition=partition,
            position=position,
            next_position=next_position,
            high_watermark=high_watermark,
            records=len(pairs),
            assigned=assigned,
        )
        for ordinal, (offset, value) in enumerate(pairs):
            self.row(
                "reads",
                op=op,
                topic=TOPIC,
                partition=partition,
                offset=offset,
                leader_epoch=epochs[ordinal] if epochs else 0,
                value=value,
                ordinal=ordinal,
            )
        return op

    def latest(self, end: int, at: Moments, *, node: int | None = 1, process: int = READER, partition: int = 0) -> int:
        """A question for the end of the log."""
        op = self.operation("latest", at, process=process, status="ok", phase="main", node=node)
        self.row("polls", op=op, topic=TOPIC, partition=partition, next_position=end, records=0, assigned=False)
        return op

    def commit(
        self,
        offset: int,
        at: Moments,
        *,
        generation: int = 1,
        process: int = 500,
        status: str = "ok",
        node: int | None = 1,
        partition: int = 0,
        kept_in: int | None = 0,
    ) -> int:
        """A commit of a member of the group."""
        op = self.operation("commit", at, process=process, status=status, phase="main", node=node)
        self._committed(op, offset, generation, process, partition, kept_in)
        return op

    def committed(
        self,
        offset: int | None,
        at: Moments,
        *,
        process: int = 500,
        status: str = "ok",
        node: int | None = 1,
        phase: str = "main",
        partition: int = 0,
        kept_in: int | None = 0,
    ) -> int:
        """A question for the committed offset, and its answer."""
        op = self.operation("committed", at, process=process, status=status, phase=phase, node=node)
        self._committed(op, offset, None, process, partition, kept_in)
        return op

    def _committed(
        self, op: int, offset: int | None, generation: int | None, process: int, partition: int, kept_in: int | None
    ) -> None:
        self.row(
            "commits",
            op=op,
            group="readers",
            topic=TOPIC,
            partition=partition,
            offset=offset,
            member=f"member-{process}",
            generation=generation,
            kept_in=kept_in,
        )

    def owned(
        self,
        process: int,
        generation: int,
        at: Moments,
        *,
        partition: int = 0,
        kept_in: int | None = 0,
    ) -> None:
        """A member of the group owned a partition."""
        since, until = at
        self.row(
            "ownerships",
            group="readers",
            topic=TOPIC,
            partition=partition,
            process=process,
            member=f"member-{process}",
            generation=generation,
            since_ns=since * MS,
            until_ns=None if until is None else until * MS,
            kept_in=kept_in,
        )

    def administered(self, action: str, topic: str, at: Moments, *, status: str = "ok") -> None:
        """A request that administers a topic."""
        invoked, completed = at
        self.row(
            "administration",
            process=700,
            action=action,
            topic=topic,
            parameters=json.dumps({}),
            status=status,
            invoked_ns=invoked * MS,
            completed_ns=None if completed is None else completed * MS,
        )

    def written(self, values: Iterable[int], *, first_ms: int = 10, node: int = 1, partition: int = 0) -> None:
        """Sends one after the other, acknowledged at consecutive offsets from 0."""
        for offset, value in enumerate(values):
            begins = first_ms + 10 * offset
            self.send(value, (begins, begins + 5), offset=offset, node=node, partition=partition)

    def final(
        self,
        values: Sequence[int | tuple[int, int | None] | None],
        *,
        end: int | None = None,
        agreed: bool = True,
        partition: int = 0,
    ) -> None:
        """The final phase: everything read from the start in one poll, to an end on which all replicas agree."""
        self.poll(
            0,
            values,
            (FINAL_MS, FINAL_MS + 10),
            next_position=end,
            process=FINAL_READER,
            phase="final",
            node=None,
            assigned=True,
            partition=partition,
        )
        next_position = self.tables["polls"][-1]["next_position"]
        self.row("ends", topic=TOPIC, partition=partition, end_offset=next_position, agreed=agreed)

    def fault(
        self,
        kind: str,
        targets: Sequence[int],
        at: Moments,
        *,
        took_hold: bool = True,
        healed: bool = True,
        held_ms: int | None = None,
    ) -> None:
        """A fault, numbered in order."""
        started, ended = at
        self.row(
            "faults",
            fault=len(self.tables["faults"]) + 1,
            kind=kind,
            targets=list(targets),
            parameters=json.dumps({}),
            started_ns=started * MS,
            held_ns=None if held_ms is None else held_ms * MS,
            ended_ns=None if ended is None else ended * MS,
            took_hold=took_hold,
            healed=healed,
            evidence="the test says so",
        )

    def repeated(
        self, value: int, copies: Sequence[tuple[int, int, int | None]], *, brokers: Sequence[int] = (1, 2, 3)
    ) -> None:
        """The logs after the run hold a value several times: offset, producer id and producer epoch of each copy."""
        for broker in brokers:
            for sequence, (offset, producer_id, epoch) in enumerate(copies):
                self.row(
                    "repeats",
                    broker=broker,
                    topic=TOPIC,
                    partition=0,
                    offset=offset,
                    value=value,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    sequence=sequence,
                )

    def loss(self, node: int, at_ms: int, words: str = "", *, exempt: Sequence[str] = ()) -> None:
        """A node that ended by itself."""
        self.row("losses", node=node, at_ns=at_ms * MS, exit_status=1, last_words=words, exempt=list(exempt))

    def sampled(
        self,
        at_ms: int,
        leader: int,
        epoch: int | None,
        *,
        isr: Sequence[int] = (1, 2, 3),
        elr: Sequence[int] = (),
        high_watermark: int = 0,
        brokers: Sequence[int] = (1, 2, 3),
        partition: int = 0,
        log_start: int = 0,
        topic: str = TOPIC,
    ) -> None:
        """All `brokers` are sampled at one time and agree; a design without leader epochs has none."""
        for broker in brokers:
            self.row(
                "cluster",
                at_ns=at_ms * MS,
                broker=broker,
                topic=topic,
                partition=partition,
                role="leader" if broker == leader else "follower",
                leader=leader,
                leader_epoch=epoch,
                log_start=log_start,
                log_end=high_watermark,
                high_watermark=high_watermark,
                isr=list(isr),
                elr=list(elr),
                broker_epoch=1,
            )

    def log(
        self,
        broker: int,
        values: Sequence[int | None],
        *,
        high_watermark: int | None = None,
        epoch: int = 0,
        epochs: Sequence[int] = (),
        first: int = 0,
        topic: str = TOPIC,
    ) -> None:
        """The log of one replica after the run."""
        for index, value in enumerate(values):
            self.row(
                "logs",
                broker=broker,
                topic=topic,
                partition=0,
                offset=first + index,
                leader_epoch=epochs[index] if epochs else epoch,
                value=value,
                crc=(value or 0) & 0xFFFF,
                high_watermark=first + len(values) if high_watermark is None else high_watermark,
            )

    def write(self, directory: Path) -> Path:
        """Write the tables into a run directory of this name; returns it."""
        run = directory / self.name
        for table, rows in self.tables.items():
            if not rows:
                continue
            parts = run / "history" / table
            parts.mkdir(parents=True)
            pq.write_table(pa.Table.from_pylist(rows, schema=TABLES[table]), parts / "part-t-000000.parquet")
        (run / "history").mkdir(parents=True, exist_ok=True)
        return run
