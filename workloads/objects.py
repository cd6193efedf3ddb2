"""The workloads `register` and `queue`: sequential objects that clients store as commands in a log.

Every operation is a command that its client appends to a partition. Its effect follows from the commands before it,
so a client that has read the log up to its own command knows the result: a replicated state machine whose consensus
is the broker's. If the broker keeps its promises the objects are linearizable; the checker decides that from the
history, without using offsets.

A command without a result (a write) ends when its append is acknowledged. One with a result ends when this worker has
read the log up to it. If the append's outcome stays unknown, its process is retired, and yet the command may appear in
the log: then it has happened, with the result that follows from the commands before it. A command that never appears
is `info` at the end.

Keys. A search over thousands of operations of one object is hard, so an object is used for `COMMANDS_PER_KEY`
offsets of its partition, and then the next one is. Offsets do not advance while the partition is unavailable, so the
same object is used before and after an outage, whichever broker leads.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from workloads.base import Context, Workload
from workloads.clients.base import Partition, PolledPartition, PolledRecord
from workloads.clients.classify import Status
from workloads.log import LogWorkload
from workloads.recording import Recorder
from workloads.values import body_of, decode_value, encode_value

State: TypeAlias = Any
"""State of an object. Register: its value, None before the first write; queue: the tuple of its values."""

READS: Final = 0.4
WRITES: Final = 0.25
"""Shares of the commands to a register; the others compare and set."""
ENQUEUES: Final = 0.5

COMMANDS_PER_KEY: Final = 200
"""Offsets of a partition during which commands go to the same object."""
KEYS_KEPT: Final = 50
"""Objects of a partition whose state a worker keeps. A command to an older one, long delayed, has no result."""


class Call(NamedTuple):
    """A command to an object. `argument` is a JSON value."""

    function: str
    argument: Any = None


@dataclass(frozen=True)
class StateMachine:
    """One kind of object."""

    model: str
    """Name of the model that checks its history."""
    initial: State
    effects: dict[str, Callable[[State, Any], tuple[State, Any]]]
    """By function: state and argument → the next state, and the result."""
    silent: frozenset[str]
    """Functions without a result: they end as soon as they are in the log."""
    choose: Callable[[random.Random, State, int], Call]
    """Draw a command, given the last observed state of the object and a number that is unique in the run."""


def _compare_and_set(state: State, argument: Any) -> tuple[State, Any]:  # noqa: ANN401 - any JSON value
    old, new = argument
    return (new, True) if state == old else (state, False)


def _register_call(choices: random.Random, seen: State, number: int) -> Call:
    share = choices.random()
    if share < READS:
        return Call("read")
    return Call("write", number) if share < READS + WRITES else Call("cas", [seen, number])


def _queue_call(choices: random.Random, _seen: State, number: int) -> Call:
    return Call("enqueue", number) if choices.random() < ENQUEUES else Call("dequeue")


REGISTER: Final = StateMachine(
    model="cas-register",
    initial=None,
    effects={
        "read": lambda state, _: (state, state),
        "write": lambda _, argument: (argument, None),
        "cas": _compare_and_set,
    },
    silent=frozenset({"write"}),
    choose=_register_call,
)

QUEUE: Final = StateMachine(
    model="fifo-queue",
    initial=(),
    effects={
        "enqueue": lambda state, argument: ((*state, argument), None),
        "dequeue": lambda state, _: (state[1:], state[0] if state else None),
    },
    silent=frozenset({"enqueue"}),
    choose=_queue_call,
)


@dataclass
class _Object:
    state: State
    applied: set[int] = field(default_factory=set)
    """Numbers of the commands that were applied: without idempotence a retry may append one twice."""


@dataclass
class _Replica:
    """The objects of one partition, up to the offset that this worker has read."""

    next_offset: int = 0
    newest: int = 0
    objects: dict[int, _Object] = field(default_factory=dict)


@dataclass(frozen=True)
class _Pending:
    partition: Partition
    key: int
    process: int
    call: Call
    invoked_ns: int


class Commands:
    """Creates commands and records their results; the payload of a workload on logs (`workloads.log.senders`)."""

    def __init__(self, machine: StateMachine, recorder: Recorder, now: Callable[[], int]) -> None:
        self._machine = machine
        self._recorder = recorder
        self._now = now
        self._lock = threading.Lock()
        self._replicas: dict[Partition, _Replica] = {}
        self._pending: dict[int, _Pending] = {}
        self._waiting: dict[int, int] = {}
        """Process → since when (ns) its last command is open."""

    def load(self, process: int, partition: Partition, values: Sequence[int], choices: random.Random) -> list[bytes]:
        """Return one command for each value, all for the current object."""
        with self._lock:
            replica = self._replica(partition)
            key = replica.next_offset // COMMANDS_PER_KEY
            held = replica.objects.get(key)
            seen = self._machine.initial if held is None else held.state
            invoked_ns = self._now()
            payloads = []
            for value in values:
                call = self._machine.choose(choices, seen, value)
                self._pending[value] = _Pending(partition, key, process, call, invoked_ns)
                payloads.append(encode_value(value, json.dumps([key, *call], separators=(",", ":")).encode()))
            self._waiting[process] = invoked_ns
            return payloads

    def sent(self, values: Sequence[int], status: Status) -> None:
        """End commands that an acknowledgement or a refusal ends; free a process whose command's outcome is unknown."""
        with self._lock:
            for value in values:
                command = self._pending.get(value)
                if command is None:
                    continue  # it was read before it was acknowledged
                if status == "fail" or (status == "ok" and command.call.function in self._machine.silent):
                    self._end(value, status, None)
                elif status == "info":
                    self._waiting.pop(command.process, None)

    def read(self, polled: PolledPartition) -> None:
        """Apply the next records of the log. Records that were read before or follow a gap are skipped."""
        with self._lock:
            replica = self._replica(polled.partition)
            if polled.position > replica.next_offset:
                return
            for record in polled.records:
                if record.offset >= replica.next_offset:
                    self._apply(replica, record)
            replica.next_offset = max(replica.next_offset, polled.next_position)

    def waits(self, process: int) -> int | None:
        """Return since when (ns) a process waits for its command's result."""
        with self._lock:
            return self._waiting.get(process)

    def close(self) -> None:
        """Record commands that never appeared in the log as unknown."""
        with self._lock:
            for value in list(self._pending):
                self._end(value, "info", None)

    def _replica(self, partition: Partition) -> _Replica:
        return self._replicas.setdefault(partition, _Replica())

    def _apply(self, replica: _Replica, record: PolledRecord) -> None:
        number = decode_value(record.value)
        if number is None or record.value is None:
            return  # the broker made it up; the checkers of the log report it
        key, function, argument = json.loads(body_of(record.value))
        replica.newest = max(replica.newest, key)
        for old in [each for each in replica.objects if each <= replica.newest - KEYS_KEPT]:
            del replica.objects[old]
        if key <= replica.newest - KEYS_KEPT:
            return
        held = replica.objects.setdefault(key, _Object(self._machine.initial))
        if number in held.applied:
            return
        held.applied.add(number)
        held.state, result = self._machine.effects[function](held.state, argument)
        if number in self._pending:
            self._end(number, "ok", None if function in self._machine.silent else json.dumps(result))

    def _end(self, value: int, status: Status, result: str | None) -> None:
        command = self._pending.pop(value)
        if self._waiting.get(command.process) == command.invoked_ns:
            del self._waiting[command.process]
        topic, number = command.partition
        self._recorder.command_ended({
            "value": value,
            "topic": topic,
            "partition": number,
            "key": f"{topic}-{number}/{command.key}",
            "model": self._machine.model,
            "process": command.process,
            "function": command.call.function,
            "argument": None if command.call.argument is None else json.dumps(command.call.argument),
            "result": result,
            "status": status,
            "invoked_ns": command.invoked_ns,
            "completed_ns": None if status == "info" else self._now(),
        })  # fmt: skip


def register_workload(context: Context) -> Workload:
    """Return the workload that reads, writes, and compares and sets registers."""
    return _workload(context, REGISTER)


def queue_workload(context: Context) -> Workload:
    """Return the workload that enqueues and dequeues."""
    return _workload(context, QUEUE)


def _workload(context: Context, machine: StateMachine) -> Workload:
    return LogWorkload(context, Commands(machine, context.recorder, context.clock.now), records_max=1)
