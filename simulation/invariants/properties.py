"""The exception for a broken property, and which protocol versions (K1 to K5) may break which of them."""

from __future__ import annotations

import traceback

from broker.core.ports.files import StorageError
from broker.core.records import MalformedBatch
from broker.core.rules.flaws.properties import PROPERTIES

PROPERTY_IDS = tuple(PROPERTIES)
"""What a simulation may report; history/protocol.toml has the statements."""

DATA_PROPERTIES = frozenset({
    *("P-1", "P-2", "P-3", "P-4", "P-6", "P-9", "P-10", "P-11", "P-12", "P-13", "P-14", "P-15"),
    *("P-G1", "P-G2", "P-G3", "P-G4"),
})  # fmt: skip
"""Those about records, of groups too, which a protocol version without broker epochs, or without ELR, cannot keep."""

CORRUPT = "corrupt-record"
"""The id of failures in which a log, or what a client was given, cannot be read (history/anomalies.py)."""

JUDGE = "judge"
"""The id of failures in which a check itself raised an exception: a defect of the check, met in this simulation."""

_DOCUMENTED = "documented for"

_DIVERGENCE = {
    "zk-v1": "logs are compared by their ends alone, Z-04 and Z-05",
    "zk-v2": "logs are compared by their ends alone, Z-04 and Z-05",
    "C1": "a follower cuts to its high watermark whatever is below, B-12",
    "C2": "an answer does not say of which epoch it is, B-13; or the logs were not compared, B-17 and B-18",
    "C3": "the logs were not compared, B-17 and B-18, or with an earlier leader's, B-15",
}
"""Why replicas may differ for ever, by protocol version."""


def data_excuse(generation: str, *, sole_member_lost: bool) -> str:
    """Why a protocol version may lose committed records at all; "" if it may not.

    `sole_member_lost`: the partition's only ISR member has restarted with a part of its log.
    """
    match generation:
        case "K1" | "K2" | "K3" if sole_member_lost:
            return "the last replica standing has lost data, B-52 or B-53"
        case "K1":
            return "fenced brokers may join an ISR before KIP-841"
        case "K2":
            return "restarted brokers may join an ISR before KIP-903"
        case "zk-v1":
            return "the design without leader epochs, Z-01 to Z-16"
        case "zk-v2":
            return "the design whose epochs no fetch carries, Z-01 to Z-17"
        case "C1":
            return "truncation to the high watermark, B-11; an ISR of one, B-52 or B-53; no epochs in requests, B-15"
        case "C2" | "C3":
            return "an ISR of one, B-52 or B-53; no epochs in requests, B-15; a new leader's epoch, B-17 to B-19"
        case _:
            return ""


def divergence_excuse(generation: str) -> str:
    """Why replicas of a protocol version may differ below their high watermarks for ever; "" if they may not."""
    return _DIVERGENCE.get(generation, "")


def reassignment_excuse(generation: str) -> str:
    """Why a protocol version may end a reassignment too early; "" if it may not."""
    excuse = "a reassignment ends once the added replicas are in sync, at once if none is added, B-55"
    return "" if generation == "K5" else excuse


def waiting_excuse(generation: str) -> str:
    """Why a protocol version may leave a partition without a leader of which nobody is remembered; "" if it may not.

    An operator who accepts losses may give up all that are known to be complete; K5 asks the others for their logs.
    """
    return "without a recovery manager it waits for an operator, EL-8" if generation == "K4" else ""


def with_excuse(what: str, generation: str, excuse: str) -> str:
    """The text of a violation that is a documented flaw of the protocol version."""
    return f"{what} ({_DOCUMENTED} {generation}: {excuse})" if excuse else what


def is_documented(failure: str) -> bool:
    """Whether a failure is a documented flaw of its protocol version, by its text."""
    return f"({_DOCUMENTED} " in failure


class Violation(Exception):
    """A property of the protocol is broken. `property_id` is its id, as in the observer's list."""

    def __init__(self, property_id: str, what: str) -> None:
        super().__init__(f"{property_id}: {what}")
        self.property_id = property_id


def not_judged(error: Exception, where: str) -> Violation:
    """What it means that a check raised `error`: a log that cannot be read, or a defect of the check.

    Both are failures of their simulation like any other, so that it can be traced, replayed and shrunk.
    """
    if isinstance(error, (StorageError, MalformedBatch)):
        return Violation(CORRUPT, f"{where}: {error}")
    raised = traceback.extract_tb(error.__traceback__)[-1].name
    return Violation(JUDGE, f"{where}: the check {raised} raised {type(error).__name__}: {error}")
