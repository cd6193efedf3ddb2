"""Whatever a history holds, it gets a verdict."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkers.linearizability.check import check_history
from checkers.linearizability.evidence import verdict_json
from checkers.linearizability.models import MODELS
from checkers.linearizability.operations import UNKNOWN, Operation, SearchBudget
from reports.pictures.linearizability import picture

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 5), st.floats(), st.text(max_size=2), st.just(10**30), st.just(UNKNOWN)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=1), inner, max_size=2)),
    max_leaves=6,
)
MICRO = st.lists(st.tuples(st.sampled_from(["read", "write", "r", "w", "x"]), VALUES, VALUES), max_size=2)
ARGUMENTS = st.one_of(VALUES, MICRO, st.lists(st.integers(0, 2), min_size=2, max_size=2))


def operations_of(model: str) -> st.SearchStrategy[list[Operation]]:
    """Mostly what the model knows, with whatever argument and result."""
    return st.lists(
        st.builds(
            Operation,
            process=st.integers(0, 3),
            invoked_ns=st.integers(0, 20),
            completed_ns=st.one_of(st.none(), st.integers(0, 30)),
            function=st.sampled_from([*MODELS[model].functions, *MODELS[model].functions, "fly"]),
            argument=ARGUMENTS,
            result=ARGUMENTS,
            status=st.sampled_from(["ok", "ok", "ok", "fail", "info"]),
            key=st.one_of(st.none(), st.integers(0, 1), st.lists(st.integers(0, 1), max_size=1)),
        ),
        max_size=8,
    )


@pytest.mark.parametrize("model", MODELS)
def test_any_operations_get_a_verdict_and_a_picture(model):
    @settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(operations_of(model))
    def decide(operations):
        verdict = check_history(operations, model, SearchBudget(configurations=20_000))
        assert verdict.outcome in {"valid", "invalid", "unknown"}
        assert verdict.outcome != "invalid" or verdict.evidence
        assert verdict.outcome != "valid" or not verdict.counts["malformed"]
        as_json = verdict_json(verdict)
        assert json.loads(json.dumps(as_json)) == as_json
        assert picture(as_json, "any operations")

    decide()
