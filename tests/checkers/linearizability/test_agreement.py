"""The kernels decide as trying every order does. `benchmarks/checkers/linearizability_agreement.py` tries many more."""

from __future__ import annotations

import pytest

from tests.checkers.linearizability.agreement import disagreements
from tests.checkers.linearizability.sequential_objects import OBJECTS

HISTORIES = 400


@pytest.mark.parametrize("model", OBJECTS)
def test_the_kernels_agree_with_every_order_tried(model):
    wrong, counts = disagreements(model, range(HISTORIES))
    assert wrong == []
    assert min(counts["linearizable"], counts["not"]) > HISTORIES // 20
    if model in {"register", "set", "fifo-queue", "append-only-log"}:
        assert min(counts["special"], counts["special not"]) > HISTORIES // 50
