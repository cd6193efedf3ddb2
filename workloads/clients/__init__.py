"""Client libraries behind one narrow interface (`workloads.clients.base`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, cast

from naming import unknown
from workloads.clients.base import ClientLibrary, ClientMissingError

DEFAULT_CLIENT: Final = "kafka-python"

_MODULES: Final[Mapping[str, tuple[str, str]]] = {
    "kafka-python": ("workloads.clients.kafka_python", "harrow"),
    "confluent-kafka": ("workloads.clients.confluent", "harrow[clients]"),
    "aiokafka": ("workloads.clients.aio", "harrow[clients]"),
}


def client_names() -> tuple[str, ...]:
    """Names of the client libraries that can be driven, installed or not."""
    return tuple(_MODULES)


def client_named(name: str) -> ClientLibrary:
    """Load a client library. Raises `ClientMissingError` if it is unknown or not installed."""
    if name not in _MODULES:
        raise ClientMissingError(unknown(name, _MODULES, "a client"))
    module, extra = _MODULES[name]
    try:
        library = cast("Callable[[], ClientLibrary]", import_module(module).library)
    except ModuleNotFoundError as error:
        raise ClientMissingError(f"client {name} is not installed ({error}): pip install {extra}") from error
    return library()
