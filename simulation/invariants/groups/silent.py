"""Checks that a group's coordinator removes a member that it has not heard from for the time of its session (P-39), and
waits no longer for more members than it has to (V-26).

Of a broker that runs: what the member or the network does is no excuse. One that waits for an answer is not silent.
"""

from __future__ import annotations

import operator

from broker.core.broker_node.groups.state import Group, GroupState, Member
from broker.core.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from broker.core.ports.events import RequestReceived
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import brokers
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.progress.calm import INTERVAL_US
from simulation.invariants.properties import Violation

OF_MEMBERS = frozenset({HeartbeatRequest, JoinGroupRequest, OffsetCommitRequest, SyncGroupRequest})


def heard(known: Knowledge, broker_id: int, event: RequestReceived) -> None:
    """Note when a broker hears from a member."""
    member_id = getattr(event.request, "member_id", "")
    known.members_heard[broker_id, member_id] = known.cluster.now_us


def check(known: Knowledge, cluster: SimulatedCluster) -> None:
    """P-39 and V-26, twice a virtual second."""
    now_us, before, known.members_seen = cluster.now_us, known.members_seen, {}
    complete, known.complete_groups = known.complete_groups, {}
    for broker_id, state in brokers(cluster):
        for shard in state.coordinator.shards.values():
            for group in shard.groups.values():
                _check_begins(known, broker_id, group, complete.get((broker_id, group.group_id)), now_us)
                for member in group.members.values():
                    key = (broker_id, group.group_id, member.member_id)
                    seen = before.get(key)
                    waits = member.waiting_join is not None or member.waiting_sync is not None
                    if seen is None or seen[0] is not member or waits or group.state is GroupState.PREPARING_REBALANCE:
                        seen = member, now_us
                    known.members_seen[key] = seen
                    last_us = known.members_heard.get((broker_id, member.member_id), 0)
                    since_us = max(seen[1], last_us, known.calm.running_since(broker_id))
                    if now_us - since_us > removes_within_us(member):
                        raise Violation(
                            "P-39",
                            f"broker {broker_id} has member {member.member_id} in generation {group.generation} of "
                            f"group {group.group_id}, and has heard nothing for {(now_us - since_us) // MS} ms; its "
                            f"session lasts {member.session_timeout_ms} ms",
                        )


def _check_begins(
    known: Knowledge, broker_id: int, group: Group, before: tuple[tuple[Member, ...], int] | None, now_us: int
) -> None:
    """V-26: a generation begins within the delay after its last member has come, and that of the one before (KIP-134).

    `before`: the members that had all joined half a second ago, and since when.
    """
    members = tuple(group.members.values())
    is_complete = group.state is GroupState.PREPARING_REBALANCE and not group.pending_members and bool(members)
    if not is_complete or any(member.waiting_join is None for member in members):
        return
    same = before is not None and len(before[0]) == len(members) and all(map(operator.is_, before[0], members))
    since_us = before[1] if before is not None and same else now_us
    known.complete_groups[broker_id, group.group_id] = members, since_us
    within_us = 2 * known.settings.group_initial_rebalance_delay_ms * MS + 2 * INTERVAL_US
    if now_us - max(since_us, known.calm.running_since(broker_id)) > within_us:
        raise Violation(
            "V-26",
            f"broker {broker_id} has not begun a generation of group {group.group_id} for "
            f"{(now_us - since_us) // MS} ms, in which all of its members have joined",
        )


def removes_within_us(member: Member) -> int:
    """How long a coordinator may keep a silent member."""
    return member.session_timeout_ms * MS + 2 * INTERVAL_US
