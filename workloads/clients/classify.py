"""Classifies errors of sends: certainly without effect (`fail`), or unknown (`info`).

A client retries by itself, so its final error describes only the last attempt. A send is `fail` only if *every*
attempt is known and every one certainly appended nothing; one attempt in doubt makes it `info` for ever. A wrong
`fail` would turn a correct broker's record into an `aborted-read`; a superfluous `info` only makes the check a little
less precise.

| answer | rule (PR-1 … PR-7) | appended by that attempt |
|---|---|---|
| never left the client | no attempt was made | no |
| NOT_ENOUGH_REPLICAS | PR-2: refused before the append | no |
| OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID | PR-5: refused likewise | no |
| INVALID_…, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, …_AUTHORIZATION_FAILED | PR-1: refused by validation | no |
| NOT_LEADER_OR_FOLLOWER | PR-1 before the append, PR-6 while waiting: the code is the same | unknown |
| UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID | before, or the partition went away while waiting | unknown |
| NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT | PR-6, PR-7 | unknown |
| DUPLICATE_SEQUENCE_NUMBER | appended by another attempt, perhaps not yet committed | unknown |
| connection lost, no answer in time, any other code | unknown | unknown |

Answers of the two unknown-topic codes are definite only as long as no partition is deleted or reassigned
while a produce request waits for its replicas; a schedule may contain such a fault, so they
count as unknown. Reads and offset queries have no effect: with any error they are `fail`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, Literal

Status = Literal["ok", "fail", "info"]
"""How an operation ended: it took effect, it certainly had no effect, or its effect is unknown."""


class Local(Enum):
    """Ends of an attempt without an answer from a broker."""

    NOT_SENT = "not sent"
    """No byte of the request left the client."""
    NO_ANSWER = "no answer"
    """At least a part of the request left the client, and no answer arrived."""


AttemptEnd = int | Local
"""How one attempt ended: the broker's error code, or what the client knows."""

REFUSED_BEFORE_APPEND: Final = frozenset(
    {
        2,  # CORRUPT_MESSAGE
        10,  # MESSAGE_TOO_LARGE
        17,  # INVALID_TOPIC_EXCEPTION
        18,  # RECORD_LIST_TOO_LARGE
        19,  # NOT_ENOUGH_REPLICAS
        21,  # INVALID_REQUIRED_ACKS
        29,  # TOPIC_AUTHORIZATION_FAILED
        31,  # CLUSTER_AUTHORIZATION_FAILED
        32,  # INVALID_TIMESTAMP
        35,  # UNSUPPORTED_VERSION
        42,  # INVALID_REQUEST
        43,  # UNSUPPORTED_FOR_MESSAGE_FORMAT
        45,  # OUT_OF_ORDER_SEQUENCE_NUMBER
        47,  # INVALID_PRODUCER_EPOCH
        49,  # INVALID_PRODUCER_ID_MAPPING
        59,  # UNKNOWN_PRODUCER_ID
        76,  # UNSUPPORTED_COMPRESSION_TYPE
        87,  # INVALID_RECORD
    }
)
"""Kafka error codes with which a broker refuses a batch before anything is appended, in every situation."""


def may_have_appended(end: AttemptEnd) -> bool:
    """Whether an attempt that ended so may have appended its records."""
    if isinstance(end, Local):
        return end is Local.NO_ANSWER
    return end not in REFUSED_BEFORE_APPEND


def classify_failed_send(attempts: Iterable[AttemptEnd]) -> Status:
    """Classify a send that the client gave up, from all attempts that were made for it.

    No attempt at all is `fail`: the caller guarantees that `attempts` is complete.
    """
    return "info" if any(map(may_have_appended, attempts)) else "fail"


def combine(statuses: Iterable[Status]) -> Status:
    """Combine the statuses of an operation's records, which may have been sent in several batches.

    Equal statuses: that one; otherwise `info`, because neither `ok` nor `fail` is true of the operation.
    """
    different = set(statuses)
    return different.pop() if len(different) == 1 else "info"
