"""Finds why records are in the log twice: who wrote them again, and what came between the two."""

from __future__ import annotations

from common.wording import count, in_leader_epoch, moment, partition_name
from incidents.evidence import Evidence
from incidents.model import Cause
from incidents.partition_history import Sample
from incidents.rows import Row, details_of

NOT_IDEMPOTENT = "not-idempotent"
"""Kind of a cause that all duplicates of a run share."""

TAKEN_FOR_NEW = "a retried batch was taken for a new one"


def is_doubled(row: Row) -> bool:
    """Whether an anomaly is about a record that is in the log twice.

    One that was acknowledged at one of its places has, by the other, a wrong offset.
    """
    if row["anomaly"] == "duplicate":
        return True
    details = details_of(row)
    places = details.get("polled_at")
    is_twice = isinstance(places, list) and len(places) > 1 and row["offset"] in places
    return row["anomaly"] == "wrong-offset" and (is_twice or bool(details.get("resent")))


def doubled(evidence: Evidence, row: Row) -> Cause | None:
    """Return why a record is in the log twice; None if nothing tells more than that it is."""
    if details_of(row).get("resent"):
        return _resent(row)
    return _retried(row) if is_retried(row) else _taken_for_new(evidence, row)


def is_retried(row: Row) -> bool:
    """Whether a record is there twice because a client that is not idempotent sent it again, as such clients may."""
    is_allowed = row["anomaly"] == "duplicate" and row["within_contract"]
    return bool(is_allowed) and details_of(row).get("idempotence") is False


def _resent(row: Row) -> Cause:
    """A client wrote it twice: its library sent it again, perhaps appended, in a later epoch of its producer."""
    resent = details_of(row)["resent"]
    epochs = (
        f"In the logs producer {resent.get('producer_id')} wrote the copies in epochs {resent.get('producer_epochs')}."
    )
    return Cause(
        "sent-again",
        "a client had raised the epoch of its producer and sent them again, whether or not they had been appended",
        (epochs,),
        row["at_ns"],
        row["broker"],
        (),
        "A broker recognizes a retry only within one epoch of a producer (KIP-98).",
    )


def _retried(row: Row) -> Cause:
    """A client that is not idempotent got no answer, and wrote it twice: one cause for a whole run."""
    return Cause(
        NOT_IDEMPOTENT,
        "a client had sent them again, without idempotence",
        (),
        row["at_ns"],
        None,
        (),
        "Without idempotence a retry may write a record twice (KIP-98).",
    )


def _taken_for_new(evidence: Evidence, row: Row) -> Cause | None:
    """The leader changed while a write waited for its answer: the next one had the batch, and appended its retry."""
    operation, by, places = details_of(row).get("operation"), row["broker"], _places(row)
    sent_ns = operation.get("invoked_ns") if isinstance(operation, dict) else None
    if by is None or row["at_ns"] is None or not isinstance(sent_ns, int) or len(places) < 2:
        return None
    history = evidence.history_of(row["topic"], row["partition"])
    led = [sample for sample in history.leading if sample.at_ns <= sent_ns][-1:]
    took_over = [one for one in history.leading if one.broker == by and sent_ns < one.at_ns]
    if not led or led[0].broker == by or not took_over:
        return None
    before, since = led[0], took_over[0]
    if since.log_end is not None and since.log_end <= min(places):
        return None  # it had not got the first copy, and was right to append the batch
    faults = evidence.faults_on(before.broker, sent_ns, row["at_ns"])
    name = partition_name(row["topic"], row["partition"])
    was = f"When it was sent, at {moment(sent_ns)}, broker {before.broker} led {name}"
    again = f"Broker {by} acknowledged it at offset {count(row['offset'])}, at {moment(row['at_ns'])}"
    return Cause(
        "producer-state",
        f"broker {by} took a retried batch for a new one, which broker {before.broker} had appended when it led",
        (
            f"{was}{in_leader_epoch(before.leader_epoch)}.",
            *(f"Broker {before.broker} {fault.deed}, and then broker {by} led." for fault in faults),
            *_first_seen(by, since),
            f"{again}; it is at offset {count(min(places))}, too.",
        ),
        row["at_ns"],
        by,
        tuple(fault.number for fault in faults if fault.number),
    )


def _places(row: Row) -> list[int]:
    details = details_of(row)
    found = details.get("offsets", details.get("polled_at"))
    return [one for one in found if isinstance(one, int)] if isinstance(found, list) else []


def _first_seen(by: int, since: Sample) -> list[str]:
    if since.log_end is None:
        return []
    end = f"with a log that ended at {count(since.log_end)}"
    return [
        f"Broker {by} was first seen as leader at {moment(since.at_ns)}{in_leader_epoch(since.leader_epoch)}, {end}."
    ]
