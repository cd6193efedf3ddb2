"""Entries of the catalogue that are no flaws of this broker, and why."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_ZOOKEEPER = "a flaw of the ZooKeeper designs; the quorum and the one log of metadata leave it no place"

OUTSIDE: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("B-01", "B-02", "B-05", "B-06", "B-07", "B-08", "B-09", "B-28"), _ZOOKEEPER),
        "B-14": "RT-1 leaves no epoch undefined: every leader has cached its own before a follower can ask for it",
        "B-26": "the contract of acks=1: `--acks 1`",
        "B-33": "indexes are hints here: an entry that does not hold is found out when it is used, and all are rebuilt",
        "B-68": "the contract of a producer without idempotence that retries",
    }
)
"""Reasons, by number."""
