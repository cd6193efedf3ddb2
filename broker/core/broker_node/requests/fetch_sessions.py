"""Fetch sessions, leader side (KIP-227, FE-11): a reader lists its partitions once, then only the changes.

A session holds for each partition everything that the reader last asked for: offset, leader epoch, last fetched epoch
(KAFKA-9338 lost the epoch). It also holds what was last reported to the reader; an incremental response has only the
partitions with something new. Sessions are kept in memory. The first id derives from the incarnation id, so that a
session of an earlier incarnation of this broker is not mistaken for a current one.

A partition is *at rest* if the last read found nothing new and nothing has changed since; it is then not read again,
however many partitions a session has.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.messages import NO_PREFERRED_REPLICA, UNKNOWN, FetchedPartition, FetchPartition, FetchRequest
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import Image
from broker.core.replica.state import Replica
from broker.core.rules.requests import FetchRules

NO_SESSION = 0
INITIAL_EPOCH = 0
"""Requests a new session."""

FINAL_EPOCH = -1
"""Requests no session, and ends the one that is named."""

_INT32_MAX = (1 << 31) - 1
EVICTION_MS = 120_000
"""A session that was used may not be evicted for another of its own kind before this time."""

Key = tuple[str, int]
"""Topic id if known, otherwise the name, and partition."""

Rest = tuple[object, ...]
"""Every input of a partition's read."""


@dataclass(slots=True)
class SessionPartition:
    """One partition of a session."""

    asked: FetchPartition
    reported: tuple[int, int] | None = None  # high watermark, log start; None: nothing yet, or an error
    rest: Rest | None = None


@dataclass(slots=True)
class FetchSession:
    """One reader's session. `epoch` is the one that its next request must carry."""

    session_id: int
    replica_id: int
    by_id: bool
    last_used_ms: int
    image_offset: int
    epoch: int = 1
    partitions: dict[Key, SessionPartition] = field(default_factory=dict)


@dataclass(slots=True)
class FetchSessions:
    """All sessions of a broker, the least recently used first."""

    slots: int
    last_id: int
    sessions: dict[int, FetchSession] = field(default_factory=dict)


class Fetch(NamedTuple):
    """A fetch with all its partitions, however the request named them."""

    request: FetchRequest
    session: FetchSession | None = None
    incremental: bool = False

    def entry(self, part: FetchPartition) -> SessionPartition | None:
        """The session's entry for a partition, if the fetch belongs to a session and may omit it."""
        return self.session.partitions.get(key_of(part)) if self.session is not None and self.incremental else None


def begin(slots: int, incarnation_id: str) -> FetchSessions:
    """An empty session table. The ids of different incarnations are almost certainly far apart."""
    return FetchSessions(slots, zlib.crc32(incarnation_id.encode()) & _INT32_MAX)


def key_of(part: FetchPartition | FetchedPartition) -> Key:
    """The key of a partition within a session."""
    return part.topic_id or part.topic, part.partition


def open_fetch(
    sessions: FetchSessions, request: FetchRequest, now_ms: int, image: Image, rules: FetchRules
) -> Fetch | ErrorCode:
    """Find or create a request's session: the complete fetch, or the error that forces a new session."""
    request = _of(request, tuple([_named(part, image) for part in request.partitions]))
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        sessions.sessions.pop(request.session_id, None)
        if request.session_epoch == FINAL_EPOCH or not _make_room(sessions, request.replica_id >= 0, now_ms):
            return Fetch(request)
        return Fetch(request, _create(sessions, request, now_ms, image.end_offset, rules))
    session = sessions.sessions.get(request.session_id)
    if session is None or session.replica_id != request.replica_id:
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    if session.epoch != request.session_epoch:
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH
    if any(bool(part.topic_id) != session.by_id for part in request.partitions):
        return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    session.epoch = 1 if session.epoch == _INT32_MAX else session.epoch + 1
    sessions.sessions[session.session_id] = sessions.sessions.pop(session.session_id)
    session.last_used_ms = now_ms
    _update(session, request, rules)
    if session.image_offset != image.end_offset:
        session.image_offset = image.end_offset
        for entry in session.partitions.values():
            entry.asked, entry.rest = _named(entry.asked, image), None
    whole = _of(request, tuple([entry.asked for entry in session.partitions.values()]))
    return Fetch(whole, session, True)


def _of(request: FetchRequest, partitions: tuple[FetchPartition, ...]) -> FetchRequest:
    """The request for other partitions."""
    return request if partitions == request.partitions else FetchRequest(partitions, *request[1:])


def answer(fetch: Fetch, parts: Iterable[FetchedPartition]) -> tuple[FetchedPartition, ...]:
    """Select the partitions to report and record them; those with records move to the end, for fairness."""
    if fetch.session is None:
        return tuple(parts)
    reported = []
    for part in parts:
        key = key_of(part)
        entry = fetch.session.partitions.get(key)
        if entry is None:
            continue
        if not fetch.incremental or _is_news(entry, part):
            reported.append(part)
        failed = part.error_code != ErrorCode.NONE or part.diverging_epoch is not None
        entry.reported = None if failed else (part.high_watermark, part.log_start_offset)
        if part.records:
            fetch.session.partitions[key] = fetch.session.partitions.pop(key)
    return tuple(reported)


def rest_of(replica: Replica, replica_id: int, bound: int, offset: int) -> Rest | None:
    """The inputs of a partition's read if it is read to its bound; None if it must be read each time.

    The image is not an input: a session forgets all partitions at rest when the image changes.
    """
    if offset < bound:
        return None
    incarnation = UNKNOWN
    if replica_id >= 0:
        if replica_id not in replica.isr or replica_id not in replica.remotes:
            return None  # each fetch of a follower outside of the ISR is a chance to expand it
        incarnation = replica.remotes[replica_id].broker_epoch  # a later one may fetch in another session (FE-5)
    log = replica.log
    bounds = (log.end_offset, log.start_offset, replica.high_watermark)
    return replica.role, replica.leader_epoch, *bounds, replica.isr, incarnation


def record_rest(entry: SessionPartition, part: FetchedPartition, rest: Rest | None) -> None:
    """After a read: record whether the partition is at rest."""
    entry.rest = None if _is_news(entry, part) else rest


def _is_news(entry: SessionPartition, part: FetchedPartition) -> bool:
    return (
        bool(part.records)
        or part.error_code != ErrorCode.NONE
        or part.diverging_epoch is not None
        or part.preferred_read_replica != NO_PREFERRED_REPLICA
        or entry.reported != (part.high_watermark, part.log_start_offset)
    )


def _named(part: FetchPartition, image: Image) -> FetchPartition:
    """FE-1: an id determines the topic's name, "" if it is unknown."""
    if not part.topic_id:
        return part
    topic = image.topic_names.get(part.topic_id, "")
    return part if part.topic == topic else part._replace(topic=topic)


def _update(session: FetchSession, request: FetchRequest, rules: FetchRules) -> None:
    """FE-11: a sent partition replaces its old entry completely, and is answered whatever was reported before."""
    for part in request.partitions:
        kept = rules.kept_in_session(part)
        entry = session.partitions.get(key_of(part))
        if entry is None:
            session.partitions[key_of(part)] = SessionPartition(kept)
        else:
            entry.asked, entry.reported, entry.rest = kept, None, None
    for topic, topic_id, partition in request.forgotten:
        session.partitions.pop((topic_id or topic, partition), None)


def _create(
    sessions: FetchSessions, request: FetchRequest, now_ms: int, image_offset: int, rules: FetchRules
) -> FetchSession:
    sessions.last_id = 1 if sessions.last_id >= _INT32_MAX else sessions.last_id + 1
    by_id = any(part.topic_id for part in request.partitions)
    session = FetchSession(sessions.last_id, request.replica_id, by_id, now_ms, image_offset)
    session.partitions = {key_of(part): SessionPartition(rules.kept_in_session(part)) for part in request.partitions}
    sessions.sessions[session.session_id] = session
    return session


def _make_room(sessions: FetchSessions, by_follower: bool, now_ms: int) -> bool:
    """Whether there is a slot, if necessary by evicting an idle session; a follower's session is worth more."""
    if len(sessions.sessions) < sessions.slots:
        return True
    for session in sessions.sessions.values():
        idle = now_ms - session.last_used_ms >= EVICTION_MS
        if idle or (by_follower and session.replica_id < 0):
            del sessions.sessions[session.session_id]
            return True
    return False
