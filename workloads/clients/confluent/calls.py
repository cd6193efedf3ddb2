"""What all clients of confluent-kafka share: settings, and the names of their errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka as rdkafka

from workloads.clients.base import ClientError, ClientSettings

Untyped = Any
"""A value of confluent-kafka, which carries no types."""


def common_settings(settings: ClientSettings) -> dict[str, object]:
    """Settings of producers, consumers and members."""
    return {
        "bootstrap.servers": ",".join(settings.bootstrap),
        "client.id": settings.client_id,
        "allow.auto.create.topics": False,
        "socket.timeout.ms": settings.request_timeout_ms,
        "socket.connection.setup.timeout.ms": 1_000,
        "reconnect.backoff.max.ms": settings.reconnect_backoff_max_ms,
        "log_level": 2,  # critical: the history has all errors
        **settings.security.librdkafka_options(),
    }


def name_of(error: Exception) -> str:
    """The short name of an error."""
    cause = error.args[0] if error.args else None
    return str(cause.name()) if isinstance(cause, rdkafka.KafkaError) else type(error).__name__


@contextmanager
def client_errors() -> Iterator[None]:
    """Raise `ClientError` for what confluent-kafka raises."""
    try:
        yield
    except (rdkafka.KafkaException, RuntimeError) as error:
        raise ClientError(name_of(error)) from error
