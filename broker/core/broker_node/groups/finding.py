"""Serves FindCoordinator: the leader of the group's offsets partition; creates the offsets topic if it is missing."""

from __future__ import annotations

from broker.core.broker_node.groups.records import OFFSETS_TOPIC, partition_of
from broker.core.broker_node.state import CONTROL, BrokerState
from broker.core.messages import (
    Coordinator,
    CreateTopicsRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    NewTopic,
)
from broker.core.messages.errors import ErrorCode
from broker.core.settings import CLIENT_LISTENER

CREATE = "create-offsets-topic"
GROUP_KEY, TRANSACTION_KEY = 0, 1
"""The `key_type` of a group and of a transactional id; only groups have a coordinator here."""

NO_TRANSACTIONS = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
"""Clients give up at this error at once; they ask again after most others until their time is up."""


def find(broker: BrokerState, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """The coordinator of every key, by this broker's image."""
    if request.key_type != GROUP_KEY:
        error = NO_TRANSACTIONS if request.key_type == TRANSACTION_KEY else ErrorCode.INVALID_REQUEST
        message = "this broker coordinates consumer groups only; it has no transactions and no share groups"
        return FindCoordinatorResponse(tuple(Coordinator(key, error, error_message=message) for key in request.keys))
    if OFFSETS_TOPIC not in broker.image.topics:
        _create_topic(broker)
    return FindCoordinatorResponse(tuple(_find(broker, key) for key in request.keys))


def _find(broker: BrokerState, group_id: str) -> Coordinator:
    topic = broker.image.topics.get(OFFSETS_TOPIC)
    if topic is None or not topic.partitions:
        return _unavailable(group_id, f"{OFFSETS_TOPIC} is being created")
    number = partition_of(group_id, len(topic.partitions))
    leader = broker.image.brokers.get(topic.partitions[number].leader)
    address = leader.address(CLIENT_LISTENER) if leader is not None and not leader.fenced else None
    if leader is None or address is None:
        return _unavailable(group_id, f"{OFFSETS_TOPIC}-{number} has no leader")
    return Coordinator(group_id, ErrorCode.NONE, leader.broker_id, *address)


def _unavailable(group_id: str, message: str) -> Coordinator:
    return Coordinator(group_id, ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message=message)


def _create_topic(broker: BrokerState) -> None:
    """Ask the controller to create the topic, unless a request is open; clients ask for the coordinator again.

    With fewer brokers than the wanted in-sync replicas, the topic's min ISR is lowered too: otherwise no group could
    ever be stored.
    """
    settings = broker.settings
    if any(opened.purpose == CREATE for opened in broker.runtime.open_requests.values()):
        return
    factor = min(settings.offsets_topic_replication_factor, len(broker.image.brokers))
    min_isr = broker.image.min_insync_replicas(OFFSETS_TOPIC, settings.min_insync_replicas)
    configs = (("min.insync.replicas", str(factor)),) if factor < min_isr else ()
    broker.runtime.send(
        broker.controller_id,
        CreateTopicsRequest((NewTopic(OFFSETS_TOPIC, settings.offsets_topic_num_partitions, factor, configs=configs),)),
        channel=CONTROL,
        timeout_ms=settings.request_timeout_ms,
        purpose=CREATE,
    )
