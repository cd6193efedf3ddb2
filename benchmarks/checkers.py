"""How long a check takes: a run of N events is made up, then Spark is started and the run is checked.

    python -m benchmarks.checkers --events 400000
    python -m benchmarks.checkers --events 10000000

An operation is two events, as Jepsen counts them: it begins, and it ends. Prints the time of each step, events a
second, and the most memory that the Java process held, beside what Jepsen's checker was seen to do. The run is a
correct broker's over two minutes: nine sends to one poll, every record read three times over four partitions with
three replicas, ten faults, two samples a second, logs dumped.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from checkers.check import ROWS_LARGE, check, rows_of
from checkers.spark import start_session
from checkers.tables import survey
from history.schema import TABLES

TOPIC = "log"
PARTITIONS = 4
BROKERS = (1, 2, 3)
SECONDS = 120
FINAL_S = SECONDS + 5
NS = 1_000_000_000
RECORDS_PER_POLL_MIN = 20
JEPSEN = (
    "Jepsen's Kafka checker on two such cores: 6,000 to 15,000 events/s, falling with size; 4.3 GB at 400,000 events"
)
FILES = 60
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


def write(run: Path, table: str, columns: dict[str, object], files: int = 1) -> None:
    """Write a table; a column that is no sequence has one value for all rows."""
    rows = next(len(column) for column in columns.values() if isinstance(column, list | np.ndarray))
    directory = run / "history" / table
    directory.mkdir(parents=True)
    each = -(-rows // files)
    for number, begin in enumerate(range(0, rows, each)):
        length = min(each, rows - begin)
        arrays = []
        for field in TABLES[table]:
            column = "benchmark" if field.name == "run_id" else columns.get(field.name)
            listed = isinstance(column, list | np.ndarray)
            arrays.append(pa.array(column[begin : begin + length] if listed else [column] * length, field.type))
        part = pa.Table.from_arrays(arrays, schema=TABLES[table])
        pq.write_table(part, directory / f"part-b-{number:06d}.parquet")


def make_run(run: Path, operations: int) -> None:
    """Write the history of a run of about this many operations."""
    random = np.random.default_rng(1)
    sends = operations * 9 // 10
    invoked = np.sort(random.integers(0, SECONDS * NS, sends))
    completed = invoked + random.integers(1, 5, sends) * 1_000_000
    partition = random.integers(0, PARTITIONS, sends).astype(np.int32)
    values = [np.flatnonzero(partition == number) for number in range(PARTITIONS)]
    offset = np.zeros(sends, np.int64)
    for mine in values:
        offset[mine] = np.arange(mine.size)
    ends = np.array([mine.size for mine in values])
    polls = make_polls(
        values, completed, first_op=sends, records=max(3 * sends * 10 // operations, RECORDS_PER_POLL_MIN)
    )
    write_clients(run, polls, invoked, completed, partition, offset)
    write_cluster(run)
    replicas = len(BROKERS)
    logs = {
        "broker": np.repeat(BROKERS, sends),
        "topic": TOPIC,
        "partition": np.tile(partition, replicas),
        "offset": np.tile(offset, replicas),
        "leader_epoch": 0,
        "value": np.tile(np.arange(sends), replicas),
        "crc": 0,
        "high_watermark": np.tile(ends[partition], replicas),
    }
    write(run, "logs", logs, FILES)
    write(run, "ends", {"topic": TOPIC, "partition": list(range(PARTITIONS)), "end_offset": ends, "agreed": True})
    write(run, "runs", SETTINGS)
    write(run, "workers", {"worker": [0], "operations": operations})


def make_polls(
    values: list[np.ndarray], completed: np.ndarray, first_op: int, records: int
) -> list[tuple[int, int, str, int, int, int, np.ndarray]]:
    """Make one live reader and two of the final phase: (op, process, phase, invoked, partition, position, values)."""
    polls = []
    op = first_op
    for process, phase in ((100, "main"), (101, "final"), (102, "final")):
        for partition, mine in enumerate(values):
            now = FINAL_S * NS
            for position in range(0, mine.size, records):
                chunk = mine[position : position + records]
                now = int(completed[chunk].max()) + 1_000_000 if phase == "main" else now + 1_000
                polls.append((op, process, phase, now, partition, position, chunk))
                op += 1
    return polls


def write_clients(run: Path, polls, invoked, completed, partition, offset) -> None:
    sends = invoked.size
    sent = np.arange(sends)
    began = np.array([poll[3] for poll in polls])
    sizes = np.array([poll[6].size for poll in polls])
    number = np.array([poll[0] for poll in polls])
    position = np.array([poll[5] for poll in polls])
    of_partition = np.array([poll[4] for poll in polls])
    operations = {
        "op": np.concatenate([sent, number]),
        "process": np.concatenate([sent % 32, [poll[1] for poll in polls]]),
        "kind": ["send"] * sends + ["poll"] * len(polls),
        "status": "ok",
        "phase": ["main"] * sends + [poll[2] for poll in polls],
        "invoked_ns": np.concatenate([invoked, began]),
        "completed_ns": np.concatenate([completed, began + 500]),
    }
    write(run, "operations", operations, FILES)
    columns = {"op": sent, "topic": TOPIC, "partition": partition, "value": sent, "acks": -1, "offset": offset}
    write(run, "sends", {**columns, "ordinal": 0}, FILES)
    polled = {
        "op": number,
        "topic": TOPIC,
        "partition": of_partition,
        "position": position,
        "next_position": position + sizes,
        "records": sizes,
        "assigned": position == 0,
    }
    write(run, "polls", polled, FILES)
    ordinal = np.concatenate([np.arange(size) for size in sizes])
    read = {
        "op": np.repeat(number, sizes),
        "topic": TOPIC,
        "partition": np.repeat(of_partition, sizes),
        "offset": np.repeat(position, sizes) + ordinal,
        "leader_epoch": 0,
        "value": np.concatenate([poll[6] for poll in polls]),
        "ordinal": ordinal,
    }
    write(run, "reads", read, FILES)


def write_cluster(run: Path) -> None:
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
    write(run, "faults", faults)
    ticks = [
        (tick, broker, number) for tick in range(2 * SECONDS) for number in range(PARTITIONS) for broker in BROKERS
    ]
    samples = {
        "at_ns": [tick * NS // 2 for tick, _, _ in ticks],
        "broker": [broker for _, broker, _ in ticks],
        "topic": TOPIC,
        "partition": [number for _, _, number in ticks],
        "role": ["leader" if broker == 1 else "follower" for _, broker, _ in ticks],
        "leader": 1,
        "leader_epoch": 0,
        "log_start": 0,
        "log_end": 0,
        "high_watermark": 0,
        "isr": [list(BROKERS)] * len(ticks),
        "elr": [[]] * len(ticks),
        "broker_epoch": 1,
    }
    write(run, "cluster", samples, FILES)
    phases = {"main": (0, SECONDS), "recovery": (SECONDS, FINAL_S), "final": (FINAL_S, FINAL_S + 20)}
    starts, stops = zip(*phases.values(), strict=True)
    write(run, "phases", {"phase": list(phases), "started_ns": np.array(starts) * NS, "ended_ns": np.array(stops) * NS})


def processor_seconds(session: SparkSession) -> float:
    """Processor time of Java and of its Python workers: what a check costs, however busy the machine is otherwise."""
    return sum(_processor_seconds(process) for process in _with_children(session.sparkContext._gateway.proc.pid))


def _with_children(process: int) -> Iterator[int]:
    yield process
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _with_children(int(child))


def _processor_seconds(process: int) -> float:
    """Include what children used that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def peak_memory_gb(session: SparkSession) -> float:
    """The most memory that the Java process of a session ever held, in GB."""
    java = session.sparkContext._gateway.proc.pid
    lines = Path(f"/proc/{java}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--repeat", type=int, default=1, help="checks in the same session")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        make_run(run, arguments.events // 2)
        began = time.monotonic()
        session = start_session(arguments.master, large=rows_of([survey(run)]) > ROWS_LARGE)
        print(f"session: {time.monotonic() - began:.1f} s, load {os.getloadavg()[0]:.1f}", flush=True)
        for _ in range(arguments.repeat):
            before, used = time.monotonic(), processor_seconds(session)
            (result,) = check([run], session)
            took = time.monotonic() - before
            operations = result.counts["operations"]
            print(
                f"check of {operations:,} operations and {result.counts['records_read']:,} records read: {took:.1f} s, "
                f"{2 * operations / took:,.0f} events/s, "
                f"{processor_seconds(session) - used:.1f} s of processor time, {peak_memory_gb(session):.1f} GB, "
                f"{result.verdict}, load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
            for reason in result.reasons:
                print(f"  {reason}")
        print(f"all in all: {time.monotonic() - began:.1f} s on {arguments.master}")
        print(JEPSEN)


if __name__ == "__main__":
    main()
