"""States are merged only if they behave alike, and no state is changed by a step from it."""

import random

import pytest

from simulation.exhaustive.model.choices import Action
from simulation.exhaustive.model.cloning import UnknownState, canonical, copy_node
from simulation.exhaustive.model.cluster import ModelCluster, begin
from simulation.exhaustive.model.events import Beats
from simulation.exhaustive.model.local import Nodes, canonical_state
from simulation.exhaustive.model.step import ModelNodeCrashed, take
from simulation.exhaustive.spec import BROKERS, ModelBudget, ModelSpec, reassign

MODELS = [
    ModelSpec(budget=ModelBudget(records=2, fences=1, shrinks=1), initial_isr=3),
    ModelSpec(budget=ModelBudget(records=2, kills=1, power_losses=1, late_requests=1)),
    ModelSpec(
        budget=ModelBudget(records=1, orders=2, lost_answers=1), orders=reassign((1, 2), (1, 2, 3)), initial_isr=3
    ),
]


class Remembering(Nodes):
    """Keeps some of the states that were merged into an equal one, and what happened to each state."""

    def __init__(self, cluster):
        super().__init__(cluster)
        self.twins = {}
        self.happened = {}

    def rest(self, node_id, state):
        before = len(self.states)
        number = super().rest(node_id, state)
        if number < before and len(self.twins.setdefault(number, [])) < 3:
            self.twins[number].append(state)
        return number

    def step(self, state, event):
        self.happened.setdefault(state, set()).add(event)
        return super().step(state, event)


def wander(cluster, steps, seed):
    """A random walk; restarts when no action is possible."""
    draws = random.Random(seed)
    start = state = begin(cluster)
    for _ in range(steps):
        actions = cluster.actions(state)
        state = (cluster.apply(state, draws.choice(actions)) or state) if actions else start


def remembering(spec, monkeypatch):
    monkeypatch.setattr("simulation.exhaustive.model.cluster.Nodes", Remembering)
    cluster = ModelCluster(spec)
    wander(cluster, 1_500, seed=7)
    return cluster.nodes


@pytest.mark.parametrize("spec", MODELS, ids=ModelSpec.title)
def test_what_was_merged_answers_every_event_as_what_it_was_merged_with(spec, monkeypatch):
    nodes = remembering(spec, monkeypatch)
    compared = 0
    for number, twins in nodes.twins.items():
        for event in sorted(nodes.happened.get(number, ()))[:6]:
            expected = outcome(nodes, number, nodes.states[number], event)
            for twin in twins:
                assert outcome(nodes, number, twin, event) == expected
                compared += 1
    assert compared > 100


def outcome(nodes, number, state, event):
    try:
        done = take(nodes.spec, nodes.owners[number], state, nodes.events[event])
    except ModelNodeCrashed as crashed:
        return str(crashed)
    messages = sorted(done.messages, key=repr)  # they go to different nodes, in no order
    return canonical_state(done.state), messages, done.batches, done.acknowledged


@pytest.mark.parametrize("spec", MODELS, ids=ModelSpec.title)
def test_a_step_leaves_the_state_that_it_starts_from_as_it_was(spec):
    cluster = ModelCluster(spec)
    wander(cluster, 800, seed=11)
    nodes = cluster.nodes
    for number, state in enumerate(nodes.states):
        assert nodes.number_of(nodes.owners[number], state) == number


def test_a_copy_is_equal_and_independent():
    cluster = ModelCluster(ModelSpec())
    state = begin(cluster)
    before = cluster.nodes.states[state.second]
    disk = before.disk.copy()
    twin = copy_node(before.node, disk)
    assert canonical(twin.state) == canonical(before.node.state)
    assert twin.state.files is disk
    twin.state.image.brokers.clear()
    twin.state.runtime.open_requests.clear()
    assert before.node.state.image.brokers
    assert before.node.state.runtime.open_requests


def test_what_cannot_be_copied_is_refused_by_name():
    with pytest.raises(UnknownState, match="expected data of the core, found Random"):
        canonical(random.Random())


def test_events_of_different_kinds_are_different_events():
    cluster = ModelCluster(ModelSpec(budget=ModelBudget(fences=1)))
    state = begin(cluster)
    actions = cluster.actions(state)
    assert Action("fence", 1) in actions
    assert cluster.nodes.event(Beats()) == cluster.nodes.event(Beats())
    assert len({cluster.apply(state, action) for action in actions}) == len(actions)
    assert {cluster.nodes.owners[number] for number in state[1:4]} == set(BROKERS)
