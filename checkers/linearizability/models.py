"""Defines sequential objects: what a history is checked against.

A model is a state and functions of it. `step(state, argument, result)` returns the state afterwards, or `ILLEGAL` if
the operation cannot have this result in that state. A result that is `UNKNOWN` fits everything. States, arguments and
results are hashable; `values` states which of them are equal.

| model | function | argument | result |
|---|---|---|---|
| `register` | `read` | - | the value, None while nothing was written |
| | `write` | value | - |
| `cas-register` | as `register`, and `cas` | [old, new] | True: swapped; False: the value was not `old` |
| `multi-register` | `txn` | list of [`read` or `write`, name, value], or `r`, `w` | the same, its reads with values |
| `kv` | `get`, `put`, `append` | -, value, text | the value; a key holds "" at first |
| `mutex` | `acquire`, `release` | - | - |
| `counter` | `add`, `read` | number, - | -, the number; 0 at first |
| `set` | `add`, `remove` | element | - |
| | `contains` | element | True or False |
| | `read` | - | all elements, in any order; a repeated one counts once |
| `fifo-queue` | `enqueue` | value, not None | - |
| | `dequeue` | - | the value, None: the queue was empty |
| `append-only-log` | `append` | value | its offset, or UNKNOWN |
| | `read` | offset | the value there, None: the log ends before it, or None was appended |
| | `end` | - | the offset of the next append |

A completed `write`, `acquire`, … may have any result: it carries no information. A completed `cas` with the result
`UNKNOWN` or None swapped. A mutex does not know who holds it: any process may release it.
A counter adds as Python does; the sum of a float and an integer beyond all floats is infinite.

A result that a function never has makes the operation malformed in `cas`, `txn`, `contains`, `end` and the `read` of a
set. Elsewhere it is compared like any other, and fits no state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from checkers.linearizability.operations import UNKNOWN, MalformedOperation, Operation
from checkers.linearizability.values import NAN, SCALARS, FrozenMapping, Value, frozen, quickly_frozen, shown

State = Hashable
Binding: TypeAlias = tuple[Hashable, Hashable]
"""A name, and a value that was written to it."""


class Illegal(Enum):
    """The answer of a step that a state does not allow."""

    ILLEGAL = "illegal"


ILLEGAL: Final = Illegal.ILLEGAL


class Unread(Enum):
    """A value that was written, and that no operation read."""

    UNREAD = "never read"

    def __repr__(self) -> str:
        return "(never read)"


_READ: Final = frozenset({"read", "r"})
_WRITE: Final = frozenset({"write", "w"})


class Function(NamedTuple):
    """One function of a model. `observes(argument, result)`: wherever it is legal, it changes no state."""

    step: Callable[[Value, Value, Value], Value]
    observes: Callable[[Value, Value], bool] = lambda _argument, _result: False
    problem: Callable[[Value, Value], str | None] = lambda _argument, _result: None


@dataclass(frozen=True)
class Reading:
    """How operations tell what they write and read, of a model whose states are sets of bindings, one for each name.

    `written(argument)`: the bindings that an operation may leave. `read(argument, result)`: those without which it is
    not legal. `at_first(state, binding)`: whether it is read in a state that no operation has changed.
    `without_unread(operation, bindings)`: the same operation, which writes one value instead of any in none of these.
    """

    written: Callable[[Value], Iterable[Binding]]
    read: Callable[[Value, Value], Iterable[Binding]]
    at_first: Callable[[Value, Binding], bool]
    without_unread: Callable[[Operation, Container[Binding]], Operation]


@dataclass(frozen=True)
class Model:
    """A sequential object, by the name that a user gives."""

    name: str
    initial: State
    functions: Mapping[str, Function]
    meaning: str
    states: type | tuple[type, ...] = object
    """The type of a state, if not every value is one."""
    is_state: Callable[[Value], bool] = lambda _state: True
    """Whether a value of that type is a state."""
    names_in_argument: Callable[[Value], Iterable[Hashable]] | None = field(default=None)
    """The named parts of the state that one operation touches, if it may touch several."""
    reading: Reading | None = None
    """Where the values that operations see tell by whom they were written."""


def prepared(model: Model, operation: Operation) -> Operation:
    """Return the operation as the kernels take it: frozen, with no result where none is known.

    Raises `MalformedOperation` where the model has no meaning for it.
    """
    process, invoked, completed, name, argument, result, status, key = operation
    function = model.functions.get(name)
    if function is None:
        known = ", ".join(model.functions)
        raise MalformedOperation(f"{model.name} has no function {name!r}: it has {known}")
    if status == "info":
        completed, result = None, UNKNOWN
    elif status not in ("ok", "fail"):
        raise MalformedOperation(f"the status of {name} is ok, fail or info, found {shown(status)}")
    elif completed is None:
        raise MalformedOperation(f"{name} is {status} without a time of completion")
    elif completed < invoked:
        raise MalformedOperation(f"{name} completed before it was invoked")
    if type(argument) not in SCALARS:
        argument = quickly_frozen(argument)
    if type(result) not in SCALARS:
        result = quickly_frozen(result)
    if type(key) not in SCALARS:
        key = quickly_frozen(key)
    problem = function.problem(argument, result)
    if problem is not None:
        raise MalformedOperation(f"{name}: {problem}")
    if (
        argument is operation.argument
        and result is operation.result
        and key is operation.key
        and completed is operation.completed_ns
    ):
        return operation
    return Operation(process, invoked, completed, name, argument, result, status, key)


def _always(_argument: Value, _result: Value) -> bool:
    return True


def _read(state: Value, _argument: Value, result: Value) -> Value:
    return state if result is UNKNOWN or result == state else ILLEGAL


def _write(_state: Value, argument: Value, _result: Value) -> Value:
    return argument


def _cas(state: Value, argument: Value, result: Value) -> Value:
    old, new = argument
    if result is False:
        return state if state != old else ILLEGAL
    return new if state == old else ILLEGAL


def _cas_observes(argument: Value, result: Value) -> bool:
    return result is False or argument[0] == argument[1]


def _cas_problem(argument: Value, result: Value) -> str | None:
    if not isinstance(argument, tuple) or len(argument) != 2:
        return f"its argument is [old, new], found {shown(argument)}"
    if result is not UNKNOWN and result is not None and not isinstance(result, bool):
        return f"its result is true or false, found {shown(result)}"
    return None


def _txn(state: Value, argument: Value, result: Value) -> Value:
    values = dict(state)
    written = set()
    for position, (kind, name, value) in enumerate(argument):
        if kind in _WRITE:
            values[name] = value
            written.add(name)
        elif result is not UNKNOWN and result[position][2] is not UNKNOWN and result[position][2] != values.get(name):
            return ILLEGAL
    return frozenset(
        [*(binding for binding in state if binding[0] not in written), *((name, values[name]) for name in written)]
    )


def _txn_observes(argument: Value, _result: Value) -> bool:
    return all(kind in _READ for kind, _, _ in argument)


def _txn_problem(argument: Value, result: Value) -> str | None:
    if not isinstance(argument, tuple) or not all(_is_micro_operation(item) for item in argument):
        return f"its argument is a list of [read or write, name, value], found {shown(argument)}"
    if result is UNKNOWN:
        return None
    if not isinstance(result, tuple) or [item[:2] for item in argument] != [
        item[:2] if _is_micro_operation(item) else None for item in result
    ]:
        return f"its result repeats its argument {shown(argument)}, found {shown(result)}"
    return None


def _is_micro_operation(item: Value) -> bool:
    return isinstance(item, tuple) and len(item) == 3 and item[0] in _READ | _WRITE


def _txn_written(argument: Value) -> Iterable[Binding]:
    return ((name, value) for kind, name, value in argument if kind in _WRITE)


def _txn_read(_argument: Value, result: Value) -> Iterable[Binding]:
    known = () if result is UNKNOWN else result
    return ((name, value) for kind, name, value in known if kind in _READ and value is not UNKNOWN)


def _is_bindings(state: Value) -> bool:
    """Whether a set is one of [name, value], each name once."""
    pairs = all(isinstance(binding, tuple) and len(binding) == 2 for binding in state)
    return pairs and len(dict(state)) == len(state)


def _txn_at_first(state: Value, binding: Binding) -> bool:
    return dict(state).get(binding[0]) == binding[1]


def _txn_without_unread(operation: Operation, bindings: Container[Binding]) -> Operation:
    argument = tuple(
        [
            micro if micro[0] in _READ else ("write", micro[1], micro[2] if micro[1:] in bindings else Unread.UNREAD)
            for micro in operation.argument
        ]
    )
    if operation.result is UNKNOWN or _txn_observes(argument, UNKNOWN):
        return operation._replace(argument=argument)
    read = tuple([micro if micro[0] in _READ else None for micro in operation.result])
    return operation._replace(argument=argument, result=UNKNOWN if not any(read) else read)


def _append_text(state: Value, argument: Value, _result: Value) -> Value:
    return state + argument if isinstance(state, str) else ILLEGAL


def _text_problem(argument: Value, _result: Value) -> str | None:
    return None if isinstance(argument, str) else f"its argument is text, found {shown(argument)}"


def _acquire(state: Value, _argument: Value, _result: Value) -> Value:
    return ILLEGAL if state else True


def _release(state: Value, _argument: Value, _result: Value) -> Value:
    return False if state else ILLEGAL


def _count(state: Value, argument: Value, _result: Value) -> Value:
    if state is NAN or argument == 0:  # a float 0 would round a large integer
        return state
    try:
        total = state + argument
    except OverflowError:
        total = _as_float(state) + _as_float(argument)
    return NAN if total != total else total


def _as_float(number: float) -> float:
    """Return a number as a float, infinite if it is beyond all floats."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _number_problem(argument: Value, _result: Value) -> str | None:
    is_number = isinstance(argument, int | float) and not isinstance(argument, bool)
    return None if is_number else f"its argument is a number, found {shown(argument)}"


def _read_set(state: Value, _argument: Value, result: Value) -> Value:
    return state if result is UNKNOWN or frozenset(result) == state else ILLEGAL


def _elements_problem(_argument: Value, result: Value) -> str | None:
    if result is UNKNOWN or isinstance(result, tuple | frozenset):
        return None
    return f"its result is a list of all elements, found {shown(result)}"


def _contains(state: Value, argument: Value, result: Value) -> Value:
    return state if result is UNKNOWN or (argument in state) == result else ILLEGAL


def _truth_problem(_argument: Value, result: Value) -> str | None:
    is_truth = result is UNKNOWN or isinstance(result, bool)
    return None if is_truth else f"its result is true or false, found {shown(result)}"


def _element_problem(argument: Value, _result: Value) -> str | None:
    return "its argument is None, which as a result says that the queue is empty" if argument is None else None


def _dequeue(state: Value, _argument: Value, result: Value) -> Value:
    if not state:
        return state if result is None or result is UNKNOWN else ILLEGAL
    return state[1:] if result is UNKNOWN or (result is not None and result == state[0]) else ILLEGAL


def _append_to_log(state: Value, argument: Value, result: Value) -> Value:
    return (*state, argument) if result is UNKNOWN or result is None or result == len(state) else ILLEGAL


def _offset_problem(argument: Value, _result: Value) -> str | None:
    is_offset = isinstance(argument, int) and not isinstance(argument, bool) and argument >= 0
    return None if is_offset else f"its argument is an offset, found {shown(argument)}"


def _read_log(state: Value, argument: Value, result: Value) -> Value:
    there = state[argument] if argument < len(state) else None
    return state if result is UNKNOWN or result == there else ILLEGAL


def _end_problem(_argument: Value, result: Value) -> str | None:
    is_number = isinstance(result, int | float) and not isinstance(result, bool)
    return None if result is UNKNOWN or is_number else f"its result is an offset, found {shown(result)}"


def _end_of_log(state: Value, _argument: Value, result: Value) -> Value:
    return state if result is UNKNOWN or result == len(state) else ILLEGAL


_REGISTER = {"read": Function(_read, _always), "write": Function(_write)}

MODELS: Final[Mapping[str, Model]] = {
    model.name: model
    for model in (
        Model("register", None, _REGISTER, "one value that is read and written"),
        Model(
            "cas-register",
            None,
            {**_REGISTER, "cas": Function(_cas, _cas_observes, _cas_problem)},
            "a register with compare-and-set",
        ),
        Model(
            "multi-register",
            frozenset(),
            {"txn": Function(_txn, _txn_observes, _txn_problem)},
            "registers by name, several of them read and written at once",
            states=frozenset,
            is_state=_is_bindings,
            names_in_argument=lambda argument: (name for _, name, _ in argument),
            reading=Reading(_txn_written, _txn_read, _txn_at_first, _txn_without_unread),
        ),
        Model(
            "kv",
            "",
            {
                "get": Function(_read, _always),
                "put": Function(_write),
                "append": Function(_append_text, problem=_text_problem),
            },
            "texts by key, that are read, replaced and appended to",
            states=str,
        ),
        Model("mutex", False, {"acquire": Function(_acquire), "release": Function(_release)}, "a lock", states=bool),
        Model(
            "counter",
            0,
            {
                "add": Function(_count, lambda argument, _: argument == 0, _number_problem),
                "read": Function(_read, _always),
            },
            "a number that is added to",
            states=(int, float),
        ),
        Model(
            "set",
            frozenset(),
            {
                "add": Function(lambda state, argument, _: state | {argument}),
                "remove": Function(lambda state, argument, _: state - {argument}),
                "contains": Function(_contains, _always, _truth_problem),
                "read": Function(_read_set, _always, _elements_problem),
            },
            "elements that are added, removed and looked for",
            states=frozenset,
        ),
        Model(
            "fifo-queue",
            (),
            {
                "enqueue": Function(lambda state, argument, _: (*state, argument), problem=_element_problem),
                "dequeue": Function(_dequeue, lambda _, result: result is None),
            },
            "a queue, first in first out",
            states=tuple,
            is_state=lambda state: None not in state,
        ),
        Model(
            "append-only-log",
            (),
            {
                "append": Function(_append_to_log),
                "read": Function(_read_log, _always, _offset_problem),
                "end": Function(_end_of_log, _always, _end_problem),
            },
            "a log whose records have consecutive offsets from 0",
            states=tuple,
        ),
    )
}


def initial_state(model: Model, initial: Value) -> State:
    """Return a user's initial value as a state of the model. Raises `MalformedOperation` if it is none.

    A set may be given as a list; registers by name as a mapping, or as a list of [name, value].
    """
    state = frozen(initial)
    if isinstance(state, FrozenMapping) and model.names_in_argument is not None:
        state = state.items
    if model.states is frozenset and isinstance(state, tuple):
        state = frozenset(state)
    if not isinstance(state, model.states) or not model.is_state(state):
        raise MalformedOperation(f"{shown(initial)} is no initial state of {model.name}, which is {model.meaning}")
    return state
