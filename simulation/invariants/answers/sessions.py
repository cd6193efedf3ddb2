"""Checks that a broker goes on with a fetch session where its fetcher does, and begins it with an answer about all of
the partitions (P-45, FE-11).

A fetcher that is told another epoch begins a new session with all its partitions, so a broker that does not count with
it saves nothing, and nobody notices but by the size of requests. One that goes on where its fetcher does not leaves out
of its answers what the fetcher does not know yet.
"""

from __future__ import annotations

from broker.core.messages import AnyRequest, AnyResponse, FetchRequest, FetchResponse
from broker.core.messages.errors import ErrorCode
from simulation.invariants.knowledge import BrokerMirror
from simulation.invariants.properties import Violation


def asked(broker: BrokerMirror, request_id: int, request: AnyRequest) -> None:
    """Note whether a fetch is the next one of its session, when it arrives: it may wait, and be repeated meanwhile."""
    if not isinstance(request, FetchRequest) or request.session_epoch <= 0:
        return
    latest = broker.session_epochs.get(request.session_id)
    if latest is None:
        return
    broker.in_turn[request_id] = request.session_epoch == latest + 1
    if broker.in_turn[request_id]:
        broker.session_epochs[request.session_id] = request.session_epoch


def answered(broker: BrokerMirror, request_id: int, response: AnyResponse) -> None:
    """P-45, before it is forgotten what was asked."""
    if not isinstance(response, FetchResponse):
        return
    request = broker.asked.get(request_id)
    is_in_turn = broker.in_turn.pop(request_id, None)
    if not isinstance(request, FetchRequest):
        return
    if is_in_turn and response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH:
        raise Violation(
            "P-45",
            f"broker {broker.broker_id} refuses epoch {request.session_epoch} of fetch session {request.session_id}, "
            "the one after the last that it was asked for",
        )
    if is_in_turn is False and response.error_code == ErrorCode.NONE:
        raise Violation(
            "P-45",
            f"broker {broker.broker_id} serves epoch {request.session_epoch} of fetch session {request.session_id}, of "
            f"which it was asked for epoch {broker.session_epochs.get(request.session_id)} last",
        )
    if request.session_epoch <= 0 and response.error_code == ErrorCode.NONE:
        answered_of = {(part.topic or part.topic_id, part.partition) for part in response.partitions}
        missing = [
            part
            for part in request.partitions
            if not {(part.topic, part.partition), (part.topic_id, part.partition)} & answered_of
        ]
        if missing:
            raise Violation(
                "P-45",
                f"broker {broker.broker_id} answers a fetch that belongs to no session yet without "
                f"{[f'{part.topic or part.topic_id}-{part.partition}' for part in missing]}, of which it was asked",
            )
    if request.session_epoch == 0 and response.session_id:
        broker.session_epochs[response.session_id] = 0
