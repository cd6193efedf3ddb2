"""Small random histories of a correct object, in some of which one answer is changed."""

from __future__ import annotations

import random as rnd

from checkers.linearizability.operations import UNKNOWN, Operation
from tests.checkers.linearizability.sequential_objects import OBJECTS, REFUSED, WITHOUT_RESULT

VALUES = (1, 2, 3)


def _request(model: str, random: rnd.Random, fresh: int | None):
    """Draw a function and its argument. `fresh`: a value that no operation used, where each is used once."""
    value = fresh or random.choice(VALUES)
    match model:
        case "register":
            return random.choice([("read", None), ("write", value)])
        case "cas-register":
            compare = ("cas", (random.choice([None, *VALUES]), random.choice(VALUES)))
            return random.choice([("read", None), ("write", value), compare, compare] if not fresh else [compare])
        case "multi-register":
            names = random.sample("xy", random.choice([1, 1, 2]))
            return "txn", tuple(
                ("read", name, None) if random.random() < 0.5 else ("write", name, value) for name in names
            )
        case "kv":
            text = "abcdefghij"[value]
            return random.choice(
                [("get", None), ("get", None), ("put", text), ("append" if not fresh else "put", text)]
            )
        case "mutex":
            return random.choice([("acquire", None), ("release", None)])
        case "counter":
            return random.choice([("read", None), ("add", random.choice([1, 1, 2, -1, 0]))])
        case "set":
            shrinking = [("remove", value)] if not fresh else []
            looked_for = random.choice(VALUES)
            return random.choice([("add", random.choice(VALUES)), ("contains", looked_for), ("read", None), *shrinking])
        case "fifo-queue":
            return random.choice([("enqueue", value), ("dequeue", None)])
        case _:
            return random.choice([("append", value), ("append", value), ("read", random.randrange(4)), ("end", None)])


def _other_result(function: str, result, random: rnd.Random):
    if function == "txn":
        return tuple(
            (kind, name, random.choice([None, *VALUES]) if kind == "read" else value) for kind, name, value in result
        )
    if isinstance(result, bool):
        return not result
    if function == "append" or function == "end":
        return random.randrange(5)
    if function == "get":
        return random.choice(["", "b", "c", "bc", "cb", "d"])
    if isinstance(result, frozenset):
        return frozenset(random.sample(VALUES, random.randrange(4)))
    return random.choice([None, 0, *VALUES, 4])


def draw_history(model: str, seed: int) -> list[Operation]:
    """Draw a history of two to seven operations. Times are few, so that many are equal.

    A completed cas always returns its result: the model takes one without a result as successful.
    """
    random = rnd.Random(f"{model}/{seed}")
    apply, thing = OBJECTS[model]
    unique = random.random() < 0.5
    count = random.randint(2, 7)
    spans = []
    for number in range(count):
        begin = random.randrange(12)
        end = begin + random.choice([0, 1, 2, 3, 5, 8])
        spans.append((random.uniform(begin, end), begin, end, number))
    operations = []
    for _, begin, end, number in sorted(spans):
        function, argument = _request(model, random, 1 + number if unique else None)
        lost = random.random() < 0.2
        if lost and random.random() < 0.5:
            operations.append(Operation(number, begin, None, function, argument, UNKNOWN, "info"))
            continue
        thing, result = apply(thing, function, argument)
        if result is REFUSED and random.random() < 0.5:
            continue
        if lost:
            operations.append(Operation(number, begin, None, function, argument, UNKNOWN, "info"))
            continue
        without = function in WITHOUT_RESULT or (model == "kv" and function == "append")
        if without or result is REFUSED or (function != "cas" and random.random() < 0.05):
            result = UNKNOWN
        operations.append(Operation(number, begin, end, function, argument, result, "ok"))
    with_result = [index for index, operation in enumerate(operations) if operation.result is not UNKNOWN]
    if with_result and random.random() < 0.6:
        index = random.choice(with_result)
        changed = _other_result(operations[index].function, operations[index].result, random)
        operations[index] = operations[index]._replace(result=changed)
    random.shuffle(operations)
    return operations
