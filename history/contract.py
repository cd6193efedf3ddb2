"""Decides which losses of a record a configuration allows: the durability contract of checkers, simulator and reports.

With `min.insync.replicas` = f + 1 a cluster promises of a record, by the acks of its producer:

- acks=all (and every record that was read): it lasts unless afterwards more than f replicas suffered lossy unclean
  shutdowns whose windows overlap, each from the crash until the replica is back in the ISR; with unclean election on,
  also unless such an election happened. What crashed before had no copy of it; what crashed after the record was seen
  to be gone has not taken it, nor led to an answer that had been given before.
- acks=1: it lasts as long as that, and as long as the leader neither changes nor loses anything.
- acks=0: nothing.

Flaws and protocol versions do not change the contract.

Of a node it promises that it runs until it is stopped or a fault ends it, and serves again when it is started, unless
its disk has lost or changed what it had synced.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

ACKS_ALL: Final = -1
ACKS_LEADER: Final = 1
ACKS_NONE: Final = 0

LOSSY_KINDS: Final = frozenset(
    {
        "page-cache-loss",
        "torn-page-cache-loss",
        "lying-fsync",
        "bit-flip",
        "file-truncation",
        "file-loss",
        "disk-loss",
        "disk-rollback",
    }
)
"""Kinds of fault after which a replica may lack what it had written: lossy unclean shutdowns."""

ENDING_KINDS: Final = frozenset(
    {"kill", "power-cut", "crash-loop", "restart", "rolling-restart", "upgrade", "out-of-memory", "broker-removal"}
)
"""Further kinds of fault that end a node's process: what a system loses that keeps its records in memory alone."""

DOWN_ALREADY: Final = "down already"
"""What a simulated kill notes if its node had no process: it only starts the node when it ends."""

CRASHING_FIRST: Final = frozenset(
    {
        "page-cache-loss",
        "torn-page-cache-loss",
        "bit-flip",
        "file-truncation",
        "file-loss",
        "disk-loss",
        "kill",
        "power-cut",
    }
)
"""Kinds of fault that end their nodes' processes once, before they have taken hold, and start them when they end."""

DAMAGING_KINDS: Final = frozenset(
    {"lying-fsync", "disk-error", "bit-flip", "file-truncation", "file-loss", "disk-loss", "disk-rollback"}
)
"""Kinds of fault after which a node need not start again: its disk lost, changed or refused what was synced to it."""

Number: TypeAlias = Any
"""An integer, or a column of integers of a Spark frame."""
Truth: TypeAlias = Any
"""A truth value, or a column of them."""


def loss_is_allowed(acks: Number, *, replicas_failed: Truth, leader_failed: Truth) -> Truth:
    """Decide whether a record may be lost that was promised to last by these acks.

    `replicas_failed`: since then too many replicas had lossy shutdowns at once (`too_many_shutdowns`), or there was an
    unclean election that the configuration allows. `leader_failed`: since then the leader changed or lost something.
    """
    return (
        (acks == ACKS_NONE)
        | ((acks == ACKS_LEADER) & (replicas_failed | leader_failed))
        | ((acks == ACKS_ALL) & replicas_failed)
    )


def too_many_shutdowns(lossy_shutdowns: Number, min_insync_replicas: Number) -> Truth:
    """Tell whether so many replicas that have lossy shutdowns at once may take an acknowledged record with them."""
    return lossy_shutdowns >= min_insync_replicas


def shutdowns_survived(min_insync_replicas: int) -> int:
    """Return the f of the contract: how many lossy shutdowns at once no acknowledged record may be lost by."""
    return max(0, min_insync_replicas - 1)


def must_come_back(kind: str, exempt: Iterable[str] = ()) -> bool:
    """Tell whether a node has to start again after a fault of this kind; `exempt`: kinds that its system excepts."""
    return kind not in DAMAGING_KINDS and kind not in exempt
