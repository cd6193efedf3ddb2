"""Decides a whole history: every independent object by itself, the undecided ones in turn with growing budgets.

Linearizability is local (Herlihy and Wing 1990): a history is linearizable if the part of every object is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from checkers.linearizability.evidence import described, evidence_of, evidence_of_contradiction, evidence_of_violation
from checkers.linearizability.models import MODELS, Model, initial_state, prepared
from checkers.linearizability.operations import (
    DEFAULT_BUDGET,
    MALFORMED,
    NOT_LINEARIZABLE,
    Evidence,
    LinearizabilityVerdict,
    MalformedOperation,
    Operation,
    SearchBudget,
)
from checkers.linearizability.search import MemoryTooSmall, Search
from checkers.linearizability.special import Contradiction, decide_quickly
from checkers.linearizability.values import Value, frozen, shown
from common.names import unknown

FIRST_SLICE: Final = 1_000
SLICE_MAX: Final = 200_000
EVIDENCE_MAX: Final = 3
DEFAULT: Final = object()
"""The model's own initial state."""


class Part(NamedTuple):
    """What is decided by itself: a key, or some names of a key that operations connect."""

    key: Hashable
    names: tuple[Hashable, ...] | None = None

    def shown_as(self) -> Hashable:
        """Return the key of its evidence: the names alone where the history has no keys, else both in one tuple."""
        if self.names is None:
            return self.key
        return self.names if self.key is None else (self.key, *self.names)


class UnknownModelError(ValueError):
    """No model has this name. The message is one line and lists the names that exist."""


@dataclass
class _Counts:
    malformed: int = 0
    valid: int = 0
    invalid: int = 0
    unknown: int = 0
    configurations: int = 0


def model_named(name: str) -> Model:
    """Return a model by its name. Raises `UnknownModelError`."""
    model = MODELS.get(name)
    if model is None:
        raise UnknownModelError(unknown(name, MODELS, "a model"))
    return model


def check_history(
    operations: Iterable[Operation],
    model: str | Model,
    budget: SearchBudget = DEFAULT_BUDGET,
    initial: Any = DEFAULT,  # noqa: ANN401 - any value of a history
    clock: Callable[[], float] = time.monotonic,
    evidence_max: int = EVIDENCE_MAX,
) -> LinearizabilityVerdict:
    """Decide whether a history is linearizable; see `operations` and `models` for what they mean.

    A violation of one key makes the history invalid, even if other keys are undecided. No content of a history raises:
    operations that the model has no meaning for are counted, and leave their key undecided.
    Raises `UnknownModelError`, and `MalformedOperation` for an initial value that is no state of the model.
    `clock` counts seconds, and is asked only if the budget limits them. There is evidence of `evidence_max` keys.
    """
    chosen = model_named(model) if isinstance(model, str) else model
    start = chosen.initial if initial is DEFAULT else initial_state(chosen, initial)
    deadline = None if budget.seconds is None else clock() + budget.seconds
    happened, problems = _prepared(operations, chosen)
    counts = _Counts(malformed=sum(number for number, _ in problems.values()))
    violations: list[Evidence] = []
    searches: dict[Part, Search] = {}
    spoilt: list[Part] = []
    parts = in_parts(chosen, happened, problems)
    for part, of_part in parts.items():
        if of_part is None:
            spoilt.append(part)
            continue
        decided = decide_quickly(chosen, of_part, start)
        if decided is None:
            searches[part] = Search(chosen, of_part, start, budget.remembered)
        elif isinstance(decided, Contradiction):
            counts.invalid += 1
            if len(violations) < evidence_max:
                violations.append(evidence_of_contradiction(chosen, decided, of_part, start, part.shown_as()))
        else:
            counts.valid += 1
    undecided = _search_in_turn(
        chosen, searches, budget, counts, violations, evidence_max, lambda: deadline is not None and clock() > deadline
    )
    counts.unknown = len(undecided) + len(spoilt)
    evidence = violations or [
        evidence_of(searches[part], part.shown_as(), chosen.name, undecided=True)
        for part in list(undecided)[:evidence_max]
    ]
    kinds = (*((NOT_LINEARIZABLE,) if counts.invalid else ()), *((MALFORMED,) if counts.malformed else ()))
    return LinearizabilityVerdict(
        outcome="invalid" if counts.invalid else "unknown" if counts.unknown else "valid",
        reason=_reason(counts, evidence, undecided, problems),
        kinds=kinds,
        evidence=tuple(evidence),
        counts=MappingProxyType(
            {
                "operations": len(happened),
                "malformed": counts.malformed,
                "keys": len(parts),
                "keys_valid": counts.valid,
                "keys_invalid": counts.invalid,
                "keys_unknown": counts.unknown,
                "configurations": counts.configurations,
            }
        ),
    )


def _prepared(operations: Iterable[Operation], model: Model) -> tuple[list[Operation], dict[Hashable, tuple[int, str]]]:
    """Return what happened or may have, and by key how many operations mean nothing, with the first complaint."""
    happened: list[Operation] = []
    problems: dict[Hashable, tuple[int, str]] = {}
    for operation in operations:
        if operation.status == "fail":
            continue
        try:
            happened.append(prepared(model, operation))
        except MalformedOperation as problem:
            key = _frozen_key(operation.key)
            number, first = problems.get(key, (0, str(problem)))
            problems[key] = (number + 1, first)
    return happened, problems


def _frozen_key(key: Hashable) -> Hashable:
    """Return the key under which `prepared` operations stand, its text where no operation with it can be prepared."""
    try:
        return frozen(key)
    except MalformedOperation:
        return shown(key)


def _search_in_turn(
    model: Model,
    searches: dict[Part, Search],
    budget: SearchBudget,
    counts: _Counts,
    violations: list[Evidence],
    evidence_max: int,
    late: Callable[[], bool],
) -> dict[Part, str]:
    """Give each part in turn a growing share of the budget. Return the parts that stay undecided, and why."""
    undecided: dict[Part, str] = {}
    waiting = dict(searches)
    share = FIRST_SLICE
    while waiting:
        for part, search in list(waiting.items()):
            left = budget.configurations - counts.configurations
            if left <= 0 or late():
                why = "the time is up" if left > 0 else f"{budget.configurations:,} configurations were visited"
                return undecided | dict.fromkeys(waiting, why)
            before = search.visited
            try:
                found = search.advance(min(share, left))
            except MemoryTooSmall:
                undecided[part] = "the states in which something waits to be tried do not fit into the memory allowed"
                del waiting[part]
                continue
            finally:
                counts.configurations += search.visited - before
            if found is None:
                continue
            del waiting[part]
            counts.valid += found
            counts.invalid += not found
            if not found and len(violations) < evidence_max:
                violations.append(evidence_of_violation(search, model, part.shown_as()))
        share = min(2 * share, SLICE_MAX)
    return undecided


def _reason(
    counts: _Counts,
    evidence: Sequence[Evidence],
    undecided: dict[Part, str],
    problems: dict[Hashable, tuple[int, str]],
) -> str:
    if counts.invalid:
        first = evidence[0]
        stuck = None if first.stuck is None else first.operations[first.stuck]
        where = "" if first.key is None else f"key {shown(first.key)}: "
        what = (
            "no order of its operations is legal"
            if stuck is None
            else f"no valid order contains {described(stuck)} of process {stuck.process}"
        )
        others = f" (and {counts.invalid - 1} more keys)" if counts.invalid > 1 else ""
        return f"{where}{what}{others}"
    if undecided:
        part, why = next(iter(undecided.items()))
        key = part.shown_as()
        which = "the history" if key is None else f"key {shown(key)}"
        others = f" (and {len(undecided) - 1} more keys)" if len(undecided) > 1 else ""
        return f"{which} is undecided{others}: {why}"
    if problems:
        return f"{counts.malformed} operations are malformed, the first: {next(iter(problems.values()))[1]}"
    return f"{counts.valid} keys are linearizable" if counts.valid != 1 else "linearizable"


def in_parts(
    model: Model, operations: Sequence[Operation], spoilt: Collection[Hashable]
) -> dict[Part, list[Operation] | None]:
    """Return the operations of each independent part, None for the keys in `spoilt`, whose history is incomplete.

    A part is a key, or, where one operation may touch several names of a key, the names that operations connect.
    """
    by_key: dict[Hashable, list[Operation]] = {}
    for operation in operations:
        by_key.setdefault(operation.key, []).append(operation)
    parts: dict[Part, list[Operation] | None] = {}
    for key, of_key in by_key.items():
        if key in spoilt:
            continue
        if model.names_in_argument is None:
            parts[Part(key)] = of_key
        else:
            for names, of_names in _connected(model.names_in_argument, of_key).items():
                parts[Part(key, names)] = of_names
    return parts | dict.fromkeys(map(Part, spoilt))


def _connected(
    names_of: Callable[[Value], Iterable[Hashable]], operations: Iterable[Operation]
) -> dict[tuple[Hashable, ...], list[Operation]]:
    parent: dict[Hashable, Hashable] = {}

    def root(name: Hashable) -> Hashable:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    named = [(operation, tuple(names_of(operation.argument))) for operation in operations]
    for _, names in named:
        for name in names[1:]:
            parent[root(name)] = root(names[0])
    members: dict[Hashable, list[Hashable]] = {}
    parts: dict[Hashable, list[Operation]] = {}
    for operation, names in named:
        if names:
            parts.setdefault(root(names[0]), []).append(operation)
    for name in {name: None for _, names in named for name in names}:
        members.setdefault(root(name), []).append(name)
    return {tuple(sorted(members[of], key=shown)): operations_of for of, operations_of in parts.items()}
