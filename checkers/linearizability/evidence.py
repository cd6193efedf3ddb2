"""Shows why a search found no order: the longest orders, the stuck operation and what was open then; also as JSON.

A verdict as JSON leaves a Spark task, and the picture of a violation is drawn from it::

    {"outcome", "reason", "kinds", "counts", "evidence": [
        {"key", "model", "initial", "stuck", "window", "left_out",
         "operations": [{"process", "invoked", "completed", "status", "function", "argument", "result", "text"}],
         "orders": [[{"operation", "state"}]]}]}

Keys, arguments, results and states are texts for people; `operation`, `stuck` and `window` are indices into
`operations`; `completed` is null for an operation that never returned.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from checkers.linearizability.models import ILLEGAL, Model, State
from checkers.linearizability.operations import UNKNOWN, Evidence, LinearizabilityVerdict, Operation, Step
from checkers.linearizability.search import MemoryTooSmall, Search, SearchNode
from checkers.linearizability.special import Contradiction
from checkers.linearizability.values import shown

CORE_CONFIGURATIONS: Final = 50_000
STEPS_MAX: Final = 60
WINDOW_MAX: Final = 120
STATE_TEXT_MAX: Final = 200


_READING: Final = frozenset({"read", "get", "dequeue", "contains", "end", "append", "cas", "txn"})


def evidence_of(search: Search, key: Hashable, model: str, *, undecided: bool) -> Evidence:
    """Return the evidence of a search that found no order, or did not end."""
    operations = search.layout.operations
    found = [_order(search, node) for node in search.longest.values()] or [([], [])]
    orders = [order for order, _ in found]
    states = [after for _, after in found]
    stuck = search.layout.forced_operation[search.deepest]
    window = _window(operations, stuck)
    longest = max(range(len(orders)), key=lambda index: len(orders[index]))
    skipped = max(0, len(orders[longest]) - STEPS_MAX)
    before = {number for order in orders for number in order[:skipped]}
    shown_orders = [order[skipped:] for order in orders]
    texts = [[state_text(state) for state in after[skipped:]] for after in states]
    shown = {stuck, *window, *(number for order in shown_orders for number in order)}
    numbers = sorted(shown, key=lambda number: (operations[number].invoked_ns, number))
    index_of = {number: index for index, number in enumerate(numbers)}
    return Evidence(
        key=key,
        model=model,
        operations=tuple([operations[number] for number in numbers]),
        initial=_initial_text(search, states, longest, skipped),
        orders=tuple(
            [
                tuple([Step(index_of[number], text) for number, text in zip(order, after, strict=True)])
                for order, after in zip(shown_orders, texts, strict=True)
            ]
        ),
        stuck=None if undecided else index_of[stuck],
        window=tuple(index_of[number] for number in window),
        left_out=len(before - shown) if before else 0,
    )


def evidence_of_violation(search: Search, model: Model, key: Hashable) -> Evidence:
    """Return the evidence of a search that found no order.

    One that looked ahead may have ended before the operation that shows the violation, so a plain one is tried first.
    """
    if search.layout.zones is not None:
        plain = Search(model, search.layout.operations, search.initial, CORE_CONFIGURATIONS, look_ahead=False)
        with suppress(MemoryTooSmall):
            if plain.advance(CORE_CONFIGURATIONS) is False:
                return evidence_of(plain, key, model.name, undecided=False)
    return evidence_of(search, key, model.name, undecided=False)


def evidence_of_contradiction(
    model: Model, found: Contradiction, operations: Sequence[Operation], initial: State, key: Hashable
) -> Evidence:
    """Return the evidence of a special case: how far its few operations come if they stand alone."""
    if found.closed:
        search = Search(model, found.operations, initial, CORE_CONFIGURATIONS)
        if search.advance(CORE_CONFIGURATIONS) is False:
            shown = evidence_of(search, key, model.name, undecided=False)
            return replace(shown, left_out=len(operations) - len(shown.operations))
    stuck = max(range(len(found.operations)), key=lambda index: completed_last(found.operations[index]))
    return Evidence(
        key=key,
        model=model.name,
        operations=found.operations,
        initial=state_text(initial),
        orders=((),),
        stuck=stuck,
        window=tuple(index for index in range(len(found.operations)) if index != stuck),
        left_out=len(operations) - len(found.operations),
    )


def completed_last(operation: Operation) -> tuple[bool, int]:
    """Order operations by their completion, those that never returned first: these fit everywhere."""
    return operation.completed_ns is not None, operation.completed_ns or 0


def state_text(state: object) -> str:
    """Return a state as readable text of bounded length."""
    if isinstance(state, frozenset):
        text = "{" + ", ".join(sorted(map(_element_text, state))) + "}"
    else:
        text = "nil" if state is None else shown(state)
    return text if len(text) <= STATE_TEXT_MAX else text[: STATE_TEXT_MAX // 2] + " … " + text[-STATE_TEXT_MAX // 2 :]


def _element_text(element: object) -> str:
    if isinstance(element, tuple) and len(element) == 2:
        return f"{element[0] if isinstance(element[0], str) else shown(element[0])}: {state_text(element[1])}"
    return shown(element)


def _initial_text(search: Search, states: Sequence[Sequence[State]], longest: int, skipped: int) -> str:
    """Return the state before the first step shown, if it is the same in all orders."""
    if not skipped:
        return state_text(search.initial)
    before = {after[skipped - 1] for after in states if len(after) >= skipped}
    return state_text(states[longest][skipped - 1]) if len(before) == 1 else "differs from order to order"


def _window(operations: Sequence[Operation], stuck: int) -> list[int]:
    """Return what was open while the operation was, the nearest if they are too many."""
    begin, end = operations[stuck].invoked_ns, operations[stuck].completed_ns
    if end is None:
        return []
    window = [
        number
        for number, (_, invoked_ns, completed_ns, *_) in enumerate(operations)
        if number != stuck and invoked_ns <= end and (completed_ns is None or completed_ns >= begin)
    ]
    return sorted(window, key=lambda number: -operations[number].invoked_ns)[:WINDOW_MAX]


def _order(search: Search, node: SearchNode) -> tuple[list[int], list[State]]:
    """Follow the path to a node: all operations in the order, with the states after them."""
    layout = search.layout
    path: list[SearchNode] = []
    at: SearchNode | None = node
    while at is not None:
        path.append(at)
        at = at[4]
    path.reverse()
    until = [*(level for level, *_ in path[1:]), search.deepest]
    order: list[int] = []
    states: list[State] = []
    state = search.initial
    for at_node, last in zip(path, until, strict=True):
        level, placed, _, _, _, operation = at_node
        if operation >= 0:
            state = search.after(operation, state)
            order.append(operation)
            states.append(state)
        while True:
            for bit, _, number in layout.observing[level]:
                if not placed & bit and search.after(number, state) is not ILLEGAL:
                    order.append(number)
                    states.append(state)
                    placed |= bit
            if level == last:
                break
            placed &= ~layout.forced[level]
            level += 1
    return order, states


def verdict_json(verdict: LinearizabilityVerdict) -> dict[str, Any]:
    """Return a verdict as JSON."""
    return {
        "outcome": verdict.outcome,
        "reason": verdict.reason,
        "kinds": list(verdict.kinds),
        "counts": dict(verdict.counts),
        "evidence": [evidence_json(evidence) for evidence in verdict.evidence],
    }


def evidence_json(evidence: Evidence) -> dict[str, Any]:
    """Return evidence as JSON."""
    return {
        "key": evidence.key if evidence.key is None or isinstance(evidence.key, str) else shown(evidence.key),
        "model": evidence.model,
        "initial": evidence.initial,
        "stuck": evidence.stuck,
        "window": list(evidence.window),
        "left_out": evidence.left_out,
        "operations": [_operation_json(operation) for operation in evidence.operations],
        "orders": [[{"operation": step.operation, "state": step.state} for step in order] for order in evidence.orders],
    }


def _operation_json(operation: Operation) -> dict[str, Any]:
    return {
        "process": operation.process,
        "invoked": operation.invoked_ns,
        "completed": operation.completed_ns,
        "status": operation.status,
        "function": operation.function,
        "argument": None if operation.argument is None else state_text(operation.argument),
        "result": None if operation.result is UNKNOWN else state_text(operation.result),
        "text": described(operation),
    }


def described(operation: Operation) -> str:
    """Return an operation in a few words: `cas (1, 2) → False`."""
    argument = "" if operation.argument is None else f" {state_text(operation.argument)}"
    has_result = (
        operation.completed_ns is not None and operation.function in _READING and operation.result is not UNKNOWN
    )
    return f"{operation.function}{argument}" + (f" → {state_text(operation.result)}" if has_result else "")
