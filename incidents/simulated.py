"""Finds causes of what the simulator's own checks found: from the property, its sentence, samples and transitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from common.wording import as_sentence, count, moment, node, nodes, partition_name
from incidents.chains import left_alone, new_leader
from incidents.evidence import Evidence, Finding
from incidents.faults import Fault
from incidents.findings_in_words import in_words, known_gap, plain
from incidents.model import Cause
from incidents.partition_history import PartitionHistory
from incidents.transitions import (
    asked_to_add,
    controller_of,
    deleted_unseen,
    fenced_by,
    fenced_members,
    high_watermark_moved,
    numbers,
    record_held,
    told_to_cut,
    unanswered_since,
)

OWN_LAYERS: Final = frozenset({"invariant", "liveness", "crash"})
"""Layers of findings that the checkers on Spark cannot make."""
_SET = r"\[([\d, ]*)\]"
_COMMITTED_EPOCH: Final = re.compile(r"is committed: \d+…\d+ of epoch (\d+)")
_EPOCH_THERE: Final = re.compile(r", where \d+…\d+ of epoch (\d+)")
_KEPT_ALONE: Final = re.compile(r"broker (\d+) is fenced and in the ISR \[\1\], leader -1")
"""What P-16 says of a partition that nobody leads, and whose ISR is one fenced broker."""
_FENCED_MEMBER: Final = re.compile(rf"broker (\d+) is fenced and in the ISR {_SET}")
_OF_REPLICAS: Final = re.compile(rf"replicas {_SET}")
_NAMED: Final = re.compile(
    rf"without (\d+)…\d+, which broker \d+ has acknowledged \(the tree named -?\d+, in sync {_SET}\)"
)
"""What P-1 says in the designs on ZooKeeper: of a leader that opens without what had been acknowledged."""
_SETS: Final = re.compile(rf"ISR {_SET}, ELR {_SET}(?:, last known ELR {_SET})?")

_ONE_SAMPLE_NS: Final = 1_000_000_000
"""How far apart two samples of a broker may be while it runs."""

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
    "P-17": "eligibility",
    "P-18": "eligibility",
    "P-21": "log-bounds",
    "P-22": "isr-disagreement",
    "P-25": "wrong-recovery",
    "P-26": "wrong-lookup",
    "P-27": "storage-loss",
    "P-28": "producer-state",
    "P-31": "wrong-refusal",
    "P-35": "wrong-refusal",
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


_MIN_ISR = re.compile(r"\bmin ISR (?:is |was )?(\d+)\b")


def causes_of_finding(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """Return the cause that a finding shows, or the candidates."""
    if finding.property_id == "P-6" and "had synced up to" in finding.what:
        return (_as_found(evidence, finding, "wrong-cut"),)
    judge = _DECIDED_BY_MORE.get(finding.property_id)
    if judge is not None:
        return judge(evidence, finding)
    kind = _BY_PROPERTY.get(finding.property_id)
    if kind is None:
        kind = next((kind for start, kind in _BY_FAMILY if finding.property_id.startswith(start)), "")
    if finding.property_id == "P-3" and "no batch" in finding.what:
        kind = "damaged-log"
    if finding.property_id == "P-35" and " answered NONE " in finding.what:
        kind = "untrue-answer"
    if finding.property_id == "P-42" and "tells where its log differs" in finding.what:
        kind = "log-bounds"
    return (_as_found(evidence, finding, kind),) if kind else ()


def _as_found(evidence: Evidence, finding: Finding, kind: str) -> Cause:
    """Return a cause that the finding itself says: in words, with the exact sentence as evidence."""
    words, exact = in_words(finding), plain(finding)
    sentence = f"the cluster did not get on: {words}" if finding.layer == "liveness" else words
    spoken = [] if words == exact else [as_sentence(exact)]
    return _cause(evidence, finding, kind, sentence, *spoken, *_raised_min_isr(evidence, finding))


def _raised_min_isr(evidence: Evidence, finding: Finding) -> list[str]:
    """Say that the min ISR of a finding is above the one that the run began with: clients had altered it."""
    found = _MIN_ISR.search(finding.what)
    began = evidence.settings.get("min_insync_replicas")
    if found is None or not isinstance(began, int) or int(found[1]) <= began:
        return []
    return [f"min.insync.replicas was {began} at the start, and {found[1]} by then: it had been altered in between."]


def _cause(evidence: Evidence, finding: Finding, kind: str, sentence: str, *spoken: str) -> Cause:
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
        tuple(dict.fromkeys((*_named(evidence, sentence, *spoken), *(one.number for one in faults if one.number)))),
        known_gap(finding),
    )


def _named(evidence: Evidence, *sentences: str) -> list[int]:
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


def _candidate_completeness(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-2: a replica that the controller may elect lacks a committed record; find out why it does."""
    if finding.topic is None or finding.partition is None or not finding.brokers or finding.offset is None:
        return (_as_found(evidence, finding, "committed-without-member"),)
    broker, offset = finding.brokers[0], finding.offset
    name = partition_name(finding.topic, finding.partition)
    history = evidence.history_of(finding.topic, finding.partition)
    until_ns = finding.at_ns if finding.at_ns is not None else history.samples[-1].at_ns if history.samples else 0
    if "has nothing" not in finding.what and "has no log" not in finding.what:
        return (_differing_record(evidence, finding, history, broker, offset, until_ns),)
    deleted_ns = deleted_unseen(evidence.story, broker, name, until_ns)
    if deleted_ns is not None:
        sentence = (
            f"broker {broker} deleted its log of {name} at {moment(deleted_ns)}, when a reassignment took it off the"
            " replicas, and is taken for complete"
        )
        spoken = "No leader has had a fetch of it since: what is known of its log is older than that."
        return (_cause(evidence, finding, "emptied-replica", sentence, spoken),)
    had = [
        (s.at_ns, s.log_end)
        for s in history.samples
        if s.broker == broker and s.at_ns <= until_ns and s.log_end is not None and s.log_end > offset
    ]
    committed = _EPOCH_THERE.search(finding.what)
    epoch = -1 if committed is None else int(committed[1])
    held = record_held(evidence.story, broker, name, offset, until_ns)
    others = epoch >= 0 and held is not None and held.epoch != epoch
    if held is not None and held.epoch == epoch:  # samples are rarer than transitions
        had.append((held.at_ns, held.log_end))
    if had and not others:
        since, log_end = max(had)
        lost = [fault for fault in evidence.faults_on(broker, since, until_ns) if fault.lossy]
        spoken = f"At {moment(since)} the log of broker {broker} still ended at {count(log_end)}."
        took = _that_took(evidence, lost, 0)  # no sample shows the record after the first
        if took is not None and _was_outside(history, broker, took, until_ns):
            sentence = (
                f"broker {broker} {took.deed} while it was out of the ISR of {name}, and joined that again without"
                f" the committed offset {count(offset)}"
            )
            return (_cause(evidence, finding, "joined-too-early", sentence, spoken),)
        if took is not None:
            isr_or_elr = f" ({sets[0]})" if (sets := _SETS.search(finding.what)) is not None else ""
            sentence = f"broker {broker} {took.deed} and still counts as complete for {name}{isr_or_elr}"
            alone = left_alone(evidence, name, broker, until_ns)
            return (_cause(evidence, finding, "storage-loss", sentence, *alone, spoken),)
        if _cut_before_commit(history, broker, offset, since):
            counted = (
                f"offset {count(offset)} of {name} was committed after broker {broker}, in the ISR, had cut it off"
            )
            return (_cause(evidence, finding, "committed-without-member", counted, spoken),)
        sentence = f"broker {broker} cut the committed offset {count(offset)} of {name} off its log"
        return (_cause(evidence, finding, "wrong-cut", sentence, spoken),)
    sets = _SETS.search(finding.what)
    if sets is not None and broker in numbers(sets[2]):
        sentence = (
            f"offset {count(offset)} of {name} was committed by the ISR [{sets[1]}] alone, while broker {broker},"
            " which may be elected, did not have it"
        )
        return (_cause(evidence, finding, "committed-without-member", sentence, f"Its ELR was [{sets[2]}]."),)
    asked = asked_to_add(evidence.story, broker, name, until_ns)
    if (
        asked is not None
        and not asked.was_answered
        and _wrote_after(history, asked.leader, offset, asked.at_ns, until_ns)
    ):
        sentence = (
            f"broker {asked.leader} committed offset {count(offset)} of {name} without broker {broker}, after it had"
            f" asked at {moment(asked.at_ns)} to add broker {broker} to the ISR"
        )
        spoken = "It had no answer yet: until then it must count the ISR that it has asked for."
        return (_cause(evidence, finding, "isr-disagreement", sentence, spoken),)
    joined_ns = _joined(history, broker, until_ns)
    wrote = (s.at_ns for s in history.leading if (s.log_end or 0) > offset and s.leader_epoch >= epoch)
    written_ns = min(wrote, default=None)
    at = f" at {moment(joined_ns)}" if joined_ns is not None else ""
    who = f"broker {broker} joined" if asked is None else f"broker {asked.leader} had broker {broker} join"
    which = next((f"offsets {count(first)} to {count(last)}" for _, first, last in finding.ranges if last > first), "")
    joined = f"{who} the ISR of {name}{at} without the committed {which or f'offset {count(offset)}'}"
    differed = (
        [f"What broker {broker} had there was of leader epoch {held.epoch}; the committed record is of {epoch}."]
        if others and held is not None
        else []
    )
    counted = f"offset {count(offset)} of {name} was committed although broker {broker}, in the ISR, did not have it"
    if joined_ns is not None and written_ns is not None and joined_ns > written_ns:
        spoken = f"The record was on a leader at {moment(written_ns)}, before broker {broker} joined."
        return (_cause(evidence, finding, "joined-too-early", joined, spoken, *differed),)
    if joined_ns is None:
        spoken = f"Every sample before shows broker {broker} in the ISR."
        return (_cause(evidence, finding, "committed-without-member", counted, spoken),)
    spoken = f"Broker {broker} joined at {moment(joined_ns)}; no sample shows when the record was written."
    if written_ns is not None:
        spoken = (
            f"Broker {broker} had joined at {moment(joined_ns)}; the record was on a leader by {moment(written_ns)}."
        )
        if joined_ns < written_ns - _ONE_SAMPLE_NS:
            return (_cause(evidence, finding, "committed-without-member", counted, spoken),)
    return (
        _cause(evidence, finding, "committed-without-member", counted, spoken),
        _cause(evidence, finding, "joined-too-early", joined, spoken),
    )


def _that_took(evidence: Evidence, lost: Sequence[Fault], otherwise: int) -> Fault | None:
    """Return which of the faults that take records took them: one that the failure needs, if that is known.

    `otherwise`: the place of the likeliest.
    """
    needed = () if evidence.needed is None else evidence.needed.needed
    likeliest = lost[otherwise] if lost else None
    return next((fault for fault in reversed(lost) if fault.number in needed), likeliest)


def _differing_record(
    evidence: Evidence, finding: Finding, history: PartitionHistory, broker: int, offset: int, until_ns: int
) -> Cause:
    """A member has another record: it kept it against the leader's word, or was admitted before it had heard one."""
    name = partition_name(history.topic, history.partition)
    leader = next((s.broker for s in reversed(history.leading) if s.at_ns <= until_ns), None)
    followed_ns = None
    joined_ns = _joined(history, broker, until_ns)
    if leader is not None and joined_ns is not None and joined_ns >= _led_since(history, until_ns):
        followed_ns = unanswered_since(evidence.story, broker, leader, name, until_ns)
    if followed_ns is None:
        where = next((f"offsets {count(first)} to {count(last)}" for _, first, last in finding.ranges), "")
        which = (
            f"records at {where} of {name} that differ"
            if where
            else f"a record at offset {count(offset)} of {name} that differs"
        )
        sentence = f"broker {broker} kept {which} from the leader's"
        moved = high_watermark_moved(evidence.story, name, finding.at_ns)
        if moved is not None:
            node, before, after = moved
            who = f"broker {node}, which led it," if node == leader else f"broker {node}"
            sentence += f", and {who} committed offsets {count(max(before, offset))} to {count(after - 1)} all the same"
        return _cause(evidence, finding, "diverged-log-kept", sentence, as_sentence(in_words(finding)))
    sentence = (
        f"broker {leader} let broker {broker} join the ISR of {name}, whose record at offset {count(offset)} differs"
        " from the committed one"
    )
    spoken = (
        f"Broker {broker} began to follow it at {moment(followed_ns)}, and no answer has told it of the difference."
    )
    return _cause(evidence, finding, "joined-too-early", sentence, spoken, as_sentence(in_words(finding)))


def _led_since(history: PartitionHistory, until_ns: int) -> int:
    """Return when the last leader by a moment was first seen as such, in its leader epoch."""
    leading = [sample for sample in history.leading if sample.at_ns <= until_ns]
    own = (s.at_ns for s in leading if (s.broker, s.leader_epoch) == (leading[-1].broker, leading[-1].leader_epoch))
    return min(own, default=0)


def _wrote_after(history: PartitionHistory, leader: int, offset: int, at_ns: int, until_ns: int) -> bool:
    """Whether a leader's log did not reach an offset at a moment, nor for some time after."""
    samples = (s for s in history.leading if s.broker == leader and at_ns <= s.at_ns <= until_ns)
    return any((s.log_end or 0) <= offset for s in samples)


def _was_outside(history: PartitionHistory, broker: int, lost: Fault, until_ns: int) -> bool:
    """Whether a broker that lost data was, by all leaders, outside of ISR and ELR from before that to `until_ns`."""
    before = [s for s in history.leading if s.at_ns <= lost.started_ns]
    after = [s for s in history.leading if lost.started_ns < s.at_ns <= until_ns]
    return bool(before) and all(broker not in s.isr and broker not in s.elr for s in [before[-1], *after])


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
    isr, elr = (numbers(sets[1]), numbers(sets[2])) if sets else ((), ())
    name = partition_name(finding.topic, finding.partition)
    sentence = f"broker {broker} was elected{_at(finding)}, although its log of {name} lacked committed records"
    spoken = as_sentence(in_words(finding))
    acknowledged = _NAMED.search(finding.what)
    if acknowledged is not None and finding.topic is not None and finding.partition is not None:
        return (_elected_by_zookeeper(evidence, finding, acknowledged, sentence, spoken),)
    if broker in isr or broker in elr:
        lost = [f for f in evidence.faults_on(broker or 0, 0, finding.at_ns or 0) if f.lossy]
        took = _that_took(evidence, lost, -1)
        if took is not None:
            return (_cause(evidence, finding, "storage-loss", f"broker {broker} {took.deed} and was elected", spoken),)
        return (_cause(evidence, finding, "eligibility", sentence, spoken),)
    if isr or elr:
        return (_cause(evidence, finding, "unclean-election", sentence, spoken),)
    return (
        _cause(evidence, finding, "wrong-recovery", sentence, spoken, "ISR and ELR were empty: a recovery chose it."),
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
    took = _that_took(evidence, lost, -1)
    if took is not None:
        return _cause(evidence, finding, "storage-loss", f"broker {broker} {took.deed} and was elected", spoken)
    if had:
        name = partition_name(history.topic, history.partition)
        cut = f"broker {broker} cut committed records of {name} off its log and was elected{_at(finding)}"
        ended = f"At {moment(since)} its log still ended at {count(had[-1].log_end or 0)}."
        return _cause(evidence, finding, "wrong-cut", cut, ended, spoken)
    kind = "committed-without-member" if broker in numbers(acknowledged[2]) else "unclean-election"
    return _cause(evidence, finding, kind, sentence, spoken)


def _committed_truncation(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-6: a replica cut committed records: the cut was wrong, or the commit counted a follower of old."""
    cut = _as_found(evidence, finding, "wrong-cut")
    if finding.topic is None or finding.partition is None or not finding.brokers or finding.at_ns is None:
        return (cut,)
    history = evidence.history_of(finding.topic, finding.partition)
    led = new_leader(evidence, history, finding.brokers[0], finding.at_ns)
    cut = replace(cut, evidence=(*led.told, *cut.evidence), faults=tuple(dict.fromkeys((*led.faults, *cut.faults))))
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
        return (_cause(evidence, finding, "stale-answer", sentence, as_sentence(in_words(finding))),)
    spoken = (
        f"Broker {stale.broker} still followed broker {stale.leader} in leader epoch {stale.leader_epoch};"
        f" broker {present.broker} already led in epoch {present.leader_epoch}."
    )
    sentence = (
        f"broker {present.broker} counted broker {stale.broker}, which still followed an earlier leader epoch,"
        " as holding what it committed"
    )
    counted = _cause(evidence, finding, "committed-without-member", sentence, spoken)
    name = partition_name(history.topic, history.partition)
    obeyed = told_to_cut(evidence.story, stale.broker, name, finding.at_ns) == stale.leader
    return (counted,) if obeyed and stale.leader != present.broker else (counted, cut)


def _fenced_member(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-16: a fenced broker is a member; perhaps the last one, kept although it has lost what it had."""
    alone = _KEPT_ALONE.search(finding.what)
    if alone is not None:
        broker = int(alone[1])
        took = _that_took(evidence, [f for f in evidence.faults_on(broker, 0, finding.at_ns or 0) if f.lossy], -1)
        if took is not None:
            sentence = f"broker {broker} {took.deed} and stays in the ISR as its only member, so that it may lead"
            return (_cause(evidence, finding, "storage-loss", sentence, as_sentence(in_words(finding))),)
    member = _FENCED_MEMBER.search(finding.what)
    if member is not None and finding.at_ns is not None and finding.topic is not None:
        fenced = fenced_by(evidence.story, int(member[1]), finding.at_ns)
        if fenced is not None:
            at_ns, controller = fenced
            sentence = (
                f"{node(controller)} fenced broker {member[1]} at {moment(at_ns)} and left it in the ISR [{member[2]}]"
                f" of {partition_name(finding.topic, finding.partition)}"
            )
            return (_cause(evidence, finding, "fenced-member", sentence, as_sentence(in_words(finding))),)
    return (_as_found(evidence, finding, "fenced-member"),)


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
            return (_cause(evidence, finding, "fenced-member", sentence, as_sentence(in_words(finding))),)
    return (_as_found(evidence, finding, "metadata"),)


def _reassignment_safety(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-23: a reassignment gave up what was needed, or the eligible replicas include one that is no replica."""
    sets, replicas = _SETS.search(finding.what), _OF_REPLICAS.search(finding.what)
    if sets is None or replicas is None:
        found = _as_found(evidence, finding, "reassignment")
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
    return (_cause(evidence, finding, "eligibility", sentence, as_sentence(in_words(finding))),)


def _acknowledged_durability(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-12: what was acknowledged was not committed, or something else is at its place."""
    if "batch sent had crc" in finding.what:
        return (_as_found(evidence, finding, "damaged-log"),)
    leader = finding.brokers[0] if finding.brokers else None
    sentence = f"broker {leader} acknowledged a write{_at(finding)} before it was committed"
    return (_cause(evidence, finding, "acknowledged-early", sentence, as_sentence(in_words(finding))),)


_DECIDED_BY_MORE: Final[Mapping[str, Callable[[Evidence, Finding], tuple[Cause, ...]]]] = {
    "P-1": _leader_completeness,
    "P-2": _candidate_completeness,
    "P-6": _committed_truncation,
    "P-12": _acknowledged_durability,
    "P-16": _fenced_member,
    "P-19": _epoch_sanity,
    "P-23": _reassignment_safety,
}


def _at(finding: Finding) -> str:
    return "" if finding.at_ns is None else f" at {moment(finding.at_ns)}"
