"""The protocol versions on ZooKeeper, and their switches: what a text leaves open, or leaves out, decided otherwise.

Every default is the recommended reading of the description; a switch shows what another one does. So the flaws of the
designs themselves (Z-01, Z-02 …) need no switch: they are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

V1 = "zk-v1"

ZOOKEEPER_GENERATIONS = (V1,)


class Switch(NamedTuple):
    """`reading` is the open question, `number` its id in the description, or that of the flaw that comes of it."""

    name: str
    number: str
    summary: str


KEEPS_HIGH_WATERMARK = "zk-keeps-high-watermark"
RAW_HIGH_WATERMARK = "zk-raw-high-watermark"
SERVES_NOBODY_YET = "zk-serves-nobody-before-open"
ACKNOWLEDGES_FIRST = "zk-acknowledges-before-hand-over"
FOLLOWS_ON_REQUEST = "zk-follows-only-on-request"
REMEMBERS_ENDS = "zk-remembers-log-ends"
IGNORES_EXPIRY = "zk-ignores-expiry"

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
            Switch(FOLLOWS_ON_REQUEST, "Q10", "a replica that returns follows nobody until a new leader requests it"),
            Switch(REMEMBERS_ENDS, "Z-06", "a leader believes what followers reported in its earlier leaderships"),
            Switch(IGNORES_EXPIRY, "Z-02", "a broker opens a new session after the first and registers nothing in it"),
        )
    }
)
"""All switches by name."""


class UnknownSwitch(ValueError):
    """No switch of that name; the message lists those that exist."""


def checked(names: Iterable[str]) -> frozenset[str]:
    """The switches of these names. Raises `UnknownSwitch`."""
    for name in names:
        if name not in SWITCHES:
            raise UnknownSwitch(f"expected a switch among {', '.join(sorted(SWITCHES))}, found {name!r}")
    return frozenset(names)
