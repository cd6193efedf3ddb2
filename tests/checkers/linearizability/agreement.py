"""Compares the kernels with a search of every order."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from checkers.linearizability.check import check_history
from checkers.linearizability.models import MODELS, Model, prepared
from checkers.linearizability.operations import Operation
from checkers.linearizability.search import MemoryTooSmall, Search
from checkers.linearizability.special import Contradiction, decide_quickly
from tests.checkers.linearizability.dense_histories import draw_dense_history
from tests.checkers.linearizability.random_histories import draw_history
from tests.checkers.linearizability.sequential_objects import is_linearizable, is_linearizable_by_sets

KEYS = (None, "a", "x", ["a"], [["a"], "x"], {"a": 1}, float("nan"), 1)
"""Keys of all forms. `multi-register` has registers a and x, whose names may not be taken for keys."""


def disagreements(model: str, seeds: Iterable[int]) -> tuple[list[int], dict[str, int]]:
    """Return the seeds on which two deciders disagree, and how many histories were of which kind."""
    wrong = []
    counts = {"linearizable": 0, "not": 0, "special": 0, "special not": 0}
    sequential = MODELS[model]
    for seed in seeds:
        history = draw_history(model, seed)
        expected = is_linearizable(model, history)
        counts["linearizable" if expected else "not"] += 1
        operations = [prepared(sequential, operation) for operation in history]
        answers = [Search(sequential, operations, sequential.initial, 10_000).advance(1_000_000)]
        quick = decide_quickly(sequential, operations, sequential.initial)
        if quick is not None:
            answers.append(not isinstance(quick, Contradiction))
            counts["special" if expected else "special not"] += 1
        outcome = check_history(history, sequential).outcome
        answers.append({"valid": True, "invalid": False}.get(outcome))
        if any(answer is not expected for answer in answers):
            wrong.append(seed)
    return wrong, counts


def dense_disagreements(model: str, seeds: Iterable[int]) -> tuple[list[object], dict[str, int]]:
    """Return as `disagreements` does, of dense histories; each is also one of three or four keys of a history."""
    wrong: list[object] = []
    counts = {"linearizable": 0, "not": 0, "special": 0, "special not": 0, "reluctant": 0}
    together: list[tuple[list[Operation], bool]] = []
    for seed in seeds:
        history = draw_dense_history(model, seed)
        expected = is_linearizable_by_sets(model, history)
        if len(history) <= 6 and is_linearizable(model, history) is not expected:
            wrong.append(f"{seed}: the two searches of every order")
        counts["linearizable" if expected else "not"] += 1
        operations = [prepared(MODELS[model], operation) for operation in history]
        answers = [reluctantly(MODELS[model], operations, seed)]
        counts["reluctant"] += answers[0] is not None
        answers += [Search(MODELS[model], operations, MODELS[model].initial, 10_000).advance(1_000_000)]
        if model == "multi-register":
            plain = Search(MODELS[model], operations, MODELS[model].initial, 10_000, look_ahead=False)
            answers.append(plain.advance(1_000_000))
        quick = decide_quickly(MODELS[model], operations, MODELS[model].initial)
        if quick is not None:
            answers.append(not isinstance(quick, Contradiction))
            counts["special" if expected else "special not"] += 1
        if any(answer is not expected for answer in answers[1:]) or answers[0] not in (expected, None):
            wrong.append(seed)
        together.append((history, expected))
        if len(together) == 3 + seed % 2:
            wrong += [f"{seed}: keys"] * (not keys_are_independent(model, together, seed))
            together = []
    return wrong, counts


def reluctantly(model: Model, operations: Sequence[Operation], seed: int) -> bool | None:
    """Search with hardly any memory, interrupted after each configuration. None if the memory is too small for it."""
    search = Search(model, operations, model.initial, (1, 3, 10, 30)[seed % 4])
    try:
        for _ in range(5_000):
            found = search.advance(1)
            if found is not None:
                return found
    except MemoryTooSmall:
        pass
    return None


def keys_are_independent(model: str, together: Sequence[tuple[list[Operation], bool]], seed: int) -> bool:
    """Decide some histories as the keys of one, and sometimes with an operation without a meaning in the first."""
    draw = random.Random(seed)
    spoilt = draw.random() < 0.3
    keys = draw.sample(KEYS, len(together))
    mixed = [
        operation._replace(key=key) for key, (of_key, _) in zip(keys, together, strict=True) for operation in of_key
    ]
    if spoilt:
        mixed.append(Operation(0, 0, 1, "fly", key=keys[0]))
    draw.shuffle(mixed)
    answers = [expected for _, expected in together[spoilt:]]
    verdict = check_history(mixed, model)
    return verdict.outcome == ("invalid" if not all(answers) else "unknown" if spoilt else "valid")
