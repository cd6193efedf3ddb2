"""A simulated member of a consumer group: joins, reads what it is assigned, commits, and leaves in every way there is.

It follows the classic protocol as real clients do: the group's leader assigns the partitions, a member that has to join
again gives up its partitions first, and positions begin at the committed offsets. One request is in flight at a time.
Each commit has a metadata text of its own, so that an answer tells which commit it shows.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from broker.core.broker_node.groups.records import partition_of
from broker.core.messages import (
    AnyRequest,
    AnyResponse,
    FetchRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListOffsetsRequest,
    MetadataRequest,
)
from broker.core.messages.errors import ErrorCode
from broker.core.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from broker.core.ports.marks import sometimes
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.workload.clients import RETRY_MS, TOPIC, LeaderCache
from simulation.workload.owned import OwnedPartitions
from simulation.workload.recording import CommitRow, OperationRow, OwnershipRow, SimulatedHistory

GROUP = "readers"
OFFSETS_PARTITIONS = 1
"""Partitions of the offsets topic in a simulation: one is enough for one group."""

SESSION_MS = 3_000
REBALANCE_MS = 3_000
INITIAL_DELAY_MS = 300

LEFT_BEHIND = sometimes("groups: a commit of a member is refused that its group has left behind")
TAKEN_OVER = sometimes("groups: a member reads on from an offset that another one has committed")
MOVED = sometimes("groups: a member finds its group at another coordinator")
UNSTABLE = sometimes("groups: a member that wants stable offsets is told that a commit is under way (KIP-447)")
IN_DOUBT = sometimes("groups: a member does not learn the outcome of a commit")

_PROTOCOL_TYPE = "consumer"
_OFFERS = (("round-robin", "range"), ("range", "round-robin"))
"""Names of the protocols that a member offers, the one that it prefers first; they assign alike.

Each member offers both: a new coordinator knows of a member only the protocol of its last generation, as in Kafka, and
would refuse one that offers only the other.
"""
_TIMEOUT_MS = 1_500
_HEARTBEAT_MS = 1_000
_EVERY = 24
"""One action in so many is the last one of a stay in the group, or a long pause."""

_NOT_WRITTEN = frozenset({
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
})  # fmt: skip
"""Errors of a commit that has certainly had no effect."""

_LOST = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
"""The group goes on without this member, or without what it knows."""


@dataclass(frozen=True)
class MemberPlan:
    """How a member behaves. `is_static`: it has an instance id (KIP-345), by which it comes back under a new id."""

    partitions: int
    brokers: Sequence[int]
    interval_ms: int
    is_static: bool


class SimulatedMember:
    """See the module. While it is `calm` it neither leaves nor pauses."""

    def __init__(self, client_id: int, plan: MemberPlan, history: SimulatedHistory) -> None:
        self.client_id = client_id
        self.plan = plan
        self.history = history
        self.route = LeaderCache(plan.brokers)
        self.process = history.new_process()
        self.instance_id = f"member-{client_id}" if plan.is_static else None
        self.kept_in = partition_of(GROUP, OFFSETS_PARTITIONS)
        self.calm = False
        self.stopped = False
        self.member_id = ""
        self.generation = -1
        self.owned = OwnedPartitions((), self.route)
        self.committed: dict[int, bool] = {}
        """Partitions of this stay whose commit was acknowledged while the member was calm."""

        self.unanswered: list[int] | None = None
        """In the final phase: the partitions whose committed offsets are still to be asked for."""

        self._offer: tuple[str, ...] = ()
        self._coordinator: int | None = None
        self._joined: JoinGroupResponse | None = None
        self._since_us = 0
        self._overdue = False  # it has paused, and begins with a commit
        self._request = 0
        self._token = 0
        self._heard_us = 0
        self._op = 0
        self._invoked_us = 0
        self._asked = 0  # the broker
        self._sent: AnyRequest | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it is in a generation, and has committed each of its partitions since it is calm."""
        return self.generation >= 0 and self._joined is None and all(map(self.committed.get, self.owned.positions))

    def start(self, cluster: SimulatedCluster) -> None:
        """Join for the first time."""
        self._wait(cluster, 0)

    def begin_final(self, cluster: SimulatedCluster) -> None:
        """Only ask for the committed offset of every partition from now on."""
        self.unanswered = list(range(self.plan.partitions))
        self.stopped = False
        self._wait(cluster, 0)

    def give_up(self, cluster: SimulatedCluster) -> None:
        """Do nothing any more; the outcome of an open commit stays unknown."""
        self.stopped = True
        if isinstance(self._sent, OffsetCommitRequest):
            self._commit_ended(cluster, self._sent, "info", "the run ended")
        self._sent = None
        self._token += 1
        self._forget(cluster)

    # --- steps -------------------------------------------------------------------------------------------------------

    def timer(self, cluster: SimulatedCluster, key: Hashable) -> None:
        """Take the next step; timers that were set before another one are ignored."""
        if key != self._token or self.stopped or self._sent is not None:
            return
        self._invoked_us = cluster.now_us
        if self._coordinator is None:
            self._send(cluster, self.route.ask(), FindCoordinatorRequest(0, (GROUP,)))
        elif self.unanswered is not None:
            self._ask_for_committed(cluster, self.unanswered[:1])
        elif self.generation < 0:
            self._join(cluster)
        elif self._joined is not None:
            self._sync(cluster, self._joined)
        elif unknown := self.owned.unknown():
            self._ask_for_committed(cluster, unknown)
        else:
            self._act(cluster)

    def _wait(self, cluster: SimulatedCluster, after_ms: int) -> None:
        self._token += 1
        cluster.after(after_ms * MS, self.timer, cluster, self._token)

    def _send(self, cluster: SimulatedCluster, to: int, request: AnyRequest, timeout_ms: int = _TIMEOUT_MS) -> None:
        self._request += 1
        self._sent = request
        self._asked = to
        cluster.send_from_client(self.client_id, self._request, to, request, timeout_ms)

    def _ask_coordinator(self, cluster: SimulatedCluster, request: AnyRequest, timeout_ms: int = _TIMEOUT_MS) -> None:
        assert self._coordinator is not None
        self._heard_us = cluster.now_us
        self._send(cluster, self._coordinator, request, timeout_ms)

    def _join(self, cluster: SimulatedCluster) -> None:
        if not self._offer:
            self._offer = _OFFERS[cluster.choices["questions"].draw("which a member offers", len(_OFFERS))]
        protocols = tuple((name, b"") for name in self._offer)
        request = JoinGroupRequest(
            GROUP, SESSION_MS, REBALANCE_MS, self.member_id, _PROTOCOL_TYPE, protocols, self.instance_id
        )
        self._ask_coordinator(cluster, request, REBALANCE_MS + 2 * INITIAL_DELAY_MS + _TIMEOUT_MS)

    def _sync(self, cluster: SimulatedCluster, joined: JoinGroupResponse) -> None:
        """Ask for the assignment; the leader sends it: each partition to one member, in turn."""
        names = sorted(member.member_id for member in joined.members)
        assignments = tuple(
            (name, bytes(range(number, self.plan.partitions, len(names)))) for number, name in enumerate(names)
        )
        request = SyncGroupRequest(
            GROUP,
            self.generation,
            self.member_id,
            assignments,
            self.instance_id,
            _PROTOCOL_TYPE,
            joined.protocol_name,
        )
        self._ask_coordinator(cluster, request, REBALANCE_MS + _TIMEOUT_MS)

    def _act(self, cluster: SimulatedCluster) -> None:
        stream = cluster.choices["groups"]
        if not self.calm and stream.draw("an end", _EVERY) == _EVERY - 1:
            self._depart(cluster, stream.draw("which end", 3))
            return
        if self._overdue and self.owned.positions:
            self._overdue = False
            self._commit(cluster)
            return
        if cluster.now_us - self._heard_us >= _HEARTBEAT_MS * MS:
            self._ask_coordinator(cluster, HeartbeatRequest(GROUP, self.generation, self.member_id, self.instance_id))
            return
        action = stream.draw("action", 6)
        if action == 5:
            self._ask_for_committed(cluster, [stream.draw("whose offset", self.plan.partitions)])
        elif not self.owned.positions:
            self._wait(cluster, self.plan.interval_ms)
        elif action >= 3:
            self._commit(cluster)
        else:
            self._send(cluster, *self.owned.next_read())

    def _depart(self, cluster: SimulatedCluster, how: int) -> None:
        """Leave (0), crash (1), or pause for longer than the session lasts (2) and go on with what it knows."""
        pause_ms = cluster.choices["groups"].draw("pause", SESSION_MS)
        if how == 2:
            self._overdue = True
            self._wait(cluster, SESSION_MS + pause_ms)
            return
        if how == 0 and self.instance_id is None:  # static members never leave (KIP-345)
            leaving = (LeavingMember(self.member_id),)
            self._ask_coordinator(cluster, LeaveGroupRequest(GROUP, leaving))
            self._sent = None  # whatever the answer is, it has left
        self._forget(cluster)
        self.member_id = ""
        self._coordinator = None
        self._wait(cluster, 200 + pause_ms)

    # --- committed offsets -------------------------------------------------------------------------------------------

    def _commit(self, cluster: SimulatedCluster) -> None:
        self._op = self.history.new_op()
        parts = tuple(
            OffsetCommitPartition(TOPIC, partition, position, metadata=str(self._op))
            for partition, position in self.owned.positions.items()
        )
        request = OffsetCommitRequest(GROUP, self.generation, self.member_id, parts, self.instance_id)
        self._ask_coordinator(cluster, request)

    def _ask_for_committed(self, cluster: SimulatedCluster, partitions: Sequence[int]) -> None:
        keys = tuple((TOPIC, partition) for partition in partitions)
        is_stable = bool(cluster.choices["questions"].draw("whether only stable ones", 2))
        self._ask_coordinator(cluster, OffsetFetchRequest((OffsetFetchGroup(GROUP, keys),), is_stable))

    # --- answers -----------------------------------------------------------------------------------------------------

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:
        """Handle the answer to the request in flight; others are ignored."""
        sent = self._sent
        if request_id != self._request or sent is None:
            return
        self._sent = None
        match sent, response:
            case OffsetCommitRequest(), _:
                self._commit_answered(cluster, sent, response)
            case ((FetchRequest() | ListOffsetsRequest() | MetadataRequest()), _):
                self._read_answered(cluster, response)
            case _, FindCoordinatorResponse():
                self._found(cluster, response)
            case _, JoinGroupResponse():
                self._join_answered(cluster, response)
            case _, SyncGroupResponse():
                self._sync_answered(cluster, response)
            case _, HeartbeatResponse():
                self._told(cluster, ErrorCode(response.error_code))
                self._wait(cluster, self._pause_ms(cluster))
            case _, OffsetFetchResponse():
                self._committed_answered(cluster, response)
            case _:
                self._coordinator = None
                self._wait(cluster, RETRY_MS)

    def _found(self, cluster: SimulatedCluster, response: FindCoordinatorResponse) -> None:
        coordinator = response.coordinators[0]
        if coordinator.error_code == ErrorCode.NONE:
            self._coordinator = coordinator.node_id
        self._wait(cluster, 0 if self._coordinator is not None else RETRY_MS)

    def _join_answered(self, cluster: SimulatedCluster, response: JoinGroupResponse) -> None:
        error = ErrorCode(response.error_code)
        if error == ErrorCode.NONE:
            self.member_id, self.generation = response.member_id, response.generation_id
            self._joined = response
            self._wait(cluster, 0)
        elif error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self._wait(cluster, 0)
        else:
            self._told(cluster, error)
            self._wait(cluster, RETRY_MS)

    def _sync_answered(self, cluster: SimulatedCluster, response: SyncGroupResponse) -> None:
        error = ErrorCode(response.error_code)
        if error == ErrorCode.NONE:
            self._joined = None
            self.process = self.history.new_process()
            self._since_us = cluster.now_us
            self.owned = OwnedPartitions(response.assignment, self.route)
            self.committed = {}
            self._wait(cluster, 0)
        else:
            self._told(cluster, error)
            self._wait(cluster, RETRY_MS)

    def _told(self, cluster: SimulatedCluster, error: ErrorCode) -> None:
        """Follow an error of the coordinator."""
        if error in _LOST:
            self._forget(cluster)
            if error != ErrorCode.ILLEGAL_GENERATION:
                self.member_id = ""
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            self._forget(cluster)
        elif error not in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            self._coordinator = None
            cluster.count(MOVED)

    def _forget(self, cluster: SimulatedCluster) -> None:
        """Give up all partitions: this stay in the group is over."""
        if self._joined is None and self.generation >= 0:
            for partition in self.owned.positions:
                self.history.ownerships.append(
                    OwnershipRow(
                        GROUP,
                        TOPIC,
                        partition,
                        self.process,
                        self.member_id,
                        self.generation,
                        self._since_us * MS,
                        cluster.now_us * MS,
                        self.kept_in,
                    )
                )
        self.owned = OwnedPartitions((), self.route)
        self._joined = None
        self._overdue = False
        self.generation = -1

    def _commit_answered(
        self, cluster: SimulatedCluster, sent: OffsetCommitRequest, response: AnyResponse | None
    ) -> None:
        if not isinstance(response, OffsetCommitResponse):
            self._commit_ended(cluster, sent, "info", "no answer")
            self._coordinator = None
            self._wait(cluster, RETRY_MS)
            return
        error = ErrorCode(response.partitions[0].error_code)
        if error == ErrorCode.NONE:
            self._commit_ended(cluster, sent, "ok", None)
            if self.calm:
                self.committed |= {part.partition: True for part in sent.partitions}
        else:
            self._commit_ended(cluster, sent, "fail" if error in _NOT_WRITTEN else "info", error.name)
            if error in _LOST:
                cluster.count(LEFT_BEHIND)
        self._told(cluster, error)
        self._wait(cluster, self._pause_ms(cluster))

    def _commit_ended(
        self, cluster: SimulatedCluster, sent: OffsetCommitRequest, status: str, error: str | None
    ) -> None:
        for part in sent.partitions:
            self.history.commits.append(
                CommitRow(
                    self._op,
                    GROUP,
                    TOPIC,
                    part.partition,
                    part.offset,
                    sent.member_id,
                    sent.generation_id,
                    self.kept_in,
                )
            )
        self._operation(cluster, self._op, "commit", status, error)
        if status == "info":
            cluster.count(IN_DOUBT)
            self.process = self.history.new_process()

    def _committed_answered(self, cluster: SimulatedCluster, response: OffsetFetchResponse) -> None:
        group = response.groups[0]
        if group.error_code != ErrorCode.NONE:
            self._told(cluster, ErrorCode(group.error_code))
            self._wait(cluster, RETRY_MS)
            return
        if any(part.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT for part in group.partitions):
            cluster.count(UNSTABLE)
            self._wait(cluster, RETRY_MS)
            return
        for part in group.partitions:
            op = self.history.new_op()
            offset = part.offset if part.offset >= 0 else None
            self.history.commits.append(
                CommitRow(op, GROUP, TOPIC, part.partition, offset, self.member_id, None, self.kept_in)
            )
            self._operation(cluster, op, "committed", "ok", None)
            if self.unanswered is None and self.owned.begin_at(part.partition, part.offset):
                cluster.count(TAKEN_OVER)
        if self.unanswered is not None:
            self.unanswered = self.unanswered[1:]
            if not self.unanswered:
                self.stopped = True
        self._wait(cluster, 0 if self.unanswered else self._pause_ms(cluster))

    def _read_answered(self, cluster: SimulatedCluster, response: AnyResponse | None) -> None:
        if self.owned.take(self.history, self.history.next_op, response):
            self._operation(cluster, self.history.new_op(), "poll", "ok", None)
        self._wait(cluster, RETRY_MS if response is None else self._pause_ms(cluster))

    def _operation(self, cluster: SimulatedCluster, op: int, kind: str, status: str, error: str | None) -> None:
        self.history.operations.append(
            OperationRow(
                op,
                self.process,
                kind,
                status,
                error,
                self._asked if status == "ok" else None,
                "main" if self.unanswered is None else "final",
                self._invoked_us * MS,
                None if status == "info" else cluster.now_us * MS,
            )
        )

    def _pause_ms(self, cluster: SimulatedCluster) -> int:
        interval_ms = self.plan.interval_ms
        return interval_ms // 2 + cluster.choices["groups"].draw("interval", interval_ms)
