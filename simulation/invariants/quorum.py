"""Checks the controllers' quorum: elections, votes, the metadata log (P-R1 … P-R5, P-79, P-20 for standby images)."""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.controller.state import ControllerState
from broker.core.log.log import Log
from broker.core.messages import (
    NO_LEADER,
    AlterPartitionRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import Image
from broker.core.metadata.records import METADATA_DIRECTORY, METADATA_TOPIC, change_in
from broker.core.ports.events import Effect, Event, Reply, RequestReceived, ResponseReceived
from broker.core.quorum import snapshots
from broker.core.quorum.state import Quorum, QuorumRole, read_stored
from broker.core.records import PREFIX_BYTES
from simulation.invariants import metadata, replicas
from simulation.invariants.ghost import batches_in, bytes_of, describe
from simulation.invariants.knowledge import Knowledge, Standing, VoterMirror
from simulation.invariants.properties import Violation
from simulation.invariants.replicas import cut, extend, first_difference, reset_if_start_moved, skip_deleted


def stepped(known: Knowledge, mirror: VoterMirror, controller: ControllerState, incarnation: int, event: Event) -> None:
    """Check a controller that has reacted to an event."""
    quorum = controller.quorum
    log = quorum.log
    hears = quorum.role is QuorumRole.FOLLOWER and quorum.has_fetched
    mirror.before = mirror.standing
    grew = log.end_offset > len(mirror.entries)
    now = (
        incarnation,
        quorum.epoch,
        quorum.role,
        quorum.leader,
        quorum.voted_for,
        quorum.high_watermark,
        log.end_offset,
        log.truncations,
        log.start_offset,
        quorum.snapshot_id,
        controller.image.end_offset,
        hears,
    )
    if now == mirror.seen:
        mirror.durable = max(mirror.durable, log.flushed_offset)
        return
    mirror.seen = now
    mirror.standing = Standing(quorum.epoch, quorum.role, quorum.leader, quorum.voted_for, hears, quorum.high_watermark)
    has_started = incarnation != mirror.incarnation
    if has_started:
        _opened(mirror, quorum, incarnation)
    if quorum.epoch < mirror.epoch:
        raise Violation("P-R4", f"voter {mirror.holder} went from epoch {mirror.epoch} back to {quorum.epoch}")
    mirror.epoch = quorum.epoch
    _check_leader(known, mirror, quorum)
    _check_vote(known, mirror, quorum)
    _check_stored(known, mirror, quorum)
    _check_log(known, mirror, quorum)
    _check_high_watermark(known, mirror, quorum)
    written = quorum.snapshot_id[0] != mirror.snapshot_end and not has_started
    _check_snapshot(known, mirror, quorum)
    if written:
        _check_contents(known, mirror, quorum)
    if not controller.active and controller.image.end_offset != mirror.image_end:
        mirror.image_end = controller.image.end_offset
        metadata.check_image(known, mirror.holder, controller.image)
    if grew and isinstance(event, RequestReceived) and isinstance(event.request, AlterPartitionRequest):
        replicas.request_accepted(known, controller.image, event.request)


def _opened(mirror: VoterMirror, quorum: Quorum, incarnation: int) -> None:
    """A new incarnation: what was committed and synced is still on its disk."""
    mirror.incarnation, mirror.quorum = incarnation, quorum
    mirror.before = None
    mirror.truncations = quorum.log.truncations
    mirror.leads = False
    mirror.high_watermark = 0
    end = first_difference(mirror, quorum.log) if quorum.log.end_offset or mirror.entries else 0
    if end < len(mirror.entries):
        if quorum.log.start_offset < end < min(mirror.durable, len(mirror.entries)):
            raise Violation(
                "P-R3",
                f"voter {mirror.holder} had synced its metadata log up to {mirror.durable} and finds it only up to "
                f"{end}",
            )
        cut(mirror, end)


def ended(known: Knowledge, mirror: VoterMirror) -> None:
    """A process that fails during a step may have cut its log before: the records that it cut off are not lost data.

    It may also have heard in that step that records are synced, committed them, stored a snapshot of them, and deleted
    them from its log: the next process takes them for committed, maybe without having them.
    """
    quorum = mirror.quorum
    if quorum is None:
        return
    log = quorum.log
    if log.truncations != mirror.truncations:
        mirror.truncations = log.truncations
        if log.end_offset < mirror.same:
            raise Violation("P-R3", _cut_committed(known, mirror, log.end_offset))
        mirror.durable = min(mirror.durable, log.end_offset)
    mirror.durable = max(mirror.durable, log.flushed_offset)
    if quorum.high_watermark > len(known.metadata):
        _check_high_watermark(known, mirror, quorum)


def _cut_committed(known: Knowledge, mirror: VoterMirror, end: int) -> str:
    return (
        f"voter {mirror.holder} cut its metadata log from {len(mirror.entries)} to {end}, and what was "
        f"at {end} is committed: {describe(known.metadata, end)}"
    )


def _check_leader(known: Knowledge, mirror: VoterMirror, quorum: Quorum) -> None:
    """P-R1 and P-R2: one leader for each quorum epoch, for all voters."""
    if quorum.leader != NO_LEADER:
        leader = known.leaders.setdefault(quorum.epoch, quorum.leader)
        if leader != quorum.leader:
            which = "P-R1" if quorum.leads else "P-R2"
            raise Violation(
                which,
                f"voter {mirror.holder} takes {quorum.leader} for the leader of quorum epoch {quorum.epoch}; "
                f"{leader} leads it",
            )
    if quorum.leads:
        led_in = known.led_in.setdefault(quorum.epoch, mirror.incarnation)
        if led_in != mirror.incarnation:
            raise Violation(
                "P-R1",
                f"voter {mirror.holder} leads quorum epoch {quorum.epoch} after a restart; its process before has led "
                "it (KAFKA-10527)",
            )


def _check_vote(known: Knowledge, mirror: VoterMirror, quorum: Quorum) -> None:
    """P-R5."""
    if quorum.voted_for != NO_LEADER:
        before = known.votes.setdefault((mirror.holder, quorum.epoch), quorum.voted_for)
        if before != quorum.voted_for:
            raise Violation(
                "P-R5",
                f"voter {mirror.holder} voted for {quorum.voted_for} in quorum epoch {quorum.epoch}, and before for "
                f"{before}",
            )


def _check_stored(known: Knowledge, mirror: VoterMirror, quorum: Quorum) -> None:
    """P-79: a voter that can write its disk has there what the next start must not take back (QU-8)."""
    disk = known.cluster.machines[mirror.holder].disk
    knows = (quorum.epoch, quorum.voted_for)
    if knows == mirror.stored or knows == (0, NO_LEADER) or disk.failing:
        return
    stored = read_stored(disk)
    if stored is None or (stored[0], stored[2]) != knows:
        found = "nothing" if stored is None else f"epoch {stored[0]} and the vote {stored[2]}"
        raise Violation(
            "P-79",
            f"voter {mirror.holder} is in quorum epoch {quorum.epoch}, has voted for {quorum.voted_for}, and has "
            f"{found} on its disk",
        )
    mirror.stored = knows


def adopted(mirror: VoterMirror, quorum: Quorum, event: Event) -> None:
    """P-R4, after a step in which another voter has answered.

    It is in the answer's epoch, or a later one (QU-4). An answer that tells where logs differ says nothing of what is
    committed: until they agree, what lies below the leader's high watermark need not be what is committed (QU-17).
    """
    if not isinstance(event, ResponseReceived):
        return
    response = event.response
    if isinstance(response, FetchResponse):
        _check_diverging(mirror, quorum, response)
    elif isinstance(response, VoteResponse | BeginQuorumEpochResponse) and quorum.epoch < response.leader_epoch:
        raise Violation(
            "P-R4",
            f"voter {mirror.holder} stays in quorum epoch {quorum.epoch}, though another voter has answered in epoch "
            f"{response.leader_epoch}",
        )


def _check_diverging(mirror: VoterMirror, quorum: Quorum, response: FetchResponse) -> None:
    diverging = any(part.topic == METADATA_TOPIC and part.diverging_epoch is not None for part in response.partitions)
    before = mirror.before
    if diverging and before is not None and not quorum.leads and quorum.high_watermark > before.high_watermark:
        raise Violation(
            "P-R4",
            f"voter {mirror.holder} moves its high watermark from {before.high_watermark} to {quorum.high_watermark} "
            "by an answer that tells where its metadata log differs from the leader's",
        )


def recognized(mirror: VoterMirror, quorum: Quorum, event: Event, effects: Sequence[Effect]) -> None:
    """P-R4, after a step in which a voter was asked by another one: it takes none of its own cluster for a stranger."""
    if not isinstance(event, RequestReceived) or not isinstance(
        event.request, VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest
    ):
        return
    if event.request.cluster_id != quorum.settings.cluster_id:
        return
    for effect in effects:
        if isinstance(effect, Reply) and getattr(effect.response, "error_code", 0) == ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise Violation(
                "P-R4",
                f"voter {mirror.holder} refuses a {type(event.request).__name__} of its own cluster as one of another",
            )


def answered(known: Knowledge, mirror: VoterMirror, event: Event, effects: Sequence[Effect]) -> None:
    """P-R5, after a step in which a voter was asked for its vote.

    It gives it to no log that is behind its own, and to nobody in an epoch that it has led, before a restart either;
    it would give it to nobody while it leads, or hears who does (KIP-996); and else it says yes.
    """
    if not isinstance(event, RequestReceived) or not isinstance(event.request, VoteRequest):
        return
    request, last = event.request, mirror.entries[-1] if mirror.entries else None
    candidate = (request.last_epoch, request.last_epoch_end_offset)
    led = known.leaders.get(request.candidate_epoch)
    for effect in effects:
        if not isinstance(effect, Reply) or not isinstance(effect.response, VoteResponse):
            continue
        if effect.response.vote_granted and not request.pre_vote and led == mirror.holder:
            raise Violation(
                "P-R5",
                f"voter {mirror.holder} votes for {request.candidate_id} in quorum epoch {request.candidate_epoch}, "
                "which it has led itself",
            )
        own = (-1, 0) if last is None else (last.epoch, len(mirror.entries))
        if effect.response.vote_granted and candidate < own:
            raise Violation(
                "P-R5",
                f"voter {mirror.holder} votes for {request.candidate_id} in quorum epoch {request.candidate_epoch}, "
                f"whose metadata log ends at {candidate[1]} with epoch {candidate[0]}; its own ends at "
                f"{own[1]} with epoch {own[0]}",
            )
        if effect.response.error_code == ErrorCode.NONE and mirror.before is not None and (last or not mirror.entries):
            _check_choice(mirror, mirror.before, request, candidate >= own, granted=effect.response.vote_granted)


def _check_choice(
    mirror: VoterMirror, before: Standing, request: VoteRequest, is_complete: bool, *, granted: bool
) -> None:
    """P-R5: whether a voter says yes follows from what it knew when it was asked (QU-8, QU-9)."""
    if request.candidate_epoch > before.epoch:  # it knows nothing of that epoch yet
        before = Standing(request.candidate_epoch, QuorumRole.UNATTACHED, NO_LEADER, NO_LEADER, hears=False)
    if request.pre_vote:
        is_free = before.role is not QuorumRole.LEADER and not before.hears
    else:
        is_free = (
            before.role in (QuorumRole.UNATTACHED, QuorumRole.PROSPECTIVE)
            and before.leader == NO_LEADER
            and before.voted_for in (NO_LEADER, request.candidate_id)
        )
    if granted != (is_free and is_complete):
        knew = f"vote {before.voted_for}, leader {before.leader}{', which it hears' if before.hears else ''}"
        raise Violation(
            "P-R5",
            f"voter {mirror.holder}, {before.role.value} in quorum epoch {before.epoch} ({knew}), "
            f"{'says' if granted else 'does not say'} yes to a {'pre-vote' if request.pre_vote else 'vote'} for "
            f"{request.candidate_id} in epoch {request.candidate_epoch}, whose metadata log is "
            f"{'not ' if is_complete else ''}behind its own",
        )


def _check_log(known: Knowledge, mirror: VoterMirror, quorum: Quorum) -> None:
    """P-R3: nothing committed is cut off; same epoch and offset, same past; leaders hold all that is committed."""
    log = quorum.log
    if log.truncations != mirror.truncations:
        mirror.truncations = log.truncations
        end = max(first_difference(mirror, log), min(log.start_offset, len(mirror.entries)))
        if end < mirror.same and end >= log.start_offset:
            raise Violation("P-R3", _cut_committed(known, mirror, end))
        if quorum.leads and mirror.leads:
            raise Violation("P-R4", f"voter {mirror.holder} cut its metadata log to {end} while it led")
        cut(mirror, end)
        reset_if_start_moved(mirror, log)
    mirror.start = log.start_offset
    if log.end_offset > len(mirror.entries):
        wrong = _read_on(known, mirror, log)
        if wrong:
            raise Violation("P-R3", f"voter {mirror.holder} has in its metadata log {wrong}")
    mirror.durable = max(mirror.durable, log.flushed_offset)
    if quorum.leads and not mirror.leads and mirror.compare(known.metadata) < _committed_until(known, quorum.epoch):
        raise Violation(
            "P-R3",
            f"voter {mirror.holder} leads quorum epoch {quorum.epoch}; at {mirror.same} it has "
            f"{describe(mirror.entries, mirror.same)}, where {describe(known.metadata, mirror.same)} is committed",
        )
    mirror.leads = quorum.leads


def _committed_until(known: Knowledge, epoch: int) -> int:
    """What a leader of this epoch has to hold: a late vote may elect one when a later epoch has committed more."""
    return max((end for earlier, end in known.committed_in.items() if earlier <= epoch), default=0)


def _check_high_watermark(known: Knowledge, mirror: VoterMirror, quorum: Quorum) -> None:
    """P-R4, and P-R3 for what the high watermark commits."""
    new, before = quorum.high_watermark, mirror.high_watermark
    if new < before or new > quorum.log.end_offset:
        raise Violation(
            "P-R4",
            f"the high watermark of voter {mirror.holder} went from {before} to {new}, its log ends at "
            f"{quorum.log.end_offset}",
        )
    mirror.high_watermark = new
    if new == before:
        return
    known_end = len(known.metadata)
    if new > known_end:
        if not quorum.leads:
            raise Violation(
                "P-R3", f"voter {mirror.holder} takes metadata up to {new} for committed, a leader only {known_end}"
            )
        _committed(known, mirror, quorum, new)
    elif mirror.compare(known.metadata) < new:
        raise Violation(
            "P-R3",
            f"at {mirror.same} the metadata {describe(known.metadata, mirror.same)} is committed, and voter "
            f"{mirror.holder} takes {describe(mirror.entries, mirror.same)} for it",
        )


def _committed(known: Knowledge, mirror: VoterMirror, quorum: Quorum, end: int) -> None:
    """P-R3: a majority has the records on disk. Then apply them."""
    start = len(known.metadata)
    known.metadata += mirror.entries[start:end]
    known.committed_in[quorum.epoch] = end
    holders = [
        other.holder for other in known.voters.values() if other.compare(known.metadata) >= end and other.durable >= end
    ]
    last = known.metadata[-1]
    if last is not None and last.epoch != quorum.epoch:
        raise Violation(
            "P-R3",
            f"voter {mirror.holder} leads quorum epoch {quorum.epoch}, and commits the metadata up to {end}, which end "
            f"with a record of epoch {last.epoch}",
        )
    if len(holders) < quorum.majority:
        raise Violation(
            "P-R3",
            f"voter {mirror.holder} commits the metadata up to {end}, which is on the disks of {holders} only",
        )
    while start < end:
        batch = known.metadata[start]
        if batch is None:
            raise Violation("P-R3", f"voter {mirror.holder} commits the metadata at {start}, which it does not hold")
        start = batch.last + 1
        change = known.changes.pop((batch.epoch, batch.base))
        if batch.control:
            metadata.remember_again(known, start)
        else:
            known.administered.committing = batch.epoch, batch.base
            metadata.commit(known, change_in(change), start)


def _read_on(known: Knowledge, mirror: VoterMirror, log: Log) -> str:
    """Read appended batches, and keep their changes until they are committed; returns what is wrong by P-R3."""
    skip_deleted(mirror, log)
    data = bytes_of(log, len(mirror.entries))
    batches = batches_in(data)
    at = 0
    for batch in batches:
        size = int.from_bytes(data[at + 8 : at + PREFIX_BYTES], "big") + PREFIX_BYTES
        if batch.base >= len(known.metadata):
            known.changes.setdefault((batch.epoch, batch.base), data[at : at + size])
        at += size
    return extend(mirror.entries, batches, known.metadata_lineage)


def _check_snapshot(known: Knowledge, mirror: VoterMirror, quorum: Quorum) -> None:
    """P-R4: a snapshot covers what was removed from the log, and nothing that is not committed; its id says of which
    epoch its last record is (KIP-630).
    """
    end, epoch = quorum.snapshot_id
    if end > quorum.high_watermark or quorum.log.start_offset > end:
        raise Violation(
            "P-R4",
            f"voter {mirror.holder} has a snapshot up to {end}, high watermark {quorum.high_watermark}, log start "
            f"{quorum.log.start_offset}",
        )
    if end < mirror.snapshot_end:
        raise Violation("P-R4", f"the snapshot of voter {mirror.holder} went from {mirror.snapshot_end} back to {end}")
    last = known.metadata[end - 1] if end != mirror.snapshot_end and 0 < end <= len(known.metadata) else None
    if last is not None and last.epoch != epoch:
        raise Violation(
            "P-R4",
            f"voter {mirror.holder} has a snapshot up to {end} of epoch {epoch}; its last record is of epoch "
            f"{last.epoch}",
        )
    mirror.snapshot_end = end


def _check_contents(known: Knowledge, mirror: VoterMirror, quorum: Quorum) -> None:
    """P-R4: a snapshot that a voter has just written, or fetched, is on its disk, alone, with what was committed."""
    disk = known.cluster.machines[mirror.holder].disk
    found = snapshots.read(disk, METADATA_DIRECTORY, quorum.snapshot_id)
    if not isinstance(found, Image):
        raise Violation("P-R4", f"voter {mirror.holder} has a snapshot {quorum.snapshot_id} that is not there: {found}")
    others = [one for one in snapshots.find(disk, METADATA_DIRECTORY) if one < quorum.snapshot_id]
    if others:
        raise Violation(
            "P-R4", f"voter {mirror.holder} has a snapshot {quorum.snapshot_id}, and keeps the older ones {others}"
        )
    different = metadata.difference(known, found)
    if different:
        raise Violation("P-R4", f"voter {mirror.holder} has in its snapshot {quorum.snapshot_id} {different}")
