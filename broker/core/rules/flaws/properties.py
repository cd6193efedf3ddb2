"""The properties of the protocol, by id: what flaws break, and what observer, search and checkers look for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Property(NamedTuple):
    """One property."""

    name: str  # in a few words, for lists of flaws
    statement: str


PROPERTIES: Mapping[str, Property] = MappingProxyType(
    {
        "P-1": Property("leader completeness", "every leader of the present epoch holds all committed records"),
        "P-2": Property(
            "candidate completeness",
            "every running member of ISR and ELR holds all committed records, so that it may be elected",
        ),
        "P-3": Property(
            "log matching",
            "logs that have a record of one epoch at one offset are equal up to it, and below high watermarks",
        ),
        "P-4": Property(
            "committed stability",
            "what is committed stays committed: no offset below a high watermark changes its record",
        ),
        "P-5": Property(
            "replication quorum superset",
            "the maximal ISR of a leader with a sufficient ISR contains every electable replica: ISR and ELR",
        ),
        "P-6": Property(
            "no committed truncation",
            "no replica cuts off a committed record, nor anything below its own high watermark",
        ),
        "P-7": Property(
            "unclean exclusion",
            "a replica that started uncleanly is in no ISR or ELR and leads nothing before it is admitted again",
        ),
        "P-8": Property("one leader per epoch", "in one leader epoch one broker appends"),
        "P-9": Property(
            "high watermark monotone",
            "high watermarks do not go back: neither within an epoch, nor in answers to clients",
        ),
        "P-10": Property(
            "high watermark bound", "log start <= high watermark <= log end, and no high watermark above the true one"
        ),
        "P-11": Property("no read above the high watermark", "what a consumer reads is committed"),
        "P-12": Property(
            "acked durability", "what was acknowledged by acks=all is committed, at the acknowledged offset"
        ),
        "P-13": Property(
            "real-time order",
            "offsets follow real time: a later write comes after an acknowledged one, a later read shows it",
        ),
        "P-14": Property(
            "no duplicates", "each sequence number of an idempotent producer is committed once, and in order"
        ),
        "P-15": Property("min ISR on ack", "an acknowledged record was in the logs of min ISR replicas"),
        "P-16": Property("ISR eligibility", "no fenced, stopping or unregistered broker is in an ISR"),
        "P-17": Property(
            "ELR shape",
            "ISR, ELR and last known ELR are disjoint sets of replicas; a sufficient ISR leaves the others empty",
        ),
        "P-18": Property(
            "min ISR recovery quorum", "a partition that lost ISR and ELR remembers min ISR replicas or more"
        ),
        "P-19": Property("epoch sanity", "epochs only grow, by the rules, and no broker is ahead of the controller"),
        "P-20": Property(
            "metadata agreement", "images of one metadata offset are equal, and no node applies what is not committed"
        ),
        "P-21": Property("epoch cache equals log", "the leader-epoch cache agrees with the log"),
        "P-22": Property(
            "one ISR change at a time",
            "one ISR change at a time is in flight, and the maximal ISR is what it must be meanwhile",
        ),
        "P-23": Property(
            "reassignment safety",
            "the end of a reassignment does not shrink the ISR below min ISR, and leaves no removed replica behind",
        ),
        "P-24": Property(
            "leader epochs monotone", "leader epochs do not decrease from one record that is read to the next"
        ),
        "P-R1": Property("quorum election safety", "in one epoch the quorum has one leader"),
        "P-R2": Property("one known quorum leader", "all voters agree on the leader of a quorum epoch"),
        "P-R3": Property(
            "quorum log matching and durability",
            "committed metadata is on a majority, in every later leader's log, and never cut off",
        ),
        "P-R4": Property(
            "quorum high watermark",
            "epochs and high watermarks of the quorum grow; snapshots cover what the log forgets, and no more",
        ),
        "P-R5": Property("vote once", "a voter votes once in an epoch"),
        "V-1": Property("brokers run", "every broker that was started becomes ready"),
        "V-2": Property("metadata arrives", "every broker's image reaches the controller's"),
        "V-3": Property("eligible replicas lead", "every partition that may have a leader gets one"),
        "V-4": Property("an idle cluster is whole", "replicas become equal and in sync"),
        "V-5": Property("every produce ends", "every write is answered, and acknowledged in the end"),
        "V-6": Property("reassignments end", "every reassignment ends"),
        "V-7": Property("ISR changes end", "no ISR change stays pending"),
        "V-9": Property("the quorum elects", "the quorum elects a leader"),
    }
)
"""P always hold; V hold some time after the last fault was healed."""
