"""Skews the wall clock of a node by a library that is preloaded into its process (`skewed_clock.c`).

A file mapped into the process sets the offset. The library is compiled when a run needs it. The machine's own clock is
never changed.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Missing
from nemesis.capabilities.cluster import NodeError

_SOURCE = Path(__file__).with_name("skewed_clock.c")
_STEERING = struct.Struct("=QqqqQ")  # sequence, offset (ns), base (ns), ppm, answers
_PROBE = "import time; print(time.time_ns() - time.monotonic_ns())"
_PROBE_TIMEOUT_S = 20.0
_NS_PER_MS = 1_000_000


def find_compiler() -> str | None:
    """The path of a C compiler; None if the machine has none."""
    return shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")


def compile_library(target: Path) -> Path:
    """Compile the library; `EnvironmentFailed` when there is no compiler, or it fails."""
    compiler = find_compiler()
    if compiler is None:
        raise EnvironmentFailed(
            "expected a C compiler for the skewed clock, found none", Missing("program", "C compiler")
        )
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(target), str(_SOURCE), "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise EnvironmentFailed(
            f"expected {compiler} to compile the skewed clock, found: {' '.join(made.stderr.split())}",
            None if _has_headers(compiler) else Missing("header", "headers of the C library"),
        )
    return target


def _has_headers(compiler: str) -> bool:
    """Whether the compiler finds the headers of the C library, which are a separate package."""
    command = [compiler, "-E", "-x", "c", "-o", os.devnull, "-"]
    checked = subprocess.run(command, input="#include <stdlib.h>", capture_output=True, text=True, check=False)
    return checked.returncode == 0


class SkewedClock:
    """The clock of one node (`nemesis.capabilities.cluster.WallClock`). It outlives the node's processes."""

    def __init__(self, library: Path, steering: Path) -> None:
        """Create the steering file. `library` is the result of `compile_library`."""
        self._library = library.absolute()
        self._file = steering.absolute()
        self._file.write_bytes(bytes(mmap.PAGESIZE))
        with self._file.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self._sequence = 0

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables that make a program use this clock."""
        preloaded = " ".join(filter(None, [str(self._library), os.environ.get("LD_PRELOAD")]))
        return {"LD_PRELOAD": preloaded, "HARROW_CLOCK": str(self._file)}

    def bend(self, offset_ms: float, drift_ppm: int = 0) -> None:
        """Set the clock's offset, and its drift in microseconds per second, from now on."""
        self._sequence += 2
        offset_ns = int(offset_ms * _NS_PER_MS)
        struct.pack_into("=Q", self._map, 0, self._sequence - 1)
        struct.pack_into("=qqq", self._map, 8, offset_ns, time.monotonic_ns(), drift_ppm)
        struct.pack_into("=Q", self._map, 0, self._sequence)

    def straighten(self) -> None:
        """Remove offset and drift."""
        self.bend(0.0)

    def error_ms(self) -> float:
        """Measure the clock's error with a process that uses this clock."""
        done = subprocess.run(
            [sys.executable, "-S", "-E", "-c", _PROBE],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_TIMEOUT_S,
        )
        if done.returncode != 0:
            raise NodeError(f"expected a process to report the time, found: {done.stderr.strip()}")
        return (int(done.stdout) - (time.time_ns() - time.monotonic_ns())) / _NS_PER_MS

    def answers(self) -> int:
        """How many times processes with this clock have read the time so far."""
        return int(_STEERING.unpack_from(self._map)[4])

    def governs(self, pid: int) -> bool:
        """Whether the process has mapped the library and the steering file."""
        try:
            maps = Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            return False
        return str(self._library) in maps and str(self._file) in maps


def probe(directory: Path) -> str:
    """Compile the library, and check that it sets and removes an offset. Raises with the reason if not."""
    clock = SkewedClock(compile_library(directory / "clock.so"), directory / "clock")
    seen = []
    for offset_ms in (0, 3_600_000, 0):
        clock.bend(offset_ms)
        seen.append(round(clock.error_ms() / 1000))
    if seen != [0, 3600, 0]:
        raise EnvironmentFailed(f"expected a clock to be off by 3600 s for a while, found {seen}")
    return "a preloaded library bends a process's clock"
