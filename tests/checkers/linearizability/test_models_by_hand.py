"""One small history per model that no order explains, and its near miss. Time goes from left to right:

w1   a write of 1        r1   a read of 1        ?    never returned
"""

from __future__ import annotations

from typing import Any

import pytest

from checkers.linearizability.check import check_history
from checkers.linearizability.operations import NOT_LINEARIZABLE, UNKNOWN, Operation


def op(
    begin: int, end: int | None, function: str, argument: Any = None, result: Any = UNKNOWN, **more: Any
) -> Operation:
    return Operation(begin, begin, end, function, argument, result, "info" if end is None else "ok", **more)


CASES = {
    # |--w1--|  |--r None--|      the write was over when the read began
    "register: a stale read": ("register", [op(0, 1, "write", 1), op(2, 3, "read", None, None)], False),
    # |--w1--|
    #      |--r None--|
    "register: a read beside the write": ("register", [op(0, 2, "write", 1), op(1, 3, "read", None, None)], True),
    # intervals that touch are concurrent
    "register: a read at the instant of the write": (
        "register",
        [op(0, 1, "write", 1), op(1, 2, "read", None, None)],
        True,
    ),
    "register: values flicker": (
        "register",
        [op(0, 9, "write", 1), op(1, 2, "read", None, 1), op(3, 4, "read", None, None)],
        False,
    ),
    "register: a lost write shows late": (
        "register",
        [op(0, None, "write", 1), op(1, 2, "read", None, None), op(3, 4, "read", None, 1)],
        True,
    ),
    "register: a lost write shows and hides": (
        "register",
        [op(0, None, "write", 1), op(1, 2, "read", None, 1), op(3, 4, "read", None, None)],
        False,
    ),
    "register: the same value twice": (
        "register",
        [op(0, 1, "write", 1), op(2, 3, "write", 2), op(4, None, "write", 1), op(5, 6, "read", None, 1)],
        True,
    ),
    # a write of the present value must not be put into the order at once: it is needed after the 2
    "register: a write of the present value": (
        "register",
        [op(0, 1, "write", 1), op(2, 7, "write", 1), op(3, 4, "write", 2), op(8, 9, "read", None, 1)],
        True,
    ),
    "register: reads of nothing known": ("register", [op(0, 1, "write", 1), op(2, 3, "read", None, UNKNOWN)], True),
    "register: a failed write does not show": (
        "register",
        [op(0, 1, "write", 1)._replace(status="fail"), op(2, 3, "read", None, 1)],
        False,
    ),
    "cas: swapped from what was not there": (
        "cas-register",
        [op(0, 1, "write", 1), op(2, 3, "cas", (2, 3), True)],
        False,
    ),
    "cas: refused although it was there": (
        "cas-register",
        [op(0, 1, "write", 1), op(2, 3, "cas", (1, 3), False)],
        False,
    ),
    "cas: refused beside another": (
        "cas-register",
        [op(0, 1, "write", 1), op(2, 5, "cas", (1, 3), False), op(2, 5, "cas", (1, 4), True)],
        True,
    ),
    "cas: two win": (
        "cas-register",
        [op(0, 1, "write", 1), op(2, 5, "cas", (1, 3), True), op(2, 5, "cas", (1, 4), True)],
        False,
    ),
    "cas: an unknown one did happen": (
        "cas-register",
        [op(0, 1, "write", 1), op(2, None, "cas", (1, 3)), op(4, 5, "read", None, 3)],
        True,
    ),
    "cas: one unknown, used twice": (
        "cas-register",
        [
            op(0, 1, "write", 1),
            op(2, None, "cas", (1, 3)),
            op(4, 5, "read", None, 3),
            op(6, 7, "write", 1),
            op(8, 9, "read", None, 3),
        ],
        False,
    ),
    "multi-register: half a transaction": (
        "multi-register",
        [
            op(0, 1, "txn", [["write", "x", 1], ["write", "y", 1]]),
            op(2, 3, "txn", [["read", "x", None], ["read", "y", None]], [["read", "x", 1], ["read", "y", None]]),
        ],
        False,
    ),
    # |--wx1 wy1?
    #    |-rx1-|  |-ry-|         the first read shows that both were written
    "multi-register: a lost transaction shows by half": (
        "multi-register",
        [
            op(0, None, "txn", [("write", "x", 1), ("write", "y", 1)]),
            op(1, 2, "txn", [("read", "x", None)], [("read", "x", 1)]),
            op(3, 4, "txn", [("read", "y", None)], [("read", "y", None)]),
        ],
        False,
    ),
    "multi-register: a lost transaction shows as a whole": (
        "multi-register",
        [
            op(0, None, "txn", [("write", "x", 1), ("write", "y", 1)]),
            op(1, 2, "txn", [("read", "y", None)], [("read", "y", None)]),
            op(3, 4, "txn", [("read", "x", None)], [("read", "x", 1)]),
            op(5, 6, "txn", [("read", "y", None)], [("read", "y", 1)]),
        ],
        True,
    ),
    "multi-register: a lost write of what was there at first": (
        "multi-register",
        [
            op(0, 1, "txn", [("write", "x", 1)]),
            op(2, None, "txn", [("write", "x", None)]),
            op(3, 4, "txn", [("read", "x", None)], [("read", "x", None)]),
        ],
        True,
    ),
    # |----w1----|  |-r1-|  |-r2-|
    # |----w2----|
    "multi-register: two writes in the order of their reads": (
        "multi-register",
        [
            *(op(0, 9, "txn", [("write", "x", 1)]), op(0, 8, "txn", [("write", "x", 2)])),
            op(1, 2, "txn", [("read", "x", None)], [("read", "x", 1)]),
            op(10, 11, "txn", [("read", "x", None)], [("read", "x", 2)]),
        ],
        True,
    ),
    "multi-register: a value comes back": (
        "multi-register",
        [
            *(op(0, 9, "txn", [("write", "x", 1)]), op(0, 8, "txn", [("write", "x", 2)])),
            op(1, 2, "txn", [("read", "x", None)], [("read", "x", 1)]),
            op(3, 4, "txn", [("read", "x", None)], [("read", "x", 2)]),
            op(10, 11, "txn", [("read", "x", None)], [("read", "x", 1)]),
        ],
        False,
    ),
    "multi-register: names apart": (
        "multi-register",
        [op(0, 1, "txn", [["write", "x", 1]]), op(2, 3, "txn", [["r", "y", None]], [["r", "y", None]])],
        True,
    ),
    "multi-register: two names in two orders": (
        "multi-register",
        [
            op(0, 9, "txn", [["w", "x", 1]]),
            op(0, 9, "txn", [["w", "y", 1]]),
            op(1, 2, "txn", [["r", "x", None], ["r", "y", None]], [["r", "x", 1], ["r", "y", None]]),
            op(3, 4, "txn", [["r", "x", None], ["r", "y", None]], [["r", "x", None], ["r", "y", 1]]),
        ],
        False,
    ),
    "kv: appended the other way round": (
        "kv",
        [op(0, 1, "append", "a"), op(2, 3, "append", "b"), op(4, 5, "get", None, "ba")],
        False,
    ),
    "kv: appended at once": (
        "kv",
        [op(0, 3, "append", "a"), op(2, 3, "append", "b"), op(4, 5, "get", None, "ba")],
        True,
    ),
    "kv: keys know nothing of each other": (
        "kv",
        [op(0, 1, "put", "a", key="x"), op(2, 3, "get", None, "", key="y")],
        True,
    ),
    "mutex: held twice": ("mutex", [op(0, 1, "acquire"), op(2, 3, "acquire")], False),
    "mutex: released by one who never returned": (
        "mutex",
        [op(0, 1, "acquire"), op(1, None, "release"), op(2, 3, "acquire")],
        True,
    ),
    "counter: more than was added": ("counter", [op(0, 1, "add", 1), op(2, 3, "read", None, 2)], False),
    "counter: what was perhaps added": (
        "counter",
        [op(0, 1, "add", 1), op(0, None, "add", 1), op(2, 3, "read", None, 2), op(4, 5, "read", None, 2)],
        True,
    ),
    "set: an element disappears": (
        "set",
        [op(0, 1, "add", 1), op(2, 3, "read", None, [1]), op(4, 5, "read", None, [])],
        False,
    ),
    "set: two reads see two halves": (
        "set",
        [op(0, 9, "add", 1), op(0, 9, "add", 2), op(1, 8, "read", None, [1]), op(1, 8, "read", None, [2])],
        False,
    ),
    "set: two reads, one after the other": (
        "set",
        [op(0, 9, "add", 1), op(0, 9, "add", 2), op(1, 8, "read", None, [1]), op(1, 8, "read", None, [2, 1])],
        True,
    ),
    "set: removed, and gone": (
        "set",
        [op(0, 1, "add", 1), op(2, 3, "remove", 1), op(4, 5, "contains", 1, False)],
        True,
    ),
    "queue: overtaken": (
        "fifo-queue",
        [op(0, 1, "enqueue", 1), op(2, 3, "enqueue", 2), op(4, 5, "dequeue", None, 2), op(6, 7, "dequeue", None, 1)],
        False,
    ),
    "queue: enqueued at once": (
        "fifo-queue",
        [op(0, 3, "enqueue", 1), op(2, 3, "enqueue", 2), op(4, 5, "dequeue", None, 2), op(6, 7, "dequeue", None, 1)],
        True,
    ),
    "queue: empty although full": ("fifo-queue", [op(0, 1, "enqueue", 1), op(2, 3, "dequeue", None, None)], False),
    # 1 is in it from 1 to 4, 2 from 3 on: never empty between 2 and 5
    "queue: one or the other was always in it": (
        "fifo-queue",
        [
            op(0, 1, "enqueue", 1),
            op(2, 5, "dequeue", None, None),
            op(2, 3, "enqueue", 2),
            op(4, 6, "dequeue", None, 1),
        ],
        False,
    ),
    "queue: it was empty for an instant": (
        "fifo-queue",
        [
            op(0, 1, "enqueue", 1),
            op(2, 5, "dequeue", None, None),
            op(2, 4, "enqueue", 2),
            op(4, 6, "dequeue", None, 1),
        ],
        True,
    ),
    # |-e1-| |-e2-|  |--d?        |-e3-|  |-d3-|
    #                    |--d?
    "queue: lost dequeues took what was before": (
        "fifo-queue",
        [
            *(op(0, 1, "enqueue", 1), op(2, 3, "enqueue", 2), op(8, 9, "enqueue", 3)),
            *(op(4, None, "dequeue"), op(6, None, "dequeue"), op(10, 11, "dequeue", None, 3)),
        ],
        True,
    ),
    "queue: one lost dequeue cannot take two": (
        "fifo-queue",
        [
            *(op(0, 1, "enqueue", 1), op(2, 3, "enqueue", 2), op(8, 9, "enqueue", 3)),
            *(op(4, None, "dequeue"), op(10, 11, "dequeue", None, 3)),
        ],
        False,
    ),
    "queue: the second lost dequeue comes too late": (
        "fifo-queue",
        [
            *(op(0, 1, "enqueue", 1), op(2, 3, "enqueue", 2), op(8, 9, "enqueue", 3)),
            *(op(4, None, "dequeue"), op(12, None, "dequeue"), op(10, 11, "dequeue", None, 3)),
        ],
        False,
    ),
    "queue: a lost dequeue emptied it": (
        "fifo-queue",
        [op(0, 1, "enqueue", 1), op(2, None, "dequeue"), op(3, 4, "dequeue", None, None)],
        True,
    ),
    "queue: it was empty before the lost dequeue": (
        "fifo-queue",
        [op(0, 1, "enqueue", 1), op(5, None, "dequeue"), op(3, 4, "dequeue", None, None)],
        False,
    ),
    "log: a read before the append": ("append-only-log", [op(0, 1, "read", 0, 7), op(2, 3, "append", 7, 0)], False),
    "log: the end after the append": (
        "append-only-log",
        [op(0, 1, "append", 7, 0), op(2, 3, "append", 8, 1), op(4, 5, "end", None, 1)],
        False,
    ),
    "log: offsets against time": ("append-only-log", [op(0, 1, "append", 7, 1), op(2, 3, "append", 8, 0)], False),
    "log: a lost append fills the gap": (
        "append-only-log",
        [op(0, None, "append", 7), op(2, 3, "append", 8, 1), op(4, 5, "read", 0, 7)],
        True,
    ),
    "log: nothing fills the gap": ("append-only-log", [op(2, 3, "append", 8, 1)], False),
    "log: a far offset": ("append-only-log", [op(2, 3, "append", 8, 10**15)], False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_history_by_hand(name):
    model, operations, linearizable = CASES[name]
    verdict = check_history(operations, model)
    assert verdict.outcome == ("valid" if linearizable else "invalid")
    assert (NOT_LINEARIZABLE in verdict.kinds) is not linearizable
    assert bool(verdict.evidence) is not linearizable


def test_what_fits_nowhere_is_named_with_the_longest_orders():
    operations = [
        op(0, 1, "write", 1),
        op(2, 3, "cas", (1, 2), True),
        op(4, 5, "read", None, 2),
        op(6, 7, "read", None, 1),
        op(8, 9, "read", None, 2),
    ]
    (evidence,) = check_history(operations, "cas-register").evidence
    assert evidence.stuck is not None
    assert evidence.operations[evidence.stuck].invoked_ns == 6
    (order,) = evidence.orders
    assert [(evidence.operations[step.operation].function, step.state) for step in order] == [
        ("write", "1"),
        ("cas", "2"),
        ("read", "2"),
    ]


def test_the_read_of_an_overwritten_value_fits_nowhere_not_the_write():
    operations = [
        op(0, 1, "txn", [("write", "x", 1)]),
        op(2, 3, "txn", [("write", "x", 2)]),
        op(4, 5, "txn", [("read", "x", None)], [("read", "x", 1)]),
    ]
    (evidence,) = check_history(operations, "multi-register").evidence
    assert evidence.stuck is not None
    assert evidence.operations[evidence.stuck].invoked_ns == 4


def test_an_initial_value_is_taken():
    read = [op(0, 1, "read", None, 5)]
    assert check_history(read, "register").outcome == "invalid"
    assert check_history(read, "register", initial=5).outcome == "valid"
