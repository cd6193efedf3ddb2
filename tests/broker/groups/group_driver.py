"""Members of a group, driven step by step against the deterministic cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.core.broker_node.groups.records import OFFSETS_TOPIC, partition_of
from broker.core.messages import FindCoordinatorRequest, FindCoordinatorResponse
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.support.cluster import TOPIC, Cluster

GROUP = "readers"
SESSION_MS = 6_000
REBALANCE_MS = 10_000
BROKERS = (1, 2, 3)


def make_cluster(**settings: object) -> Cluster:
    """Three brokers, a topic of two partitions, and groups without initial delay."""
    cluster = Cluster(**{"group_initial_rebalance_delay_ms": 100, **settings})  # type: ignore[arg-type]
    cluster.create_topic(partitions=2)
    return cluster


def living(cluster: Cluster) -> int:
    return next(number for number in BROKERS if cluster.machines[number].node is not None)


def coordinator_of(cluster: Cluster, group_id: str = GROUP) -> int:
    """Send FindCoordinator until there is a coordinator that serves the group."""

    def found() -> int:
        answer = cluster.call(living(cluster), FindCoordinatorRequest(0, (group_id,)))
        assert isinstance(answer, FindCoordinatorResponse)
        coordinator = answer.coordinators[0]
        if coordinator.error_code != ErrorCode.NONE or cluster.machines[coordinator.node_id].node is None:
            return 0
        described = cluster.call(coordinator.node_id, DescribeGroupsRequest((group_id,)))
        serves = described.groups[0].error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)  # type: ignore[union-attr]
        return coordinator.node_id if serves else 0

    cluster.run_until(lambda: bool(found()))
    return found()


def describe(cluster: Cluster, group_id: str = GROUP) -> DescribedGroup:
    answer = cluster.call(coordinator_of(cluster, group_id), DescribeGroupsRequest((group_id,)))
    return answer.groups[0]  # type: ignore[union-attr, return-value]


def replica_of_group(cluster: Cluster, number: int, group_id: str = GROUP) -> dict[str, object]:
    """A broker's state of its replica of the group's partition of the offsets topic."""
    node = cluster.machines[number].node
    partitions = cluster.machines[number].settings.offsets_topic_num_partitions
    for state in node.describe()["partitions"] if node else ():  # type: ignore[attr-defined]
        if (state["topic"], state["partition"]) == (OFFSETS_TOPIC, partition_of(group_id, partitions)):
            return state  # type: ignore[no-any-return]
    return {}


@dataclass
class Driver:
    """One member. Every method calls the coordinator found at the driver's creation or last `moved`."""

    cluster: Cluster
    coordinator: int
    group_id: str = GROUP
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    protocols: tuple[tuple[str, bytes], ...] = (("range", b"wants log"),)
    assignment: bytes = b""
    joined: JoinGroupResponse | None = field(default=None, repr=False)

    def moved(self) -> None:
        self.coordinator = coordinator_of(self.cluster, self.group_id)

    def ask_join(self, api_version: int = 3, session_ms: int = SESSION_MS) -> int:
        request = JoinGroupRequest(
            self.group_id, session_ms, REBALANCE_MS, self.member_id, "consumer", self.protocols, self.instance_id
        )
        return self.cluster.ask(self.coordinator, request, api_version)

    def take_join(self, own_id: int) -> JoinGroupResponse:
        answer = self.cluster.answers[own_id]
        assert isinstance(answer, JoinGroupResponse)
        self.joined = answer
        if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = answer.member_id
            self.generation = answer.generation_id
        return answer

    def join(self, api_version: int = 3, session_ms: int = SESSION_MS) -> JoinGroupResponse:
        own_id = self.ask_join(api_version, session_ms)
        self.cluster.run_until(lambda: own_id in self.cluster.answers)
        return self.take_join(own_id)

    @property
    def leads(self) -> bool:
        return self.joined is not None and self.joined.leader == self.member_id

    def ask_sync(self, assignments: dict[str, bytes] | None = None) -> int:
        given = tuple((assignments or {}).items())
        return self.cluster.ask(
            self.coordinator,
            SyncGroupRequest(self.group_id, self.generation, self.member_id, given, self.instance_id),
        )

    def take_sync(self, own_id: int) -> int:
        answer = self.cluster.answers[own_id]
        assert isinstance(answer, SyncGroupResponse)
        if answer.error_code == ErrorCode.NONE:
            self.assignment = answer.assignment
        return answer.error_code

    def heartbeat(self) -> int:
        request = HeartbeatRequest(self.group_id, self.generation, self.member_id, self.instance_id)
        return self.cluster.call(self.coordinator, request).error_code  # type: ignore[union-attr]

    def leave(self) -> int:
        leaving = (LeavingMember(self.member_id, self.instance_id),)
        answer = self.cluster.call(self.coordinator, LeaveGroupRequest(self.group_id, leaving))
        return answer.error_code or answer.members[0].error_code  # type: ignore[union-attr]

    def ask_commit(self, offset: int, partition: int = 0, topic: str = TOPIC, metadata: str = "") -> int:
        part = OffsetCommitPartition(topic, partition, offset, 0, metadata)
        request = OffsetCommitRequest(self.group_id, self.generation, self.member_id, (part,), self.instance_id)
        return self.cluster.ask(self.coordinator, request)

    def commit(self, offset: int, partition: int = 0, topic: str = TOPIC, metadata: str = "") -> int:
        own_id = self.ask_commit(offset, partition, topic, metadata)
        self.cluster.run_until(lambda: own_id in self.cluster.answers)
        return self.cluster.error_of(own_id)  # type: ignore[return-value]

    def fetch(self, partition: int = 0, *, require_stable: bool = False) -> tuple[int, int]:
        """(error, offset)."""
        asked = OffsetFetchGroup(self.group_id, ((TOPIC, partition),))
        answer = self.cluster.call(self.coordinator, OffsetFetchRequest((asked,), require_stable))
        group = answer.groups[0]  # type: ignore[union-attr]
        if group.error_code:
            return group.error_code, -1
        return group.partitions[0].error_code, group.partitions[0].offset


def join_all(cluster: Cluster, *members: Driver) -> None:
    """All join the same generation."""
    asked = [(member, member.ask_join()) for member in members]
    cluster.run_until(lambda: all(own_id in cluster.answers for _, own_id in asked))
    for member, own_id in asked:
        assert member.take_join(own_id).error_code == ErrorCode.NONE
    assert len({member.generation for member in members}) == 1


def sync_all(cluster: Cluster, *members: Driver) -> None:
    """The leader assigns each member its own name in bytes, and all receive it."""
    assignments = {member.member_id: member.member_id.encode() for member in members}
    asked = [(member, member.ask_sync(assignments if member.leads else None)) for member in members]
    cluster.run_until(lambda: all(own_id in cluster.answers for _, own_id in asked))
    for member, own_id in asked:
        assert member.take_sync(own_id) == ErrorCode.NONE
        assert member.assignment == member.member_id.encode()


def group_of(cluster: Cluster, count: int, group_id: str = GROUP) -> list[Driver]:
    """A stable group."""
    coordinator = coordinator_of(cluster, group_id)
    members = [Driver(cluster, coordinator, group_id) for _ in range(count)]
    join_all(cluster, *members)
    sync_all(cluster, *members)
    return members


def loner(cluster: Cluster, group_id: str = GROUP) -> Driver:
    """A client that commits without being a member."""
    return Driver(cluster, coordinator_of(cluster, group_id), group_id)


def fail_over(cluster: Cluster, member: Driver) -> int:
    """Kill the coordinator, page cache included, and find the next one. Returns the killed broker."""
    killed = member.coordinator
    cluster.kill(killed, lose_page_cache=True)
    member.moved()
    assert member.coordinator != killed
    return killed
