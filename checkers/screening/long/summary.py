"""The summary of a chunk, beside its blocks: numbers, and rows that are judged together with those of other chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from checkers.screening.long.blocks import Narrow, Place
from checkers.screening.long.tally import NOTHING, Tally

SUMMARY_TABLES: Final = ("operations", "sends", "polls", "returned")


@dataclass(frozen=True)
class LoggedReplica:
    """What rows of the log of a replica tell: how many there are, and the least and greatest high watermark in them."""

    place: Place
    broker: int
    low: int
    high: int
    rows: int


@dataclass(frozen=True)
class ChunkSummary:
    """What the task of a chunk has found, for one share; nothing where that shows that the run is not ordinary."""

    ordinary: bool
    share: int = 0
    tally: Tally = NOTHING
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    """Of `SUMMARY_TABLES`: the polls of the share, what they returned, their operations, and rows that tell of
    availability."""
    without_offset: Narrow | None = None
    """Values that were sent and have no known offset."""
    replicas: tuple[LoggedReplica, ...] = ()
