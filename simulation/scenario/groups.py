"""The consumer group of a simulation: its members, the settings that it needs, and that it settles at last (V-11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypedDict

from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.invariants.properties import Violation
from simulation.scenario.configuration import Configuration
from simulation.workload.members import (
    GROUP,
    INITIAL_DELAY_MS,
    OFFSETS_PARTITIONS,
    SESSION_MS,
    MemberPlan,
    SimulatedMember,
)
from simulation.workload.recording import SimulatedHistory

_SEGMENT_BYTES = 2_000
"""So small that the groups' records are compacted."""

_COMMIT_TIMEOUT_MS = 1_000
"""Shorter than the broker's default, and than the time that members wait for an answer."""

_INTERVAL_MS = 700
_ASK_EVERY_US = 10 * MS


class GroupSettings(TypedDict):
    """Settings of the brokers, as in `broker.core.configuration.settings`."""

    offsets_topic_num_partitions: int
    offsets_topic_segment_bytes: int
    offsets_commit_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_min_session_timeout_ms: int


def group_settings() -> GroupSettings:
    """What brokers need so that much happens to a group within a minute."""
    return {
        "offsets_topic_num_partitions": OFFSETS_PARTITIONS,
        "offsets_topic_segment_bytes": _SEGMENT_BYTES,
        "offsets_commit_timeout_ms": _COMMIT_TIMEOUT_MS,
        "group_initial_rebalance_delay_ms": INITIAL_DELAY_MS,
        "group_min_session_timeout_ms": SESSION_MS,
    }


class SimulatedGroup:
    """The members of the group; there may be none."""

    def __init__(self, configuration: Configuration, ids: Iterator[int], history: SimulatedHistory) -> None:
        brokers = range(1, configuration.brokers + 1)
        self.members = [
            SimulatedMember(
                next(ids),
                MemberPlan(
                    configuration.partitions,
                    brokers,
                    _INTERVAL_MS,
                    is_static=configuration.static_members and not number,
                ),
                history,
            )
            for number in range(configuration.group_members)
        ]

    @property
    def has_answers(self) -> bool:
        """Whether the committed offset of every partition was answered in the final phase."""
        return not any(member.unanswered for member in self.members)

    def start(self, cluster: SimulatedCluster) -> None:
        """Let the members join."""
        for member in self.members:
            member.start(cluster)

    def settle(self, cluster: SimulatedCluster, within_ms: int) -> None:
        """V-11, after healing; then the members stop. Raises `Violation`."""
        for member in self.members:
            member.calm = True
        if not cluster.run_until(cluster.now_us + within_ms * MS, partial(is_settled, self.members), _ASK_EVERY_US):
            raise Violation(
                "V-11", f"{_unsettled(self.members)}, {within_ms // 1_000} s after the last fault was healed"
            )
        for member in self.members:
            member.give_up(cluster)

    def begin_final(self, cluster: SimulatedCluster) -> None:
        """Let one member ask for every committed offset."""
        for member in self.members[:1]:
            member.begin_final(cluster)


def is_settled(members: Sequence[SimulatedMember]) -> bool:
    """Whether the members are in one generation, and own and have committed every partition."""
    owned = sorted(partition for member in members for partition in member.owned.positions)
    return not members or (
        all(member.is_settled for member in members)
        and len({member.generation for member in members}) == 1
        and owned == list(range(members[0].plan.partitions))
    )


def _unsettled(members: Sequence[SimulatedMember]) -> str:
    each = (
        f"{member.member_id or 'a client without member id'} in generation {member.generation} has the partitions "
        f"{member.owned.positions} (next offset), and has committed {sorted(member.committed)}"
        for member in members
    )
    return f"the group {GROUP} is not settled: {'; '.join(each)}"
