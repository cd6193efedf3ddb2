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
from broker.shell.codec import schema
from broker.shell.codec.base import Codec
from broker.shell.codec.wire import Parts

# --- IncrementalAlterConfigs ------------------------------------------------------------------------------


def _decode_alter_request(data: bytes, position: int, version: int) -> IncrementalAlterConfigsRequest:
    wire = schema.decode(WireAlterRequest, data, position, version)
    resources = tuple(
        ConfigResource(
            each.resource_type,
            each.resource_name,
            tuple(
                ConfigOperation(config.name, config.config_operation, config.value)
                for config in schema.elements(each.configs)
            ),
        )
        for each in schema.elements(wire.resources)
    )
    return IncrementalAlterConfigsRequest(resources, wire.validate_only)


def _encode_alter_request(request: IncrementalAlterConfigsRequest, version: int) -> Parts:
    resource_class = WireAlterRequest.AlterConfigsResource
    resources = [
        resource_class(
            version=version,
            resource_type=each.resource_type,
            resource_name=each.name,
            configs=[
                resource_class.AlterableConfig(
                    version=version, name=change.key, config_operation=change.operation, value=change.value
                )
                for change in each.operations
            ],
        )
        for each in request.resources
    ]
    return schema.encode(WireAlterRequest, version, resources=resources, validate_only=request.validate_only)


def _altered(wire: schema.WireMessage) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        tuple(
            AlteredConfig(each.error_code, each.error_message, each.resource_type, each.resource_name)
            for each in schema.elements(wire.responses)
        )
    )


def _encode_altered(message: schema.WireMessage, response: IncrementalAlterConfigsResponse, version: int) -> Parts:
    results = [
        message.AlterConfigsResourceResponse(
            version=version,
            error_code=each.error_code,
            error_message=each.error_message,
            resource_type=each.resource_type,
            resource_name=each.name,
        )
        for each in response.results
    ]
    return schema.encode(message, version, responses=results)


def _decode_alter_response(data: bytes, position: int, version: int) -> IncrementalAlterConfigsResponse:
    return _altered(schema.decode(WireAlterResponse, data, position, version))


def _encode_alter_response(response: IncrementalAlterConfigsResponse, version: int) -> Parts:
    return _encode_altered(WireAlterResponse, response, version)


INCREMENTAL_ALTER_CONFIGS = Codec(
    api_key=44,
    name="IncrementalAlterConfigs",
    versions=(0, 1),
    flexible_from=1,
    request_type=IncrementalAlterConfigsRequest,
    decode_request=_decode_alter_request,
    encode_request=_encode_alter_request,
    decode_response=_decode_alter_response,
    encode_response=_encode_alter_response,
)

# --- AlterConfigs -----------------------------------------------------------------------------------------

_SET, _DELETE = 0, 1


def _replacing(named: dict[str, str | None]) -> tuple[ConfigOperation, ...]:
    dropped = tuple(ConfigOperation(key, _DELETE, None) for key in TOPIC_KEYS if key not in named)
    return dropped + tuple(
        ConfigOperation(key, _DELETE if value is None else _SET, value) for key, value in named.items()
    )


def _decode_old_request(data: bytes, position: int, version: int) -> IncrementalAlterConfigsRequest:
    wire = schema.decode(WireOldRequest, data, position, version)
    resources = tuple(
        ConfigResource(
            each.resource_type,
            each.resource_name,
            _replacing({config.name: config.value for config in schema.elements(each.configs)}),
        )
        for each in schema.elements(wire.resources)
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
    return schema.encode(WireOldRequest, version, resources=resources, validate_only=request.validate_only)


def _decode_old_response(data: bytes, position: int, version: int) -> IncrementalAlterConfigsResponse:
    return _altered(schema.decode(WireOldResponse, data, position, version))


def _encode_old_response(response: IncrementalAlterConfigsResponse, version: int) -> Parts:
    return _encode_altered(WireOldResponse, response, version)


ALTER_CONFIGS = Codec(
    api_key=33,
    name="AlterConfigs",
    versions=(0, 2),
    flexible_from=2,
    request_type=IncrementalAlterConfigsRequest,
    decode_request=_decode_old_request,
    encode_request=_encode_old_request,
    decode_response=_decode_old_response,
    encode_response=_encode_old_response,
)

# --- DescribeConfigs --------------------------------------------------------------------------------------

_TOPIC = 2
_DYNAMIC_TOPIC_CONFIG, _STATIC_BROKER_CONFIG, _DEFAULT_CONFIG = 1, 4, 5


def _decode_describe_request(data: bytes, position: int, version: int) -> DescribeConfigsRequest:
    wire = schema.decode(WireDescribeRequest, data, position, version)
    return DescribeConfigsRequest(
        tuple(
            (
                each.resource_type,
                each.resource_name,
                None if each.configuration_keys is None else tuple(each.configuration_keys),
            )
            for each in schema.elements(wire.resources)
        )
    )


def _encode_describe_request(request: DescribeConfigsRequest, version: int) -> Parts:
    resources = [
        WireDescribeRequest.DescribeConfigsResource(
            version=version, resource_type=kind, resource_name=name, configuration_keys=keys
        )
        for kind, name, keys in request.resources
    ]
    return schema.encode(WireDescribeRequest, version, resources=resources)


def _decode_describe_response(data: bytes, position: int, version: int) -> DescribeConfigsResponse:
    wire = schema.decode(WireDescribeResponse, data, position, version)
    return DescribeConfigsResponse(
        tuple(
            DescribedResource(
                each.error_code,
                each.error_message,
                each.resource_type,
                each.resource_name,
                tuple(
                    DescribedConfig(config.name, config.value, config.config_source == _DEFAULT_CONFIG)
                    for config in schema.elements(each.configs)
                ),
            )
            for each in schema.elements(wire.results)
        )
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
    return schema.encode(WireDescribeResponse, version, results=results)


DESCRIBE_CONFIGS = Codec(
    api_key=32,
    name="DescribeConfigs",
    versions=(1, 4),
    flexible_from=4,
    request_type=DescribeConfigsRequest,
    decode_request=_decode_describe_request,
    encode_request=_encode_describe_request,
    decode_response=_decode_describe_response,
    encode_response=_encode_describe_response,
)
