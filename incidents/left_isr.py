"""Tells who had left an ISR before a replica without its storage was elected from it, and what had put them out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
    """When brokers had left the ISR, after a record was acknowledged and before the election that cost it."""

    by_ns: Mapping[int, int]
    isr: tuple[int, ...]
    """What was left of it."""


class PutOut(NamedTuple):
    """Sentences about these, and the faults that put them out."""

    sentences: tuple[str, ...]
    faults: tuple[Fault, ...]


def left_before_election(history: PartitionHistory, since_ns: int, takeover: Takeover) -> Left:
    """Find who left the ISR in between, by samples of any replica of the newest leader epoch: nobody need have led."""
    led = [one for one in history.leading if one.at_ns < takeover.seen_ns and one.isr]
    first = next((one for one in reversed(led) if one.at_ns <= since_ns), led[0] if led else None)
    if first is None:
        return Left({}, ())
    newest, isr, by_ns = first.leader_epoch, first.isr, dict[int, int]()
    for one in history.samples:
        if not first.at_ns <= one.at_ns < takeover.seen_ns or not one.isr or one.leader_epoch < newest:
            continue
        newest, isr = one.leader_epoch, one.isr
        by_ns = {member: by_ns.get(member, one.at_ns) for member in first.isr if member not in isr}
    return Left(by_ns, isr)


def what_put_them_out(evidence: Evidence, name: str, left: Left, took: Fault, already: Collection[int]) -> PutOut:
    """Say who had left the ISR before the election, and after which faults on them, or on the controllers.

    A fault on them that was over before the one that `took` the records kept nobody from coming back. `already`:
    brokers of which it is told which fault kept them away; they are told with the others where a fault on the
    controllers is behind it.
    """
    if not left.by_ns:
        return PutOut((), ())
    last_ns = max(left.by_ns.values())
    hit = [
        fault
        for fault in evidence.faults
        if fault.kind in KEEPING_APART
        and fault.detail != DOWN_ALREADY
        and fault.touches(min(left.by_ns.values()) - _EXPIRES_NS, last_ns)
        and (_hits(fault, left, took) or _stops_the_quorum(evidence, fault))
    ]
    fenced = _fenced(evidence, left)
    of_controllers = [fault.started_ns for fault in hit if _stops_the_quorum(evidence, fault)]
    if not of_controllers and left.by_ns.keys() <= {*already}:
        return PutOut(fenced, ())
    if of_controllers:  # what came after it came too late: nobody could renew its session by then
        hit = [fault for fault in hit if fault.started_ns <= min(of_controllers)]
    why = f": {'; '.join(fault.story for fault in hit)}" if hit else ""
    who = capital(nodes(sorted(left.by_ns)))
    sentence = f"{who} {HAD_LEFT_THE_ISR} {name} by {moment(last_ns)}, which was {set_of(left.isr)} then{why}."
    return PutOut((sentence, *fenced), tuple(hit))


def _hits(fault: Fault, left: Left, took: Fault) -> bool:
    return bool(fault.targets & left.by_ns.keys()) and (fault.ended_ns is None or fault.ended_ns >= took.started_ns)


def _stops_the_quorum(evidence: Evidence, fault: Fault) -> bool:
    """Whether a fault hit a majority of the controllers: without one nobody's session is renewed."""
    hit = sum(FIRST_CONTROLLER <= node < FIRST_SERVER for node in fault.targets)
    controllers = evidence.settings.get("controllers")
    return isinstance(controllers, int) and 2 * hit > controllers


def _fenced(evidence: Evidence, left: Left) -> tuple[str, ...]:
    """Say whom controllers have fenced by their own logs, in order: who is fenced last stays in the ISR."""
    since_ns, until_ns = min(left.by_ns.values()) - _EXPIRES_NS, max(left.by_ns.values()) + _EXPIRES_NS
    found: dict[int, int] = {}
    for at_ns, broker in evidence.fenced:
        if since_ns <= at_ns <= until_ns and broker in (*left.by_ns, *left.isr):
            found.setdefault(broker, at_ns)
    if not left.by_ns.keys() <= found.keys():
        return ()
    stays = found.keys() & {*left.isr}
    kept = f"; {nodes(sorted(stays))}, fenced last, stayed in the ISR" if stays and [*found][-1] in stays else ""
    in_order = enumeration([f"broker {broker} at {moment(at_ns)}" for broker, at_ns in found.items()])
    return (f"By the controllers' logs these brokers were fenced: {in_order}{kept}.",)
