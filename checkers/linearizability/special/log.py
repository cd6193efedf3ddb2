"""Decides append-only logs whose appends return their offsets.

The order of the appends is known, so only their instants are asked for: t(0) ≤ t(1) ≤ … Each append gives its offset an
interval: a read of a record comes no earlier than its append, so the record was there before the read completed; a
query that found the end there comes no later, so the record was missing when that query was invoked. There is an order
exactly if no offset must be later than an offset after it may be. An append that never returned has an offset if a
client read its value, or if it alone can fill a gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from checkers.linearizability.models import State
from checkers.linearizability.operations import UNKNOWN, Operation
from checkers.linearizability.special.contradiction import (
    ALWAYS,
    FOREVER,
    LINEARIZABLE,
    Contradiction,
    Linearizable,
    Time,
    completion,
    contradiction,
)

_NOT_THERE: Final = object()


class _Seen(NamedTuple):
    """What completed operations show: the values by offset, the length that the log reached, and the operations."""

    values: dict[int, tuple[State, Operation]]
    length: int
    longest: Operation | None


def decide_log(operations: Sequence[Operation], initial: State) -> Contradiction | Linearizable | None:
    """Decide appends, reads and ends; None if an append completed without an offset, or values are not distinct."""
    appends = [operation for operation in operations if operation.function == "append"]
    returned = [operation for operation in appends if operation.completed_ns is not None]
    if (
        initial != ()
        or any(operation.argument is None for operation in appends)
        or any(type(operation.result) is not int for operation in returned)
        or any(type(one.result) is not int for one in operations if one.function == "end" and one.result is not UNKNOWN)
    ):
        return None
    seen = _seen(operations)
    if isinstance(seen, Contradiction):
        return seen
    if seen.length > len(appends):
        return contradiction([seen.longest], closed=False)
    at: list[Operation | None] = [None] * seen.length
    for operation in returned:
        at[operation.result] = operation
    pending = [operation for operation in appends if operation.completed_ns is None]
    filled = _fill(at, pending, seen)
    return filled if isinstance(filled, Contradiction) or filled is None else _decide_instants(filled, operations)


def _seen(operations: Sequence[Operation]) -> _Seen | Contradiction:
    values: dict[int, tuple[State, Operation]] = {}
    appended: dict[int, Operation] = {}
    length, longest = 0, None
    for operation in operations:
        if operation.result is UNKNOWN:
            continue
        if operation.function == "end":
            reached = operation.result
            if reached < 0:
                return contradiction([operation], closed=False)
        elif operation.function == "read" and operation.result is None:
            continue
        else:
            is_append = operation.function == "append"
            offset = operation.result if is_append else operation.argument
            value = operation.argument if is_append else operation.result
            if offset < 0 or (is_append and offset in appended):
                return contradiction([operation, appended.get(offset)], closed=False)
            if is_append:
                appended[offset] = operation
            known, by = values.setdefault(offset, (value, operation))
            if known != value:
                return contradiction([by, operation], closed=False)
            reached = offset + 1
        if reached > length:
            length, longest = reached, operation
    return _Seen(values, length, longest)


def _fill(
    at: list[Operation | None], pending: Sequence[Operation], seen: _Seen
) -> list[Operation] | Contradiction | None:
    """Find for each gap the append that never returned and fills it: the earliest invoked serves best."""
    gaps = [offset for offset, operation in enumerate(at) if operation is None]
    of_value: dict[State, deque[Operation]] = {}
    for operation in sorted(pending, key=lambda one: one.invoked_ns):
        of_value.setdefault(operation.argument, deque()).append(operation)
    unnamed = [offset for offset in gaps if offset not in seen.values]
    if unnamed and any(len(same) > 1 for same in of_value.values()):
        return None
    for offset in gaps:
        if offset in seen.values:
            value, by = seen.values[offset]
            candidates = of_value.get(value)
            if not candidates:
                return contradiction([by], closed=False)
            at[offset] = candidates.popleft()
    rest = sorted((one for same in of_value.values() for one in same), key=lambda one: one.invoked_ns)
    if len(unnamed) > len(rest):
        return contradiction([seen.longest], closed=False)
    for offset, operation in zip(unnamed, rest, strict=False):
        at[offset] = operation
    return [operation for operation in at if operation is not None]


def _decide_instants(at: Sequence[Operation], operations: Sequence[Operation]) -> Contradiction | Linearizable:
    count = len(at)
    earliest: list[tuple[Time, Operation]] = [(operation.invoked_ns, operation) for operation in at]
    latest: list[tuple[Time, Operation]] = [(completion(operation), operation) for operation in at]
    for operation in operations:
        if operation.function == "append" or operation.result is UNKNOWN:
            continue
        there: int | None
        missing: int | None
        if operation.function == "end":
            there, missing = operation.result - 1, operation.result
        elif operation.result is None:
            there, missing = None, operation.argument
        else:
            there, missing = operation.argument, None
        if there is not None and there >= 0 and completion(operation) < latest[there][0]:
            latest[there] = completion(operation), operation
        if missing is not None and missing < count and operation.invoked_ns > earliest[missing][0]:
            earliest[missing] = operation.invoked_ns, operation
    after: Time = ALWAYS
    because: Operation | None = None
    for offset in range(count):
        if earliest[offset][0] > after:
            after, because = earliest[offset]
        if latest[offset][0] != FOREVER and after > latest[offset][0]:
            return contradiction([because, latest[offset][1], at[offset]], closed=False)
    return LINEARIZABLE
