"""What a log is told of its compaction."""

from __future__ import annotations

from typing import NamedTuple

BYTES_PER_KEY = 200
"""What a key takes of `log.cleaner.dedupe.buffer.size`: its fingerprint and its offset."""


class Compaction(NamedTuple):
    """When a log is compacted, and how long its tombstones stay. Times in milliseconds."""

    min_dirty_ratio: float
    min_lag_ms: int
    max_lag_ms: int
    delete_retention_ms: int
