"""Restores a part of the unsynced bytes after a power loss, as a real disk may keep them.

Losing all unsynced data is not the only possible outcome: real disks keep some sectors. After the crash any subset of
the appended bytes may be restored, because a disk might have kept it; synced data is never changed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path

from nemesis.capabilities.disks import Survival

SECTOR_BYTES = 512


def contents(directory: Path) -> Mapping[str, bytes]:
    """All regular files below a directory, read through the page cache."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def restore(directory: Path, before: Mapping[str, bytes], survival: Survival, seed: int) -> int:
    """Write back, durably, the surviving part of the lost tails; returns its size in bytes.

    Files whose name was lost stay lost, and so do overwritten bytes.
    """
    draws = random.Random(seed)  # noqa: S311 - chaos, not secrets
    survived = 0
    for name, data in before.items():
        path = directory / name
        if not path.is_file():
            continue
        durable = path.read_bytes()
        if len(durable) < len(data) and data.startswith(durable):
            tail = _surviving(data[len(durable) :], len(durable), survival, draws)
            survived += sum(byte != 0 for byte in tail) if survival == "torn" else len(tail) * (survival == "prefix")
            _append(path, tail)
    return survived


def _surviving(tail: bytes, start: int, survival: Survival, draws: random.Random) -> bytes:
    if survival == "prefix":
        return tail[: draws.randrange(len(tail) + 1)]
    if survival == "zeros":
        return bytes(len(tail))
    if survival == "torn":
        kept = bytearray(len(tail))
        position = 0
        while position < len(tail):
            end = min(len(tail), position + SECTOR_BYTES - (start + position) % SECTOR_BYTES)
            if draws.random() < 0.5:
                kept[position:end] = tail[position:end]
            position = end
        return bytes(kept)
    return b""


def _append(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        written = 0
        while written < len(data):
            written += os.write(descriptor, data[written:])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
