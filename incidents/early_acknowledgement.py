"""Finds a leader that acknowledged a write before it was committed, by answers of its own that lacked the write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from common.wording import count, moment, nodes, partition_name
from incidents.evidence import Evidence
from incidents.faults import Fault
from incidents.lost_storage import set_of
from incidents.model import Cause
from incidents.partition_history import PartitionHistory, Sample

Row = Mapping[str, Any]

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
    name = partition_name(row["topic"], row["partition"])
    led = (
        f"Samples from {moment(before[0].at_ns)} to {moment(after[0].at_ns)}, around acknowledgement and answer, show"
        f" broker {node} as leader of {name} in leader epoch {epoch}."
    )
    if witness.get("status") == "info":
        return Cause("dirty-read", showed_too_much(node), (led,), since_ns, node)
    behind = _high_watermark(history, node, since_ns, offset)
    away = _members_hit(evidence, before[0], since_ns)
    sentence = _sentence([node])
    spoken = (*behind, led, *(sentence for _, sentence in away))
    faults = tuple(dict.fromkeys(fault.number for fault, _ in away if fault.number))
    return Cause("acknowledged-early", sentence, spoken, since_ns, node, faults)


def by_several(causes: Sequence[Cause]) -> Cause:
    """Return one cause for early acknowledgements by several leaders: what speaks for each, one after the other."""
    leaders = [cause.node for cause in causes if cause.node is not None]
    evidence = tuple(line for cause in causes for line in cause.evidence)
    faults = tuple(dict.fromkeys(number for cause in causes for number in cause.faults))
    return replace(causes[0], sentence=_sentence(leaders), evidence=evidence, faults=faults)


def _sentence(leaders: Sequence[int]) -> str:
    return f"{nodes(leaders)} acknowledged writes before they were committed, and showed readers only what was"


def showed_too_much(broker: int | None) -> str:
    """Say of a broker, which may not be known, that readers were shown what was not committed."""
    return f"{'a broker' if broker is None else f'broker {broker}'} showed readers records above its high watermark"


def _high_watermark(history: PartitionHistory, node: int, since_ns: int, offset: object) -> Sequence[str]:
    """Say where a sample after an acknowledgement shows the leader's high watermark, if the write is not below it."""
    later = (one for one in history.leading if one.at_ns >= since_ns and one.broker == node)
    seen = next(later, None)
    if seen is None or seen.high_watermark is None or not isinstance(offset, int) or seen.high_watermark > offset:
        return ()
    acknowledged = f"Broker {node} acknowledged offset {count(offset)} at {moment(since_ns)}"
    still = f"at {moment(seen.at_ns)} its high watermark was still {count(seen.high_watermark)}"
    return (f"{acknowledged}, and {still}: what lies below that is committed, and no more.",)


def _members_hit(evidence: Evidence, leader: Sample, at_ns: int) -> list[tuple[Fault, str]]:
    """The faults in effect at an acknowledgement on the other members of the ISR, each with what it means."""
    return [
        (fault, f"Broker {member}, in the ISR {set_of(leader.isr)} last seen before, {fault.deed}: it {MAY_LACK_IT}.")
        for member in leader.isr
        if member != leader.broker
        for fault in evidence.faults_on(member, at_ns, at_ns)[-1:]
    ]
