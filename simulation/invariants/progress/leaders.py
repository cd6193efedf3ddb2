"""Checks that partitions get leaders in time (V-20), and that a quorum leader without voters steps down (V-21).

During faults: a partition waits for no more than what the documents have it wait for, a member of the ISR or the ELR
that is active, or the logs that a recovery needs; and a controller that no majority can reach must stop leading, so
that those which it can reach look for another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.core.controller.state import RecoveryJob
from broker.core.metadata.records import PartitionState
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.machine import SimulatedMachine
from simulation.engine.node_views import controller_state, leading
from simulation.invariants.ghost import Ghost
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.progress.calm import INTERVAL_US, Leaderless
from simulation.invariants.properties import Violation

_RECOVERY_WAITS_MS = 1_500
"""UR-6, UR-7: how long a recovery waits for logs that it does not need, and until it begins again."""

_BEGUN_WITHIN_MS = 1_500
"""UR-3, UR-4: how long a recovery may take to begin: at once, and again half a second after it was given up."""

_DECIDED_WITHIN_MS = 1_500
"""UR-6: when a recovery must be over that nothing keeps from the logs that it needs: the first of these waits, and
slow messages."""


class _Candidates(NamedTuple):
    """Who may be made the leader of a partition without one."""

    why: str
    """What has to be there for an election, in words."""

    members: frozenset[int]
    """Brokers; one suffices, unless logs are compared."""

    by_log: bool = False
    """Whether their logs are compared first, in a recovery."""

    all_are_asked: bool = False
    """Whether that needs the logs of all of them, so that each must be able to answer."""


_NOBODY = _Candidates("", frozenset())


def check(known: Knowledge, cluster: SimulatedCluster, patience_us: int, *, works: bool) -> None:
    """V-20 and V-21, twice a virtual second. `patience_us`: what a change of the metadata may take."""
    if "V-21" not in known.unjudged:
        _check_quorum(known, cluster)
    controller = leading(cluster)
    recoveries = {} if controller is None else controller.recoveries
    _check_recoveries(known, recoveries if works else {}, cluster.now_us)
    leaderless = known.calm.leaderless
    for key, ghost in known.partitions.items():
        state = ghost.state
        if state is None or state.leader >= 0:
            leaderless.pop(key, None)
            continue
        found = _candidates(known, ghost, state)
        noted = leaderless.get(key)
        same = noted.members & found.members if noted is not None and noted.why == found.why else frozenset()
        if noted is None or not same or (found.all_are_asked and noted.members != found.members):
            leaderless[key] = Leaderless(found.why, found.members, cluster.now_us)
            continue
        noted.members = same
        if works and same:
            if key in recoveries:
                noted.recovers_us = cluster.now_us
            _check_elected(known, ghost, found, noted, cluster.now_us, patience_us)


def recovers_within_us(known: Knowledge) -> int:
    """How long a recovery may take while those whose logs it needs are undisturbed: two attempts, and its waits."""
    return (2 * known.settings.request_timeout_ms + _RECOVERY_WAITS_MS) * MS + 2 * INTERVAL_US


def steps_down_within_us(known: Knowledge) -> int:
    """QU-13: how long a quorum leader may go on without a majority that can reach it: the time, and one check of it."""
    return 2 * known.settings.controller_quorum_fetch_timeout_ms * MS + 2 * INTERVAL_US


def _check_elected(
    known: Knowledge, ghost: Ghost, found: _Candidates, noted: Leaderless, now_us: int, patience_us: int
) -> None:
    since_us = max(noted.since_us, known.calm.majority_us)
    is_late = now_us - since_us > patience_us
    if found.by_log:
        since_us = max(since_us, *(known.calm.since(member) for member in noted.members))
        is_late = now_us - since_us > recovers_within_us(known)
        is_late = is_late or now_us - max(since_us, noted.recovers_us) > _BEGUN_WITHIN_MS * MS
    if is_late:
        assert ghost.state is not None
        raise Violation(
            "V-20",
            f"{ghost}: nobody leads (ISR {list(ghost.state.isr)}, ELR {list(ghost.state.elr)}, last known "
            f"{list(ghost.state.last_known_elr)}), though {found.why}: {sorted(noted.members)}, and nothing has "
            f"disturbed the election for {(now_us - since_us) // MS} ms",
        )


def _candidates(known: Knowledge, ghost: Ghost, state: PartitionState) -> _Candidates:
    """EL-1, EL-6, UR-3, UR-4: whom the controller has to elect, by what is committed."""
    active = frozenset(
        member for member in state.replicas if known.image.is_active(member) and member not in state.offline
    )
    complete = active & frozenset(state.isr or state.elr)
    if complete:
        return _Candidates("members of the ISR or, if that is empty, of the ELR are active", complete)
    if known.elects_longest_logs:
        return _recoverable(known, ghost, state, active)
    if known.settings.unclean_leader_election_enable and not _is_altered(known, ghost):
        return _Candidates("replicas are active, and any may be elected", active)
    if known.generation == "K4" and not state.isr and not state.elr:
        return _Candidates("the last leader is active", active & {*state.last_known_elr})
    return _NOBODY


def _recoverable(known: Knowledge, ghost: Ghost, state: PartitionState, active: frozenset[int]) -> _Candidates:
    if _is_altered(known, ghost):
        return _NOBODY
    settings = known.settings
    active = frozenset(member for member in active if _can_answer(known, ghost, member))
    strategy = settings.unclean_recovery_strategy
    if strategy == "proactive" or (not strategy and settings.unclean_leader_election_enable):
        return _Candidates("replicas are active, and the longest log of any may be elected", active, by_log=True)
    if strategy == "manual" or state.isr or state.elr:
        return _NOBODY
    needed = frozenset(state.last_known_elr if len(state.last_known_elr) >= known.min_isr(ghost) else state.replicas)
    if not needed <= active:
        return _NOBODY
    return _Candidates("all whose logs are to be compared are active", needed, by_log=True, all_are_asked=True)


def _can_answer(known: Knowledge, ghost: Ghost, member: int) -> bool:
    """UR-7, UR-15: whether an active broker's process is the registered one, has the log and knows the leader epoch."""
    broker, mirror = known.brokers[member], ghost.mirrors.get(member)
    return (
        broker.broker_epoch == known.image.broker_epoch(member)
        and mirror is not None
        and mirror.incarnation == broker.incarnation
        and ghost.state is not None
        and mirror.leader_epoch >= ghost.state.leader_epoch
    )


def _is_altered(known: Knowledge, ghost: Ghost) -> bool:
    """Whether an operator has changed the settings that allow unclean elections: V-3 waits for their end."""
    names = ("unclean.leader.election.enable", "unclean.recovery.strategy")
    return any(known.image.setting(ghost.topic, name) is not None for name in names)


def _check_recoveries(known: Knowledge, going_on: Mapping[tuple[str, int], RecoveryJob], now_us: int) -> None:
    """V-20, of the recoveries that the active controller has begun."""
    calm = known.calm
    for key in [key for key in calm.recoveries if key not in going_on]:
        del calm.recoveries[key]
    for key, job in going_on.items():
        noted = calm.recoveries.get(key)
        if noted is None or noted[0] is not job:
            calm.recoveries[key] = job, now_us, now_us
            continue
        _, began_us, since_us = noted
        waits_for = job.needed or tuple(job.infos)
        if not all(_can_answer(known, known.partitions[key], member) for member in waits_for):
            calm.recoveries[key] = job, began_us, now_us
            continue
        disturbed_us = max((calm.since(member) for member in waits_for), default=began_us)
        if max(disturbed_us, calm.majority_us) > began_us - INTERVAL_US:
            continue  # it may have asked in vain, and asks again when its request has timed out
        if now_us - since_us >= _DECIDED_WITHIN_MS * MS:
            raise Violation(
                "V-20",
                f"{known.partitions[key]}: the recovery has not ended after {(now_us - since_us) // MS} ms in "
                f"which nothing has disturbed brokers {list(waits_for)}, whose logs suffice; it has asked "
                f"{sorted(job.asked)}, and {sorted(job.infos)} have answered",
            )


def _check_quorum(known: Knowledge, cluster: SimulatedCluster) -> None:
    calm = known.calm
    voters = [machine for machine in cluster.machines.values() if machine.settings.is_controller]
    for machine in voters:
        node_id = machine.settings.node_id
        state = controller_state(machine.node)
        fetchers = sum(_may_reach(cluster, one, machine) for one in voters if one is not machine)
        if state is None or not state.quorum.leads or 1 + fetchers > len(voters) // 2:
            calm.alone.pop(node_id, None)
            continue
        key = state.quorum.epoch, *(one.incarnation for one in voters)  # one that has started since may have reached it
        noted, noted_us = calm.alone.get(node_id, (key, cluster.now_us))
        if noted != key:
            noted_us = cluster.now_us
        calm.alone[node_id] = key, noted_us
        reached_us = (_may_have_reached_us(known, cluster, one, node_id) for one in voters if one is not machine)
        since_us = max(noted_us, calm.running_since(node_id), *reached_us)
        if cluster.now_us - since_us > steps_down_within_us(known):
            raise Violation(
                "V-21",
                f"controller {node_id} leads epoch {state.quorum.epoch} of the quorum, though no majority of voters "
                f"has been able to reach it for {(cluster.now_us - since_us) // MS} ms",
            )


def _may_have_reached_us(known: Knowledge, cluster: SimulatedCluster, voter: SimulatedMachine, leader: int) -> int:
    """When what a voter had sent may last have arrived, though nothing can now: it may have been between two looks.

    What was held on a link arrives when it is mended, even from a dead voter; a frozen one goes on when it is resumed.
    """
    network, link = cluster.network, (voter.settings.node_id, leader)
    undisturbed_us = 0 if link in network.cut else known.calm.link_since(*link)
    return max(undisturbed_us, network.mended_us.get(link, 0), voter.resumed_us)


def _may_reach(cluster: SimulatedCluster, voter: SimulatedMachine, leader: SimulatedMachine) -> bool:
    """Whether a fetch of a voter may arrive at a leader, late ones of an earlier time included."""
    network = cluster.network
    link = voter.settings.node_id, leader.settings.node_id
    is_late = link in network.stalled or any((source, target) == link for source, target, _ in network.late)
    return is_late or (voter.node is not None and not voter.paused and link not in network.cut)
