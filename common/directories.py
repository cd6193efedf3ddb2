"""Finds directories of the user: Harrow's cache, and one from which unpacked or compiled files can be executed.

Java unpacks native libraries (Snappy's, which it needs for Harrow's Parquet files) and cannot load them from a
file system that is mounted `noexec`, as /tmp is on hardened machines.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_directory() -> Path:
    """Harrow's directory in the user's cache (XDG Base Directory Specification); it may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base, "harrow")


def may_execute(directory: Path) -> bool:
    """Whether files of a directory may be executed, or mapped as code."""
    return not os.statvfs(directory).f_flag & os.ST_NOEXEC


def directory_for_programs() -> Path | None:
    """Return the directory for temporary files, or else Harrow's in the user's cache; None if neither will do."""
    temporary = Path(tempfile.gettempdir())
    if may_execute(temporary):
        return temporary
    cache = cache_directory()
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return cache if may_execute(cache) and os.access(cache, os.W_OK) else None
