"""Compares the kernels with a search of every order."""

from __future__ import annotations

from collections.abc import Iterable

from checkers.linearizability.check import check_history
from checkers.linearizability.models import MODELS, prepared
from checkers.linearizability.search import Search
from checkers.linearizability.special import Contradiction, decide_quickly
from tests.checkers.linearizability.random_histories import draw_history
from tests.checkers.linearizability.sequential_objects import is_linearizable


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
