"""Known flaws: each removes one rule from a correct protocol version, under a descriptive name.

They prove that the harness detects what it is built to detect. They are selected at startup only. There is one
module for each part of the protocol; `flaw` defines the type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from broker.core.rules import Rules
from broker.core.rules.flaws import (
    clients,
    divergence,
    elections,
    membership,
    quorum,
    reading,
    replication,
    storage,
)
from broker.core.rules.flaws.flaw import Flaw, Visibility
from broker.core.rules.generations import GENERATIONS

__all__ = ["FLAWS", "OUTSIDE", "Flaw", "UnknownRules", "Visibility", "rules_for"]

_FAMILIES = (divergence, reading, replication, membership, elections, clients, storage, quorum)

FLAWS: dict[str, Flaw] = {
    flaw.name: flaw
    for flaw in sorted((flaw for family in _FAMILIES for flaw in family.FLAWS), key=lambda flaw: flaw.number)
}
"""All flaws by name, in the order of their numbers."""

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
"""Entries of the catalogue that are no flaws of this broker, by number: why."""


class UnknownRules(ValueError):
    """No protocol version or flaw of that name; the message lists those that exist."""


def rules_for(generation: str, flaws: Iterable[str]) -> Rules:
    """The rules of a protocol version with these flaws. Raises `UnknownRules`."""
    if generation not in GENERATIONS:
        raise UnknownRules(
            f"expected a generation (protocol version) among {', '.join(GENERATIONS)}, found {generation!r}"
        )
    rules = GENERATIONS[generation]()
    for name in flaws:
        if name not in FLAWS:
            raise UnknownRules(f"expected a flaw among {', '.join(sorted(FLAWS))}, found {name!r}")
        rules = FLAWS[name].apply(rules)
    return rules
