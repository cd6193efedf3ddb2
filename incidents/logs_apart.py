"""Finds why lost records are still in a log: two logs went apart, and the one without them led last."""

from __future__ import annotations

from collections.abc import Sequence

from common.wording import (
    FIRST_SERVER,
    as_sentence,
    capital,
    count,
    enumeration,
    in_leader_epoch,
    moment,
    node,
    nodes,
    partition_name,
    set_of,
)
from incidents.deeds import CUTTING_OFF, ENDING_A_PROCESS
from incidents.evidence import Evidence
from incidents.faults import FROM_BROKERS, Fault
from incidents.longer_logs import longer_logs, not_cut
from incidents.lost_storage import SLACK_NS
from incidents.model import Cause
from incidents.partition_history import PartitionHistory, Sample
from incidents.takeovers import Loss, held

UNCONDITIONAL = (
    "Leaders of this design write the ISR whatever is there, also one that was replaced and does not know that (Z-02):"
    " it may have put itself into the ISR between two samples."
)
"""Evidence of how a replica outside of the ISR came to lead, where replicas race for a znode."""
_EXPIRY_NS = 10_000_000_000
"""How long before an election a fault may have begun to end the session of the leader before."""


def still_held(evidence: Evidence, loss: Loss, leader: int) -> Cause | None:
    """Another replica than the last leader still holds the records: the two logs went apart, and stayed so."""
    numbers_held = held(evidence, loss)
    holders = sorted({*numbers_held} - {leader})
    if not holders:
        return None
    if loss.acknowledged_by in holders:
        known = (
            _led_from_outside(evidence, loss, leader)
            or _after_a_cut(evidence, loss, leader)
            or _by_one_replaced_in_logs(evidence, loss)
        )
        if known is not None:
            return known
    offsets = {row["offset"] for row in loss.rows if None not in (row["offset"], row.get("value"))}
    if all(numbers_held[holder] == len(offsets) for holder in holders):
        still = f"{nodes(holders)} still {'holds' if len(holders) == 1 else 'hold'} them"
    else:
        each = [f"broker {holder} still holds {count(numbers_held[holder])} of them" for holder in holders]
        still = enumeration(each)
    sentence = f"broker {leader}, which led last, kept other records at their offsets; {still}"
    history = evidence.history_of(loss.topic, loss.partition)
    led = _led_before(evidence, loss, leader) or _led_before(evidence, loss, _writer(evidence, loss))
    showed = history.leader_at(loss.first_ns)
    by = loss.acknowledged_by if loss.was_acknowledged or showed is None else showed.leader
    if not led and by in holders and by is not None:
        hit = evidence.faults_on(by, loss.first_ns - SLACK_NS, loss.first_ns)[-1:]
        led = [(fault, _unaware(by, fault)) for fault in hit if fault.kind not in ENDING_A_PROCESS]
    if by in holders and by is not None:
        replaced = _replaced_by(evidence, loss, by, leader)
        led += [one for one in replaced if one[0].ended_ns is None or one[0].ended_ns >= loss.last_ns]
    numbers = tuple(dict.fromkeys(fault.number for fault, _ in led if fault.number))
    longer = longer_logs(history, loss.last_ns)
    went_on = not_cut(longer)
    spoken = (*(one.sentence for one in longer), *(line for _, line in led))
    whole = f"{went_on}; {sentence}" if went_on else sentence
    return Cause("diverged-log-kept", whole, spoken, node=leader, faults=numbers)


def _writer(evidence: Evidence, loss: Loss) -> int | None:
    """Return who led in the earlier of the leader epochs that logs have, after the run, at the first record's place."""
    epochs = evidence.final_epochs(loss.topic, loss.partition).get(loss.offsets[0], frozenset())
    if len(epochs) < 2:
        return None
    led = evidence.history_of(loss.topic, loss.partition).leaderships
    return next((one.leader for one in led if one.leader_epoch == min(epochs) and one.leader >= 0), None)


def _unaware(broker: int, fault: Fault) -> str:
    return (
        f"Broker {broker} acknowledged them. It {fault.deed}, and may not have known who led meanwhile: what it wrote"
        " alone, others have not."
    )


def _led_from_outside(evidence: Evidence, loss: Loss, leader: int) -> Cause | None:
    """The broker that acknowledged the records led without being in the ISR: others held what came before them."""
    by, history = loss.acknowledged_by, evidence.history_of(loss.topic, loss.partition)
    led = [one for one in history.took_over if one.at_ns <= loss.first_ns and one.broker == by]
    before = [
        sample
        for sample in history.leading
        if led
        and sample.at_ns < led[-1].at_ns
        and sample.broker != by
        and not _is_own_belief(evidence, history, sample)
    ]
    if not evidence.is_leader_race or by is None or not before or not before[-1].isr or by in before[-1].isr:
        return None
    last, since_ns = before[-1], led[-1].at_ns
    member_ns = [sample.at_ns for sample in history.leading if sample.at_ns < last.at_ns and by in sample.isr]
    began_ns = max(member_ns, default=last.at_ns) - SLACK_NS
    ruled = [sample.at_ns for sample in history.leading if sample.at_ns < last.at_ns and sample.broker == by]
    had_led = f"It had led until {moment(ruled[-1])}, and" if ruled else "It"
    away = [
        (fault, f"Broker {by} {fault.deed}. {had_led} may not have known who led meanwhile.")
        for fault in evidence.faults_on(by, began_ns, last.at_ns)[-1:]
    ]
    ended = [
        (fault, f"Broker {last.broker} {fault.deed}, and then broker {by} led.")
        for fault in evidence.faults_on(last.broker, last.at_ns - _EXPIRY_NS, since_ns)[-1:]
    ]
    numbered = (*away, *ended, *_replaced_by(evidence, loss, by, leader))
    led_before = f"Before it broker {last.broker} led, with the ISR {set_of(last.isr)} and a log that ended at"
    again = " again" if ruled else ""
    return Cause(
        "unclean-election",
        f"broker {by} led{again} from {moment(since_ns)}, though the ISR last seen before that was"
        f" {set_of(last.isr)}; broker {leader}, which led last, kept other records at their offsets",
        (
            f"Broker {by} acknowledged them and still holds them.",
            f"{led_before} {count(last.log_end or 0)}, at {moment(last.at_ns)}.",
            UNCONDITIONAL,
            *dict.fromkeys(spoken for _, spoken in numbered),
        ),
        since_ns,
        by,
        tuple(dict.fromkeys(fault.number for fault, _ in numbered if fault.number)),
    )


def _is_own_belief(evidence: Evidence, history: PartitionHistory, sample: Sample) -> bool:
    """Whether a leader was cut off when it was first seen with an ISR: others need not have heard of that one."""
    since_ns = sample.at_ns
    for one in reversed([earlier for earlier in history.leading if earlier.at_ns < sample.at_ns]):
        if (one.broker, one.isr) != (sample.broker, sample.isr):
            break
        since_ns = one.at_ns
    return any(
        fault.kind in CUTTING_OFF and fault.detail != FROM_BROKERS
        for fault in evidence.faults_on(sample.broker, since_ns, since_ns)
    )


def _after_a_cut(evidence: Evidence, loss: Loss, leader: int) -> Cause | None:
    """The broker that acknowledged the records had cut its log to where they begin: others had something else there."""
    by, history = loss.acknowledged_by, evidence.history_of(loss.topic, loss.partition)
    cuts = [cut for cut in history.cuts if cut.broker == by and cut.at_ns <= loss.first_ns]
    if by is None or not cuts or not cuts[-1].log_end <= loss.offsets[0] < cuts[-1].log_end_before:
        return None
    cut = cuts[-1]
    began_ns = min(cut.before_ns, cut.at_ns) - SLACK_NS
    near = [fault for broker in (by, leader) for fault in evidence.faults_on(broker, began_ns, loss.first_ns)]
    kept_apart = sorted({fault for fault in near if fault.started_ns >= began_ns}, key=lambda fault: fault.number)
    restarted = [
        fault
        for fault in evidence.faults_on(by, began_ns, cut.at_ns)
        if fault.kind in ENDING_A_PROCESS and fault.started_ns < began_ns
    ]
    took = [
        fault
        for fault in evidence.faults_on(by, cut.before_ns, cut.at_ns)
        if fault.takes_records(loss.topic, loss.partition)
    ]
    shorter = f"had cut its log {cut.ends} {cut.when}, and led"
    if took:
        left = f"with {count(cut.log_end)} of {count(cut.log_end_before)} records left"
        shorter = f"acknowledged them after it {took[-1].deed} and led on {left}"
    replaced = _replaced_by(evidence, loss, by, leader)
    named = (*restarted, *kept_apart, *(fault for fault, _ in replaced))
    faults = dict.fromkeys(fault.number for fault in named)
    return Cause(
        "diverged-log-kept" if took else "wrong-cut",
        f"broker {by} {shorter}; broker {leader}, which led last, had kept what had been at their offsets before",
        (
            f"Broker {by} acknowledged them and still holds them.",
            *(f"Broker {by} {fault.deed}, before it cut its log." for fault in restarted),
            *(as_sentence(fault.story) for fault in kept_apart),
            *(spoken for _, spoken in replaced),
        ),
        cut.at_ns,
        by,
        tuple(number for number in faults if number),
    )


def _replaced_by(evidence: Evidence, loss: Loss, by: int, leader: int) -> list[tuple[Fault, str]]:
    """The last fault that hit who acknowledged the records before another broker led, with what it means."""
    leaderships = evidence.history_of(loss.topic, loss.partition).leaderships
    led = next((one for one in leaderships if one.leader == leader and one.start_ns >= loss.last_ns), None)
    hit = evidence.faults_on(by, loss.last_ns - SLACK_NS, led.start_ns)[-1:] if led else []
    return [
        (fault, f"Broker {by} {fault.deed}, and broker {leader} led by {moment(led.start_ns)}.") for fault in hit if led
    ]


def _led_before(evidence: Evidence, loss: Loss, leader: int | None) -> list[tuple[Fault, str]]:
    """Faults of the time when a broker led last, before others did who acknowledged the records, with what they mean.

    What a leader writes alone while it is cut off, or has not written out when it ends, is what others never have.
    """
    history = evidence.history_of(loss.topic, loss.partition)
    if leader is None:
        return []
    led = [one for one in history.leaderships if one.leader == leader and one.start_ns <= loss.first_ns]
    later = [one for one in history.leaderships if led and one.start_ns >= led[-1].end_ns and one.leader >= 0]
    hit = evidence.faults_on(leader, led[-1].start_ns, min(led[-1].end_ns, loss.first_ns)) if led else []
    if not hit or not later or later[0].leader == leader:
        return []
    name = partition_name(loss.topic, loss.partition)
    next_one = later[0].leader
    ended = [fault.started_ns for fault in hit[-1:] if fault.kind in ENDING_A_PROCESS]
    until = f"Broker {leader} had led {name} until {moment(min([led[-1].end_ns, *ended]))}"
    behind = evidence.faults_on(next_one, led[-1].start_ns, min(led[-1].end_ns, hit[-1].started_ns))
    alone = (
        f"{until}. It {hit[-1].deed}, and broker {next_one} led next: what broker {leader} had written by then, and"
        f" broker {next_one} had not, may be what it kept."
    )
    return [
        (hit[-1], alone),
        *(
            (fault, f"Broker {next_one} {fault.deed}, and may have lacked what broker {leader} wrote from then on.")
            for fault in behind[-1:]
            if fault not in hit
        ),
    ]


def _by_one_replaced_in_logs(evidence: Evidence, loss: Loss) -> Cause | None:
    """A broker acknowledged the records after another one had begun to lead, by the logs of both."""
    by = loss.acknowledged_by
    took_over = evidence.history_of(loss.topic, loss.partition).took_over
    before = [one for one in took_over if one.at_ns <= loss.first_ns]
    if by is None or not before or before[-1].broker == by or all(one.broker != by for one in before):
        return None
    leads = before[-1]
    since_ns = leads.at_ns - _EXPIRY_NS
    led_ns = max(one.at_ns for one in before if one.broker == by)  # what had ended by then kept it from nothing
    hit = [
        (by, fault)
        for fault in evidence.faults_on(by, max(since_ns, led_ns), loss.first_ns)
        if fault.started_ns >= led_ns or fault.kind not in ENDING_A_PROCESS
    ]
    if evidence.is_leader_race:  # a fault of the ensemble may have ended sessions
        servers = {target for fault in evidence.faults for target in fault.targets if target >= FIRST_SERVER}
        hit += [(one, fault) for one in servers for fault in evidence.faults_on(one, since_ns, leads.at_ns)]
    near = sorted(dict.fromkeys(hit), key=lambda pair: pair[1].number)
    return Cause(
        "acknowledged-early",
        f"they were acknowledged by broker {by} without broker {leads.broker}, which already led (by its log since"
        f" {moment(leads.at_ns)}{in_leader_epoch(leads.leader_epoch)})",
        tuple(f"{capital(node(who))} {fault.deed}: broker {by} may not have known who led." for who, fault in near),
        loss.first_ns,
        by,
        tuple(dict.fromkeys(fault.number for _, fault in near if fault.number)),
    )


def by_one_replaced(evidence: Evidence, loss: Loss, leading: Sequence[Sample]) -> Cause | None:
    """A broker acknowledged the records after another one had begun to lead in a later epoch, and leads no more."""
    if (told := _by_one_replaced_in_logs(evidence, loss)) is not None:
        return told
    by = loss.acknowledged_by
    before = [sample for sample in leading if sample.at_ns <= loss.first_ns]
    if by is None or not before or by in {sample.broker for sample in leading if sample.at_ns >= before[-1].at_ns}:
        return None
    leads = next(sample for sample in before if sample.leader_epoch == before[-1].leader_epoch)
    epoch = in_leader_epoch(leads.leader_epoch)
    sentence = (
        f"they were acknowledged by broker {by} without broker {leads.broker}, which already led (seen at"
        f" {moment(leads.at_ns)}{epoch})"
    )
    return Cause("acknowledged-early", sentence, at_ns=loss.first_ns, node=by)
