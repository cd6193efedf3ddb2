"""Checks that members of the ISR that lag leave it in time (V-13), and that replicas outside return in time (V-14).

Both during faults, as long as no fault touches those who have to act: the leader, a controller with a majority of the
voters, and for a return the replica itself. The bounds are the lag time with the interval of its check, and a few
time-outs of requests that went out before the last fault ended.
"""

from __future__ import annotations

from broker.core.metadata.records import PartitionState
from broker.core.replica.state import Role
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.invariants import directories as log_directories
from simulation.invariants.ghost import Ghost
from simulation.invariants.groups import silent
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.progress import (
    compaction,
    directories,
    flushes,
    followers,
    leaders,
    requests,
    retention,
    stops,
    waits,
    watermarks,
)
from simulation.invariants.progress.calm import INTERVAL_US, Stuck
from simulation.invariants.properties import Violation

_TIMEOUTS = 3
"""A request that is lost with the last fault, the one by which its sender learns whom to ask, and the next attempt."""


def check(known: Knowledge, cluster: SimulatedCluster) -> None:
    """V-8, V-13 to V-24, V-30 and P-39, twice a virtual second."""
    calm = known.calm
    if cluster.now_us < calm.next_us:
        return
    calm.next_us = cluster.now_us + INTERVAL_US
    works = calm.look(cluster)
    requests.check(known, cluster, _patience_us(known), works=works)
    followers.check(known, cluster, _patience_us(known), works=works)
    leaders.check(known, cluster, _patience_us(known), works=works)
    watermarks.check(known, cluster)
    waits.check_fetches(known, cluster)
    waits.check_metadata_fetches(cluster)
    compaction.check(known, cluster)
    flushes.check(known, cluster)
    retention.check(known, cluster)
    stops.check(known, cluster)
    silent.check(known, cluster)
    if len(known.settings.log_dirs) > 1:
        directories.check(known, cluster, _patience_us(known), works=works)
    for (topic_id, number), ghost in known.partitions.items():
        state = ghost.state
        key = (topic_id, number)
        if state is None or calm.epochs.get(key) != state.leader_epoch:
            calm.epochs[key] = -1 if state is None else state.leader_epoch
            for member in known.brokers:
                calm.stuck.pop((*key, member), None)
                calm.outside.pop((*key, member), None)
        if state is None or not _leads(known, ghost, state):
            continue
        for member in state.replicas:
            if member == state.leader:
                continue
            if member in state.isr:
                calm.outside.pop((*key, member), None)
                _check_laggard(known, ghost, state, (*key, member), cluster.now_us, works=works)
            else:
                calm.stuck.pop((*key, member), None)
                _check_outside(known, ghost, state, (*key, member), cluster.now_us, works=works)


def _leads(known: Knowledge, ghost: Ghost, state: PartitionState) -> bool:
    """Whether the partition's leader is active, by what is committed."""
    return state.leader >= 0 and known.image.is_active(state.leader) and ghost.state is state


def _has_failed(known: Knowledge, ghost: Ghost, member: int) -> bool:
    """Whether the log directory of a replica fails: V-15 then says what becomes of it."""
    mirror = ghost.mirrors.get(member)
    return mirror is not None and (member, log_directories.of(mirror)) in known.calm.failing


def shrinks_within_us(known: Knowledge) -> int:
    """How long a laggard may stay after its lag time, once its leader and the controller are undisturbed."""
    return _patience_us(known) + known.settings.replica_lag_time_max_ms * MS // 2


def returns_within_us(known: Knowledge) -> int:
    """How long a replica may stay outside while it, its leader and the controller are undisturbed."""
    waits_ms = known.settings.replica_fetch_wait_max_ms + known.settings.metadata_fetch_wait_max_ms
    return _patience_us(known) + (waits_ms + known.settings.replica_fetch_backoff_ms) * MS


def _patience_us(known: Knowledge) -> int:
    settings = known.settings
    each_ms = settings.request_timeout_ms + settings.metadata_retry_backoff_ms
    return (_TIMEOUTS * each_ms + settings.controller_quorum_request_timeout_ms) * MS


_FEW_BYTES = 10_000
"""A replica that fetches fewer bytes at once gets a log in many pieces, each of which may be lost and come again."""


def _check_laggard(
    known: Knowledge, ghost: Ghost, state: PartitionState, key: tuple[str, int, int], now_us: int, *, works: bool
) -> None:
    calm, member = known.calm, key[2]
    leader, follower = ghost.mirrors.get(state.leader), ghost.mirrors.get(member)
    end = len(follower.entries) if follower is not None else 0
    if leader is None or leader.role is not Role.LEADER or end >= len(leader.entries):
        calm.stuck.pop(key, None)
        return
    stuck = calm.stuck.get(key)
    if stuck is None or stuck.log_end != end:
        calm.stuck[key] = Stuck(end, now_us)
        return
    lag_us = known.settings.replica_lag_time_max_ms * MS
    since_us = max(stuck.since_us + lag_us + lag_us // 2, calm.since(state.leader))
    if works and now_us - since_us > shrinks_within_us(known):
        raise Violation(
            "V-13",
            f"{ghost}: broker {member} is in the ISR {list(state.isr)} with the log end {end}, which has not moved for "
            f"{(now_us - stuck.since_us) // MS} ms; the log of leader {state.leader} ends at {len(leader.entries)}, "
            f"the lag time is {lag_us // MS} ms",
        )


def _log_end(ghost: Ghost, member: int) -> int:
    mirror = ghost.mirrors.get(member)
    return 0 if mirror is None else len(mirror.entries)


def _check_outside(
    known: Knowledge, ghost: Ghost, state: PartitionState, key: tuple[str, int, int], now_us: int, *, works: bool
) -> None:
    calm, member = known.calm, key[2]
    is_ready = known.image.is_active(member) and member not in state.offline
    if calm.failing and (_has_failed(known, ghost, member) or _has_failed(known, ghost, state.leader)):
        is_ready = False
    if not is_ready or known.brokers[member].broker_epoch != known.image.broker_epoch(member):
        calm.outside.pop(key, None)
        return
    outside = calm.outside.setdefault(key, Stuck(_log_end(ghost, member), now_us))
    if known.settings.replica_fetch_max_bytes < _FEW_BYTES and outside.log_end != _log_end(ghost, member):
        outside = calm.outside[key] = Stuck(_log_end(ghost, member), now_us)
    since_us = max(
        outside.since_us,
        calm.since(member),
        calm.since(state.leader),
        calm.link_since(member, state.leader),
    )
    if works and now_us - since_us > returns_within_us(known):
        raise Violation(
            "V-14",
            f"{ghost}: broker {member} is outside of the ISR {list(state.isr)} of leader {state.leader}, epoch "
            f"{state.leader_epoch}, though nothing has disturbed either for {(now_us - since_us) // MS} ms",
        )
