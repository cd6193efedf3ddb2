"""Writes a kernel's initramfs archive (cpio "newc": Documentation/driver-api/early-userspace)."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from typing import NamedTuple

_MAGIC = "070701"
_END = "TRAILER!!!"
_ALIGNMENT = 4


class Entry(NamedTuple):
    """A file or directory, by its `mode` (stat(2))."""

    name: str
    mode: int
    data: bytes = b""


def archive(entries: Iterable[Entry]) -> bytes:
    """The compressed archive of these entries; directories must precede their contents."""
    packed = b"".join(_packed(number, entry) for number, entry in enumerate(entries, 1))
    return gzip.compress(packed + _packed(0, Entry(_END, 0)), 1)


def _packed(inode: int, entry: Entry) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if entry.mode & 0o040000 else 1
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, 0, 0, len(name), 0)
    header = _MAGIC.encode() + b"".join(b"%08X" % field for field in fields) + name
    return _aligned(header) + _aligned(entry.data)


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)
