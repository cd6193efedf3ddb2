"""Checks what a leader knows of its followers after their fetches: how far each is, of which incarnation (P-63)."""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.messages import UNKNOWN, FetchRequest
from broker.core.replica.state import Replica, Role
from simulation.invariants.knowledge import BrokerMirror, SeenFollower
from simulation.invariants.properties import Violation


def fetched(broker: BrokerMirror, state: BrokerState, request: FetchRequest) -> None:
    """P-63, after a step in which a follower has fetched: it had caught up when LG-1 says so, or later.

    Now, if it has fetched at the leader's end; at its fetch before this one, if it has reached the end that the leader
    had then. Otherwise it would leave the ISR though it follows closely (KAFKA-1546).
    """
    member = request.replica_id
    for replica in state.replicas.values():
        remote = replica.remotes.get(member)
        if remote is None or replica.role is not Role.LEADER:
            continue
        key = (replica.topic, replica.partition, member)
        before = broker.followers.get(key)
        now = SeenFollower(
            replica,
            replica.leader_epoch,
            remote.last_fetch_ms,
            remote.leader_end_at_last_fetch,
            remote.caught_up_ms,
            remote.log_end,
            remote.broker_epoch,
        )
        if now == before:
            continue
        broker.followers[key] = now
        if before is None or before.replica is not replica or before.leader_epoch != now.leader_epoch:
            continue
        if UNKNOWN < now.broker_epoch < before.broker_epoch and state.rules.fetch.check_replica_epoch(
            now.broker_epoch, before.broker_epoch, before.broker_epoch
        ):
            raise Violation(
                "P-63",
                f"{replica.topic}-{replica.partition}: leader {broker.broker_id} counts a fetch of broker {member} "
                f"in broker epoch {now.broker_epoch}, after one in {before.broker_epoch}",
            )
        has_moved = before.log_end != now.log_end and _names(request, replica)
        if has_moved and now.fetched_ms != state.runtime.now_ms:
            raise Violation(
                "P-63",
                f"{replica.topic}-{replica.partition}: broker {member} has fetched from {remote.log_end} at "
                f"{state.runtime.now_ms} ms; leader {broker.broker_id} takes it to have fetched at {now.fetched_ms} ms",
            )
        if before.fetched_ms == now.fetched_ms:
            continue  # two fetches in one millisecond
        expected_ms = before.caught_up_ms
        if remote.log_end >= now.leader_end:
            expected_ms = now.fetched_ms
        elif before.leader_end != UNKNOWN and remote.log_end >= before.leader_end:
            expected_ms = max(expected_ms, before.fetched_ms)
        if now.caught_up_ms < expected_ms:
            raise Violation(
                "P-63",
                f"{replica.topic}-{replica.partition}: broker {member} has fetched from {remote.log_end} at "
                f"{now.fetched_ms} ms, when the log of leader {broker.broker_id} ended at {now.leader_end}, and before "
                f"at {before.fetched_ms} ms, when it ended at {before.leader_end}; the leader takes it to have caught "
                f"up at {now.caught_up_ms} ms, not {expected_ms} ms",
            )


def _names(request: FetchRequest, replica: Replica) -> bool:
    """Whether a fetch names a replica's partition; one of a session names those alone that it has news of."""
    return any(
        part.partition == replica.partition
        and (part.topic == replica.topic if part.topic else part.topic_id == replica.topic_id)
        for part in request.partitions
    )
