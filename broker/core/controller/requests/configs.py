"""Serves IncrementalAlterConfigs: settings of topics and of the cluster that change at run time."""

from __future__ import annotations

import re

from broker.core.controller import changes, recovery
from broker.core.controller.partition_changes import elections_for_leaderless, min_isr_of
from broker.core.controller.state import ControllerState
from broker.core.log.compaction.policy import POLICIES, is_ratio
from broker.core.messages import (
    AlteredConfig,
    ConfigResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.messages.refusals import shown
from broker.core.metadata.records import ConfigChanged, MetadataRecord, PartitionSet
from broker.core.ports.marks import sometimes
from broker.core.settings import STRATEGIES

MIN_ISR = "min.insync.replicas"
_UNCLEAN_KEYS = ("unclean.leader.election.enable", "unclean.recovery.strategy")

MIN_ISR_RAISED = sometimes("min ISR: raised")
MIN_ISR_LOWERED = sometimes("min ISR: lowered")

TOPIC = 2
CLUSTER = 4
"""The resource type of brokers: with an empty name, all of them."""

_SET, _DELETE = 0, 1
_INTEGER = re.compile("-?[0-9]{1,19}")
_BOUNDED_INTEGERS = {
    MIN_ISR: 1,
    "retention.ms": -1,
    "retention.bytes": -1,
    "segment.bytes": 1,
    "max.message.bytes": 0,
    "min.compaction.lag.ms": 0,
    "delete.retention.ms": 0,
}
_CHOICES = {
    "unclean.leader.election.enable": ("true", "false"),
    "unclean.recovery.strategy": (*STRATEGIES, *(name.capitalize() for name in STRATEGIES)),
    "cleanup.policy": POLICIES,
}
_RATIO = "min.cleanable.dirty.ratio"
TOPIC_KEYS = (*_BOUNDED_INTEGERS, *_CHOICES, _RATIO)
"""The settings that a topic may have."""

CLUSTER_KEYS = (MIN_ISR, "unclean.leader.election.enable", "unclean.recovery.strategy")
"""The settings that all topics take from the cluster unless they have their own."""


def is_legal(key: str, value: str) -> bool:
    """Whether a topic may have this setting with this value."""
    if key in _BOUNDED_INTEGERS:
        return _INTEGER.fullmatch(value) is not None and int(value) >= _BOUNDED_INTEGERS[key]
    if key == _RATIO:
        return is_ratio(value)
    return value in _CHOICES.get(key, ())


def publish_min_isr(controller: ControllerState) -> None:
    """PR-2: put the cluster's min ISR into the metadata, once: the check of a produce and the ELR need the same one.

    Until then each node uses its own file's; from then on it changes by IncrementalAlterConfigs only, as in Kafka 4.
    """
    if MIN_ISR not in controller.image.configs and controller.rules.metadata.publishes_min_isr():
        changes.append(controller, [ConfigChanged("", MIN_ISR, str(controller.settings.min_insync_replicas))])


def alter(controller: ControllerState, request_id: int, request: IncrementalAlterConfigsRequest) -> None:
    """Change each topic's settings, or return its error."""
    results = tuple(_alter(controller, resource, request.validate_only) for resource in request.resources)
    changes.reply(controller, request_id, request, IncrementalAlterConfigsResponse(results))


def _alter(controller: ControllerState, resource: ConfigResource, validate_only: bool) -> AlteredConfig:
    def result(error: ErrorCode, message: str | None = None) -> AlteredConfig:
        return AlteredConfig(error, message, resource.resource_type, resource.name)

    if resource.resource_type not in (TOPIC, CLUSTER) or (resource.resource_type == CLUSTER and resource.name):
        return result(
            ErrorCode.INVALID_REQUEST, "expected settings of a topic, or of the cluster: a broker without a name"
        )
    known = TOPIC_KEYS if resource.resource_type == TOPIC else CLUSTER_KEYS
    if resource.resource_type == TOPIC and resource.name not in controller.image.topics:
        return result(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    records: list[ConfigChanged] = []
    for key, operation, value in resource.operations:
        if operation == _DELETE and key in known:
            records.append(ConfigChanged(resource.name, key, None))
        elif operation == _SET and key in known and value is not None and is_legal(key, value):
            records.append(ConfigChanged(resource.name, key, value))
        else:
            return result(
                ErrorCode.INVALID_CONFIG,
                f"expected a known setting with a legal value, found {shown(f'{key}={value}')}",
            )
    if not validate_only:
        _change(controller, records)
    return result(ErrorCode.NONE)


def _change(controller: ControllerState, records: list[ConfigChanged]) -> None:
    """Append the settings with what follows from them: ELR-6, and elections that they allow (EL-8, UR-3)."""
    if any(record == ConfigChanged("", MIN_ISR, None) for record in records):
        records = [*records, ConfigChanged("", MIN_ISR, str(controller.settings.min_insync_replicas))]
    changes.append(controller, [*records, *_after_min_isr_change(controller, records)])
    if controller.rules.elections.elects_on_new_settings() and any(record.key in _UNCLEAN_KEYS for record in records):
        changes.append(controller, list(elections_for_leaderless(controller)))
        recovery.consider_all(controller)


def _after_min_isr_change(controller: ControllerState, records: list[ConfigChanged]) -> list[MetadataRecord]:
    """ELR-6: under another min ISR a blocked high watermark may move, so the ELR's guarantee is void.

    With an empty ISR there is no leader and nothing moves, so the ELR keeps its guarantee.
    """
    set_now = {record.topic: record.value for record in records if record.key == MIN_ISR}
    if not set_now or not controller.rules.elections.forgets_elr_on_new_min_isr():
        return []
    image = controller.image
    default = set_now.get("", image.configs.get(MIN_ISR)) or str(controller.settings.min_insync_replicas)
    voided: list[MetadataRecord] = []
    for topic in image.topics.values():
        old, new = min_isr_of(controller, topic), int(set_now.get(topic.name, topic.configs.get(MIN_ISR)) or default)
        if new == old:
            continue
        controller.runtime.mark(MIN_ISR_RAISED if new > old else MIN_ISR_LOWERED)
        voided += [
            PartitionSet(
                topic.topic_id,
                number,
                state._replace(elr=(), last_known_elr=(), partition_epoch=state.partition_epoch + 1),
            )
            for number, state in topic.partitions.items()
            if state.isr and (state.elr or state.last_known_elr)
        ]
    return voided
