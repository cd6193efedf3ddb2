"""Checks what coordinators answer: offsets (P-G1, P-53), generations (P-G2), assignments (P-G3), fencing (P-G4).

The truth is the ghost log of the offsets partition: what a coordinator has not written there it may forget, and another
one need not know. A coordinator that was deposed and does not know it yet may give an old answer (BL-10), but can
neither store a commit nor a generation.
"""

from __future__ import annotations

from broker.core.broker_node.groups.records import OFFSETS_TOPIC, OffsetKey, StoredGroup, partition_of
from broker.core.messages import AnyRequest, AnyResponse
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    NO_GENERATION,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from broker.core.ports.events import RequestReceived
from simulation.invariants.ghost import Ghost, ReplicaMirror
from simulation.invariants.groups.ghost import Commit, Generation, GroupGhost, GroupRequest, Stay, entries
from simulation.invariants.knowledge import BrokerMirror, Knowledge
from simulation.invariants.properties import Violation

CHECKED = (
    *(JoinGroupRequest, SyncGroupRequest, LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest),
    DeleteGroupsRequest,
)
"""Requests whose answers are checked."""


def request_arrived(known: Knowledge, broker: BrokerMirror, event: RequestReceived) -> None:
    """Remember a member's request, and what it had been told, and shown of committed offsets, when it arrived."""
    request = event.request
    floors: dict[OffsetKey, int] = {}
    left: Stay | None = None
    match request:
        case OffsetCommitRequest():
            for part in request.partitions:
                sent = OffsetKey(request.group_id, part.topic, part.partition), part.offset, part.metadata or ""
                known.asked.committers.setdefault(sent, []).append((request.generation_id, request.member_id))
            left = known.asked.left.get((request.group_id, request.member_id))
        case SyncGroupRequest() if request.assignments:
            sets = known.asked.assignments.setdefault((request.group_id, request.generation_id), [])
            sets.append(dict(request.assignments))
        case OffsetFetchRequest():
            for group in request.groups:
                truth = known.asked.groups.get(_partition(known, group.group_id))
                if truth is not None:
                    floors |= {key: at for key, at in truth.shown.items() if key.group_id == group.group_id}
    broker.group_requests[event.request_id] = GroupRequest(request, floors, left, known.clock_ms(broker.broker_id))


def answered(known: Knowledge, broker: BrokerMirror, request_id: int, response: AnyResponse) -> None:
    """Check an answer to a member."""
    found = broker.group_requests.pop(request_id, None)
    if found is None:
        return
    request, floors, left, _ = found
    if isinstance(request, OffsetFetchRequest) and isinstance(response, OffsetFetchResponse):
        for group in response.groups:
            where = _coordinated(known, broker, group.group_id)
            if where is None or group.error_code != ErrorCode.NONE:
                continue
            under_way = _under_way(*where)
            for part in group.partitions:
                key = OffsetKey(group.group_id, part.topic, part.partition)
                _check_stable(*where, key, part.error_code, wanted=request.require_stable and key in under_way)
                if part.error_code == ErrorCode.NONE:
                    _shown(known, *where, key, (part.offset, part.metadata or ""), floors.get(key, -1))
        return
    if isinstance(response, DeleteGroupsResponse):
        for deleted in response.groups:
            where = _coordinated(known, broker, deleted.group_id)
            if where is not None and deleted.error_code == ErrorCode.NONE:
                _check_deleted(known, *where, deleted.group_id)
        return
    if isinstance(request, JoinGroupRequest) and isinstance(response, JoinGroupResponse):
        known.asked.joined[request.group_id, response.generation_id, response.member_id] = True
        for member in response.members:
            if member.instance_id is not None:
                known.asked.instances[member.member_id] = member.instance_id
    where = _coordinated(known, broker, getattr(request, "group_id", ""))
    if where is not None:
        _told(known, broker, where, request, response, left)


def _under_way(ghost: Ghost, mirror: ReplicaMirror) -> dict[OffsetKey, bool]:
    """The offsets whose commits are in a coordinator's log, and may not be replicated yet."""
    replica, contents, found = mirror.replica, ghost.contents, {}
    if replica is None or contents is None:
        return {}
    for batch in dict.fromkeys(mirror.entries[replica.high_watermark :]):
        for entry in entries(ghost, batch) if batch is not None else ():
            if isinstance(entry, Commit):
                found[entry.key] = True
    return found


def _check_stable(ghost: Ghost, mirror: ReplicaMirror, key: OffsetKey, error: int, *, wanted: bool) -> None:
    """P-53 (KIP-447): who wants stable offsets is told of a commit that is under way, and nobody else."""
    if (error == ErrorCode.UNSTABLE_OFFSET_COMMIT) != wanted:
        raise Violation(
            "P-53",
            f"{ghost}: broker {mirror.holder} answered {ErrorCode(error).name} for the committed offset of "
            f"{key.topic}-{key.partition} of group {key.group_id}; expected "
            f"{'that a commit is under way' if wanted else 'the offset'}",
        )


def _told(
    known: Knowledge,
    broker: BrokerMirror,
    where: tuple[Ghost, ReplicaMirror],
    request: AnyRequest,
    response: AnyResponse,
    left: Stay | None,
) -> None:
    ghost, mirror = where
    stay = Stay(broker.broker_id, broker.incarnation, mirror.leader_epoch)
    match request, response:
        case OffsetCommitRequest(), OffsetCommitResponse():
            for part in response.partitions:
                if part.error_code == ErrorCode.NONE:
                    key = OffsetKey(request.group_id, part.topic, part.partition)
                    _acknowledged(known, ghost, stay, request, key, left=left)
        case JoinGroupRequest(), JoinGroupResponse(error_code=ErrorCode.NONE):
            _joined(known, ghost, mirror, request.group_id, response)
        case SyncGroupRequest(), SyncGroupResponse(error_code=ErrorCode.NONE):
            _assigned(known, ghost, mirror, request, response.assignment)
        case LeaveGroupRequest(), LeaveGroupResponse(error_code=ErrorCode.NONE):
            for member in response.members:
                if member.error_code == ErrorCode.NONE and member.member_id:  # else only its instance id is known
                    known.asked.left[request.group_id, member.member_id] = stay


def committed_more(known: Knowledge, ghost: Ghost) -> None:
    """Check the records of an offsets partition that were committed since the last time."""
    truth = known.asked.groups.setdefault(ghost.number, GroupGhost())
    for entry in truth.read(ghost):
        if ghost.trusted and isinstance(entry, Commit):
            _check_commit(known, ghost, truth, entry)
        elif ghost.trusted and isinstance(entry, Generation):
            _check_generation(known, ghost, truth, entry)
        truth.add(entry)


def _partition(known: Knowledge, group_id: str) -> int:
    topic = known.image.topics.get(OFFSETS_TOPIC)
    return partition_of(group_id, len(topic.partitions)) if topic is not None and topic.partitions else -1


def _coordinated(known: Knowledge, broker: BrokerMirror, group_id: str) -> tuple[Ghost, ReplicaMirror] | None:
    """The ghost of a group's partition, and the coordinator's replica of it; None where nothing is promised."""
    number = _partition(known, group_id)
    ghost, mirror = known.ghost_of(OFFSETS_TOPIC, number), broker.mirrors.get((OFFSETS_TOPIC, number))
    if ghost is None or mirror is None or not ghost.protects(mirror):
        return None
    committed_more(known, ghost)
    return ghost, mirror


# --- P-G1: committed offsets -----------------------------------------------------------------------------------------


def _acknowledged(
    known: Knowledge, ghost: Ghost, stay: Stay, request: OffsetCommitRequest, key: OffsetKey, *, left: Stay | None
) -> None:
    """`left` is the coordinator that had confirmed, before it heard of the commit, that the member has left."""
    truth = known.asked.groups[ghost.number]
    sent = next(part for part in request.partitions if (part.topic, part.partition) == key[1:])
    what = (sent.offset, sent.metadata or "")
    at = _latest_of(truth, key, what)
    if at is None:
        known.fail(
            ghost,
            "P-G1",
            f"broker {stay.broker} acknowledged the commit of {_text(key, what)}; no committed record has it",
        )
    truth.shown[key] = max(at, truth.shown.get(key, -1))
    member = (key.group_id, request.generation_id, request.member_id)
    if request.generation_id != NO_GENERATION and member not in known.asked.joined:
        known.fail(
            ghost,
            "P-G4",
            f"broker {stay.broker} acknowledged the commit of {_text(key, what)} by {request.member_id or 'nobody'} in "
            f"generation {request.generation_id}, of which it was never told to be a member",
        )
    if left == stay:
        known.fail(
            ghost,
            "P-G4",
            f"broker {stay.broker} acknowledged the commit of {_text(key, what)} by {request.member_id}, which arrived "
            f"after the broker had confirmed to the member that it has left",
        )


def _shown(
    known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, key: OffsetKey, what: tuple[int, str], floor: int
) -> None:
    truth = known.asked.groups[ghost.number]
    stale = ghost.is_stale(mirror)
    who = f"broker {mirror.holder}, leader of epoch {mirror.leader_epoch},"
    at = _latest_of(truth, key, what)
    if at is None and (what[0] >= 0 or any(commit.stored is None for commit in truth.commits.get(key, ()))):
        known.fail(ghost, "P-G1", f"{who} answered that {_text(key, what)} is committed; no committed record has it")
    at = -1 if at is None else at
    if at < floor and not stale and truth.is_safe(key, floor):
        latest = next(commit for commit in truth.commits[key] if commit.at == floor)
        known.fail(
            ghost,
            "P-G1",
            f"{who} answered that {_text(key, what)} is committed (its record is at {at}); when it was asked, "
            f"{latest.stored} at {floor} had been acknowledged or shown",
        )
    truth.shown[key] = max(at, truth.shown.get(key, -1))


def _latest_of(truth: GroupGhost, key: OffsetKey, what: tuple[int, str]) -> int | None:
    """Where the latest record of a commit is; of a deleted one, for the offset -1."""
    for commit in reversed(truth.commits.get(key, [])):
        stored = commit.stored
        if (stored is None and what[0] < 0) or (stored is not None and (stored.offset, stored.metadata) == what):
            return commit.at
    return None


def _text(key: OffsetKey, what: tuple[int, str]) -> str:
    return f"{what[0]} ({what[1] or 'no metadata'}) for {key.topic}-{key.partition} by {key.group_id}"


# --- P-G2, P-G3: generations -----------------------------------------------------------------------------------------


def _check_deleted(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, group_id: str) -> None:
    """P-G2: of a group whose deletion is acknowledged nothing is stored that the next coordinator would load."""
    truth = known.asked.groups[ghost.number]
    left = [
        key for key, commits in truth.commits.items() if key.group_id == group_id and commits[-1].stored is not None
    ]
    if truth.latest(group_id) is not None or any(truth.is_safe(key, truth.commits[key][-1].at) for key in left):
        known.fail(
            ghost,
            "P-G2",
            f"broker {mirror.holder} answered that group {group_id} is deleted; by the log there still are "
            f"{'its members' if truth.latest(group_id) is not None else 'its committed offsets'}",
        )


def _joined(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, group_id: str, response: JoinGroupResponse) -> None:
    """P-G2 when a member is told its generation: not one before that which is stored."""
    before = known.asked.groups[ghost.number].latest(group_id)
    if before is not None and response.generation_id < before.generation and not ghost.is_stale(mirror):
        known.fail(
            ghost,
            "P-G2",
            f"broker {mirror.holder}, leader of epoch {mirror.leader_epoch}, answered {response.member_id} that it is "
            f"in generation {response.generation_id} of {group_id}; generation {before.generation} is stored",
        )


def _assigned(
    known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, request: SyncGroupRequest, assignment: bytes
) -> None:
    """P-G3 when a member gets its assignment: it is the stored one."""
    stored = [
        member.assignment
        for entry in known.asked.groups[ghost.number].generations.get(request.group_id, ())
        if entry.stored is not None and entry.stored.generation == request.generation_id
        for member in entry.stored.members
        if member.member_id == request.member_id
    ]
    if assignment not in stored:
        known.fail(
            ghost,
            "P-G3",
            f"broker {mirror.holder}, leader of epoch {mirror.leader_epoch}, answered {request.member_id} in "
            f"generation {request.generation_id} of {request.group_id} that its assignment is {assignment!r}; in the "
            f"log it is {stored}",
        )


def _check_generation(known: Knowledge, ghost: Ghost, truth: GroupGhost, entry: Generation) -> None:
    """P-G2 and P-G3 when a generation is stored: it is a later one, with the assignment that its leader sent."""
    now, before = entry.stored, truth.latest(entry.group_id)
    if now is None:
        return
    if before is not None and _means_the_same(before, now):
        return  # KIP-345: a static member has got another id
    members = [member.member_id for member in now.members]
    if before is not None and now.generation <= before.generation:
        known.fail(
            ghost,
            "P-G2",
            f"at {entry.at} generation {now.generation} of {entry.group_id} is stored with the members {members}, "
            f"after generation {before.generation} with {[member.member_id for member in before.members]}",
        )
    instances = known.asked.instances  # a static member may get another id before its generation is stored (KIP-345)
    sent = [
        {instances.get(name, name): part for name, part in one.items()}
        for one in known.asked.assignments.get((entry.group_id, now.generation), [])
    ]
    stored = {member.instance_id or member.member_id: member.assignment for member in now.members}
    if members and not any(all(one.get(name, b"") == part for name, part in stored.items()) for one in sent):
        known.fail(
            ghost,
            "P-G3",
            f"at {entry.at} generation {now.generation} of {entry.group_id} is stored with the assignments {stored}; "
            f"its leader has sent {sent}",
        )


def _means_the_same(before: StoredGroup, now: StoredGroup) -> bool:
    """Whether a generation was stored again, and differs only by the ids of static members."""
    return before.generation == now.generation and [
        (member.instance_id or member.member_id, member.assignment) for member in before.members
    ] == [(member.instance_id or member.member_id, member.assignment) for member in now.members]


# --- P-G4: fencing ---------------------------------------------------------------------------------------------------


def _check_commit(known: Knowledge, ghost: Ghost, truth: GroupGhost, entry: Commit) -> None:
    """P-G4 when a commit is stored: no later generation is stored before it."""
    latest = truth.latest(entry.key.group_id)
    if latest is None or entry.stored is None:
        return
    sent = known.asked.committers.get((entry.key, entry.stored.offset, entry.stored.metadata), [])
    generations = [generation for generation, _ in sent]
    if generations and NO_GENERATION not in generations and max(generations) < latest.generation:
        known.fail(
            ghost,
            "P-G4",
            f"at {entry.at} the commit of {entry.stored.offset} for {entry.key.topic}-{entry.key.partition} by "
            f"{sent[-1][1]} in generation {max(generations)} of {entry.key.group_id} is stored, after generation "
            f"{latest.generation}",
        )
