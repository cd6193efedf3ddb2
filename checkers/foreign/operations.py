"""Assembles events of other tools into operations: of a sequential object, or of Jepsen's Kafka workload.

A send or poll of the Kafka workload is a transaction with one kind of micro-operation::

    EDN    [:send k v]  [:send k [offset v]]  [:poll]  [:poll {k [[offset v] …] …}]
    JSON   ["send", k, null, v]  ["send", k, offset, v]  ["poll", null]  ["poll", [[k, [[offset, v], …]], …]]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from checkers.foreign.events import Event, Malformed, Value, frozen
from checkers.linearizability.operations import UNKNOWN, Operation

JEPSEN_LOG = "jepsen-log"
JSON_LINES = "json-lines"

ALIASES: Mapping[str, str] = {"kv-string-append": "kv"}
"""Names of models in other tools → ours."""

_MODELS_BY_FUNCTIONS: Sequence[tuple[str, frozenset[str]]] = (
    ("register", frozenset({"read", "write"})),
    ("cas-register", frozenset({"read", "write", "cas"})),
    ("kv", frozenset({"get", "put", "append"})),
    ("multi-register", frozenset({"txn"})),
    ("mutex", frozenset({"acquire", "release"})),
    ("fifo-queue", frozenset({"enqueue", "dequeue"})),
    ("append-only-log", frozenset({"append", "read", "end"})),
    ("counter", frozenset({"add", "read"})),
    ("set", frozenset({"add", "remove", "contains", "read"})),
)


TRANSACTIONS = frozenset({"send", "poll", "txn"})
SUBSCRIPTIONS = frozenset({"assign", "subscribe"})
OTHERS = frozenset({"crash", "debug", "debug-topic-partitions"})


class PairedOperations(NamedTuple):
    """The operations of a history, and its malformed events."""

    operations: list[Operation]
    malformed: list[Malformed]


def operations_of(events: Iterable[Event], form: str) -> PairedOperations:
    """Pair invocations and completions. The position of an event in its file is its time.

    A process that begins again before it was answered never gets that answer: its operation is of unknown outcome.
    """
    begun: dict[Hashable, Event] = {}
    operations: list[Operation] = []
    malformed: list[Malformed] = []
    for event in events:
        if event.type == "invoke":
            if event.process in begun:
                operations.append(_operation(begun[event.process], None, form))
            begun[event.process] = event
            continue
        invocation = begun.pop(event.process, None)
        if invocation is None:
            malformed.append(
                Malformed(event.position + 1, f"{event.f} of process {event.process} ends and never began")
            )
        elif invocation.f != event.f:
            malformed.append(Malformed(event.position + 1, f"{invocation.f} was begun, and {event.f} ended"))
            operations.append(_operation(invocation, None, form))
        else:
            operations.append(_operation(invocation, event, form))
    operations += [_operation(invocation, None, form) for invocation in begun.values()]
    operations.sort(key=lambda operation: operation.invoked_ns)
    return PairedOperations(operations, malformed)


def _operation(invocation: Event, completion: Event | None, form: str) -> Operation:
    process = invocation.process
    assert isinstance(process, int)
    begun = Operation(
        process, invocation.position, None, invocation.f, invocation.value, UNKNOWN, "info", invocation.key
    )
    if completion is None or completion.type == "info":
        return begun
    if completion.type == "ok":
        return begun._replace(completed_ns=completion.position, status="ok", result=_result(completion, form))
    if form == JEPSEN_LOG and invocation.f == "cas":
        return begun._replace(completed_ns=completion.position, status="ok", result=False)
    return begun._replace(completed_ns=completion.position, status="fail")


def _result(completion: Event, form: str) -> Value:
    if completion.f == "cas":
        return completion.value if isinstance(completion.value, bool) else True
    if completion.f == "read" and completion.value is None and form == "jepsen-edn":
        return UNKNOWN  # as Knossos takes it: the history does not record what was read
    return completion.value


def model_of(operations: Iterable[Operation]) -> str | None:
    """Return the smallest model that has all functions of a history; None if there is none."""
    functions: set[str] = set()
    collections = False
    for operation in operations:
        functions.add(operation.function)
        collections = collections or (
            operation.function == "read" and isinstance(operation.result, list | tuple | set | frozenset)
        )
    if not functions:
        return None
    if functions <= {"add", "read"} and "add" in functions and collections:
        return "set"
    return next((name for name, known in _MODELS_BY_FUNCTIONS if functions <= known), None)


def initial_values(operations: Sequence[Operation], model: str, form: str) -> list[Value]:
    """Return the initial values to be tried. Files do not contain them; Jepsen's registers begin as nil or as 0.

    A value that no operation reads makes no difference, so 0 is tried only where it was read.
    """
    if form not in ("jepsen-edn", JSON_LINES) or model not in ("register", "cas-register", "multi-register"):
        return []
    if model != "multi-register":
        return [None, 0] if any(_touches_zero(operation) for operation in operations) else [None]
    names = {
        micro[1]
        for operation in operations
        if isinstance(operation.argument, list | tuple)
        for micro in operation.argument
        if isinstance(micro, list | tuple) and len(micro) == 3 and isinstance(micro[1], Hashable)
    }
    return [{}, dict.fromkeys(sorted(names, key=repr), 0)]


def _touches_zero(operation: Operation) -> bool:
    if operation.function == "cas":
        return isinstance(operation.argument, list | tuple) and operation.argument[:1] in ([0], (0,))
    return operation.function == "read" and operation.result == 0


class KafkaRecord(NamedTuple):
    """A record as an operation reports it."""

    key: Hashable
    """The partition."""
    offset: int | None
    value: Hashable


@dataclass(frozen=True, slots=True)
class KafkaOperation:
    """One operation. `invoked` and `completed` are positions in the history."""

    process: Hashable
    type: str
    f: str
    invoked: int
    completed: int
    sends: tuple[KafkaRecord, ...] = ()
    polls: tuple[KafkaRecord, ...] = ()
    named: frozenset[Hashable] = frozenset()
    """Partitions (or topics) that an assign or subscribe names."""
    rebalanced: frozenset[Hashable] = frozenset()
    invoked_ns: int | None = None
    completed_ns: int | None = None


class KafkaHistory(NamedTuple):
    """Operations in the order in which they completed; those that never completed are `info` and last."""

    operations: list[KafkaOperation]
    malformed: list[Malformed]


def is_kafka(event: Event) -> bool:
    """Return whether an event belongs to the Kafka workload."""
    if event.f in ("send", "poll", *SUBSCRIPTIONS):
        return True
    return event.f == "txn" and _kinds(event.value) <= {"send", "poll"} and bool(_kinds(event.value))


def kafka_history(events: Iterable[Event]) -> KafkaHistory:
    """Assemble events into operations. Never raises: malformed events are listed, and the rest is still used."""
    begun: dict[Hashable, Event] = {}
    operations: list[KafkaOperation] = []
    malformed: list[Malformed] = []
    last = 0
    for event in events:
        last = event.position + 1
        if event.f not in TRANSACTIONS | SUBSCRIPTIONS | OTHERS:
            malformed.append(Malformed(event.position + 1, f"no operation of a Kafka history: {event.f}"))
        elif event.type == "invoke":
            if event.process in begun:
                abandoned = begun[event.process]
                operations.append(_kafka_operation(abandoned, abandoned._replace(type="info"), malformed))
            begun[event.process] = event
        else:
            invocation = begun.pop(event.process, None)
            if invocation is not None and invocation.f != event.f:
                malformed.append(Malformed(event.position + 1, f"{invocation.f} was begun, and {event.f} completed"))
            operations.append(_kafka_operation(invocation or event, event, malformed))
    for invocation in begun.values():
        operations.append(_kafka_operation(invocation, invocation._replace(type="info", position=last), malformed))
    return KafkaHistory(operations, malformed)


def _kafka_operation(invocation: Event, completion: Event, malformed: list[Malformed]) -> KafkaOperation:
    value = invocation.value if completion.value is None else completion.value
    sends: list[KafkaRecord] = []
    polls: list[KafkaRecord] = []
    named: frozenset[Hashable] = frozenset()
    try:
        if completion.f in TRANSACTIONS:
            for micro in value or ():
                _add(micro, completion.type != "invoke", sends, polls)
        elif completion.f in SUBSCRIPTIONS:
            named = frozenset(frozen(key) for key in value or ())
    except (TypeError, ValueError, LookupError):
        malformed.append(Malformed(completion.position + 1, f"the value of a {completion.f} is none"))
    return KafkaOperation(
        completion.process,
        completion.type,
        completion.f,
        invocation.position,
        completion.position,
        tuple(sends),
        tuple(polls),
        named,
        invocation.rebalanced | completion.rebalanced,
        invocation.time,
        completion.time,
    )


def _add(micro: Value, completed: bool, sends: list[KafkaRecord], polls: list[KafkaRecord]) -> None:
    """Add the records of a micro-operation. Raises what indexing and unpacking raise if it is none."""
    kind, *rest = micro
    if kind == "send":
        if len(rest) == 3:
            key, offset, value = rest
        else:
            key, value = rest
            offset = None
            if completed and isinstance(value, list | tuple) and len(value) == 2:
                offset, value = value
        sends.append(KafkaRecord(frozen(key), _offset(offset), frozen(value)))
    elif kind == "poll":
        polled = rest[0] if rest else None
        pairs = polled.items() if isinstance(polled, dict) else polled or ()
        for key, records in pairs:
            polls.extend(KafkaRecord(frozen(key), _offset(offset), frozen(value)) for offset, value in records)
    else:
        raise ValueError(kind)


def _offset(offset: object) -> int | None:
    if offset is None:
        return None
    if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
        raise ValueError(offset)
    return offset


def _kinds(value: object) -> set[object]:
    if not isinstance(value, list | tuple):
        return set()
    return {frozen(micro[0]) if isinstance(micro, list | tuple) and micro else None for micro in value}
