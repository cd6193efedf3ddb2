"""Which APIs there are, and on which listener each is served.

Clients never see the APIs between nodes: those have listeners of their own.
"""

from __future__ import annotations

from typing import Any

from broker.core.messages import AnyRequest, AnyResponse
from broker.core.settings import BROKER_LISTENER, CLIENT_LISTENER, CONTROLLER_LISTENER
from broker.shell.codec.base import Codec
from broker.shell.codec.coordination import FIND_COORDINATOR, INIT_PRODUCER_ID
from broker.shell.codec.fetch import FETCH
from broker.shell.codec.lifecycle import ALLOCATE_PRODUCER_IDS, BROKER_HEARTBEAT, BROKER_REGISTRATION
from broker.shell.codec.metadata import METADATA
from broker.shell.codec.metadata_log import DESCRIBE_QUORUM, FETCH_SNAPSHOT
from broker.shell.codec.offsets import LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from broker.shell.codec.produce import PRODUCE
from broker.shell.codec.quorum import BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, VOTE
from broker.shell.codec.replicas import ALTER_PARTITION, GET_REPLICA_LOG_INFO
from broker.shell.codec.topics import CREATE_TOPICS, DELETE_TOPICS, ELECT_LEADERS

AnyCodec = Codec[AnyRequest, AnyResponse]

_CLIENT: tuple[Codec[Any, Any], ...] = (
    PRODUCE,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    FIND_COORDINATOR,
    CREATE_TOPICS,
    DELETE_TOPICS,
    INIT_PRODUCER_ID,
    OFFSET_FOR_LEADER_EPOCH,
    ELECT_LEADERS,
    DESCRIBE_QUORUM,
)
_BROKER: tuple[Codec[Any, Any], ...] = (FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, GET_REPLICA_LOG_INFO)
_CONTROLLER: tuple[Codec[Any, Any], ...] = (
    FETCH,
    FETCH_SNAPSHOT,
    VOTE,
    BEGIN_QUORUM_EPOCH,
    END_QUORUM_EPOCH,
    DESCRIBE_QUORUM,
    CREATE_TOPICS,
    DELETE_TOPICS,
    ELECT_LEADERS,
    ALTER_PARTITION,
    BROKER_REGISTRATION,
    BROKER_HEARTBEAT,
    ALLOCATE_PRODUCER_IDS,
)

LISTENER_APIS: dict[str, dict[int, AnyCodec]] = {
    listener: {codec.api_key: codec for codec in codecs}
    for listener, codecs in (
        (CLIENT_LISTENER, _CLIENT),
        (BROKER_LISTENER, _BROKER),
        (CONTROLLER_LISTENER, _CONTROLLER),
    )
}
"""Listener → API key → codec. ApiVersions is everywhere and not here: the server answers it itself."""

CODECS: tuple[AnyCodec, ...] = tuple(
    {codec.api_key: codec for apis in LISTENER_APIS.values() for codec in apis.values()}.values()
)

_OF_REQUEST: dict[type, AnyCodec] = {codec.request_type: codec for codec in CODECS}


def codec_of(request: AnyRequest) -> AnyCodec:
    """Find the codec for a request of the core."""
    return _OF_REQUEST[type(request)]
