"""Measures how soon a node answers, in a process of its own: what the fuzzer does meanwhile delays no probe."""

from __future__ import annotations

import signal
import socket
import struct
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from benchmarks.broker.fuzz.sending import read_exactly

_PROBE_S_MAX = 20.0
_API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)
_SECOND_REQUESTS = {
    "CLIENT": struct.pack(">hhihi", 3, 1, 2, -1, -1),  # Metadata of all topics
    "BROKER": struct.pack(">hhihi", 23, 2, 2, -1, 0),  # OffsetForLeaderEpoch of nothing
    "CONTROLLER": struct.pack(">hhih", 55, 0, 2, -1) + b"\0\2\x13__cluster_metadata\2\0\0\0\0\0\0\0",  # DescribeQuorum
}


class Probe(NamedTuple):
    """How long a node took for two answers on a fresh connection."""

    took_s: float
    """Without the time in which node or probe waited for a processor."""

    with_waiting_s: float
    error: str
    """Why there was no answer; empty: there was one."""


def probe_processes(count: int) -> ProcessPoolExecutor:
    """Processes for `probe`; the end of the fuzzer is their end."""
    return ProcessPoolExecutor(count, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN))


def probe(pid: int, address: tuple[str, int], listener: str) -> Probe:
    """Ask a node two things on one of its listeners."""
    waited_before_s = _waited_for_processor_s(pid)
    began = time.monotonic()
    try:
        _ask(address, _API_VERSIONS, _SECOND_REQUESTS[listener])
        error = ""
    except (OSError, EOFError) as failure:
        error = f"{failure or type(failure).__name__}"
    with_waiting_s = time.monotonic() - began
    waited_s = _waited_for_processor_s(pid) - waited_before_s
    return Probe(max(0.0, with_waiting_s - waited_s), with_waiting_s, error)


def _ask(address: tuple[str, int], *requests: bytes) -> None:
    """Send requests over a fresh connection, and read their answers. Raises OSError, EOFError."""
    with socket.create_connection(address, _PROBE_S_MAX) as connection:
        for request in requests:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", read_exactly(connection, 4))
            read_exactly(connection, size)


def _waited_for_processor_s(pid: int) -> float:
    """How long a process and this thread have been runnable without running, since they began."""
    files = (Path(f"/proc/{pid}/schedstat"), Path("/proc/thread-self/schedstat"))
    try:
        return sum(int(file.read_text().split()[1]) for file in files) / 1e9
    except (OSError, IndexError):
        return 0.0
