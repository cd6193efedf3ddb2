"""Makes the initial state of a model: all brokers registered, the partition created, no messages in flight."""

from __future__ import annotations

from broker.core.messages import CreateTopicsRequest, NewTopic
from simulation.exhaustive.model.choices import Action
from simulation.exhaustive.model.cluster import ModelCluster
from simulation.exhaustive.model.events import Arrives, Expires, Starts
from simulation.exhaustive.model.state import ModelState
from simulation.exhaustive.model.step import CLIENT
from simulation.exhaustive.property_checks import ModelGhost
from simulation.exhaustive.spec import BROKERS, CONTROLLER, TOPIC

_STEPS_MAX = 1_000


class NotQuiet(Exception):
    """The model did not settle; the message has the actions that are still possible."""


def begin(cluster: ModelCluster) -> ModelState:
    """Start everything, create the partition, and let all messages arrive."""
    state = list(cluster.blank())
    cluster.apply_event(state, CONTROLLER, Starts("0/-1"))
    for broker in BROKERS:
        started = cluster.apply(ModelState(*state), Action("restart", broker))
        assert started is not None
        state = list(cluster.apply(started, Action("beat", broker)) or started)
    topic = NewTopic(TOPIC, assignments=((0, BROKERS),))
    request = CreateTopicsRequest((topic,))
    state = list(settle(cluster, ModelState(*state)))
    cluster.apply_event(state, CONTROLLER, Arrives(CLIENT, CONTROLLER, "client", "order", request))
    begun = settle(cluster, ModelState(*state))._replace(ghost=cluster.ghosts.number(ModelGhost()))
    if cluster.spec.initial_isr < len(BROKERS):
        fenced = cluster.apply_event(list(begun), CONTROLLER, Expires(BROKERS[-1]))
        outsider = BROKERS[-1]  # neither its heartbeats nor its fetches may unfence it yet
        begun = settle(cluster, fenced, but=(Action("beat", outsider), Action("wait", BROKERS[0], outsider)))
    return begun._replace(budget=cluster.budgets.number(cluster.spec.budget))


def settle(cluster: ModelCluster, state: ModelState, but: tuple[Action, ...] = ()) -> ModelState:
    """Apply the actions that need no fault and no client, until none leads to a new state."""
    state = state._replace(budget=cluster.budgets.number(type(cluster.spec.budget)(records=0)))
    seen = {state}
    for _ in range(_STEPS_MAX):
        following = None
        for action in cluster.actions(state):
            candidate = None if action in but else cluster.apply(state, action)
            if candidate is not None and candidate not in seen:
                following = candidate
                break
        if following is None:
            return state
        state = following
        seen.add(state)
    raise NotQuiet(f"expected the model to settle within {_STEPS_MAX} steps, found {cluster.actions(state)[:3]}")
