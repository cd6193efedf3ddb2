"""Checks which records are committed, and that the replicas that must hold them do (P-1, P-2, P-4, P-9, P-10)."""

from __future__ import annotations

from broker.core.metadata.records import PartitionState
from broker.core.replica.state import Role
from simulation.invariants.expiry import TAKEN_TWICE, is_excused
from simulation.invariants.ghost import Ghost, ReplicaMirror, and_more, describe
from simulation.invariants.knowledge import Knowledge

_MASK = 0x7FFFFFFF


def check_sequences(known: Knowledge, ghost: Ghost, first: int) -> None:
    """P-14: check the batches that were committed from an offset on.

    A leader that has forgotten a producer accepts any sequence number from it, as Kafka's do.
    """
    offset, end = first, len(ghost.committed)
    while offset < end:
        batch = ghost.committed[offset]
        if batch is None:
            offset += 1
            continue
        offset = batch.last + 1
        if batch.producer_id < 0 or batch.control:
            continue
        key = (batch.producer_id, batch.producer_epoch)
        last = ghost.sequences.get(key)
        expected = batch.first_sequence if last is None else (last + 1) & _MASK
        before = ghost.last_of.get(batch.producer_id, -1)
        ghost.last_of[batch.producer_id] = batch.last
        if batch.first_sequence != expected:
            back = (expected - batch.first_sequence) & _MASK <= _MASK // 2
            if is_excused(ghost.taken_anew, (batch.epoch, batch.base), before):
                if back:
                    known.cluster.count(TAKEN_TWICE)
            elif back or ghost.acks_all_only:
                known.fail(
                    ghost,
                    "P-14",
                    f"producer {batch.producer_id} committed sequence number {batch.first_sequence} with {batch}, "
                    f"{'a second time' if back else 'and leaves a gap'}: {expected} was next",
                )
        ghost.sequences[key] = (batch.first_sequence + batch.last - batch.base) & _MASK


def high_watermark_of_leader(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, before: int, new: int) -> None:
    """A leader's high watermark is now `new`, in an epoch in which it was `before` (P-4, P-9)."""
    if not ghost.protects(mirror):
        return
    committed, entries = ghost.committed, mirror.entries
    if new < before:
        known.fail(
            ghost,
            "P-9",
            f"the high watermark of broker {mirror.holder} went from {before} back to {new} in epoch "
            f"{mirror.leader_epoch}",
        )
    # Deleted records are not promised; a replica may start inside a batch whose first records are gone.
    low, high = max(before, mirror.start, ghost.log_start), min(new, len(committed))
    if entries[low:high] != committed[low:high]:
        at = next(offset for offset in range(low, high) if entries[offset] != committed[offset])
        known.fail(
            ghost,
            "P-4",
            f"at {at} {describe(committed, at)} is committed, and broker {mirror.holder}, leader of epoch "
            f"{mirror.leader_epoch}, commits {describe(entries, at)}",
        )
    if new > len(committed):
        first = len(committed)
        if mirror.start > first:  # by unclean election it leads above what another has deleted, whatever that was
            ghost.sequences.clear()
            ghost.last_of.clear()
        committed += entries[first:new]
        check_sequences(known, ghost, first)
        grown(known, ghost)


def grown(known: Knowledge, ghost: Ghost) -> None:
    """More is committed than before: check that leaders and candidates have it."""
    for mirror in ghost.mirrors.values():
        mirror.compare(ghost.committed)
        if mirror.role is Role.LEADER and mirror.same < len(ghost.committed):
            check_leader(known, ghost, mirror)
    check_candidates(known, ghost)


def check_leader(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror) -> None:
    """P-1: a leader that is not superseded holds the ghost log."""
    if mirror.role is not Role.LEADER or ghost.is_stale(mirror) or not ghost.protects(mirror):
        return
    same = mirror.compare(ghost.committed)
    if same < len(ghost.committed):
        known.fail(
            ghost,
            "P-1",
            f"broker {mirror.holder} leads epoch {mirror.leader_epoch} with the log end {len(mirror.entries)}, and has "
            f"{describe(mirror.entries, same)} at {same}, where {describe(ghost.committed, same)} is committed",
        )


def check_candidates(known: Knowledge, ghost: Ghost) -> None:
    """P-2: a member of the ISR or the ELR that runs under its registered epoch holds the ghost log."""
    state = ghost.state
    if state is None or not ghost.trusted:
        return
    end = len(ghost.committed)
    for member in state.isr + state.elr:
        broker, mirror = known.brokers[member], ghost.mirrors.get(member)
        if not known.runs_as_registered(member):
            continue
        same = mirror.compare(ghost.committed) if mirror is not None else 0
        if mirror is not None and ghost.since_epoch:
            _check_deleted(known, ghost, state, mirror)
        if same < end and not (mirror is None and ghost.since_epoch):
            held = describe(mirror.entries, same) if mirror is not None else "no log"
            which = "ISR" if member in state.isr else "ELR"
            known.fail(
                ghost,
                "P-2",
                f"broker {member} of broker epoch {broker.broker_epoch} is in the {which} (ISR {list(state.isr)}, "
                f"ELR {list(state.elr)}, partition epoch {state.partition_epoch}) and has {held} at {same}, where "
                f"{describe(ghost.committed, same)} is committed{and_more('it lacks', same, end)}",
            )


def _check_deleted(known: Knowledge, ghost: Ghost, state: PartitionState, mirror: ReplicaMirror) -> None:
    """P-2: a candidate's log begins no later than leaders since the last unclean election have deleted records.

    It may have deleted what it was asked to since then, as a leader that nobody saw do it.
    """
    asked = mirror.asked_start if mirror.asked_start > ghost.asked_before.get(mirror.holder, 0) else 0
    since = max(ghost.log_start, ghost.elected_end, asked)
    if since < min(mirror.start, len(ghost.committed)):
        known.fail(
            ghost,
            "P-2",
            f"broker {mirror.holder} of broker epoch {known.brokers[mirror.holder].broker_epoch} may be elected (ISR "
            f"{list(state.isr)}, ELR {list(state.elr)}, partition epoch {state.partition_epoch}), and its log begins "
            f"at {mirror.start}; no leader has deleted what has been committed from {since} on, since the last unclean "
            "election",
        )


def check_bounds(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, high_watermark: int) -> None:
    """P-10 for any replica; P-3 below its high watermark, where its log must equal what is committed.

    An unclean election may give up records that a replica has deleted: its high watermark stays at its log start.
    """
    end = len(mirror.entries)
    if not mirror.start <= high_watermark <= end:
        known.fail(
            ghost,
            "P-10",
            f"broker {mirror.holder} has log start {mirror.start}, high watermark {high_watermark}, log end {end}",
        )
    if not ghost.protects(mirror) or mirror.high_watermark_epoch < ghost.since_epoch:
        return
    if high_watermark > len(ghost.committed):
        if ghost.since_epoch and high_watermark == mirror.start:
            return
        known.fail(
            ghost,
            "P-10",
            f"the high watermark {high_watermark} of broker {mirror.holder} ({mirror.role.value} in epoch "
            f"{mirror.leader_epoch}) is above the true one, {len(ghost.committed)}",
        )
    same = mirror.compare(ghost.committed)
    if same < high_watermark:
        known.fail(
            ghost,
            "P-3",
            f"broker {mirror.holder} has {describe(mirror.entries, same)} at {same}, below its high watermark "
            f"{high_watermark}, where {describe(ghost.committed, same)} is committed",
        )


def restart_from(known: Knowledge, ghost: Ghost, leader: int, epoch: int) -> None:
    """Unclean election: drop from the ghost log what the elected replica lacks, and record the loss (§20.1)."""
    mirror = ghost.mirrors.get(leader)
    before = len(ghost.committed)
    kept = mirror.compare(ghost.committed) if mirror is not None else 0
    ghost.since_epoch = epoch
    ghost.quorum_excused = True
    ghost.elected_end = len(mirror.entries) if mirror is not None else 0
    ghost.asked_before = {member: other.asked_start for member, other in ghost.mirrors.items()}
    if kept < before and ghost.committed[kept] is not None:  # else nobody knows whether it differs from there on
        ghost.log_start = min(ghost.log_start, kept)  # what was deleted above is given up, too
    ghost.log_start = max(ghost.log_start, mirror.start if mirror is not None else 0)
    if kept == before:
        return
    ghost.given_up += [(kept, batch) for batch in dict.fromkeys(ghost.committed[kept:]) if batch is not None]
    del ghost.committed[kept:]
    ghost.latest_of_keys = None
    for other in ghost.mirrors.values():
        other.same = min(other.same, kept)
    for base, batch in list(ghost.acknowledged.items()):
        if batch.last >= kept:
            ghost.lost.append(ghost.acknowledged.pop(base))
    ghost.acknowledged_end = min(ghost.acknowledged_end, kept)
    ghost.shown_end = min(ghost.shown_end, kept)
    for records in ghost.first_seen:
        ghost.first_seen[records] = 0  # before all that is acknowledged from now on
    ghost.sequences.clear()
    ghost.last_of.clear()
    check_sequences(known, ghost, mirror.start if mirror is not None else 0)  # of what was deleted it may know nothing


def log_deleted(known: Knowledge, ghost: Ghost, holder: int) -> None:
    """P-1 after an unclean election of a broker that has deleted its log before it leads, and leads with an empty one.

    It was no replica for a while, became one again, and was elected before it had heard of either (RT-8, EL-9). Not in
    a recovery that goes by logs, which waits until it has heard of that (UR-15).
    """
    if ghost.elected == holder:
        restart_from(known, ghost, holder, ghost.since_epoch)
