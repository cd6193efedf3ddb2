"""Uses kafka-python's message classes as a codec for every API that is not performance-critical.

They are generated from Kafka's own schemas, which kafka-python ships for the APIs of clients. For the APIs
between nodes the schemas are in `schemas/`, written after Kafka's published message formats.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from kafka.protocol.api_message import ApiMessage

from broker.shell.codec import schemas
from broker.shell.codec.wire import DecodeError, Parts

WireMessage = Any
"""A message class of kafka-python, or an instance: its attributes are the schema's fields in snake case."""


def define(folder: str, name: str) -> WireMessage:
    """Create the message class for `schemas/<folder>/<name>.json`."""
    return type(ApiMessage)(name, (ApiMessage,), {}, load_json=f"{schemas.__name__}.{folder}")


def decode(message: WireMessage, data: bytes, position: int, version: int) -> WireMessage:
    """Read one message that starts at `position`.

    This is `ApiMessage.decode`, but returns the position where reading ended, which the public function does not.
    The position is needed because kafka-python reads a string cut short by the frame as a shorter string.
    """
    flexible = message.flexible_version_q(version)
    read = message._struct.compiled_decode_from(version, compact=flexible, tagged=flexible, data_class=message)
    decoded, end = read(memoryview(data), position)
    if end > len(data):
        raise DecodeError(f"the message needs {end - len(data)} bytes more than the frame has")
    return decoded


def encode(message: WireMessage, version: int, **fields: object) -> Parts:
    """Write one message. Fields that the version lacks are left out, missing ones get their defaults."""
    return [bytes(message(version=version, **fields).encode())]


def elements(array: Iterable[WireMessage] | None) -> Iterable[WireMessage]:
    """Iterate over an array's elements; null counts as empty."""
    return () if array is None else array


def uuid_text(value: uuid.UUID | None) -> str:
    """A UUID as text, "" for the all-zero one, which means unknown."""
    return "" if value is None or value.int == 0 else str(value)


def uuid_or_zero(text: str) -> str:
    """Invert `uuid_text`, in the form that kafka-python takes."""
    return text or "00000000-0000-0000-0000-000000000000"
