"""Caches the states and steps of single nodes: each is computed once.

A state of the whole model is then a handful of numbers, and a step of it one lookup in a table: states of the model
differ in the combination of node states far more than in the node states themselves (the "collapse" of SPIN).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from broker.core.broker_node import replication
from broker.core.controller.node import ControllerNode
from simulation.engine.disk import SimulatedDisk
from simulation.exhaustive import property_checks
from simulation.exhaustive.model.cloning import canonical
from simulation.exhaustive.model.events import (
    MetadataBatch,
    NodeEvent,
    NodeOutcome,
)
from simulation.exhaustive.model.step import NodeState, take
from simulation.exhaustive.model.views import DEAD, BrokerView, ControllerView, view_broker, view_controller
from simulation.exhaustive.spec import CONTROLLER, ModelSpec


class Nodes:
    """All states of all nodes that have been seen, the steps between them, and the events that caused these."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.states: list[NodeState] = []
        self.owners: list[int] = []
        self.views: list[Any] = []
        self.events: list[NodeEvent] = []
        self.batches: list[MetadataBatch] = []
        self._state_numbers: dict[Hashable, int] = {}
        self._event_numbers: dict[tuple[type, NodeEvent], int] = {}
        self._batch_numbers: dict[MetadataBatch, int] = {}
        self._steps: dict[int, NodeOutcome] = {}

    # --- numbers -----------------------------------------------------------------------------------------------------

    def event(self, event: NodeEvent) -> int:
        """The number of an event."""
        key = (type(event), event)  # tuples of different kinds may be equal
        number = self._event_numbers.get(key)
        if number is None:
            number = self._event_numbers[key] = len(self.events)
            self.events.append(event)
        return number

    def batch(self, batch: MetadataBatch) -> int:
        """The number of a batch of metadata."""
        number = self._batch_numbers.get(batch)
        if number is None:
            number = self._batch_numbers[batch] = len(self.batches)
            self.batches.append(batch)
        return number

    def new(self, node_id: int) -> int:
        """The number of the state of a machine that has never run."""
        return self.rest(node_id, NodeState(None, SimulatedDisk(), frozenset(), {}))

    # --- steps -------------------------------------------------------------------------------------------------------

    def step(self, state: int, event: int) -> NodeOutcome:
        """The outcome of an event for a node in this state."""
        key = state << 32 | event
        outcome = self._steps.get(key)
        if outcome is None:
            outcome = self._steps[key] = self._take(state, self.events[event])
        return outcome

    def _take(self, number: int, event: NodeEvent) -> NodeOutcome:
        owner = self.owners[number]
        done = take(self.spec, owner, self.states[number], event)
        state = self.rest(owner, done.state)
        outcome = NodeOutcome(
            state,
            tuple(self.event(message) for message in done.messages),
            tuple(self.batch(batch) for batch in done.batches),
            done.acknowledged,
            done.decisions,
            log_entries=done.log_entries,
        )
        if owner == CONTROLLER:
            return outcome
        return property_checks.check_step(self.views[number], self.views[state], outcome, event)

    def rest(self, node_id: int, state: NodeState) -> int:
        """The number of a state of a node, known or new."""
        form = (node_id, canonical_state(state))
        number = self._state_numbers.get(form)
        if number is None:
            number = self._state_numbers[form] = len(self.states)
            self.states.append(state)
            self.owners.append(node_id)
            self.views.append(_view(state))
        return number

    def number_of(self, node_id: int, state: NodeState) -> int | None:
        """The number of a state of a node, None if it is not known."""
        return self._state_numbers.get((node_id, canonical_state(state)))


def canonical_state(state: NodeState) -> Hashable:
    """A value that two states of a node share exactly if they will behave alike."""
    timers = tuple(sorted(state.timers, key=repr))
    waiting = tuple(sorted(state.waiting.items()))
    if state.node is None:
        return None, canonical(state.disk), timers, waiting
    opened = canonical(state.node.state.runtime.open_requests)
    form = canonical(state.node.state)
    if isinstance(state.node, ControllerNode):
        return form, opened, timers, waiting
    return form, opened, timers, waiting, canonical(state.disk)


def _view(state: NodeState) -> BrokerView | ControllerView:
    timers = tuple(sorted(state.timers, key=repr))
    if state.node is None:
        return DEAD
    if isinstance(state.node, ControllerNode):
        return view_controller(state.node, timers)
    waiting = tuple(sorted({one.client for one in state.waiting.values() if one.purpose == replication.FETCH}))
    return view_broker(state.node, waiting, timers)
