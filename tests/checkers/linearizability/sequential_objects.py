"""Sequential objects and a search of every order, independent of the models under test.

An object is a value and a function that answers (value afterwards, result).
"""

from __future__ import annotations

from collections.abc import Sequence

from checkers.linearizability.operations import UNKNOWN, Operation

REFUSED = object()
"""The result of an operation that the object does not allow now: it waits."""


def register(value, function, argument):
    if function == "read":
        return value, value
    if function == "write":
        return argument, None
    old, new = argument
    return (new, True) if value == old else (value, False)


def registers(values, function, argument):
    values = dict(values)
    result = []
    for kind, name, value in argument:
        if kind in ("write", "w"):
            values[name] = value
        result.append((kind, name, value if kind in ("write", "w") else values.get(name)))
    return values, tuple(result)


def text(value, function, argument):
    if function == "get":
        return value, value
    return (argument if function == "put" else value + argument), None


def mutex(held, function, argument):
    return (held, REFUSED) if held == (function == "acquire") else (not held, None)


def counter(number, function, argument):
    return (number, number) if function == "read" else (number + argument, None)


def elements(there, function, argument):
    match function:
        case "read":
            return there, there
        case "contains":
            return there, argument in there
        case "add":
            return there | {argument}, None
        case _:
            return there - {argument}, None


def queue(items, function, argument):
    if function == "enqueue":
        return [*items, argument], None
    return (items[1:], items[0]) if items else (items, None)


def log(records, function, argument):
    if function == "end":
        return records, len(records)
    if function == "read":
        return records, records[argument] if argument < len(records) else None
    return [*records, argument], len(records)


OBJECTS = {
    "register": (register, None),
    "cas-register": (register, None),
    "multi-register": (registers, {}),
    "kv": (text, ""),
    "mutex": (mutex, False),
    "counter": (counter, 0),
    "set": (elements, frozenset()),
    "fifo-queue": (queue, []),
    "append-only-log": (log, []),
}

WITHOUT_RESULT = {"write", "put", "acquire", "release", "add", "remove", "enqueue"}


def is_linearizable(model: str, operations: Sequence[Operation]) -> bool:
    """Try every order that time allows, of everything that returned and any of what did not."""
    apply, value = OBJECTS[model]
    return _can_go_on(apply, value, [operation for operation in operations if operation.status != "fail"], model)


def _can_go_on(apply, value, left, model):
    returned = [operation.completed_ns for operation in left if operation.status == "ok"]
    if not returned:
        return True
    first_return = min(returned)
    for index, operation in enumerate(left):
        if operation.invoked_ns <= first_return:
            after, result = apply(value, operation.function, operation.argument)
            if _fits(operation, result, model) and _can_go_on(apply, after, left[:index] + left[index + 1 :], model):
                return True
    return False


def is_linearizable_by_sets(model: str, operations: Sequence[Operation]) -> bool:
    """Decide the same for longer histories: go on once only from the same set of operations in the same state."""
    apply, first = OBJECTS[model]
    happened = [operation for operation in operations if operation.status != "fail"]
    ends = {index: one.completed_ns for index, one in enumerate(happened) if one.status == "ok"}
    returned = sum(1 << index for index in ends)
    before = [sum(1 << index for index, end in ends.items() if end < one.invoked_ns) for one in happened]
    waiting, seen = [(0, first)], set()
    while waiting:
        placed, value = waiting.pop()
        if placed & returned == returned:
            return True
        if (placed, repr(value)) not in seen:
            seen.add((placed, repr(value)))
            for index, operation in enumerate(happened):
                if not placed >> index & 1 and before[index] & ~placed == 0:
                    after, result = apply(value, operation.function, operation.argument)
                    if _fits(operation, result, model):
                        waiting.append((placed | 1 << index, after))
    return False


def _fits(operation, result, model):
    if result is REFUSED:
        return False
    if operation.status == "info" or operation.function in WITHOUT_RESULT or operation.result is UNKNOWN:
        return True
    if operation.function == "txn":
        pairs = zip(result, operation.result, strict=True)
        return all(seen[2] is UNKNOWN or seen == found for found, seen in pairs)
    return (operation.function == "append" and model == "kv") or result == operation.result
