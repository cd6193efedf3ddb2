"""Finds leaders that acknowledged a write, or showed readers a record, before it was committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from common.wording import count, moment, nodes, partition_name, set_of
from incidents.evidence import Evidence
from incidents.faults import Fault
from incidents.model import Cause
from incidents.partition_history import NO_LEADER, PartitionHistory, Sample
from incidents.rows import Row, details_of

MAY_LACK_IT = "may not have had the write"
"""What evidence says of a member of the ISR that a fault had hit before a write was acknowledged."""


def acknowledged_early(evidence: Evidence, row: Row, details: Mapping[str, Any]) -> Cause | None:
    """Return the cause of a stale answer by the leader that had acknowledged the write, in one leader epoch.

    Of a write whose outcome is unknown a reader was shown the records: then it is that which came too early.
    """
    witness, asked = (one if isinstance(one := details.get(key), dict) else {} for key in ("witness", "operation"))
    node, since_ns, offset = witness.get("node"), witness.get("completed_ns"), witness.get("offset")
    if not isinstance(node, int) or not isinstance(since_ns, int) or row["at_ns"] is None:
        return None
    asked_ns = asked.get("invoked_ns")
    until_ns = max(asked_ns, since_ns) if isinstance(asked_ns, int) else row["at_ns"]
    history = evidence.history_of(row["topic"], row["partition"])
    before = [sample for sample in history.leading if sample.at_ns <= since_ns][-1:]
    meanwhile = [sample for sample in history.leading if since_ns < sample.at_ns < until_ns]
    after = [sample for sample in history.leading if sample.at_ns >= until_ns][:1]
    leaders = {(sample.broker, sample.leader_epoch) for sample in (*before, *meanwhile, *after)}
    if not before or not after or row["broker"] not in (None, node) or len(leaders) != 1:
        return None
    leader, epoch = next(iter(leaders))
    if leader != node or epoch < 0:
        return None
    meanwhile_hit = evidence.faults_on(node, since_ns, until_ns)
    if any(fault.takes_records(row["topic"], row["partition"]) for fault in meanwhile_hit):
        return None  # it led on without what it had
    name = partition_name(row["topic"], row["partition"])
    led = (
        f"Samples from {moment(before[0].at_ns)} to {moment(after[0].at_ns)}, around acknowledgement and answer, show"
        f" broker {node} as leader of {name} in leader epoch {epoch}."
    )
    if witness.get("status") == "info":
        return Cause("dirty-read", showed_too_much(node), (led,), since_ns, node)
    acknowledged = f"Broker {node} acknowledged offset {{offset}} of {name} at {moment(since_ns)}"
    behind = _still_below(history, node, since_ns, offset, acknowledged)
    away = _members_hit(evidence, before[0], since_ns)
    spoken = (*behind, led, *(sentence for _, sentence in away))
    faults = tuple(dict.fromkeys(fault.number for fault, _ in away if fault.number))
    return Cause("acknowledged-early", _SENTENCES["acknowledged-early"]([node]), spoken, since_ns, node, faults)


def shown_early(evidence: Evidence, row: Row) -> Cause:
    """Return the cause of a record that a reader was shown before it was committed: by the leader at that time."""
    history, at_ns = evidence.history_of(row["topic"], row["partition"]), row["at_ns"]
    node = row["broker"] if row["broker"] is not None or at_ns is None else leader_then(history, at_ns)
    if node is None or at_ns is None:
        return Cause("dirty-read", showed_too_much(node), (), at_ns, node)
    name = partition_name(row["topic"], row["partition"])
    shown = f"Broker {node} showed a reader offset {{offset}} of {name} by {moment(at_ns)}"
    before = [sample for sample in history.leading if sample.at_ns <= at_ns and sample.broker == node][-1:]
    away = [one for sample in before for one in _members_hit(evidence, sample, at_ns)]
    behind = _sampled(row, shown) or _still_below(history, node, at_ns, row["offset"], shown)
    faults = tuple(dict.fromkeys(fault.number for fault, _ in away if fault.number))
    spoken = (*behind, *(sentence for _, sentence in away))
    return Cause("dirty-read", showed_too_much(node), spoken, at_ns, node, faults)


def called_committed(row: Row) -> bool:
    """Whether the answer that showed a lost record first had a high watermark above it."""
    told = details_of(row).get("told_high_watermark")
    return isinstance(told, int) and row["offset"] is not None and told > row["offset"]


def leader_then(history: PartitionHistory, at_ns: int) -> int | None:
    """Return who led at a moment, as far as samples show it."""
    led = history.leader_at(at_ns)
    return led.leader if led is not None and led.leader != NO_LEADER else None


def by_several(causes: Sequence[Cause]) -> Cause:
    """Return one cause for the same mistake of several leaders: what speaks for each, one after the other."""
    leaders = [cause.node for cause in causes if cause.node is not None]
    evidence = tuple(line for cause in causes for line in cause.evidence)
    faults = tuple(dict.fromkeys(number for cause in causes for number in cause.faults))
    return replace(causes[0], sentence=_SENTENCES[causes[0].kind](leaders), evidence=evidence, faults=faults)


def showed_too_much(broker: int | None) -> str:
    """Say of a broker, which may not be known, that readers were shown what was not committed."""
    return _showed([] if broker is None else [broker])


def _acknowledged(leaders: Sequence[int]) -> str:
    return f"{nodes(leaders)} acknowledged writes before they were committed, and showed readers only what was"


def _showed(leaders: Sequence[int]) -> str:
    whose = "their high watermarks" if len(set(leaders)) > 1 else "its high watermark"
    return f"{nodes(leaders) if leaders else 'a broker'} showed readers records above {whose}"


_SENTENCES: Final[Mapping[str, Callable[[Sequence[int]], str]]] = {
    "acknowledged-early": _acknowledged,
    "dirty-read": _showed,
}
"""By kind of cause."""

EARLY: Final = frozenset(_SENTENCES)
"""Kinds of causes that are one mistake, whichever broker leads."""


def _sampled(row: Row, deed: str) -> Sequence[str]:
    """What `_still_below` says, by the sample that the check itself went by."""
    details = details_of(row)
    sampled_ns, high_watermark = details.get("sampled_ns"), details.get("sampled_high_watermark")
    if not isinstance(sampled_ns, int) or not isinstance(high_watermark, int) or row["offset"] is None:
        return ()
    return (_below(deed, row["offset"], sampled_ns, high_watermark),)


def _still_below(history: PartitionHistory, node: int, since_ns: int, offset: object, deed: str) -> Sequence[str]:
    """Say where a sample after a deed shows the leader's high watermark, if the offset is not below it."""
    later = (one for one in history.leading if one.at_ns >= since_ns and one.broker == node)
    seen = next(later, None)
    if seen is None or seen.high_watermark is None or not isinstance(offset, int) or seen.high_watermark > offset:
        return ()
    return (_below(deed, offset, seen.at_ns, seen.high_watermark),)


def _below(deed: str, offset: int, at_ns: int, high_watermark: int) -> str:
    still = f"at {moment(at_ns)} its high watermark was still {count(high_watermark)}"
    return f"{deed.format(offset=count(offset))}, and {still}, the end of what it knew to be committed."


def _members_hit(evidence: Evidence, leader: Sample, at_ns: int) -> list[tuple[Fault, str]]:
    """The faults in effect at an acknowledgement on the other members of the ISR, each with what it means."""
    return [
        (fault, f"Broker {member}, in the ISR {set_of(leader.isr)} last seen before, {fault.deed}: it {MAY_LACK_IT}.")
        for member in leader.isr
        if member != leader.broker
        for fault in evidence.faults_on(member, at_ns, at_ns)[-1:]
    ]
