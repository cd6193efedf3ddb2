"""The table of APIs, by the listener that serves them.

The APIs between nodes have listeners of their own, which clients do not use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from broker.core.configuration.settings import BROKER_LISTENER, CLIENT_LISTENER, CONTROLLER_LISTENER
from broker.core.messages import AnyRequest, AnyResponse
from broker.shell.codec.administration.configs import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_CONFIG_RESOURCES,
)
from broker.shell.codec.administration.descriptions import (
    DESCRIBE_CLUSTER,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_TOPIC_PARTITIONS,
)
from broker.shell.codec.administration.nodes import DESCRIBE_PRODUCERS, UNREGISTER_BROKER
from broker.shell.codec.administration.partitions import (
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_PARTITIONS,
    DELETE_RECORDS,
    LIST_PARTITION_REASSIGNMENTS,
)
from broker.shell.codec.administration.topics import CREATE_TOPICS, DELETE_TOPICS, ELECT_LEADERS
from broker.shell.codec.base import Codec
from broker.shell.codec.clients.fetch import FETCH
from broker.shell.codec.clients.lookups import (
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
)
from broker.shell.codec.clients.outside import CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT
from broker.shell.codec.clients.produce import PRODUCE
from broker.shell.codec.cluster.brokers import (
    ALLOCATE_PRODUCER_IDS,
    ASSIGN_REPLICAS_TO_DIRS,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
)
from broker.shell.codec.cluster.leadership import (
    CONTROLLED_SHUTDOWN,
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
)
from broker.shell.codec.cluster.metadata_log import DESCRIBE_QUORUM, FETCH_SNAPSHOT
from broker.shell.codec.cluster.quorum import BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, VOTE
from broker.shell.codec.cluster.replicas import ALTER_PARTITION, GET_REPLICA_LOG_INFO
from broker.shell.codec.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
)

AnyCodec = Codec[AnyRequest, AnyResponse]

_CLIENT: tuple[Codec[Any, Any], ...] = (
    PRODUCE,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    HEARTBEAT,
    LEAVE_GROUP,
    SYNC_GROUP,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    DELETE_GROUPS,
    OFFSET_DELETE,
    CREATE_TOPICS,
    DELETE_TOPICS,
    INIT_PRODUCER_ID,
    OFFSET_FOR_LEADER_EPOCH,
    DELETE_RECORDS,
    CREATE_PARTITIONS,
    ELECT_LEADERS,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_CONFIG_RESOURCES,
    DESCRIBE_CLUSTER,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_TOPIC_PARTITIONS,
    DESCRIBE_QUORUM,
    DESCRIBE_PRODUCERS,
    UNREGISTER_BROKER,
    CONSUMER_GROUP_HEARTBEAT,
    SHARE_GROUP_HEARTBEAT,
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
    CREATE_PARTITIONS,
    ELECT_LEADERS,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    ALTER_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    ALTER_PARTITION,
    BROKER_REGISTRATION,
    BROKER_HEARTBEAT,
    ALLOCATE_PRODUCER_IDS,
    ASSIGN_REPLICAS_TO_DIRS,
    UNREGISTER_BROKER,
)

Apis = Mapping[str, Mapping[int, AnyCodec]]

LISTENER_APIS: dict[str, dict[int, AnyCodec]] = {
    listener: {codec.api_key: codec for codec in codecs}
    for listener, codecs in (
        (CLIENT_LISTENER, _CLIENT),
        (BROKER_LISTENER, _BROKER),
        (CONTROLLER_LISTENER, _CONTROLLER),
    )
}
"""Listener → API key → codec. ApiVersions is served everywhere and not listed: the server answers it itself."""

_BY_NAME_UP_TO: Mapping[int, int] = MappingProxyType(
    {FETCH.api_key: 12, METADATA.api_key: 9, CREATE_TOPICS.api_key: 6, DELETE_TOPICS.api_key: 5}
)
"""API key → the last version that names topics only: the designs on ZooKeeper know no ids of topics."""


def _by_name(codec: Codec[Any, Any]) -> AnyCodec:
    low, high = codec.versions
    return replace(codec, versions=(low, min(high, _BY_NAME_UP_TO.get(codec.api_key, high))))


_ON_ZOOKEEPER: Mapping[str, tuple[Codec[Any, Any], ...]] = {
    CLIENT_LISTENER: (
        PRODUCE,
        FETCH,
        LIST_OFFSETS,
        METADATA,
        CREATE_TOPICS,
        DELETE_TOPICS,
        CREATE_PARTITIONS,
        ALTER_PARTITION_REASSIGNMENTS,
        LIST_PARTITION_REASSIGNMENTS,
        UNREGISTER_BROKER,
    ),
    BROKER_LISTENER: (
        FETCH,
        LIST_OFFSETS,
        OFFSET_FOR_LEADER_EPOCH,
        LEADER_AND_ISR,
        STOP_REPLICA,
        UPDATE_METADATA,
        CONTROLLED_SHUTDOWN,
    ),
}

ZOOKEEPER_APIS: dict[str, dict[int, AnyCodec]] = {
    listener: {codec.api_key: _by_name(codec) for codec in codecs} for listener, codecs in _ON_ZOOKEEPER.items()
}
"""The same of a broker of the designs on ZooKeeper."""

_EVERY = tuple(codec for apis in (*ZOOKEEPER_APIS.values(), *LISTENER_APIS.values()) for codec in apis.values())

CODECS: tuple[AnyCodec, ...] = tuple({codec.api_key: codec for codec in _EVERY}.values())

_OF_REQUEST: dict[type, AnyCodec] = {codec.request_type: codec for codec in _EVERY}
"""If two APIs carry the same request, the one between nodes counts: its listener comes later."""


def codec_of(request: AnyRequest) -> AnyCodec | None:
    """The codec of a core request; None if no listener serves it."""
    return _OF_REQUEST.get(type(request))
