"""The state in which a small world begins: everybody registered, the partition created, all quiet."""

from __future__ import annotations

from broker.core.messages import CreateTopicsRequest, NewTopic
from simulation.exhaustive.model.choices import Action
from simulation.exhaustive.model.cluster import ModelCluster
from simulation.exhaustive.model.events import Arrives, Expires, Starts
from simulation.exhaustive.model.state import State
from simulation.exhaustive.model.step import CLIENT
from simulation.exhaustive.properties.of_the_cluster import Ghost
from simulation.exhaustive.spec import BROKERS, CONTROLLER, TOPIC

_STEPS_MAX = 1_000


class NotQuiet(Exception):
    """The world did not come to rest; the message says what goes on."""


def begin(cluster: ModelCluster) -> State:
    """Start everything, create the partition, and let all messages arrive."""
    state = list(cluster.blank())
    cluster.happen(state, CONTROLLER, Starts("0/-1"))
    for broker in BROKERS:
        started = cluster.apply(State(*state), Action("restart", broker))
        assert started is not None
        state = list(cluster.apply(started, Action("beat", broker)) or started)
    topic = NewTopic(TOPIC, assignments=((0, BROKERS),))
    request = CreateTopicsRequest((topic,))
    state = list(settle(cluster, State(*state)))
    cluster.happen(state, CONTROLLER, Arrives(CLIENT, CONTROLLER, "client", "order", request))
    begun = settle(cluster, State(*state))._replace(ghost=cluster.ghosts.number(Ghost()))
    if cluster.spec.initial_isr < len(BROKERS):
        fenced = cluster.happen(list(begun), CONTROLLER, Expires(BROKERS[-1]))
        outsider = BROKERS[-1]  # neither its heartbeats nor its fetches may yet bring it back
        begun = settle(cluster, fenced, but=(Action("beat", outsider), Action("wait", BROKERS[0], outsider)))
    return begun._replace(budget=cluster.budgets.number(cluster.spec.budget))


def settle(cluster: ModelCluster, state: State, but: tuple[Action, ...] = ()) -> State:
    """Let happen what needs no fault and no client, until nothing new comes of it."""
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
    raise NotQuiet(f"expected the world to come to rest within {_STEPS_MAX} steps, found {cluster.actions(state)[:3]}")
