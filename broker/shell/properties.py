"""Parses Kafka-style properties into `Settings`.

A setting that is unknown, missing or invalid is an error of one line: what was expected, what was
found, what to do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from broker.core.log.compaction.policy import POLICIES, is_ratio
from broker.core.messages import Listener
from broker.core.settings import (
    BROKER_LISTENER,
    CLIENT_LISTENER,
    CONTROLLER_LISTENER,
    STRATEGIES,
    Address,
    ReplicaSelector,
    Settings,
    UncleanRecoveryStrategy,
)

_UNIX_PATH_BYTES_MAX = 107
_NEVER = 0
_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1
_LISTENERS_OF_ROLE = {
    "broker": (CLIENT_LISTENER, BROKER_LISTENER),
    "controller": (CONTROLLER_LISTENER,),
}


class SettingsError(Exception):
    """An invalid properties file; the text is one line for its author."""


class _ImpossibleError(Exception):
    """An invalid value; the text says what was expected."""


Parse = Callable[[str], Any]


@dataclass(frozen=True)
class _Setting:
    field: str
    parse: Parse


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
        setting = _SETTINGS.get(name)
        if setting is None:
            raise SettingsError(f"expected a setting that exists, found {name!r}; remove it or correct its name")
        try:
            fields[setting.field] = setting.parse(value)
        except _ImpossibleError as error:
            raise SettingsError(f"{name}: expected {error}, found {value!r}; correct it") from error
    for name in _REQUIRED:
        if name not in found:
            raise SettingsError(f"expected {name}, found no such line; add it")
    fields.setdefault("advertised_listeners", fields["listeners"])
    return _consistent(Settings(**fields))


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


# --- values -----------------------------------------------------------------------------------------------


def _integer(low: int, high: int) -> Parse:
    def parse_integer(value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise _ImpossibleError(f"a whole number from {low} to {high}")
        return number

    return parse_integer


def _interval(value: str) -> int:
    # Kafka writes "never" as the largest long.
    if value == "never" or (value.isdecimal() and int(value) > _INT32_MAX):
        return _NEVER
    try:
        return int(_integer(1, _INT32_MAX)(value))
    except _ImpossibleError:
        raise _ImpossibleError("a whole number from 1, or never") from None


def _boolean(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise _ImpossibleError("true or false")
    return value.lower() == "true"


def _one_of(*choices: str) -> Parse:
    def parse_choice(value: str) -> str:
        for choice in choices:
            if value.lower() == choice.lower():
                return choice
        raise _ImpossibleError(" or ".join(choices))

    return parse_choice


def _text(value: str) -> str:
    if not value:
        raise _ImpossibleError("some text")
    return value


def _roles(value: str) -> tuple[str, ...]:
    roles = tuple(word.lower() for word in _words(value))
    if not roles or len(set(roles)) < len(roles) or not set(roles) <= set(_LISTENERS_OF_ROLE):
        raise _ImpossibleError("broker, controller or broker,controller")
    return roles


def _words(value: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in value.split(",") if word.strip())


def _address(text: str) -> Address:
    host, separator, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise _ImpossibleError("host:port with a port from 1 to 65535")
    return host, int(port)


def _addresses(value: str) -> Mapping[int, Address]:
    addresses: dict[int, Address] = {}
    for part in _words(value):
        node_id, separator, address = part.partition("@")
        if not separator or not node_id.isdecimal() or int(node_id) in addresses:
            raise _ImpossibleError("ID@host:port,… with each ID once")
        addresses[int(node_id)] = _address(address)
    return MappingProxyType(addresses)


def _voters(value: str) -> Mapping[int, Address]:
    voters = _addresses(value)
    if not voters:
        raise _ImpossibleError("at least one ID@host:port")
    return voters


def _listeners(value: str) -> tuple[Listener, ...]:
    listeners = []
    for part in _words(value):
        name, separator, address = part.partition("://")
        if not separator or name not in (CLIENT_LISTENER, BROKER_LISTENER, CONTROLLER_LISTENER):
            raise _ImpossibleError("CLIENT://host:port,BROKER://host:port or CONTROLLER://host:port")
        listeners.append(Listener(name, *_address(address)))
    return tuple(listeners)


def _directories(value: str) -> tuple[str, ...]:
    paths = _words(value)
    if not paths or len({os.path.normpath(path) for path in paths}) < len(paths):
        raise _ImpossibleError("one or more directories, separated by commas, each once")
    return paths


def _socket_path(value: str) -> str:
    if not 0 < len(os.fsencode(value)) <= _UNIX_PATH_BYTES_MAX:
        raise _ImpossibleError(f"a path of 1 to {_UNIX_PATH_BYTES_MAX} bytes, as the system allows for sockets")
    return value


def _strategy(value: str) -> UncleanRecoveryStrategy:
    if value.lower() not in STRATEGIES:
        raise _ImpossibleError(" or ".join(STRATEGIES))
    return STRATEGIES[value.lower()]


def _selector(value: str) -> ReplicaSelector:
    if value not in _SELECTORS:
        raise _ImpossibleError(" or ".join(_SELECTORS))
    return _SELECTORS[value]


def _seconds(value: str) -> int:
    """Seconds, as milliseconds."""
    seconds: int = _integer(1, _INT32_MAX // 1000)(value)
    return seconds * 1000


def _minutes(value: str) -> int:
    """Minutes, as milliseconds."""
    minutes: int = _integer(1, _INT32_MAX)(value)
    return minutes * 60_000


def _ratio(value: str) -> float:
    if not is_ratio(value):
        raise _ImpossibleError("a number from 0 to 1")
    return float(value)


_SELECTORS: Mapping[str, ReplicaSelector] = {
    "org.apache.kafka.common.replica.RackAwareReplicaSelector": "rack-aware",
    "org.apache.kafka.common.replica.LeaderSelector": "leader",
}
"""Kafka's own replica selectors, by the names of their classes."""

_count = _integer(1, _INT32_MAX)
_milliseconds = _integer(1, _INT32_MAX)

_SETTINGS: Mapping[str, _Setting] = {
    "process.roles": _Setting("roles", _roles),
    "node.id": _Setting("node_id", _integer(0, _INT32_MAX)),
    "cluster.id": _Setting("cluster_id", _text),
    "broker.rack": _Setting("rack", _text),
    "replica.selector.class": _Setting("replica_selector", _selector),
    "controller.quorum.voters": _Setting("voters", _voters),
    "listeners": _Setting("listeners", _listeners),
    "advertised.listeners": _Setting("advertised_listeners", _listeners),
    "harrow.peer.addresses": _Setting("peer_addresses", _addresses),
    "log.dirs": _Setting("log_dirs", _directories),
    "log.segment.bytes": _Setting("log_segment_bytes", _integer(1024, _INT32_MAX)),
    "log.flush.interval.messages": _Setting("log_flush_interval_messages", _interval),
    "log.flush.interval.ms": _Setting("log_flush_interval_ms", _interval),
    "log.retention.ms": _Setting("log_retention_ms", _integer(-1, _INT64_MAX)),
    "log.retention.check.interval.ms": _Setting("log_retention_check_interval_ms", _milliseconds),
    "log.cleanup.policy": _Setting("log_cleanup_policy", _one_of(*POLICIES)),
    "log.cleaner.backoff.ms": _Setting("log_cleaner_backoff_ms", _milliseconds),
    "log.cleaner.min.cleanable.ratio": _Setting("log_cleaner_min_cleanable_ratio", _ratio),
    "log.cleaner.min.compaction.lag.ms": _Setting("log_cleaner_min_compaction_lag_ms", _integer(0, _INT64_MAX)),
    "log.cleaner.delete.retention.ms": _Setting("log_cleaner_delete_retention_ms", _integer(0, _INT64_MAX)),
    "log.cleaner.dedupe.buffer.size": _Setting("log_cleaner_dedupe_buffer_bytes", _integer(1024, _INT64_MAX)),
    "producer.id.expiration.ms": _Setting("producer_id_expiration_ms", _milliseconds),
    "producer.id.expiration.check.interval.ms": _Setting("producer_id_expiration_check_interval_ms", _milliseconds),
    "message.max.bytes": _Setting("message_max_bytes", _count),
    "num.partitions": _Setting("num_partitions", _count),
    "default.replication.factor": _Setting("default_replication_factor", _integer(1, 32767)),
    "min.insync.replicas": _Setting("min_insync_replicas", _count),
    "auto.create.topics.enable": _Setting("auto_create_topics_enable", _boolean),
    "offsets.topic.num.partitions": _Setting("offsets_topic_num_partitions", _count),
    "offsets.topic.replication.factor": _Setting("offsets_topic_replication_factor", _integer(1, 32767)),
    "offsets.topic.segment.bytes": _Setting("offsets_topic_segment_bytes", _integer(1, _INT32_MAX)),
    "offsets.retention.minutes": _Setting("offsets_retention_ms", _minutes),
    "offsets.retention.check.interval.ms": _Setting("offsets_retention_check_interval_ms", _milliseconds),
    "offsets.commit.timeout.ms": _Setting("offsets_commit_timeout_ms", _milliseconds),
    "group.initial.rebalance.delay.ms": _Setting("group_initial_rebalance_delay_ms", _integer(0, _INT32_MAX)),
    "group.min.session.timeout.ms": _Setting("group_min_session_timeout_ms", _milliseconds),
    "group.max.session.timeout.ms": _Setting("group_max_session_timeout_ms", _milliseconds),
    "group.max.size": _Setting("group_max_size", _count),
    "auto.leader.rebalance.enable": _Setting("auto_leader_rebalance_enable", _boolean),
    "leader.imbalance.check.interval.seconds": _Setting("leader_imbalance_check_interval_ms", _seconds),
    "unclean.leader.election.enable": _Setting("unclean_leader_election_enable", _boolean),
    "unclean.recovery.strategy": _Setting("unclean_recovery_strategy", _strategy),
    "unclean.recovery.manager.enabled": _Setting("unclean_recovery_manager_enabled", _boolean),
    "unclean.recovery.timeout.ms": _Setting("unclean_recovery_timeout_ms", _milliseconds),
    "initial.broker.registration.timeout.ms": _Setting("initial_broker_registration_timeout_ms", _milliseconds),
    "broker.session.timeout.ms": _Setting("broker_session_timeout_ms", _milliseconds),
    "broker.heartbeat.interval.ms": _Setting("broker_heartbeat_interval_ms", _milliseconds),
    "controlled.shutdown.timeout.ms": _Setting("controlled_shutdown_timeout_ms", _milliseconds),
    "replica.lag.time.max.ms": _Setting("replica_lag_time_max_ms", _milliseconds),
    "replica.fetch.wait.max.ms": _Setting("replica_fetch_wait_max_ms", _milliseconds),
    "replica.fetch.backoff.ms": _Setting("replica_fetch_backoff_ms", _milliseconds),
    "replica.fetch.max.bytes": _Setting("replica_fetch_max_bytes", _count),
    "replica.fetch.response.max.bytes": _Setting("replica_fetch_response_max_bytes", _count),
    "replica.high.watermark.checkpoint.interval.ms": _Setting("high_watermark_checkpoint_interval_ms", _milliseconds),
    "controller.quorum.election.timeout.ms": _Setting("controller_quorum_election_timeout_ms", _milliseconds),
    "controller.quorum.election.backoff.max.ms": _Setting("controller_quorum_election_backoff_max_ms", _milliseconds),
    "controller.quorum.fetch.timeout.ms": _Setting("controller_quorum_fetch_timeout_ms", _milliseconds),
    "controller.quorum.request.timeout.ms": _Setting("controller_quorum_request_timeout_ms", _milliseconds),
    "harrow.metadata.snapshot.records": _Setting("metadata_snapshot_records", _count),
    "controller.quorum.fetch.wait.max.ms": _Setting("metadata_fetch_wait_max_ms", _milliseconds),
    "controller.quorum.fetch.max.bytes": _Setting("metadata_fetch_max_bytes", _count),
    "controller.quorum.fetch.snapshot.max.bytes": _Setting("metadata_snapshot_fetch_max_bytes", _count),
    "controller.quorum.retry.backoff.ms": _Setting("metadata_retry_backoff_ms", _milliseconds),
    "request.timeout.ms": _Setting("request_timeout_ms", _milliseconds),
    "max.incremental.fetch.session.cache.slots": _Setting("fetch_session_slots", _integer(0, _INT32_MAX)),
    "fetch.max.bytes": _Setting("fetch_max_bytes", _integer(1024, _INT32_MAX)),
    "socket.request.max.bytes": _Setting("socket_request_max_bytes", _count),
    "connections.max.idle.ms": _Setting("connections_max_idle_ms", _milliseconds),
    "harrow.generation": _Setting("generation", _text),
    "harrow.flaws": _Setting("flaws", _words),
    "harrow.admin.socket": _Setting("admin_socket", _socket_path),
    "harrow.metrics.listener": _Setting("metrics_listener", _address),
    "harrow.storage": _Setting("storage", _one_of("files", "page-cache")),
}

_REQUIRED = ("node.id", "controller.quorum.voters", "listeners", "log.dirs")
