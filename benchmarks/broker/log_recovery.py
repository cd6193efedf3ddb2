"""Measures the recovery of a log after an unclean stop: `python -m benchmarks.broker.log_recovery [MB per log]`.

The log is in the page cache. Recovery reads every byte, checks every checksum, and rebuilds indexes, leader epochs
and producer state; a clean opening of the same log is measured for comparison. Of five rounds the fastest counts.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from broker.core.log.log import Log, LogConfig
from broker.core.records import BatchHeader, encode_batch
from broker.shell.files.posix_files import PosixFiles

WORKLOADS = [(1, 100), (10, 100), (100, 100), (100, 1000)]
"""(records per batch, bytes per value)."""
ROUNDS = 5


def measure(directory: Path, records: int, value_bytes: int, log_bytes: int) -> tuple[int, float, float]:
    files = PosixFiles(directory)
    log = Log.open(files, "t-0", LogConfig(), clean=True)
    batch = encode_batch([(None, bytes(value_bytes))] * records, 0, 0, 0, 1, 0, 0)
    headers = log.check_batches(batch)
    assert isinstance(headers, tuple)
    headers_of_many: list[BatchHeader] = [*headers] * 100
    for _ in range(log_bytes // len(batch) // 100):
        log.append_as_leader(batch * 100, 1, headers_of_many)
    log.close_clean()
    seconds = {True: [], False: []}
    for clean in [True] * ROUNDS + [False] * ROUNDS:
        started = time.perf_counter()
        opened = Log.open(files, "t-0", LogConfig(), clean=clean)
        seconds[clean].append(time.perf_counter() - started)
        assert opened.end_offset == log.end_offset
        assert opened.recovery.scanned_bytes == (0 if clean else log.size_bytes)
    files.close()
    return len(batch), log.size_bytes / min(seconds[False]) / 1e6, min(seconds[True]) * 1e3


def main() -> None:
    log_megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(f"log of {log_megabytes} MB\nrecords  batch bytes  recovery MB/s  clean opening ms")
    for records, value_bytes in WORKLOADS:
        with tempfile.TemporaryDirectory() as directory:
            size, rate, clean = measure(Path(directory), records, value_bytes, log_megabytes * 1_000_000)
        print(f"{records:7} {size:12} {rate:14.0f} {clean:17.1f}")


if __name__ == "__main__":
    main()
