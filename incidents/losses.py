"""Finds why records are gone: the leader that lacked them, and how it came to lack them."""

from __future__ import annotations

from collections.abc import Sequence

from common.wording import (
    FIRST_SERVER,
    as_sentence,
    capital,
    count,
    in_leader_epoch,
    moment,
    node,
    nodes,
    partition_name,
)
from history.contract import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from incidents.deeds import ENDING_A_PROCESS
from incidents.evidence import Evidence, Fault
from incidents.lost_storage import SLACK_NS, set_of, storage_loss
from incidents.model import Cause
from incidents.partition_history import PartitionHistory, Sample
from incidents.takeovers import Loss, Takeover, held, holders_of_all

_EXPIRY_NS = 10_000_000_000
"""How long before an election a fault may have begun to end the session of the leader before."""
_UNCONDITIONAL = (
    "Leaders of this design write the ISR whatever is there, also one that was replaced and does not know that (Z-02):"
    " it may have put itself into the ISR between two samples."
)


def causes_of(evidence: Evidence, loss: Loss) -> tuple[Cause, ...]:
    """Return the cause of a loss, or else the candidates."""
    acks = evidence.settings.get("acks")
    found = _without_samples(evidence, loss) if loss.takeover is None else _by_takeover(evidence, loss, loss.takeover)
    if acks in (ACKS_NONE, ACKS_LEADER):
        return tuple(_by_acks(cause, int(acks)) for cause in found)
    return tuple(found)


def _by_acks(cause: Cause, acks: int) -> Cause:
    allowed = (
        "acks=0 promises nothing of any record."
        if acks == ACKS_NONE
        else "acks=1 allows this: the leader changed, or lost its disk cache, before the records were replicated."
    )
    kind = cause.kind if cause.kind == "storage-loss" else "weak-acknowledgement"
    return Cause(kind, cause.sentence, cause.evidence, cause.at_ns, cause.node, cause.faults, allowed)


def _by_takeover(evidence: Evidence, loss: Loss, takeover: Takeover) -> list[Cause]:
    history = evidence.history_of(loss.topic, loss.partition)
    leader, first_offset = takeover.leader, loss.offsets[0]
    mine = [sample for sample in history.samples if sample.broker == leader and sample.at_ns <= takeover.seen_ns]
    since = [sample for sample in mine if loss.first_ns - SLACK_NS <= sample.at_ns < takeover.seen_ns]
    had = [sample for sample in since if (sample.log_end or 0) > first_offset]
    name = partition_name(history.topic, history.partition)
    # without leader epochs it may have led before
    first = "first seen as leader of" if takeover.epoch >= 0 else "seen to lead"
    first_seen = f"Broker {leader} was {first} {name} at {moment(takeover.seen_ns)}"
    if takeover.leads_on:
        first_seen = f"Broker {leader} still led {name} at {moment(takeover.seen_ns)}"
    epoch = f", in leader epoch {takeover.epoch}" if takeover.epoch >= 0 else ""
    has_grown = any(sample.at_ns == takeover.seen_ns and sample.log_end != takeover.log_end for sample in mine)
    log = "; before that its log was last seen to end at" if has_grown else ", with a log that ended at"
    seen = [f"{first_seen}{epoch}{log} {count(takeover.log_end or 0)}."]
    lossy = [
        fault
        for fault in evidence.faults_on(leader, loss.first_ns - SLACK_NS, takeover.seen_ns)
        if fault.lossy and fault.started_ns >= loss.first_ns - SLACK_NS
    ]
    if lossy:
        return [storage_loss(evidence, loss, takeover, lossy, seen)]
    if had and not _had_a_part_only(loss, since):
        kept = holders_of_all(evidence, loss)
        still = [f"After the run {nodes(kept)} {'holds' if len(kept) == 1 else 'hold'} them still."] if kept else []
        return _cut(evidence, loss, takeover, history, had[-1], [*seen, *still])
    return _never_had(evidence, loss, takeover, history, seen)


def _had_a_part_only(loss: Loss, samples: Sequence[Sample]) -> bool:
    """Whether samples of a replica, one of them after the last acknowledgement, show that it never had all of them."""
    ends = [sample.log_end or 0 for sample in samples]
    return max(ends) <= loss.offsets[-1] and any(sample.at_ns >= loss.last_ns for sample in samples)


def _cut(
    evidence: Evidence, loss: Loss, takeover: Takeover, history: PartitionHistory, had: Sample, seen: Sequence[str]
) -> list[Cause]:
    """The leader had the records earlier: something shortened its log, and no fault took them."""
    leader = takeover.leader
    ended = [fault for fault in evidence.faults_on(leader, had.at_ns, takeover.seen_ns) if fault.kind != "pause"]
    cut = next(
        (cut for cut in history.cuts if cut.broker == leader and had.at_ns <= cut.before_ns <= takeover.seen_ns), None
    )
    at_ns = cut.at_ns if cut else takeover.seen_ns
    when = cut.when if cut and cut.at_ns == cut.before_ns else f"between {moment(had.at_ns)} and {moment(at_ns)}"
    shorter = (
        f"Its log had ended at {count(had.log_end or 0)} at {moment(had.at_ns)}, and no fault took data from its disk"
        " after that."
    )
    before = [
        f"Broker {leader} {fault.deed}, before it cut its log." for fault in ended[-1:] if fault.started_ns <= at_ns
    ]
    away = _holders_kept_away(evidence, loss, takeover, history, at_ns)
    away_too = [f"Broker {other}, which held them, {fault.deed}, before that election." for other, fault in away]
    wrong_cut = Cause(
        "wrong-cut",
        f"broker {leader} cut them off its log {when}, and was then elected",
        (*seen, shorter, *before, *away_too),
        at_ns,
        leader,
        tuple(dict.fromkeys(fault.number for fault in (*ended, *(fault for _, fault in away)) if fault.number)),
    )
    if had.role == "leader" and had.leader_epoch == takeover.epoch and takeover.epoch >= 0:
        return [
            Cause(
                "wrong-cut",
                f"broker {leader} lost them from its log at {moment(at_ns)} while it led",
                (*seen, shorter),
                at_ns,
                leader,
                tuple(fault.number for fault in ended if fault.number),
            )
        ]
    return [wrong_cut]


def _holders_kept_away(
    evidence: Evidence, loss: Loss, takeover: Takeover, history: PartitionHistory, cut_ns: int
) -> list[tuple[int, Fault]]:
    """Other brokers whose logs had the records when last seen, each with the last fault that hit it by the election."""
    last = {sample.broker: sample for sample in history.samples if sample.at_ns < takeover.seen_ns}
    had = (broker for broker, one in sorted(last.items()) if (one.log_end or 0) > loss.offsets[0])
    hit = (
        (broker, evidence.faults_on(broker, cut_ns, takeover.seen_ns)) for broker in had if broker != takeover.leader
    )
    return [(broker, faults[-1]) for broker, faults in hit if faults]


def _never_had(
    evidence: Evidence, loss: Loss, takeover: Takeover, history: PartitionHistory, seen: Sequence[str]
) -> list[Cause]:
    """No sample shows the records on the new leader: it should not have been elected, or they not be acknowledged."""
    leader = takeover.leader
    at_ack = [sample for sample in history.leading if sample.at_ns <= loss.last_ns]
    before = [sample for sample in history.leading if sample.at_ns < takeover.seen_ns]
    previous = before[-1].broker if before else None
    isr = before[-1].isr if before else ()
    eligible = before[-1].elr if before else ()
    hit = evidence.faults_on(previous, loss.last_ns - SLACK_NS, takeover.seen_ns) if previous is not None else []
    blame = hit[-1:] if previous != leader else []
    because = f"broker {previous} {blame[0].deed}, and " if blame else ""
    elected = f"{because}broker {leader} was elected by {moment(takeover.seen_ns)}"
    numbers = tuple(fault.number for fault in blame if fault.number)
    back = [
        fault
        for fault in evidence.faults_on(leader, loss.first_ns - SLACK_NS, takeover.seen_ns)
        if fault.kind in ENDING_A_PROCESS
    ]
    until_ns = min((takeover.seen_ns, *(fault.started_ns for fault in back)))
    lacking = [one for one in history.samples if one.broker == leader and loss.last_ns <= one.at_ns < until_ns]
    sampled = bool(lacking)
    lacked = f"No sample shows that broker {leader} ever had them."
    if sampled:
        lacked = f"Samples of broker {leader} after the acknowledgement show a log without them."
        if (end := max(sample.log_end or 0 for sample in lacking)) > loss.offsets[0]:
            lacked = f"Samples of broker {leader} after the acknowledgement show a log that ends at {count(end)}."
    elif back:
        lacked = f"{lacked} It {back[0].deed}, and may have cut its log when it came back."
    spoken = (*seen, lacked, f"The ISR last seen before that election was {set_of(isr)}, the ELR {set_of(eligible)}.")

    def cause(kind: str, sentence: str, allowed_by: str = "") -> Cause:
        return Cause(kind, sentence, spoken, takeover.seen_ns, leader, numbers, allowed_by)

    if evidence.settings.get("acks") in (ACKS_NONE, ACKS_LEADER):
        return [cause("weak-acknowledgement", f"{elected} before they had been replicated to it")]
    if isr and leader not in isr and leader not in eligible:
        on = evidence.settings.get("unclean_election")
        allowed = "unclean.leader.election.enable=true lets any replica lead." if on else ""
        if evidence.is_leader_race:
            away = evidence.faults_on(leader, loss.first_ns - SLACK_NS, takeover.seen_ns)
            numbers = tuple(dict.fromkeys((*numbers, *(fault.number for fault in away if fault.number))))
            unaware = (f"Broker {leader} {fault.deed}, and may not have known who led meanwhile." for fault in away)
            spoken = (*spoken, _UNCONDITIONAL, *unaware)
        outsider = f"broker {leader}, which was neither in the ISR nor eligible when last seen, was elected by"
        return [cause("unclean-election", f"{because}{outsider} {moment(takeover.seen_ns)}", allowed)]
    was_member = bool(at_ack) and leader in at_ack[-1].isr
    kind, deed = _early(loss)
    early = cause(kind, f"they were {deed} before broker {leader} had them; {elected}")
    joined = cause("joined-too-early", f"broker {leader} joined the ISR without them; {elected}")
    if sampled:
        return [early] if was_member else [joined]
    return (
        [early, cause("wrong-cut", f"{elected} after it had cut them off its log")] if was_member else [joined, early]
    )


def _without_samples(evidence: Evidence, loss: Loss) -> list[Cause]:
    """No sample shows a leader that lacked the records: name the faults that can have taken them."""
    after = [
        fault
        for fault in evidence.faults
        if fault.takes_records(loss.topic, loss.partition) and fault.took_by_ns >= loss.first_ns - SLACK_NS
    ]
    found = [
        Cause(
            "storage-loss",
            f"{fault.story}",
            ("It is the kind of fault that takes records, and it came after they were acknowledged.",),
            fault.started_ns,
            min(fault.targets, default=None),
            (fault.number,) if fault.number else (),
        )
        for fault in after[:2]
    ]
    ends = evidence.history_of(loss.topic, loss.partition).leading
    unreplicated = evidence.settings.get("acks") in (ACKS_ALL, None)
    still = _still_held(evidence, loss, ends[-1].broker) if ends and unreplicated else None
    if still is not None and not any(ends[-1].broker in fault.targets for fault in after):
        return [still]
    if unreplicated and not found:
        led = f"broker {ends[-1].broker} led last" if ends else "no sample shows who led"
        kind, deed = _early(loss)
        early = _by_one_replaced(evidence, loss, ends) or Cause(
            kind, f"they were {deed} before enough replicas had them; {led}"
        )
        found.append(still or early)
    return found


def _still_held(evidence: Evidence, loss: Loss, leader: int) -> Cause | None:
    """Another replica than the last leader still holds the records: the two logs went apart, and stayed so."""
    holders = sorted({*held(evidence, loss)} - {leader})
    if not holders:
        return None
    if loss.acknowledged_by in holders:
        known = _after_a_cut(evidence, loss, leader) or _by_one_replaced_in_logs(evidence, loss)
        if known is not None:
            return known
    sentence = f"broker {leader}, which led last, kept other records at their offsets; {nodes(holders)} still"
    sentence = f"{sentence} {'holds' if len(holders) == 1 else 'hold'} them"
    led = _led_before(evidence, loss, leader)
    by = loss.acknowledged_by
    if not led and by in holders and by is not None:
        hit = evidence.faults_on(by, loss.first_ns - SLACK_NS, loss.first_ns)[-1:]
        led = [(fault, _unaware(by, fault)) for fault in hit if fault.kind not in ENDING_A_PROCESS]
    numbers = tuple(dict.fromkeys(fault.number for fault, _ in led if fault.number))
    return Cause("diverged-log-kept", sentence, tuple(spoken for _, spoken in led), node=leader, faults=numbers)


def _unaware(broker: int, fault: Fault) -> str:
    return (
        f"Broker {broker} acknowledged them. It {fault.deed}, and may not have known who led meanwhile: what it wrote"
        " alone, others have not."
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
    took = [
        fault
        for fault in evidence.faults_on(by, cut.before_ns, cut.at_ns)
        if fault.takes_records(loss.topic, loss.partition)
    ]
    shorter = f"had cut its log from {count(cut.log_end_before)} to {count(cut.log_end)} {cut.when}, and led"
    if took:
        left = f"with {count(cut.log_end)} of {count(cut.log_end_before)} records left"
        shorter = f"acknowledged them after it {took[-1].deed} and led on {left}"
    replaced = _replaced_by(evidence, loss, by, leader)
    faults = dict.fromkeys([*(fault.number for fault in kept_apart), *(fault.number for fault, _ in replaced)])
    return Cause(
        "diverged-log-kept" if took else "wrong-cut",
        f"broker {by} {shorter}; broker {leader}, which led last, had kept what had been at their offsets before",
        (
            f"Broker {by} acknowledged them and still holds them.",
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


def _led_before(evidence: Evidence, loss: Loss, leader: int) -> list[tuple[Fault, str]]:
    """Faults of the time when a broker led last, before others did who acknowledged the records, with what they mean.

    What a leader writes alone while it is cut off, or has not written out when it ends, is what others never have.
    """
    history = evidence.history_of(loss.topic, loss.partition)
    led = [one for one in history.leaderships if one.leader == leader and one.start_ns <= loss.first_ns]
    later = [one for one in history.leaderships if led and one.start_ns >= led[-1].end_ns and one.leader >= 0]
    hit = evidence.faults_on(leader, led[-1].start_ns, min(led[-1].end_ns, loss.first_ns)) if led else []
    if not hit or not later or later[0].leader == leader:
        return []
    name = partition_name(loss.topic, loss.partition)
    next_one = later[0].leader
    until = f"Broker {leader} had led {name} until {moment(led[-1].end_ns)}"
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
    hit = [(by, fault) for fault in evidence.faults_on(by, since_ns, loss.first_ns)]
    if evidence.is_leader_race:  # a fault of the ensemble may have ended sessions
        servers = {target for fault in evidence.faults for target in fault.targets if target >= FIRST_SERVER}
        hit += [(one, fault) for one in servers for fault in evidence.faults_on(one, since_ns, leads.at_ns)]
    near = sorted(dict.fromkeys(hit), key=lambda pair: pair[1].number)
    return Cause(
        "acknowledged-early",
        f"they were acknowledged by broker {by} when broker {leads.broker} already led (by its log since"
        f" {moment(leads.at_ns)}{in_leader_epoch(leads.leader_epoch)})",
        tuple(f"{capital(node(who))} {fault.deed}: broker {by} may not have known who led." for who, fault in near),
        loss.first_ns,
        by,
        tuple(dict.fromkeys(fault.number for _, fault in near if fault.number)),
    )


def _by_one_replaced(evidence: Evidence, loss: Loss, leading: Sequence[Sample]) -> Cause | None:
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
        f"they were acknowledged by broker {by} when broker {leads.broker} already led (seen at"
        f" {moment(leads.at_ns)}{epoch})"
    )
    return Cause("acknowledged-early", sentence, at_ns=loss.first_ns, node=by)


def _early(loss: Loss) -> tuple[str, str]:
    """What a leader did too early with records that were not committed: the kind of cause, and the deed."""
    if not loss.was_acknowledged:
        return "dirty-read", "read"
    by = loss.acknowledged_by
    return "acknowledged-early", "acknowledged" if by is None else f"acknowledged by {nodes([by])}"
