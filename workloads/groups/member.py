"""One slot of a consumer group: successive members that read, commit, query offsets, leave or crash, and are replaced.

Every assignment begins a new logical process: reads and positions of the previous assignment do not constrain it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from workloads.clients.base import ClientError, Partition, Poll
from workloads.clients.optional_interfaces import Assigned, GroupMember, Revoked, SessionRefusedError
from workloads.recording import MemberView, Phase, Recorder
from workloads.threads import SECOND_NS

RETRY_PAUSE_S: Final = 0.2
FAILURES_MAX: Final = 10
"""After so many failed calls in a row a member is replaced."""


@dataclass(frozen=True)
class MemberPlan:
    """What happens in one slot of a group."""

    group: str
    kept_in: int | None
    partitions: Sequence[Partition]
    process: int
    successor: int  # added to the process's number when it is retired
    seed: int
    poll_timeout_s: float
    poll_interval_s: float
    commit_interval_s: float
    ask_interval_s: float
    lifetime_s: float  # mean time until a member leaves or crashes
    away_s: float  # mean time until a replacement joins
    crashes: float  # share of departures without leaving the group
    request_timeout_s: float


@dataclass(frozen=True)
class _Tenure:
    process: int
    member: str
    generation: int
    since_ns: int


class MemberSlot:
    """Executes the plan. `step` and `close` are for one thread; other methods may be called from another."""

    def __init__(
        self, plan: MemberPlan, connect: Callable[[], GroupMember], recorder: Recorder, now: Callable[[], int]
    ) -> None:
        self._plan = plan
        self._connect = connect
        self._recorder = recorder
        self._now = now
        self._choices = random.Random(f"{plan.seed}/{plan.process}")  # noqa: S311 - choices, not secrets
        self._client: GroupMember | None = None
        self._member = MemberView(plan.group, None, None, plan.kept_in)
        self._process = plan.process
        self._tenures: dict[Partition, _Tenure] = {}
        self._positions: dict[Partition, int] = {}
        self._uncommitted: set[Partition] = set()
        self._uncertain: list[Partition] = []  # to be queried soon: taken over, or not certainly committed
        self._failures = 0
        self._draining = False
        self._committing = False
        self._unanswered: set[Partition] | None = None
        self.session_refused = False
        """Whether the group refused the session timeout of a member: the slot stays empty then."""
        self._commit_due_ns = self._ask_due_ns = self._departure_due_ns = 0

    @property
    def open(self) -> int:
        """Commits in flight."""
        return int(self._committing)

    def drain(self) -> None:
        """Commit no more, and stay in the group."""
        self._draining = True

    def begin_final(self) -> None:
        """Query the committed offset of every partition, and poll on; takes effect with the next step."""
        self._unanswered = set(self._plan.partitions)

    def unanswered(self) -> Sequence[Partition]:
        """List the partitions still to be queried in the final phase."""
        return sorted(self._unanswered or ())

    def process(self) -> int:
        """Return the number of the present logical process."""
        return self._process

    def step(self) -> float:
        """Do one action; returns how many seconds to sleep."""
        if self.session_refused and self._unanswered is None:
            return RETRY_PAUSE_S
        try:
            if self._client is None:
                self._client = self._connect()
                self._departure_due_ns = self._due(self._plan.lifetime_s)
            return self._act(self._client)
        except SessionRefusedError:
            self.session_refused = True
            self._depart(crash=False)
            return RETRY_PAUSE_S
        except ClientError:
            self._failures += 1
            if self._failures >= FAILURES_MAX:
                self._depart(crash=False)
            return RETRY_PAUSE_S

    def close(self) -> None:
        """Leave the group."""
        self._depart(crash=False)

    def _act(self, client: GroupMember) -> float:
        now_ns = self._now()
        if self._unanswered is not None:
            return self._ask_for_all(client, self._unanswered)
        if now_ns >= self._departure_due_ns and not self._draining:
            self._depart(crash=self._choices.random() < self._plan.crashes)
            return self._choices.uniform(0.5, 1.5) * self._plan.away_s
        if self._uncertain:
            self._ask(client, self._uncertain[-1], "main")
            self._uncertain.pop()
        if now_ns >= self._ask_due_ns:
            self._ask_due_ns = self._due(self._plan.ask_interval_s)
            self._ask(client, self._choices.choice(self._plan.partitions), "main")
        if now_ns >= self._commit_due_ns and self._uncommitted:
            self._commit_due_ns = self._due(self._plan.commit_interval_s)
            self._commit(client)
        return self._poll(client)

    def _due(self, interval_s: float) -> int:
        return self._now() + int(interval_s * self._choices.uniform(0.5, 1.5) * SECOND_NS)

    def _poll(self, client: GroupMember) -> float:
        process = self._process
        invocation = self._recorder.invoke(process, "main", self._now())
        try:
            poll = client.poll(self._plan.poll_timeout_s)
        except ClientError as error:
            self._follow(client.changes())
            self._recorder.read_failed(invocation, "poll", str(error), self._now())
            raise
        self._follow(client.changes())
        fresh = {each.partition for each in poll.partitions if self._positions.get(each.partition) != each.position}
        self._recorder.poll_ended(invocation._replace(process=self._process), poll, fresh, self._now())
        self._failures = 0
        self._take(poll)
        return self._plan.poll_interval_s if any(each.records for each in poll.partitions) else 0.0

    def _take(self, poll: Poll) -> None:
        for each in poll.partitions:
            self._positions[each.partition] = each.next_position
            if each.records and each.partition in self._tenures:
                self._uncommitted.add(each.partition)

    def _commit(self, client: GroupMember) -> None:
        self._committing = True  # before the check of `_draining`: if that is set and `open` is 0, no commit starts
        try:
            if self._draining:
                return
            offsets = {partition: self._positions[partition] for partition in sorted(self._uncommitted)}
            invocation = self._recorder.invoke(self._process, "main", self._now())
            end = client.commit(offsets, self._plan.request_timeout_s)
            self._recorder.commit_ended(invocation, self._member, offsets, end, self._now())
            if end.status == "ok":
                self._uncommitted.clear()
            else:
                self._uncertain = sorted(offsets)
            if end.status == "info":
                self._process += self._plan.successor
        finally:
            self._committing = False

    def _ask(self, client: GroupMember, partition: Partition, phase: Phase) -> None:
        invocation = self._recorder.invoke(self._process, phase, self._now())
        try:
            answer = client.committed(partition, self._plan.request_timeout_s)
        except ClientError as error:
            self._recorder.read_failed(invocation, "committed", str(error), self._now())
            raise
        self._recorder.committed_answered(invocation, self._member, partition, answer, self._now())
        self._failures = 0

    def _ask_for_all(self, client: GroupMember, unanswered: set[Partition]) -> float:
        """Query one more partition, and go on to poll: a rebalance of the group waits for members that do not.

        The others' queries would wait with it: a broker answers the requests of a connection one after the other, and
        some clients send theirs behind the one that joins.
        """
        try:
            if unanswered:
                partition = min(unanswered)
                self._ask(client, partition, "final")
                unanswered.discard(partition)
        finally:
            pause_s = RETRY_PAUSE_S if self.session_refused else self._poll(client)
        return pause_s

    def _follow(self, changes: Sequence[Assigned | Revoked]) -> None:
        for change in changes:
            if isinstance(change, Revoked):
                self._end(change.partitions, change.at_ns)
            else:
                self._end(frozenset(self._tenures), change.at_ns)
                self._process += self._plan.successor
                self._member = self._member._replace(name=change.member, generation=change.generation)
                tenure = _Tenure(self._process, change.member, change.generation, change.at_ns)
                self._tenures = dict.fromkeys(change.partitions, tenure)
                self._positions = {}
                self._uncertain = sorted(change.partitions)

    def _end(self, partitions: frozenset[Partition], at_ns: int) -> None:
        ended: Mapping[Partition, _Tenure] = {
            partition: self._tenures.pop(partition) for partition in sorted(partitions) if partition in self._tenures
        }
        self._uncommitted -= partitions
        for partition, tenure in ended.items():
            self._recorder.ownership_ended({
                "group": self._plan.group,
                "topic": partition.topic,
                "partition": partition.partition,
                "process": tenure.process,
                "member": tenure.member,
                "generation": tenure.generation,
                "since_ns": tenure.since_ns,
                "until_ns": at_ns,
                "kept_in": self._plan.kept_in,
            })  # fmt: skip

    def _depart(self, *, crash: bool) -> None:
        client, self._client = self._client, None
        self._failures = 0
        if client is None:
            return
        if crash:
            self._end(frozenset(self._tenures), self._now())
            client.crash()
            return
        try:
            client.leave()
        except ClientError:
            client.crash()  # a member that cannot leave crashes
        self._follow(client.changes())
        self._end(frozenset(self._tenures), self._now())
