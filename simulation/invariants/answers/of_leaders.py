"""Checks what followers ask of leaders, and make of the answers.

A follower goes on in the fetch session that its leader has accepted, in the next epoch, or begins another (P-45).
An answer is taken only for the log end and leader epoch with which it was asked for (P-42, TR-5). Where every record is
synced before it counts, a follower asks for what comes after those that are (P-61). After an error it asks for nothing
until its pause is over, and only an error or the silence of the leader that it follows makes it pause (P-62, TR-7); the
answer of a session leaves out the partitions without news.
"""

from __future__ import annotations

from broker.core.broker_node.requests.fetch_sessions import INITIAL_EPOCH, NO_SESSION
from broker.core.broker_node.state import BrokerState
from broker.core.messages import FetchRequest, FetchResponse
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import Event, RequestFailed, ResponseReceived, Send
from broker.core.replica.state import Replica, Role
from simulation.invariants.ghost import Pause
from simulation.invariants.knowledge import BrokerMirror
from simulation.invariants.properties import Violation


def asked(broker: BrokerMirror, state: BrokerState, sent: Send) -> None:
    """Note how far a follower is, and in which epoch, when it fetches from a leader."""
    if not isinstance(sent.request, FetchRequest):
        return
    positions = {
        key: (replica.log.end_offset, replica.leader_epoch)
        for key, replica in state.replicas.items()
        if replica.role is Role.FOLLOWER and replica.leader == sent.to
    }
    broker.fetches[sent.request_id] = sent.to, sent.request.session_epoch, positions
    _check_session(broker, sent.to, sent.request)
    _check_claims(broker, state, sent.request)
    for key in state.leader_sessions[sent.to].asked:
        _check_pause(broker, state, key)


def _check_session(broker: BrokerMirror, leader: int, request: FetchRequest) -> None:
    session_id, epoch = broker.sessions_accepted.pop(leader, (NO_SESSION, 0))
    if session_id != NO_SESSION and (request.session_id, request.session_epoch) != (session_id, epoch + 1):
        raise Violation(
            "P-45",
            f"broker {broker.broker_id} goes on with epoch {request.session_epoch} of fetch session "
            f"{request.session_id}, of which leader {leader} has accepted epoch {epoch} of session {session_id}",
        )


def _check_claims(broker: BrokerMirror, state: BrokerState, request: FetchRequest) -> None:
    """P-61: with flush.messages=1 a fetch at the log's end says that all before it is on the disk."""
    for part in request.partitions:
        topic = part.topic or state.image.topic_names.get(part.topic_id, "")
        replica = state.replicas.get((topic, part.partition))
        if replica is None or replica.log.config.flush_messages != 1 or part.fetch_offset != replica.log.end_offset:
            continue
        if replica.log.flushed_offset < part.fetch_offset and part.current_leader_epoch == replica.leader_epoch:
            raise Violation(
                "P-61",
                f"{replica.topic}-{replica.partition}: broker {broker.broker_id} fetches from {part.fetch_offset}; it "
                f"has flush.messages 1, and has synced its log up to {replica.log.flushed_offset}",
            )


def _check_pause(broker: BrokerMirror, state: BrokerState, key: tuple[str, int]) -> None:
    """P-62, for a partition that a fetch asks for, whether it names it or its session does."""
    mirror, replica = broker.mirrors.get(key), state.replicas.get(key)
    pauses = mirror.pauses if mirror is not None else None
    if mirror is None or replica is None or pauses is None or mirror.replica is not replica:
        return
    if pauses.leader_epoch == replica.leader_epoch and state.runtime.now_ms < pauses.until_ms:
        raise Violation(
            "P-62",
            f"{replica.topic}-{replica.partition}: broker {broker.broker_id} fetches again "
            f"{pauses.until_ms - state.runtime.now_ms} ms before the pause after its leader's error is over",
        )


def _check_reasons(broker: BrokerMirror, state: BrokerState, leader: int, named: frozenset[int] | None) -> None:
    """P-62, when a fetch from a leader has ended: no other leader's replica pauses. -1: another request has.

    `named`: the numbers of the partitions of which an answer in a session has news; None if all are answered, or none.
    """
    for key, mirror in broker.mirrors.items():
        replica = state.replicas.get(key)
        if replica is None or mirror.replica is not replica:
            continue
        before_ms, mirror.paused_ms = mirror.paused_ms, replica.retry_fetch_at_ms
        if replica.role is Role.FOLLOWER and replica.leader != leader >= 0 and replica.retry_fetch_at_ms > before_ms:
            raise Violation(
                "P-62",
                f"{replica.topic}-{replica.partition}: broker {broker.broker_id} follows leader {replica.leader}, and "
                f"pauses because of what {leader} has answered, or has not",
            )
        pauses = replica.role is Role.FOLLOWER and state.runtime.now_ms < replica.retry_fetch_at_ms > before_ms
        if pauses and replica.leader == leader and named is not None and replica.partition not in named:
            raise Violation(
                "P-62",
                f"{replica.topic}-{replica.partition}: broker {broker.broker_id} pauses though the answer of {leader} "
                f"in a fetch session, which leaves out what has no news, says nothing of it",
            )


def _named(event: Event) -> frozenset[int] | None:
    """The numbers of the partitions that an answer without an error has news of; None if it is none."""
    if not isinstance(event, ResponseReceived) or not isinstance(event.response, FetchResponse):
        return None
    answer = event.response
    return frozenset(part.partition for part in answer.partitions) if answer.error_code == ErrorCode.NONE else None


def check(broker: BrokerMirror, state: BrokerState, event: Event) -> None:
    """P-42 and P-62, before the mirrors are brought up to date: what the step has changed shows beside them."""
    if not isinstance(event, (ResponseReceived, RequestFailed)):
        return
    leader, epoch_asked, fetched = broker.fetches.pop(event.request_id, (-1, -1, None))
    _check_reasons(broker, state, leader, _named(event) if epoch_asked > INITIAL_EPOCH else None)
    if fetched is None or isinstance(event, RequestFailed):
        return
    if isinstance(event, ResponseReceived) and isinstance(event.response, FetchResponse):
        if event.response.error_code == ErrorCode.NONE:
            broker.sessions_accepted[leader] = event.response.session_id, epoch_asked
        _note_errors(broker, state, event.response, fetched)
    diverging = _diverging(state, event)
    for key, mirror in broker.mirrors.items():
        replica = state.replicas.get(key)
        if replica is None or mirror.replica is not replica or mirror.seen is None:
            continue
        end, high_watermark, _, epoch = mirror.seen[:4]
        if key in diverging:
            _check_diverging(broker, replica, high_watermark)
        if key in fetched and fetched[key] == (end, epoch):
            continue
        log = replica.log
        if replica.role is Role.FOLLOWER and (log.end_offset, replica.high_watermark) != (end, high_watermark):
            raise Violation(
                "P-42",
                f"{replica.topic}-{replica.partition}: broker {broker.broker_id}, at {end} in leader epoch {epoch}, "
                f"has applied the answer to a fetch that was sent at {fetched.get(key)} (log end, leader epoch): it is "
                f"at {log.end_offset}, high watermark {replica.high_watermark}, which was {high_watermark}",
            )


def _diverging(state: BrokerState, event: Event) -> frozenset[tuple[str, int]]:
    """The partitions of which an answer tells where the follower's log differs from the leader's."""
    if not isinstance(event, ResponseReceived) or not isinstance(event.response, FetchResponse):
        return frozenset()
    return frozenset(
        (part.topic or state.image.topic_names.get(part.topic_id, ""), part.partition)
        for part in event.response.partitions
        if part.diverging_epoch is not None
    )


def _check_diverging(broker: BrokerMirror, replica: Replica, before: object) -> None:
    """P-42: an answer that tells where logs differ says nothing of what is committed (HW-5); deleted is deleted."""
    assert isinstance(before, int)
    if replica.high_watermark > max(before, replica.log.start_offset):
        raise Violation(
            "P-42",
            f"{replica.topic}-{replica.partition}: broker {broker.broker_id} moves its high watermark from {before} "
            f"to {replica.high_watermark} by an answer that tells where its log differs from the leader's; its log "
            f"begins at {replica.log.start_offset}",
        )


def _note_errors(
    broker: BrokerMirror, state: BrokerState, response: FetchResponse, fetched: dict[tuple[str, int], tuple[int, int]]
) -> None:
    """Note of which partitions a leader has answered an error.

    Where the offset is out of range the follower asks for the leader's, and goes on at once when it has them (TR-8):
    from then on its pauses are not judged in this leader epoch.
    """
    for part in response.partitions:
        if part.error_code == ErrorCode.NONE:
            continue
        key = (part.topic or state.image.topic_names.get(part.topic_id, ""), part.partition)
        mirror, replica = broker.mirrors.get(key), state.replicas.get(key)
        if mirror is None or replica is None or mirror.replica is not replica or not mirror.seen:
            continue
        before = (mirror.seen[0], mirror.seen[3])
        if part.topic_id not in ("", replica.topic_id):
            continue  # the topic was created again
        if replica.role is not Role.FOLLOWER or fetched.get(key) != before or replica.leader_epoch != before[1]:
            continue
        epoch = replica.leader_epoch
        goes_on = mirror.pauses is not None and mirror.pauses == (epoch, -1)
        is_out_of_range = part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        until_ms = state.runtime.now_ms + state.settings.replica_fetch_backoff_ms
        mirror.pauses = Pause(epoch, -1 if goes_on or is_out_of_range else until_ms)
