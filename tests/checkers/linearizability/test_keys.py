"""Keys of any form are separate, and a malformed operation leaves only its own key undecided."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from checkers.linearizability.check import check_history
from checkers.linearizability.operations import MALFORMED, UNKNOWN, Operation

NAN = float("nan")


def op(begin: int, function: str, argument: Any = None, result: Any = UNKNOWN, key: Any = None) -> Operation:
    return Operation(1, begin, begin + 1, function, argument, result, "ok", key)


# The good operation of a key is as undecided as the malformed one, however the key is written.
@pytest.mark.parametrize("key", [[0], (0,), {"a": [1]}, NAN, [NAN], {1, 2}, None, 7])
def test_a_malformed_operation_leaves_its_key_undecided_whatever_the_key_is(key):
    verdict = check_history([op(0, "fly", key=key), op(2, "read", None, 5, key)], "register")
    assert verdict.outcome == "unknown"
    assert verdict.counts["keys"] == 1


@pytest.mark.parametrize("key", [(0, [1]), bytearray(b"x"), [[bytearray(b"x")]]])
def test_a_key_that_cannot_be_hashed_raises_nothing(key):
    assert check_history([op(0, "fly", key=key)], "register").kinds == (MALFORMED,)
    assert check_history([op(0, "read", key=key)], "register").outcome in {"valid", "unknown"}


# key None: x and a together; key a: x alone. The read of 9 belongs to the first, and nothing wrote it.
def test_the_names_of_one_key_are_not_those_of_another():
    read = op(2, "txn", [("r", "x", None)], [("r", "x", 9)])
    together = op(0, "txn", [("w", "a", 1), ("w", "x", 1)])
    elsewhere = op(0, "txn", [("w", "x", 2)], key="a")
    for history in itertools.permutations([together, read, elsewhere]):
        verdict = check_history(history, "multi-register")
        assert verdict.outcome == "invalid"
        assert verdict.counts["keys"] == 2
        assert [evidence.key for evidence in verdict.evidence] == [("a", "x")]
