"""Enumerates the events that may happen next in a state of the model."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from broker.core.broker_node import isr_changes, replication
from simulation.exhaustive.model.events import Answered, Arrives
from simulation.exhaustive.model.local import Nodes
from simulation.exhaustive.model.state import InternTable, ModelState, Nets
from simulation.exhaustive.model.views import BrokerView, ControllerView
from simulation.exhaustive.spec import BROKERS, CONTROLLER, ModelBudget, ModelSpec

LOSABLE = (isr_changes.ALTER_PARTITION, replication.FETCH)
"""Purposes of the requests that may be lost or arrive late."""


class Action(NamedTuple):
    """An event that may happen. `what` is the number of a message, or another argument of the verb."""

    verb: str
    node: int
    what: Any = None


class Choices:
    """Enumerates actions in a fixed order."""

    def __init__(
        self,
        spec: ModelSpec,
        nodes: Nodes,
        nets: Nets,
        metadata: InternTable[tuple[int, ...]],
        budgets: InternTable[ModelBudget],
    ) -> None:
        self.spec = spec
        self.nodes = nodes
        self.nets = nets
        self.metadata = metadata
        self.budgets = budgets

    def of(self, state: ModelState) -> list[Action]:
        """All actions that may happen next, in a fixed order."""
        views = self.nodes.views
        controller: ControllerView = views[state[0]]
        brokers: list[tuple[int, BrokerView]] = [(number, views[state[number]]) for number in BROKERS]
        found: list[Action] = []
        self._deliveries(state, found)
        self._healing(state, controller, brokers, found)
        budget = self.budgets[state.budget]
        if any(budget):
            self._faults(state, budget, controller, brokers, found)
        return found

    def _deliveries(self, state: ModelState, found: list[Action]) -> None:
        for number in self.nets.first_ones(state.net):
            event = self.nodes.events[number]
            assert isinstance(event, Arrives | Answered)
            found.append(Action("deliver", event.server if type(event) is Arrives else event.client, number))

    def _healing(
        self, state: ModelState, controller: ControllerView, brokers: list[tuple[int, BrokerView]], found: list[Action]
    ) -> None:
        pending = self.metadata[state.metadata]
        batches = self.nodes.batches
        for number, view in brokers:
            registered = controller.brokers.get(number)
            if not view.alive:
                if registered is None or registered.fenced:
                    found.append(Action("restart", number))
                else:
                    found.append(Action("expire", number))
                continue
            if pending and view.metadata_end < controller.end_offset:
                missing = [one for one in pending if batches[one].base >= view.metadata_end]
                found += [Action("learn", number, count) for count in range(1, len(missing) + 1)]
            if view.caught_up and registered is not None and registered.fenced:
                found.append(Action("beat", number))
            for client in view.waiting:
                if self._has_news(view, client, brokers[client - 1][1]):
                    found.append(Action("wait", number, client))
            for key in view.timers:
                if self._may_fire(view, key, brokers):
                    found.append(Action("fire", number, key))
        found += [Action("fire", CONTROLLER, key) for key in controller.timers]

    def _has_news(self, view: BrokerView, client: int, follower: BrokerView) -> bool:
        """Whether an empty answer has news for the follower, or its next fetch for the leader."""
        if follower.high_watermark < min(view.high_watermark, follower.log_end):
            return True
        return view.leads and client not in view.isr and view.proposed_isr is None

    def _may_fire(self, view: BrokerView, key: Hashable, brokers: list[tuple[int, BrokerView]]) -> bool:
        """A fetch is retried only when the leader would not refuse it in its present state."""
        if not (isinstance(key, tuple) and key[0] == replication.RETRY):
            return True
        leader: BrokerView = brokers[key[1] - 1][1]
        return leader.leads and leader.leader_epoch == view.leader_epoch

    def _faults(
        self,
        state: ModelState,
        budget: ModelBudget,
        controller: ControllerView,
        brokers: list[tuple[int, BrokerView]],
        found: list[Action],
    ) -> None:
        for number, view in brokers:
            if not view.alive:
                continue
            if budget.records and view.leads:
                found.append(Action("produce", number, self.spec.budget.records - budget.records + 1))
            registered = controller.brokers.get(number)
            if budget.fences and registered is not None and registered.active:
                found.append(Action("fence", number))
            if budget.shrinks and view.leads and view.proposed_isr is None:
                found += [Action("lag", number, members) for members in _lagging(view, number)]
            if budget.kills:
                found.append(Action("kill", number))
            if budget.power_losses:
                records = len(view.log) if self.spec.keeps_prefix else 0
                found += [Action("power loss", number, kept) for kept in range(max(1, records))]
        if budget.orders:
            found.append(Action("order", CONTROLLER, len(self.spec.orders) - budget.orders))
        if budget.lost_answers or budget.late_requests:
            self._losses(state, budget, found)

    def _losses(self, state: ModelState, budget: ModelBudget, found: list[Action]) -> None:
        for number in dict.fromkeys(self.nets[state.net]):
            event = self.nodes.events[number]
            if isinstance(event, Answered):
                if budget.lost_answers and event.response is not None and event.purpose in LOSABLE:
                    found.append(Action("lose answer", event.client, number))
            elif isinstance(event, Arrives) and event.wanted and budget.late_requests and event.purpose in LOSABLE:
                found.append(Action("give up", event.client, number))


def _lagging(view: BrokerView, leader: int) -> list[tuple[int, ...]]:
    """Which followers may be found to lag: any one, or all that are behind."""
    ends = dict(view.remote_ends)
    behind = tuple(one for one in sorted(view.isr) if one != leader and ends.get(one) != view.log_end)
    return [*((one,) for one in behind), *([behind] if len(behind) > 1 else [])]
