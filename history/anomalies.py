"""The catalogue of anomalies: the promise that each one breaks, and how reports describe it.

Checkers find anomalies, reports show them, and suites name them by the names of this table. How one is found is in
`checkers.anomalies`, how a finding is explained in `checkers.explanations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

MALFORMED: Final = "malformed-history"
"""Malformed rows of the history: a problem of the harness, neither a violation nor within the contract."""

NODE_LOST: Final = "node-lost"
"""A node that ended by itself: known from the harness, not from what clients saw."""


class Extent(NamedTuple):
    """The exact number of anomalies of one name in one partition, on one side of the contract, and where they lie."""

    topic: str | None
    partition: int | None
    within_contract: bool
    number: int
    first_offset: int | None
    last_offset: int | None


@dataclass(frozen=True)
class Anomaly:
    """One kind of anomaly."""

    name: str
    promise: str
    """What the cluster owes its clients, one sentence."""
    breach: str = ""
    """What its violations are, as a noun phrase in the plural; empty for anomalies of the history, not of the system:
    these break no promise."""
    about_record: bool = False
    """Whether it is about a record, so that its explanation has a picture of the logs around it."""
    excused_by_loss: bool = True
    """Whether it is within the contract because a loss of records is; else for a reason that its explanation has."""


_ROWS: Final = (
    Anomaly(
        "lost-acked-write",
        "A record whose write was acknowledged stays in the log, and every reader that passes its offset gets it.",
        "acknowledged writes that were lost",
        about_record=True,
    ),
    Anomaly(
        "lost-read",
        "A record that a reader was once given was committed, and a committed record stays.",
        "records that were read and then lost",
        about_record=True,
    ),
    Anomaly(
        "unseen",
        "Every acknowledged record is read at least once before the run ends.",
        about_record=True,
        excused_by_loss=False,
    ),
    Anomaly(
        "aborted-read",
        "A write that certainly failed left nothing in the log.",
        "records read whose write had failed",
        about_record=True,
    ),
    Anomaly(
        "phantom-read",
        "Every record that is read was sent by a client.",
        "records read that were never sent",
        about_record=True,
    ),
    Anomaly(
        "duplicate",
        "With an idempotent producer a record is in the log once, however often it was retried.",
        "records that are in the log twice",
        about_record=True,
        excused_by_loss=False,
    ),
    Anomaly(
        "inconsistent-offset",
        "An offset of a partition names one record, for every reader and on every replica.",
        "offsets with more than one record",
        about_record=True,
    ),
    Anomaly(
        "wrong-offset",
        "The offset in an acknowledgement is the offset at which the record is read.",
        "acknowledgements with a wrong offset",
        about_record=True,
    ),
    Anomaly(
        "dirty-read",
        "Readers are given only what is below the high watermark.",
        "reads that were given records that were not committed",
        about_record=True,
    ),
    Anomaly(
        "corrupt-record",
        "A record is read as it was sent, byte for byte.",
        "records that were corrupted",
        about_record=True,
    ),
    Anomaly(
        "reordered-send",
        "A write that completed before another was invoked has the lower offset.",
        "writes out of order",
        about_record=True,
    ),
    Anomaly(
        "nonmonotonic-send",
        "One producer's sequential writes keep their order.",
        "writes of one producer out of order",
        about_record=True,
    ),
    Anomaly(
        "stale-read",
        "A read that starts after a write was acknowledged, or shown to another reader, returns that write.",
        "reads that missed an acknowledged write",
    ),
    Anomaly(
        "nonmonotonic-poll",
        "A reader's position only goes forward, unless it seeks or is assigned again.",
        "readers thrown back",
    ),
    Anomaly(
        "skipped-poll",
        "A reader that goes forward is given every record that it passes.",
        "readers that were not given a record",
    ),
    Anomaly(
        "end-offset-regression",
        "The end of the log that clients are shown never goes back.",
        "ends of logs that went back",
    ),
    Anomaly(
        "divergent-replicas",
        "Below their high watermarks, all replicas of a partition hold the same records.",
        "records on which replicas disagree",
        about_record=True,
    ),
    Anomaly(
        "epoch-regression",
        "Along a log the leader epoch never goes down, and one leader writes in each.",
        "leader epochs that went back",
        about_record=True,
    ),
    Anomaly(
        "two-leaders",
        "In one leader epoch one replica accepts writes.",
        "signs of two leaders in one leader epoch",
    ),
    Anomaly(
        "committed-offset-regression",
        "The committed offset of a group does not go back by itself.",
        "committed offsets that went back",
    ),
    Anomaly(
        "lost-commit",
        "The committed offset of a group is the last one that was acknowledged.",
        "answers that lacked an acknowledged commit",
    ),
    Anomaly(
        "double-ownership",
        "In one generation of a group each partition belongs to one member.",
        "partitions with two owners at once",
    ),
    Anomaly(
        "nonlinearizable",
        "One order of all commands to an object kept in a log explains every answer that clients got.",
        "objects whose history no order explains",
    ),
    Anomaly(
        NODE_LOST,
        "A node runs until it is stopped or a fault ends it, and comes back when it is started again.",
        "nodes that did not come back",
        excused_by_loss=False,
    ),
    Anomaly(
        "unavailable",
        "Once every fault is healed, writes are acknowledged, readers progress and ISRs are full again in time.",
        "failures to recover",
    ),
    Anomaly(
        MALFORMED,
        "The history is whole: every operation has its rows, and the rows are consistent.",
        excused_by_loss=False,
    ),
)

CATALOGUE: Final[Mapping[str, Anomaly]] = {anomaly.name: anomaly for anomaly in _ROWS}
"""By name; the gravest come first, and reports and simulations show them in this order."""

OF_THE_SYSTEM: Final[tuple[str, ...]] = tuple(anomaly.name for anomaly in _ROWS if anomaly.breach)
"""Names of the anomalies that break a promise."""
