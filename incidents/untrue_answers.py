"""Tells in words what the simulator found untrue in a broker's answer about a partition (property P-35)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

PATTERN: Final = (
    r"broker (?P<broker>\d+) answered (?P<error>[A-Z_]+) to a (?P<kind>\w+)(?: of follower (?P<follower>\d+))?"
    r"(?: of broker epoch \d+)?(?: in leader epoch (?P<stated>\d+))?(?: from offset (?P<offset>\d+))?;"
    r" by the metadata up to \d+ (?:there is no such partition|its leader is (?P<leader>-?\d+) in epoch (?P<epoch>\d+),"
    r" its replicas are (?P<replicas>\[.*\]))"
)
"""What the check says."""

_KINDS: Final[Mapping[str, str]] = {
    "FetchRequest": "a fetch",
    "ProduceRequest": "a write",
    "ListOffsetsRequest": "a lookup of an offset",
    "OffsetForLeaderEpochRequest": "a question for the end of a leader epoch",
}


def untrue_answer(match: re.Match[str], name: str) -> str:
    """Say which answer a broker gave, and what it knew of the partition by then."""
    who = "" if match["follower"] is None else f" by follower {match['follower']}"
    stated = "" if match["stated"] is None else f", which named leader epoch {match['stated']},"
    kind = _KINDS.get(match["kind"], f"a {match['kind']}")
    asked = f"{kind} of {name}{who}{stated}"
    did = f"answered {asked} as if nothing were wrong"
    if match["error"] != "NONE":
        did = f"refused {asked} with {match['error']}"
    return f"broker {match['broker']} {did}, although by the metadata that it had {_known(match, name)}"


def _known(match: re.Match[str], name: str) -> str:
    if match["leader"] is None:
        return f"there was no partition {name}"
    leads = f"broker {match['leader']} led {name} in leader epoch {match['epoch']}"
    if int(match["leader"]) < 0:
        leads = f"{name} had no leader in leader epoch {match['epoch']}"
    elif match["leader"] == match["broker"]:
        leads = f"it led {name} itself in leader epoch {match['epoch']}"
    return f"{leads} (replicas {match['replicas']})"
