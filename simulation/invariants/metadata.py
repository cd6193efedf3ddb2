"""Checks the metadata records that the controllers commit (P-7, P-16 … P-20, P-23, P-43)."""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.messages import ElectLeadersRequest
from broker.core.metadata.image import Image
from broker.core.metadata.records import (
    RECOVERING,
    BrokerRegistered,
    ConfigChanged,
    MetadataRecord,
    PartitionSet,
    PartitionState,
    TopicCreated,
    TopicDeleted,
)
from simulation.invariants import committed, directories, replicas, topics
from simulation.invariants.ghost import Ghost
from simulation.invariants.knowledge import BrokerMirror, Knowledge, Version
from simulation.invariants.partition_state import broken_epochs, compare_sets
from simulation.invariants.properties import Violation, reassignment_excuse, with_excuse

_WITHOUT_ELR = ("K1", "K2", "K3")
_MIN_ISR = "min.insync.replicas"
_STRATEGY = "unclean.recovery.strategy"
_UNCLEAN_ENABLE = "unclean.leader.election.enable"

UNCLEAN = 1
"""The type of an unclean election in an ElectLeaders request."""


def commit(known: Knowledge, records: Sequence[tuple[int, MetadataRecord]], end_offset: int) -> None:
    """One batch of the metadata log, an atomic change, is committed."""
    image = known.image
    touched: dict[int, Ghost] = {}
    changed_isr = False
    stopped_cleanly: set[int] = set()
    sets_any_min_isr = any(_sets_min_isr(record) for _, record in records)
    for offset, record in records:
        before = image.brokers.get(record.broker_id) if isinstance(record, BrokerRegistered) else None
        min_isrs = _configured_min_isrs(known) if _sets_min_isr(record) else {}
        image.apply(offset, record)
        match record:
            case PartitionSet():
                ghost = known.ghost(image.topic_names[record.topic_id], record.topic_id, record.partition)
                old, ghost.state = ghost.state, record.state
                touched[id(ghost)] = ghost
                changed_isr = True
                if old is not None:
                    for epoch in range(old.leader_epoch, record.state.leader_epoch):
                        ghost.superseded[epoch] = len(ghost.committed)
                    _check_transition(known, ghost, old, record.state)
                    # what is complete by another min ISR, or by an unclean election, ends with the next change
                    if not sets_any_min_isr and not is_unclean(old, record.state):
                        _check_goes_on(known, ghost, record.state)
                    _check_eligible(known, ghost, old, record.state, stopped_cleanly)
            case BrokerRegistered():
                if _registered(known, record, before.epoch if before is not None else -1):
                    stopped_cleanly.add(record.broker_id)
                changed_isr = True
            case TopicCreated():
                topics.created(known, record)
                changed_isr = True
            case TopicDeleted():
                topics.deleted(known, record)
                changed_isr = True
            case ConfigChanged():
                for key, min_isr in min_isrs.items():
                    ghost = known.partitions[key]
                    if min_isr != known.configured_min_isr(ghost):  # ELR-6: who was eligible is forgotten
                        ghost.quorum_excused = True
                        touched[id(ghost)] = ghost
            case _:
                changed_isr = True
    image.end_offset = end_offset
    _remember(known, records)
    if changed_isr:
        for ghost in known.partitions.values():
            _check_members(known, ghost)
    for ghost in touched.values():
        _check_shape(known, ghost)
        _admit_back(known, ghost)
        replicas.check_all_supersets(known, ghost)
    if changed_isr:
        for ghost in known.partitions.values():
            committed.check_candidates(known, ghost)


def _sets_min_isr(record: MetadataRecord) -> bool:
    return isinstance(record, ConfigChanged) and record.key == _MIN_ISR


def _configured_min_isrs(known: Knowledge) -> dict[tuple[str, int], int]:
    """The configured min ISR of each partition, by topic id and number."""
    return {key: known.configured_min_isr(ghost) for key, ghost in known.partitions.items()}


# --- brokers ---------------------------------------------------------------------------------------------------------


def _registered(known: Knowledge, record: BrokerRegistered, previous_epoch: int) -> bool:
    """P-7: a broker whose last registered incarnation did not end cleanly has to be admitted to every ISR again.

    Returns whether it did end cleanly, and nothing has tried to start since.
    """
    broker = known.brokers.get(record.broker_id)
    if broker is None or known.generation in _WITHOUT_ELR or previous_epoch < 0:
        return False
    if known.ended_cleanly.get(record.incarnation_id, -1) == previous_epoch:
        return record.incarnation_id not in known.failed_before
    for ghost in known.partitions.values():
        if ghost.state is not None and record.broker_id in ghost.state.replicas:
            ghost.unadmitted.add(record.broker_id)
    return False


def _check_eligible(
    known: Knowledge, ghost: Ghost, old: PartitionState, new: PartitionState, stopped_cleanly: set[int]
) -> None:
    """P-43: the registration of a broker that has stopped cleanly costs it no place in an ELR."""
    for member in stopped_cleanly & {*old.elr}:
        if member in new.replicas and member not in new.elr and member not in new.isr:
            known.fail(
                ghost,
                "P-43",
                f"broker {member} stopped cleanly, and left the ELR {list(old.elr)} when it registered again; "
                f"ISR {list(new.isr)}, ELR {list(new.elr)}, partition epoch {new.partition_epoch}",
            )


def _check_members(known: Knowledge, ghost: Ghost) -> None:
    """P-7, P-16 and P-33, of the present state of a partition."""
    state = ghost.state
    if state is None:
        return
    if state.offline:
        directories.check_recorded(known, ghost)
    for member in ghost.unadmitted:
        if member in state.isr or member in state.elr or member == state.leader:
            known.fail(
                ghost,
                "P-7",
                f"broker {member} started uncleanly and was not admitted since; leader {state.leader}, "
                f"ISR {list(state.isr)}, ELR {list(state.elr)}, partition epoch {state.partition_epoch}",
            )
    if known.generation == "K1" or (known.generation in _WITHOUT_ELR and len(state.isr) == 1):
        return
    for member in state.isr:
        if not known.image.is_active(member):
            broker = known.image.brokers.get(member)
            why = "not registered" if broker is None else "fenced" if broker.fenced else "shutting down"
            known.fail(
                ghost, "P-16", f"broker {member} is {why} and in the ISR {list(state.isr)}, leader {state.leader}"
            )


# --- one partition ---------------------------------------------------------------------------------------------------


def _check_transition(known: Knowledge, ghost: Ghost, old: PartitionState, new: PartitionState) -> None:
    broken = broken_epochs(old, new)
    if broken is not None:
        known.fail(ghost, "P-19", broken)
    _check_reassignment(known, ghost, old, new)
    if is_unclean(old, new):
        ghost.unadmitted.discard(new.leader)
        if not _has_died(known, ghost, new.leader):
            _check_recovery(known, ghost, old, new)
            committed.restart_from(known, ghost, new.leader, new.leader_epoch)
            by_setting = losses_accepted(known, ghost) and not known.elects_longest_logs
            ghost.elected = new.leader if by_setting else -1
    elif old.leader >= 0 and (new.leader == old.leader or ((old.adding or old.removing) and not new.adding)):
        ghost.unadmitted -= set(new.isr) - set(old.isr) - set(old.elr)
    if old.replicas != new.replicas:
        before = {*old.isr, *old.elr, *old.last_known_elr}
        needed = known.min_isr(ghost)  # more than before, where there are more replicas
        if len(before & set(new.replicas)) < needed and (len(before) < needed or losses_accepted(known, ghost)):
            ghost.quorum_excused = True
        ghost.unadmitted &= set(new.replicas)


def _has_died(known: Knowledge, ghost: Ghost, elected: int) -> bool:
    """Whether a recovery has elected a process that has died since it described its log, unknown to any controller.

    The description was right, and nobody leads: the next process of that broker takes part only once it is registered,
    and out of the ISR again (P-7). What is committed must still be kept.
    """
    return known.generation == "K5" and not known.runs_as_registered(elected) and not losses_accepted(known, ghost)


def is_unclean(old: PartitionState, new: PartitionState) -> bool:
    """Whether a change of a partition is an unclean election (EL-9, UR-9)."""
    elected = new.leader_epoch > old.leader_epoch and new.recovery_state == RECOVERING and new.isr == (new.leader,)
    return elected and (old.recovery_state != RECOVERING or new.leader not in old.isr + old.elr)


def election_asked(known: Knowledge, request: ElectLeadersRequest) -> None:
    """EL-8: an operator may accept losses."""
    for ghost in known.partitions.values() if request.election_type == UNCLEAN else ():
        if request.partitions is None or (ghost.topic, ghost.number) in request.partitions:
            ghost.unclean_wanted = True


def _check_recovery(known: Knowledge, ghost: Ghost, old: PartitionState, new: PartitionState) -> None:
    """P-1 where losses are not accepted: no replica is elected that lacks committed records.

    Except when no replica is eligible any more; then a balanced recovery finds what one of the last known ones holds.
    In K5 one of these is complete, as long as nothing excuses that there are too few of them (P-18). And except when
    the recovery takes back what an unclean election before it gave up, see `_overrules_election`.
    """
    if losses_accepted(known, ghost):
        return
    end = len(ghost.committed)
    if _is_complete(ghost, new.leader) or _overrules_election(known, ghost, old, new.leader):
        return
    eligible = {*old.isr, *old.elr, *(old.last_known_elr if known.generation == "K5" else ())}
    for member in sorted(eligible):
        if _is_complete(ghost, member):
            known.fail(
                ghost,
                "P-1",
                f"broker {new.leader} was elected, whose log lacks what is committed up to {end}; broker {member} has "
                f"it (ISR {list(old.isr)}, ELR {list(old.elr)}, last known ELR {list(old.last_known_elr)})",
            )
    if known.generation == "K5" and end > ghost.log_start and not ghost.quorum_excused:
        known.fail(
            ghost,
            "P-1",
            f"broker {new.leader} was elected, whose log lacks what is committed up to {end}; of the last known ELR "
            f"{list(old.last_known_elr)}, min ISR {known.min_isr(ghost)}, one member had to have it",
        )


def losses_accepted(known: Knowledge, ghost: Ghost, image: Image | None = None) -> bool:
    """Whether losses are accepted by a metadata image, that of what is committed if it is None."""
    settings, by = known.settings, known.image if image is None else image
    configured = by.setting(ghost.topic, _UNCLEAN_ENABLE)
    accepted = settings.unclean_leader_election_enable if configured is None else configured == "true"
    proactive = known.generation == "K5" and "proactive" in (
        settings.unclean_recovery_strategy,
        by.setting(ghost.topic, _STRATEGY),
    )
    return accepted or proactive or ghost.unclean_wanted or not ghost.trusted


def _overrules_election(known: Knowledge, ghost: Ghost, old: PartitionState, elected: int) -> bool:
    """Whether a recovery among all replicas elects a log that an unclean election before it has passed over.

    UR-8 goes by the leader epochs of records, and the leader of that election has committed none of its own, so that
    its log ranks below one that ends with an epoch between. UR-6 asks everybody only where fewer than min ISR replicas
    may be complete.
    """
    mirror = ghost.mirrors.get(elected)
    if known.generation != "K5" or mirror is None or not ghost.since_epoch:
        return False
    last = next((batch.epoch for batch in reversed(mirror.entries) if batch is not None), -1)
    committed = next((batch.epoch for batch in reversed(ghost.committed) if batch is not None), -1)
    few = not old.isr and not old.elr and len(old.last_known_elr) < known.min_isr(ghost)
    return few and committed < last < ghost.since_epoch


def _is_complete(ghost: Ghost, member: int) -> bool:
    mirror = ghost.mirrors.get(member)
    return mirror is not None and mirror.compare(ghost.committed) >= len(ghost.committed)


def _check_reassignment(known: Knowledge, ghost: Ghost, old: PartitionState, new: PartitionState) -> None:
    """P-23: nobody who may be complete is given up while nobody leads; the ISR at its beginning, and at an end that was
    not cancelled.
    """
    if set(new.adding) - set(old.adding):
        staying = [one for one in old.isr if one in new.replicas and one not in new.offline]
        left = [one for one in staying if one not in new.isr and known.image.is_active(one)]
        if left:
            raise Violation(
                "P-23",
                f"{ghost}: a reassignment that adds {list(new.adding)} began, and brokers {left} left the ISR "
                f"{list(old.isr)}, which is {list(new.isr)} now",
            )
    if old.replicas != new.replicas and not old.isr and not losses_accepted(known, ghost):
        before = {*old.elr, *(old.last_known_elr if known.generation == "K5" else ())}
        complete = [member for member in sorted(before) if _is_complete(ghost, member)]
        if ghost.committed and complete and not set(complete) & {*new.isr, *new.elr, *new.last_known_elr}:
            raise Violation(
                "P-23",
                f"{ghost}: the replicas changed from {list(old.replicas)} to {list(new.replicas)} while there was no "
                f"leader; brokers {complete} hold all that is committed, and none of them can be elected any more",
            )
    given_up = set(old.replicas) - set(new.replicas)
    if given_up and given_up <= set(old.adding) and not losses_accepted(known, ghost):
        eligible = {*old.isr, *old.elr}
        if len(eligible - given_up) < min(known.min_isr(ghost), len(eligible)):
            raise Violation(
                "P-23",
                f"{ghost}: the reassignment of {list(old.replicas)} was given up for {list(new.replicas)}, of which "
                f"{sorted(eligible - given_up)} are complete, min ISR {known.min_isr(ghost)}; before it were "
                f"{sorted(eligible)}",
            )
    if new.adding or new.removing or set(new.replicas) == set(old.replicas):
        return
    if old.adding and set(new.replicas) == set(old.replicas) - set(old.adding):
        return
    late = [member for member in old.adding if member in new.replicas and member not in new.isr]
    if late:
        what = (
            f"{ghost}: the reassignment from {list(old.replicas)} to {list(new.replicas)} ended with the ISR "
            f"{list(new.isr)}, and without brokers {late}, which it added"
        )
        # they may have been all that was in sync, and replaced by an unclean election in the same change
        excuse = reassignment_excuse(known.generation) if set(late) <= set(old.isr) else ""
        raise Violation("P-23", with_excuse(what, known.generation, excuse))
    needed = min(known.min_isr(ghost), len(old.isr))
    if len(new.isr) < needed:
        excuse = reassignment_excuse(known.generation)
        what = (
            f"{ghost}: the reassignment from {list(old.replicas)} to {list(new.replicas)} ended with the ISR "
            f"{list(new.isr)}, min ISR {known.min_isr(ghost)}; before it was {list(old.isr)}"
        )
        raise Violation("P-23", with_excuse(what, known.generation, excuse))


def _check_goes_on(known: Knowledge, ghost: Ghost, new: PartitionState) -> None:
    """P-78: a reassignment ends when enough of the replicas that it leaves are in sync, the added ones too (RA-3)."""
    if not new.adding and not new.removing:
        return
    target = set(new.replicas) - set(new.removing)
    remaining = target & set(new.isr)
    enough = len(new.removing) <= len(new.adding) and len(remaining) >= min(known.min_isr(ghost), len(target))
    if remaining and set(new.adding) <= remaining and (target <= remaining or enough):
        known.fail(
            ghost,
            "P-78",
            f"the reassignment that leaves {sorted(target)} goes on, though its added replicas {list(new.adding)} are "
            f"in the ISR {list(new.isr)}; removed are {list(new.removing)}, min ISR is {known.min_isr(ghost)}",
        )


def _check_shape(known: Knowledge, ghost: Ghost) -> None:
    """P-17, P-18, and that ISR, ELR and last known ELR contain replicas only (P-23)."""
    state = ghost.state
    if state is None:
        return
    sets = compare_sets(state, known.min_isr(ghost))
    summary = (
        f"replicas {list(state.replicas)}, ISR {list(state.isr)}, ELR {list(state.elr)}, last known ELR "
        f"{list(state.last_known_elr)}, min ISR {known.min_isr(ghost)}, partition epoch {state.partition_epoch}"
    )
    if sets.eligible_outside or sets.last_known_outside:
        known.fail(ghost, "P-23" if sets.eligible_outside else "P-17", summary)
    twice = sets.last_known_twice and known.generation != "K4"  # there the last leader, ELR or not (UR-4)
    if sets.eligible_twice or twice or sets.superfluous:
        known.fail(ghost, "P-17", summary)
    if sets.remembered:
        ghost.quorum_excused = False
    if sets.irrecoverable and known.generation == "K5" and not ghost.quorum_excused:
        known.fail(ghost, "P-18", summary)


def _admit_back(known: Knowledge, ghost: Ghost) -> None:
    """ST-8: a replica that lost data is complete once a new incarnation of it is in the ISR."""
    if ghost.state is None:
        return
    if len(ghost.state.isr) == 1 and ghost.state.isr[0] in ghost.lossy:
        known.sole_member_lost(ghost)
    for member, epoch in list(ghost.lossy.items()):
        if member in ghost.state.isr and known.image.broker_epoch(member) > epoch:
            del ghost.lossy[member]


# --- images ----------------------------------------------------------------------------------------------------------


def _remember(known: Knowledge, records: Sequence[tuple[int, MetadataRecord]]) -> None:
    image = known.image
    last = known.versions.get(records[0][0]) if records else None
    kinds = {type(record) for _, record in records}
    only_partitions = kinds <= {PartitionSet}
    topics = {
        topic.name: (topic.topic_id, dict[int, object](topic.partitions), dict(topic.configs))
        for topic in image.topics.values()
    }
    brokers = last.brokers if last is not None and only_partitions else dict[int, object](image.brokers)
    configs = dict(image.configs), {one: dict(own) for one, own in image.broker_configs.items()}
    known.versions[image.end_offset] = Version(brokers, topics, configs, image.next_producer_id)


def remember_again(known: Knowledge, end_offset: int) -> None:
    """After a control batch: the image is unchanged, and its end offset is higher."""
    known.versions[end_offset] = known.versions[known.image.end_offset]
    known.image.end_offset = end_offset


def check_removal(known: Knowledge, ghost: Ghost, holder: int, offset: int, key: tuple[str, int]) -> None:
    """P-27: a running broker deletes a log only if the metadata that it has reached do not assign it."""
    assigned = _assigned(known, ghost, holder, offset, key)
    if assigned is not None:
        known.fail(
            ghost,
            "P-27",
            f"broker {holder} deleted its log, and the metadata up to {offset} assign it: replicas "
            f"{list(assigned.replicas)}, partition epoch {assigned.partition_epoch}",
        )


def may_have_removed(known: Knowledge, ghost: Ghost, broker: BrokerMirror, key: tuple[str, int]) -> bool:
    """Whether metadata that the process before may have reached in a step that it did not end do not assign its log."""
    after, to = broker.unseen
    return any(
        after < end <= to and _assigned(known, ghost, broker.broker_id, end, key) is None for end in known.versions
    )


def _assigned(known: Knowledge, ghost: Ghost, holder: int, offset: int, key: tuple[str, int]) -> PartitionState | None:
    """The partition's state by the metadata up to an offset, if they assign it to the holder."""
    version = known.versions.get(offset)
    topic_id, partitions, _ = version.topics.get(ghost.topic, ("", {}, {})) if version is not None else ("", {}, {})
    assigned = partitions.get(key[1]) if topic_id == key[0] else None
    return assigned if isinstance(assigned, PartitionState) and holder in assigned.replicas else None


def check_image(known: Knowledge, holder: int, image: Image) -> None:
    """P-20: a node's image equals the one that results from the committed records up to its end."""
    if not image.end_offset:
        return
    if image.end_offset not in known.versions:
        raise Violation(
            "P-20",
            f"node {holder} has applied the metadata up to {image.end_offset}; it is committed up to "
            f"{known.image.end_offset}",
        )
    different = difference(known, image)
    if different:
        raise Violation("P-20", f"node {holder} has at metadata offset {image.end_offset} {different}")


def difference(known: Knowledge, image: Image) -> str:
    """In what an image is not the one of the committed records up to its end; "" if it is."""
    version = known.versions[image.end_offset]
    if image.brokers != version.brokers:
        return f"the brokers {image.brokers}, not {version.brokers}"
    if image.next_producer_id != version.next_producer_id:
        return f"the next producer id {image.next_producer_id}, not {version.next_producer_id}"
    if len(image.topics) != len(version.topics):
        return f"the topics {sorted(image.topics)}, not {sorted(version.topics)}"
    if (image.configs, image.broker_configs) != version.configs:
        return f"the settings {image.configs}, {image.broker_configs} of brokers, not {version.configs}"
    for name, topic in image.topics.items():
        expected = version.topics.get(name)
        if expected != (topic.topic_id, topic.partitions, topic.configs):
            return f"for topic {name} {topic}, not {expected}"
    return ""
