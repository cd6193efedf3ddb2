"""Says what each kind of fault did, in words for those who do not know its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from history.contract import CRASHING_FIRST

ENDING_A_PROCESS: Final = ("kill", "restart", "power-cut", "crash-loop", "rolling-restart", "upgrade", "out-of-memory")
"""Kinds of faults after which a node starts again with all that it had written: it may cut its logs then."""

CUTTING_OFF: Final = ("isolate", "halves", "one-way", "majority-ring", "bridge", "brokers-from-controllers", "flapping")
"""Kinds of faults by which a node may hear of no decision, and its own may reach nobody."""

KEEPING_APART: Final = frozenset({*ENDING_A_PROCESS, *CUTTING_OFF, *CRASHING_FIRST, "pause"})
"""Kinds of faults by which a node neither gives nor gets anything while they last."""

ELECTING: Final = ("moved-leader", "preferred-election", "unclean-election", "fetch-held-over-elections")
"""Kinds of faults that ask the controller of a simulation for another leader."""

DELAYING: Final = ("stalled-link", "late-connection")
"""Kinds of faults that delay messages between two nodes, and lose none."""

CHANGING_MIN_ISR: Final = ("raised-min-isr", "changed-min-isr", "min-isr-raised-then-shrunk")
"""Kinds of faults during which `min.insync.replicas` of a topic is another than that of the run."""

ANOTHER_HAD_TO_LEAD: Final = "another broker had to lead"
"""What evidence says of a fault that kept the leader from leading on."""

OF_CLOCKS: Final = ("clock-jump", "clock-strobe", "clock-drift")
"""Kinds of faults that set a node's clock wrong."""

DEEDS: Final[Mapping[str, str]] = {
    "kill": "was killed",
    "pause": "was paused",
    "restart": "was restarted",
    "power-cut": "was killed at one stroke",
    "crash-loop": "was killed over and over",
    "rolling-restart": "was restarted",
    "upgrade": "was upgraded",
    "cpu-starvation": "was starved of processor time",
    "out-of-memory": "was denied memory",
    "isolate": "was cut off",
    "halves": "was cut off from half of the cluster",
    "one-way": "was cut off in one direction",
    "majority-ring": "was cut off from a minority of the nodes",
    "bridge": "was cut off from nodes that others reached",
    "brokers-from-controllers": "was cut off from all controllers",
    "clients-from-brokers": "was cut off from clients",
    "flapping": "was cut off and let back over and over",
    "slow-network": "had its packets delayed",
    "packet-loss": "had some of its packets lost",
    "packet-duplication": "had some of its packets delivered twice",
    "packet-reordering": "had some of its packets reordered",
    "thin-network": "had little bandwidth left",
    "connection-resets": "had its connections reset",
    "stalled-link": "had the messages between them delayed",
    "late-connection": "had one connection between them delayed",
    "late-metadata": "was told of changes of the metadata late",
    "page-cache-loss": "lost its page cache",
    "torn-page-cache-loss": "lost a part of its page cache",
    "lossy-restart": "lost its page cache",
    "full-disk": "had its disk filled up",
    "disk-error": "had its disk fail",
    "slow-disk": "had its disk slowed down",
    "disk-stall": "had its disk stall",
    "lying-fsync": "lost what its disk only claimed to have synced",
    "bit-flip": "had a bit of its files flipped",
    "file-truncation": "had a file truncated",
    "file-loss": "had a file removed",
    "disk-loss": "lost its disk",
    "disk-rollback": "had its disk rolled back",
    "interrupted-change": "lost power in the middle of a change to its files",
    "torn-append": "had an append to its disk fail halfway",
    "directory-error": "had a log directory fail",
    "clock-jump": "had its clock set wrong",
    "clock-strobe": "had its clock set wrong and right over and over",
    "clock-drift": "had its clock run too fast or too slow",
    "reassignment": "was assigned the replicas of a partition",
    "preferred-election": "was made the preferred leader",
    "broker-removal": "was emptied and shut down",
    "shrunk-replicas": "alone had the replicas of a partition for a while",
    "deleted-records": "was asked to delete records",
}
"""Kind of fault → what it did to its targets, of which a sentence says it. "its" and "was" are for one target."""

EVENTS: Final[Mapping[str, str]] = {
    "topic-churn": "topics were created and deleted",
    "raised-min-isr": "min.insync.replicas was raised",
    "preferred-election": "an election of preferred leaders was asked for",
    "moved-leader": "leaders were elected in quick succession",
    "unclean-election": "an unclean election was asked for",
    "cancelled-reassignment": "a reassignment was cancelled",
    "added-partition": "a partition was added",
    "same-min-isr": "min.insync.replicas was set to the value that it had",
    "changed-min-isr": "min.insync.replicas was changed",
}
"""Kind of fault → what happened, for one without targets: a clause."""

A_RECIPE: Final = "a series of faults"
"""What a recipe is called where a reader may not know the word."""

RECIPES: Final[Mapping[str, str]] = {
    "min-isr-raised-then-shrunk": "raise min.insync.replicas just before a follower and the leader are lost",
    "restarted-then-lost": "restart a node, which loses its page cache just after that",
    "move-cancelled": "cancel or replace a reassignment while the ISR changes",
    "votes-held": "hold messages of the controllers' quorum back over elections",
    "records-deleted-then-lost": "lose a replica before all know of deleted records",
    "isr-change-overtaken": "hold a change of the ISR back while leader or follower change",
    "fetch-held-over-elections": "hold a fetch or its answer back over elections",
    "changes-learnt-late": "tell a broker of several changes late, so that it then sends an old fetch",
    "fetch-of-an-earlier-life": "deliver a fetch from before a follower lost its log after that",
    "leaders-one-after-the-other": "lose leaders one after the other, each soon after its election",
    "log-info-held": "lose all replicas of a partition, and hold their answers about their logs back",
    "follower-far-behind": "keep a follower from fetching, and then lose the others",
    "added-twice": "add a replica, give it up and add it again",
    "leader-misses-elections": "keep a leader from learning that another has led meanwhile",
    "recovered-twice": "lose all replicas, and disturb the recovery twice",
}
"""Kind of recipe → what it is for: "a series of faults meant to …". Its parts are faults too, and may be fewer."""


def meaning(kind: str) -> str:
    """Say what a fault of this kind does: "a node lost its page cache"; empty for a kind that is not known."""
    if kind in DEEDS:
        return f"a node {DEEDS[kind]}"
    return f"{A_RECIPE} meant to {RECIPES[kind]}" if kind in RECIPES else EVENTS.get(kind, "")
