"""Codec of the settings' APIs.

DescribeConfigs (32), versions 1 to 4, AlterConfigs (33), 0 to 2, IncrementalAlterConfigs (44), 0 and 1, and
ListConfigResources (74), 0 and 1.
"""

from __future__ import annotations

from kafka.protocol.admin import AlterConfigsRequest as WireOldRequest
from kafka.protocol.admin import AlterConfigsResponse as WireOldResponse
from kafka.protocol.admin import DescribeConfigsRequest as WireDescribeRequest
from kafka.protocol.admin import DescribeConfigsResponse as WireDescribeResponse
from kafka.protocol.admin import IncrementalAlterConfigsRequest as WireAlterRequest
from kafka.protocol.admin import IncrementalAlterConfigsResponse as WireAlterResponse
from kafka.protocol.admin import ListConfigResourcesRequest as WireListRequest
from kafka.protocol.admin import ListConfigResourcesResponse as WireListResponse

from broker.core.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredConfig,
    ConfigOperation,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfig,
    DescribedResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ReplacedConfigs,
    ResourceType,
)
from broker.shell.codec import mapping
from broker.shell.codec.mapping import ARRAY, Message, many, mapped, message, nullable, record, row

# --- IncrementalAlterConfigs ------------------------------------------------------------------------------

_OPERATION = record(ConfigOperation, key="name", operation="config_operation")
_RESOURCE = record(ConfigResource, name="resource_name", operations=("configs", many(_OPERATION)))
_ALTERED = many(record(AlteredConfig, name="resource_name"))

INCREMENTAL_ALTER_CONFIGS = mapped(
    (0, 1),
    message(WireAlterRequest, record(IncrementalAlterConfigsRequest, resources=many(_RESOURCE))),
    message(WireAlterResponse, record(IncrementalAlterConfigsResponse, results=("responses", _ALTERED))),
)

# --- AlterConfigs -----------------------------------------------------------------------------------------

_REPLACED = record(ReplacedConfigs, name="resource_name", configs=many(row("name", "value")))

ALTER_CONFIGS = mapped(
    (0, 2),
    message(WireOldRequest, record(AlterConfigsRequest, resources=many(_REPLACED))),
    message(WireOldResponse, record(AlterConfigsResponse, results=("responses", _ALTERED))),
)

# --- DescribeConfigs --------------------------------------------------------------------------------------

_ASKED = row("resource_type", "resource_name", ("configuration_keys", nullable(ARRAY)))
_DESCRIBED = record(DescribedConfig, synonyms=many(row("name", "value", "source")))
_RESULTS = record(
    DescribeConfigsResponse,
    results=many(record(DescribedResource, name="resource_name", configs=many(_DESCRIBED))),
)

DESCRIBE_CONFIGS = mapped(
    (1, 4),
    message(WireDescribeRequest, record(DescribeConfigsRequest, resources=many(_ASKED))),
    message(WireDescribeResponse, _RESULTS),
)

# --- ListConfigResources ----------------------------------------------------------------------------------

_TYPED = 1
"""From this version on a request names the types that it asks for; before it there is only one."""

_LIST_REQUEST = message(WireListRequest, record(ListConfigResourcesRequest, resource_types=ARRAY))


def _decode_list_request(data: bytes, position: int, version: int) -> ListConfigResourcesRequest:
    if version < _TYPED:
        mapping.decode_message(WireListRequest, data, position, version)
        return ListConfigResourcesRequest((ResourceType.CLIENT_METRICS,))
    return _LIST_REQUEST.decode(data, position, version)


LIST_CONFIG_RESOURCES = mapped(
    (0, 1),
    Message(WireListRequest, ListConfigResourcesRequest, _decode_list_request, _LIST_REQUEST.encode),
    message(
        WireListResponse,
        record(
            ListConfigResourcesResponse,
            resources=("config_resources", many(row("resource_name", "resource_type"))),
        ),
    ),
)
