"""Tells the events of a simulation that led up to a violation: who left an ISR, who began to lead, and under what."""

from __future__ import annotations

from typing import Final, NamedTuple

from common.wording import capital, enumeration, moment, nodes, partition_name
from history.contract import DOWN_ALREADY
from incidents.deeds import ANOTHER_HAD_TO_LEAD, KEEPING_APART
from incidents.evidence import Evidence
from incidents.faults import Fault
from incidents.partition_history import PartitionHistory
from incidents.transitions import asked_for_elections, began_to_follow, isr_changes

LEFT_THE_ISR: Final = "left the ISR"
"""What evidence says of members of an ISR that left it, before its last one lost something."""
_EXPIRES_NS: Final = 2_000_000_000
"""How long before a member left an ISR, or another led, a fault that did it may have ended."""


class NewLeader(NamedTuple):
    """Who had begun to lead when a replica cut its log, in sentences, and the faults by which others led no more."""

    told: tuple[str, ...] = ()
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
        since_ns = change.at_ns - _EXPIRES_NS
        hit = [fault for member in left for fault in _hit(evidence, member, since_ns, change.at_ns)[-1:]]
        why = f": {enumeration([fault.story for fault in hit])}" if hit else ""
        told.append(f"{capital(nodes(left))} {LEFT_THE_ISR} of {name} at {moment(change.at_ns)}{why}.")
    return told[::-1]


def new_leader(evidence: Evidence, history: PartitionHistory, broker: int, at_ns: int) -> NewLeader:
    """Say whom a replica had begun to follow by then, and why: what hit the leader before, or what clients asked."""
    name = partition_name(history.topic, history.partition)
    began = began_to_follow(evidence.story, broker, name, at_ns)
    if began is None:
        return NewLeader()
    epoch = "" if began.epoch is None else f", in leader epoch {began.epoch}"
    told = [f"Broker {broker} had begun to follow broker {began.leader} at {moment(began.at_ns)}{epoch}."]
    led = [one for one in history.leading if one.at_ns <= began.at_ns and one.leader_epoch != began.epoch]
    if not led or led[-1].broker == began.leader:
        return NewLeader(tuple(told))
    former = led[-1].broker
    since_ns = min(led[-1].at_ns, began.at_ns - _EXPIRES_NS)
    apart = [fault for fault in _hit(evidence, former, since_ns, began.at_ns) if fault.kind in KEEPING_APART]
    if apart:
        told.append(f"Broker {former}, the leader before that, {apart[-1].deed}: {ANOTHER_HAD_TO_LEAD}.")
        return NewLeader(tuple(told), (apart[-1].number,))
    asked_ns = asked_for_elections(evidence.story, since_ns, began.at_ns)
    asked = f"; a client had asked the cluster to elect leaders at {moment(asked_ns)}" if asked_ns is not None else ""
    told.append(f"Broker {former} had led before that{asked}.")
    return NewLeader(tuple(told))


def _hit(evidence: Evidence, broker: int, since_ns: int, until_ns: int) -> list[Fault]:
    """The faults that hit a broker in a stretch of time, but for those that found it down."""
    found = evidence.faults_on(broker, since_ns, until_ns)
    return [fault for fault in found if fault.number and fault.detail != DOWN_ALREADY]
