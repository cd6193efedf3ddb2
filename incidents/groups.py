"""Groups anomalies and findings by their cause: what belongs to one incident."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from common.wording import as_sentence, partition_name
from incidents.evidence import Evidence, Finding
from incidents.longer_logs import longer_logs, not_cut
from incidents.losses import elected_without
from incidents.lost_storage import SLACK_NS
from incidents.model import Cause
from incidents.partition_history import LogCut
from incidents.reads import STALE
from incidents.rows import Row
from incidents.takeovers import Loss, cuts_to_follow, held
from incidents.uncommitted import EARLY, by_several


@dataclass
class Group:
    """Rows and findings with one cause."""

    causes: tuple[Cause, ...]
    rows: list[Row] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    also: list[str] = field(default_factory=list)
    """What else its cause did, in sentences."""

    @property
    def early_leader(self) -> tuple[str, int] | None:
        """The leader that acknowledged too early what was lost: one mistake, whoever was elected then."""
        by = {loss.acknowledged_by for loss in self.losses}
        leader = next(iter(by)) if len(by) == 1 else None
        is_early = [cause.kind for cause in self.causes] == ["acknowledged-early"]
        return ("acknowledged-early", leader) if is_early and leader is not None else None


_ONE_MOMENT_NS = 100_000_000
"""Within which one process cuts the logs of several partitions for one reason."""

Keyed = list[tuple[Hashable, Group]]


def losses_together(evidence: Evidence, losses: Keyed) -> Keyed:
    """Give a loss the key of another, if its records were written instead of those, or went in the same election.

    As they do where the new leader lacked the ones, and still had something else at the places of the others.
    """
    own: Keyed = []
    others: Keyed = []
    for key, group in losses:
        beside = ((other, host) for other, host in losses if _are_of_one_partition(host, group))
        hosts = (
            other
            for other, host in beside
            if _came_of(evidence, host, group) or _went_with(host, group) or _was_replaced(evidence, host, group)
        )
        of_host = next(hosts, None)
        (own if of_host is None else others).append((of_host or key, group))
    return [*own, *others]


def _are_of_one_partition(group: Group, other: Group) -> bool:
    """Whether two losses are of one partition, and both violations, or both within the contract."""
    (loss,), (another,) = group.losses, other.losses
    same_place = (loss.topic, loss.partition) == (another.topic, another.partition)
    return same_place and is_allowed(group) == is_allowed(other)


def _came_of(evidence: Evidence, host: Group, group: Group) -> bool:
    """Whether records were written after a loss of storage, and its leader alone still holds them."""
    (after,) = group.losses
    return (
        [cause.kind for cause in host.causes] == ["storage-loss"]
        and _is_unexplained_divergence(group)
        and after.first_ns >= (host.causes[0].at_ns or 0)
        and set(held(evidence, after)) == {host.causes[0].node}
    )


def _went_with(host: Group, group: Group) -> bool:
    """Whether one leader acknowledged both, and the next one had other records up to where the others were to be."""
    (lacked,), (replaced,) = host.losses, group.losses
    return (
        lacked.takeover is not None
        and replaced.takeover is None
        and [cause.kind for cause in group.causes] == ["diverged-log-kept"]
        and lacked.acknowledged_by is not None
        and lacked.acknowledged_by == replaced.acknowledged_by
        and replaced.first_ns <= lacked.first_ns <= lacked.takeover.seen_ns
        and replaced.offsets[1] + 1 == lacked.takeover.log_end
    )


def _was_replaced(evidence: Evidence, host: Group, group: Group) -> bool:
    """Whether records were at the offsets of what the next leader still had of an earlier epoch: its tail came back."""
    (lacked,), (replaced,) = host.losses, group.losses
    if lacked.takeover is None or replaced.takeover is not None or replaced.last_ns > lacked.takeover.seen_ns:
        return False
    first, last = replaced.offsets
    is_in_its_log = last < (lacked.takeover.log_end or 0)
    return is_in_its_log and any(cut.log_end <= first for cut in cuts_to_follow(evidence, lacked, lacked.takeover))


def key_of(causes: Sequence[Cause], otherwise: Hashable) -> Hashable:
    """Return what incidents with one cause share: kind, node and guilty fault; without a fault they stay apart.

    While a leadership changes no node is guilty, and of faults that came together none comes first.
    """
    if [cause.kind for cause in causes] == ["leader-change"] and causes[0].faults:
        return ("leader-change", frozenset(causes[0].faults), causes[0].allowed_by)
    if causes and causes[0].faults and causes[0].kind not in ("wrong-cut", "acknowledged-early", "joined-too-early"):
        return tuple((cause.kind, cause.node, cause.faults[:1]) for cause in causes)
    if [cause.kind for cause in causes] == ["diverged-log-kept"]:
        return ("diverged-log-kept", causes[0].sentence)  # which names no partition
    return otherwise


def merged(evidence: Evidence, keyed: Iterable[tuple[Hashable, Group]]) -> list[Group]:
    """Make one group of those with the same key: of their causes the one that says most, or else the first."""
    by_key: dict[Hashable, Group] = {}
    for key, group in keyed:
        one = by_key.setdefault(key, Group(group.causes))
        if any(cause.sentence.endswith(" again") for cause in one.causes):
            one.causes = group.causes  # "again" is said only if it holds in every partition
        if not any(loss.takeover for loss in one.losses) and any(loss.takeover for loss in group.losses):
            one.causes = group.causes  # which says who was elected without the records
        if one.causes and group.causes:
            first, other = one.causes[0], group.causes[0]
            if first.kind == other.kind and first.node is None and other.node is not None:
                one.causes = group.causes
        if one.rows and one.causes != group.causes and _is_one_mistake(one, group):
            one.causes = (_with_faults_of(one.causes[0], group.causes[0]),)
        one.rows += group.rows
        one.findings += group.findings
        one.losses += group.losses
    return [_with_all_leaders(evidence, group) for group in by_key.values()]


def _with_all_leaders(evidence: Evidence, group: Group) -> Group:
    """Name all who were elected without what one leader had acknowledged, where partitions got different leaders."""
    leaders = {loss.takeover.leader for loss in group.losses if loss.takeover is not None}
    if group.early_leader is not None and len(leaders) > 1:
        group.causes = (replace(group.causes[0], sentence=elected_without(evidence, group.losses)),)
    return group


def _is_one_mistake(group: Group, other: Group) -> bool:
    """Whether one leader showed too much in both; which faults had hit its followers may differ."""
    return all([cause.kind for cause in one.causes] == ["dirty-read"] for one in (group, other))


def _with_faults_of(cause: Cause, other: Cause) -> Cause:
    """Return a cause with what speaks for further faults."""
    further = [number for number in other.faults if number not in cause.faults]
    if not further:
        return cause
    return replace(cause, evidence=(*cause.evidence, *other.evidence), faults=(*cause.faults, *further))


def leaders_united(groups: Sequence[Group]) -> list[Group]:
    """Make one group of what leaders acknowledged, or showed, before it was committed: one mistake, whoever leads.

    Of acknowledgements only those that answers contradict: what was lost was lost in an election of its own.
    """
    found = list(groups)
    for kind in sorted(EARLY):
        alike = [group for group in found if [cause.kind for cause in group.causes] == [kind] and _is_united(group)]
        for other in alike[1:]:
            alike[0].rows += other.rows
            alike[0].losses += other.losses
        if len(alike) > 1:
            cause = by_several([group.causes[0] for group in alike])
            of_losses = [group.causes[0] for group in alike if group.losses]  # which name the election, and its faults
            alike[0].causes = (_with_elections(cause, of_losses) if of_losses else cause,)
        found = [group for group in found if group not in alike[1:]]
    return found


def _with_elections(cause: Cause, of_losses: Sequence[Cause]) -> Cause:
    """Return what leaders did too early with the elections by which it was lost: of one leader with the first one."""
    faults = tuple(dict.fromkeys(number for one in of_losses for number in one.faults))
    if len({one.node for one in of_losses}) == 1:
        return replace(cause, sentence=of_losses[0].sentence, faults=faults)
    told = (*(as_sentence(one.sentence) for one in of_losses), *cause.evidence)
    sentence = f"{cause.sentence}, and leaders without these were elected"
    return replace(cause, sentence=sentence, evidence=told, faults=faults)


def _is_united(group: Group) -> bool:
    only_answers = not group.losses and all(row["anomaly"] in STALE for row in group.rows)
    is_read = group.causes[0].kind == "dirty-read"
    return not group.findings and not is_allowed(group) and (is_read or only_answers)


def cuts_united(evidence: Evidence, groups: Sequence[Group]) -> list[Group]:
    """Make one group of a loss by a cut and of what the same broker cut off other logs at that moment.

    Nobody need have lost that: some replica has kept it, and differs from the others.
    """
    found = _joined((), groups, _is_same_cut)
    for host in list(found):
        if not _is_loss_by_a_cut(host):
            continue
        apart = [one for one in found if _is_unexplained_divergence(one) and is_allowed(one) == is_allowed(host)]
        for group in apart:
            cuts = [_cut_then(evidence, host.causes[0], row) for row in group.rows]
            if None not in cuts:
                host.rows += group.rows
                host.also += [cut for cut in dict.fromkeys(cuts) if cut]
                found.remove(group)
    return found


def _joined(found: Sequence[Group], groups: Iterable[Group], are_one: Callable[[Group, Group], bool]) -> list[Group]:
    """Add groups to those found so far, or to the first of them with which each is one; that one's causes stay."""
    united = list(found)
    for group in groups:
        host = next((one for one in united if are_one(one, group)), None)
        if host is None:
            united.append(group)
        else:
            host.rows += group.rows
            host.losses += group.losses
    return united


def _is_loss_by_a_cut(group: Group) -> bool:
    return [cause.kind for cause in group.causes] == ["wrong-cut"] and bool(group.losses)


def _is_same_cut(group: Group, other: Group) -> bool:
    """Whether one broker cut the logs of several partitions at one moment, as when it began to follow other leaders."""
    if not (_is_loss_by_a_cut(group) and _is_loss_by_a_cut(other)) or is_allowed(group) != is_allowed(other):
        return False
    (cause,), (another,) = group.causes, other.causes
    if cause.node is None or cause.at_ns is None or another.at_ns is None:
        return False
    is_one = abs(cause.at_ns - another.at_ns) <= _ONE_MOMENT_NS
    return is_one and (cause.node, cause.faults) == (another.node, another.faults)


def divergences_told(evidence: Evidence, groups: Sequence[Group]) -> list[Group]:
    """Say of a divergence that no loss explains who cut off what another replica kept, and under which faults."""
    for group in filter(_is_unexplained_divergence, groups):
        cause = group.causes[0]
        cuts = dict.fromkeys(
            (row["topic"], row["partition"], cut) for row in group.rows for cut in _cuts_of(evidence, row)
        )
        meanwhile = [
            fault for fault in evidence.faults if any(fault.touches(cut.before_ns, cut.at_ns) for _, _, cut in cuts)
        ]
        places = sorted(partitions_of(group.rows))
        longer = [one for place in places for one in longer_logs(evidence.history_of(*place))]
        told = (
            *(one.sentence for one in longer),
            *(_shortened(topic, partition, cut, kept="and another replica kept") for topic, partition, cut in cuts),
            *(as_sentence(f"meanwhile {fault.story}") for fault in meanwhile),
        )
        faults = tuple(dict.fromkeys((*cause.faults, *(fault.number for fault in meanwhile if fault.number))))
        known = tuple(dict.fromkeys((*cause.evidence, *told)))
        sentence = cause.sentence if cause.node is not None else not_cut(longer) or cause.sentence
        group.causes = (replace(cause, sentence=sentence, evidence=known, faults=faults),)
    return list(groups)


def _cuts_of(evidence: Evidence, row: Row) -> list[LogCut]:
    """The cuts that took an offset off a log, in order: somebody else kept what differs there."""
    cuts = evidence.history_of(row["topic"], row["partition"]).cuts if row["offset"] is not None else ()
    return [cut for cut in cuts if cut.log_end <= row["offset"] < cut.log_end_before]


def _is_unexplained_divergence(group: Group) -> bool:
    return [(cause.kind, cause.faults) for cause in group.causes] == [("diverged-log-kept", ())]


def _cut_then(evidence: Evidence, cause: Cause, row: Row) -> str | None:
    """Say how the broker to blame for a cut shortened another log at that moment; None if not by this record."""
    at_ns = cause.at_ns
    if at_ns is None:
        return None
    for cut in _cuts_of(evidence, row):
        if cut.broker == cause.node and cut.before_ns - SLACK_NS <= at_ns <= cut.at_ns + SLACK_NS:
            return _shortened(row["topic"], row["partition"], cut, kept="too, and another replica kept")
    return None


def _shortened(topic: str, partition: int, cut: LogCut, *, kept: str) -> str:
    return (
        f"Broker {cut.broker} cut its log of {partition_name(topic, partition)} {cut.ends}"
        f" {cut.when}, {kept} what it cut off."
    )


def sides_united(groups: Sequence[Group]) -> list[Group]:
    """Make one incident of violations and of what is within the contract, if their causes say the same there."""
    violations = [group for group in groups if not is_allowed(group)]
    return _joined(violations, filter(is_allowed, groups), _are_alike)


def _are_alike(group: Group, other: Group) -> bool:
    said, also_said = ([(cause.kind, cause.sentence) for cause in one.causes] for one in (group, other))
    stale, also_stale = (any(row["anomaly"] in STALE for row in one.rows) for one in (group, other))
    where, also_where = (partitions_of(one.rows) for one in (group, other))
    by_one_fault = len(group.causes) == 1 and bool(group.causes[0].faults) and is_allowed(group) and is_allowed(other)
    return bool(said) and said == also_said and stale == also_stale and (by_one_fault or bool(where & also_where))


def partitions_of(rows: Iterable[Row]) -> set[tuple[str, int]]:
    """Topic and partition of each row."""
    return {(row["topic"], row["partition"]) for row in rows}


def is_allowed(group: Group) -> bool:
    """Whether all of a group is within the contract."""
    return not group.findings and all(row["within_contract"] for row in group.rows)


def with_same_fault(losses: Iterable[Group], causes: Sequence[Cause]) -> Group | None:
    """Return the loss by the fault that took what a group had committed, which is in a log as well."""
    fault = causes[0].faults[:1] if causes else ()
    return next((loss for loss in losses if fault and loss.causes and loss.causes[0].faults[:1] == fault), None)
