"""Hands what a broker is asked, and what it sends, to the checks of requests and answers of that kind."""

from __future__ import annotations

from broker.core.broker_node.replication import CHANNEL as REPLICATION
from broker.core.broker_node.state import BrokerState
from broker.core.messages import (
    AlterPartitionRequest,
    DeleteRecordsRequest,
    FetchRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    MetadataResponse,
    ProduceRequest,
)
from broker.core.ports.events import Reply, RequestReceived, Send
from simulation.engine.cluster import EventStep
from simulation.engine.transport import CLIENTS_FROM
from simulation.invariants import clients, isr_proposals, log_starts
from simulation.invariants.administration import answers, deletion, passed_on
from simulation.invariants.answers import controllers_asked, errors, of_leaders, producer_ids, sessions, sizes
from simulation.invariants.answers import metadata as metadata_answers
from simulation.invariants.groups import checks, silent
from simulation.invariants.knowledge import BrokerMirror, Knowledge

_FROM_CLIENTS = (ProduceRequest, FetchRequest, ListOffsetsRequest)


def arrived(known: Knowledge, broker: BrokerMirror, event: RequestReceived) -> None:
    """A request has arrived: note what its answer will be judged by."""
    if event.request.__class__ in errors.CHECKED:
        broker.asked[event.request_id] = event.request
        sessions.asked(broker, event.request_id, event.request)
    if event.request.__class__ in silent.OF_MEMBERS:
        silent.heard(known, broker.broker_id, event)
    if event.request.__class__ in _FROM_CLIENTS:
        clients.request_arrived(known, broker, event)
    elif event.request.__class__ is DeleteRecordsRequest:
        assert isinstance(event.request, DeleteRecordsRequest)
        deletion.arrived(broker, event.request)
        log_starts.asked(broker, event.request)
    elif event.request.__class__ in checks.CHECKED:
        checks.request_arrived(known, broker, event)
    elif event.connection >= CLIENTS_FROM:
        answers.broker_asked(known, broker.broker_id, event)


def sent(known: Knowledge, broker: BrokerMirror, state: BrokerState, step: EventStep, before: int) -> None:
    """Check what a broker sends. `before`: what its image had reached before the step."""
    for effect in step.effects:
        kind = effect.__class__
        if kind is Reply:
            assert isinstance(effect, Reply)
            if effect.response is None:
                continue
            if effect.response.__class__ is MetadataResponse:
                assert isinstance(effect.response, MetadataResponse)
                metadata_answers.answered(known, broker, effect.response)
            elif effect.response.__class__ is InitProducerIdResponse:
                assert isinstance(effect.response, InitProducerIdResponse)
                producer_ids.answered(known, broker.broker_id, step.event, effect.response)
            if broker.asked:
                sessions.answered(broker, effect.request_id, effect.response)
                sizes.answered(broker, effect.request_id, effect.response, state.settings.fetch_max_bytes)
                errors.answered(known, broker, state, effect.request_id, effect.response, before)
            if broker.writes or broker.reads:
                clients.answered(known, broker, state, effect.request_id, effect.response)
            if broker.group_requests:
                checks.answered(known, broker, effect.request_id, effect.response)
            if known.administered.forwarded:
                answers.broker_answered(known, broker.broker_id, effect.request_id, effect.response)
        elif kind is Send:
            assert isinstance(effect, Send)
            if isinstance(effect.request, AlterPartitionRequest):
                isr_proposals.request_sent(known, broker, effect.request_id, effect.request)
            elif effect.channel == REPLICATION:
                of_leaders.asked(broker, state, effect)
            elif effect.request.__class__ in controllers_asked.CHECKED:
                controllers_asked.sent(known, broker, effect, step.event)
            elif known.administered.forwarded:
                passed_on.sent(known, broker.broker_id, effect)
