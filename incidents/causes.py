"""The catalogue of causes: what can be at the root of an incident, and the rules of the protocol that forbid it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Kind:
    """One kind of cause."""

    name: str
    summary: str
    """The mistake, one sentence for the reader of a report."""
    rules: str = ""
    """Ids of the rules of the protocol that forbid it."""


_ROWS: Final = (
    Kind(
        "acknowledged-early",
        "A leader acknowledged a write before enough replicas had it.",
        "PR-4, PR-6",
    ),
    Kind(
        "committed-without-member",
        "A leader counted a record as committed that a member of the ISR lacked.",
        "HW-1, HW-2, HW-3",
    ),
    Kind(
        "joined-too-early", "A replica joined the ISR before it had all that was committed.", "ISR-E2, ISR-E3, ISR-E4"
    ),
    Kind(
        "isr-disagreement",
        "A leader went by other replicas than those that the controller has, or may take, for in sync.",
        "ISR-3, ISR-4, AP-6",
    ),
    Kind("wrong-cut", "A replica cut committed records off its log.", "TR-1"),
    Kind("diverged-log-kept", "A replica kept records that differ from the leader's.", "FE-6, RT-5, TR-1"),
    Kind(
        "storage-loss",
        "A replica that had lost, or may have lost, what it had written was taken for complete.",
        "RG-6, EL-5, ELR-2",
    ),
    Kind(
        "emptied-replica",
        "A replica that a reassignment had emptied was taken for complete.",
        "RT-3, RT-4",
    ),
    Kind(
        "stale-answer",
        "A follower applied an answer that did not fit the leader epoch, or the log end, that it had.",
        "TR-5, TR-6",
    ),
    Kind("unclean-election", "A replica was elected that had not been eligible when last seen.", "EL-3, EL-4"),
    Kind(
        "wrong-recovery",
        "An unclean recovery elected a replica by too little, or forgot who else may be complete.",
        "UR-5, UR-6, UR-7, UR-10",
    ),
    Kind("eligibility", "The controller kept wrong sets of eligible replicas.", "ELR-1, ELR-2, ELR-4"),
    Kind("fenced-member", "A fenced broker was a leader or a member of an ISR.", "EL-5, AP-8, HB-3, HB-4"),
    Kind("reassignment", "A reassignment gave up replicas that were needed.", "RA-3, RA-6"),
    Kind("dirty-read", "A leader showed readers what was not committed.", "FE-8"),
    Kind("stale-leader", "A leader that had been replaced answered clients."),
    Kind("leader-change", "The leadership was changing.", "BL-10, HW-6"),
    Kind("new-leader", "A new leader answered before its high watermark had caught up.", "HW-6, HW-9, LO-2"),
    Kind("producer-state", "A replica's memory of producers did not match its log.", "PR-5"),
    Kind("sent-again", "A client sent a record again in a later epoch of its producer."),
    Kind("not-idempotent", "A client sent a record again without idempotence."),
    Kind("log-bounds", "Start, high watermark, end or epochs of a log contradicted each other.", "HW-7, EC-3, LO-3"),
    Kind("wrong-lookup", "A lookup by time gave a wrong offset.", "LO-5, LO-6"),
    Kind("wrong-refusal", "A node refused a request for a reason that did not hold.", "AP-4, FE-11, PR-5"),
    Kind("untrue-answer", "A broker served a request that it had to refuse.", "FE-2, FE-11, LO-1"),
    Kind("oversized-answer", "A broker sent more than it was asked for."),
    Kind("untrue", "A node reported, or left on its disk, what is not true.", "BL-2, BL-8, HB-2"),
    Kind("metadata", "The controllers' decisions or answers contradicted each other.", "CT-1, HB-4, MD-3"),
    Kind("quorum", "The controllers' quorum broke its own rules.", "QU-1, QU-8, QU-11, QU-12"),
    Kind("no-progress", "A service that was to be back once the faults were healed did not come back."),
    Kind("node-crash", "A node ended by itself."),
    Kind("damaged-log", "A log holds bytes that nobody wrote.", "ST-7"),
    Kind("weak-acknowledgement", "The producer did not wait for replicas."),
    Kind("groups", "A coordinator of groups forgot or contradicted itself."),
)

KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in _ROWS}
"""By name."""
