"""What a read or write has asked for of one partition."""

from __future__ import annotations

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
