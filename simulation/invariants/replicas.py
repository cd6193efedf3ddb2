"""Checks changes of a replica's log: appends, cuts, recovery after a start (P-3, P-6, P-8, P-21)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.core.broker_node.groups.records import OFFSETS_TOPIC
from broker.core.log.log import Log
from broker.core.messages import AlterPartitionRequest
from broker.core.metadata.image import Image
from broker.core.replica import leader
from broker.core.replica.state import Replica, Role
from broker.core.rules import Rules
from simulation.invariants.ghost import (
    Batch,
    Entries,
    Ghost,
    Lineage,
    Mirror,
    ReplicaMirror,
    and_more,
    batches_in,
    batches_of,
    describe,
)
from simulation.invariants.knowledge import Knowledge


def read_on(mirror: Mirror, log: Log, ghost: Ghost) -> tuple[list[Batch], str]:
    """Read the batches that were appended; returns them, and what is wrong by P-3, "" if nothing is."""
    skip_deleted(mirror, log)
    batches = batches_of(log, len(mirror.entries), ghost.unfold)
    wrong = extend(mirror.entries, batches, ghost.lineage, log.start_offset)
    return batches, wrong if _can_compare(ghost) else ""


def _can_compare(ghost: Ghost) -> bool:
    """Whether a log can be compared with what was; else it is not known what was committed before a compaction."""
    return ghost.contents is None or ghost.trusted


def compacted(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, log: Log) -> None:
    """P-3: compaction removes only what a later committed record of the same key has replaced.

    A leader that has not heard of the unclean election of another goes on to commit, and compacts with its followers
    for the sake of records that they will cut off: these count as given up like those that were committed before.
    """
    mirror.compacted = log.compacted_offset
    if ghost.since_epoch:
        same = mirror.compare(ghost.committed)
        old = [one for one in mirror.entries[same : mirror.high_watermark] if one and one.epoch < ghost.since_epoch]
        ghost.given_up += [(same, one) for one in dict.fromkeys(old) if (same, one) not in ghost.given_up]
    end = first_difference(mirror, log, ghost.unfold)
    if end < len(mirror.entries) and ghost.protects(mirror):
        known.fail(
            ghost,
            "P-3",
            f"broker {mirror.holder} has compacted {describe(mirror.entries, end)} at {end} to something else",
        )


def skip_deleted(mirror: Mirror, log: Log) -> None:
    """Forget the offsets before the start of a log, which are deleted, unless they are known to be committed.

    A follower may append what follows records that its leader no longer has, and delete its own, different ones, in the
    same step (LO-3).
    """
    mirror.entries += [None] * (log.start_offset - len(mirror.entries))
    uncertain = range(mirror.same, log.start_offset)
    mirror.entries[uncertain.start : uncertain.stop] = [None] * len(uncertain)


def extend(entries: Entries, batches: Sequence[Batch], lineage: Lineage, start: int = 0) -> str:
    """Add batches to a mirror; returns what is wrong by P-3: same epoch and offset, so same batch and same past.

    `start`: where the log begins. What was before that is deleted, and nobody cuts it off where it differs.
    """
    wrong = ""
    for batch in batches:
        if batch.base > len(entries):
            entries += [None] * (batch.base - len(entries))
        before = entries[batch.base - 1] if batch.base > start else None
        first, first_before = lineage.known(batch, before)
        if first != batch:
            wrong = wrong or f"{batch}, and another replica {first}"
        elif first_before is not before and before is not None and first_before is not None and before != first_before:
            wrong = wrong or f"{batch} after {before}, and another replica after {first_before}"
        kept = first if first == batch else batch
        entries += [kept] * (batch.last + 1 - len(entries))
    return wrong


def cut(mirror: Mirror, end: int) -> None:
    """Move what was cut off from the entries to `dropped`."""
    for batch in mirror.entries[end:]:
        if batch is not None and (not mirror.dropped or mirror.dropped[-1] is not batch):
            mirror.dropped.append(batch)
    del mirror.entries[end:]
    mirror.same = min(mirror.same, end)
    mirror.durable = min(mirror.durable, end)


def _cut(ghost: Ghost, mirror: ReplicaMirror, log: Log, end: int) -> None:
    """Forget what was cut off a log; of its producers only what it lacks, where more of it cannot be compared."""
    cut(mirror, end)
    mirror.producers.cut(end if _can_compare(ghost) else log.end_offset)


def reset_if_start_moved(mirror: Mirror, log: Log) -> None:
    """TR-4, TR-8, QU-21: a log that was cut and starts elsewhere than before begins anew, without any entry.

    Below an earlier start it lacks what an operator had deleted, whatever another log has there.
    """
    if log.start_offset != mirror.start:
        cut(mirror, 0)
        mirror.entries += [None] * log.start_offset


def first_difference(mirror: Mirror, log: Log, unfold: Callable[[bytes], Sequence[Batch]] = batches_in) -> int:
    """From which offset on the mirror and the log differ; the end of the shorter if they do not.

    Deleted offsets equal any batch: a log start that was not checkpointed goes back, and shows the batches again.
    """
    found = _entries_of(log, unfold)
    offset = min(log.start_offset, len(mirror.entries))
    end = min(len(found), len(mirror.entries))
    if found[offset:end] == mirror.entries[offset:end]:
        return max(offset, end)
    while offset < end and (mirror.entries[offset] is None or found[offset] == mirror.entries[offset]):
        offset += 1
    return offset


def _entries_of(log: Log, unfold: Callable[[bytes], Sequence[Batch]]) -> Entries:
    found: Entries = [None] * min(log.start_offset, log.end_offset)
    for batch in batches_of(log, log.start_offset, unfold):
        found += [batch] * (batch.last + 1 - len(found))
    return found


def _shown_again(mirror: Mirror, log: Log, unfold: Callable[[bytes], Sequence[Batch]]) -> None:
    """Take into the mirror again what was deleted, where a new process finds an earlier log start."""
    if None in mirror.entries[log.start_offset :]:
        found = _entries_of(log, unfold)
        for offset in range(log.start_offset, min(len(found), len(mirror.entries))):
            mirror.entries[offset] = mirror.entries[offset] or found[offset]


def log_changed(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica) -> None:
    """Check a log that has grown, was cut, or begins later."""
    log = replica.log
    if log.truncations != mirror.truncations:
        mirror.truncations = log.truncations
        truncated(known, ghost, mirror, replica, first_difference(mirror, log, ghost.unfold))
    mirror.start = log.start_offset
    if log.end_offset > len(mirror.entries):
        batches, wrong = read_on(mirror, log, ghost)
        if wrong:
            known.fail(ghost, "P-3", f"broker {mirror.holder} has {wrong}")
        if not batches:
            known.fail(ghost, "P-3", f"broker {mirror.holder} has no batch at {len(mirror.entries)}, only other bytes")
        if replica.role is Role.LEADER:
            _check_author(known, ghost, mirror, replica, batches)
            _check_enough(known, ghost, mirror, replica)
            _note_taken_anew(known, ghost, mirror, log, batches)
        if not log.start_offset and log.last_epoch != batches[-1].epoch:
            _check_epochs(known, ghost, mirror, replica)


def truncated(
    known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica, end: int, *, fails: bool = False
) -> None:
    """P-6: what was cut off was not committed, and not below the replica's own high watermark.

    In a process that `fails` during an append the epochs may be ahead of the log; they are lost with the process.
    """
    was = len(mirror.entries)
    start = replica.log.start_offset
    same, high_watermark = mirror.same, mirror.high_watermark
    lost = max(end, ghost.log_start, mirror.start)
    if ghost.protects(mirror) or (ghost.trusted and not ghost.since_epoch):
        owed = min(same, ghost.owed_to(mirror.holder, replica.leader_epoch))
        if lost < owed:
            known.fail(
                ghost,
                "P-6",
                f"broker {mirror.holder} cut its log from {was} to {end}, and what was at {lost} is committed: "
                f"{describe(ghost.committed, lost)}{and_more('it cut off', lost, owed)}",
            )
        held = max(start, mirror.start) < high_watermark  # TR-4: what it had deleted below is no loss of a cut
        if end < high_watermark and held and mirror.high_watermark_epoch >= ghost.since_epoch:
            known.fail(
                ghost,
                "P-6",
                f"broker {mirror.holder} cut its log from {was} to {end}, below its high watermark {high_watermark}",
            )
    _cut(ghost, mirror, replica.log, end)
    if ghost.contents is not None:
        _filler_cut(mirror, replica.log, end)
    reset_if_start_moved(mirror, replica.log)
    if not fails and replica.log.end_offset <= len(
        mirror.entries
    ):  # else it was cut and has grown in one step, and the epochs include the new batches
        check_epochs(known, ghost, mirror, replica)


def last_cut(known: Knowledge, ghost: Ghost | None, mirror: ReplicaMirror) -> None:
    """Check a replica whose process or log directory fails in a step, which may have cut its log before.

    The records that it cut off are not lost data. It may also have deleted all that its leader had deleted, and begun
    anew where the leader's first batch begins, a little below that (LO-3): this cuts nothing off.
    """
    replica = mirror.replica
    if replica is None or ghost is None or replica.log.truncations == mirror.truncations:
        return
    log = replica.log
    mirror.truncations = log.truncations
    if log.start_offset < log.end_offset or len(mirror.entries) > ghost.log_start:
        truncated(known, ghost, mirror, replica, min(log.end_offset, len(mirror.entries)), fails=True)


def _filler_cut(mirror: ReplicaMirror, log: Log, end: int) -> None:
    """What fills the place of compacted records is written anew by a cut within it, and not synced then (TR-3)."""
    header = log.batch_at(end - 1)
    if header is not None and header.is_filler and header.last_offset == end - 1:
        mirror.durable = min(mirror.durable, max(header.base_offset, log.flushed_offset))


def opened(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica) -> None:
    """Check the log of a new process, or a new log that replaces a deleted one: what it still has (P-6, ST-6)."""
    log = replica.log
    mirror.replica, mirror.log = replica, log
    mirror.offline = False
    mirror.pauses = None
    mirror.truncations = log.truncations
    mirror.seen = ()
    mirror.compacted = log.compacted_offset
    mirror.role, mirror.leader_epoch, mirror.partition_epoch = Role.NONE, -1, -1
    was = len(mirror.entries)
    end = was
    if mirror.power_lost or log.end_offset != was:
        end = first_difference(mirror, log, ghost.unfold)
    mirror.start = log.start_offset
    if end < was:
        _lost(known, ghost, mirror, log, end)
    if mirror.suspected and log.end_offset >= was and end == was:
        ghost.lossy.pop(mirror.holder, None)
    mirror.power_lost = mirror.suspected = False
    mirror.starts_with(replica.high_watermark)
    _shown_again(mirror, log, ghost.unfold)
    if log.end_offset > len(mirror.entries):
        batches, wrong = read_on(mirror, log, ghost)
        if wrong:
            known.fail(ghost, "P-3", f"broker {mirror.holder} finds {wrong} on its disk")
        # the process before may have ended while it appended as the leader, maybe the first batch of its epoch
        own = [one for one in batches if ghost.authors.setdefault(one.epoch, mirror.holder) == mirror.holder]
        _note_taken_anew(known, ghost, mirror, log, own)
    skip_deleted(mirror, log)  # the step in which the process before ended may have deleted more
    check_epochs(known, ghost, mirror, replica)


def vanished(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror) -> None:
    """Check a new process that does not find its log at all."""
    ghost.vanished[mirror.holder] = mirror
    if ghost.trusted and not mirror.power_lost and mirror.same > ghost.log_start:
        known.fail(ghost, "P-6", f"broker {mirror.holder} lost no power, and its log up to {mirror.same} is not there")
    if ghost.state is not None and ghost.state.isr == (mirror.holder,):
        known.sole_member_lost(ghost)


def _lost(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, log: Log, end: int) -> None:
    lost = max(end, ghost.log_start, mirror.start)
    if ghost.trusted and not mirror.power_lost and lost < mirror.same:
        known.fail(
            ghost,
            "P-6",
            f"broker {mirror.holder} opened its log with the end {log.end_offset} and lost no power; "
            f"what was at {lost} is committed: {describe(ghost.committed, lost)}"
            f"{and_more('it lacks', lost, mirror.same)}",
        )
    if ghost.trusted and lost < min(mirror.durable, len(mirror.entries)) and mirror.entries[lost] is not None:
        known.fail(
            ghost,
            "P-6",
            f"broker {mirror.holder} had synced up to {mirror.durable} and opened its log with the end {end}",
        )
    if ghost.state is not None and ghost.state.isr == (mirror.holder,):
        known.sole_member_lost(ghost)
    _cut(ghost, mirror, log, end)


def _check_author(
    known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica, batches: list[Batch]
) -> None:
    """P-8: only the leader of an epoch appends in it, and it appends in no other epoch."""
    for batch in batches:
        author = ghost.authors.setdefault(batch.epoch, mirror.holder)
        if author != mirror.holder or batch.epoch != replica.leader_epoch:
            known.fail(
                ghost,
                "P-8",
                f"broker {mirror.holder}, leader of epoch {replica.leader_epoch}, appended {batch}; "
                f"broker {author} leads that epoch",
            )


def _check_enough(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica) -> None:
    """P-15: a leader that appends for a group has as many in-sync replicas as acks=all needs (PR-2)."""
    if replica.topic == OFFSETS_TOPIC and len(replica.isr) < replica.effective_min_isr:
        known.fail(
            ghost,
            "P-15",
            f"broker {mirror.holder}, leader of epoch {replica.leader_epoch}, appended up to {replica.log.end_offset} "
            f"with the ISR {list(replica.isr)}; min ISR is {replica.effective_min_isr}",
        )


def _note_taken_anew(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, log: Log, batches: list[Batch]) -> None:
    """Remember which of the batches that a leader has just appended are of producers that it did not know.

    It had forgotten them (P-D2), or it has got their batches when compaction had already emptied these.
    """
    if not known.producers_expire and ghost.contents is None:
        return
    for place, batch in enumerate(batches):
        if batch.producer_id < 0 or any(one.producer_id == batch.producer_id for one in batches[:place]):
            continue
        forgotten = mirror.producers.taken_anew(batch.producer_id)
        since = mirror.start if forgotten is None else max(mirror.start, forgotten + 1)
        if ghost.contents is not None and not _has_any_of(log, since, batch):
            forgotten = batch.base - 1
        if forgotten is not None:
            ghost.taken_anew[batch.epoch, batch.base] = forgotten


def _has_any_of(log: Log, since: int, batch: Batch) -> bool:
    """Whether a log, as it is on the disk, has an earlier batch of the same producer from an offset on."""
    earlier = (one for one in batches_of(log, since) if since <= one.base < batch.base)
    return any(one.producer_id == batch.producer_id for one in earlier)


def check_epochs(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica) -> None:
    """P-21: the epoch cache equals the epochs of the log.

    Except for the leader's own epoch that has no record yet, and the one that an empty log remembers (UR-12).
    """
    entries = mirror.entries
    offset = mirror.start
    expected: list[tuple[int, int]] = []
    while offset < len(entries):
        batch = entries[offset]
        if batch is None:
            return
        if not expected or expected[-1][0] != batch.epoch:
            expected.append((batch.epoch, offset))
        offset = batch.last + 1
    found = [(epoch, max(start, mirror.start)) for epoch, start in replica.log.epochs.entries]
    end = max(mirror.start, len(entries))
    if found != expected and (found[:-1] != expected or found[-1][1] != end):
        known.fail(
            ghost,
            "P-21",
            f"broker {mirror.holder} caches the epochs {found}, and its log from {mirror.start} to {len(entries)} has "
            f"{expected}",
        )


_check_epochs = check_epochs


def check_leader_isr(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica, rules: Rules) -> None:
    """P-22: the maximal ISR is the ISR, joined with the proposed one while a change is pending."""
    maximal = leader.maximal_isr(replica, rules)
    pending = replica.pending_isr
    expected = frozenset(replica.isr) | (frozenset(pending.isr) if pending is not None else frozenset())
    if maximal != expected:
        known.fail(
            ghost,
            "P-22",
            f"broker {mirror.holder} has ISR {list(replica.isr)}, {list(pending.isr) if pending else 'nothing'} "
            f"proposed, and the maximal ISR {sorted(maximal)}",
        )


def check_superset(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror) -> None:
    """P-5: a leader that may commit waits for every replica that the controller may elect."""
    replica, state = mirror.replica, ghost.state
    if state is None or replica is None or mirror.role is not Role.LEADER or ghost.is_stale(mirror):
        return
    broker = known.brokers[mirror.holder]
    if not broker.up or len(replica.isr) < replica.effective_min_isr:
        return
    image = broker.image.partition(replica.topic, replica.partition) if broker.image is not None else None
    if image is not None and image.partition_epoch < replica.partition_epoch:
        return  # its high watermark waits for the metadata of its ISR (HW-3, MD-4)
    counted = {*replica.isr, *(replica.pending_isr.isr if replica.pending_isr else ()), mirror.holder}
    if not counted.issuperset(state.isr) or not counted.issuperset(state.elr):
        known.fail(
            ghost,
            "P-5",
            f"broker {mirror.holder} leads epoch {mirror.leader_epoch} and counts {sorted(counted)}; the controller "
            f"may elect ISR {list(state.isr)}, ELR {list(state.elr)}",
        )


def check_all_supersets(known: Knowledge, ghost: Ghost) -> None:
    """P-5 after a commit of the controller."""
    for mirror in ghost.mirrors.values():
        check_superset(known, ghost, mirror)


def request_accepted(known: Knowledge, image: Image, request: AlterPartitionRequest) -> None:
    """P-7: a broker is admitted to an ISR in its present incarnation (KIP-903)."""
    if known.generation in ("K1", "K2"):
        return
    for part in request.partitions:
        topic = part.topic or image.topic_names.get(part.topic_id, "")
        state = image.partition(topic, part.partition)
        ghost = known.ghost_of(topic, part.partition)
        if state is None or ghost is None or state.partition_epoch != part.partition_epoch + 1:
            continue
        before = ghost.state
        for member, epoch in part.new_isr:
            is_new = before is not None and before.partition_epoch == part.partition_epoch and member not in before.isr
            registered = image.broker_epoch(member)
            if member in state.isr and epoch != registered and (epoch != -1 or is_new):
                known.fail(
                    ghost,
                    "P-7",
                    f"broker {member} of epoch {registered} was admitted to the ISR {list(state.isr)} by what it had "
                    f"fetched in epoch {epoch}",
                )
