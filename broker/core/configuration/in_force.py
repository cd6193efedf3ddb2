"""The settings of a node in force: what the metadata has for it, before what the metadata has for all, before its file.

A node replaces its settings when the metadata changes them, so that whoever reads one gets the value in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from broker.core.configuration.brokers import BROKER_SETTINGS
from broker.core.configuration.setting import Scope
from broker.core.configuration.settings import Settings
from broker.core.configuration.values import ImpossibleValue
from broker.core.metadata.image import Image


def layers(image: Image, broker_id: int | None) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """What the metadata has for all nodes, and for one broker; for a controller (None) there is nothing of its own."""
    return image.configs, image.broker_configs.get(broker_id, {}) if broker_id is not None else {}


def in_force(file: Settings, of_all: Mapping[str, str], own: Mapping[str, str]) -> Settings:
    """The settings of a file, with what the metadata says instead.

    Settings that this Harrow does not know, cannot read or does not alter at run time are left out: another one, older
    or newer, may have stored them.
    """
    changes: dict[str, Any] = {}
    for configs, scopes in ((of_all, (Scope.CLUSTER, Scope.BROKER)), (own, (Scope.BROKER,))):
        for name, text in configs.items():
            setting = BROKER_SETTINGS.get(name)
            if setting is None or setting.scope not in scopes:
                continue
            try:
                changes[setting.field] = setting.type.parse(text)
            except ImpossibleValue:
                continue
    return replace(file, **changes) if changes else file
