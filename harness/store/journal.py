"""The write-ahead journal of a run: everything that it makes or injects, so that `harrow heal` can undo it.

One JSON object per line, appended and synced: `{"at_unix_ms": …, "kind": …, …}`. The first line names the harness
itself (`opened`), the last one of a run that was torn down is `finished`; `harrow heal` writes `healed`. A line that a
crash truncated is not an entry.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from common.atomic_files import sync_directory
from harness.environments.machine.kernel import process_identity

FILE_NAME = "journal.jsonl"
_ENDINGS = ("finished", "healed")

Entry = Mapping[str, Any]


class Journal:
    """Writes the journal of one run. Safe to use from several threads."""

    def __init__(self, run_directory: Path) -> None:
        """Open (or make) the run's journal and record the process of the harness."""
        run_directory.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor: int | None = os.open(run_directory / FILE_NAME, flags, 0o644)
        sync_directory(run_directory)
        self.record("opened", pid=os.getpid(), start_time=process_identity.start_time(os.getpid()))

    def record(self, kind: str, **details: Any) -> None:  # noqa: ANN401
        """Append one entry; returns when it is on the disk. Details must be JSON values."""
        line = json.dumps({"at_unix_ms": time.time_ns() // 1_000_000, "kind": kind, **details}) + "\n"
        with self._lock:
            if self._descriptor is None:
                raise ValueError(f"expected an open journal for the entry {kind!r}, found it closed")
            os.write(self._descriptor, line.encode())
            os.fdatasync(self._descriptor)

    def finish(self) -> None:
        """Record that everything has been undone, and close the journal. Safe to call twice."""
        if self._descriptor is not None:
            self.record("finished")
            with self._lock:
                os.close(self._descriptor)
                self._descriptor = None


def read_journal(run_directory: Path) -> Iterator[Entry]:
    """The complete entries of a run's journal, in order; none if it has no journal."""
    try:
        lines = (run_directory / FILE_NAME).read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    for line in lines[:-1]:  # what follows the last line feed is a truncated entry
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and "kind" in entry:
            yield entry


def is_finished(entries: list[Entry]) -> bool:
    """Whether everything that the run made has been undone."""
    return not entries or entries[-1]["kind"] in _ENDINGS


def mark_healed(run_directory: Path) -> None:
    """Close the journal of a run whose harness died. Its last line may be truncated, so a line feed comes first."""
    line = json.dumps({"at_unix_ms": time.time_ns() // 1_000_000, "kind": "healed"})
    descriptor = os.open(run_directory / FILE_NAME, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        os.write(descriptor, f"\n{line}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
