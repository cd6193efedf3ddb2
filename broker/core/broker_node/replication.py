"""Fetching from leaders: one open fetch per leader broker, for all partitions that it leads (§12.4)."""

from __future__ import annotations

from broker.core.broker_node import storage
from broker.core.broker_node.state import BrokerState
from broker.core.errors import ErrorCode
from broker.core.log.errors import AppendError
from broker.core.messages import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from broker.core.replica import follower
from broker.core.replica.state import Replica, Role

FETCH = "replica-fetch"
RETRY = "replica-fetch-retry"
CUT = "late-cut"
LEADER_END = "leader-end"
LEADER_START = "leader-start"
CHANNEL = "replication"
OFFSETS_CHANNEL = "replication-offsets"

_LATEST, _EARLIEST = -1, -2


def fetch_from_all(broker: BrokerState) -> None:
    """See that every leader that we follow has an open fetch."""
    for leader in sorted({r.leader for r in broker.replicas.values() if r.role is Role.FOLLOWER}):
        fetch_from(broker, leader)


def fetch_from(broker: BrokerState, leader: int) -> None:
    """Open a fetch to a leader, unless there is one or nothing is to be fetched now."""
    if leader in broker.fetching_from:
        return
    now_ms = broker.runtime.now_ms
    settings = broker.settings
    parts: list[FetchPartition] = []
    retry_at_ms = None
    for replica in broker.replicas.values():
        if replica.role is not Role.FOLLOWER or replica.leader != leader:
            continue
        if replica.acknowledges_flushed_only and replica.log.flushed_offset < replica.log.end_offset:
            continue  # a fetch at the log end says "I have it": not before it is on the disk
        if replica.retry_fetch_at_ms > now_ms:
            retry_at_ms = min(retry_at_ms or replica.retry_fetch_at_ms, replica.retry_fetch_at_ms)
            continue
        parts.append(follower.fetch_position(replica, broker.rules, settings.replica_fetch_max_bytes))
    if retry_at_ms is not None:
        broker.runtime.set_timer((RETRY, leader), retry_at_ms - now_ms)
    if not parts:
        return
    broker.fetching_from[leader] = broker.runtime.send(
        leader,
        FetchRequest(
            tuple(parts),
            replica_id=broker.broker_id,
            replica_epoch=broker.broker_epoch,
            max_wait_ms=settings.replica_fetch_wait_max_ms,
            max_bytes=settings.replica_fetch_response_max_bytes,
            cluster_id=settings.cluster_id,
        ),
        channel=CHANNEL,
        timeout_ms=settings.replica_fetch_wait_max_ms + settings.request_timeout_ms,
        purpose=FETCH,
        context=leader,
    )


def fetched(broker: BrokerState, leader: int, request: FetchRequest, response: FetchResponse | None) -> None:
    """Apply a leader's answer, partition by partition, and go on."""
    broker.fetching_from.pop(leader, None)
    answers: dict[tuple[str, int], FetchedPartition] = {}
    if response is not None and response.error_code == ErrorCode.NONE:
        answers = {(part.topic, part.partition): part for part in response.partitions}
    for asked in request.partitions:
        replica = broker.replicas.get((asked.topic, asked.partition))
        # TR-5: the partition must still be followed, and be followed from this leader
        if replica is None or replica.role is not Role.FOLLOWER or replica.leader != leader:
            continue
        answer = answers.get(replica.key)
        if answer is None:
            _pause(broker, replica)
        else:
            _apply(broker, replica, asked, answer)
    fetch_from(broker, leader)


def _apply(broker: BrokerState, replica: Replica, asked: FetchPartition, answer: FetchedPartition) -> None:
    try:
        outcome = follower.take_answer(replica, asked, answer, broker.rules)
    except AppendError as error:
        broker.runtime.note("error", f"{replica.topic}-{replica.partition}: {error}")
        _pause(broker, replica)
        return
    if outcome.truncated_to is not None:
        broker.runtime.note(
            "info",
            f"{replica.topic}-{replica.partition}: diverges from leader {replica.leader}; "
            f"cut from {asked.fetch_offset} to {outcome.truncated_to}",
        )
    if outcome.cut_later_to is not None:
        key = (CUT, *replica.key, outcome.cut_later_to)
        broker.runtime.set_timer(key, broker.rules.truncation.ms_until_cut())
    if outcome.appended:
        storage.appended(broker, replica)
    if outcome.retry or outcome.wait_for_metadata:
        _pause(broker, replica)
    if outcome.out_of_range:
        _pause(broker, replica)
        _ask_offset(broker, replica, _LATEST, LEADER_END)


def cut_late(broker: BrokerState, key: tuple[str, int], offset: int) -> None:
    """Where TR-5 does not hold: make the cut that an earlier answer asked for, whatever the replica is by now."""
    replica = broker.replicas.get(key)
    if replica is not None:
        follower.truncate(replica, offset)


def _pause(broker: BrokerState, replica: Replica) -> None:
    """TR-7: back off, then try again."""
    replica.retry_fetch_at_ms = broker.runtime.now_ms + broker.settings.replica_fetch_backoff_ms


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
        context=(replica.topic, replica.partition, replica.leader_epoch),
    )


def leader_end_known(broker: BrokerState, key: tuple[str, int], epoch: int, response: ListOffsetsResponse) -> None:
    """TR-8: the leader's log ends before ours: cut; else it may begin after ours ends: ask."""
    replica = broker.replicas.get(key)
    answer = response.partitions[0]
    if replica is None or replica.role is not Role.FOLLOWER or replica.leader_epoch != epoch or answer.error_code:
        return
    if answer.offset < replica.log.end_offset:
        follower.truncate(replica, answer.offset)
        broker.runtime.note("warning", f"{replica.topic}-{replica.partition}: out of range; cut to {answer.offset}")
    else:
        _ask_offset(broker, replica, _EARLIEST, LEADER_START)


def leader_start_known(broker: BrokerState, key: tuple[str, int], epoch: int, response: ListOffsetsResponse) -> None:
    """TR-8: the leader's log begins after ours ends: begin anew there."""
    replica = broker.replicas.get(key)
    answer = response.partitions[0]
    if replica is None or replica.role is not Role.FOLLOWER or replica.leader_epoch != epoch or answer.error_code:
        return
    if answer.offset > replica.log.end_offset:
        follower.restart_at(replica, answer.offset, broker.rules)
        broker.runtime.note("warning", f"{replica.topic}-{replica.partition}: begins anew at {answer.offset}")
