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

_WITHOUT_EPOCHS = ("zk-v1", "zk-v2")
"""Protocol versions whose fetches carry no leader epochs."""


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
        case "zk-v1":
            return "the design without leader epochs, Z-01 to Z-16"
        case "zk-v2":
            return "the design whose epochs no fetch carries, Z-01 to Z-17"
        case _:
            return ""


def divergence_excuse(generation: str) -> str:
    """Why replicas of a protocol version may differ below their high watermarks for ever; "" if they may not."""
    return "logs are compared by their ends alone, Z-04 and Z-05" if generation in _WITHOUT_EPOCHS else ""


def reassignment_excuse(generation: str) -> str:
    """Why a protocol version may end a reassignment too early; "" if it may not."""
    return "" if generation == "K5" else "it ends when the added replicas are in sync, B-55"


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
