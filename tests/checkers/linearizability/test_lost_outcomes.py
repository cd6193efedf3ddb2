"""Small histories with lost outcomes, one for each rule by which the kernels treat them. Time goes from left to right:

+1   add 1        r1   a read of 1        e1 d1   enqueue, dequeue of 1        ?    never returned
"""

from __future__ import annotations

from typing import Any

import pytest

from checkers.linearizability.check import check_history
from checkers.linearizability.models import MODELS, prepared
from checkers.linearizability.operations import UNKNOWN, Operation, SearchBudget
from checkers.linearizability.search import MemoryTooSmall, Search
from checkers.linearizability.special import Contradiction, decide_quickly
from tests.checkers.linearizability.sequential_objects import is_linearizable


def op(begin: int, end: int | None, function: str, argument: Any = None, result: Any = UNKNOWN) -> Operation:
    return Operation(begin, begin, end, function, argument, result, "info" if end is None else "ok")


def add(begin: int, end: int | None, number: int = 1) -> Operation:
    return op(begin, end, "add", number)


def read(begin: int, end: int, number: int) -> Operation:
    return op(begin, end, "read", None, number)


def txn(begin: int, end: int | None, *micro: tuple[str, str, object]) -> Operation:
    """A transaction: (w, name, value written) or (r, name, value read)."""
    argument = tuple((kind, name, None if kind == "r" else value) for kind, name, value in micro)
    return op(begin, end, "txn", argument, UNKNOWN if end is None else micro)


CASES = {
    # A configuration that was reached before with other lost operations is not the same one.
    # |-1?           |-1|  |-1?  |+1----|  |+1?     |r0|
    #                               |r-2|
    "counter: the later visit used fewer of one kind": (
        "counter",
        [
            *(add(9, None, -1), add(20, 20, -1), add(22, None, -1), add(26, 28), read(27, 28, -2), add(29, None)),
            read(38, 38, 0),
        ],
        True,
    ),
    # |+1?  |-1?  |+1?  |r2|
    "counter: the later visit used more of one kind": (
        "counter",
        [add(6, None), add(13, None, -1), add(16, None), read(17, 18, 2)],
        True,
    ),
    # |+1?  |r2|  |+1|  |+1?     one addition by the time of the read
    "counter: a lost addition is not used before its invocation": (
        "counter",
        [add(2, None), read(15, 15, 2), add(34, 35), add(35, None)],
        False,
    ),
    # |-1?  |-1|  |r-2|  |-1?  |-1?  |+1?  |r-4|
    "counter: three of one kind beside another kind": (
        "counter",
        [
            *(add(3, None, -1), add(13, 13, -1), read(15, 16, -2), add(16, None, -1), add(17, None, -1), add(33, None)),
            read(40, 40, -4),
        ],
        True,
    ),
    # |e1|  |d1|  |e2?
    #             |d2|
    "queue: forgotten configurations may be visited again": (
        "fifo-queue",
        [
            *(op(18, 19, "enqueue", 1), op(20, 20, "dequeue", None, 1), op(30, None, "enqueue", 2)),
            op(30, 30, "dequeue", None, 2),
        ],
        True,
    ),
    # |w1?  |r1 w2|     the only reader of 1 overwrites it
    "multi-register: a reader does not wait for itself": (
        "multi-register",
        [txn(8, None, ("w", "x", 1)), txn(10, 10, ("r", "x", 1), ("w", "x", 2))],
        True,
    ),
    # |rx-|  |wx- wa1?  |ra-|     x was None before anything was written: nothing shows that the write happened
    "multi-register: a read of what was there at first shows no write of it": (
        "multi-register",
        [txn(2, 2, ("r", "x", None)), txn(3, None, ("w", "x", None), ("w", "a", 1)), txn(15, 15, ("r", "a", None))],
        True,
    ),
    # |w1?  |r1 w2 r2|     all of 1 ends, and all of 2 begins, at one completion
    "multi-register: the only reader of a lost write reads its own, too": (
        "multi-register",
        [txn(11, None, ("w", "x", 1)), txn(15, 15, ("r", "x", 1), ("w", "x", 2), ("r", "x", 2))],
        True,
    ),
    # |e5|  |d?  |d-|  |d?     the later of the lost dequeues is listed first
    "queue: the earliest lost dequeue takes the value": (
        "fifo-queue",
        [
            *(op(28, None, "dequeue"), op(10, 10, "enqueue", 5), op(16, 17, "dequeue", None, None)),
            op(11, None, "dequeue"),
        ],
        True,
    ),
    # |a1?  |r0=1|  |a1?     the later of the lost appends is listed first
    "log: the earliest lost append has the offset": (
        "append-only-log",
        [op(24, None, "append", 1), op(23, 23, "read", 0, 1), op(8, None, "append", 1)],
        True,
    ),
}


def answers(model: str, history: list[Operation]) -> dict[str, bool | None]:
    """What each kernel says; those that do not apply, or lack memory, say nothing."""
    sequential = MODELS[model]
    operations = [prepared(sequential, operation) for operation in history]
    found = {"history": {"valid": True, "invalid": False}.get(check_history(history, model).outcome)}
    for remembered in (1, 3, 10_000):
        for look_ahead in (True, False):
            search = Search(sequential, operations, sequential.initial, remembered, look_ahead=look_ahead)
            try:
                found[f"search {remembered} {look_ahead}"] = search.advance(100_000)
            except MemoryTooSmall:
                assert remembered < 10_000
    quick = decide_quickly(sequential, operations, sequential.initial)
    return found if quick is None else {**found, "special": not isinstance(quick, Contradiction)}


@pytest.mark.parametrize("name", CASES)
def test_a_history_with_lost_outcomes(name):
    model, operations, linearizable = CASES[name]
    assert is_linearizable(model, operations) is linearizable
    assert set(answers(model, operations).values()) == {linearizable}


def lost_and_returned(lost: int, returned: int) -> list[Operation]:
    """So many writes of different values that never returned, and then others, one after the other."""
    return [
        *(op(0, None, "write", 1_000 + number) for number in range(lost)),
        *(op(2 * number + 1, 2 * number + 2, "write", number % 7) for number in range(returned)),
    ]


def test_what_waits_grows_with_the_order_and_not_with_the_kinds_of_lost_operations():
    model = MODELS["cas-register"]
    operations = [prepared(model, operation) for operation in lost_and_returned(100, 500)]
    search = Search(model, operations, model.initial, 10_000)
    assert search.advance(100_000) is True
    assert len(search._stack) <= len(operations)
    assert check_history(lost_and_returned(100, 500), model, SearchBudget(remembered=100)).outcome == "valid"


def test_what_waits_grows_with_the_order_and_not_with_the_operations_open():
    model = MODELS["counter"]
    operations = [prepared(model, add(0, 10 + number, 2**number)) for number in range(120)]
    search = Search(model, operations, model.initial, 10_000)
    assert search.advance(100_000) is True
    assert len(search._stack) <= len(operations)


# Beside each lost addition something waits in every later state, so that those states must be kept.
def test_states_in_which_a_lost_operation_waits_are_kept():
    history = [add(0, None, 5), *(add(2 * n + 1, 2 * n + 2) for n in range(60)), read(200, 201, 65)]
    for remembered, outcome in ((40, "unknown"), (10_000, "valid")):
        verdict = check_history(history, "counter", SearchBudget(remembered=remembered))
        assert verdict.outcome == outcome
        assert ("memory" in verdict.reason) is (outcome == "unknown")
