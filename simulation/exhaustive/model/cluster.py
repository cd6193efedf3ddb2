"""Applies actions to states of the model, and checks the properties after each."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from broker.core.broker_node import lifecycle
from broker.core.controller.node import ControllerNode
from broker.core.messages import BrokerRegistrationResponse, CreateTopicsRequest, NewTopic
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import encode_change
from simulation.exhaustive import property_checks
from simulation.exhaustive.model.choices import LOSABLE, Action, Choices
from simulation.exhaustive.model.events import (
    Answered,
    Arrives,
    Beats,
    Dies,
    Expires,
    Fires,
    Lags,
    Learns,
    Leaves,
    NodeEvent,
    NodeOutcome,
    Produces,
    Recalls,
    Starts,
    Waits,
)
from simulation.exhaustive.model.local import Nodes
from simulation.exhaustive.model.state import InternTable, ModelState, Nets
from simulation.exhaustive.model.step import CLIENT
from simulation.exhaustive.model.views import BrokerView, ControllerView
from simulation.exhaustive.property_checks import Broken, ModelGhost
from simulation.exhaustive.spec import BROKERS, CONTROLLER, TOPIC, ModelBudget, ModelSpec

_NET, _METADATA, _GHOST, _BUDGET = 4, 5, 6, 7


class ModelCluster:
    """The model's states, the actions that are possible in each, and their results."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.nodes = Nodes(spec)
        self.nets = Nets(self.nodes)
        self.metadata: InternTable[tuple[int, ...]] = InternTable()
        self.ghosts: InternTable[ModelGhost] = InternTable()
        self.budgets: InternTable[ModelBudget] = InternTable()
        self.checked = spec.properties or frozenset(property_checks.CHECKED)
        self.actions = Choices(spec, self.nodes, self.nets, self.metadata, self.budgets).of
        self._broken_in: dict[tuple[int, ...], str | None] = {}
        self._aspects: list[int] = []
        self._aspect_numbers: dict[Hashable, int] = {}

    def blank(self) -> ModelState:
        """Four machines that have never run."""
        return ModelState(
            *(self.nodes.new(node_id) for node_id in (CONTROLLER, *BROKERS)),  # type: ignore[call-arg]
            self.nets.number(()),
            self.metadata.number(()),
            self.ghosts.number(ModelGhost()),
            self.budgets.number(self.spec.budget),
        )

    # --- actions -----------------------------------------------------------------------------------------------------

    def apply(self, state: ModelState, action: Action) -> ModelState | None:
        """The state after an action; None if the action has no effect. Raises `Broken`, `NodeCrashed`."""
        return _APPLY[action.verb](self, list(state), action)

    def _deliver(self, state: list[int], action: Action) -> ModelState:
        number: int = action.what
        state[_NET] = self.nets.without(state[_NET], number)
        return self._apply_numbered(state, action.node, number)

    def _learn(self, state: list[int], action: Action) -> ModelState:
        batches = self.nodes.batches
        view: BrokerView = self.nodes.views[state[action.node]]
        missing = [batches[one] for one in self.metadata[state[_METADATA]] if batches[one].base >= view.metadata_end]
        after = self.apply_event(state, action.node, Learns(tuple(missing[: action.what])))
        return self._trim(after)

    def _beat(self, state: list[int], action: Action) -> ModelState:
        """A heartbeat and its answer, in one step."""
        self._exchange(state, action.node, Beats())
        return ModelState(*state)

    def _exchange(self, state: list[int], broker: int, event: NodeEvent) -> Any:  # noqa: ANN401
        """A request to the controller and its answer, in one step; returns the answer."""
        asked = self._take_but_one(state, broker, self.nodes.event(event), Arrives)
        answered = self._take_but_one(state, CONTROLLER, asked, Answered)
        self._take(state, broker, self.nodes.step(state[broker], answered))
        answer = self.nodes.events[answered]
        assert isinstance(answer, Answered)
        return answer.response

    def _take_but_one(self, state: list[int], node_id: int, event: int, kind: type) -> int:
        """Let a node take a step; hold back and return its message of a registration or heartbeat."""
        outcome = self.nodes.step(state[node_id], event)
        purposes = (lifecycle.HEARTBEAT, lifecycle.REGISTER)
        events = self.nodes.events
        held = next(n for n in outcome.messages if type(events[n]) is kind and events[n].purpose in purposes)  # type: ignore[union-attr]
        self._take(state, node_id, outcome._replace(messages=tuple(n for n in outcome.messages if n != held)))
        return held

    def _expire(self, state: list[int], action: Action) -> ModelState:
        return self.apply_event(state, CONTROLLER, Expires(action.node))

    def _fence(self, state: list[int], action: Action) -> ModelState:
        self._spend(state, "fences")
        return self.apply_event(state, CONTROLLER, Expires(action.node))

    def _wait(self, state: list[int], action: Action) -> ModelState:
        return self.apply_event(state, action.node, Waits(action.what))

    def _fire(self, state: list[int], action: Action) -> ModelState:
        return self.apply_event(state, action.node, Fires(action.what))

    def _lag(self, state: list[int], action: Action) -> ModelState:
        self._spend(state, "shrinks")
        return self.apply_event(state, action.node, Lags(action.what))

    def _produce(self, state: list[int], action: Action) -> ModelState:
        self._spend(state, "records")
        return self.apply_event(state, action.node, Produces(action.what))

    def _order(self, state: list[int], action: Action) -> ModelState:
        self._spend(state, "orders")
        request = self.spec.orders[action.what]
        return self.apply_event(state, CONTROLLER, Arrives(CLIENT, CONTROLLER, "client", "order", request))

    def _lose_answer(self, state: list[int], action: Action) -> ModelState:
        self._spend(state, "lost_answers")
        lost: Answered = self.nodes.events[action.what]
        return self._exchange_message(state, action, [lost._replace(response=None)])

    def _give_up(self, state: list[int], action: Action) -> ModelState:
        self._spend(state, "late_requests")
        late: Arrives = self.nodes.events[action.what]
        return self._exchange_message(state, action, [Answered(*late[:-1], None), late._replace(wanted=False)])

    def _exchange_message(self, state: list[int], action: Action, messages: list[Arrives | Answered]) -> ModelState:
        instead = [self.nodes.event(message) for message in messages]
        state[_NET] = self.nets.without(state[_NET], action.what, instead)
        return ModelState(*state)

    def _kill(self, state: list[int], action: Action) -> ModelState:
        self._spend(state, "kills")
        return self._die(state, action.node, None)

    def _lose_power(self, state: list[int], action: Action) -> ModelState:
        self._spend(state, "power_losses")
        return self._die(state, action.node, action.what)

    def _die(self, state: list[int], broker: int, kept: int | None) -> ModelState:
        """The process dies: its peers' connections break; requests that it had sent may still arrive."""
        before = self.nodes.states[state[broker]]
        held = _log_bytes(before.disk)
        self.apply_event(state, broker, Dies(kept))
        if _log_bytes(self.nodes.states[state[broker]].disk) < held:
            state[_GHOST] = self.ghosts.number(property_checks.lost_data(self.ghosts[state[_GHOST]], broker))
        messages: list[int] = []
        for number in self.nets[state[_NET]]:
            event = self.nodes.events[number]
            if isinstance(event, Answered) and event.client != broker:
                messages.append(number)
            elif isinstance(event, Arrives) and event.server == broker:
                if event.wanted:
                    messages.append(self.nodes.event(Answered(*event[:-1], None)))
            elif isinstance(event, Arrives) and event.client == broker:
                if event.purpose in LOSABLE:
                    messages.append(self.nodes.event(event._replace(wanted=False)))
            elif isinstance(event, Arrives):
                messages.append(number)
        for waiting in before.waiting.values():
            if waiting.client != CLIENT and waiting.wanted:
                lost = Answered(waiting.client, broker, waiting.channel, waiting.purpose, waiting.request, None)
                messages.append(self.nodes.event(lost))
        state[_NET] = self.nets.number(messages)
        for other in BROKERS:
            if broker in self.nodes.views[state[other]].waiting:
                self.apply_event(state, other, Leaves(broker))
        return self._trim(ModelState(*state))

    def _restart(self, state: list[int], action: Action) -> ModelState | None:
        """Start a new process, register it, and give it the metadata up to its registration."""
        broker = action.node
        controller: ControllerView = self.nodes.views[state[0]]
        registered = controller.brokers.get(broker)
        incarnation = registered.epoch if registered is not None else -1
        answer = self._exchange(state, broker, Starts(f"{broker}/{incarnation}"))
        if not isinstance(answer, BrokerRegistrationResponse) or answer.error_code != ErrorCode.NONE:
            return None
        node = self.nodes.states[state[0]].node
        assert isinstance(node, ControllerNode)
        image, epoch = node.state.image, node.state.quorum.epoch
        self.apply_event(state, broker, Recalls(image.end_offset, epoch, encode_change(image.to_records(), 0, epoch)))
        self._exchange(state, broker, Beats())
        return self._trim(ModelState(*state))

    # --- one node's part ---------------------------------------------------------------------------------------------

    def apply_event(self, state: list[int], node_id: int, event: NodeEvent) -> ModelState:
        """Apply an event to a node; changes `state`, and returns the result."""
        return self._apply_numbered(state, node_id, self.nodes.event(event))

    def _apply_numbered(self, state: list[int], node_id: int, event: int) -> ModelState:
        self._take(state, node_id, self.nodes.step(state[node_id], event))
        return ModelState(*state)

    def _take(self, state: list[int], node_id: int, outcome: NodeOutcome) -> None:
        """Apply the outcome of a node's step: its new state, messages and metadata; then check the properties."""
        before = state[node_id]
        state[node_id] = outcome.state
        if outcome.messages:
            state[_NET] = self.nets.number([*self.nets[state[_NET]], *self._deliverable(state, outcome.messages)])
        if outcome.batches:
            state[_METADATA] = self.metadata.number(self.metadata[state[_METADATA]] + outcome.batches)
        ghost = state[_GHOST]
        self._observe(state, node_id, outcome)
        if state[_GHOST] != ghost or self._aspect(outcome.state) != self._aspect(before):
            self._check(state)

    def _deliverable(self, state: list[int], messages: tuple[int, ...]) -> Iterator[int]:
        """The messages to running nodes; a request to a dead node becomes a lost connection."""
        for number in messages:
            event = self.nodes.events[number]
            receiver = event.server if isinstance(event, Arrives) else event.client  # type: ignore[union-attr]
            if receiver == CONTROLLER or self.nodes.views[state[receiver]].alive:
                yield number
            elif isinstance(event, Arrives):
                yield self.nodes.event(Answered(*event[:-1], None))

    def _trim(self, state: ModelState) -> ModelState:
        """Forget metadata that every running broker has; a broker that starts gets a snapshot."""
        pending = self.metadata[state[_METADATA]]
        if not pending:
            return state
        views = [self.nodes.views[state[number]] for number in BROKERS]
        ends = [view.metadata_end for view in views if view.alive and view.metadata_end]
        oldest = min(ends, default=1 << 60)
        kept = tuple(one for one in pending if self.nodes.batches[one].base >= oldest)
        return state if len(kept) == len(pending) else state._replace(metadata=self.metadata.number(kept))

    def _spend(self, state: list[int], what: str) -> None:
        budget = self.budgets[state[_BUDGET]]
        state[_BUDGET] = self.budgets.number(budget._replace(**{what: getattr(budget, what) - 1}))

    # --- judging -----------------------------------------------------------------------------------------------------

    def _observe(self, state: list[int], node_id: int, outcome: NodeOutcome) -> None:
        ghost = self.ghosts[state[_GHOST]]
        view = self.nodes.views[outcome.state]
        for found in property_checks.observe(ghost, node_id, outcome, view):
            if isinstance(found, ModelGhost):
                state[_GHOST] = self.ghosts.number(found)
            else:
                self._break(found)

    def _aspect(self, number: int) -> int:
        """The number of the part of a node's state that the properties depend on; many states share it."""
        while len(self._aspects) <= number:
            view = self.nodes.views[len(self._aspects)]
            seen: Hashable = (
                (view[1:5], view[6:13])
                if isinstance(view, BrokerView)
                else (view.partition, tuple(sorted(view.brokers.items())))
            )
            self._aspects.append(self._aspect_numbers.setdefault(seen, len(self._aspect_numbers)))
        return self._aspects[number]

    def _check(self, state: list[int]) -> None:
        key = (*(self._aspect(state[number]) for number in range(4)), state[_GHOST])
        if key not in self._broken_in:
            views = self.nodes.views
            brokers = [(number, views[state[number]]) for number in BROKERS]
            found = property_checks.check_state(views[state[0]], brokers, self.ghosts[state[_GHOST]])
            self._broken_in[key] = next((one for one in found if one.partition(":")[0] in self.checked), None)
        verdict = self._broken_in[key]
        if verdict is not None:
            raise Broken(verdict)

    def _break(self, what: str) -> None:
        if what.partition(":")[0] in self.checked:
            raise Broken(what)


def _log_bytes(disk: Any) -> int:  # noqa: ANN401
    return sum(len(file.data) for name, file in disk.files.items() if name.endswith(".log"))


_APPLY = {
    "deliver": ModelCluster._deliver,
    "learn": ModelCluster._learn,
    "beat": ModelCluster._beat,
    "expire": ModelCluster._expire,
    "fence": ModelCluster._fence,
    "wait": ModelCluster._wait,
    "fire": ModelCluster._fire,
    "lag": ModelCluster._lag,
    "produce": ModelCluster._produce,
    "order": ModelCluster._order,
    "lose answer": ModelCluster._lose_answer,
    "give up": ModelCluster._give_up,
    "kill": ModelCluster._kill,
    "power loss": ModelCluster._lose_power,
    "restart": ModelCluster._restart,
}


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
