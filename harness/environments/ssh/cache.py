"""The user's cache directory, and atomic writes to it."""

from __future__ import annotations

import os
from pathlib import Path

from common.atomic_files import replacing


def cache_directory() -> Path:
    """Harrow's directory in the user's cache (XDG Base Directory Specification); created on first use."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "harrow")


def keep(file: Path, data: bytes) -> None:
    """Write a file atomically: concurrent readers and writers see all of it or nothing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as temporary:
        temporary.write_bytes(data)
