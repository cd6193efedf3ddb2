"""Defines the operations that linearizability is decided on, and the verdict.

A reader of histories makes `Operation`s; `checkers.linearizability.check.check_history(operations, model, budget,
initial)` returns a `LinearizabilityVerdict`. The models, the names of their functions, and the forms of arguments and
results are in `checkers.linearizability.models.MODELS`.

How a reader maps its input:

* Times are integers of any unit, as long as all of a history share it. If a file orders events without times, the
  position of the event in the file is its time. An operation precedes another if it completed strictly before the
  other was invoked; equal times are concurrent.
* `ok`: it happened, with this result. `fail`: it certainly did not happen; it is left out. `info`: it may have
  happened at any time since its invocation, or never, or may still happen; `completed_ns` and `result` are ignored.
* A comparison that failed (`cas`) is not a failed operation: it happened, and its result is `False`. Where a
  format's `:fail :cas` means this, the reader says `ok` with the result `False`.
* A result that the history does not contain is `UNKNOWN`, which is not `None`: `None` is a value (nil, nothing there).
  Knossos reads `nil` in a completed read as `UNKNOWN`.
* Arguments and results are what JSON and EDN have: None, booleans, numbers, strings, lists, tuples, sets, mappings.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

Status = Literal["ok", "fail", "info"]
Outcome = Literal["valid", "invalid", "unknown"]

NOT_LINEARIZABLE: Final = "not-linearizable"
"""Kind of a violation: no order explains what the clients saw."""

MALFORMED: Final = "malformed-history"
"""Kind of an operation that its model has no meaning for; its key cannot be decided."""


class MalformedOperation(ValueError):
    """A model has no meaning for this operation. One line."""


class Unknown(Enum):
    """A result that is not known."""

    UNKNOWN = "?"

    def __repr__(self) -> str:
        return "?"


UNKNOWN: Final = Unknown.UNKNOWN


class Operation(NamedTuple):
    """One operation of one client, from its invocation to its completion. See the module for the meaning of each field.

    `key` separates independent objects of one history; operations of different keys never constrain each other.
    """

    process: int
    invoked_ns: int
    completed_ns: int | None
    function: str
    argument: Any = None
    result: Any = UNKNOWN
    status: Status = "ok"
    key: Hashable = None


@dataclass(frozen=True)
class SearchBudget:
    """How much work may be spent before a verdict is `unknown`.

    `configurations`: pairs of (linearized operations, state) that may be visited, over all keys of a history; one
    with more than 32 kinds of open operations that never returned counts as several. Not counted are up to 50,000 more
    for the evidence of each violation shown.

    `remembered`: configurations of a key that are kept at one time; beyond that the search forgets, which costs time
    and no correctness. Not counted is the layout of a key, with 8 bytes for each pair of operations open at one time.

    `seconds`: wall time since the check began; none by default, because with it a verdict is no longer reproducible.
    The limit is soft. It is asked before each slice of the search, of up to 200,000 configurations; what comes before
    the first slice (preparation, special cases, layouts) and after the last (evidence) takes its time.
    """

    configurations: int = 5_000_000
    remembered: int = 1_000_000
    seconds: float | None = None


DEFAULT_BUDGET: Final = SearchBudget()


class Step(NamedTuple):
    """One operation placed in an order, and the state that it leaves. `operation` is an index into the evidence."""

    operation: int
    state: str


@dataclass(frozen=True)
class Evidence:
    """Why a key is not linearizable, or how far the search came: bounded for any size of history.

    `operations`: those that the evidence speaks of, by invocation. `initial`: the state before all of them, or before
    the first step shown. `orders`: some of the longest legal orders, each from the first step shown. `stuck`: the
    operation that no valid order contains, an index into `operations`; None where the budget ended first. `window`:
    those that were open when `stuck` returned.
    """

    key: Hashable
    model: str
    operations: tuple[Operation, ...]
    initial: str
    orders: tuple[tuple[Step, ...], ...]
    stuck: int | None
    window: tuple[int, ...]
    left_out: int = 0
    """Operations of the key that are not shown: those long before the window."""


@dataclass(frozen=True)
class LinearizabilityVerdict:
    """The verdict on one history. `reason` is one line; `kinds` are `NOT_LINEARIZABLE` and `MALFORMED` if found."""

    outcome: Outcome
    reason: str
    kinds: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    """Of keys that are invalid, else of those that are unknown; a few of them."""
    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """`operations`, `keys`, `keys_valid`, `keys_invalid`, `keys_unknown`, `configurations` (visited), `malformed`."""
