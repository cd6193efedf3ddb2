"""Forwards requests to the controller: administration, producer ids, automatic topic creation."""

from __future__ import annotations

from typing import NamedTuple

from broker.core.broker_node.state import CONTROL, BrokerState
from broker.core.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AnyResponse,
    CreateTopicsRequest,
    ElectLeadersRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    NewTopic,
)
from broker.core.messages.errors import NO_TRANSACTIONS, ErrorCode
from broker.core.messages.refusals import ADMINISTRATION, refusal
from broker.core.ports.marks import sometimes

TRIED_AGAIN = sometimes("a forwarded request is tried again, for it met no active controller (KIP-590)")

FORWARD = "forward"
PRODUCER_IDS = "producer-ids"
AUTO_CREATE = "auto-create"

Forwarded = ADMINISTRATION


class ForwardedRequest(NamedTuple):
    """The client request behind a forwarded request, and its deadline."""

    request_id: int
    deadline_ms: int


def forward(broker: BrokerState, request_id: int, request: Forwarded) -> None:
    """Forward a request; the controller's response goes to the client."""
    timeout_ms = getattr(request, "timeout_ms", 0) + broker.settings.request_timeout_ms
    pass_on(broker, ForwardedRequest(request_id, broker.runtime.now_ms + timeout_ms), request)


def pass_on(broker: BrokerState, asked: ForwardedRequest, request: Forwarded) -> None:
    """Send it to the active controller as far as known; `request.timeout.ms` for one attempt.

    An unclean election may wait in the controller, for as long as the client still does (UR-14).
    """
    left_ms = max(1, asked.deadline_ms - broker.runtime.now_ms)
    if isinstance(request, ElectLeadersRequest):
        request = request._replace(timeout_ms=min(request.timeout_ms, left_ms))
    broker.runtime.send(
        broker.controller_id,
        request,
        channel=CONTROL,
        timeout_ms=min(broker.settings.request_timeout_ms, left_ms),
        purpose=FORWARD,
        context=asked,
    )


def forwarded(broker: BrokerState, asked: ForwardedRequest, request: Forwarded, response: AnyResponse | None) -> None:
    """Return the controller's response to the client.

    During a controller election there is no response, or one from an inactive controller: the request is then retried
    until the client's timeout (KIP-590). After that the outcome is unknown. What an unanswered attempt did
    is reported by the next one, as TOPIC_ALREADY_EXISTS for example.
    """
    backoff_ms = broker.settings.metadata_retry_backoff_ms
    refused = response == refusal(request, ErrorCode.NOT_CONTROLLER)
    says_nothing = response == refusal(request, ErrorCode.NONE)  # a request for no topic at all gets no error either
    no_controller = response is None or (refused and not says_nothing)
    if no_controller and broker.runtime.now_ms + backoff_ms < asked.deadline_ms:
        broker.runtime.mark(TRIED_AGAIN)
        broker.runtime.set_timer((FORWARD, asked, request), backoff_ms)
        return
    broker.runtime.reply(asked.request_id, response or refusal(request, ErrorCode.REQUEST_TIMED_OUT))


def create_missing_topics(broker: BrokerState, names: list[str]) -> None:
    """`auto.create.topics.enable`: create the topics that a client named; the client retries."""
    broker.runtime.send(
        broker.controller_id,
        CreateTopicsRequest(tuple(NewTopic(name) for name in names)),
        channel=CONTROL,
        timeout_ms=broker.settings.request_timeout_ms,
        purpose=AUTO_CREATE,
    )


def init_producer_id(broker: BrokerState, request_id: int, request: InitProducerIdRequest) -> None:
    """Return a producer id of the controller's block; request a new block if it is used up."""
    if request.transactional_id is not None:
        broker.runtime.reply(request_id, InitProducerIdResponse(NO_TRANSACTIONS))
        return
    broker.waiting_for_producer_ids.append(request_id)
    if broker.producer_ids[0] < broker.producer_ids[1]:
        _serve_producer_ids(broker)
    elif len(broker.waiting_for_producer_ids) == 1:
        broker.runtime.send(
            broker.controller_id,
            AllocateProducerIdsRequest(broker.broker_id, broker.broker_epoch),
            channel=CONTROL,
            timeout_ms=broker.settings.request_timeout_ms,
            purpose=PRODUCER_IDS,
        )


def producer_ids_came(broker: BrokerState, response: AllocateProducerIdsResponse | None) -> None:
    """Handle a new block, or none: the clients then retry."""
    if response is None or response.error_code != ErrorCode.NONE:
        waiting, broker.waiting_for_producer_ids = broker.waiting_for_producer_ids, []
        for request_id in waiting:
            broker.runtime.reply(request_id, InitProducerIdResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    start = response.producer_id_start
    broker.producer_ids = (start, start + response.producer_id_len)
    _serve_producer_ids(broker)


def _serve_producer_ids(broker: BrokerState) -> None:
    waiting, broker.waiting_for_producer_ids = broker.waiting_for_producer_ids, []
    for request_id in waiting:
        next_id, end = broker.producer_ids
        if next_id < end:
            broker.producer_ids = (next_id + 1, end)
            broker.runtime.reply(request_id, InitProducerIdResponse(ErrorCode.NONE, next_id, 0))
        else:
            broker.runtime.reply(request_id, InitProducerIdResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
