"""Which values are equal, and what a model has no meaning for. Nothing that a history holds raises."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from checkers.linearizability.check import check_history
from checkers.linearizability.evidence import verdict_json
from checkers.linearizability.models import MODELS, initial_state
from checkers.linearizability.operations import MALFORMED, UNKNOWN, MalformedOperation, Operation
from checkers.linearizability.values import frozen

NAN = float("nan")


def op(begin: int, function: str, argument: Any = None, result: Any = UNKNOWN, key: Any = None) -> Operation:
    return Operation(1, begin, begin + 1, function, argument, result, "ok", key)


DIFFERENT = ["NaN", ["NaN"], NAN, {}, set(), [], {"a": 1}, {("a", 1)}, [["a", 1]], {"a": 2}, 0, "", None, [NAN]]


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(DIFFERENT, 2)))
def test_different_values_stay_different(one, other):
    assert frozen(one) != frozen(other)
    assert check_history([op(0, "write", one), op(2, "read", None, other)], "register").outcome == "invalid"


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (0, 0.0), ([1, [2]], (1, (2,))), (NAN, NAN), ({"a": [NAN]}, {"a": (NAN,)}), ({1}, {1})],
)
def test_values_are_equal_as_in_python_and_nan_equals_itself(one, other):
    assert check_history([op(0, "write", one), op(2, "read", None, other)], "register").outcome == "valid"


@pytest.mark.parametrize("sign", [1, -1])
def test_a_counter_beyond_all_floats_is_infinite(sign):
    huge = op(0, "add", sign * 10**400)
    assert check_history([huge, op(2, "add", 0.5), op(4, "read", None, sign * math.inf)], "counter").outcome == "valid"
    assert check_history([huge, op(2, "add", 0.5), op(4, "read", None, 1)], "counter").outcome == "invalid"
    assert check_history([huge, op(2, "add", 0.0), op(4, "read", None, sign * 10**400)], "counter").outcome == "valid"


def test_a_counter_of_opposite_infinities_is_not_a_number():
    adds = [op(0, "add", math.inf), op(2, "add", -math.inf), op(4, "add", 1)]
    assert check_history([*adds, op(6, "read", None, NAN)], "counter").outcome == "valid"
    assert check_history([*adds, op(6, "read", None, 1)], "counter").outcome == "invalid"


def test_integers_too_long_to_show_have_a_verdict_and_a_text():
    for model, function in (("counter", "read"), ("register", "read"), ("cas-register", "cas"), ("set", "contains")):
        history = [op(0, "add" if model in {"counter", "set"} else "write", 10**5_000), op(2, function, 10**5_000, 3)]
        assert verdict_json(check_history(history, model))["outcome"] in {"invalid", "unknown"}
    names = [op(0, "txn", [("w", 10**5_000, 1), ("w", "x", 1)]), op(2, "txn", [("r", "x", 0)], [("r", "x", 0)])]
    assert verdict_json(check_history(names, "multi-register"))["outcome"] == "invalid"


MEANINGLESS = {
    "fifo-queue": [op(0, "enqueue", None)],
    "append-only-log": [op(0, "end", None, None), op(0, "end", None, "3"), op(0, "end", None, True)],
    "set": [op(0, "contains", 1, None), op(0, "read", None, {"a": 1})],
    "register": [op(0, "write", 1)._replace(status="crash"), op(0, "write", 1)._replace(status=[])],
}


@pytest.mark.parametrize(("model", "operation"), [(model, one) for model, ones in MEANINGLESS.items() for one in ones])
def test_an_operation_that_says_two_things_or_nothing_is_malformed(model, operation):
    verdict = check_history([operation], model)
    assert verdict.outcome == "unknown"
    assert verdict.kinds == (MALFORMED,)


def test_the_end_of_a_log_is_a_number():
    assert check_history([op(0, "append", 7, 0), op(2, "end", None, 1)], "append-only-log").outcome == "valid"
    assert check_history([op(0, "append", 7, 0), op(2, "end", None, UNKNOWN)], "append-only-log").outcome == "valid"
    assert check_history([op(0, "append", 7, 0), op(2, "end", None, 0)], "append-only-log").outcome == "invalid"


def test_the_read_of_a_set_may_repeat_elements_in_any_order():
    adds = [op(0, "add", 1), op(0, "add", 2)]
    assert check_history([*adds, op(2, "read", None, [2, 1, 1])], "set").outcome == "valid"
    assert check_history([*adds, op(2, "read", None, [1, 1])], "set").outcome == "invalid"


def test_none_in_a_log_reads_like_its_end():
    assert check_history([op(0, "append", None, 0), op(2, "read", 0, None)], "append-only-log").outcome == "valid"


def test_any_process_may_release_a_mutex():
    assert check_history([op(0, "acquire"), op(2, "release")._replace(process=2)], "mutex").outcome == "valid"


@pytest.mark.parametrize(
    ("model", "initial"),
    [
        ("multi-register", [1, 2]),
        ("multi-register", [("x", 1), ("x", 2)]),
        ("multi-register", [("x", 1, 2)]),
        ("multi-register", "x"),
        ("set", {"a": 1}),
        ("fifo-queue", [1, None]),
        ("counter", NAN),
        ("register", bytearray(b"x")),
        ("counter", [10**5_000]),
    ],
)
def test_an_initial_value_that_is_no_state_is_refused(model, initial):
    with pytest.raises(MalformedOperation):
        initial_state(MODELS[model], initial)


@pytest.mark.parametrize("initial", [{"x": 1}, [["x", 1]], {("x", 1)}])
def test_registers_by_name_may_begin_as_a_mapping_or_as_pairs(initial):
    read = op(0, "txn", [("r", "x", None)], [("r", "x", 1)])
    assert check_history([read], "multi-register", initial=initial).outcome == "valid"
