"""Finds causes of what the simulator's own checks found: from the property, its sentence, samples and transitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from common.wording import count, moment, node, partition_name
from incidents.evidence import Evidence, Fault, Finding
from incidents.model import Cause
from incidents.partition_history import PartitionHistory

OWN_LAYERS: Final = frozenset({"invariant", "liveness", "crash"})
"""Layers of findings that the checkers on Spark cannot make."""
_SET = r"\[([\d, ]*)\]"
_CHECKSUM: Final = re.compile(r" \(crc \w+\)")
_BATCH: Final = re.compile(r"(?<=is committed): \d+…\d+ of epoch \d+(?: \(crc \w+\))?")
_SETS: Final = re.compile(rf"ISR {_SET}, ELR {_SET}(?:, last known ELR {_SET})?")

_BY_PROPERTY: Final[Mapping[str, str]] = {
    "P-3": "diverged-log-kept",
    "P-4": "wrong-cut",
    "P-5": "isr-disagreement",
    "P-7": "storage-loss",
    "P-8": "unclean-election",
    "P-9": "new-leader",
    "P-10": "log-bounds",
    "P-11": "dirty-read",
    "P-13": "new-leader",
    "P-14": "producer-state",
    "P-15": "acknowledged-early",
    "P-16": "fenced-member",
    "P-17": "eligibility",
    "P-18": "eligibility",
    "P-21": "log-bounds",
    "P-22": "isr-disagreement",
    "P-23": "reassignment",
    "P-25": "wrong-recovery",
    "P-26": "wrong-lookup",
    "P-27": "storage-loss",
    "P-28": "producer-state",
    "corrupt-record": "damaged-log",
    "crash": "node-crash",
    "V-9": "quorum",
}
"""Property → cause, where the property alone says it: the check looks at the decision itself."""
_BY_FAMILY: Final = (("P-R", "quorum"), ("P-G", "groups"), ("V-", "no-progress"), ("P-", "metadata"))
"""Beginning of a property's id → cause, for the others."""


def causes_of_finding(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """Return the cause that a finding shows, or the candidates."""
    judge = _DECIDED_BY_MORE.get(finding.property_id)
    if judge is not None:
        return judge(evidence, finding)
    kind = _BY_PROPERTY.get(finding.property_id)
    if kind is None:
        kind = next((kind for start, kind in _BY_FAMILY if finding.property_id.startswith(start)), "")
    if finding.property_id == "P-3" and "no batch" in finding.what:
        kind = "damaged-log"
    sentence = f"the cluster did not get on: {plain(finding)}" if finding.layer == "liveness" else plain(finding)
    return (_cause(evidence, finding, kind, sentence),) if kind else ()


def plain(finding: Finding) -> str:
    """Return what a finding says, without what only serves to find it again: ids, checksums, ranges of batches."""
    text = finding.what.removeprefix(f"{finding.property_id}: ")
    name = f"{finding.topic}-{finding.partition}"
    if text.startswith(f"{name}: "):
        text = f"{text.removeprefix(f'{name}: ')} (partition {name})"
    return _CHECKSUM.sub("", _BATCH.sub("", text))


def _cause(evidence: Evidence, finding: Finding, kind: str, sentence: str, *spoken: str) -> Cause:
    faults = _enabling(evidence, finding)
    told = [f"{node(one)} {fault.deed}.".capitalize() for fault in faults for one in sorted(fault.targets)[:1]]
    return Cause(
        kind,
        sentence,
        (*spoken, *told),
        finding.at_ns,
        finding.brokers[0] if finding.brokers else None,
        tuple(fault.number for fault in faults if fault.number),
    )


def _enabling(evidence: Evidence, finding: Finding) -> list[Fault]:
    """Return the faults that set the scene: first those on the finding's own brokers, at most three."""
    until_ns = finding.at_ns
    before = [fault for fault in evidence.faults if until_ns is None or fault.started_ns <= until_ns]
    named = [fault for fault in before if set(finding.brokers) & fault.targets]
    others = [fault for fault in before if fault not in named]
    return [*reversed(named), *reversed(others)][:3]


def _candidate_completeness(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-2: a replica that the controller may elect lacks a committed record; find out why it does."""
    if finding.topic is None or finding.partition is None or not finding.brokers or finding.offset is None:
        return (_cause(evidence, finding, "committed-without-member", plain(finding)),)
    broker, offset = finding.brokers[0], finding.offset
    name = partition_name(finding.topic, finding.partition)
    history = evidence.history_of(finding.topic, finding.partition)
    if "has nothing" not in finding.what:
        sentence = f"broker {broker} kept a record at offset {count(offset)} of {name} that differs from the leader's"
        return (_cause(evidence, finding, "diverged-log-kept", sentence, plain(finding) + "."),)
    until_ns = finding.at_ns if finding.at_ns is not None else history.samples[-1].at_ns if history.samples else 0
    had = [s for s in history.samples if s.broker == broker and s.at_ns <= until_ns and (s.log_end or 0) > offset]
    if had:
        since = had[-1].at_ns
        lost = [fault for fault in evidence.faults_on(broker, since, until_ns) if fault.lossy]
        spoken = f"At {moment(since)} its log still ended at {count(had[-1].log_end or 0)}."
        if lost:
            sentence = f"broker {broker} {lost[-1].deed} and still counts as complete for {name}"
            return (_cause(evidence, finding, "storage-loss", sentence, spoken),)
        if _cut_before_commit(history, broker, offset, since):
            counted = (
                f"offset {count(offset)} of {name} was committed after broker {broker}, in the ISR, had cut it off"
            )
            return (_cause(evidence, finding, "committed-without-member", counted, spoken),)
        sentence = f"broker {broker} cut the committed offset {count(offset)} of {name} off its log"
        return (_cause(evidence, finding, "wrong-cut", sentence, spoken),)
    sets = _SETS.search(finding.what)
    if sets is not None and broker in _numbers(sets[2]):
        sentence = (
            f"offset {count(offset)} of {name} was committed by the ISR [{sets[1]}] alone, while broker {broker},"
            " which may be elected, did not have it"
        )
        return (_cause(evidence, finding, "committed-without-member", sentence, f"Its ELR was [{sets[2]}]."),)
    joined_ns = _joined(history, broker, until_ns)
    written_ns = min((s.at_ns for s in history.leading if (s.log_end or 0) > offset), default=None)
    joined = (
        f"broker {broker} joined the ISR of {name}"
        + (f" at {moment(joined_ns)}" if joined_ns is not None else "")
        + f" without the committed offset {count(offset)}"
    )
    counted = f"offset {count(offset)} of {name} was committed although broker {broker}, in the ISR, did not have it"
    if joined_ns is not None and written_ns is not None and joined_ns > written_ns:
        spoken = f"The record was on a leader at {moment(written_ns)}, before broker {broker} joined."
        return (_cause(evidence, finding, "joined-too-early", joined, spoken),)
    if joined_ns is None:
        spoken = f"Every sample before shows broker {broker} in the ISR."
        return (_cause(evidence, finding, "committed-without-member", counted, spoken),)
    spoken = f"Broker {broker} joined at {moment(joined_ns)}, about when the record was written."
    return (
        _cause(evidence, finding, "committed-without-member", counted, spoken),
        _cause(evidence, finding, "joined-too-early", joined, spoken),
    )


def _cut_before_commit(history: PartitionHistory, broker: int, offset: int, since_ns: int) -> bool:
    """Whether a broker lacked an offset again before any leader's high watermark had passed it."""
    lacked = [
        s.at_ns for s in history.samples if s.broker == broker and s.at_ns > since_ns and (s.log_end or 0) <= offset
    ]
    committed = [s.at_ns for s in history.leading if (s.high_watermark or 0) > offset]
    return bool(lacked) and (not committed or lacked[0] < committed[0])


def _joined(history: PartitionHistory, broker: int, until_ns: int) -> int | None:
    """Return when a broker was first seen in the ISR after it had been out of it, according to leaders."""
    joined = None
    outside = False
    for sample in history.leading:
        if sample.at_ns > until_ns:
            break
        if broker in sample.isr:
            joined = sample.at_ns if outside else joined
            outside = False
        else:
            outside = True
    return until_ns if outside else joined


def _leader_completeness(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-1: a leader was elected that lacks what is committed."""
    broker = finding.brokers[0] if finding.brokers else None
    sets = _SETS.search(finding.what)
    isr, elr = ([_numbers(sets[1]), _numbers(sets[2])]) if sets else ([], [])
    sentence = f"broker {broker} was elected{_at(finding)}, although its log lacked committed records"
    spoken = plain(finding) + "."
    if broker in isr or broker in elr:
        lost = [f for f in evidence.faults_on(broker or 0, 0, finding.at_ns or 0) if f.lossy]
        if lost:
            return (
                _cause(evidence, finding, "storage-loss", f"broker {broker} {lost[-1].deed} and was elected", spoken),
            )
        return (_cause(evidence, finding, "eligibility", sentence, spoken),)
    if isr or elr:
        return (_cause(evidence, finding, "unclean-election", sentence, spoken),)
    return (
        _cause(evidence, finding, "wrong-recovery", sentence, spoken, "ISR and ELR were empty: a recovery chose it."),
    )


def _committed_truncation(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-6: a replica cut committed records: the cut was wrong, or the commit counted a follower of old."""
    cut = _cause(evidence, finding, "wrong-cut", plain(finding))
    if finding.topic is None or finding.partition is None or not finding.brokers or finding.at_ns is None:
        return (cut,)
    history = evidence.history_of(finding.topic, finding.partition)
    mine = [s for s in history.samples if s.broker == finding.brokers[0] and s.at_ns <= finding.at_ns]
    leading = [s for s in history.leading if s.at_ns <= finding.at_ns]
    if not mine or not leading or mine[-1].leader_epoch >= leading[-1].leader_epoch:
        return (cut,)
    spoken = (
        f"Broker {mine[-1].broker} still followed broker {mine[-1].leader} in leader epoch {mine[-1].leader_epoch};"
        f" broker {leading[-1].broker} already led in epoch {leading[-1].leader_epoch}."
    )
    sentence = (
        f"broker {leading[-1].broker} counted broker {mine[-1].broker}, which still followed an earlier leader epoch,"
        " as holding what it committed"
    )
    return (_cause(evidence, finding, "committed-without-member", sentence, spoken), cut)


def _acknowledged_durability(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-12: what was acknowledged was not committed, or something else is at its place."""
    if "batch sent had crc" in finding.what:
        return (_cause(evidence, finding, "damaged-log", plain(finding)),)
    leader = finding.brokers[0] if finding.brokers else None
    sentence = f"broker {leader} acknowledged a write{_at(finding)} before it was committed"
    return (_cause(evidence, finding, "acknowledged-early", sentence, plain(finding) + "."),)


_DECIDED_BY_MORE: Final[Mapping[str, Callable[[Evidence, Finding], tuple[Cause, ...]]]] = {
    "P-1": _leader_completeness,
    "P-2": _candidate_completeness,
    "P-6": _committed_truncation,
    "P-12": _acknowledged_durability,
}


def _at(finding: Finding) -> str:
    return "" if finding.at_ns is None else f" at {moment(finding.at_ns)}"


def _numbers(text: str) -> Sequence[int]:
    return [int(word) for word in text.split(",") if word.strip()]
