"""How long a check takes: a run of N operations is made up, then Spark is started and the run is checked.

    python -m benchmarks.checkers --operations 200000

Prints the time of each step and operations per second. The run is a correct broker's: sends and reads in equal
numbers over four partitions with three replicas, ten faults, two samples a second, logs dumped.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from checkers.check import check
from checkers.spark import start_session
from history.schema import TABLES

TOPIC = "log"
PARTITIONS = 4
BROKERS = (1, 2, 3)
SECONDS = 120
NS = 1_000_000_000
RECORDS_PER_POLL = 20
FILES = 60


def write(run: Path, table: str, columns: dict[str, object], parts: int = 1) -> None:
    schema = TABLES[table]
    rows = max(len(column) for column in columns.values() if isinstance(column, list | np.ndarray))
    arrays = []
    for field in schema:
        column = columns.get(field.name)
        if field.name == "run_id":
            column = "benchmark"
        if isinstance(column, list | np.ndarray):
            arrays.append(pa.array(column, field.type))
        else:
            arrays.append(pa.array([column] * rows, field.type))
    whole = pa.Table.from_arrays(arrays, schema=schema)
    directory = run / "history" / table
    directory.mkdir(parents=True)
    for part, begin in enumerate(range(0, rows, -(-rows // parts))):
        pq.write_table(whole.slice(begin, -(-rows // parts)), directory / f"part-b-{part:06d}.parquet")


def make_run(run: Path, operations: int) -> None:
    """Write the history of a run with `operations` sends and polls in the proportion of a real one."""
    sends = operations * 9 // 10
    polls_per_reader = operations // 20
    random = np.random.default_rng(1)
    invoked = np.sort(random.integers(0, SECONDS * NS, sends))
    partition = random.integers(0, PARTITIONS, sends).astype(np.int32)
    offset = np.zeros(sends, np.int64)
    ends = []
    for number in range(PARTITIONS):
        mine = np.flatnonzero(partition == number)
        offset[mine] = np.arange(mine.size)
        ends.append(int(mine.size))
    completed = invoked + random.integers(1, 5, sends) * 1_000_000
    ops = {
        "op": [np.arange(sends)],
        "process": [np.arange(sends) % 32],
        "kind": [np.full(sends, "send")],
        "phase": [np.full(sends, "main")],
        "invoked_ns": [invoked],
        "completed_ns": [completed],
    }
    polls: dict[str, list[object]] = {
        name: [] for name in ("op", "partition", "position", "next_position", "records", "assigned")
    }
    reads: dict[str, list[object]] = {name: [] for name in ("op", "partition", "offset", "value", "ordinal")}
    op = sends
    for process, phase, begins in ((100, "main", 0), (101, "final", SECONDS + 5), (102, "final", SECONDS + 5)):
        now = begins * NS
        for number in range(PARTITIONS):
            values = np.flatnonzero(partition == number)
            step = max(1, ends[number] * PARTITIONS // polls_per_reader, RECORDS_PER_POLL)
            for position in range(0, ends[number], step):
                chunk = values[position : position + step]
                last = int(completed[chunk[-1]])
                now = max(now + 1_000, last + 1_000_000 if phase == "main" else 0)
                for name, value in (("op", op), ("process", process), ("kind", "poll"), ("phase", phase)):
                    ops[name].append(np.array([value]))
                ops["invoked_ns"].append(np.array([now]))
                ops["completed_ns"].append(np.array([now + 500]))
                row = (op, number, position, position + chunk.size, chunk.size, position == 0)
                for name, value in zip(polls, row, strict=True):
                    polls[name].append(value)
                reads["op"].append(np.full(chunk.size, op))
                reads["partition"].append(np.full(chunk.size, number))
                reads["offset"].append(np.arange(position, position + chunk.size))
                reads["value"].append(chunk)
                reads["ordinal"].append(np.arange(chunk.size))
                op += 1
    settings = {
        "brokers": 3, "replication_factor": 3, "min_insync_replicas": 2, "acks": -1, "idempotence": True,
        "unclean_election": False, "workers": 1, "faults_wanted": True, "unavailable_after_ms": 30_000,
    }  # fmt: skip
    write(run, "runs", {**settings, "name": ["benchmark"]})
    write(run, "operations", {**{name: np.concatenate(parts) for name, parts in ops.items()}, "status": "ok"}, FILES)
    write(run, "sends", {"op": np.arange(sends), "topic": TOPIC, "partition": partition, "value": np.arange(sends), "acks": -1, "offset": offset, "ordinal": 0}, FILES)  # fmt: skip
    write(run, "polls", {**polls, "topic": TOPIC}, FILES)
    write(
        run,
        "reads",
        {**{name: np.concatenate(parts) for name, parts in reads.items()}, "topic": TOPIC, "leader_epoch": 0},
        FILES,
    )
    numbers = np.arange(1, 11)
    write(run, "faults", {
        "fault": numbers, "kind": "kill", "targets": [[1 + int(n) % 3] for n in numbers], "started_ns": numbers * 10 * NS,
        "ended_ns": numbers * 10 * NS + 4 * NS, "took_hold": True, "healed": True,
    })  # fmt: skip
    samples = [
        (tick * NS // 2, broker, number)
        for tick in range(2 * SECONDS)
        for number in range(PARTITIONS)
        for broker in BROKERS
    ]
    write(run, "cluster", {
        "at_ns": [sample[0] for sample in samples], "broker": [sample[1] for sample in samples],
        "partition": [sample[2] for sample in samples], "topic": TOPIC, "leader": 1, "leader_epoch": 0, "log_start": 0,
        "role": ["leader" if sample[1] == 1 else "follower" for sample in samples], "isr": [[1, 2, 3]] * len(samples),
        "elr": [[]] * len(samples), "high_watermark": 0, "log_end": 0, "broker_epoch": 1,
    }, FILES)  # fmt: skip
    write(run, "logs", {
        "broker": np.repeat(BROKERS, sends), "topic": TOPIC, "partition": np.tile(partition, 3), "offset": np.tile(offset, 3),
        "leader_epoch": 0, "value": np.tile(np.arange(sends), 3), "crc": 0,
        "high_watermark": np.tile(np.array(ends)[partition], 3),
    }, FILES)  # fmt: skip
    write(run, "ends", {"topic": TOPIC, "partition": list(range(PARTITIONS)), "end_offset": ends, "agreed": True})
    phases = {"main": (0, SECONDS), "recovery": (SECONDS, SECONDS + 5), "final": (SECONDS + 5, SECONDS + 20)}
    write(run, "phases", {
        "phase": list(phases), "started_ns": [begin * NS for begin, _ in phases.values()],
        "ended_ns": [end * NS for _, end in phases.values()],
    })  # fmt: skip
    write(run, "workers", {"worker": [0], "operations": operations})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=200_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--repeat", type=int, default=1, help="checks in the same session")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        make_run(run, arguments.operations)
        began = time.monotonic()
        session = start_session(arguments.master)
        started = time.monotonic()
        print(f"session {started - began:.1f} s")
        for _ in range(arguments.repeat):
            before = time.monotonic()
            (result,) = check([run], session)
            took = time.monotonic() - before
            print(
                f"check of {result.counts['operations']:,} operations, {result.counts['records_read']:,} records read: "
                f"{result.verdict} after {took:.1f} s, {result.counts['operations'] / took:,.0f} operations/s"
            )
            for reason in result.reasons:
                print(f"  {reason}")
        print(f"all in all {time.monotonic() - began:.1f} s on {arguments.master}")


if __name__ == "__main__":
    main()
