"""The configuration of a worker process: one JSON file, validated before anything starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Final, get_type_hints

from common.security import Security, SecurityError, read_security
from workloads.clients import DEFAULT_CLIENT
from workloads.clients.base import ClientSettings, Partition
from workloads.clients.optional_interfaces import ASSIGNORS, SESSION_TIMEOUT_MS

ACKS: Final[Mapping[object, int]] = {"all": -1, "-1": -1, -1: -1, 0: 0, 1: 1, "0": 0, "1": 1}


class WorkerConfigError(Exception):
    """The configuration is invalid. One line: what was expected and what was found."""


@dataclass(frozen=True)
class WorkerConfig:
    """Configuration of one worker. Fields without a default are required in the file."""

    run_id: str
    origin_ns: int  # the run's origin on CLOCK_MONOTONIC
    worker: int  # 0 … workers - 1
    workers: int
    history: str  # directory of the run's tables
    bootstrap: list[str]  # host:port
    topics: dict[str, int]  # name → number of partitions
    client_config: str = ""  # file with TLS and SASL; empty: plain text
    workload: str = "log"
    client: str = DEFAULT_CLIENT
    assignor: str = "eager"  # of groups
    static_members: bool = False  # of groups
    acks: int = -1
    idempotence: bool = True
    rate: float = 500.0  # sends per second, of this worker
    producers: int = 16  # logical processes that send: the maximum of sends in flight
    readers: int = 1  # logical processes that read, a thread and a client each
    batch_min: int = 1  # records per send
    batch_max: int = 3
    seed: int = 0
    duration_s: float | None = None  # stop sending after this; None: until `drain`
    connect_timeout_s: float = 30.0
    request_timeout_ms: int = 4_000
    delivery_timeout_ms: int = 8_000
    linger_ms: int = 0
    poll_timeout_ms: int = 250
    poll_interval_ms: int = 50
    latest_interval_ms: int = 500
    seek_interval_ms: int = 10_000
    final_timeout_s: float = 120.0
    session_timeout_ms: int = SESSION_TIMEOUT_MS  # of the members of groups
    groups: dict[str, int | None] = field(default_factory=dict)
    """For the workload `groups`: name → partition of the offsets topic that stores the group, null if unknown."""

    @property
    def partitions(self) -> list[Partition]:
        """All partitions of the workload's topics."""
        return [Partition(topic, each) for topic, count in self.topics.items() for each in range(count)]

    def _security(self) -> Security:
        try:
            return read_security(self.client_config)
        except SecurityError as error:
            raise WorkerConfigError(str(error)) from error

    @property
    def client_settings(self) -> ClientSettings:
        """Settings of this worker's clients. Raises `WorkerConfigError` for `client_config`."""
        return ClientSettings(
            bootstrap=tuple(self.bootstrap),
            security=self._security(),
            acks=self.acks,
            idempotence=self.idempotence,
            request_timeout_ms=self.request_timeout_ms,
            delivery_timeout_ms=self.delivery_timeout_ms,
            linger_ms=self.linger_ms,
            client_id=f"harrow-{self.worker}",
        )


def read_config(path: Path) -> WorkerConfig:
    """Read and validate a configuration file. Raises `WorkerConfigError`."""
    try:
        return config_from(json.loads(path.read_text()))
    except OSError as error:
        raise WorkerConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise WorkerConfigError(f"the configuration {path} is not JSON: {error}") from error


def config_from(values: object) -> WorkerConfig:
    """Validate a decoded configuration. Raises `WorkerConfigError` for missing, unknown or invalid fields."""
    if not isinstance(values, dict):
        raise WorkerConfigError(f"the configuration must be a JSON object, found {type(values).__name__}")
    known = {each.name: each for each in fields(WorkerConfig)}
    missing = [
        name
        for name, each in known.items()
        if each.default is MISSING and each.default_factory is MISSING and name not in values
    ]
    if missing:
        raise WorkerConfigError(f"the configuration lacks {', '.join(missing)}")
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise WorkerConfigError(f"the configuration has unknown fields {', '.join(unknown)}; known: {', '.join(known)}")
    if "acks" in values:
        if values["acks"] not in ACKS:
            raise WorkerConfigError(f"acks must be all, 0 or 1, found {values['acks']!r}")
        values = {**values, "acks": ACKS[values["acks"]]}
    _check_types(values)
    config = WorkerConfig(**values)
    _check_values(config)
    return config


def _check_types(values: Mapping[str, object]) -> None:
    accepted: dict[object, tuple[type, ...]] = {float: (int, float), float | None: (int, float, type(None))}
    for name, hint in get_type_hints(WorkerConfig).items():
        if name not in values:
            continue
        origin = getattr(hint, "__origin__", hint)
        wanted = accepted.get(hint, (origin,))
        found = values[name]
        if not isinstance(found, wanted) or (isinstance(found, bool) and bool not in wanted):
            raise WorkerConfigError(f"{name} must be {' or '.join(each.__name__ for each in wanted)}, found {found!r}")


def _check_values(config: WorkerConfig) -> None:
    requirements = {
        "worker must be below workers": 0 <= config.worker < config.workers,
        "bootstrap must name a broker": bool(config.bootstrap),
        "topics must have partitions": bool(config.topics) and all(n > 0 for n in config.topics.values()),
        "rate must be positive": config.rate > 0,
        "producers and readers must not be negative, nor both 0": (
            config.producers >= 0 and config.readers >= 0 and config.producers + config.readers > 0
        ),
        "batch_min and batch_max must satisfy 1 ≤ min ≤ max": 1 <= config.batch_min <= config.batch_max,
        "the workload groups needs groups": config.workload != "groups" or bool(config.groups),
        f"assignor must be {' or '.join(ASSIGNORS)}": config.assignor in ASSIGNORS,
        "session_timeout_ms must be positive": config.session_timeout_ms > 0,
        "idempotence needs acks all": config.acks == -1 or not config.idempotence,
        "delivery_timeout_ms must not be below request_timeout_ms + linger_ms": (
            config.delivery_timeout_ms >= config.request_timeout_ms + config.linger_ms
        ),
    }
    for requirement, met in requirements.items():
        if not met:
            raise WorkerConfigError(f"configuration: {requirement}")
