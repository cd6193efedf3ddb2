"""Serves DescribeConfigs and ListConfigResources: the settings of topics and of this broker, and what has settings."""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.configuration import description
from broker.core.configuration.description import Detail, Layers
from broker.core.configuration.in_force import layers
from broker.core.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfig,
    DescribedResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ResourceType,
)
from broker.core.messages.errors import ErrorCode
from broker.core.messages.refusals import shown


class _Refused(Exception):
    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def describe(broker: BrokerState, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """DescribeConfigs (32) of topics, of this broker, and of all brokers; no keys at all mean every setting."""
    detail = Detail(request.include_synonyms, request.include_documentation)
    results = []
    for kind, name, keys in request.resources:
        try:
            found = _settings(broker, kind, name, detail)
        except _Refused as refused:
            results.append(DescribedResource(refused.error, str(refused), kind, name, ()))
            continue
        chosen = tuple(config for config in found if not keys or config.name in keys)
        results.append(DescribedResource(ErrorCode.NONE, None, kind, name, chosen))
    return DescribeConfigsResponse(tuple(results))


def _settings(broker: BrokerState, kind: int, name: str, detail: Detail) -> tuple[DescribedConfig, ...]:
    of_all, own = layers(broker.image, broker.broker_id)
    if kind == ResourceType.TOPIC:
        topic = broker.image.topics.get(name)
        if topic is None:
            raise _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {shown(repr(name))}")
        return description.topic(topic.configs, Layers(broker.file, of_all, own), detail)
    if kind != ResourceType.BROKER:
        raise _Refused(ErrorCode.INVALID_REQUEST, f"expected a topic or a broker, found type {kind}")
    if not name:
        return description.all_brokers(of_all, detail)
    if name != str(broker.broker_id):
        raise _Refused(
            ErrorCode.INVALID_REQUEST,
            f"expected {broker.broker_id}, the broker that was asked, or nothing, found {shown(repr(name))}; "
            "ask that broker",
        )
    return description.broker(Layers(broker.file, of_all, own), detail)


def resources(broker: BrokerState, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """ListConfigResources (74): topics and brokers; of the other kinds that Kafka knows there are none here."""
    wanted = request.resource_types or tuple(ResourceType)
    unknown = [kind for kind in wanted if kind not in tuple(ResourceType)]
    if unknown:
        return ListConfigResourcesResponse(ErrorCode.UNSUPPORTED_VERSION)
    found: list[tuple[str, int]] = []
    if ResourceType.TOPIC in wanted:
        found += [(name, int(ResourceType.TOPIC)) for name in broker.image.topics]
    if ResourceType.BROKER in wanted:
        found += [(str(number), int(ResourceType.BROKER)) for number in broker.image.brokers]
    return ListConfigResourcesResponse(ErrorCode.NONE, tuple(found))
