"""Finds why an ISR did not become full again: which replicas stay out of it, and whether they or their leader fail."""

from __future__ import annotations

import re
from typing import NamedTuple

from common.wording import count, moment, nodes, partition_name
from incidents.evidence import Evidence
from incidents.node_logs import Complaint
from incidents.partition_history import PartitionHistory, Sample

_LATER_NS = 2_000_000_000
"""A follower that has what its leader had this long ago has caught up: the samples are not of one moment."""

_SHRINKS_NS = 5_000_000_000
"""How long before a replica is out of the ISR what put it out may have ended."""

HAS_BEEN = "and has been"
"""What evidence says of an ISR that a fault made smaller, and that did not become full again."""

_COMMIT_LOOP = (
    "This design looks at the ISR only when it commits a batch, and then takes in the followers that have the batch "
    "already (Z-13). A leader that is alone in the ISR commits at once, before any follower can have it."
)

_INSIDE_A_BATCH = re.compile(r"expected a batch at offset (\d{1,19}) of \S+, found (\d{1,19})")
"""What Harrow's own broker says of a batch that it cannot append."""


class Reason(NamedTuple):
    """Why replicas stay out: a clause, what speaks for it, the node that fails, and the faults that put them out."""

    sentence: str
    evidence: tuple[str, ...]
    node: int
    faults: tuple[int, ...] = ()


def reason(evidence: Evidence, topic: str, partition: int) -> Reason | None:
    """What the last samples and the nodes' logs say of the replicas outside the ISR; None if they tell nothing.

    What a replica's own log says against the partition comes first. Without that, replicas that have caught up and are
    not taken in are their leader's failure.
    """
    history: PartitionHistory = evidence.history_of(topic, partition)
    if not history.leading:
        return None
    leader = history.leading[-1]
    latest = {sample.broker: sample for sample in history.samples}
    outside = [
        sample
        for broker, sample in sorted(latest.items())
        if broker not in leader.isr and not _has_moved_away(evidence, sample)
    ]
    complaints = {
        sample.broker: found
        for sample in outside
        if (found := evidence.complaint(sample.broker, topic, partition)) is not None
    }
    caught_up = [
        sample.broker for sample in outside if sample.broker not in complaints and _is_caught_up(history, sample)
    ]
    put_out, faults = _put_out(evidence, history)
    rule = (_COMMIT_LOOP,) if evidence.is_leader_race else ()
    if complaints:
        reasons = [_of(broker, said) for broker, said in complaints.items()]
        if caught_up:
            reasons.append(_not_taken_in(caught_up, leader))
        inside = (_inside_a_batch(broker, said) for broker, said in complaints.items())
        spoken = (*(rule if caught_up else ()), *(sentence for sentence in inside if sentence), *put_out)
        return Reason("; ".join(reasons), spoken, next(iter(complaints)), faults)
    if caught_up and len(caught_up) == len(outside):
        return Reason(_not_taken_in(caught_up, leader), (*rule, *put_out), leader.broker, faults)
    return None


def _put_out(evidence: Evidence, history: PartitionHistory) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Since when the ISR has been so small, and which faults had just hit its leader or those that it lost then."""
    if len(history.isrs) < 2:
        return (), ()
    before, now = history.isrs[-2:]
    left = sorted({*before.isr} - {*now.isr})
    since_ns = max(now.start_ns - _SHRINKS_NS, before.start_ns)
    complained = {broker: evidence.complains_since(broker, history.topic, history.partition) for broker in left}
    failed = {one: at_ns for one, at_ns in complained.items() if at_ns is not None and at_ns < now.start_ns}
    hit = {
        fault.number
        for broker in (*left, history.leading[-1].broker)
        for fault in evidence.faults_on(broker, since_ns, now.start_ns)
        if fault.number and fault.started_ns < failed.get(broker, now.start_ns)
    }
    stories = evidence.stories(sorted(hit))
    stories += [f"the log of broker {broker} says so since {moment(at_ns)}" for broker, at_ns in failed.items()]
    if not left or not stories:
        return (), ()
    name = partition_name(history.topic, history.partition)
    sentence = (
        f"The ISR of {name} was {list(before.isr)} before, {HAS_BEEN} {list(now.isr)} since"
        f" {moment(now.start_ns)}: {'; '.join(stories)}."
    )
    return (sentence,), tuple(sorted(hit))


def _has_moved_away(evidence: Evidence, sample: Sample) -> bool:
    """Whether the broker was seen later with other replicas, and without this one."""
    return sample.at_ns < evidence.last_sampled_ns.get(sample.broker, sample.at_ns) - _LATER_NS


def _is_caught_up(history: PartitionHistory, sample: Sample) -> bool:
    leader = history.leading[-1]
    before = [led.log_end for led in history.leading if led.at_ns <= sample.at_ns - _LATER_NS]
    follows = sample.leader == leader.broker and sample.at_ns >= leader.at_ns - _LATER_NS
    return follows and sample.log_end is not None and bool(before) and sample.log_end >= (before[-1] or 0)


def _of(broker: int, said: Complaint) -> str:
    return f"{nodes([broker])} stays out of it, and {said}"


def _inside_a_batch(broker: int, said: Complaint) -> str:
    """Explain a log that ends inside a batch of its leader's; empty if the complaint is another one."""
    found = _INSIDE_A_BATCH.search(said.text)
    if found is None or int(found[2]) >= int(found[1]):
        return ""
    return (
        f"The log of broker {broker} ends at {count(int(found[1]))}, inside a batch of its leader's that begins at"
        f" {count(int(found[2]))}: the two logs have different records before that end."
    )


def _not_taken_in(brokers: list[int], leader: Sample) -> str:
    have = "has" if len(brokers) == 1 else "have"
    take = "it" if len(brokers) == 1 else "them"
    return f"{nodes(brokers)} {have} caught up, and the leader, {nodes([leader.broker])}, does not take {take} in"
