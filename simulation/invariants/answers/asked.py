"""What a read or write has asked for of one partition, and what a broker has asked controllers for."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.messages import UNKNOWN, FetchPartition


class AskedPartition(NamedTuple):
    """`epoch` is the leader epoch that was stated; `follower` and `follower_epoch` are -1 of a client."""

    topic_id: str
    epoch: int = UNKNOWN
    follower: int = UNKNOWN
    follower_epoch: int = UNKNOWN
    rack: str = ""
    fetch: FetchPartition | None = None
    """Of a read."""

    is_lookup: bool = False
    """Whether an offset or the end of an epoch was asked for."""

    def __str__(self) -> str:
        """What it says of itself, as the end of a sentence that begins with the kind of the request."""
        who = f" of follower {self.follower}" if self.follower >= 0 else ""
        of_epoch = f" of broker epoch {self.follower_epoch}" if self.follower_epoch >= 0 else ""
        stated = f" in leader epoch {self.epoch}" if self.epoch >= 0 else ""
        at = f" from offset {self.fetch.fetch_offset}" if self.fetch is not None else ""
        return f"{who}{of_epoch}{stated}{at}"


@dataclass(slots=True)
class AsksControllers:
    """What a broker's process has asked controllers for, and when its periodic checks came."""

    open: dict[int, tuple[type, int]] = field(default_factory=dict)
    """Open requests: the kind, and the controller that was asked."""

    reports: dict[int, frozenset[tuple[str, int]]] = field(default_factory=dict)
    """Open reports of replicas in failed directories: topic ids and partitions."""

    reported: set[tuple[str, int]] = field(default_factory=set)
    """Those that a controller has acknowledged, until the metadata say so."""

    report_waits: bool = False
    """Whether a report was refused or not answered, and the pause after it is not over."""

    is_to_stop: bool = False
    """Whether it was asked to stop in a step before this one."""

    is_fenced: bool = True
    """What it took itself for after its last step."""

    is_caught_up: bool = False
    caught_up_us: int = -1
    """When it learned that it has caught up with the metadata, until its next heartbeat; in virtual microseconds."""

    checked_ms: dict[Hashable, int] = field(default_factory=dict)
    """Timer of a check -> when it came last, by the broker's clock."""
