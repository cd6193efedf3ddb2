"""The search: the correct protocol holds in every order, each flaw shows, and the way there is short."""

import json
import os
import subprocess
import sys
from functools import cache

import pytest

from simulation.exhaustive.models import CORRECT, HUNTS, MODEL
from simulation.exhaustive.property_checks import MODELLED
from simulation.exhaustive.search import SearchLimits, SearchVerdict, search
from simulation.exhaustive.spec import ModelBudget, ModelSpec, reassign
from simulation.exhaustive.trace import follow

FINER_STEPS = 0
"""How many steps more than the model's a counterexample may take. Heartbeats and registrations are one step each here
as there; a fetch is as many."""


@pytest.mark.parametrize(
    "spec",
    [
        ModelSpec(budget=ModelBudget(records=2)),
        ModelSpec(budget=ModelBudget(records=3), initial_isr=3),
        ModelSpec(budget=ModelBudget(shrinks=1), initial_isr=3),
        ModelSpec(budget=ModelBudget(lost_answers=1)),
        ModelSpec(budget=ModelBudget(late_requests=1)),
        ModelSpec(budget=ModelBudget(orders=2), orders=reassign((1, 2), (1, 2, 3)), initial_isr=3),
    ],
    ids=ModelSpec.title,
)
def test_no_order_of_events_breaks_the_correct_protocol(spec):
    found = search(spec)
    assert (found.verdict, found.violation) == (SearchVerdict.EXHAUSTED, None)
    assert found.states > 500
    assert found.transitions > found.states


@cache
def hunted(flaw):
    """What a search for a flaw finds; several tests ask that of the same search."""
    return search(HUNTS[flaw], SearchLimits(states=300_000))


@pytest.mark.parametrize("flaw", sorted(HUNTS))
def test_a_flaw_shows_within_as_few_steps_as_in_the_model(flaw):
    found = hunted(flaw)
    assert found.verdict is SearchVerdict.VIOLATED
    if flaw in MODEL:
        assert len(found.steps) + 1 <= MODEL[flaw] + FINER_STEPS


@pytest.mark.parametrize("flaw", sorted(HUNTS))
def test_the_steps_break_a_property_with_the_flaw_and_none_without_it(flaw):
    cluster = HUNTS[flaw]
    found = hunted(flaw)
    with_it = follow(cluster, found.steps)
    assert with_it.violation == found.violation
    assert [step.name for step in with_it.steps] == list(found.steps)
    without = follow(ModelSpec(**{**vars(cluster), "flaws": ()}), found.steps)
    assert without.violation is None


@pytest.mark.parametrize(
    ("flaw", "length"), [("advance-below-min-isr", 4), ("eager-shrink", 5), ("rollback-on-any-error", 15)]
)
def test_what_the_model_can_see_takes_exactly_as_long_as_in_the_model(flaw, length):
    cluster = HUNTS[flaw]
    found = search(ModelSpec(**{**vars(cluster), "properties": MODELLED}))
    assert len(found.steps) + 1 == length == MODEL[flaw]


def test_a_search_can_be_stopped_and_reports_its_depth():
    found = search(ModelSpec(budget=ModelBudget(shrinks=1)), SearchLimits(depth=6))
    assert found.verdict is SearchVerdict.STOPPED
    assert found.depth == 6
    assert found.waiting > 0


def test_a_step_that_is_not_possible_is_named_with_its_number():
    replayed = follow(ModelSpec(), ["broker 3's heartbeat reaches the controller", "broker 9 sings"])
    assert replayed.impossible == "step 2 is not possible: broker 9 sings"
    assert len(replayed.steps) == 1


def test_the_predefined_models_have_distinct_names():
    names = [cluster.name for cluster in (*CORRECT, *HUNTS.values())]
    assert len(set(names)) == len(names)


def test_the_same_search_in_two_processes_finds_the_same_states_in_the_same_order():
    program = (
        "import json; from simulation.exhaustive.search import search; "
        "from simulation.exhaustive.models import HUNTS; "
        "f = search(HUNTS['rollback-on-any-error']); print(json.dumps([f.states, f.transitions, f.steps]))"
    )
    answers = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for seed in ("1", "2")
    ]
    assert answers[0] == answers[1]
