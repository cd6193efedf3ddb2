"""Finds why a replica that may be elected lacks a committed record (P-2): it lost it, cut it, or never had it.

It may also hold another record there, or have been admitted before it had what was committed.
"""

from __future__ import annotations

import re
from typing import Final

from common.wording import as_sentence, count, moment, partition_name
from incidents.chains import left_alone
from incidents.evidence import Evidence, Finding
from incidents.faults import Fault
from incidents.findings_in_words import in_words
from incidents.found_causes import SETS, as_found, cause_of, that_took
from incidents.model import Cause
from incidents.partition_history import PartitionHistory
from incidents.transitions import (
    asked_to_add,
    deleted_unseen,
    high_watermark_moved,
    numbers,
    record_held,
    unanswered_since,
)

_EPOCH_THERE: Final = re.compile(r", where \d+…\d+ of epoch (\d+)")
_ONE_SAMPLE_NS: Final = 1_000_000_000
"""How far apart two samples of a broker may be while it runs."""


def causes_of_lack(evidence: Evidence, finding: Finding) -> tuple[Cause, ...]:
    """For P-2: a replica that the controller may elect lacks a committed record; find out why it does."""
    if finding.topic is None or finding.partition is None or not finding.brokers or finding.offset is None:
        return (as_found(evidence, finding, "committed-without-member"),)
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
        return (cause_of(evidence, finding, "emptied-replica", sentence, spoken),)
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
        spoken = f"At {moment(since)} the log of broker {broker} had ended at {count(log_end)}."
        took = that_took(evidence, lost, 0)  # no sample shows the record after the first
        if took is not None and _was_outside(history, broker, took, until_ns):
            sentence = (
                f"broker {broker} {took.deed} while it was out of the ISR of {name}, and joined that again without"
                f" the committed offset {count(offset)}"
            )
            return (cause_of(evidence, finding, "joined-too-early", sentence, spoken),)
        if took is not None:
            isr_or_elr = f" ({sets[0]})" if (sets := SETS.search(finding.what)) is not None else ""
            sentence = f"broker {broker} {took.deed} and still counts as complete for {name}{isr_or_elr}"
            alone = left_alone(evidence, name, broker, until_ns)
            return (cause_of(evidence, finding, "storage-loss", sentence, *alone, spoken),)
        if _cut_before_commit(history, broker, offset, since):
            counted = (
                f"offset {count(offset)} of {name} was committed after broker {broker}, in the ISR, had cut it off"
            )
            return (cause_of(evidence, finding, "committed-without-member", counted, spoken),)
        sentence = f"broker {broker} cut the committed offset {count(offset)} of {name} off its log"
        return (cause_of(evidence, finding, "wrong-cut", sentence, spoken),)
    sets = SETS.search(finding.what)
    if sets is not None and broker in numbers(sets[2]):
        sentence = (
            f"offset {count(offset)} of {name} was committed by the ISR [{sets[1]}] alone, while broker {broker},"
            " which may be elected, did not have it"
        )
        return (cause_of(evidence, finding, "committed-without-member", sentence, f"Its ELR was [{sets[2]}]."),)
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
        return (cause_of(evidence, finding, "isr-disagreement", sentence, spoken),)
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
        return (cause_of(evidence, finding, "joined-too-early", joined, spoken, *differed),)
    if joined_ns is None:
        spoken = f"Every sample before shows broker {broker} in the ISR."
        return (cause_of(evidence, finding, "committed-without-member", counted, spoken),)
    spoken = f"Broker {broker} joined at {moment(joined_ns)}; no sample shows when the record was written."
    if written_ns is not None:
        spoken = (
            f"Broker {broker} had joined at {moment(joined_ns)}; the record was on a leader by {moment(written_ns)}."
        )
        if joined_ns < written_ns - _ONE_SAMPLE_NS:
            return (cause_of(evidence, finding, "committed-without-member", counted, spoken),)
    return (
        cause_of(evidence, finding, "committed-without-member", counted, spoken),
        cause_of(evidence, finding, "joined-too-early", joined, spoken),
    )


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
        return cause_of(evidence, finding, "diverged-log-kept", sentence, as_sentence(in_words(finding)))
    sentence = (
        f"broker {leader} let broker {broker} join the ISR of {name}, whose record at offset {count(offset)} differs"
        " from the committed one"
    )
    spoken = (
        f"Broker {broker} began to follow it at {moment(followed_ns)}, and no answer has told it of the difference."
    )
    return cause_of(evidence, finding, "joined-too-early", sentence, spoken, as_sentence(in_words(finding)))


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
