"""Makes a cause of a finding of the simulator: what it says, in words, and the faults that it needs, or before it.

What a finding says of ISR and ELR is read by the same patterns everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from common.wording import as_sentence
from incidents.evidence import Evidence, Finding
from incidents.faults import Fault
from incidents.findings_in_words import in_words, known_gap, plain
from incidents.model import Cause

SET: Final = r"\[([\d, ]*)\]"
SETS: Final = re.compile(rf"ISR {SET}, ELR {SET}(?:, last known ELR {SET})?")
_MIN_ISR = re.compile(r"\bmin ISR (?:is |was )?(\d+)\b")


def as_found(evidence: Evidence, finding: Finding, kind: str) -> Cause:
    """Return a cause that the finding itself says: in words, with the exact sentence as evidence."""
    words, exact = in_words(finding), plain(finding)
    sentence = f"the cluster did not get on: {words}" if finding.layer == "liveness" else words
    spoken = [] if words == exact else [as_sentence(exact)]
    return cause_of(evidence, finding, kind, sentence, *spoken, *_raised_min_isr(evidence, finding))


def _raised_min_isr(evidence: Evidence, finding: Finding) -> list[str]:
    """Say that the min ISR of a finding is above the one that the run began with: clients had altered it."""
    found = _MIN_ISR.search(finding.what)
    began = evidence.settings.get("min_insync_replicas")
    if found is None or not isinstance(began, int) or int(found[1]) <= began:
        return []
    return [f"min.insync.replicas was {began} at the start, and {found[1]} by then: it had been altered in between."]


def cause_of(evidence: Evidence, finding: Finding, kind: str, sentence: str, *spoken: str) -> Cause:
    """Return a cause with what speaks for it, and the faults that are known to be needed, or else came before it."""
    faults = _enabling(evidence, finding)
    known = evidence.needed is not None and bool(evidence.needed.needed or not evidence.needed.untested)
    what = "Faults that it needs" if known else "Faults before it"
    if known and evidence.needed is not None and evidence.needed.parts:
        what += " (what belongs together counts as one)"
    is_chance = known and evidence.needed is not None and evidence.needed.is_chance
    if is_chance:
        what = "Faults without any one of which, and with the same random choices, it does not occur"
    before = evidence.stories((fault.number for fault in sorted(faults, key=_start)), in_brief=is_chance)
    enabling = [f"{what}: {'; '.join(before)}."] if before else []
    return Cause(
        kind,
        sentence,
        (*spoken, *enabling),
        finding.at_ns,
        finding.brokers[0] if finding.brokers else None,
        tuple(dict.fromkeys((*named(evidence, sentence, *spoken), *(one.number for one in faults if one.number)))),
        known_gap(finding),
    )


def named(evidence: Evidence, *sentences: str) -> list[int]:
    """The faults that sentences name: they took part, also where others would have done."""
    return [
        fault.number
        for sentence in sentences
        for fault in evidence.faults
        if fault.number and f"(fault #{fault.number})" in sentence
    ]


def _start(fault: Fault) -> int:
    return fault.started_ns


def _enabling(evidence: Evidence, finding: Finding) -> list[Fault]:
    """Return the faults that it needs, if known; else those in effect that were not tried, or at most three before it.

    Of those before it the ones on the finding's brokers come first.
    """
    if evidence.needed is not None and (evidence.needed.needed or not evidence.needed.untested):
        return [fault for fault in evidence.faults if fault.number in evidence.needed.needed]
    until_ns = finding.at_ns
    if evidence.needed is not None and until_ns is not None:
        lasting = evidence.in_effect(until_ns, finding.brokers, evidence.needed.untested)
        if lasting:
            return lasting
    left_out = evidence.needed.not_needed if evidence.needed is not None else ()
    before = [
        fault
        for fault in evidence.faults
        if fault.number not in left_out and (until_ns is None or fault.started_ns <= until_ns)
    ]
    named = [fault for fault in before if set(finding.brokers) & fault.targets]
    others = [fault for fault in before if fault not in named]
    return [*reversed(named), *reversed(others)][:3]


def that_took(evidence: Evidence, lost: Sequence[Fault], otherwise: int) -> Fault | None:
    """Return which of the faults that take records took them: one that the failure needs, if that is known.

    `otherwise`: the place of the likeliest.
    """
    needed = () if evidence.needed is None else evidence.needed.needed
    likeliest = lost[otherwise] if lost else None
    return next((fault for fault in reversed(lost) if fault.number in needed), likeliest)
