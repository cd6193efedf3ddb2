"""Parses Kafka-style properties into `Settings`.

A setting that is unknown, missing or invalid is an error of one line: what was expected, what was
found, what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from broker.core.configuration.brokers import BROKER_SETTINGS
from broker.core.configuration.settings import BROKER_LISTENER, CLIENT_LISTENER, CONTROLLER_LISTENER, Settings
from broker.core.configuration.values import ImpossibleValue
from broker.zookeeper.choices import ZOOKEEPER_GENERATIONS

_REQUIRED = ("node.id", "listeners", "log.dirs")
_VOTERS = "controller.quorum.voters"
_ENSEMBLE = "zookeeper.connect"
_LISTENERS_OF_ROLE = {
    "broker": (CLIENT_LISTENER, BROKER_LISTENER),
    "controller": (CONTROLLER_LISTENER,),
}


class SettingsError(Exception):
    """An invalid properties file; the text is one line for its author."""


def load(path: Path) -> Settings:
    """Read a properties file. Raises `SettingsError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{path}: expected a readable file of properties, found: {error}; check the path"
        ) from error
    try:
        return parse(text)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error


def parse(text: str) -> Settings:
    """Convert properties into settings. Raises `SettingsError`."""
    found = _read(text.splitlines())
    fields: dict[str, Any] = {}
    for name, value in found.items():
        setting = BROKER_SETTINGS.get(name)
        if setting is None:
            raise SettingsError(f"expected a setting that exists, found {name!r}; remove it or correct its name")
        try:
            fields[setting.field] = setting.type.parse(value)
            setting.type.check(value)
        except ImpossibleValue as error:
            raise SettingsError(f"{name}: {error}; correct it") from error
    fields.setdefault("voters", {})
    on_zookeeper = fields.get("generation") in ZOOKEEPER_GENERATIONS
    for name in (*_REQUIRED, _ENSEMBLE if on_zookeeper else _VOTERS):
        if name not in found:
            raise SettingsError(f"expected {name}, found no such line; add it")
    unused = _VOTERS if on_zookeeper else _ENSEMBLE
    if unused in found:
        generation = fields.get("generation", Settings.generation)
        raise SettingsError(f"{unused}: expected no such line for {generation}, found one; remove it")
    fields.setdefault("advertised_listeners", fields["listeners"])
    return _consistent(Settings(**fields, given=frozenset(found)))


def _read(lines: Iterable[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, separator, value = stripped.partition("=")
        name = name.strip()
        if not separator or not name:
            raise SettingsError(f"line {number}: expected name=value, found {stripped!r}; correct it")
        if name in found:
            raise SettingsError(f"line {number}: expected each setting once, found {name} again; keep one of them")
        found[name] = value.strip()
    return found


def _consistent(settings: Settings) -> Settings:
    """Check constraints between settings."""
    if settings.generation in ZOOKEEPER_GENERATIONS and settings.roles != ("broker",):
        raise SettingsError(
            f"process.roles: expected broker for {settings.generation}, found {','.join(settings.roles)}; correct it"
        )
    for name, listeners in (
        ("listeners", settings.listeners),
        ("advertised.listeners", settings.advertised_listeners),
    ):
        expected = tuple(listener for role in settings.roles for listener in _LISTENERS_OF_ROLE[role])
        names = tuple(listener.name for listener in listeners)
        if sorted(names) != sorted(expected):
            raise SettingsError(
                f"{name}: expected {' and '.join(expected)} for a {' and '.join(settings.roles)}, "
                f"found {', '.join(names)}; correct it"
            )
    if settings.is_controller and settings.node_id not in settings.voters:
        raise SettingsError(
            f"controller.quorum.voters: expected this controller, {settings.node_id}, among them, "
            f"found {', '.join(map(str, settings.voters))}; correct node.id or the voters"
        )
    if not settings.is_controller and settings.node_id in settings.voters:
        raise SettingsError(
            f"node.id: expected a number that no controller has, found {settings.node_id}; choose another"
        )
    if settings.broker_heartbeat_interval_ms >= settings.broker_session_timeout_ms:
        raise SettingsError(
            "broker.heartbeat.interval.ms: expected less than broker.session.timeout.ms "
            f"({settings.broker_session_timeout_ms}), found {settings.broker_heartbeat_interval_ms}; lower it"
        )
    if settings.group_min_session_timeout_ms > settings.group_max_session_timeout_ms:
        raise SettingsError(
            "group.min.session.timeout.ms: expected no more than group.max.session.timeout.ms "
            f"({settings.group_max_session_timeout_ms}), found {settings.group_min_session_timeout_ms}; lower it"
        )
    return settings
