"""Formats the steps of a counterexample: the name of a step, by which it can be replayed, and what it changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from broker.core.messages import (
    AlterPartitionPartition,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterPartitionResponse,
    FetchRequest,
    FetchResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import PartitionState
from simulation.exhaustive.model.choices import Action
from simulation.exhaustive.model.cluster import ModelCluster, begin
from simulation.exhaustive.model.events import Answered, Arrives, Message
from simulation.exhaustive.model.state import ModelState
from simulation.exhaustive.model.step import ModelNodeCrashed
from simulation.exhaustive.model.views import BrokerView, ControllerView
from simulation.exhaustive.property_checks import Broken
from simulation.exhaustive.spec import BROKERS, CONTROLLER, ModelSpec


def name(cluster: ModelCluster, state: ModelState, action: Action) -> str:
    """The name of a step, among all that may be taken in this state."""
    plain = _name(cluster, action)
    alike = [other for other in cluster.actions(state) if _name(cluster, other) == plain]
    return plain if len(alike) < 2 else f"{plain} ({alike.index(action) + 1} of {len(alike)} alike)"


def _name(cluster: ModelCluster, action: Action) -> str:
    verb, node, what = action
    match verb:
        case "deliver" | "lose answer" | "give up":
            message = cluster.nodes.events[what]
            assert isinstance(message, Arrives | Answered)
            return {"deliver": _arrival, "lose answer": _loss, "give up": _giving_up}[verb](message)
        case "learn":
            return (
                f"broker {node} learns the next {what} changes" if what > 1 else f"broker {node} learns the next change"
            )
        case "beat":
            return f"broker {node}'s heartbeat reaches the controller"
        case "expire":
            return f"the session of broker {node}, which is dead, expires"
        case "fence":
            return f"the session of broker {node}, which runs, expires"
        case "wait":
            return f"broker {what}'s fetch has waited long enough at broker {node}"
        case "lag":
            return f"broker {node} finds that {_list(what)} lag"
        case "produce":
            return f"the client sends record {what} to broker {node}"
        case "order":
            return f"the administrator's request: {_order(cluster.spec.orders[what])}"
        case "kill":
            return f"broker {node} is killed"
        case "power loss":
            return f"broker {node} loses power, and all but {what} records that were not synced"
        case "restart":
            return f"broker {node} restarts and registers"
        case "fire":
            return _retry(node, what)
    raise ValueError(f"expected a known kind of step, found {verb!r}")


def _who(node: int) -> str:
    return "the controller" if node == CONTROLLER else f"broker {node}"


def _list(members: Sequence[int]) -> str:
    return " and ".join(str(member) for member in members)


def _order(request: Any) -> str:  # noqa: ANN401
    if isinstance(request, AlterPartitionReassignmentsRequest):
        return f"move the partition to {request.reassignments[0].replicas}"
    return type(request).__name__


def _retry(node: int, key: Any) -> str:  # noqa: ANN401
    if node == CONTROLLER:
        return "the controller checks the leaderless partitions again"
    if isinstance(key[-1], AlterPartitionPartition):
        return f"broker {node} asks again for {_isr(key[-1])}"
    return f"broker {node} retries its fetch from broker {key[1]}"


def _isr(part: AlterPartitionPartition) -> str:
    return f"ISR {[member for member, _ in part.new_isr]} in epochs {part.leader_epoch}.{part.partition_epoch}"


def _request(message: Message) -> str:
    request = message.request
    if isinstance(request, FetchRequest):
        part = request.partitions[0]
        return f"fetch from offset {part.fetch_offset} in epoch {part.current_leader_epoch}"
    if isinstance(request, AlterPartitionRequest):
        return f"request for {_isr(request.partitions[0])}"
    return type(request).__name__.removesuffix("Request")


def _arrival(message: Message) -> str:
    if isinstance(message, Arrives):
        late = "" if message.wanted else ", which it has given up,"
        return f"broker {message.client}'s {_request(message)}{late} reaches {_who(message.server)}".replace(
            "broker 0", "the controller"
        )
    whose = f"{_who(message.client)} gets"
    if message.response is None:
        return f"{whose} no answer to its {_request(message)} to {_who(message.server)}"
    return f"{whose} the answer of {_who(message.server)} to its {_request(message)}: {_response(message.response)}"


def _response(response: Any) -> str:  # noqa: ANN401
    if isinstance(response, FetchResponse) and response.partitions:
        part = response.partitions[0]
        if part.error_code:
            return ErrorCode(part.error_code).name
        if part.diverging_epoch is not None:
            return f"diverges after epoch {part.diverging_epoch[0]}, which ends at {part.diverging_epoch[1]}"
        return f"{'records' if part.records else 'nothing'}, high watermark {part.high_watermark}"
    if isinstance(response, AlterPartitionResponse):
        code = response.error_code or response.partitions[0].error_code
        return ErrorCode(code).name if code else f"ISR {list(response.partitions[0].isr)}"
    return type(response).__name__.removesuffix("Response")


def _loss(message: Message) -> str:
    return f"the answer of {_who(message.server)} to {_who(message.client)}'s {_request(message)} is lost"


def _giving_up(message: Message) -> str:
    return f"{_who(message.client)} gives up its {_request(message)}, which is still on its way"


# --- changes ---------------------------------------------------------------------------------------------------------


def changes(cluster: ModelCluster, before: ModelState, after: ModelState) -> Iterator[str]:
    """The changes that a step made to the controller, the replicas and the committed records."""
    views = cluster.nodes.views
    old, new = views[before.controller], views[after.controller]
    if _decided(old) != _decided(new):
        yield f"controller: {_decided(new)}"
    for broker in BROKERS:
        text = _replica(views[after[broker]])
        if text != _replica(views[before[broker]]):
            yield f"broker {broker}: {text}"
    committed = cluster.ghosts[after.ghost].committed
    if committed != cluster.ghosts[before.ghost].committed:
        yield f"committed: {[value for _, value in committed]}"


def _decided(view: ControllerView) -> str:
    state = view.partition
    if not isinstance(state, PartitionState):
        return "nothing"
    fenced = sorted(number for number, one in view.brokers.items() if one.fenced)
    text = f"leader {state.leader}, ISR {list(state.isr)}, epochs {state.leader_epoch}.{state.partition_epoch}"
    for what, members in (
        ("ELR", state.elr),
        ("last known", state.last_known_elr),
        ("fenced", fenced),
        ("replicas", state.replicas if sorted(state.replicas) != list(BROKERS) else ()),
    ):
        text += f", {what} {list(members)}" if members else ""
    return text


def _replica(view: BrokerView) -> str:
    if not view.alive:
        return "dead"
    if view.role is None:
        return "no replica"
    text = f"{view.role.value} in {view.leader_epoch}.{view.partition_epoch}, log "
    text += f"{[f'{value}@{epoch}' for epoch, value in view.log]}, high watermark {view.high_watermark}"
    if view.leads:
        text += f", ISR {sorted(view.isr)}"
        text += f", asks for {sorted(view.proposed_isr)}" if view.proposed_isr is not None else ""
    return text


class Traced(NamedTuple):
    """One step and what it changed."""

    name: str
    changes: tuple[str, ...]


class Replayed(NamedTuple):
    """The result of a replay: the steps that were taken, and the property that the last one broke."""

    steps: tuple[Traced, ...]
    violation: str | None
    impossible: str | None
    """The step that could not be taken, with its number and why; a flaw's trace often ends so on the correct build."""


def follow(spec: ModelSpec, names: Sequence[str]) -> Replayed:
    """Take the steps with these names, until one breaks a property or cannot be taken."""
    cluster = ModelCluster(spec)
    state = begin(cluster)
    steps: list[Traced] = []
    for number, wanted in enumerate(names, 1):
        possible = {name(cluster, state, action): action for action in cluster.actions(state)}
        if wanted not in possible:
            return Replayed(tuple(steps), None, f"step {number} is not possible: {wanted}")
        try:
            after = cluster.apply(state, possible[wanted])
        except (Broken, ModelNodeCrashed) as broken:
            return Replayed((*steps, Traced(wanted, ())), str(broken), None)
        if after is None:
            return Replayed(tuple(steps), None, f"step {number} has no effect: {wanted}")
        steps.append(Traced(wanted, tuple(changes(cluster, state, after))))
        state = after
    return Replayed(tuple(steps), None, None)
