"""Finds why readers were answered wrongly where no record was lost: anomalies that stand alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from common.wording import as_sentence, in_leader_epoch, moment, nodes, partition_name
from history.contract import CRASHING_FIRST
from incidents import out_of_isr
from incidents.deeds import ANOTHER_HAD_TO_LEAD, CUTTING_OFF, ENDING_A_PROCESS
from incidents.doubled import TAKEN_FOR_NEW, doubled, is_doubled
from incidents.evidence import Evidence
from incidents.faults import Fault
from incidents.model import Cause
from incidents.partition_history import NO_LEADER, LeaderStretch, PartitionHistory
from incidents.rows import Row, details_of
from incidents.uncommitted import acknowledged_early, shown_early

STALE = frozenset({"stale-read", "end-offset-regression"})
OF_ANSWERS = frozenset({"leader-change", "stale-leader", "new-leader"})
"""Kinds of causes whose harm is an answer: they have happened when it was given."""
COMMITS = frozenset({"lost-commit", "committed-offset-regression"})
GROUPS = COMMITS | {"double-ownership"}
RECENT_NS = 10_000_000_000
_DYING_NS = 500_000_000
"""A sample that was taken so long after a fault has ended its node is one of the node that was started again."""

TWO_WROTE = "two brokers wrote in one leader epoch"

MAY_NOT_COMMIT = "without followers it may have been unable to commit"
"""What evidence says of a fault that cut off the leader that answered."""

_KEEPS_FROM_LEADING = frozenset({"pause", "isolate", *ENDING_A_PROCESS, *CRASHING_FIRST})

_GROUPS_TOPIC = "__consumer_offsets"
"""Where Kafka-protocol brokers keep what groups have committed."""

_OLD_MAY_SERVE = "A leader that was replaced and cannot know it yet may serve old, committed data (BL-10)."
_NEW_MAY_HOLD_BACK = "A leader may hold back what it does not know to be committed, as a new one does at first (HW-6)."


def causes_of_row(evidence: Evidence, row: Row) -> tuple[Cause, ...]:
    """Return the cause of an anomaly that is no loss, or the candidates; empty if nothing is known."""
    name = row["anomaly"]
    if name in STALE:
        return _stale(evidence, row)
    if name == "node-lost":
        return (_node_lost(row),)
    if name == "unavailable":
        return (_unavailable(evidence, row),)
    if name == "dirty-read":
        return (shown_early(evidence, row),)
    if name == "corrupt-record":
        return (_damaged(evidence, row),)
    if is_doubled(row):
        found = doubled(evidence, row)
        return (found or _simple(evidence, row, "producer-state", TAKEN_FOR_NEW),)
    if name in ("two-leaders", "epoch-regression"):
        return (_led_on(evidence, row) or _simple(evidence, row, "unclean-election", TWO_WROTE),)
    if name == "divergent-replicas":
        return (_simple(evidence, row, "diverged-log-kept", "a replica kept records that differ from the leader's"),)
    if name in GROUPS:  # a coordinator is the leader of the partition that stores the group, and answers like one
        return _stale(evidence, row) if details_of(row).get("stale_because") else (_of_group(evidence, row),)
    return ()


def _led_on(evidence: Evidence, row: Row) -> Cause | None:
    """A leader came back in the epoch in which it had led, without a part of its log, and wrote on in it (RG-6)."""
    epoch = details_of(row).get("epoch")
    history = evidence.history_of(row["topic"], row["partition"])
    led = [one for one in history.samples if one.role == "leader" and one.leader_epoch == epoch]
    leaders = {one.broker for one in led}
    if len(leaders) != 1:
        return None
    leader, since_ns, until_ns = led[0].broker, led[0].at_ns, led[-1].at_ns
    lost = [
        fault
        for fault in evidence.faults_on(leader, since_ns, until_ns)
        if fault.kind in CRASHING_FIRST
        and fault.takes_records(row["topic"], row["partition"])
        and since_ns <= fault.started_ns < until_ns - _DYING_NS
    ]
    if not lost:
        return None
    again_ns = next(one.at_ns for one in led if one.at_ns > lost[-1].started_ns + _DYING_NS)
    return Cause(
        "storage-loss",
        f"broker {leader} {lost[-1].deed} and led on in the same leader epoch, without an election: it wrote other"
        " records in it",
        (f"It led in leader epoch {epoch} again at {moment(again_ns)}.",),
        again_ns,
        leader,
        (lost[-1].number,) if lost[-1].number else (),
    )


def _broker(row: Row) -> str:
    return "a broker" if row["broker"] is None else f"broker {row['broker']}"


def _near(evidence: Evidence, at_ns: int | None, broker: int | None) -> list[Fault]:
    """Return the faults that were active at a time, then those that ended shortly before; this broker's come first."""
    if at_ns is None:
        return []
    near = [fault for fault in evidence.faults if fault.touches(at_ns - RECENT_NS, at_ns)]
    return sorted(
        near, key=lambda fault: (not fault.touches(at_ns, at_ns), broker not in fault.targets, -fault.started_ns)
    )


def _simple(evidence: Evidence, row: Row, kind: str, sentence: str) -> Cause:
    near = _near(evidence, row["at_ns"], row["broker"])[:2]
    spoken = tuple(as_sentence(fault.story) for fault in near)
    return Cause(
        kind, sentence, spoken, row["at_ns"], row["broker"], tuple(fault.number for fault in near if fault.number)
    )


def _of_group(evidence: Evidence, row: Row) -> Cause:
    """A group that has lost its place, or has two: if brokers have lost data since, with what it had."""
    details, at_ns = details_of(row), row["at_ns"]
    known = details.get("last_acknowledged") or details.get("earlier")
    since_ns = known.get("completed_ns") if isinstance(known, dict) else None
    lost = [
        fault
        for fault in evidence.faults
        if fault.takes_records(_GROUPS_TOPIC)
        and isinstance(since_ns, int)
        and at_ns is not None
        and since_ns <= fault.started_ns <= at_ns
    ]
    if not lost:
        return _simple(evidence, row, "groups", "the coordinator of the group forgot or contradicted itself")
    stories = tuple(as_sentence(fault.story) for fault in lost)
    return Cause(
        "groups",
        f"what the group had committed was lost after {lost[0].story}",
        stories,
        lost[0].started_ns,
        min(lost[0].targets, default=None),
        tuple(fault.number for fault in lost if fault.number),
    )


def _gap(history: PartitionHistory, gap: LeaderStretch) -> str:
    """Say between which samples none shows who led, and whom these show."""
    before = [sample for sample in history.leading if sample.at_ns <= gap.start_ns][-1:]
    after = [sample for sample in history.leading if sample.at_ns >= gap.end_ns][:1]
    since_ns = before[0].at_ns if before else gap.start_ns
    said = [f"the last one before shows broker {one.broker}" for one in before]
    said += [f"the next one broker {one.broker}{' again' if before[:1] and before[0].broker == one.broker else ''}"
             for one in after]  # fmt: skip
    around = f": {', '.join(said)}" if said else ""
    unsampled = history.unsampled(since_ns, gap.end_ns)
    return f"Between {moment(since_ns)} and {moment(gap.end_ns)} {unsampled}{around}."


def _stale(evidence: Evidence, row: Row) -> tuple[Cause, ...]:
    """An answer that lacked what was acknowledged: by a leader that was replaced, or by one that was too new."""
    details = details_of(row)
    server, at_ns = row["broker"], row["at_ns"]
    because = str(details.get("stale_because") or "")
    history = evidence.history_of(row["topic"], row["partition"])
    led = history.leader_at(at_ns) if at_ns is not None else None
    name = partition_name(row["topic"], row["partition"])
    lines = [f"What the checkers say: {because}."] if because else []
    if led is not None and led.leader >= 0:
        lines.append(f"At {moment(at_ns)} broker {led.leader} led {name}{in_leader_epoch(led.leader_epoch)}.")
    elif led is not None:
        lines.append(_gap(history, led))
    near = _near(evidence, at_ns, server)
    faults = tuple(fault.number for fault in near[:2] if fault.number)
    when = "" if at_ns is None else f" at {moment(at_ns)}"
    lines.append(
        f"{_broker(row).capitalize()} answered." if server is not None else f"Which broker answered{when} is not known."
    )
    spoken = (*lines, *(as_sentence(fault.story) for fault in near[:2]))
    hit = f", which {near[0].deed}," if near and server in near[0].targets else ""
    replaced = Cause(
        "stale-leader",
        f"{_broker(row)}{hit} answered although another broker led by then",
        spoken,
        at_ns,
        server,
        faults,
        _OLD_MAY_SERVE if row["within_contract"] else "",
    )
    too_early = (
        "whose high watermark had not been seen to pass the write"
        if row["within_contract"] or details.get("asked") != "latest"
        else "and gave its high watermark for the end of the log before that had caught up"
    )
    led_since_ns = led.start_ns if led is not None and led.leader == server else at_ns or 0
    earlier = [fault for fault in near[:2] if (fault.held_ns or fault.started_ns) <= led_since_ns]
    new = Cause(
        "new-leader",
        f"{_broker(row)} was a new leader {too_early}",
        (*lines, *(as_sentence(fault.story) for fault in earlier)),
        at_ns,
        server,
        tuple(fault.number for fault in earlier if fault.number),
        _NEW_MAY_HOLD_BACK if row["within_contract"] else "",
    )
    if "changing" in because:
        return (_while_it_changed(row, details, history, near, lines),)
    if "no longer the leader" in because or "deposed" in because:
        return (replaced,)
    if "new" in because:
        return (new,)
    early = acknowledged_early(evidence, row, details)
    if early is not None and not row["within_contract"]:
        return (early,)
    claimed = any(broker == server and abs(at - (at_ns or 0)) <= RECENT_NS for at, broker, _ in history.claims)
    if claimed or (led is not None and server is not None and led.leader not in (server, -1)):
        return (replaced,)
    return (new,) if led is not None and led.leader == server and _leads_on(history, led) else (replaced, new)


def _leads_on(history: PartitionHistory, led: LeaderStretch) -> bool:
    """Whether nobody can have replaced a leader before its stretch of samples ends: the next one's log says when."""
    later = [one for one in history.leaderships if one.start_ns >= led.end_ns and one.leader != NO_LEADER]
    return not later or any(one.at_ns == later[0].start_ns for one in history.took_over)


def _while_it_changed(
    row: Row, details: Mapping[str, Any], history: PartitionHistory, near: Sequence[Fault], lines: Sequence[str]
) -> Cause:
    """The leadership was changing: by which leader's ignorance, and after which fault that lasted until the write."""
    server, at_ns = row["broker"], row["at_ns"] or 0
    witness = details.get("witness")
    operation = witness if isinstance(witness, dict) else {}
    since_ns, writer = operation.get("completed_ns"), operation.get("node")
    since_ns = since_ns if isinstance(since_ns, int) else at_ns
    led = [sample.broker for sample in history.leading if sample.at_ns <= since_ns][-1:]
    before = writer if isinstance(writer, int) else next(iter(led), None)
    lasting = [fault for fault in near if fault.touches(since_ns, at_ns)] or list(near)
    lasting = sorted(
        lasting,
        key=lambda fault: (before not in fault.targets, not fault.touches(at_ns, at_ns), -fault.started_ns),
    )[:3]
    is_down = any(
        before in fault.targets and fault.kind in CRASHING_FIRST and fault.touches(at_ns, at_ns) for fault in lasting
    )
    later = [sample.broker for sample in history.leading if sample.at_ns >= at_ns][:1]
    is_new = server is not None and later == [server] and server != writer
    has_led = any(sample.broker == server for sample in history.leading if sample.at_ns <= since_ns)
    if is_new or (server is None and is_down) or (server not in (None, writer) and not has_led):
        allowed = _NEW_MAY_HOLD_BACK  # who led before cannot have answered
    elif server is not None and server == writer:
        allowed = _OLD_MAY_SERVE
    else:
        allowed = f"{_OLD_MAY_SERVE} {_NEW_MAY_HOLD_BACK} Which of the two it was, no sample shows."
    after = f" after {lasting[0].story}" if lasting else ""
    is_write = row["anomaly"] != "end-offset-regression"
    wrote = [_acknowledgement(writer, since_ns, lasting)] if is_write and operation.get("status") == "ok" else []
    return Cause(
        "leader-change",
        f"the leadership was changing{after}",
        (*lines, *wrote, *(_while_changing(fault, before, server, at_ns) for fault in lasting)),
        row["at_ns"],
        None,
        tuple(fault.number for fault in lasting if fault.number),
        allowed,
    )


def _acknowledgement(writer: object, at_ns: int, lasting: Iterable[Fault]) -> str:
    """Say who acknowledged a write, and when; a fault that had begun to end that broker had not ended it yet."""
    if not isinstance(writer, int):
        return f"The write was acknowledged at {moment(at_ns)}."
    began = (fault for fault in lasting if writer in fault.targets and fault.started_ns <= at_ns)
    taking_hold = (fault for fault in began if at_ns < (fault.held_ns or fault.started_ns + _DYING_NS))
    meanwhile = "".join(f", while fault #{fault.number} took hold" for fault in taking_hold)
    return f"Broker {writer} acknowledged the write at {moment(at_ns)}{meanwhile}."


def _while_changing(fault: Fault, before: int | None, server: int | None, at_ns: int) -> str:
    """What a fault means while a leadership changes: for who led before, and for who answers."""
    lasts = fault.touches(at_ns, at_ns)
    if before is not None and before in fault.targets and lasts and fault.kind in _KEEPS_FROM_LEADING:
        return f"Broker {before}, the leader when the write was acknowledged, {fault.deed}: {ANOTHER_HAD_TO_LEAD}."
    if server is not None and server in fault.targets and lasts and fault.kind in CUTTING_OFF:
        return f"Broker {server}, which answered, {fault.deed}: {MAY_NOT_COMMIT}."
    return as_sentence(fault.story)


def _node_lost(row: Row) -> Cause:
    details = details_of(row)
    fault, excuse = details.get("fault"), details.get("excuse")
    words = details.get("last_words")
    spoken = [f"Its last words: {words}"] if words else ["Its log is empty."]
    numbers = [one["fault"] for one in (excuse, fault) if isinstance(one, dict) and isinstance(one.get("fault"), int)]
    after = f" after fault #{numbers[0]}" if numbers else ", and no fault had hit it"
    return Cause(
        "node-crash",
        f"{nodes([row['broker']])} ended by itself at {moment(row['at_ns'])}{after} and did not come back",
        tuple(spoken),
        row["at_ns"],
        row["broker"],
        tuple(dict.fromkeys(numbers)),
        "After a fault that loses or changes what a disk had synced a node need not start." if excuse else "",
    )


def _unavailable(evidence: Evidence, row: Row) -> Cause:
    details = details_of(row)
    what = {
        "no-acknowledged-write": "no write was acknowledged",
        "no-progress-of-readers": "a reader got nothing",
        "isr-not-full": "the ISR did not become full again",
    }.get(str(details.get("what")), "a service was missing")
    of_isr = details.get("what") in ("isr-not-full", "no-acknowledged-write")
    if of_isr and row["topic"] is not None and row["partition"] is not None:
        why = out_of_isr.reason(evidence, row["topic"], row["partition"])
        if why is not None:
            own = what if details.get("what") == "isr-not-full" else f"{what}, and the ISR did not become full again"
            return Cause("no-progress", f"{own}; {why.sentence}", why.evidence, row["at_ns"], why.node, why.faults)
    last = max(evidence.faults, key=lambda fault: fault.ended_ns or fault.started_ns, default=None)
    healed_ns, bound_ns = details.get("healed_ns"), details.get("bound_ns")
    when = f" after {last.story}" if last is not None else ""
    if isinstance(healed_ns, int) and isinstance(bound_ns, int):
        when = f" from {moment(healed_ns)}, when the last fault was over, to {moment(bound_ns)}"
    numbers = (last.number,) if last is not None and last.number else ()
    spoken = () if last is None else (f"The last fault: {last.story}.",)
    return Cause("no-progress", f"{what}{when}", spoken, row["at_ns"], row["broker"], numbers)


def _damaged(evidence: Evidence, row: Row) -> Cause:
    kinds = ("bit-flip", "file-truncation", "file-loss", "disk-error", "torn-page-cache-loss", "torn-append")
    damaging = [fault for fault in evidence.faults if fault.kind in kinds]
    guilty = [fault for fault in damaging if row["broker"] in fault.targets] or damaging
    if not guilty:
        return Cause("damaged-log", f"{_broker(row)} holds bytes that nobody wrote", (), row["at_ns"], row["broker"])
    fault = guilty[-1]
    numbers = (fault.number,) if fault.number else ()
    return Cause(
        "damaged-log",
        f"{fault.story}, and damaged bytes were served as records",
        (),
        fault.started_ns,
        row["broker"],
        numbers,
    )
