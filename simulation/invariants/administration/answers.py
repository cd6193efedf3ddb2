"""Checks the answers to administrators (P-A1): success is committed, an error means what it says and changed nothing.

A controller decides from its log as it was before the step, and answers when all of that step is committed (CT-1,
CT-2). So both states are in the committed metadata by then, and the answer is compared with them, not with what any
node believes. What a broker passes on must be what a controller has answered to that request.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.messages import AnyResponse, DeleteTopicsRequest, ElectLeadersRequest
from broker.core.messages.errors import ErrorCode
from broker.core.messages.refusals import ADMINISTRATION, refusal
from broker.core.ports.events import Effect, Event, Reply, RequestReceived
from simulation.engine.transport import CLIENTS_FROM
from simulation.invariants.administration.asked import Decision, without_timeout
from simulation.invariants.administration.meanings import meaning
from simulation.invariants.knowledge import Knowledge
from simulation.invariants.properties import Violation

_UNKNOWN = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR)
"""Of a whole request: the outcome is unknown, or another controller has to be asked."""


def controller_asked(known: Knowledge, node_id: int, event: Event, before: int) -> None:
    """Remember what a controller is asked for. `before`: where its log ended before the step."""
    administered = known.administered
    entries = known.voters[node_id].entries
    if event.__class__ is RequestReceived:
        assert isinstance(event, RequestReceived)
        request = event.request
        if isinstance(request, ADMINISTRATION):
            if event.connection < CLIENTS_FROM:  # else it is for the broker, of a node with both roles
                administered.decisions[node_id, event.request_id] = Decision(request, before, len(entries))
            if isinstance(request, DeleteTopicsRequest):
                for batch in dict.fromkeys(entries[before:]):
                    if batch is not None:
                        administered.deletions[batch.epoch, batch.base] = request


def controller_stepped(known: Knowledge, node_id: int, effects: Sequence[Effect]) -> None:
    """P-A1 when a controller answers."""
    administered = known.administered
    for effect in effects:
        if effect.__class__ is Reply:
            assert isinstance(effect, Reply)
            decision = administered.decisions.pop((node_id, effect.request_id), None)
            if decision is not None and effect.response is not None:
                administered.told.setdefault(without_timeout(decision.request), []).append(effect.response)
                _check_answer(known, node_id, decision, effect.response)


def controller_ended(known: Knowledge, node_id: int) -> None:
    """A controller's process has ended: it answers nothing more."""
    decisions = known.administered.decisions
    for key in [key for key in decisions if key[0] == node_id]:
        del decisions[key]


def _check_answer(known: Knowledge, node_id: int, decision: Decision, response: AnyResponse) -> None:
    request = decision.request
    if response in [refusal(request, error) for error in _UNKNOWN]:
        return
    voter = known.voters[node_id]
    after = len(voter.entries) if isinstance(request, ElectLeadersRequest) else decision.after
    if voter.compare(known.metadata) < decision.after:
        raise Violation(
            "P-A1",
            f"controller {node_id} answered {response} to {request}; of its metadata log, which ended at "
            f"{decision.after} then, {voter.same} are committed",
        )
    versions = [known.versions[end] for end in _ends(known, decision.before, after)]
    wrong = meaning(request, response, versions, known.min_isr_of_files) if versions else ""
    if wrong:
        raise Violation(
            "P-A1",
            f"controller {node_id} answered {response} to {request}, and {wrong} by the metadata from "
            f"{decision.before} to {decision.after}",
        )


def _ends(known: Knowledge, before: int, after: int) -> list[int]:
    """The committed states from the one that a decision was made in to the one that it led to, in order."""
    found = []
    for end in reversed(known.versions):
        if end <= after:
            found.append(end)
        if end <= before:
            break
    return found[::-1]


# --- brokers ---------------------------------------------------------------------------------------------------------


def broker_asked(known: Knowledge, broker_id: int, event: RequestReceived) -> None:
    """Remember a client's request that is for the controller."""
    if isinstance(event.request, ADMINISTRATION):
        known.administered.forwarded[broker_id, event.request_id] = event.request, known.clock_ms(broker_id)


def broker_answered(known: Knowledge, broker_id: int, request_id: int, response: AnyResponse) -> None:
    """P-A1: a broker tells its client what a controller has answered, or that it got no answer in time."""
    found = known.administered.forwarded.pop((broker_id, request_id), None)
    if found is None:
        return
    request = found[0]
    if response in [refusal(request, error) for error in _UNKNOWN]:
        return
    if response not in known.administered.told.get(without_timeout(request), []):
        raise Violation("P-A1", f"broker {broker_id} answered {response} to {request}, which no controller has")


def broker_ended(known: Knowledge, broker_id: int) -> None:
    """A broker's process has ended: it answers nothing more."""
    forwarded = known.administered.forwarded
    for key in [key for key in forwarded if key[0] == broker_id]:
        del forwarded[key]
