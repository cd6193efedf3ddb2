"""Tells who had left an ISR before a replica without its storage was elected from it, and what had put them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from common.wording import FIRST_CONTROLLER, FIRST_SERVER, capital, enumeration, moment, nodes, set_of
from history.contract import DOWN_ALREADY
from incidents.deeds import KEEPING_APART
from incidents.evidence import Evidence
from incidents.faults import Fault
from incidents.partition_history import PartitionHistory
from incidents.takeovers import Takeover

_EXPIRES_NS = 5_000_000_000
"""How long before a member has left an ISR a fault that put it out may have ended."""

HAD_LEFT_THE_ISR = "had left the ISR of"
"""What evidence says of replicas that were out of the ISR when one without its storage was elected from it."""


class Left(NamedTuple):
    """When samples show that brokers had left the ISR, after a fault that took records and before the election."""

    by_ns: Mapping[int, int]
    isr: tuple[int, ...]
    """What was left of it."""


class PutOut(NamedTuple):
    """What is told of these, and the faults that put them out."""

    told: tuple[str, ...]
    faults: tuple[Fault, ...]


def left_before_election(history: PartitionHistory, takeover: Takeover, fault: Fault, isr: Sequence[int]) -> Left:
    """Find who left the ISR in between, by samples of any replica of a later leader epoch: nobody need have led."""
    led_ns = max((one.at_ns for one in history.leading if one.at_ns < fault.started_ns), default=0)
    epoch = max((one.leader_epoch for one in history.leading if one.at_ns <= led_ns), default=-1)
    telling = [
        one
        for one in history.samples
        if fault.started_ns <= one.at_ns < takeover.seen_ns and one.isr and epoch < one.leader_epoch < takeover.epoch
    ]
    by_ns = {
        member: next((one.at_ns for one in telling if member not in one.isr), takeover.seen_ns)
        for member in isr
        if telling and member not in telling[-1].isr
    }
    return Left(by_ns, telling[-1].isr if telling else ())


def told_of(evidence: Evidence, name: str, left: Left) -> PutOut:
    """Say who had left the ISR before the election, and after which faults on them, or on the controllers."""
    if not left.by_ns:
        return PutOut((), ())
    last_ns = max(left.by_ns.values())
    hit = [
        fault
        for fault in evidence.faults
        if fault.kind in KEEPING_APART
        and fault.detail != DOWN_ALREADY
        and fault.touches(min(left.by_ns.values()) - _EXPIRES_NS, last_ns)
        and (fault.targets & left.by_ns.keys() or any(FIRST_CONTROLLER <= one < FIRST_SERVER for one in fault.targets))
    ]
    of_controllers = [fault.started_ns for fault in hit if not fault.targets & left.by_ns.keys()]
    if of_controllers:  # what came after it came too late: nobody could renew its session by then
        hit = [fault for fault in hit if fault.started_ns <= min(of_controllers)]
    why = f": {'; '.join(fault.story for fault in hit)}" if hit else ""
    who = capital(nodes(sorted(left.by_ns)))
    sentence = f"{who} {HAD_LEFT_THE_ISR} {name} by {moment(last_ns)}, which was {set_of(left.isr)} then{why}."
    return PutOut((sentence, *_fenced(evidence, left, last_ns)), tuple(hit))


def _fenced(evidence: Evidence, left: Left, until_ns: int) -> list[str]:
    """Say whom controllers have fenced by their own logs, in order: who is fenced last stays in the ISR."""
    found: dict[int, int] = {}
    for at_ns, broker in evidence.fenced:
        if until_ns - _EXPIRES_NS <= at_ns <= until_ns + _EXPIRES_NS and broker in (*left.by_ns, *left.isr):
            found.setdefault(broker, at_ns)
    if not left.by_ns.keys() <= found.keys():
        return []
    stays = found.keys() & {*left.isr}
    kept = f"; {nodes(sorted(stays))}, fenced last, stayed in the ISR" if stays and [*found][-1] in stays else ""
    in_order = enumeration([f"broker {broker} at {moment(at_ns)}" for broker, at_ns in found.items()])
    return [f"By the controllers' logs these brokers were fenced: {in_order}{kept}."]
