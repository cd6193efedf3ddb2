"""Recipes inject the faults that they consist of, on nodes that they find, and a correct cluster survives them."""

from __future__ import annotations

import pytest

from simulation.engine.node_views import leading
from simulation.faults.recipe import Nobody, play
from simulation.faults.recipes import STEPS
from simulation.runs.failures import findings
from simulation.scenario.configuration import RECIPES, SimulatedFault
from tests.simulation.faults.test_simulated_faults import known, pass_ms, running, simulated

SIMPLEST = {
    "min-isr-raised-then-shrunk": {"changed-min-isr", "isolate", "kill"},
    "restarted-then-lost": {"restart", "page-cache-loss"},
    "move-cancelled": {"kill"},
    "votes-held": {"late-connection", "kill"},
    "records-deleted-then-lost": {"deleted-records", "kill"},
    "isr-change-overtaken": {"isolate", "late-connection"},
    "fetch-held-over-elections": {"late-connection"},
    "changes-learnt-late": {"late-metadata", "late-connection"},
    "fetch-of-an-earlier-life": {"late-connection", "page-cache-loss"},
    "leaders-one-after-the-other": {"kill"},
    "log-info-held": {"kill", "late-connection"},
    "follower-far-behind": {"late-connection", "kill"},
    "added-twice": {"late-connection"},
    "leader-misses-elections": {"late-connection", "late-metadata", "kill"},
    "recovered-twice": {"kill", "late-connection"},
}
"""Recipe -> the faults of its simplest form."""


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_simplest_form_of_a_recipe_injects_what_it_consists_of(recipe: str) -> None:
    outcome = simulated(SimulatedFault(4_000, recipe, 0, 1, 0), brokers=4, controllers=3, partitions=1)
    assert findings(outcome) == []
    assert {fault.kind for fault in outcome.history.faults} >= {recipe, *SIMPLEST[recipe]}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("parameter", [123_456_789, 987_654_321])
def test_other_forms_are_survived_too_and_happen_again_in_the_same_way(recipe: str, parameter: int) -> None:
    fault = SimulatedFault(4_000, recipe, 0, 1, parameter)
    first, again = (simulated(fault, brokers=4, controllers=3, partitions=2) for _ in range(2))
    assert findings(first) == []
    assert len(first.history.faults) > 1
    assert [(each.kind, each.targets) for each in first.history.faults] == [
        (each.kind, each.targets) for each in again.history.faults
    ]


def test_a_late_connection_holds_what_it_carries_and_lets_others_overtake_it() -> None:
    cluster, _ = running()
    cluster.transport.hold_back(2, 100, "control")
    pass_ms(cluster, 10_000)
    controller = leading(cluster)
    assert controller is not None
    assert controller.image.brokers[2].fenced, "its heartbeats wait"
    assert known(cluster, 2) == known(cluster, 1), "and its fetches of metadata do not"
    cluster.transport.let_pass(2, 100, "control")
    pass_ms(cluster, 5_000)
    assert not controller.image.brokers[2].fenced


def test_what_an_ended_process_has_sent_may_come_after_what_the_next_one_has() -> None:
    cluster, _ = running()
    cluster.transport.hold_back(2, 100, "control")
    pass_ms(cluster, 3_000)
    cluster.kill(2)
    cluster.start(2)
    pass_ms(cluster, 15_000)
    controller = leading(cluster)
    assert controller is not None
    assert not controller.image.brokers[2].fenced, "the connection of the next process is another one"
    refused = "heartbeat refused: the broker epoch is stale (HB-1)"
    assert refused not in cluster.marks
    cluster.transport.let_pass(2, 100, "control")
    pass_ms(cluster, 1_000)
    assert refused in cluster.marks
    assert not controller.image.brokers[2].fenced


def test_a_recipe_ends_when_the_faults_are_over_or_nobody_has_the_role() -> None:
    cluster, _ = running()
    taken: list[int] = []
    over = False

    def steps():
        for step in range(3):
            taken.append(step)
            yield 100 if step == 0 else lambda: False

    play(cluster, steps(), lambda: over)
    assert taken == [0]
    pass_ms(cluster, 150)
    assert taken == [0, 1]
    over = True
    pass_ms(cluster, 20_000)
    assert taken == [0, 1]

    def lonely():
        taken.append(10)
        yield 1
        raise Nobody

    play(cluster, lonely(), lambda: False)
    pass_ms(cluster, 100)
    assert taken == [0, 1, 10]


def test_each_recipe_is_told_in_a_line() -> None:
    assert all((steps.__doc__ or "").endswith(".") for steps in STEPS.values())
