"""Tells the events of a simulation that led up to a violation: who left an ISR, who began to lead, and under what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from common.wording import capital, enumeration, moment, nodes, partition_name
from history.contract import DOWN_ALREADY
from incidents.deeds import ANOTHER_HAD_TO_LEAD, ELECTING, ENDING_A_PROCESS, KEEPING_APART
from incidents.evidence import Evidence
from incidents.faults import Fault
from incidents.partition_history import NO_LEADER, PartitionHistory
from incidents.transitions import BeganToFollow, began_to_follow, isr_changes

LEFT_THE_ISR: Final = "left the ISR"
"""What evidence says of members of an ISR that left it, before its last one lost something."""
ASKED_TO_DROP: Final = "had asked to drop"
"""What evidence says of a leader that wanted members of its ISR out of it."""
NOT_HEARD: Final = "had not heard of"
"""What evidence says of a broker that goes by older metadata than another one."""
CAME_BACK: Final = "had started again after"
"""What evidence says of a broker that counts as complete after a stop that may have cost it records."""
_EXPIRES_NS: Final = 2_000_000_000
"""How long before a member left an ISR, or another led, a fault that did it may have ended."""
_ELECTED_NS: Final = 500_000_000
"""How long a broker may take to learn of an election that was asked for."""


class NewLeader(NamedTuple):
    """Who had begun to lead when a replica cut its log, in sentences, and the faults by which others led no more."""

    sentences: tuple[str, ...] = ()
    faults: tuple[int, ...] = ()


def left_alone(evidence: Evidence, name: str, broker: int, until_ns: int) -> list[str]:
    """Say how the others left the ISR of which a broker was the last member, with the fault that had hit each."""
    changes = isr_changes(evidence.story, name, until_ns)
    last = max((place for place, change in enumerate(changes) if change.now == (broker,)), default=-1)
    told: list[str] = []
    for change in reversed(changes[: last + 1]):
        left = [member for member in change.before if member not in change.now]
        if not left or not set(change.now) < set(change.before):
            break
        why = _because(fault for member in left for fault in _that_put_out(evidence, member, change.at_ns))
        told.append(f"{capital(nodes(left))} {LEFT_THE_ISR} of {name} at {moment(change.at_ns)}{why}.")
    return told[::-1]


def _that_put_out(evidence: Evidence, member: int, at_ns: int) -> list[Fault]:
    """Return the faults that kept a member apart by then, or else the last one that still lasted; or none."""
    hit = _hit(evidence, member, at_ns - _EXPIRES_NS, at_ns)
    apart = [fault for fault in hit if fault.kind in KEEPING_APART or fault.lossy]
    return apart or [fault for fault in hit if fault.touches(at_ns, at_ns)][-1:]


def _because(faults: Iterable[Fault]) -> str:
    """The end of a sentence that says which faults did it; empty without any."""
    stories = list(dict.fromkeys(fault.story for fault in faults))
    return f": {enumeration(stories)}" if stories else ""


def asked_to_drop(evidence: Evidence, leader: int, dropped: Sequence[int], name: str, at_ns: int) -> list[str]:
    """Say whom a leader wanted out of its ISR, and which faults kept these, or the leader, from the others."""
    hit = [fault for node in (leader, *dropped) for fault in _that_put_out(evidence, node, at_ns)]
    why = _because(fault for fault in hit if fault.kind in KEEPING_APART)
    return [f"Broker {leader} {ASKED_TO_DROP} {nodes(dropped)} from the ISR of {name}{why}."]


def not_heard(evidence: Evidence, broker: int, epoch: int, at_ns: int) -> list[str]:
    """Say that a broker did not know of a leader epoch, and which faults kept it from the metadata."""
    hit = _hit(evidence, broker, at_ns - _EXPIRES_NS, at_ns)
    why = _because(fault for fault in hit if fault.kind in (*KEEPING_APART, "late-metadata"))
    return [f"Broker {broker} {NOT_HEARD} leader epoch {epoch} yet{why}."]


def came_back(evidence: Evidence, broker: int, at_ns: int) -> list[str]:
    """Say after which fault a broker had started again; nothing if none has ended it."""
    ended = [fault for fault in _hit(evidence, broker, 0, at_ns) if fault.lossy or fault.kind in ENDING_A_PROCESS]
    return [f"Broker {broker} {CAME_BACK} this: {ended[-1].story}."] if ended else []


def led_by_another(history: PartitionHistory, broker: int, at_ns: int) -> list[str]:
    """Say that another broker led by then, in a later epoch, if so: a leader that was cut off does not know it."""
    by_then = [one for one in history.samples if one.at_ns <= at_ns]
    newest = max(by_then, key=lambda one: one.leader_epoch, default=None)
    if newest is None or newest.leader in (broker, NO_LEADER):
        return []
    since_ns = min(one.at_ns for one in by_then if one.leader_epoch == newest.leader_epoch)
    elected = f"Broker {newest.leader} had been elected by {moment(since_ns)}, in leader epoch {newest.leader_epoch}"
    return [f"{elected}: broker {broker} did not know that."]


def new_leader(evidence: Evidence, history: PartitionHistory, broker: int, at_ns: int) -> NewLeader:
    """Say whom a replica had begun to follow when it cut its log, and why: which fault had the leader replaced.

    After the first violation, with which the transitions end, samples tell whom it followed.
    """
    name = partition_name(history.topic, history.partition)
    is_told = bool(evidence.story) and evidence.story[-1].at_ns >= at_ns
    began = (
        began_to_follow(evidence.story, broker, name, at_ns)
        if is_told
        else _sampled_as_follower(history, broker, at_ns)
    )
    if began is None:
        return NewLeader()
    epoch = "" if began.epoch is None else f", in leader epoch {began.epoch}"
    told = f"Broker {broker} had begun to follow broker {began.leader} by {moment(began.at_ns)}{epoch}."
    led = [one for one in history.leading if one.at_ns <= began.at_ns and one.leader_epoch != began.epoch]
    if not led or led[-1].broker == began.leader:
        return NewLeader((told,))
    former = led[-1].broker
    since_ns = min(led[-1].at_ns, began.at_ns - _EXPIRES_NS)
    apart = [fault for fault in _hit(evidence, former, since_ns, began.at_ns) if fault.kind in KEEPING_APART]
    if apart:
        why = f"Broker {former}, the leader before that, {apart[-1].deed}: {ANOTHER_HAD_TO_LEAD}."
        return NewLeader((told, why), (apart[-1].number,))
    before = f"Broker {former} had led before that"
    asked = [
        fault
        for fault in evidence.faults
        if fault.number and fault.kind in ELECTING and fault.touches(began.at_ns - _ELECTED_NS, began.at_ns)
    ]
    if not asked:
        return NewLeader((told, f"{before}."))
    return NewLeader((told, f"{before}; {asked[-1].story}: {ANOTHER_HAD_TO_LEAD}."), (asked[-1].number,))


def _sampled_as_follower(history: PartitionHistory, broker: int, at_ns: int) -> BeganToFollow | None:
    """Whom a broker was first seen to follow with a log that it had cut at a moment."""
    seen = (one for one in history.samples if one.broker == broker and one.at_ns >= at_ns)
    first = next(seen, None)
    if first is None or first.role != "follower" or first.leader == NO_LEADER:
        return None
    return BeganToFollow(first.at_ns, first.leader, first.leader_epoch if first.leader_epoch >= 0 else None)


def _hit(evidence: Evidence, broker: int, since_ns: int, until_ns: int) -> list[Fault]:
    """The faults that hit a broker in a stretch of time, but for those that found it down."""
    found = evidence.faults_on(broker, since_ns, until_ns)
    return [fault for fault in found if fault.number and fault.detail != DOWN_ALREADY]
