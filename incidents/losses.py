"""Finds why records are gone: the leader that lacked them, and how it came to lack them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from common.wording import count, moment, nodes, partition_name, set_of
from history.contract import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from incidents.deeds import (
    ANOTHER_HAD_TO_LEAD,
    CHANGING_MIN_ISR,
    CUTTING_OFF,
    DELAYING,
    ENDING_A_PROCESS,
    KEEPING_APART,
)
from incidents.evidence import Evidence
from incidents.faults import Fault
from incidents.logs_apart import UNCONDITIONAL, by_one_replaced, still_held
from incidents.lost_storage import SLACK_NS, cuts_after, storage_loss, was_eligible
from incidents.model import Cause
from incidents.partition_history import NO_LEADER, PartitionHistory, Sample
from incidents.takeovers import Loss, Takeover, holders_of_all
from incidents.uncommitted import called_committed, shown_early

CUT_AS_IT_WENT_ON = "cut its log when it went on"
"""What evidence says of a broker that was paused until then."""
MAY_NOT_HAVE_GOT = "may not have got them"
"""What evidence says of a replica outside of the ISR that a fault had hit when records were acknowledged."""
NOT_FETCHED_AGAIN = "it may not have fetched them again"
"""What evidence says of a fault that hit a replica when it had cut its log."""


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
    had_all = bool(had) and not _had_a_part_only(loss, since)
    cut_off = [] if had_all else _before_its_cut(history, loss, takeover)
    name = partition_name(history.topic, history.partition)
    epoch = f" in leader epoch {takeover.epoch}" if takeover.epoch >= 0 else ""
    first = "first seen" if takeover.epoch >= 0 else "seen"  # without leader epochs it may have led before
    first_seen = f"Broker {leader} was {first} to lead {name}{epoch} at {moment(takeover.seen_ns)}"
    began = [
        one
        for one in history.took_over
        if one.broker == leader and takeover.not_before_ns <= one.at_ns and one.leader_epoch in (None, takeover.epoch)
    ]
    if began and began[0].at_ns <= takeover.seen_ns:
        first_seen = f"By its own log broker {leader} began to lead {name}{epoch} at {moment(began[0].at_ns)}"
    if takeover.leads_on:
        first_seen = f"Broker {leader} still led {name}{epoch} at {moment(takeover.seen_ns)}"
    has_grown = any(sample.at_ns == takeover.seen_ns and sample.log_end != takeover.log_end for sample in mine)
    log = "; before that its log was last seen to end at" if has_grown else ", with a log that ended at"
    seen = [f"{first_seen}{log} {count(takeover.log_end or 0)}."]
    lossy = [
        fault
        for fault in evidence.faults_on(leader, loss.first_ns - SLACK_NS, takeover.seen_ns)
        if fault.lossy and fault.started_ns >= loss.first_ns - SLACK_NS
    ]
    if lossy:
        return [storage_loss(evidence, loss, takeover, lossy, seen)]
    if had_all or cut_off:
        kept = holders_of_all(evidence, loss)
        still = [f"After the run {nodes(kept)} {'holds' if len(kept) == 1 else 'hold'} them still."] if kept else []
        since_ns = had[-1].at_ns if had_all else loss.last_ns
        return _cut(evidence, loss, takeover, history, (cut_off or had)[-1], [*seen, *still], since_ns)
    causes = _never_had(evidence, loss, takeover, history, seen)
    then = cuts_after(evidence, history, loss, takeover)
    return [replace(cause, evidence=(*cause.evidence, *then)) for cause in causes]


def _before_its_cut(history: PartitionHistory, loss: Loss, takeover: Takeover) -> list[Sample]:
    """What no sample of a leader shows, but its cut does: the records were in its log before that."""
    cuts = (
        cut
        for cut in history.cuts
        if cut.broker == takeover.leader
        and loss.first_ns - SLACK_NS <= cut.at_ns <= takeover.seen_ns
        and cut.log_end <= loss.offsets[0]
        and loss.offsets[1] < cut.log_end_before
    )
    return [
        Sample(cut.before_ns, cut.broker, "none", NO_LEADER, takeover.epoch, cut.log_end_before, None, (), ())
        for cut in list(cuts)[-1:]
    ]


def _had_a_part_only(loss: Loss, samples: Sequence[Sample]) -> bool:
    """Whether samples of a replica, one of them after the last acknowledgement, show that it never had all of them."""
    ends = [sample.log_end or 0 for sample in samples]
    return max(ends) <= loss.offsets[-1] and any(sample.at_ns >= loss.last_ns for sample in samples)


def _cut(
    evidence: Evidence,
    loss: Loss,
    takeover: Takeover,
    history: PartitionHistory,
    had: Sample,
    seen: Sequence[str],
    since_ns: int,
) -> list[Cause]:
    """The leader had the records earlier: something shortened its log after `since_ns`, and no fault took them."""
    leader = takeover.leader
    ended = [fault for fault in evidence.faults_on(leader, since_ns, takeover.seen_ns) if fault.kind != "pause"]
    cut = next(
        (cut for cut in history.cuts if cut.broker == leader and had.at_ns <= cut.before_ns <= takeover.seen_ns), None
    )
    at_ns = cut.at_ns if cut else takeover.seen_ns
    when = cut.when if cut and cut.at_ns == cut.before_ns else f"between {moment(had.at_ns)} and {moment(at_ns)}"
    shorter = (
        f"The log of broker {leader} had ended at {count(had.log_end or 0)} at {moment(had.at_ns)}, and no fault took"
        " data from its disk after that."
    )
    before = [
        f"Broker {leader} {fault.deed}, before it cut its log."
        for fault in ended
        if fault.started_ns <= at_ns and (fault == ended[-1] or fault.kind in ENDING_A_PROCESS)
    ]
    resumed = [
        fault
        for fault in evidence.faults_on(leader, since_ns, at_ns)
        if fault.kind == "pause" and fault.started_ns < at_ns <= (fault.ended_ns or at_ns) + SLACK_NS
    ]
    before += [f"Broker {leader} {fault.deed}, and {CUT_AS_IT_WENT_ON}." for fault in resumed]
    after = [
        f"Broker {leader} {fault.deed}, when it had cut its log: {NOT_FETCHED_AGAIN}."
        for fault in evidence.faults_on(leader, at_ns, takeover.seen_ns)
        if fault.started_ns > at_ns and fault.kind in (*CUTTING_OFF, "pause")
    ]
    replaced = _kept_from_leading(evidence, loss, leader, at_ns)
    away, outside = _holders_kept_away(evidence, loss, takeover, history, at_ns)
    had_them = "whose log was as long" if evidence.is_leader_race else "which held them"
    away_too = [f"Broker {other}, {had_them}, {fault.deed}, before that election." for other, fault in away]
    last = history.newest(takeover.seen_ns)
    if last is not None and last.isr:
        away_too += [
            f"Broker {other}, {had_them}, was out of the ISR {set_of(last.isr)} last seen before that election."
            for other in outside
            if other not in last.isr
        ]
    wrong_cut = Cause(
        "wrong-cut",
        f"broker {leader} cut them off its log {when}, and was then elected",
        (*seen, shorter, *(spoken for _, spoken in replaced), *before, *after, *away_too),
        at_ns,
        leader,
        tuple(
            dict.fromkeys(
                fault.number
                for fault in (*ended, *resumed, *(fault for _, fault in away), *(fault for fault, _ in replaced))
                if fault.number
            )
        ),
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


def _kept_from_leading(evidence: Evidence, loss: Loss, leader: int, cut_ns: int) -> list[tuple[Fault, str]]:
    """The fault that made another broker lead between acknowledgement and cut: a follower of that one cuts its log."""
    by = loss.acknowledged_by
    if by is None or by == leader:
        return []
    hit = [
        fault
        for fault in evidence.faults_on(by, loss.first_ns - SLACK_NS, cut_ns)
        if fault.kind in KEEPING_APART and fault.started_ns <= cut_ns
    ]
    return [
        (fault, f"Broker {by}, which had acknowledged them, {fault.deed}, before that cut: {ANOTHER_HAD_TO_LEAD}.")
        for fault in hit[-1:]
    ]


def _holders_kept_away(
    evidence: Evidence, loss: Loss, takeover: Takeover, history: PartitionHistory, cut_ns: int
) -> tuple[list[tuple[int, Fault]], list[int]]:
    """Other brokers whose logs had the records when last seen, each with the last fault that hit it by the election.

    Second those that none hit.
    """
    # Without leader epochs a log may be as long by what the new leader has written already.
    until_ns = max(cut_ns, takeover.not_before_ns) if evidence.is_leader_race else takeover.seen_ns - 1
    last = {sample.broker: sample for sample in history.samples if sample.at_ns <= until_ns}
    had = (broker for broker, one in sorted(last.items()) if (one.log_end or 0) > loss.offsets[0])
    hit = [
        (broker, [one for one in evidence.faults_on(broker, cut_ns, takeover.seen_ns) if one.kind not in DELAYING])
        for broker in had
        if broker != takeover.leader
    ]
    return (
        [(broker, _that_kept_away(history, loss, broker, faults)) for broker, faults in hit if faults],
        [broker for broker, faults in hit if not faults],
    )


def _that_kept_away(history: PartitionHistory, loss: Loss, broker: int, faults: Sequence[Fault]) -> Fault:
    """Return the last of some faults: one that kept the broker apart, or took these records, if there is such a one."""

    def took_none(fault: Fault) -> bool:
        after = (one for one in history.samples if one.broker == broker and one.at_ns > fault.started_ns)
        first = next(after, None)
        return fault.lossy and first is not None and (first.log_end or 0) > loss.offsets[0]

    kept = [fault for fault in faults if not took_none(fault)]
    apart = [fault for fault in kept if fault.kind in KEEPING_APART or fault.lossy]
    return (apart or kept or list(faults))[-1]


def _never_had(
    evidence: Evidence, loss: Loss, takeover: Takeover, history: PartitionHistory, seen: Sequence[str]
) -> list[Cause]:
    """No sample shows the records on the new leader: it should not have been elected, or they not be acknowledged."""
    leader = takeover.leader
    at_ack = [sample for sample in history.leading if sample.at_ns <= loss.last_ns]
    last = history.newest(takeover.seen_ns)
    isr = last.isr if last is not None else ()
    eligible = last.elr if last is not None else ()
    because, numbers = _former_leader_hit(evidence, loss, takeover, history)
    elected = f"{because}broker {leader} was elected {_when(history, takeover)}"
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
        since = "acknowledgement" if loss.was_acknowledged else "read"
        lacked = f"Samples of broker {leader} after the {since} show a log without them."
        if (end := max(sample.log_end or 0 for sample in lacking)) > loss.offsets[0]:
            lacked = f"Samples of broker {leader} after the {since} show a log that ends at {count(end)}."
    elif back:
        lacked = f"{lacked} It {back[0].deed}, and may have cut its log when it came back."
    seen_at = f", at {moment(last.at_ns)}," if last is not None else ""
    elr = "" if evidence.is_leader_race else f", the ELR {set_of(eligible)}"
    spoken = (*seen, lacked, f"The ISR last seen before that election{seen_at} was {set_of(isr)}{elr}.")

    def cause(kind: str, sentence: str) -> Cause:
        return Cause(kind, sentence, spoken, takeover.seen_ns, leader, numbers)

    if evidence.settings.get("acks") in (ACKS_NONE, ACKS_LEADER):
        return [cause("weak-acknowledgement", f"{elected} before they had been replicated to it")]
    outsider = _outsider(evidence, loss, takeover, history, cause("", because))
    if outsider is not None:
        return [outsider]
    was_member = bool(at_ack) and leader in at_ack[-1].isr
    kind, deed = _early(loss)
    early = cause(kind, f"they were {deed} before broker {leader} had them; {elected}")
    if kind == "dirty-read":
        early = _shown(evidence, loss, early, elected)
    joined = cause("joined-too-early", f"broker {leader} joined the ISR without them; {elected}")
    if sampled:
        return [early] if was_member else [joined]
    if not was_member:
        return [joined, early]
    if not back and _tells_of_no_cut(history, loss, takeover):
        uncut = f"The log of broker {leader}, which has each cut of it, has none meanwhile."
        return [replace(early, evidence=(*early.evidence, uncut))]
    return [early, cause("wrong-cut", f"{elected} after it had cut them off its log")]


def _former_leader_hit(
    evidence: Evidence, loss: Loss, takeover: Takeover, history: PartitionHistory
) -> tuple[str, tuple[int, ...]]:
    """Say what had hit the leader before an election, ahead of who was elected, and with which fault; or nothing."""
    before = [sample for sample in history.leading if sample.at_ns < takeover.seen_ns]
    previous = before[-1].broker if before else None
    if previous is None or previous == takeover.leader:
        return "", ()
    hit = evidence.faults_on(previous, loss.last_ns - SLACK_NS, takeover.seen_ns)
    if not hit:
        return "", ()
    story = hit[-1].story if len(hit[-1].targets) > 1 else f"broker {previous} {hit[-1].deed}"
    return f"{story}, and ", (hit[-1].number,) if hit[-1].number else ()


def elected_without(evidence: Evidence, losses: Sequence[Loss]) -> str:
    """Say who were elected in several partitions without what one leader had acknowledged in all of them."""
    decided = [(loss, loss.takeover) for loss in losses if loss.takeover is not None]
    leaders = nodes(sorted({takeover.leader for _, takeover in decided}))
    (first, takeover), latest_ns = decided[0], max(takeover.seen_ns for _, takeover in decided)
    because, _ = _former_leader_hit(evidence, first, takeover, evidence.history_of(first.topic, first.partition))
    _, deed = _early(first)
    return f"they were {deed} before {leaders} had them; {because}{leaders} were elected by {moment(latest_ns)}"


def _when(history: PartitionHistory, takeover: Takeover) -> str:
    """When a leader was elected: its own log has the moment, or it was seen later to have been."""
    own = any((one.broker, one.at_ns) == (takeover.leader, takeover.seen_ns) for one in history.took_over)
    return f"{'at' if own else 'by'} {moment(takeover.seen_ns)}"


def _outsider(
    evidence: Evidence, loss: Loss, takeover: Takeover, history: PartitionHistory, known: Cause
) -> Cause | None:
    """Return the cause of a loss if who was elected was not in the ISR: it was not eligible, or should not have been.

    `known`: what is known of the election: its sentence says what came before it.
    """
    leader, when = takeover.leader, _when(history, takeover)
    last = history.newest(takeover.seen_ns)
    if last is None or not last.isr or leader in last.isr:
        return None
    missed = [
        fault
        for fault in evidence.faults_on(leader, loss.first_ns - SLACK_NS, loss.last_ns)
        if fault.kind in KEEPING_APART
    ]
    told = [f"Broker {leader} {fault.deed}, and {MAY_NOT_HAVE_GOT}." for fault in missed]
    still = _eligible_beside_enough(evidence, loss, history, takeover)
    if still is not None:
        sets = f"At {moment(still.at_ns)} the ISR was {set_of(still.isr)} and the ELR {set_of(still.elr)}."
        enough = f"the ISR had min.insync.replicas ({count(evidence.settings['min_insync_replicas'])}) members"
        sentence = f"broker {leader}, which had been left in the ELR although {enough}, was elected {when}"
        return _elected(known, "eligibility", sentence, [sets, *told], missed)
    if leader in last.elr:
        return None
    if evidence.is_leader_race:
        away = evidence.faults_on(leader, loss.first_ns - SLACK_NS, takeover.seen_ns)
        unaware = (f"Broker {leader} {fault.deed}, and may not have known who led meanwhile." for fault in away)
        spoken = [*_isr_at_first(history, takeover), UNCONDITIONAL, *unaware]
        sentence = f"broker {leader}, which was not in the ISR last seen, was elected {when}"
        return _elected(known, "unclean-election", sentence, spoken, away)
    on = evidence.settings.get("unclean_election")
    allowed = "unclean.leader.election.enable=true lets any replica lead." if on else ""
    sentence = f"broker {leader}, which was neither in the ISR nor eligible when last seen, was elected {when}"
    return _elected(known, "unclean-election", sentence, told, missed, allowed)


def _elected(
    known: Cause, kind: str, sentence: str, spoken: Sequence[str], faults: Sequence[Fault], allowed_by: str = ""
) -> Cause:
    """Return a cause with a kind, what was done, what more speaks for it, and the faults of which that tells."""
    return replace(
        known,
        kind=kind,
        sentence=f"{known.sentence}{sentence}",
        evidence=(*known.evidence, *spoken),
        faults=tuple(dict.fromkeys((*known.faults, *(fault.number for fault in faults if fault.number)))),
        allowed_by=allowed_by,
    )


def _tells_of_no_cut(history: PartitionHistory, loss: Loss, takeover: Takeover) -> bool:
    """Whether a leader's own log, which has its election with the end of the replica's log, has no cut before that."""
    began = (one for one in history.took_over if one.broker == takeover.leader and one.log_end is not None)
    told = any(takeover.not_before_ns <= one.at_ns <= takeover.seen_ns for one in began)
    cuts = (cut for cut in history.cuts if cut.broker == takeover.leader)
    return told and not any(loss.first_ns <= cut.at_ns <= takeover.seen_ns for cut in cuts)


def _eligible_beside_enough(
    evidence: Evidence, loss: Loss, history: PartitionHistory, takeover: Takeover
) -> Sample | None:
    """Return the last sample of a leader that shows the next one in the ELR beside an ISR that is large enough (ELR-1).

    None, too, if min.insync.replicas changed, or if the next one was last seen elsewhere.
    """
    enough = evidence.settings.get("min_insync_replicas")
    changed = any(fault.kind in CHANGING_MIN_ISR for fault in evidence.faults)
    if changed or not isinstance(enough, int) or not was_eligible(history, takeover):
        return None
    shown = [
        sample
        for sample in history.leading
        if loss.first_ns <= sample.at_ns < takeover.seen_ns
        and takeover.leader in sample.elr
        and len(sample.isr) >= enough
    ]
    return shown[-1] if shown else None


def _shown(evidence: Evidence, loss: Loss, early: Cause, elected: str) -> Cause:
    """Return the cause of a loss of what had only been read: who showed it, and who was elected without it."""
    first = min(loss.rows, key=lambda row: (row["at_ns"] or 0, row["offset"] or 0))
    by = shown_early(evidence, first)
    if by.node is None:
        return replace(early, node=None)
    how = "and called them committed" if called_committed(first) else "above its high watermark"
    sentence = f"broker {by.node} showed them to readers {how}; {elected} without them"
    faults = tuple(dict.fromkeys((*early.faults, *by.faults)))
    return replace(early, sentence=sentence, node=by.node, evidence=(*by.evidence, *early.evidence), faults=faults)


def _isr_at_first(history: PartitionHistory, takeover: Takeover) -> list[str]:
    """Say with which ISR a leader began, by its own log: if it was in that one, what was stored had changed."""
    began = [
        one
        for one in history.took_over
        if one.broker == takeover.leader and takeover.not_before_ns <= one.at_ns <= takeover.seen_ns
    ]
    return [
        f"By its log broker {one.broker} began to lead at {moment(one.at_ns)} with the ISR {set_of(one.isr)}:"
        " somebody had stored that by then."
        for one in began[-1:]
        if one.broker in one.isr
    ]


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
    still = still_held(evidence, loss, ends[-1].broker) if ends and unreplicated else None
    if still is not None and not any(ends[-1].broker in fault.targets for fault in after):
        return [still]
    if unreplicated and not found:
        led = f"broker {ends[-1].broker} led last" if ends else "no sample shows who led"
        kind, deed = _early(loss)
        early = by_one_replaced(evidence, loss, ends) or Cause(
            kind, f"they were {deed} before enough replicas had them; {led}"
        )
        found.append(still or early)
    return found


def _early(loss: Loss) -> tuple[str, str]:
    """What a leader did too early with records that were not committed: the kind of cause, and the deed."""
    if not loss.was_acknowledged:
        return "dirty-read", "read"
    by = loss.acknowledged_by
    return "acknowledged-early", "acknowledged" if by is None else f"acknowledged by {nodes([by])}"
