"""Finds how a replica without its storage came to lead: the fault that took the records, and who was kept away."""

from __future__ import annotations

from collections.abc import Sequence

from common.wording import capital, count, moment, partition_name, set_of
from history.contract import shutdowns_survived
from incidents.deeds import DELAYING, ENDING_A_PROCESS
from incidents.evidence import Evidence
from incidents.faults import Fault
from incidents.left_isr import Left, left_before_election, what_put_them_out
from incidents.model import Cause
from incidents.partition_history import LogCut, PartitionHistory, Sample
from incidents.takeovers import Loss, Takeover, cuts_to_follow

SLACK_NS = 2_000_000_000
"""A fault that ended this long before a write was acknowledged may still explain why it was lost: samples are late."""

_ELR_FEATURE = "eligible.leader.replicas.version"

KNOWN_GAP = "a known gap of the protocol"
"""What a cause says, in `allowed_by`, of a loss that the protocol does not prevent."""

SWITCHED_OFF = f"The cluster runs without eligible leader replicas ({_ELR_FEATURE}=0)"
"""What is said of a loss that ELR prevents, in a cluster that has recorded that they are not in force."""

UNLESS_ELR = (
    f"Without eligible leader replicas (ELR, KIP-966) this is {KNOWN_GAP}, which switching them on closes; with them it"
    " is a bug of the implementation. Which of the two, this run has not recorded: no sample of it shows an ELR, and"
    " whether these brokers tell of one is not known."
)
"""What is said of a loss that only ELR prevents, where nothing shows whether it is in force."""

_WITH_ELR = ("K4", "K5")
"""Versions of Harrow's own broker that have eligible leader replicas, whatever samples show."""


def storage_loss(
    evidence: Evidence, loss: Loss, takeover: Takeover, lossy: Sequence[Fault], seen: Sequence[str]
) -> Cause:
    """Return the cause of a loss whose new leader had been hit by faults that take records.

    `lossy`: those after the first record was acknowledged. `seen`: what the samples show of its taking over.
    """
    history, leader = evidence.history_of(loss.topic, loss.partition), takeover.leader
    own = [one for one in history.samples if one.broker == leader and one.at_ns <= takeover.seen_ns]
    fault = _that_took(lossy, [one for one in own if one.at_ns >= loss.first_ns - SLACK_NS], loss.offsets[0])
    before = [sample for sample in history.leading if sample.at_ns < fault.started_ns]
    isr = before[-1].isr if before else ()
    meanwhile = [sample for sample in before if sample.at_ns >= loss.first_ns]
    alone = bool(meanwhile) and all(sample.broker == leader and sample.isr == (leader,) for sample in meanwhile)
    led = any(sample.broker == leader for sample in before)
    until = f"before fault #{fault.number}" if fault.number else "before that"
    name = partition_name(history.topic, history.partition)
    last = f"The ISR of {name} last seen {until} was {set_of(isr)}, at {moment(before[-1].at_ns)}" if isr else ""
    condition = evidence.waited_for(fault)
    if condition:
        small = f"fault #{fault.number} waited until {condition}, by the cluster's metadata"
        last = f"{last}; {small}" if last else capital(small)
    left = left_before_election(history, loss.first_ns, takeover)
    away = _kept_away(evidence, loss, takeover, fault, before, left)
    put_out = what_put_them_out(
        evidence, name, left, fault, {broker for excuse, _ in away for broker in excuse.targets}
    )
    acknowledged = "acknowledged them alone, " if alone else ""
    numbers = (fault.number, *(one.number for one, _ in away), *(one.number for one in put_out.faults))
    then = f"was elected {'again' if led else 'leader'}"
    if takeover.leads_on:
        then = "led on, without an election"
    return Cause(
        "storage-loss",
        f"broker {leader} {acknowledged}{fault.deed} and {then}",
        (
            *seen,
            *([f"{last}."] if last else []),
            *put_out.sentences,
            *(sentence for _, sentence in away),
            *cuts_after(evidence, history, loss, takeover),
        ),
        fault.started_ns,
        leader,
        tuple(dict.fromkeys(number for number in numbers if number)),
        _why_it_could_lead(evidence, loss, history, takeover, isr),
    )


def cuts_after(evidence: Evidence, history: PartitionHistory, loss: Loss, takeover: Takeover) -> list[str]:
    """Say which other replicas then cut the records off their logs, to follow that leader or the next."""
    return [
        f"Broker {cut.broker} cut its log of {partition_name(history.topic, history.partition)} {cut.ends} {cut.when},"
        f" to follow {_followed_at(history, cut, takeover)}."
        for cut in cuts_to_follow(evidence, loss, takeover)
    ]


def _followed_at(history: PartitionHistory, cut: LogCut, takeover: Takeover) -> str:
    """Name the leader that the broker which cut its log followed then: who led last before it, by logs and samples."""
    led = [(one.at_ns, one.broker, one.leader_epoch) for one in history.took_over]
    led += [(one.at_ns, one.broker, one.leader_epoch) for one in history.leading]
    before = [one for one in led if one[0] <= cut.at_ns and one[1] != cut.broker]
    _, leader, epoch = max(before, key=lambda one: one[0], default=(0, takeover.leader, takeover.epoch))
    return f"broker {leader}" if epoch is None or epoch < 0 else f"broker {leader} in leader epoch {epoch}"


def _that_took(lossy: Sequence[Fault], samples: Sequence[Sample], offset: int) -> Fault:
    """Of faults that take records the last one before a sample that shows that the record at an offset is gone."""
    had_ns = max((sample.at_ns for sample in samples if (sample.log_end or 0) > offset), default=0)
    lacking = [sample.at_ns for sample in samples if sample.at_ns > had_ns and (sample.log_end or 0) <= offset]
    before = [fault for fault in lossy if lacking and had_ns - SLACK_NS <= fault.started_ns <= lacking[0]]
    return before[-1] if had_ns and before else lossy[-1]


def _kept_away(
    evidence: Evidence, loss: Loss, takeover: Takeover, fault: Fault, before: Sequence[Sample], gone: Left
) -> list[tuple[Fault, str]]:
    """The faults that kept the other replicas from being elected, each with a sentence that says so.

    `before`: the samples of leaders from before the fault that took the records. `gone`: who had left the ISR by when,
    so that a later fault on it kept it from nothing.
    """
    history = evidence.history_of(loss.topic, loss.partition)
    isr = before[-1].isr if before else ()
    since = before[max(sum(sample.at_ns <= loss.first_ns for sample in before) - 1, 0) :]
    members = [other for other in isr if other != takeover.leader]
    left = {member for sample in since for member in sample.isr} - {takeover.leader, *isr}
    later = [one for one in history.samples if fault.started_ns <= one.at_ns < takeover.seen_ns]
    electable = {*members, *left, *(member for one in later for member in one.isr)} - {takeover.leader}
    elected_after_ns = max(fault.started_ns, takeover.not_before_ns)
    last = history.newest(takeover.seen_ns)
    still = {*last.isr, *last.elr} if last is not None else set()
    found: dict[int, list[tuple[Fault, str]]] = {}
    for other in [*members, *sorted(left)]:
        outside = ", and was out of the ISR, so that it"
        if other in isr:
            outside = " and" if other in still else ", and was out of the ISR by the election, so that it"
        then = evidence.faults_on(other, fault.started_ns, fault.started_ns)
        for excuse in (one for one in then if one.kind not in DELAYING):
            if excuse != fault and (excuse.ended_ns is None or excuse.ended_ns >= elected_after_ns):
                sentence = f"Broker {other} {excuse.deed}{outside} could not be elected."
                found.setdefault(other, []).append((excuse, sentence))
    for other in sorted(electable - found.keys()):
        for excuse in evidence.faults_on(other, elected_after_ns, takeover.seen_ns):
            is_late = excuse.started_ns > gone.by_ns.get(other, takeover.seen_ns)
            if excuse != fault and excuse.kind in ENDING_A_PROCESS and not is_late:
                found.setdefault(other, []).append((excuse, f"Broker {other} {excuse.deed}, before that election."))
    return [one for of_broker in found.values() for one in of_broker]


def _why_it_could_lead(
    evidence: Evidence, loss: Loss, history: PartitionHistory, takeover: Takeover, isr: tuple[int, ...]
) -> str:
    settings = evidence.settings
    min_isr = settings.get("min_insync_replicas")
    if settings.get("volatile"):
        return f"{settings.get('system')} keeps its records in memory alone."
    if all(row.get("within_contract") for row in loss.rows) and min_isr is not None:
        survived = shutdowns_survived(min_isr)
        return (
            f"With min.insync.replicas={min_isr} a record survives the loss of data on {count(survived)}"
            " of its replicas at once, not on more."
        )
    if settings.get("unclean_election"):
        return "unclean.leader.election.enable=true lets any replica lead."
    if takeover.leads_on:
        return "A broker that comes back from an unclean stop has to leave the ISR, and may not lead on."
    as_eligible = was_eligible(history, takeover)
    if takeover.leader in isr or not isr or as_eligible:
        elected_from = "the ELR" if as_eligible else "the ISR"
        lost = "its log" if takeover.log_end == 0 else "a part of its log"
        elected = f"A replica that had come back from an unclean stop without {lost} was elected from {elected_from}"
        if any(sample.elr for sample in history.samples):
            return f"{elected}, although eligible leader replicas (KIP-966), which samples show, forbid that."
        version = settings.get("generation") if settings.get("system") == "harrow" else None
        if version in _WITH_ELR:
            with_it = f"Version {version} has eligible leader replicas (KIP-966), which forbid that"
            return f"{elected}. {with_it}: it is a bug of the software."
        if version is not None:
            return f"{elected}. Version {version} has no ELR, which would forbid that: it is {KNOWN_GAP} (KIP-966)."
        level = evidence.feature(_ELR_FEATURE)
        if level == 0:
            without = f"{SWITCHED_OFF}, which would forbid that"
            return f"{elected}. {without}: it is {KNOWN_GAP} (KIP-966)."
        if level is not None:
            with_them = f"although the cluster runs with eligible leader replicas ({_ELR_FEATURE}={level})"
            return f"{elected}, {with_them}, which forbid that: it is a bug of the software (KIP-966)."
        return f"{elected}. {UNLESS_ELR}"
    return ""


def was_eligible(history: PartitionHistory, takeover: Takeover) -> bool:
    """Whether the last sample before an election that has the new leader in ISR or ELR has it in the ELR."""
    earlier = [one for one in history.samples if one.at_ns < takeover.seen_ns and one.leader != takeover.leader]
    member_of = [one for one in earlier if takeover.leader in (*one.isr, *one.elr)]
    last = max(member_of, key=lambda one: (one.leader_epoch, one.at_ns), default=None)
    return last is not None and takeover.leader in last.elr and takeover.leader not in last.isr
