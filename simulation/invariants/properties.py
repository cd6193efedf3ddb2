"""The properties that the observer checks, by id, and which protocol versions (K1 to K5) may break which of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PROPERTIES: Mapping[str, str] = MappingProxyType(
    {
        "P-1": "every leader of the present epoch holds all committed records",
        "P-2": "every running member of ISR and ELR holds all committed records, so that it may be elected",
        "P-3": "logs that have a record of one epoch at one offset are equal up to it, and below high watermarks",
        "P-4": "what is committed stays committed: no offset below a high watermark changes its record",
        "P-5": "the maximal ISR of a leader with a sufficient ISR contains every electable replica: ISR and ELR",
        "P-6": "no replica cuts off a committed record, nor anything below its own high watermark",
        "P-7": "a replica that started uncleanly is in no ISR or ELR and leads nothing before it is admitted again",
        "P-8": "in one leader epoch one broker appends",
        "P-9": "high watermarks do not go back: neither within an epoch, nor in answers to clients",
        "P-10": "log start <= high watermark <= log end, and no high watermark above the true one",
        "P-11": "what a consumer reads is committed",
        "P-12": "what was acknowledged by acks=all is committed, at the acknowledged offset",
        "P-13": "offsets follow real time: a later write comes after an acknowledged one, a later read shows it",
        "P-14": "each sequence number of an idempotent producer is committed once, and in order",
        "P-15": "an acknowledged record was in the logs of min ISR replicas",
        "P-16": "no fenced, stopping or unregistered broker is in an ISR",
        "P-17": "ISR, ELR and last known ELR are disjoint sets of replicas; a sufficient ISR leaves the others empty",
        "P-18": "a partition that lost ISR and ELR remembers min ISR replicas or more",
        "P-19": "epochs only grow, by the rules, and no broker is ahead of the controller",
        "P-20": "images of one metadata offset are equal, and no node applies what is not committed",
        "P-21": "the leader-epoch cache agrees with the log",
        "P-22": "one ISR change at a time is in flight, and the maximal ISR is what it must be meanwhile",
        "P-23": "the end of a reassignment does not shrink the ISR below min ISR, and leaves no removed replica behind",
        "P-24": "leader epochs do not decrease from one record that is read to the next",
        "P-R1": "in one epoch the quorum has one leader",
        "P-R2": "all voters agree on the leader of a quorum epoch",
        "P-R3": "committed metadata is on a majority, in every later leader's log, and never cut off",
        "P-R4": "epochs and high watermarks of the quorum grow; snapshots cover what the log forgets, and no more",
        "P-R5": "a voter votes once in an epoch",
        "V-1": "every broker that was started becomes ready",
        "V-2": "every broker's image reaches the controller's",
        "V-3": "every partition that may have a leader gets one",
        "V-4": "replicas become equal and in sync",
        "V-5": "every write is answered, and acknowledged in the end",
        "V-6": "every reassignment ends",
        "V-7": "no ISR change stays pending",
        "V-9": "the quorum elects a leader",
    }
)
"""Id -> statement. P always hold; V hold some time after the last fault was healed."""

DATA_PROPERTIES = frozenset({"P-1", "P-2", "P-3", "P-4", "P-6", "P-9", "P-10", "P-11", "P-12", "P-13", "P-14", "P-15"})
"""Those about records, which a protocol version without broker epochs, or without ELR, cannot keep."""

_DOCUMENTED = "documented for"


def data_excuse(generation: str, *, sole_member_lost: bool) -> str:
    """Why a protocol version may lose committed records at all; "" if it may not.

    `sole_member_lost`: the partition's only ISR member has restarted with a part of its log.
    """
    match generation:
        case "K1":
            return "fenced brokers may join an ISR before KIP-841"
        case "K2":
            return "restarted brokers may join an ISR before KIP-903"
        case "K3" if sole_member_lost:
            return "the last replica standing has lost data, B-52 and B-53"
        case _:
            return ""


def reassignment_excuse(generation: str) -> str:
    """Why a protocol version may end a reassignment too early; "" if it may not."""
    return "" if generation == "K5" else "it ends when the added replicas are in sync, B-55"


def with_excuse(what: str, generation: str, excuse: str) -> str:
    """The text of a violation that is a documented flaw of the protocol version."""
    return f"{what} ({_DOCUMENTED} {generation}: {excuse})" if excuse else what


def is_documented(failure: str) -> bool:
    """Whether a failure is a documented flaw of its protocol version, by its text."""
    return f"({_DOCUMENTED} K" in failure
