"""Fetches from leaders: one open fetch per leader broker, for all partitions that it leads (§12.4)."""

from __future__ import annotations

from broker.core.broker_node import directories, storage
from broker.core.broker_node.requests.fetch_sessions import INITIAL_EPOCH, NO_SESSION
from broker.core.broker_node.state import BrokerState, LeaderSession
from broker.core.log.validation import AppendError
from broker.core.messages import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.marks import sometimes
from broker.core.replica import follower
from broker.core.replica.state import Replica, Role

DIVERGED = sometimes("truncation: the log parts from the leader's and is cut (TR-1)")
DIVERGED_BY_STEPS = sometimes("truncation: the leader's epoch is not in the log, another step follows (TR-1)")
CUT_TO_NOTHING = sometimes("truncation: nothing of the log is left (TR-1)")
PRODUCERS_ROLLED_BACK = sometimes("truncation: the producers' state goes back with the log (TR-3)")
OUT_OF_RANGE_CUT = sometimes("out of range: the leader's log ends earlier, cut (TR-8)")
OUT_OF_RANGE_RESTART = sometimes("out of range: the leader's log begins later, start over (TR-8)")
OUT_OF_RANGE_KEPT = sometimes("out of range: by now the log fits (TR-8)")
OLD_ANSWER = sometimes("replica fetch: the answer is to another offset, epoch or topic and is passed over (TR-5)")
FENCED = sometimes("replica fetch: the leader is newer, metadata will tell (TR-7)")
BACKED_OFF = sometimes("replica fetch: the leader refuses, try again (TR-7)")
OUT_OF_RANGE = sometimes("replica fetch: out of range (TR-8)")
APPEND_REFUSED = sometimes("replica fetch: what the leader sent does not fit (TR-6)")
UNANSWERED = sometimes("replica fetch: no answer")
FOLLOWER_GOES_BACK = sometimes("high watermark: a follower's goes back (HW-5)")
LOG_START_FOLLOWS = sometimes("log start: a follower's follows the leader's (LO-3)")

FETCH = "replica-fetch"
RETRY = "replica-fetch-retry"
CUT = "late-cut"
LEADER_END = "leader-end"
LEADER_START = "leader-start"
CHANNEL = "replication"
OFFSETS_CHANNEL = "replication-offsets"

_LATEST, _EARLIEST = -1, -2
_LAST_EPOCH = (1 << 31) - 1
"""The last epoch of a fetch session before it wraps to 1."""


def fetch_from_all(broker: BrokerState) -> None:
    """Ensure that every followed leader has an open fetch."""
    for leader in sorted({r.leader for r in broker.replicas.values() if r.role is Role.FOLLOWER}):
        fetch_from(broker, leader)


def fetch_from(broker: BrokerState, leader: int) -> None:
    """Send a fetch to a leader, unless one is open or nothing is to be fetched now."""
    if leader in broker.fetching_from:
        return
    settings = broker.settings
    session = broker.leader_sessions.setdefault(leader, LeaderSession())
    wanted = _wanted(broker, leader, session)
    if not wanted:
        return
    parts, forgotten = _request_parts(session, wanted)
    session.asked = wanted
    broker.fetching_from[leader] = broker.runtime.send(
        leader,
        FetchRequest(
            parts,
            replica_id=broker.broker_id,
            replica_epoch=broker.broker_epoch,
            max_wait_ms=settings.replica_fetch_wait_max_ms,
            max_bytes=settings.replica_fetch_response_max_bytes,
            session_id=session.session_id,
            session_epoch=session.epoch,
            forgotten=forgotten,
            cluster_id=settings.cluster_id,
        ),
        channel=CHANNEL,
        timeout_ms=settings.replica_fetch_wait_max_ms + settings.request_timeout_ms,
        purpose=FETCH,
        context=leader,
    )


def _wanted(broker: BrokerState, leader: int, session: LeaderSession) -> dict[tuple[str, int], FetchPartition]:
    """The partitions to fetch from a leader now; unchanged entries are the same objects as before.

    Empty while one of the replicas waits for its fsync, whose completion fetches again, or for its place (TR-8): a
    fetch without this partition would be held for the others, and this one would wait with it. A cut can leave
    something to be synced too (TR-3).
    """
    now_ms = broker.runtime.now_ms
    wanted: dict[tuple[str, int], FetchPartition] = {}
    retry_at_ms = None
    lacks_place = False
    for key, replica in broker.replicas.items():
        if replica.role is not Role.FOLLOWER or replica.leader != leader:
            continue
        if replica.acknowledges_flushed_only and replica.log.flushed_offset < replica.log.end_offset:
            # a fetch at the log end acknowledges it: only once it is on the disk
            storage.flush(broker, replica)
            return {}
        if replica.retry_fetch_at_ms > now_ms:
            retry_at_ms = min(retry_at_ms or replica.retry_fetch_at_ms, replica.retry_fetch_at_ms)
            lacks_place |= replica.asks_for_place
            continue
        position = follower.fetch_position(replica, broker.rules, broker.settings.replica_fetch_max_bytes)
        before = session.asked.get(key)
        wanted[key] = position if before != position else before
    if retry_at_ms is not None:
        broker.runtime.set_timer((RETRY, leader), retry_at_ms - now_ms)
    return {} if lacks_place else wanted


def _request_parts(
    session: LeaderSession, wanted: dict[tuple[str, int], FetchPartition]
) -> tuple[tuple[FetchPartition, ...], tuple[tuple[str, str, int], ...]]:
    """FE-11: a request's content: all partitions if it begins a session, otherwise changed and dropped ones."""
    if session.epoch == INITIAL_EPOCH:
        return tuple(wanted.values()), ()
    forgotten = [
        (part.topic, part.topic_id, part.partition)
        for key, part in session.asked.items()
        if key not in wanted or wanted[key].topic_id != part.topic_id  # the topic was created again (KIP-516)
    ]
    return tuple(part for key, part in wanted.items() if part is not session.asked.get(key)), tuple(forgotten)


def fetched(broker: BrokerState, leader: int, response: FetchResponse | None) -> None:
    """Apply a leader's response by partition, then continue. An incremental one omits unchanged partitions."""
    broker.fetching_from.pop(leader, None)
    session = broker.leader_sessions[leader]
    all_are_answered = session.epoch == INITIAL_EPOCH
    answers: dict[tuple[str, int], FetchedPartition] = {}
    if response is None or response.error_code != ErrorCode.NONE:
        _end_session(session, response)
    else:
        names = broker.image.topic_names
        for part in response.partitions:
            key = (part.topic or names.get(part.topic_id, ""), part.partition)
            if key in session.asked and part.topic_id in ("", session.asked[key].topic_id):
                answers[key] = part
            else:  # of a topic that was deleted meanwhile; another of its name may be there
                broker.runtime.mark(OLD_ANSWER)
        _advance(session, response.session_id)
    for key, asked in session.asked.items():
        answer = answers.get(key)
        if answer is None and response is not None and not all_are_answered:
            continue
        replica = broker.replicas.get(key)
        # TR-5: the partition must still be followed, and be followed from this leader
        if replica is None or replica.role is not Role.FOLLOWER or replica.leader != leader:
            continue
        if answer is None:
            broker.runtime.mark(UNANSWERED)
            _pause(broker, replica)
        else:
            with directories.guarded(broker):
                _apply(broker, replica, asked, answer)
    fetch_from(broker, leader)


def _advance(session: LeaderSession, session_id: int) -> None:
    """The leader accepted the request: the next one may be incremental, if there is a session."""
    session.session_id = session_id
    if session_id == NO_SESSION:
        session.epoch = INITIAL_EPOCH
    else:
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1


def _end_session(session: LeaderSession, response: FetchResponse | None) -> None:
    """The session's state is unknown, or the leader has none: end it and send a full fetch."""
    if response is not None and response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
        session.session_id = NO_SESSION
    session.epoch = INITIAL_EPOCH


def _apply(broker: BrokerState, replica: Replica, asked: FetchPartition, answer: FetchedPartition) -> None:
    high_watermark, log_start = replica.high_watermark, replica.log.start_offset
    rolls_back = answer.diverging_epoch is not None and bool(replica.log.producers.states)
    try:
        outcome = follower.take_answer(replica, asked, answer, broker.rules)
    except AppendError as error:
        broker.runtime.mark(APPEND_REFUSED)
        broker.runtime.log("error", f"{replica.topic}-{replica.partition}: {error}")
        _pause(broker, replica)
        return
    _mark_answer(broker, replica, asked, answer)
    storage.checkpoint_lower_bounds(broker, replica, log_start, high_watermark)
    if outcome.truncated_to is not None:
        _tell_of_truncation(broker, replica, asked, answer, rolls_back=rolls_back)
    elif replica.high_watermark < high_watermark:
        broker.runtime.mark(FOLLOWER_GOES_BACK)
    if replica.log.start_offset > log_start:
        broker.runtime.mark(LOG_START_FOLLOWS)
    if replica.waiting_fetches:  # of consumers (FE-14)
        broker.touch(replica)
    if outcome.cut_later_to is not None:
        key = (CUT, *replica.key, outcome.cut_later_to)
        replica.retry_fetch_at_ms = broker.runtime.now_ms + broker.rules.truncation.ms_until_cut() + 1
        broker.runtime.set_timer(key, broker.rules.truncation.ms_until_cut())
    if outcome.appended or outcome.truncated_to is not None:
        storage.appended(broker, replica)
    if outcome.retry or outcome.wait_for_metadata:
        _pause(broker, replica)
    if outcome.out_of_range:
        _pause(broker, replica, asks_for_place=True)
        _ask_offset(broker, replica, _LATEST, LEADER_END)


def _mark_answer(broker: BrokerState, replica: Replica, asked: FetchPartition, answer: FetchedPartition) -> None:
    if (asked.current_leader_epoch, asked.topic_id) != (replica.leader_epoch, replica.topic_id):
        broker.runtime.mark(OLD_ANSWER)
    elif answer.error_code == ErrorCode.FENCED_LEADER_EPOCH:
        broker.runtime.mark(FENCED)
    elif answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        broker.runtime.mark(OUT_OF_RANGE)
    elif answer.error_code != ErrorCode.NONE:
        broker.runtime.mark(BACKED_OFF)


def _tell_of_truncation(
    broker: BrokerState, replica: Replica, asked: FetchPartition, answer: FetchedPartition, *, rolls_back: bool
) -> None:
    log = replica.log
    broker.runtime.log(
        "info",
        f"{replica.topic}-{replica.partition}: diverges from leader {replica.leader}; "
        f"cut from {asked.fetch_offset} to {log.end_offset}",
    )
    broker.runtime.mark(DIVERGED)
    if answer.diverging_epoch is not None and log.last_epoch < answer.diverging_epoch[0]:
        broker.runtime.mark(DIVERGED_BY_STEPS)
    if log.end_offset == log.start_offset:
        broker.runtime.mark(CUT_TO_NOTHING)
    if rolls_back:
        broker.runtime.mark(PRODUCERS_ROLLED_BACK)


def cut_late(broker: BrokerState, key: tuple[str, int], offset: int) -> None:
    """For rules without TR-5: make the cut that an earlier response asked for, whatever the replica's role now."""
    replica = broker.replicas.get(key)
    if replica is not None:
        with directories.guarded(broker):
            follower.truncate(replica, offset)
            storage.appended(broker, replica)


def _pause(broker: BrokerState, replica: Replica, *, asks_for_place: bool = False) -> None:
    """TR-7: back off, then retry."""
    replica.retry_fetch_at_ms = broker.runtime.now_ms + broker.settings.replica_fetch_backoff_ms
    replica.asks_for_place = asks_for_place


def _go_on(broker: BrokerState, replica: Replica) -> None:
    """TR-8: fetch without further delay; a leader whose log start moves on might be out of reach again."""
    replica.retry_fetch_at_ms = broker.runtime.now_ms
    replica.asks_for_place = False
    fetch_from(broker, replica.leader)


def _place_refused(broker: BrokerState, replica: Replica) -> None:
    """TR-7, TR-8: the leader does not say where its log lies; this partition backs off, the others go on."""
    replica.asks_for_place = False
    fetch_from(broker, replica.leader)


def _ask_offset(broker: BrokerState, replica: Replica, timestamp: int, purpose: str) -> None:
    broker.runtime.send(
        replica.leader,
        ListOffsetsRequest(
            (ListOffsetsPartition(replica.topic, replica.partition, timestamp, replica.leader_epoch),),
            replica_id=broker.broker_id,
        ),
        channel=OFFSETS_CHANNEL,
        timeout_ms=broker.settings.request_timeout_ms,
        purpose=purpose,
        context=replica.topic_id,
    )


def _still_asks(broker: BrokerState, asked: ListOffsetsPartition, topic_id: str) -> Replica | None:
    """TR-5: the replica that a question was about, if it is still of that topic and follows in that epoch."""
    replica = broker.replicas.get((asked.topic, asked.partition))
    if replica is None or replica.role is not Role.FOLLOWER or replica.topic_id != topic_id:
        return None
    return replica if replica.leader_epoch == asked.current_leader_epoch else None


def leader_end_known(
    broker: BrokerState, asked: ListOffsetsPartition, topic_id: str, response: ListOffsetsResponse
) -> None:
    """TR-8: the leader's log ends before ours: cut; otherwise it may begin after ours ends: ask.

    It is asked, too, where its log ends before ours begins: what was deleted here may be no part of it (TR-4).
    """
    answer = response.partitions[0]
    replica = _still_asks(broker, asked, topic_id)
    if replica is None:
        return
    if answer.error_code:
        _place_refused(broker, replica)
    elif answer.offset < replica.log.end_offset:
        broker.runtime.mark(OUT_OF_RANGE_CUT)
        log_start, high_watermark = replica.log.start_offset, replica.high_watermark
        with directories.guarded(broker):
            follower.truncate(replica, answer.offset)
            replica.log.remember_epoch(answer.leader_epoch, answer.offset)
            storage.checkpoint_lower_bounds(broker, replica, log_start, high_watermark)
            storage.appended(broker, replica)
        broker.runtime.log("warning", f"{replica.topic}-{replica.partition}: out of range; cut to {answer.offset}")
        if answer.offset < log_start:
            _ask_offset(broker, replica, _EARLIEST, LEADER_START)
        else:
            _go_on(broker, replica)
    else:
        _ask_offset(broker, replica, _EARLIEST, LEADER_START)


def leader_start_known(
    broker: BrokerState, asked: ListOffsetsPartition, topic_id: str, response: ListOffsetsResponse
) -> None:
    """TR-8: the leader's log begins after ours ends, or before ours, which is empty: restart our log there."""
    answer = response.partitions[0]
    replica = _still_asks(broker, asked, topic_id)
    if replica is None:
        return
    if answer.error_code:
        _place_refused(broker, replica)
        return
    log = replica.log
    is_apart = answer.offset > log.end_offset or answer.offset < log.start_offset == log.end_offset
    broker.runtime.mark(OUT_OF_RANGE_RESTART if is_apart else OUT_OF_RANGE_KEPT)
    if is_apart:
        with directories.guarded(broker):
            follower.restart_at(replica, answer.offset, answer.leader_epoch, broker.rules)
        broker.runtime.log("warning", f"{replica.topic}-{replica.partition}: restarts at {answer.offset}")
    _go_on(broker, replica)
