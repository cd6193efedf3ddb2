"""Measures appends to a log: `python -m benchmarks.broker.log_append [--memory]`.

Per workload: microseconds per append and MB/s, for a leader (copy, stamp, index, one write) and a follower (checksum,
index, one write), and microseconds per read at the log's end; of ten rounds the fastest. Real files in a temporary
directory, never synced, unless `--memory` asks for the disk in memory that the tests use.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from broker.core.log.log import Log, LogConfig
from broker.core.ports.files import Files
from broker.core.records import encode_batch, stamped
from broker.shell.files.posix_files import PosixFiles
from tests.support.memory_files import MemoryFiles

WORKLOADS = [(1, 100, 100_000), (10, 100, 50_000), (100, 100, 20_000), (1000, 1000, 500)]
"""(records per batch, bytes per value, batches)."""
ROUNDS = 10


def fastest_seconds(rounds: Iterable[Callable[[], None]], repetitions: int) -> float:
    """Seconds per repetition in the fastest round, which other load of the machine disturbed least."""
    durations = []
    for run in rounds:
        started = time.perf_counter()
        run()
        durations.append(time.perf_counter() - started)
    return min(durations) / repetitions


def measure(files: Files, records: int, value_bytes: int, batches: int) -> tuple[int, float, float, float]:
    leader = Log.open(files, "leader-0", LogConfig(), clean=True)
    batch = encode_batch([(None, bytes(value_bytes))] * records, 0, 0, 0, 1, 0, 0)
    headers = leader.check_batches(batch)
    assert isinstance(headers, tuple)
    per_round = batches // ROUNDS

    def lead() -> None:
        for _ in range(per_round):
            leader.append_as_leader(batch, 1, headers)

    leading = fastest_seconds([lead] * ROUNDS, per_round)

    follower = Log.open(files, "follower-0", LogConfig(), clean=True)
    prepared = [stamped(batch, index * records, 1) for index in range(per_round * ROUNDS)]

    def follow(first: int) -> None:
        for data in prepared[first : first + per_round]:
            follower.append_as_follower(data, 1)

    following = fastest_seconds([partial(follow, first) for first in range(0, len(prepared), per_round)], per_round)

    end = leader.end_offset

    def read() -> None:
        for index in range(2000):
            leader.read(end - records * (1 + index % 10), 1 << 20, end)

    return len(batch), leading, following, fastest_seconds([read] * ROUNDS, 2000)


def main() -> None:
    print("records  batch bytes   leader us    MB/s  follower us    MB/s  tail read us")
    for records, value_bytes, batches in WORKLOADS:
        with tempfile.TemporaryDirectory() as directory:
            files: Files = MemoryFiles() if "--memory" in sys.argv[1:] else PosixFiles(Path(directory))
            size, leading, following, reading = measure(files, records, value_bytes, batches)
        rates = [size / seconds / 1e6 for seconds in (leading, following)]
        print(
            f"{records:7} {size:12} {leading * 1e6:11.2f} {rates[0]:7.0f} {following * 1e6:12.2f} {rates[1]:7.0f}"
            f" {reading * 1e6:13.2f}"
        )


if __name__ == "__main__":
    main()
