"""The kernels decide as trying every order does. `benchmarks/checkers/linearizability_agreement.py` tries many more."""

from __future__ import annotations

import pytest

from tests.checkers.linearizability.agreement import dense_disagreements, disagreements
from tests.checkers.linearizability.sequential_objects import OBJECTS

HISTORIES = 400
DENSE_HISTORIES = 2_500


@pytest.mark.parametrize("model", OBJECTS)
def test_the_kernels_agree_with_every_order_tried(model):
    wrong, counts = disagreements(model, range(HISTORIES))
    assert wrong == []
    assert min(counts["linearizable"], counts["not"]) > HISTORIES // 20
    if model in {"register", "set", "fifo-queue", "append-only-log"}:
        assert min(counts["special"], counts["special not"]) > HISTORIES // 50


@pytest.mark.parametrize("model", OBJECTS)
def test_the_kernels_agree_with_every_order_tried_where_half_of_all_outcomes_are_lost(model):
    wrong, counts = dense_disagreements(model, range(DENSE_HISTORIES))
    assert wrong == []
    assert min(counts["linearizable"], counts["not"]) > DENSE_HISTORIES // 20
    assert counts["reluctant"] > DENSE_HISTORIES // 3
    if model in {"register", "set", "fifo-queue", "append-only-log"}:
        assert min(counts["special"], counts["special not"]) > DENSE_HISTORIES // 50
