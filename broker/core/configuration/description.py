"""Describes settings: the value in force, where it comes from, and the other places that have one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from broker.core.configuration.brokers import BROKER_SETTINGS
from broker.core.configuration.setting import BrokerSetting, Scope
from broker.core.configuration.settings import Settings
from broker.core.configuration.topics import TOPIC_SETTINGS, TopicSetting
from broker.core.messages import DescribedConfig


class Source(IntEnum):
    """Where a value comes from, as the wire numbers it."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    """For all brokers."""

    STATIC_BROKER = 4
    """The file of the node that answers."""

    DEFAULT = 5


class Layers(NamedTuple):
    """The places of a node's settings: its file, what the metadata has for all nodes, and for it alone."""

    file: Settings
    of_all: Mapping[str, str]
    own: Mapping[str, str]


class Detail(NamedTuple):
    """What a client wants beside value and source."""

    synonyms: bool = False
    documentation: bool = False


_Synonym = tuple[str, str | None, int]
"""Name, value, number of the source."""


def topic(configs: Mapping[str, str], layers: Layers, detail: Detail) -> tuple[DescribedConfig, ...]:
    """All settings of a topic that has these of its own."""
    described = []
    for setting in TOPIC_SETTINGS.values():
        own = configs.get(setting.name)
        synonyms = [] if own is None else [(setting.name, own, int(Source.DYNAMIC_TOPIC))]
        described.append(_described(setting, [*synonyms, *_synonyms(setting.broker, layers)], detail))
    return tuple(described)


def broker(layers: Layers, detail: Detail) -> tuple[DescribedConfig, ...]:
    """All settings of a broker."""
    return tuple(_described(setting, list(_synonyms(setting, layers)), detail) for setting in BROKER_SETTINGS.values())


def all_brokers(of_all: Mapping[str, str], detail: Detail) -> tuple[DescribedConfig, ...]:
    """The settings that the metadata has for all brokers; no others, as every broker has its own file."""
    return tuple(
        _described(BROKER_SETTINGS[name], [(name, value, int(Source.DYNAMIC_DEFAULT_BROKER))], detail)
        for name, value in of_all.items()
        if name in BROKER_SETTINGS
    )


def _described(setting: BrokerSetting | TopicSetting, synonyms: list[_Synonym], detail: Detail) -> DescribedConfig:
    _, value, source = synonyms[0] if synonyms else (setting.name, None, int(Source.DEFAULT))
    return DescribedConfig(
        setting.name,
        value,
        isinstance(setting, BrokerSetting) and setting.scope is Scope.READ_ONLY,
        source,
        setting.type.kind,
        tuple(synonyms) if detail.synonyms else (),
        setting.documentation if detail.documentation else None,
    )


def _synonyms(setting: BrokerSetting, layers: Layers) -> Iterator[_Synonym]:
    """The places that have a value of a broker's setting, the one in force first."""
    if setting.scope is Scope.BROKER and setting.name in layers.own:
        yield setting.name, layers.own[setting.name], Source.DYNAMIC_BROKER
    if setting.scope is not Scope.READ_ONLY and setting.name in layers.of_all:
        yield setting.name, layers.of_all[setting.name], Source.DYNAMIC_DEFAULT_BROKER
    value = getattr(layers.file, setting.field)
    text = None if value is None else setting.type.text(value)
    if setting.name in layers.file.given or text != setting.default:
        yield setting.name, text, Source.STATIC_BROKER
    if setting.default is not None:
        yield setting.name, setting.default, Source.DEFAULT
