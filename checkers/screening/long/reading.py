"""Reads a chunk, and writes its rows in blocks: what screening compares, what orders answers, and the summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from checkers.input.run_facts import RunFacts
from checkers.screening.columns import Flags, Longs, numbers, plain
from checkers.screening.kernel_rows import replicas_of, rows_of_logs, rows_of_reads, rows_of_sends
from checkers.screening.long.blocks import (
    ASKED,
    LOG,
    READ,
    SENT,
    Block,
    Layout,
    Place,
    Values,
    blocks_of,
    narrowed,
    values_of,
)
from checkers.screening.long.chunks import CLIENT_TABLES, ClientChunk, LogChunk
from checkers.screening.long.summary import ChunkSummary, LoggedReplica
from checkers.screening.long.tally import NOTHING, Tally
from checkers.screening.ordinary.answers import Polls, asked_for_end
from checkers.screening.ordinary.availability import telling_polls, telling_sends
from checkers.screening.ordinary.loaded import LOADED, RETURNED, LoadedHistory
from checkers.screening.ordinary.records import malformed
from checkers.screening.stretches import BAD, NOWHERE, Rows
from history.schema import TABLES

NOT_HAPPENED: Final = -1
"""Stands for the end of a send that is not known to have happened."""

Item = Block | Values | ChunkSummary
_UNREADABLE: Final = (OSError, pa.ArrowException, UnicodeDecodeError)
_OF_SENDS: Final = ("offset", "value", "marks", "invoked_ns", "completed_ns")
_OF_READS: Final = ("offset", "value", "marks", "epoch", "op")
_OF_LOGS: Final = (*_OF_READS, "broker")
_OF_OPERATIONS: Final = ("run_id", "op", "process", "kind", "status", "node", "phase", "invoked_ns", "completed_ns")


def read_chunk(chunk: ClientChunk | LogChunk, facts: RunFacts, layout: Layout) -> Iterator[tuple[int, Item]]:
    """Yield what is in a chunk, and the task that gets it; no block if it shows that the run is not ordinary."""
    pa.set_cpu_count(1)
    try:
        items = _of_clients(chunk, facts, layout) if isinstance(chunk, ClientChunk) else _of_logs(chunk, facts, layout)
        yield from items
    except _UNREADABLE:
        yield layout.task_of_share(0), ChunkSummary(ordinary=False)


def loaded(tables: dict[str, pa.Table], facts: RunFacts) -> LoadedHistory:
    """Return a history of one run; tables that are not given are empty."""
    missing = {name: TABLES[name].empty_table() for name in LOADED if name not in tables}
    return LoadedHistory({**missing, **tables}, [facts])


def _of_clients(chunk: ClientChunk, facts: RunFacts, layout: Layout) -> Iterator[tuple[int, Item]]:
    history = loaded({table: chunk.read(table) for table in CLIENT_TABLES}, facts)
    sends, reads = history.tables["sends"], history.tables["reads"]
    sent = rows_of_sends(sends, history.partition["sends"], history.op["sends"], history.performed)
    read = rows_of_reads(reads, history.partition["reads"], history.op["reads"], history.performed)
    if not history.whole or any(runs.size for runs in malformed(history)) or _any_bad(sent) or _any_bad(read):
        yield layout.task_of_share(0), ChunkSummary(ordinary=False)
        return
    ok = history.status("sends", "ok")
    sent["invoked_ns"] = history.of_operation("sends", "invoked_ns")
    sent["completed_ns"] = np.where(ok, history.of_operation("sends", "completed_ns"), NOT_HAPPENED)
    placed = sent["offset"] != NOWHERE
    yield from _blocks(SENT, history, _chosen(sent, _OF_SENDS, None if placed.all() else placed), layout)
    yield from _blocks(READ, history, _chosen(read, _OF_READS), layout)
    polls = Polls(history)
    asked, shown = asked_for_end(history, polls)
    answers = {"partition_key": history.partition["polls"], "offset": shown, "invoked_ns": polls.invoked}
    yield from _blocks(ASKED, history, {name: column[asked] for name, column in answers.items()}, layout)
    for number, values in values_of(sent["value"]):
        yield number % layout.tasks, values
    for summary in _summaries(history, sent["value"][~placed], layout):
        yield layout.task_of_share(summary.share), summary


def _summaries(history: LoadedHistory, without_offset: Longs, layout: Layout) -> Iterator[ChunkSummary]:
    """Summarize a chunk for each share. The numbers are those of the whole chunk, and in the first one."""
    rows = telling_sends(history)
    of_shares = {
        "sends": (history.tables["sends"].take(pa.array(rows)), history.partition["sends"][rows]),
        "polls": (history.tables["polls"], history.partition["polls"]),
        RETURNED: (history.returned.table, history.returned.partition),
    }
    share_of_place = np.array([layout.share_of(place) for place in _places(history)], np.int64)
    operations = history.tables["operations"].select(_OF_OPERATIONS)
    of_all = numbers(operations, "op")[telling_polls(history)]
    for share in range(layout.shares):
        tables = {
            name: table.filter(pa.array(share_of_place[partition] == share))
            for name, (table, partition) in of_shares.items()
        }
        ops = np.concatenate([of_all, *(numbers(table, "op") for table in tables.values())])
        tables["operations"] = operations.filter(pa.array(np.isin(numbers(operations, "op"), ops)))
        yield ChunkSummary(
            ordinary=True,
            share=share,
            tally=NOTHING if share else Tally.of(history),
            tables={name: plain(table) for name, table in tables.items()},
            without_offset=None if share else narrowed(without_offset),
        )


def _of_logs(chunk: LogChunk, facts: RunFacts, layout: Layout) -> Iterator[tuple[int, Item]]:
    history = loaded({"logs": chunk.read()}, facts)
    rows = rows_of_logs(history.tables["logs"], history.partition["logs"])
    if not history.whole or _any_bad(rows):
        yield layout.task_of_share(0), ChunkSummary(ordinary=False)
        return
    yield from _blocks(LOG, history, _chosen(rows, _OF_LOGS), layout)
    replicas, of_replicas = replicas_of(history.tables["logs"], history.partition["logs"])
    places = _places(history)
    columns = (replicas.column(name).to_pylist() for name in ("broker", "watermark_min", "watermark_max", "rows"))
    logged = (LoggedReplica(places[place], *row) for place, *row in zip(of_replicas.tolist(), *columns, strict=True))
    yield layout.task_of_share(0), ChunkSummary(ordinary=True, tally=Tally.of(history), replicas=tuple(logged))


def _blocks(kind: int, history: LoadedHistory, rows: Rows, layout: Layout) -> Iterator[tuple[int, Block]]:
    partition = rows.pop("partition_key")
    for block in blocks_of(kind, _places(history), partition, rows):
        yield layout.task_of(block.key), block


def _places(history: LoadedHistory) -> Sequence[Place]:
    columns = (plain(history.partitions).column(name).to_pylist() for name in ("topic", "partition"))
    return list(zip(*columns, strict=True))


def _chosen(rows: Rows, names: Sequence[str], choice: Flags | None = None) -> Rows:
    columns = {name: rows[name] for name in ("partition_key", *names)}
    return columns if choice is None else {name: column[choice] for name, column in columns.items()}


def _any_bad(rows: Rows) -> bool:
    return bool((rows["marks"] & BAD).any())
