"""Tells how records that a simulated failure cost in the end were lost: by which leader, and under which faults.

The simulator stops judging at the first violation and goes on playing; what the clients' history lacks in the end may
have gone in another partition, and in another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from common.wording import as_sentence, partition_name
from incidents.chains import NewLeader, new_leader
from incidents.evidence import Evidence, Finding
from incidents.losses import causes_of
from incidents.model import Cause
from incidents.rows import Row
from incidents.takeovers import LOST, losses_in

IN_THE_END: Final = "In the end "
"""How evidence of a simulated failure begins that tells of the harm, and not of the first violation."""


def with_later_losses(evidence: Evidence, findings: Sequence[Finding], causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """Return the causes of the first finding with how the records that later ones miss were lost, where that is known.

    Findings of the clients' history name the first lost record of each kind.
    """
    found = [_of_one(evidence, finding) for finding in findings[1:] if finding.layer == "history"]
    told = {cause.sentence: sentence for cause, sentence in filter(None, found)}
    further = tuple(number for cause, _ in filter(None, found) for number in cause.faults)
    return tuple(
        replace(
            cause,
            evidence=(*cause.evidence, *told.values()),
            faults=tuple(dict.fromkeys((*cause.faults, *further))),
        )
        for cause in causes
    )


def _of_one(evidence: Evidence, finding: Finding) -> tuple[Cause, str] | None:
    row = _row(evidence, finding)
    losses = losses_in(evidence, [row]) if row is not None else []
    causes = causes_of(evidence, losses[0]) if losses and losses[0].takeover is not None else ()
    if len(causes) != 1:
        return None
    cause, name = causes[0], partition_name(losses[0].topic, losses[0].partition)
    led = NewLeader()
    if cause.kind == "wrong-cut" and cause.node is not None and cause.at_ns is not None:
        history = evidence.history_of(losses[0].topic, losses[0].partition)
        led = new_leader(evidence, history, cause.node, cause.at_ns)
    by_faults = [line for line in cause.evidence if "(fault #" in line]
    sentence = as_sentence(f"{IN_THE_END}{name} lost records: {cause.sentence}")
    faults = tuple(dict.fromkeys((*led.faults, *cause.faults)))
    return replace(cause, faults=faults), " ".join([sentence, *led.told, *by_faults])


def _row(evidence: Evidence, finding: Finding) -> Row | None:
    """Return the record that a finding misses as the checkers would tell it; None if the history has no such write."""
    if finding.property_id not in LOST or finding.value is None:
        return None
    sent = evidence.write_of(finding.value)
    if sent is None or sent["offset"] is None:
        return None
    return {**sent, "anomaly": finding.property_id, "within_contract": False, "evidence": None}
