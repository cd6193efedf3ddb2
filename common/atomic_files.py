"""Writes files atomically, and makes their names durable."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and rename it to `path` when the block succeeds.

    Readers see the old content or the new one, never a part, and of several that write at once the last one's. With
    `sync` both the content and the name are on the disk when this returns. If the block fails, the temporary file is
    removed and `path` is unchanged.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_native_id()}")
    temporary.unlink(missing_ok=True)
    try:
        yield temporary
        if sync:
            _sync(temporary, os.O_RDONLY)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if sync:
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Sync the names in a directory to the disk; a file's own `fsync` covers its content only."""
    _sync(directory, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
