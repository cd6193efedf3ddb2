"""What is not decided within the budget is unknown, with the longest orders found; what a model lacks is malformed."""

from __future__ import annotations

import itertools

import pytest

from checkers.linearizability.check import UnknownModelError, check_history
from checkers.linearizability.models import MODELS, prepared
from checkers.linearizability.operations import (
    MALFORMED,
    NOT_LINEARIZABLE,
    UNKNOWN,
    MalformedOperation,
    Operation,
    SearchBudget,
)
from checkers.linearizability.search import Search

SMALL = SearchBudget(configurations=2_000)


def hard_history(operations: int, key: object = None) -> list[Operation]:
    """Concurrent additions of different powers of two, and a sum that no choice of them makes."""
    adding = [Operation(n, 0, 10, "add", 2 ** (n + 1), UNKNOWN, "ok", key) for n in range(operations)]
    return [*adding, Operation(99, 5, 10, "read", None, 1, "ok", key)]


def test_a_hard_history_is_unknown_at_the_end_of_the_budget_and_decided_by_a_larger_one():
    verdict = check_history(hard_history(12), "counter", SMALL)
    assert verdict.outcome == "unknown"
    assert "2,000 configurations" in verdict.reason
    assert verdict.counts["configurations"] <= SMALL.configurations
    (evidence,) = verdict.evidence
    assert evidence.stuck is None
    assert evidence.orders
    assert check_history(hard_history(12), "counter").outcome == "invalid"


def test_a_hard_key_does_not_hide_an_easy_violation():
    easy = [
        Operation(1, 20, 21, "add", 1, UNKNOWN, "ok", "easy"),
        Operation(1, 22, 23, "read", None, 5, "ok", "easy"),
    ]
    verdict = check_history([*hard_history(14, "hard"), *easy], "counter", SMALL)
    assert verdict.outcome == "invalid"
    assert [evidence.key for evidence in verdict.evidence] == ["easy"]
    assert verdict.counts["keys_unknown"] == 1


def test_time_may_be_limited():
    ticks = itertools.count()
    budget = SearchBudget(seconds=2)
    verdict = check_history(hard_history(14), "counter", budget, clock=lambda: float(next(ticks)))
    assert verdict.outcome == "unknown"
    assert "time" in verdict.reason


def test_the_time_begins_with_the_check_and_not_with_the_search():
    now = 0.0

    def slowly():
        nonlocal now
        for operation in hard_history(6):
            now += 1.0
            yield operation

    assert check_history(hard_history(6), "counter").outcome == "invalid"
    verdict = check_history(slowly(), "counter", SearchBudget(seconds=3), clock=lambda: now)
    assert verdict.outcome == "unknown"
    assert "time" in verdict.reason


def test_a_search_that_remembers_little_decides_the_same():
    operations = [prepared(MODELS["counter"], operation) for operation in hard_history(7)]
    forgetful, careful = (Search(MODELS["counter"], operations, 0, remembered) for remembered in (120, 10_000))
    assert forgetful.advance(1_000_000) is False
    assert careful.advance(1_000_000) is False
    assert forgetful.visited > careful.visited


def test_a_search_continues_where_it_was_interrupted():
    operations = [prepared(MODELS["counter"], operation) for operation in hard_history(6)]
    at_once, bit_by_bit = (Search(MODELS["counter"], operations, 0, 10_000) for _ in range(2))
    assert at_once.advance(1_000_000) is False
    while bit_by_bit.advance(1) is None:
        assert bit_by_bit.visited < 1_000_000
    assert bit_by_bit.visited == at_once.visited


def test_states_that_outgrow_the_memory_leave_a_key_unknown():
    many = [Operation(n, 0, 10, "enqueue", n % 30, UNKNOWN, "ok") for n in range(60)]
    verdict = check_history(
        [*many, Operation(99, 11, 12, "dequeue", None, 99)],
        "fifo-queue",
        SearchBudget(remembered=50, configurations=10**9),
    )
    assert verdict.outcome == "unknown"
    assert "memory" in verdict.reason


def test_states_in_which_nothing_waits_are_forgotten():
    counted = [Operation(1, 2 * n, 2 * n + 1, "add", 1) for n in range(2_000)]
    for last, outcome in ((2_000, "valid"), (1_999, "invalid")):
        read = Operation(1, 4_000, 4_001, "read", None, last)
        assert check_history([*counted, read], "counter", SearchBudget(remembered=20)).outcome == outcome


def test_outcomes_that_nobody_saw_do_not_multiply_the_search():
    names = "vwxyz"
    together = Operation(0, 0, 1, "txn", [("write", name, 0) for name in names])
    lost = [Operation(1, 2, None, "txn", [("write", n, 1 + v)], status="info") for n in names for v in range(20)]
    read = Operation(2, 3, 4, "txn", [("read", name, None) for name in names], [("read", name, 99) for name in names])
    assert check_history([together, *lost, read], "multi-register", SMALL).outcome == "invalid"


def test_many_kinds_of_lost_operations_use_up_the_budget_sooner():
    lost = [Operation(n, 0, None, "add", n + 1, status="info") for n in range(320)]
    operations = [prepared(MODELS["counter"], one) for one in (*lost, Operation(999, 1, 2, "read", None, 0.5))]
    search = Search(MODELS["counter"], operations, 0, 10_000)
    assert search.advance(1) is None
    assert search.visited == 11


MEANINGLESS = [
    Operation(1, 0, 1, "fly", None),
    Operation(1, 0, 1, "cas", 3, True),
    Operation(1, 0, 1, "cas", (1, 2), "perhaps"),
    Operation(1, 0, None, "write", 1, None, "ok"),
    Operation(1, 5, 1, "write", 1),
    Operation(1, 0, 1, "write", bytearray(b"x")),
]


@pytest.mark.parametrize("operation", MEANINGLESS)
def test_an_operation_without_a_meaning_leaves_its_key_undecided(operation):
    verdict = check_history([operation, Operation(2, 7, 8, "read", None, 9)], "cas-register")
    assert verdict.outcome == "unknown"
    assert verdict.kinds == (MALFORMED,)
    assert verdict.counts["malformed"] == 1


def test_an_operation_without_a_meaning_hides_no_violation_of_another_key():
    stale = Operation(2, 7, 8, "read", None, 9, key="other")
    verdict = check_history([MEANINGLESS[0], stale], "cas-register")
    assert verdict.outcome == "invalid"
    assert verdict.kinds == (NOT_LINEARIZABLE, MALFORMED)


def test_values_nested_without_end_are_malformed():
    endless: list[object] = []
    endless.append(endless)
    assert check_history([Operation(1, 0, 1, "write", endless)], "register").kinds == (MALFORMED,)


def test_the_error_for_an_unknown_model_lists_those_that_exist():
    with pytest.raises(UnknownModelError, match=r"expected a model, one of .*fifo-queue.* found 'stack'"):
        check_history([], "stack")


def test_an_initial_value_that_is_no_state_is_refused():
    with pytest.raises(MalformedOperation, match="no initial state of counter"):
        check_history([], "counter", initial="many")


def test_an_empty_history_is_valid():
    assert check_history([], "register").outcome == "valid"
