"""Random histories of few kinds of operations, half of whose outcomes are lost: what the kernels treat specially.

Identical operations, lost ones beside others that return, reads after each of several losses, transactions that read
what they overwrite, and writes of None are rare in `random_histories`, and nearly all that is drawn here.
"""

from __future__ import annotations

import random as rnd
from collections.abc import Callable

from checkers.linearizability.operations import UNKNOWN, Operation
from tests.checkers.linearizability.sequential_objects import OBJECTS, REFUSED, WITHOUT_RESULT

NAMES = "ax"
OBSERVING: dict[str, list[tuple[str, object]]] = {
    "register": [("read", None)],
    "cas-register": [("read", None), ("cas", (2, 2))],
    "kv": [("get", None)],
    "mutex": [],
    "counter": [("read", None)],
    "set": [("read", None), ("contains", 1), ("contains", 2)],
    "fifo-queue": [("dequeue", None)],
    "append-only-log": [("read", 0), ("read", 1), ("read", 2), ("end", None)],
}
CHANGING: dict[str, list[tuple[str, object]]] = {
    "register": [("write", 1), ("write", 2), ("write", None)],
    "cas-register": [("write", 1), ("write", None), ("cas", (1, 2)), ("cas", (2, 1)), ("cas", (None, 1))],
    "kv": [("put", "b"), ("put", ""), ("append", "b"), ("append", "c")],
    "mutex": [("acquire", None), ("release", None)],
    "counter": [("add", 1), ("add", -1), ("add", 2)],
    "set": [("add", 1), ("add", 2), ("remove", 1)],
    "fifo-queue": [("enqueue", 1), ("enqueue", 2), ("dequeue", None)],
    "append-only-log": [("append", 1), ("append", 2)],
}
WRITING_ONCE = {"register": "write", "cas-register": "write", "fifo-queue": "enqueue", "append-only-log": "append"}
ALL_CHANGING = {"multi-register", "mutex", "fifo-queue"}
"""Models of which nearly every operation may change the state. Of the others, hardly any that observes is lost."""
ORDER_IS_STATE = {"fifo-queue", "append-only-log"}
"""Models in which each order of different values is a state of its own: more than eight take the search too long."""

Drawn = tuple[str, object]


def _requests(model: str, random: rnd.Random) -> Callable[[int], Drawn]:
    """Return what draws the function and argument of the nth operation: of one or two kinds, and observing ones."""
    once = random.random() < 0.4
    observing = random.uniform(0.2, 0.5)
    if model == "multi-register":
        return lambda number: _transaction(random, number if once else None, observing)
    kinds = random.sample(CHANGING[model], min(len(CHANGING[model]), random.choice([1, 2])))
    if model == "mutex":
        kinds = CHANGING[model]

    def draw(number: int) -> Drawn:
        if random.random() < observing and OBSERVING[model]:
            return random.choice(OBSERVING[model])
        function, argument = random.choice(kinds)
        return (function, number) if once and WRITING_ONCE.get(model) == function else (function, argument)

    return draw


def _transaction(random: rnd.Random, fresh: int | None, observing: float) -> Drawn:
    """Draw a transaction that may take a name more than once. `fresh`: a value that no other writes."""
    micro = []
    for place in range(random.choice([1, 1, 2, 2, 3])):
        name = random.choice(NAMES) if random.random() < 0.4 else "x"
        if random.random() < observing:
            micro.append((random.choice(["read", "r"]), name, None))
        else:
            value = random.choice([1, 2]) if fresh is None else 10 * fresh + place
            micro.append((random.choice(["write", "w"]), name, None if random.random() < 0.15 else value))
    return "txn", tuple(micro)


def _changed(operation: Operation, others: list[Operation], random: rnd.Random) -> Operation:
    """Return an operation with another result: one of another operation of its kind, or one near it."""
    result = operation.result
    alike = [one.result for one in others if one.function == operation.function and one.result is not UNKNOWN]
    if operation.function == "txn":
        seen = [micro[2] for one in others for micro in one.argument]
        read = [place for place, micro in enumerate(result) if micro[0] in ("read", "r")]
        if not read:
            return operation
        place = random.choice(read)
        micro = (*result[place][:2], random.choice([None, *seen]))
        return operation._replace(result=(*result[:place], micro, *result[place + 1 :]))
    if isinstance(result, bool):
        return operation._replace(result=not result)
    if isinstance(result, int) and random.random() < 0.6:
        return operation._replace(result=result + random.choice([-2, -1, 1, 2]))
    return operation._replace(result=random.choice(alike))


def _moved(operation: Operation, random: rnd.Random) -> Operation:
    """Return an operation that was invoked or completed somewhat earlier or later."""
    step = random.choice([-4, -2, -1, 1, 2, 4])
    if operation.completed_ns is None or random.random() < 0.5:
        latest = operation.invoked_ns + abs(step) if operation.completed_ns is None else operation.completed_ns
        return operation._replace(invoked_ns=max(0, min(latest, operation.invoked_ns + step)))
    return operation._replace(completed_ns=max(operation.invoked_ns, operation.completed_ns + step))


def draw_dense_history(model: str, seed: int) -> list[Operation]:
    """Draw 6 to 11 (some models: 8) operations on a correct object; in most, a result or a time is changed."""
    random = rnd.Random(f"dense/{model}/{seed}")
    apply, thing = OBJECTS[model]
    request = _requests(model, random)
    lost_share = random.uniform(0.35, 0.6) if model in ALL_CHANGING else random.uniform(0.5, 0.8)
    width = random.choice([0, 1, 3, 9])
    operations: list[Operation] = []
    count = random.randint(6, 8 if model in ORDER_IS_STATE else 11)
    begins = [random.randrange(3 * count) for _ in range(count)]
    spans = [(random.uniform(begin, begin + width), begin, random.randint(0, width)) for begin in begins]
    for number, (_, begin, length) in enumerate(sorted(spans), 1):
        function, argument = request(number)
        observes = function in {"read", "get", "contains", "end"}
        lost = random.random() < (0.05 if observes else lost_share)
        result: object = UNKNOWN
        if not lost or random.random() < 0.5:
            after, result = apply(thing, function, argument)
            thing = thing if result is REFUSED else after
            if result is REFUSED and not lost and random.random() < 0.7:
                continue
        if lost:
            operations.append(Operation(number, begin, None, function, argument, UNKNOWN, "info"))
            continue
        if result is REFUSED or function in WITHOUT_RESULT or (model == "kv" and function == "append"):
            result = UNKNOWN
        elif function == "txn" and random.random() < 0.1:
            result = tuple((*micro[:2], UNKNOWN if micro[0] in ("read", "r") else micro[2]) for micro in result)
        operations.append(Operation(number, begin, begin + length, function, argument, result, "ok"))
    for _ in range(random.choice([0, 1, 1, 2, 3])):
        place = random.randrange(len(operations)) if operations else 0
        with_result = [index for index, one in enumerate(operations) if one.result is not UNKNOWN]
        if with_result and random.random() < 0.6:
            place = random.choice(with_result)
            operations[place] = _changed(operations[place], operations, random)
        elif operations:
            operations[place] = _moved(operations[place], random)
    random.shuffle(operations)
    return operations
