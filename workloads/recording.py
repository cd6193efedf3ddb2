"""Records what clients observed as rows of the history.

An operation's rows are written when it has ended: one of `operations`, one of `sends` per record sent, one of
`polls` per partition that was covered, one of `reads` per record read. Any thread may record.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from history.processes import NUMBERS_PER_WORKER
from history.writer import HistoryWriter, Row, TableWriter
from workloads.clients.base import EndOffset, Partition, Poll, SendOutcome
from workloads.clients.classify import Status, combine
from workloads.clients.optional_interfaces import CommitEnd, CommittedReply
from workloads.values import decode_value

Phase = Literal["main", "final"]
OperationKind = Literal["send", "poll", "latest", "commit", "committed"]

OPERATIONS_PER_WORKER: Final = NUMBERS_PER_WORKER
"""Worker w numbers its operations from w * 2^40, so that operations of one run never share a number."""


class Invocation(NamedTuple):
    """An operation that was invoked: its number, process, phase and time."""

    op: int
    process: int
    phase: Phase
    invoked_ns: int


@dataclass(frozen=True)
class Counts:
    """Counters of a worker's operations so far."""

    operations: int
    sends: dict[Status, int]
    records_acked: int
    records_read: int
    polls: int
    latest: int
    errors: dict[str, int]  # by name, over all operations that did not end ok


class MemberView(NamedTuple):
    """A group member's own latest knowledge of its membership."""

    group: str
    name: str | None  # None: the coordinator has not assigned one yet
    generation: int | None
    kept_in: int | None


class _OperationEnd(NamedTuple):
    kind: OperationKind
    status: Status
    error: str | None
    node: int | None
    completed_ns: int | None


class Recorder:
    """Records the operations of one worker."""

    def __init__(self, history: HistoryWriter, worker: int, client: str, acks: int) -> None:
        self._operations = history.table("operations")
        self._sends = history.table("sends")
        self._polls = history.table("polls")
        self._reads = history.table("reads")
        self._commands = history.table("commands")
        self._commits = history.table("commits")
        self._ownerships = history.table("ownerships")
        self._administration = history.table("administration")
        self._client = client
        self._acks = acks
        self._numbers = itertools.count(worker * OPERATIONS_PER_WORKER)
        self._lock = threading.Lock()
        self._ended: Counter[tuple[OperationKind, Status]] = Counter()
        self._errors: Counter[str] = Counter()
        self._records_acked = 0
        self._records_read = 0
        self._closed = False

    def invoke(self, process: int, phase: Phase, now_ns: int) -> Invocation:
        """Number an operation that is about to start."""
        return Invocation(next(self._numbers), process, phase, now_ns)

    def send_ended(
        self,
        invocation: Invocation,
        partition: Partition,
        values: Sequence[int],
        outcomes: Sequence[SendOutcome],
        completed_ns: int | None,
    ) -> Status:
        """Record a send; returns its status. `completed_ns` is None if it was never answered."""
        status = combine(outcome.status for outcome in outcomes)
        error = next((outcome.error for outcome in outcomes if outcome.error), None)
        nodes = {outcome.node for outcome in outcomes}
        node = nodes.pop() if len(nodes) == 1 else None
        rows = [
            (invocation.op, *partition, value, self._acks, outcome.offset, ordinal)
            for ordinal, (value, outcome) in enumerate(zip(values, outcomes, strict=True))
        ]
        self._record(_OperationEnd("send", status, error, node, completed_ns), invocation, sends=rows)
        return status

    def poll_ended(
        self, invocation: Invocation, poll: Poll, assigned: Collection[Partition], completed_ns: int
    ) -> None:
        """Record a poll that returned.

        `assigned` are the partitions without an answer since they were assigned or sought.
        """
        polls = [
            (
                invocation.op,
                *polled.partition,
                polled.position,
                polled.next_position,
                polled.high_watermark,
                len(polled.records),
                polled.partition in assigned,
            )
            for polled in poll.partitions
        ]
        ordinals = itertools.count()
        reads = [
            (
                invocation.op,
                *polled.partition,
                record.offset,
                record.leader_epoch,
                decode_value(record.value),
                next(ordinals),
            )
            for polled in poll.partitions
            for record in polled.records
        ]
        self._record(_OperationEnd("poll", "ok", None, poll.node, completed_ns), invocation, polls=polls, reads=reads)

    def latest_ended(self, invocation: Invocation, partition: Partition, end: EndOffset, completed_ns: int) -> None:
        """Record an offset query that was answered."""
        row = (invocation.op, *partition, None, end.offset, None, 0, False)
        self._record(_OperationEnd("latest", "ok", None, end.node, completed_ns), invocation, polls=[row])

    def read_failed(self, invocation: Invocation, kind: OperationKind, error: str, completed_ns: int) -> None:
        """Record a poll or an offset query that ended with an error; neither has any effect."""
        self._record(_OperationEnd(kind, "fail", error, None, completed_ns), invocation)

    def command_ended(self, row: Row) -> None:
        """Record a command to an object stored in the log: one row of `commands`."""
        self._add(self._commands, row)

    def commit_ended(
        self,
        invocation: Invocation,
        member: MemberView,
        offsets: Mapping[Partition, int],
        end: CommitEnd,
        completed_ns: int,
    ) -> None:
        """Record a commit; an earlier attempt that may still take effect is recorded as a commit of its own."""
        self._commit(
            _OperationEnd("commit", end.status, end.error, end.node, completed_ns), invocation, member, offsets, end
        )
        if end.in_doubt:
            attempt = invocation._replace(op=next(self._numbers))
            self._commit(_OperationEnd("commit", "info", "EarlierAttempt", None, None), attempt, member, offsets, end)

    def committed_answered(
        self,
        invocation: Invocation,
        member: MemberView,
        partition: Partition,
        answer: CommittedReply,
        completed_ns: int,
    ) -> None:
        """Record the answer to a committed-offset query."""
        row = (invocation.op, member.group, *partition, answer.offset, member.name, None, member.kept_in)
        self._record(_OperationEnd("committed", "ok", None, answer.node, completed_ns), invocation, commits=[row])

    def ownership_ended(self, row: Row) -> None:
        """Record that a group member no longer owns a partition: one row of `ownerships`."""
        self._add(self._ownerships, row)

    def administered(self, row: Row) -> None:
        """Record an administrative request: one row of `administration`."""
        self._add(self._administration, row)

    def counts(self) -> Counts:
        """Return the counters of what was recorded so far."""
        with self._lock:
            ended, errors = Counter(self._ended), dict(self._errors)
            acked, read = self._records_acked, self._records_read
        return Counts(
            operations=ended.total(),
            sends={"ok": ended["send", "ok"], "fail": ended["send", "fail"], "info": ended["send", "info"]},
            records_acked=acked,
            records_read=read,
            polls=ended["poll", "ok"] + ended["poll", "fail"],
            latest=ended["latest", "ok"] + ended["latest", "fail"],
            errors=errors,
        )

    def close(self) -> None:
        """Stop recording. When this returns every recorded operation is complete, and the history may be closed."""
        with self._lock:
            self._closed = True

    def _commit(
        self,
        ended: _OperationEnd,
        invocation: Invocation,
        member: MemberView,
        offsets: Mapping[Partition, int],
        end: CommitEnd,
    ) -> None:
        rows = [
            (
                invocation.op,
                member.group,
                *partition,
                offset,
                end.member or member.name,
                end.generation if end.generation is not None else member.generation,
                member.kept_in,
            )
            for partition, offset in offsets.items()
        ]
        self._record(ended, invocation, commits=rows)

    def _add(self, table: TableWriter, row: Row) -> None:
        with self._lock:
            if not self._closed:
                table.add(row)

    def _record(
        self,
        ended: _OperationEnd,
        invocation: Invocation,
        *,
        sends: Sequence[Row] = (),
        polls: Sequence[Row] = (),
        reads: Sequence[Row] = (),
        commits: Sequence[Row] = (),
    ) -> None:
        op, process, phase, invoked_ns = invocation
        kind, status, error, node, completed_ns = ended
        with self._lock:
            if self._closed:
                return
            tables = (self._sends, sends), (self._polls, polls), (self._reads, reads), (self._commits, commits)
            for table, rows in tables:
                for row in rows:
                    table.add(row)
            self._operations.add((
                op, process, self._client, kind, status, error, node, phase, invoked_ns, completed_ns
            ))  # fmt: skip
            self._ended[kind, status] += 1
            if error is not None:
                self._errors[error] += 1
            if status == "ok":
                self._records_acked += len(sends)
            self._records_read += len(reads)
