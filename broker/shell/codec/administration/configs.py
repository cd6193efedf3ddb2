"""Codec of DescribeConfigs (32), versions 1 to 4, IncrementalAlterConfigs (44), 0 and 1, and AlterConfigs (33), 0 to 2.

AlterConfigs is the older API, which aiokafka still uses: settings that it omits return to their defaults. It becomes
an incremental change of every setting that a topic may have.
"""

from __future__ import annotations

from kafka.protocol.admin import AlterConfigsRequest as WireOldRequest
from kafka.protocol.admin import AlterConfigsResponse as WireOldResponse
from kafka.protocol.admin import DescribeConfigsRequest as WireDescribeRequest
from kafka.protocol.admin import DescribeConfigsResponse as WireDescribeResponse
from kafka.protocol.admin import IncrementalAlterConfigsRequest as WireAlterRequest
from kafka.protocol.admin import IncrementalAlterConfigsResponse as WireAlterResponse

from broker.core.controller.requests.configs import TOPIC_KEYS
from broker.core.messages import (
    AlteredConfig,
    ConfigOperation,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfig,
    DescribedResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from broker.shell.codec import mapping
from broker.shell.codec.mapping import ARRAY, Message, form, many, mapped, message, nullable, record, row
from broker.shell.codec.wire import Parts

# --- IncrementalAlterConfigs ------------------------------------------------------------------------------

_OPERATION = record(ConfigOperation, key="name", operation="config_operation")
_RESOURCE = record(ConfigResource, name="resource_name", operations=("configs", many(_OPERATION)))
_ALTERED = record(
    IncrementalAlterConfigsResponse, results=("responses", many(record(AlteredConfig, name="resource_name")))
)

INCREMENTAL_ALTER_CONFIGS = mapped(
    (0, 1),
    message(WireAlterRequest, record(IncrementalAlterConfigsRequest, resources=many(_RESOURCE))),
    message(WireAlterResponse, _ALTERED),
)

# --- AlterConfigs -----------------------------------------------------------------------------------------

_SET, _DELETE = 0, 1


def _replacing(named: dict[str, str | None]) -> tuple[ConfigOperation, ...]:
    dropped = tuple(ConfigOperation(key, _DELETE, None) for key in TOPIC_KEYS if key not in named)
    return dropped + tuple(
        ConfigOperation(key, _DELETE if value is None else _SET, value) for key, value in named.items()
    )


def _decode_old_request(data: bytes, position: int, version: int) -> IncrementalAlterConfigsRequest:
    wire = mapping.decode_message(WireOldRequest, data, position, version)
    resources = tuple(
        ConfigResource(
            each.resource_type,
            each.resource_name,
            _replacing({config.name: config.value for config in mapping.elements(each.configs)}),
        )
        for each in mapping.elements(wire.resources)
    )
    return IncrementalAlterConfigsRequest(resources, wire.validate_only)


def _encode_old_request(request: IncrementalAlterConfigsRequest, version: int) -> Parts:
    resource_class = WireOldRequest.AlterConfigsResource
    resources = [
        resource_class(
            version=version,
            resource_type=each.resource_type,
            resource_name=each.name,
            configs=[
                resource_class.AlterableConfig(version=version, name=change.key, value=change.value)
                for change in each.operations
                if change.operation == _SET
            ],
        )
        for each in request.resources
    ]
    return mapping.encode_message(WireOldRequest, version, resources=resources, validate_only=request.validate_only)


ALTER_CONFIGS = mapped(
    (0, 2),
    Message(WireOldRequest, IncrementalAlterConfigsRequest, _decode_old_request, _encode_old_request),
    message(WireOldResponse, _ALTERED),
)

# --- DescribeConfigs --------------------------------------------------------------------------------------

_TOPIC = 2
_DYNAMIC_TOPIC_CONFIG, _STATIC_BROKER_CONFIG, _DEFAULT_CONFIG = 1, 4, 5

_ASKED = row("resource_type", "resource_name", ("configuration_keys", nullable(ARRAY)))
_DESCRIBED = record(DescribedConfig, is_default=("config_source", form(lambda source: source == _DEFAULT_CONFIG)))
_RESULTS = record(
    DescribeConfigsResponse,
    results=many(record(DescribedResource, name="resource_name", configs=many(_DESCRIBED))),
)


def _source(resource_type: int, config: DescribedConfig) -> int:
    if config.is_default:
        return _DEFAULT_CONFIG
    return _DYNAMIC_TOPIC_CONFIG if resource_type == _TOPIC else _STATIC_BROKER_CONFIG


def _encode_describe_response(response: DescribeConfigsResponse, version: int) -> Parts:
    result_class = WireDescribeResponse.DescribeConfigsResult
    results = [
        result_class(
            version=version,
            error_code=each.error_code,
            error_message=each.error_message,
            resource_type=each.resource_type,
            resource_name=each.name,
            configs=[
                result_class.DescribeConfigsResourceResult(
                    version=version,
                    name=config.name,
                    value=config.value,
                    read_only=each.resource_type != _TOPIC,
                    config_source=_source(each.resource_type, config),
                )
                for config in each.configs
            ],
        )
        for each in response.results
    ]
    return mapping.encode_message(WireDescribeResponse, version, results=results)


DESCRIBE_CONFIGS = mapped(
    (1, 4),
    message(WireDescribeRequest, record(DescribeConfigsRequest, resources=many(_ASKED))),
    message(WireDescribeResponse, _RESULTS)._replace(encode=_encode_describe_response),
)
