"""Pairs events to operations of a sequential object, and infers the object's model."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from checkers.foreign.events import Event, Malformed, Value
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
