"""Generates a history of any length, as of a correct broker in two minutes, and writes it in pieces.

Nine sends to one poll; every record is read three times, by one live reader and two of the final phase, over four
partitions with three replicas; ten faults, two samples a second, logs dumped. A piece is a stretch of time, one part
file of each large table; only one is ever in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from history.compaction import ROWS_OF_A_ROW_GROUP
from history.schema import TABLES

TOPIC = "log"
PARTITIONS = 4
BROKERS = (1, 2, 3)
SECONDS = 120
FINAL_S = SECONDS + 5
NS = 1_000_000_000
RECORDS_PER_POLL = 27
"""Three reads of each record, and one operation in ten a poll."""
PIECES_MIN = 60
OPERATIONS_OF_A_PIECE = 500_000
LIVE, FINAL = (100,), (101, 102)
"""Processes of readers."""
SETTINGS = {
    "name": ["benchmark"],
    "brokers": len(BROKERS),
    "replication_factor": 3,
    "min_insync_replicas": 2,
    "acks": -1,
    "idempotence": True,
    "unclean_election": False,
    "workers": 1,
    "faults_wanted": True,
    "unavailable_after_ms": 30_000,
}

Longs = npt.NDArray[np.int64]
Columns = dict[str, object]


@dataclass(frozen=True)
class Traits:
    """What is not as in the plainest history."""

    skew: float = 0.0
    """The share of all sends that go to the first partition, beside its part of the others."""
    unknown: float = 0.0
    """The share of all sends that were not answered, and happened all the same."""


@dataclass(frozen=True)
class Piece:
    """The sends of a stretch of time, one element each."""

    number: int
    value: Longs
    """Of the record."""
    invoked_ns: Longs
    completed_ns: Longs
    partition: Longs
    offset: Longs
    answered: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Polls:
    """What one reader polls of one partition in a piece, one element a poll."""

    process: int
    partition: int
    invoked_ns: Longs
    position: Longs
    sizes: Longs
    values: Longs
    """Of all records, in order."""


def make_history(run: Path, operations: int, traits: Traits = Traits()) -> None:
    """Write the history of a run of about so many operations."""
    sends = operations * 9 // 10
    pieces = max(PIECES_MIN, operations // OPERATIONS_OF_A_PIECE)
    bounds = np.linspace(0, sends, pieces + 1).astype(np.int64)
    counts = [np.bincount(_partitions(piece, bounds, traits.skew), minlength=PARTITIONS) for piece in range(pieces)]
    ends = np.sum(counts, axis=0)
    reached = np.zeros(PARTITIONS, np.int64)
    next_op = 0  # in the order of time, as workers number their operations
    for number in range(pieces):
        piece = _piece(number, bounds, reached, traits)
        polls = list(_polls(piece))
        _write_clients(run, piece, polls, next_op)
        _write_logs(run, piece, ends)
        next_op += piece.value.size + sum(each.position.size for each in polls)
        reached += counts[number]
    _write_cluster(run)
    _write(run, "ends", {"topic": TOPIC, "partition": np.arange(PARTITIONS), "end_offset": ends, "agreed": True})
    _write(run, "runs", SETTINGS)
    _write(run, "workers", {"worker": [0], "operations": next_op})


def replace_a_record(run: Path) -> None:
    """Have all reads and logs show a value that nobody sent, where one of the middle of the run was acknowledged."""
    sends = sorted((run / "history" / "sends").glob("*.parquet"))
    middle = sends[len(sends) // 2]
    lost = pq.read_table(middle).column("value")[0].as_py()
    for table in ("reads", "logs"):
        part = run / "history" / table / middle.name
        rows = pq.read_table(part)
        number = rows.schema.get_field_index("value")
        shown = pc.if_else(pc.equal(rows.column(number), lost), -1, rows.column(number))
        rows = rows.set_column(number, rows.schema.field(number), shown)
        pq.write_table(rows, part, row_group_size=ROWS_OF_A_ROW_GROUP)


def _partitions(number: int, bounds: Longs, skew: float) -> Longs:
    size = int(bounds[number + 1] - bounds[number])
    random = np.random.default_rng([1, number])
    partition = random.integers(0, PARTITIONS, size)
    return np.where(random.random(size) < skew, 0, partition)


def _piece(number: int, bounds: Longs, reached: Longs, traits: Traits) -> Piece:
    """Generate the sends of one piece, in order of their invocation. `reached`: the earlier end of each partition."""
    random = np.random.default_rng([2, number])
    partition = _partitions(number, bounds, traits.skew)
    pieces = bounds.size - 1
    begins, ends = (SECONDS * NS * each // pieces for each in (number, number + 1))
    invoked_ns = np.sort(random.integers(begins, ends, partition.size))
    offset = np.zeros(partition.size, np.int64)
    for each in range(PARTITIONS):
        mine = np.flatnonzero(partition == each)
        offset[mine] = reached[each] + np.arange(mine.size)
    return Piece(
        number,
        value=np.arange(bounds[number], bounds[number + 1]),
        invoked_ns=invoked_ns,
        completed_ns=invoked_ns + random.integers(1, 5, partition.size) * 1_000_000,
        partition=partition,
        offset=offset,
        answered=random.random(partition.size) >= traits.unknown,
    )


def _polls(piece: Piece) -> Iterator[Polls]:
    for process in (*LIVE, *FINAL):
        for partition in range(PARTITIONS):
            mine = piece.partition == partition
            values, offset = piece.value[mine], piece.offset[mine]
            if not values.size:
                continue
            number = max(1, round(values.size / RECORDS_PER_POLL))
            starts = np.linspace(0, values.size, number, endpoint=False).astype(np.int64)
            position = offset[starts]
            if process in LIVE:  # once all of them are acknowledged, and after the poll before
                told_ns = np.maximum.reduceat(piece.completed_ns[mine], starts)
                invoked_ns = np.maximum.accumulate(told_ns) + 1_000_000
            else:
                invoked_ns = FINAL_S * NS + position * 20  # a poll takes less than the records that it returns
            yield Polls(process, partition, invoked_ns, position, np.diff(starts, append=values.size), values)


def _write_clients(run: Path, piece: Piece, polls: list[Polls], next_op: int) -> None:
    def joined(name: str) -> Longs:
        return np.concatenate([np.empty(0, np.int64), *(getattr(each, name) for each in polls)])

    def each_poll(name: str) -> Longs:
        return np.repeat([getattr(each, name) for each in polls], [each.position.size for each in polls])

    sizes, position, invoked_ns, process = (
        joined("sizes"),
        joined("position"),
        joined("invoked_ns"),
        each_poll("process"),
    )
    op_of_sends = next_op + np.arange(piece.value.size)
    op, partition = next_op + piece.value.size + np.arange(position.size), each_poll("partition")
    phase = pa.array(["main", "final"]).take(pa.array(np.isin(process, FINAL).astype(np.int8)))
    status = pa.array(["info", "ok"]).take(pa.array(piece.answered.astype(np.int8)))
    of_sends = {"process": piece.value % 32, "kind": "send", "phase": "main", "op": op_of_sends, "status": status}
    of_sends |= {"invoked_ns": piece.invoked_ns, "completed_ns": pa.array(piece.completed_ns, mask=~piece.answered)}
    of_polls = {"op": op, "process": process, "kind": "poll", "status": "ok", "phase": phase}
    of_polls |= {"invoked_ns": invoked_ns, "completed_ns": invoked_ns + 500}
    _write(run, "operations", of_sends, of_polls, part=piece.number)
    records = {"op": op_of_sends, "topic": TOPIC, "partition": piece.partition, "value": piece.value}
    offset = pa.array(piece.offset, mask=~piece.answered)
    _write(run, "sends", {**records, "acks": -1, "offset": offset, "ordinal": 0}, part=piece.number)
    polled = {"op": op, "topic": TOPIC, "partition": partition, "position": position, "next_position": position + sizes}
    _write(run, "polls", {**polled, "records": sizes, "assigned": position == 0}, part=piece.number)
    ordinal = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    read = {"op": np.repeat(op, sizes), "topic": TOPIC, "partition": np.repeat(partition, sizes), "leader_epoch": 0}
    read |= {"offset": np.repeat(position, sizes) + ordinal, "value": joined("values"), "ordinal": ordinal}
    _write(run, "reads", read, part=piece.number)


def _write_logs(run: Path, piece: Piece, ends: Longs) -> None:
    records = {"topic": TOPIC, "partition": piece.partition, "offset": piece.offset, "leader_epoch": 0, "crc": 0}
    records |= {"value": piece.value, "high_watermark": ends[piece.partition]}
    _write(run, "logs", *({"broker": broker, **records} for broker in BROKERS), part=piece.number)


def _write_cluster(run: Path) -> None:
    numbers = np.arange(1, 11)
    faults = {
        "fault": numbers,
        "kind": "kill",
        "targets": [[1 + int(number) % 3] for number in numbers],
        "started_ns": numbers * 10 * NS,
        "ended_ns": numbers * 10 * NS + 4 * NS,
        "took_hold": True,
        "healed": True,
    }
    _write(run, "faults", faults)
    ticks = [
        (tick, number, broker) for tick in range(2 * SECONDS) for number in range(PARTITIONS) for broker in BROKERS
    ]
    samples = {
        "at_ns": [tick * NS // 2 for tick, _, _ in ticks],
        "broker": [broker for _, _, broker in ticks],
        "topic": TOPIC,
        "partition": [number for _, number, _ in ticks],
        "role": ["leader" if broker == 1 else "follower" for _, _, broker in ticks],
        "leader": 1,
        "leader_epoch": 0,
        "log_start": 0,
        "log_end": 0,
        "high_watermark": 0,
        "isr": [list(BROKERS)] * len(ticks),
        "elr": [[]] * len(ticks),
        "broker_epoch": 1,
        "last_known_elr": [[]] * len(ticks),
    }
    each = -(-len(ticks) // PIECES_MIN)
    for part, begin in enumerate(range(0, len(ticks), each)):
        piece = {
            name: column[begin : begin + each] if isinstance(column, list) else column
            for name, column in samples.items()
        }
        _write(run, "cluster", piece, part=part)
    phases = {"main": (0, SECONDS), "recovery": (SECONDS, FINAL_S), "final": (FINAL_S, FINAL_S + 20)}
    starts, stops = zip(*phases.values(), strict=True)
    _write(
        run, "phases", {"phase": list(phases), "started_ns": np.array(starts) * NS, "ended_ns": np.array(stops) * NS}
    )


def _write(run: Path, table: str, *groups: Columns, part: int = 0) -> None:
    """Write a part of a table: concatenated groups of rows. A column that is no sequence has one value for all rows."""
    directory = run / "history" / table
    directory.mkdir(parents=True, exist_ok=True)
    tables = [pa.Table.from_arrays(list(_arrays(table, columns)), schema=TABLES[table]) for columns in groups]
    rows = pa.concat_tables(tables)
    pq.write_table(rows, directory / f"part-b-{part:06d}.parquet", row_group_size=ROWS_OF_A_ROW_GROUP)


def _arrays(table: str, columns: Columns) -> Iterator[pa.Array]:
    rows = next(len(column) for column in columns.values() if isinstance(column, list | np.ndarray))
    for field in TABLES[table]:
        column = "benchmark" if field.name == "run_id" else columns.get(field.name)
        if isinstance(column, pa.Array):
            yield column
        elif isinstance(column, list | np.ndarray):
            yield pa.array(column, field.type)
        else:
            yield pa.nulls(rows, field.type) if column is None else pa.repeat(pa.scalar(column, field.type), rows)
