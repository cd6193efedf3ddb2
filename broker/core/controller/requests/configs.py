"""Serves IncrementalAlterConfigs: topic settings that change at run time."""

from __future__ import annotations

from broker.core.controller import changes
from broker.core.controller.partition_changes import min_isr_of
from broker.core.controller.state import ControllerState
from broker.core.messages import (
    AlteredConfig,
    ConfigResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import TopicImage
from broker.core.metadata.records import ConfigChanged, MetadataRecord, PartitionSet
from broker.core.ports.marks import sometimes

MIN_ISR_RAISED = sometimes("min ISR: raised")
MIN_ISR_LOWERED = sometimes("min ISR: lowered")

TOPIC = 2
_SET, _DELETE = 0, 1
_BOUNDED_INTEGERS = {
    "min.insync.replicas": 1,
    "retention.ms": -1,
    "retention.bytes": -1,
    "segment.bytes": 1,
    "max.message.bytes": 0,
}
_CHOICES = {"unclean.leader.election.enable": ("true", "false"), "cleanup.policy": ("delete",)}
TOPIC_KEYS = (*_BOUNDED_INTEGERS, *_CHOICES)
"""The settings that a topic may have."""


def is_legal(key: str, value: str) -> bool:
    """Whether a topic may have this setting with this value."""
    if key in _BOUNDED_INTEGERS:
        return value.removeprefix("-").isdecimal() and int(value) >= _BOUNDED_INTEGERS[key]
    return value in _CHOICES.get(key, ())


def alter(controller: ControllerState, request_id: int, request: IncrementalAlterConfigsRequest) -> None:
    """Change each topic's settings, or return its error."""
    results = tuple(_alter(controller, resource, request.validate_only) for resource in request.resources)
    changes.reply(controller, request_id, request, IncrementalAlterConfigsResponse(results))


def _alter(controller: ControllerState, resource: ConfigResource, validate_only: bool) -> AlteredConfig:
    def result(error: ErrorCode, message: str | None = None) -> AlteredConfig:
        return AlteredConfig(error, message, resource.resource_type, resource.name)

    if resource.resource_type != TOPIC:
        return result(ErrorCode.INVALID_REQUEST, "expected settings of a topic; min ISR is kept there only")
    topic = controller.image.topics.get(resource.name)
    if topic is None:
        return result(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    records: list[MetadataRecord] = []
    for key, operation, value in resource.operations:
        if operation == _DELETE:
            records.append(ConfigChanged(topic.name, key, None))
        elif operation == _SET and value is not None and is_legal(key, value):
            records.append(ConfigChanged(topic.name, key, value))
        else:
            return result(ErrorCode.INVALID_CONFIG, f"expected a known setting with a legal value, found {key}={value}")
    if not validate_only:
        records += _after_min_isr_change(controller, topic, records)
        changes.append(controller, records)
    return result(ErrorCode.NONE)


def _after_min_isr_change(
    controller: ControllerState, topic: TopicImage, records: list[MetadataRecord]
) -> list[MetadataRecord]:
    """ELR-6: under another min ISR a blocked high watermark may move, so the ELR's guarantee is void.

    With an empty ISR there is no leader and nothing moves, so the ELR keeps its guarantee.
    """
    changed = [
        record for record in records if isinstance(record, ConfigChanged) and record.key == "min.insync.replicas"
    ]
    if not changed or not controller.rules.elections.forgets_elr_on_new_min_isr():
        return []
    value = changed[-1].value
    new = controller.settings.min_insync_replicas if value is None else int(value)
    if new == min_isr_of(controller, topic):
        return []
    controller.runtime.mark(MIN_ISR_RAISED if new > min_isr_of(controller, topic) else MIN_ISR_LOWERED)
    return [
        PartitionSet(
            topic.topic_id,
            number,
            state._replace(elr=(), last_known_elr=(), partition_epoch=state.partition_epoch + 1),
        )
        for number, state in topic.partitions.items()
        if state.isr and (state.elr or state.last_known_elr)
    ]
