"""Defines the result of a special case: linearizable, or a contradiction."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from checkers.linearizability.operations import Operation

FOREVER: Final = float("inf")
"""When an operation that never returned completes."""

ALWAYS: Final = float("-inf")
"""When the initial state was written."""

Time = int | float


class Linearizable(Enum):
    """There is an order."""

    LINEARIZABLE = "linearizable"


LINEARIZABLE: Final = Linearizable.LINEARIZABLE


class Contradiction(NamedTuple):
    """Few operations that contradict each other. `closed`: they are a history by themselves that no order explains."""

    operations: tuple[Operation, ...]
    closed: bool


def contradiction(operations: Iterable[Operation | None], *, closed: bool = True) -> Contradiction:
    """Make a contradiction of these operations, each once, by invocation."""
    different: list[Operation] = []
    for operation in operations:
        if operation is not None and all(operation is not other for other in different):
            different.append(operation)
    return Contradiction(tuple(sorted(different, key=lambda one: one.invoked_ns)), closed)


def completion(operation: Operation) -> Time:
    """Return when an operation completed."""
    return FOREVER if operation.completed_ns is None else operation.completed_ns
