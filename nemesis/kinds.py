"""The table of all kinds of fault: family, what happens, and who can inject it: real clusters, the simulation, both."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, NamedTuple

Family = Literal["process", "network", "page-cache", "disk", "clock", "administration", "recipe"]
"""The part of the system that a fault acts on; recipes are several faults that belong together."""


class Where(StrEnum):
    """Who can inject a kind of fault."""

    BOTH = "both"
    REAL = "real clusters"
    SIMULATED = "the simulation"


class ListedKind(NamedTuple):
    """One row of the table."""

    family: Family
    where: Where
    summary: str  # one line for `harrow faults`


_BOTH, _REAL, _SIM = Where.BOTH, Where.REAL, Where.SIMULATED

LISTED_KINDS: Final[Mapping[str, ListedKind]] = {
    "kill": ListedKind("process", _BOTH, "SIGKILL a node; start it again later"),
    "pause": ListedKind("process", _BOTH, "stop a process without killing it; resume it later"),
    "restart": ListedKind("process", _BOTH, "controlled shutdown of a node; start it again later"),
    "power-cut": ListedKind(
        "process", _BOTH, "SIGKILL all brokers, a majority of them, or all nodes at once; start them again later"
    ),
    "crash-loop": ListedKind("process", _REAL, "SIGKILL a node, start it, and SIGKILL it again, over and over"),
    "rolling-restart": ListedKind("process", _REAL, "controlled shutdown and start of one node after the other"),
    "upgrade": ListedKind(
        "process", _REAL, "restart one node after the other with the next version of the system: --upgrade-to"
    ),
    "cpu-starvation": ListedKind("process", _REAL, "let a process run for a few percent of the time only"),
    "out-of-memory": ListedKind("process", _REAL, "deny a process more memory than it has; most die of it"),
    "isolate": ListedKind(
        "network",
        _BOTH,
        "cut a node off, both ways, from everyone, the other nodes, the other brokers, or the controllers",
    ),
    "halves": ListedKind("network", _BOTH, "split the cluster in two parts that cannot reach each other"),
    "one-way": ListedKind(
        "network", _BOTH, "cut one direction only: a node that receives nothing, or that no other node receives from"
    ),
    "majority-ring": ListedKind(
        "network", _REAL, "each node receives from a majority of the nodes, and no two from the same one"
    ),
    "bridge": ListedKind("network", _REAL, "two halves that cannot reach each other, and one broker that reaches both"),
    "brokers-from-controllers": ListedKind(
        "network", _BOTH, "cut brokers off from all controllers, but not from each other, nor from clients"
    ),
    "clients-from-brokers": ListedKind("network", _REAL, "cut the clients off from brokers that reach each other"),
    "flapping": ListedKind("network", _REAL, "cut a node off and let it back, over and over"),
    "slow-network": ListedKind("network", _REAL, "delay the packets of a node, with jitter"),
    "packet-loss": ListedKind("network", _REAL, "lose some of the packets of a node"),
    "packet-duplication": ListedKind("network", _REAL, "deliver some of the packets of a node twice"),
    "packet-reordering": ListedKind("network", _REAL, "let packets of a node overtake each other"),
    "thin-network": ListedKind(
        "network", _REAL, "leave a node little bandwidth; what does not fit in a second is lost"
    ),
    "connection-resets": ListedKind("network", _BOTH, "reset every connection of a node, open ones and new attempts"),
    "stalled-link": ListedKind(
        "network", _SIM, "delay the messages between two nodes, in one direction or both; lose none"
    ),
    "late-connection": ListedKind(
        "network", _SIM, "delay one connection between two nodes, in one direction; what others carry overtakes it"
    ),
    "late-metadata": ListedKind(
        "network", _SIM, "withhold the metadata from a broker, but keep its session; then deliver all changes at once"
    ),
    "page-cache-loss": ListedKind(
        "page-cache", _BOTH, "SIGKILL a node and lose what it had not synced; start it again later"
    ),
    "torn-page-cache-loss": ListedKind(
        "page-cache", _BOTH, "SIGKILL a broker; of its unsynced data a prefix survives, or some sectors, or zeros"
    ),
    "lossy-restart": ListedKind(
        "page-cache", _SIM, "cut a node's power during a controlled shutdown, or right after it"
    ),
    "full-disk": ListedKind("disk", _REAL, "fill a node's disk (ENOSPC)"),
    "disk-error": ListedKind("disk", _BOTH, "make a node's disk fail (EIO) at reading, writing, syncing, or all of it"),
    "slow-disk": ListedKind("disk", _BOTH, "slow a node's disk down, for syncing or for everything"),
    "disk-stall": ListedKind("disk", _REAL, "stall all requests to a node's disk for a while"),
    "lying-fsync": ListedKind(
        "disk", _REAL, "make fsync succeed without syncing; then kill the node and lose its page cache"
    ),
    "bit-flip": ListedKind("disk", _BOTH, "flip a bit in a dead node's logs or indexes"),
    "file-truncation": ListedKind("disk", _REAL, "truncate a log, index or checkpoint of a dead node"),
    "file-loss": ListedKind("disk", _REAL, "remove a log, index or checkpoint of a dead node"),
    "disk-loss": ListedKind("disk", _BOTH, "empty the disk of a dead node"),
    "disk-rollback": ListedKind(
        "disk", _REAL, "kill a node and roll its disk back to its state of some seconds before"
    ),
    "interrupted-change": ListedKind(
        "disk", _SIM, "let the power of a node fail in the middle of a change to its files; start it again later"
    ),
    "torn-append": ListedKind("disk", _SIM, "let the next append to a node's disk fail after some of its bytes"),
    "directory-error": ListedKind(
        "disk", _SIM, "make one of a broker's log directories fail (EIO) at writing, or at reading too"
    ),
    "clock-jump": ListedKind(
        "clock", _BOTH, "set the wall clock of a node forward or back, by half a second to a year"
    ),
    "clock-strobe": ListedKind("clock", _REAL, "set the wall clock of a node wrong and right, over and over"),
    "clock-drift": ListedKind("clock", _REAL, "let the wall clock of a node run too fast or too slow"),
    "topic-churn": ListedKind("administration", _REAL, "create a topic, add partitions to it, and delete it"),
    "reassignment": ListedKind(
        "administration", _BOTH, "move a replica to another broker, or remove it where there is no other; and back"
    ),
    "preferred-election": ListedKind(
        "administration", _BOTH, "make a follower the preferred leader and have it elected"
    ),
    "raised-min-isr": ListedKind(
        "administration", _REAL, "raise min.insync.replicas of a topic to the number of its replicas"
    ),
    "broker-removal": ListedKind(
        "administration",
        _REAL,
        "move all replicas off a broker and shut it down; later let it join again and move them back",
    ),
    "moved-leader": ListedKind("administration", _SIM, "elect up to three members of an ISR in quick succession"),
    "unclean-election": ListedKind(
        "administration", _SIM, "ask for unclean elections, where the seed accepts losses anyway"
    ),
    "shrunk-replicas": ListedKind(
        "administration", _SIM, "remove a replica, or move all; restore the assignment a moment later"
    ),
    "cancelled-reassignment": ListedKind("administration", _SIM, "cancel the reassignment of a partition"),
    "added-partition": ListedKind("administration", _SIM, "add a partition to the topic"),
    "same-min-isr": ListedKind("administration", _SIM, "set min.insync.replicas to the value that it has"),
    "changed-min-isr": ListedKind(
        "administration", _SIM, "raise min.insync.replicas for a while; lower it only where no fault loses data"
    ),
    "deleted-records": ListedKind(
        "administration", _SIM, "delete the records below the high watermark, or a little less or (refused) more"
    ),
    "min-isr-raised-then-shrunk": ListedKind(
        "recipe", _BOTH, "raise min ISR; a moment later lose a follower, then the leader"
    ),
    "restarted-then-lost": ListedKind(
        "recipe", _BOTH, "stop a node in good order, and take its page cache when it is just back"
    ),
    "move-cancelled": ListedKind(
        "recipe", _SIM, "cancel or replace a reassignment while members of the ISR come and go"
    ),
    "votes-held": ListedKind("recipe", _SIM, "hold messages of the quorum back over one or two elections"),
    "records-deleted-then-lost": ListedKind(
        "recipe", _SIM, "delete records, and lose a replica before all have stored the log's new start"
    ),
    "isr-change-overtaken": ListedKind(
        "recipe", _BOTH, "let a change of the ISR be late, and change the leader or the follower meanwhile"
    ),
    "fetch-held-over-elections": ListedKind("recipe", _SIM, "let a fetch or its answer be late by one or more leaders"),
    "changes-learnt-late": ListedKind(
        "recipe",
        _SIM,
        "let a broker hear of several changes of a partition at once, and an old fetch arrive after them",
    ),
    "fetch-of-an-earlier-life": ListedKind(
        "recipe", _SIM, "let a follower lose its log, and let a fetch arrive that it sent before"
    ),
    "leaders-one-after-the-other": ListedKind("recipe", _BOTH, "lose each leader soon after it was elected"),
    "log-info-held": ListedKind(
        "recipe", _SIM, "lose all replicas, and let a recovery's answers be late while those that return die again"
    ),
    "follower-far-behind": ListedKind(
        "recipe", _BOTH, "keep a follower from fetching until it is out of sync, then lose the others one by one"
    ),
    "added-twice": ListedKind(
        "recipe", _SIM, "add a replica, give it up and add it again before it has heard of the first of these"
    ),
    "leader-misses-elections": ListedKind(
        "recipe", _SIM, "let a leader hear at once that another was elected and that it is the leader again"
    ),
    "recovered-twice": ListedKind(
        "recipe", _SIM, "lose all replicas, let a recovery ask twice, and lose the replica that it elects"
    ),
}
"""Every kind by name. Real clusters and the simulation mean the same by a name that both have."""
