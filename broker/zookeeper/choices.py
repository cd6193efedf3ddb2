"""The protocol versions on ZooKeeper, and their switches: what a text leaves open, or leaves out, decided otherwise.

Every default is the recommended reading of the description; a switch shows what another one does. So the flaws of the
designs themselves (Z-01, Z-02 …) need no switch: they are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

V1 = "zk-v1"
V2 = "zk-v2"
C1 = "C1"
C2 = "C2"
C3 = "C3"

LEADER_RACES = (V1, V2)
"""The two first designs, whose replicas race for a leader znode."""

CONTROLLED = (C1, C2, C3)
"""The steps after them, with a controller: truncation by high watermark, by leader epoch, and as of KIP-279."""

WITH_EPOCHS = (C2, C3)
"""Those whose batches have the epoch of their leader."""

ZOOKEEPER_GENERATIONS = (*LEADER_RACES, *CONTROLLED)


class Switch(NamedTuple):
    """`reading` is the open question, `number` its id in the description, or that of the flaw that comes of it."""

    name: str
    number: str
    summary: str
    generations: tuple[str, ...] = LEADER_RACES


KEEPS_HIGH_WATERMARK = "zk-keeps-high-watermark"
RAW_HIGH_WATERMARK = "zk-raw-high-watermark"
SERVES_NOBODY_YET = "zk-serves-nobody-before-open"
ACKNOWLEDGES_FIRST = "zk-acknowledges-before-hand-over"
FOLLOWS_ON_REQUEST = "zk-follows-only-on-request"
REMEMBERS_ENDS = "zk-remembers-log-ends"
IGNORES_EXPIRY = "zk-ignores-expiry"
REMOVES_REQUEST_FIRST = "zk-removes-request-first"
LEADS_ON_AFTER_EXPIRY = "zk-leads-on-after-expiry"
REFUSES_UNPUBLISHED = "zk-refuses-unpublished-replicas"
LOSER_FOLLOWS_NOBODY = "zk-loser-follows-nobody"
LEADER_STARTS_NOBODY = "zk-leader-starts-nobody"
KEEPS_REASSIGNMENT = "zk-keeps-reassignment"
DELETION_NEEDS_LEADER = "zk-deletion-needs-leader"
EPOCH_WITH_LEADER = "zk-epoch-in-leader-znode"

SWITCHES: Mapping[str, Switch] = MappingProxyType(
    {
        one.name: one
        for one in (
            Switch(
                KEEPS_HIGH_WATERMARK,
                "Q8",
                "a new leader keeps its high watermark instead of taking its log end for committed",
            ),
            Switch(RAW_HIGH_WATERMARK, "Q2", "a follower takes the leader's high watermark, though its log ends below"),
            Switch(SERVES_NOBODY_YET, "Q11", "a leader serves followers only once it is open: each election waits"),
            Switch(ACKNOWLEDGES_FIRST, "Q9", "a leader that hands over commits and acknowledges the request before"),
            Switch(
                FOLLOWS_ON_REQUEST, "Q10", "a replica that returns follows nobody until a new leader requests it", (V1,)
            ),
            Switch(REMEMBERS_ENDS, "Z-06", "a leader believes what followers reported in its earlier leaderships"),
            Switch(
                IGNORES_EXPIRY,
                "Z-02",
                "a broker opens a new session after the first and registers nothing in it",
                (V1,),
            ),
            Switch(REMOVES_REQUEST_FIRST, "Q13", "a queued request is removed before it is carried out", (V2,)),
            Switch(
                LEADS_ON_AFTER_EXPIRY,
                "Q14",
                "a leader whose session has expired leads until it reads that another does",
                (V2,),
            ),
            Switch(
                REFUSES_UNPUBLISHED, "Q15, Z-17", "a replica does not start before its partition is published", (V2,)
            ),
            Switch(
                LOSER_FOLLOWS_NOBODY, "Q16", "who loses an election follows only once the leader requests it", (V2,)
            ),
            Switch(LEADER_STARTS_NOBODY, "Q17", "a new leader does not tell the live replicas to start", (V2,)),
            Switch(
                KEEPS_REASSIGNMENT, "Q18", "a leader that stays leader leaves the request for a reassignment", (V2,)
            ),
            Switch(DELETION_NEEDS_LEADER, "Q19", "a partition without a leader is not deleted, nobody has it closed"),
            Switch(EPOCH_WITH_LEADER, "Q20", "epochs are counted by the cluster, and kept with the leader", (V2,)),
        )
    }
)
"""All switches by name."""


class UnknownSwitch(ValueError):
    """No switch of that name; the message lists those that exist."""


def switches_of(generation: str) -> list[str]:
    """The names of the switches that a design has."""
    return [name for name, switch in SWITCHES.items() if generation in switch.generations]


def checked(generation: str, names: Iterable[str]) -> frozenset[str]:
    """The switches of these names. Raises `UnknownSwitch`."""
    known = switches_of(generation)
    for name in names:
        if name not in known:
            raise UnknownSwitch(f"expected a switch among {', '.join(sorted(known))}, found {name!r}")
    return frozenset(names)
