"""Serves AlterConfigs and IncrementalAlterConfigs: settings of topics and of brokers that change at run time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from broker.core.configuration.alteration import (
    Alterable,
    Operation,
    Refused,
    altered,
    broker_setting,
    refuse_repeated,
    topic_setting,
)
from broker.core.configuration.topics import MIN_ISR as MIN_ISR_SETTING
from broker.core.configuration.topics import UNCLEAN_ELECTION, UNCLEAN_STRATEGY
from broker.core.controller import changes, recovery
from broker.core.controller.partition_changes import elections_for_leaderless, min_isr_of
from broker.core.controller.state import ControllerState
from broker.core.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredConfig,
    ConfigOperation,
    ConfigResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ResourceType,
)
from broker.core.messages.errors import ErrorCode
from broker.core.messages.refusals import shown
from broker.core.metadata.records import BrokerConfigChanged, ConfigChanged, MetadataRecord, PartitionSet
from broker.core.ports.marks import sometimes

MIN_ISR = MIN_ISR_SETTING.name
_UNCLEAN_KEYS = (UNCLEAN_ELECTION.name, UNCLEAN_STRATEGY.name)
_DIGITS_MAX = 10
_ALL = ""
"""The name of the broker that stands for all."""

MIN_ISR_RAISED = sometimes("min ISR: raised")
MIN_ISR_LOWERED = sometimes("min ISR: lowered")

_Change = ConfigChanged | BrokerConfigChanged


class _Target(NamedTuple):
    """A resource with settings of its own. `error` is for values that are not legal, as in Kafka (KAFKA-13609)."""

    own: Mapping[str, str]
    error: ErrorCode
    broker_id: int | None = None
    topic: str = ""

    def setting(self, key: str) -> Alterable:
        """A setting that it may have. Raises `Refused`."""
        return topic_setting(key) if self.topic else broker_setting(key, of_all=self.broker_id is None)

    def changed(self, key: str, value: str | None) -> _Change:
        """The record of a new value, or of none."""
        if self.broker_id is not None:
            return BrokerConfigChanged(self.broker_id, key, value)
        return ConfigChanged(self.topic, key, value)


def publish_min_isr(controller: ControllerState) -> None:
    """PR-2: put the cluster's min ISR into the metadata, once: the check of a produce and the ELR need the same one.

    Until then each node uses its own file's; from then on it changes by alteration only, as in Kafka 4.
    """
    if MIN_ISR not in controller.image.configs and controller.rules.metadata.publishes_min_isr():
        changes.append(controller, [ConfigChanged(_ALL, MIN_ISR, str(controller.file.min_insync_replicas))])


def alter(
    controller: ControllerState, request_id: int, request: AlterConfigsRequest | IncrementalAlterConfigsRequest
) -> None:
    """Change each resource's settings, or return its error; a refused resource does not stop the others."""
    named = Counter((resource.resource_type, resource.name) for resource in request.resources)
    results = []
    for resource in request.resources:
        try:
            if named[resource.resource_type, resource.name] > 1:
                raise Refused(
                    ErrorCode.INVALID_REQUEST, f"expected each resource once, found {shown(repr(resource.name))} again"
                )
            target = _target(controller, resource.resource_type, resource.name)
            records = (
                _of_operations(target, resource.operations)
                if isinstance(resource, ConfigResource)
                else _of_replacement(target, resource.configs)
            )
        except Refused as refused:
            results.append(AlteredConfig(refused.error, str(refused), resource.resource_type, resource.name))
            continue
        if not request.validate_only:
            _change(controller, records)
        results.append(AlteredConfig(ErrorCode.NONE, None, resource.resource_type, resource.name))
    kind = AlterConfigsResponse if isinstance(request, AlterConfigsRequest) else IncrementalAlterConfigsResponse
    changes.reply(controller, request_id, request, kind(tuple(results)))


def _target(controller: ControllerState, resource_type: int, name: str) -> _Target:
    image = controller.image
    if resource_type == ResourceType.TOPIC:
        if not name:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                "expected the name of a topic, found none; all topics take theirs from the settings of brokers",
            )
        topic = image.topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {shown(repr(name))}")
        return _Target(topic.configs, ErrorCode.INVALID_CONFIG, topic=name)
    if resource_type != ResourceType.BROKER:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"expected settings of a topic or a broker, found type {resource_type}"
        )
    if name == _ALL:
        return _Target(image.configs, ErrorCode.INVALID_REQUEST)
    if not (name.isascii() and name.isdecimal()):
        raise Refused(ErrorCode.INVALID_REQUEST, f"expected the id of a broker or nothing, found {shown(repr(name))}")
    if len(name) > _DIGITS_MAX or int(name) not in image.brokers:
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {shown(name)}")
    return _Target(image.broker_configs.get(int(name), {}), ErrorCode.INVALID_REQUEST, int(name))


def _of_operations(target: _Target, operations: tuple[ConfigOperation, ...]) -> list[_Change]:
    """The records of an incremental change. To delete what the resource has not is no error, and changes nothing."""
    refuse_repeated(key for key, _, _ in operations)
    records = []
    for key, operation, value in operations:
        if operation != Operation.DELETE:
            asked = ConfigOperation(key, operation, value)
            records.append(target.changed(key, altered(asked, target.setting(key), target.own.get(key), target.error)))
        elif key in target.own:
            records.append(target.changed(key, None))
    return records


def _of_replacement(target: _Target, configs: tuple[tuple[str, str | None], ...]) -> list[_Change]:
    """The records that leave a resource with these settings and no others of its own."""
    operations = tuple(ConfigOperation(key, Operation.SET, value) for key, value in configs)
    named = {key for key, _ in configs}
    dropped = [target.changed(key, None) for key in target.own if key not in named]
    return dropped + _of_operations(target, operations)


def _change(controller: ControllerState, records: list[_Change]) -> None:
    """Append the settings with what follows from them: ELR-6, and elections that they allow (EL-8, UR-3, UR-4)."""
    if ConfigChanged(_ALL, MIN_ISR, None) in records:
        records = [*records, ConfigChanged(_ALL, MIN_ISR, str(controller.file.min_insync_replicas))]
    changes.append(controller, [*records, *_after_min_isr_change(controller, records)])
    if controller.rules.elections.elects_on_new_settings() and any(record.key in _UNCLEAN_KEYS for record in records):
        changes.append(controller, list(elections_for_leaderless(controller)))
        recovery.consider_all(controller)
    elif any(record.key == MIN_ISR for record in records):
        recovery.consider_all(controller)  # UR-4: it may need other answers


def _after_min_isr_change(controller: ControllerState, records: list[_Change]) -> list[MetadataRecord]:
    """ELR-6: under another min ISR a blocked high watermark may move, so the ELR's guarantee is void.

    With an empty ISR there is no leader and nothing moves, so the ELR keeps its guarantee.
    """
    set_now = {
        record.topic: record.value for record in records if isinstance(record, ConfigChanged) and record.key == MIN_ISR
    }
    if not set_now or not controller.rules.elections.forgets_elr_on_new_min_isr():
        return []
    image = controller.image
    default = set_now.get(_ALL, image.configs.get(MIN_ISR)) or str(controller.file.min_insync_replicas)
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
