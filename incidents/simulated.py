"""Finds causes of what the simulator's own checks found: from the property, its sentence, samples and transitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from common.wording import as_sentence, count, moment, node, nodes, partition_name
from incidents.chains import asked_to_drop, came_back, led_by_another, left_alone, new_leader, not_heard
from incidents.evidence import Evidence, Finding
from incidents.findings_in_words import in_words
from incidents.found_causes import SET, SETS, as_found, cause_of, named, that_took
from incidents.lacking_members import causes_of_lack
from incidents.model import Cause
from incidents.transitions import (
    controller_of,
    fenced_by,
    fenced_members,
    numbers,
    told_to_cut,
)
from incidents.untrue_answers import PATTERN as UNTRUE

OWN_LAYERS: Final = frozenset({"invariant", "liveness", "crash"})
"""Layers of findings that the checkers on Spark cannot make."""
_COMMITTED_EPOCH: Final = re.compile(r"is committed: \d+…\d+ of epoch (\d+)")
_KEPT_ALONE: Final = re.compile(r"broker (\d+) is fenced and in the ISR \[\1\], leader -1")
"""What P-16 says of a partition that nobody leads, and whose ISR is one fenced broker."""
_FENCED_MEMBER: Final = re.compile(rf"broker (\d+) is fenced and in the ISR {SET}")
_OF_REPLICAS: Final = re.compile(rf"replicas {SET}")
_NAMED: Final = re.compile(
    rf"without (\d+)…\d+, which broker \d+ has acknowledged \(the tree named -?\d+, in sync {SET}\)"
)
"""What P-1 says in the designs on ZooKeeper: of a leader that opens without what had been acknowledged."""

_PROPOSED: Final = re.compile(rf"broker (\d+) has ISR {SET}, {SET} proposed")

_BY_PROPERTY: Final[Mapping[str, str]] = {
    "P-3": "diverged-log-kept",
    "P-4": "wrong-cut",
    "P-5": "isr-disagreement",
    "P-8": "unclean-election",
    "P-9": "new-leader",
    "P-10": "log-bounds",
    "P-11": "dirty-read",
    "P-13": "new-leader",
    "P-14": "producer-state",
    "P-15": "acknowledged-early",
    "P-17": "eligibility",
    "P-18": "eligibility",
    "P-21": "log-bounds",
    "P-25": "wrong-recovery",
    "P-26": "wrong-lookup",
    "P-27": "storage-loss",
    "P-28": "producer-state",
    "P-31": "wrong-refusal",
    "P-36": "log-bounds",
    "P-39": "groups",
    "P-41": "wrong-refusal",
    "P-42": "stale-answer",
    "P-43": "eligibility",
    "P-45": "wrong-refusal",
    "P-67": "untrue",
    "P-73": "oversized-answer",
    "P-74": "untrue",
    "P-75": "fenced-member",
    "P-76": "untrue",
    "P-77": "untrue",
    "P-79": "quorum",
    "P-80": "metadata",
    "P-D2": "producer-state",
    "corrupt-record": "damaged-log",
    "crash": "node-crash",
    "V-9": "quorum",
    "V-21": "quorum",
}
"""Property → cause, where the property alone says it: the check looks at the decision itself."""
_BY_FAMILY: Final = (("P-R", "quorum"), ("P-G", "groups"), ("V-", "no-progress"), ("P-", "metadata"))
"""Beginning of a property's id → cause, for the others."""


def causes_of_finding(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """Return the cause that a finding shows, or the candidates."""
    if finding.property_id == "P-6" and "had synced up to" in finding.what:
        return (as_found(evidence, finding, "wrong-cut"),)
    judge = _DECIDED_BY_MORE.get(finding.property_id)
    if judge is not None:
        return judge(evidence, finding)
    kind = _BY_PROPERTY.get(finding.property_id)
    if kind is None:
        kind = next((kind for start, kind in _BY_FAMILY if finding.property_id.startswith(start)), "")
    if finding.property_id == "P-3" and "no batch" in finding.what:
        kind = "damaged-log"
    if finding.property_id == "P-42" and "tells where its log differs" in finding.what:
        kind = "log-bounds"
    return (as_found(evidence, finding, kind),) if kind else ()


def _leader_completeness(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-1: a leader was elected that lacks what is committed."""
    broker = finding.brokers[0] if finding.brokers else None
    sets = SETS.search(finding.what)
    isr, elr = (numbers(sets[1]), numbers(sets[2])) if sets else ((), ())
    name = partition_name(finding.topic, finding.partition)
    sentence = f"broker {broker} was elected{_at(finding)}, although its log of {name} lacked committed records"
    spoken = as_sentence(in_words(finding))
    acknowledged = _NAMED.search(finding.what)
    if acknowledged is not None and finding.topic is not None and finding.partition is not None:
        return (_elected_by_zookeeper(evidence, finding, acknowledged, sentence, spoken),)
    if broker in isr or broker in elr:
        lost = [f for f in evidence.faults_on(broker or 0, 0, finding.at_ns or 0) if f.lossy]
        took = that_took(evidence, lost, -1)
        if took is not None:
            return (
                cause_of(evidence, finding, "storage-loss", f"broker {broker} {took.deed} and was elected", spoken),
            )
        return (cause_of(evidence, finding, "eligibility", sentence, spoken),)
    if isr or elr:
        return (cause_of(evidence, finding, "unclean-election", sentence, spoken),)
    return (
        cause_of(evidence, finding, "wrong-recovery", sentence, spoken, "ISR and ELR were empty: a recovery chose it."),
    )


def _elected_by_zookeeper(
    evidence: Evidence, finding: Finding, acknowledged: re.Match[str], sentence: str, spoken: str
) -> Cause:
    """A leader without what was acknowledged: it lost that, cut it off, never had it, or was not in sync.

    A loss of pages in the middle of a file shortens no file, and the log ends before them when it is opened again.
    """
    broker, first, until_ns = finding.brokers[0], int(acknowledged[1]), finding.at_ns or 0
    history = evidence.history_of(str(finding.topic), finding.partition or 0)
    had = [s for s in history.samples if s.broker == broker and s.at_ns <= until_ns and (s.log_end or 0) > first]
    since = had[-1].at_ns if had else 0
    lost = [fault for fault in evidence.faults_on(broker, since, until_ns) if evidence.is_lossy(fault.kind)]
    took = that_took(evidence, lost, -1)
    if took is not None:
        return cause_of(evidence, finding, "storage-loss", f"broker {broker} {took.deed} and was elected", spoken)
    if had:
        name = partition_name(history.topic, history.partition)
        cut = f"broker {broker} cut committed records of {name} off its log and was elected{_at(finding)}"
        ended = f"At {moment(since)} its log still ended at {count(had[-1].log_end or 0)}."
        return cause_of(evidence, finding, "wrong-cut", cut, ended, spoken)
    kind = "committed-without-member" if broker in numbers(acknowledged[2]) else "unclean-election"
    return cause_of(evidence, finding, kind, sentence, spoken)


def _committed_truncation(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-6: a replica cut committed records: the cut was wrong, or the commit counted a follower of old."""
    cut = as_found(evidence, finding, "wrong-cut")
    if finding.topic is None or finding.partition is None or not finding.brokers or finding.at_ns is None:
        return (cut,)
    history = evidence.history_of(finding.topic, finding.partition)
    led = new_leader(evidence, history, finding.brokers[0], finding.at_ns)
    cut = _led_up_by(evidence, cut, led.sentences)
    mine = [s for s in history.samples if s.broker == finding.brokers[0] and s.at_ns <= finding.at_ns]
    leading = [s for s in history.leading if s.at_ns <= finding.at_ns]
    if not mine or not leading or mine[-1].leader_epoch >= leading[-1].leader_epoch:
        return (cut,)
    stale, present = mine[-1], leading[-1]
    epoch = _COMMITTED_EPOCH.search(finding.what)
    if epoch is not None and int(epoch[1]) > stale.leader_epoch:
        sentence = (
            f"broker {stale.broker} appended a record of leader epoch {epoch[1]} before it knew of that epoch, and then"
            f" cut it off again for the leader of epoch {stale.leader_epoch}"
        )
        return (cause_of(evidence, finding, "stale-answer", sentence, as_sentence(in_words(finding))),)
    spoken = (
        f"Broker {stale.broker} still followed broker {stale.leader} in leader epoch {stale.leader_epoch};"
        f" broker {present.broker} already led in epoch {present.leader_epoch}."
    )
    sentence = (
        f"broker {present.broker} counted broker {stale.broker}, which still followed an earlier leader epoch,"
        " as holding what it committed"
    )
    counted = cause_of(evidence, finding, "committed-without-member", sentence, spoken)
    name = partition_name(history.topic, history.partition)
    obeyed = told_to_cut(evidence.story, stale.broker, name, finding.at_ns) == stale.leader
    return (counted,) if obeyed and stale.leader != present.broker else (counted, cut)


def _isr_disagreement(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-22: what a leader goes by for its commits is not what the controller knows; perhaps it drops members."""
    found = as_found(evidence, finding, "isr-disagreement")
    sets = _PROPOSED.search(finding.what)
    dropped = sorted({*numbers(sets[2])} - {*numbers(sets[3])}) if sets is not None else []
    if sets is None or not dropped or finding.at_ns is None:
        return (found,)
    name = partition_name(finding.topic, finding.partition)
    why = asked_to_drop(evidence, int(sets[1]), dropped, name, finding.at_ns)
    why += led_by_another(evidence.history_of(str(finding.topic), finding.partition or 0), int(sets[1]), finding.at_ns)
    return (_led_up_by(evidence, found, why),)


def _unclean_member(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-7: a replica counts as complete after an unclean stop; say after which, and how it was left alone."""
    found = as_found(evidence, finding, "storage-loss")
    if not finding.brokers or finding.at_ns is None or finding.topic is None:
        return (found,)
    name = partition_name(finding.topic, finding.partition)
    alone = left_alone(evidence, name, finding.brokers[0], finding.at_ns)
    return (_led_up_by(evidence, found, [*alone, *came_back(evidence, finding.brokers[0], finding.at_ns)]),)


def _untrue_answer(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-35: a broker served or refused against the metadata that it had; these may have been old."""
    said = re.search(UNTRUE, finding.what)
    kind = "untrue-answer" if said is not None and said["error"] == "NONE" else "wrong-refusal"
    found = as_found(evidence, finding, kind)
    if said is None or None in (said["stated"], said["epoch"], finding.at_ns):
        return (found,)
    stated, known = int(said["stated"]), int(said["epoch"])
    if stated <= known or finding.at_ns is None:
        return (found,)
    return (_led_up_by(evidence, found, not_heard(evidence, int(said["broker"]), stated, finding.at_ns)),)


def _led_up_by(evidence: Evidence, found: Cause, told: Sequence[str]) -> Cause:
    """Return a cause with what led up to it before all else that speaks for it, and with the faults that this names."""
    faults = tuple(dict.fromkeys((*named(evidence, *told), *found.faults)))
    return replace(found, evidence=(*told, *found.evidence), faults=faults)


def _fenced_member(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-16: a fenced broker is a member; perhaps the last one, kept although it has lost what it had."""
    alone = _KEPT_ALONE.search(finding.what)
    if alone is not None:
        broker = int(alone[1])
        took = that_took(evidence, [f for f in evidence.faults_on(broker, 0, finding.at_ns or 0) if f.lossy], -1)
        if took is not None:
            sentence = f"broker {broker} {took.deed} and stays in the ISR as its only member, so that it may lead"
            return (cause_of(evidence, finding, "storage-loss", sentence, as_sentence(in_words(finding))),)
    member = _FENCED_MEMBER.search(finding.what)
    if member is not None and finding.at_ns is not None and finding.topic is not None:
        fenced = fenced_by(evidence.story, int(member[1]), finding.at_ns)
        if fenced is not None:
            at_ns, controller = fenced
            sentence = (
                f"{node(controller)} fenced broker {member[1]} at {moment(at_ns)} and left it in the ISR [{member[2]}]"
                f" of {partition_name(finding.topic, finding.partition)}"
            )
            return (cause_of(evidence, finding, "fenced-member", sentence, as_sentence(in_words(finding))),)
    return (as_found(evidence, finding, "fenced-member"),)


def _epoch_sanity(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-19: two decisions rested on one state, so that the later one has undone the earlier."""
    if finding.topic is not None and finding.at_ns is not None:
        name = partition_name(finding.topic, finding.partition)
        found = fenced_members(evidence.story, name, finding.at_ns)
        if found is not None:
            left = nodes(found.members)
            sentence = (
                f"{node(found.controller)} fenced {nodes(found.fenced)} at {moment(found.at_ns)} and left {left} in the"
                f" ISR {list(found.isr)} of {name}"
            )
            return (cause_of(evidence, finding, "fenced-member", sentence, as_sentence(in_words(finding))),)
    return (as_found(evidence, finding, "metadata"),)


def _reassignment_safety(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-23: a reassignment gave up what was needed, or the eligible replicas include one that is no replica."""
    sets, replicas = SETS.search(finding.what), _OF_REPLICAS.search(finding.what)
    if sets is None or replicas is None:
        found = as_found(evidence, finding, "reassignment")
        name = partition_name(finding.topic, finding.partition)
        decided = controller_of(evidence.story, name, finding.at_ns) if finding.at_ns is not None else None
        if decided is not None and found.sentence.startswith("the controller "):
            found = replace(found, sentence=found.sentence.replace("the controller", node(decided), 1))
        return (found,)
    outside = sorted({*numbers(sets[1]), *numbers(sets[2])} - {*numbers(replicas[1])})
    sentence = (
        f"{nodes(outside)} may still be elected for {partition_name(finding.topic, finding.partition)}, although it is"
        f" no longer among its replicas [{replicas[1]}]"
    )
    return (cause_of(evidence, finding, "eligibility", sentence, as_sentence(in_words(finding))),)


def _acknowledged_durability(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-12: what was acknowledged was not committed, or something else is at its place."""
    if "batch sent had crc" in finding.what:
        return (as_found(evidence, finding, "damaged-log"),)
    leader = finding.brokers[0] if finding.brokers else None
    sentence = f"broker {leader} acknowledged a write{_at(finding)} before it was committed"
    return (cause_of(evidence, finding, "acknowledged-early", sentence, as_sentence(in_words(finding))),)


_DECIDED_BY_MORE: Final[Mapping[str, Callable[[Evidence, Finding], tuple[Cause, ...]]]] = {
    "P-1": _leader_completeness,
    "P-2": causes_of_lack,
    "P-6": _committed_truncation,
    "P-7": _unclean_member,
    "P-12": _acknowledged_durability,
    "P-16": _fenced_member,
    "P-19": _epoch_sanity,
    "P-22": _isr_disagreement,
    "P-23": _reassignment_safety,
    "P-35": _untrue_answer,
}


def _at(finding: Finding) -> str:
    return "" if finding.at_ns is None else f" at {moment(finding.at_ns)}"
