"""Tells how records that a simulated failure cost in the end were lost: by which leader, and under which faults.

The simulator stops judging at the first violation and goes on playing; what the clients' history lacks in the end may
have gone in another partition, and in another way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from common.wording import as_sentence, moment, partition_name, plural
from incidents.chains import NewLeader, new_leader
from incidents.evidence import Evidence, Finding
from incidents.losses import causes_of
from incidents.model import Cause
from incidents.rows import Row
from incidents.takeovers import LOST, Loss, losses_in

IN_THE_END: Final = "In the end "
"""How evidence of a simulated failure begins that tells of the harm, and not of the first violation."""
_TOLD_MAX: Final = 4
"""Losses that are told, of one finding or several."""


class _Told(NamedTuple):
    text: str
    faults: tuple[int, ...]


def with_later_losses(evidence: Evidence, findings: Sequence[Finding], causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """Return the causes of the first finding with how the records that later ones miss were lost, where that is known.

    Records of one partition that different leaders lacked are told apart.
    """
    later = [finding for finding in findings[1:] if finding.layer == "history" and finding.property_id in LOST]
    told = [one for finding in later for one in _of_finding(evidence, finding)][:_TOLD_MAX]
    further = [number for one in told for number in one.faults]
    return tuple(
        replace(
            cause,
            evidence=(*cause.evidence, *dict.fromkeys(one.text for one in told)),
            faults=tuple(dict.fromkeys((*cause.faults, *further))),
        )
        for cause in causes
    )


def _of_finding(evidence: Evidence, finding: Finding) -> Iterator[_Told]:
    for loss in losses_in(evidence, _rows(evidence, finding)):
        causes = causes_of(evidence, loss) if loss.takeover is not None else ()
        if len(causes) == 1:
            yield _told(evidence, loss, causes[0])


def _told(evidence: Evidence, loss: Loss, cause: Cause) -> _Told:
    """Say how records of one loss went: what was done, whom its replica had begun to follow, and under which faults."""
    led = NewLeader()
    if cause.kind == "wrong-cut" and cause.node is not None and cause.at_ns is not None:
        led = new_leader(evidence, evidence.history_of(loss.topic, loss.partition), cause.node, cause.at_ns)
    name = partition_name(loss.topic, loss.partition)
    lost = f"{name} lost {plural(len(loss.rows), 'record')}, acknowledged by {moment(loss.last_ns)}"
    by_faults = [line for line in cause.evidence if "(fault #" in line]
    text = " ".join([as_sentence(f"{IN_THE_END}{lost}: {cause.sentence}"), *led.sentences, *by_faults])
    numbers = (*led.faults, *cause.faults)
    return _Told(text, tuple(number for number in numbers if re.search(rf"#{number}\b", text)))


def _rows(evidence: Evidence, finding: Finding) -> list[Row]:
    """Return the records that a finding misses as the checkers would tell them: it names the first one, and offsets."""
    first = evidence.acknowledged(finding.value) if finding.value is not None else None
    if first is None:
        return []
    topic, partition, offset = first["topic"], first["partition"], first["offset"]
    mine = [(start, end) for number, start, end in finding.ranges if number == partition] or [(offset, offset)]
    gone = [one for start, end in mine for one in evidence.gone(topic, partition, start, end)]
    return [{**one, "anomaly": finding.property_id, "within_contract": False, "evidence": None} for one in gone]
