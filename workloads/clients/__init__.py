"""Loads client libraries, which implement one interface (`workloads.clients.base`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, cast

from common.names import unknown
from workloads.clients.base import ClientLibrary, ClientMissingError

DEFAULT_CLIENT: Final = "kafka-python"

_MODULES: Final[Mapping[str, str]] = {
    "kafka-python": "workloads.clients.kafka_python",
    "confluent-kafka": "workloads.clients.confluent",
    "aiokafka": "workloads.clients.aio",
}


def client_names() -> tuple[str, ...]:
    """Names of the supported client libraries, installed or not."""
    return tuple(_MODULES)


def client_named(name: str) -> ClientLibrary:
    """Load a client library. Raises `ClientMissingError` if it is unknown or not installed."""
    if name not in _MODULES:
        raise ClientMissingError(unknown(name, _MODULES, "a client"))
    try:
        library = cast("Callable[[], ClientLibrary]", import_module(_MODULES[name]).library)
    except ModuleNotFoundError as error:
        raise ClientMissingError(f"client {name} is not installed ({error})", name) from error
    return library()
