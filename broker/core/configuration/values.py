"""Types of settings' values: text to a typed value and back, with what is expected of the text in plain words."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from broker.core.configuration.settings import (
    BROKER_LISTENER,
    CLIENT_LISTENER,
    CONTROLLER_LISTENER,
    STRATEGIES,
    Address,
    ReplicaSelector,
)
from broker.core.log.compression import CODECS, UnknownCodec, compress
from broker.core.messages import Listener
from broker.core.messages.refusals import shown

INT16_MAX = (1 << 15) - 1
INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1

_NEVER = 0
_UNIX_PATH_BYTES_MAX = 107
_NUMBER = re.compile(r"-?[0-9]+")


class ImpossibleValue(Exception):
    """A text that is no value of a type; the message says what was expected."""


class Kind(IntEnum):
    """The type of a setting as DescribeConfigs numbers it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8


@dataclass(frozen=True)
class ValueType:
    """A type of values. `expected` completes "expected …"."""

    kind: Kind
    expected: str
    read: Callable[[str], Any]
    """Convert a text. Raises `ValueError` if it is not what is expected."""

    text: Callable[[Any], str] = str
    """Invert `read`."""

    missing: Callable[[Any], str | None] = lambda _: None
    """What this machine lacks for a value, as a whole message; None if nothing."""

    def parse(self, text: str) -> Any:  # noqa: ANN401 - each setting has its own type
        """Convert a text. Raises `ImpossibleValue`."""
        try:
            return self.read(text)
        except ValueError:
            raise ImpossibleValue(f"expected {self.expected}, found {shown(repr(text))}") from None

    def check(self, text: str) -> str:
        """The text as it is stored. Raises `ImpossibleValue` if it is no value or this machine cannot serve it."""
        value = self.parse(text)
        missing = self.missing(value)
        if missing is not None:
            raise ImpossibleValue(missing)
        return self.text(value)


# --- numbers ---------------------------------------------------------------------------------------------------------


def whole(low: int, high: int, kind: Kind = Kind.INT) -> ValueType:
    """Whole numbers in a range, bounds included."""

    def read(text: str) -> int:
        if not _NUMBER.fullmatch(text) or not low <= int(text) <= high:
            raise ValueError
        return int(text)

    return ValueType(kind, f"a whole number from {low} to {high}", read)


def long(low: int) -> ValueType:
    """Whole numbers of 64 bits."""
    return whole(low, INT64_MAX, Kind.LONG)


COUNT = whole(1, INT32_MAX)
MILLISECONDS = whole(1, INT32_MAX)
LONG_MILLISECONDS = whole(1, INT32_MAX, Kind.LONG)
REPLICAS = whole(1, INT16_MAX)


def _read_interval(text: str) -> int:
    # Kafka writes "never" as the largest long.
    if text == "never":
        return _NEVER
    number: int = long(1).read(text)
    return _NEVER if number > INT32_MAX else number


INTERVAL = ValueType(
    Kind.LONG, "a whole number from 1, or never", _read_interval, lambda value: str(value or INT64_MAX)
)


def _read_seconds(text: str) -> int:
    seconds: int = whole(1, INT32_MAX // 1000).read(text)
    return seconds * 1000


def _read_minutes(text: str) -> int:
    minutes: int = whole(1, INT32_MAX).read(text)
    return minutes * 60_000


MINUTES = ValueType(
    Kind.INT, f"a whole number from 1 to {INT32_MAX}", _read_minutes, lambda value: str(value // 60_000)
)
"""Minutes in text, milliseconds as a value."""


def _read_ratio(text: str) -> float:
    ratio = float(text)
    if not 0 <= ratio <= 1:
        raise ValueError
    return ratio


RATIO = ValueType(Kind.DOUBLE, "a number from 0 to 1", _read_ratio)

SECONDS = ValueType(
    Kind.LONG, f"a whole number from 1 to {INT32_MAX // 1000}", _read_seconds, lambda value: str(value // 1000)
)
"""Seconds in text, milliseconds as a value."""


# --- choices ---------------------------------------------------------------------------------------------------------


def _from(choices: Mapping[str, Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:  # noqa: ANN401 - of the choices
        if text not in choices:
            raise ValueError
        return choices[text]

    return read


def one_of(*choices: str) -> ValueType:
    """One of some words."""
    return ValueType(Kind.STRING, " or ".join(choices), _from({choice: choice for choice in choices}))


BOOLEAN = ValueType(
    Kind.BOOLEAN,
    "true or false",
    lambda text: _from({"true": True, "false": False})(text.lower()),
    lambda value: str(value).lower(),
)
_SELECTORS: Mapping[str, ReplicaSelector] = MappingProxyType(
    {
        "org.apache.kafka.common.replica.RackAwareReplicaSelector": "rack-aware",
        "org.apache.kafka.common.replica.LeaderSelector": "leader",
    }
)
"""Kafka's own replica selectors, by the names of their classes."""

SELECTOR = ValueType(
    Kind.CLASS,
    " or ".join(_SELECTORS),
    _from(_SELECTORS),
    lambda value: next(name for name, selector in _SELECTORS.items() if selector == value),
)
STRATEGY = ValueType(Kind.STRING, " or ".join(STRATEGIES), lambda text: _from(STRATEGIES)(text.lower()))

PRODUCER = "producer"
UNCOMPRESSED = "uncompressed"


def _missing_codec(name: str) -> str | None:
    try:
        if name in CODECS:
            compress(CODECS.index(name), b"")
    except UnknownCodec as error:
        return f"{error}; install it, or choose gzip"
    return None


COMPRESSION = ValueType(
    Kind.STRING,
    " or ".join((PRODUCER, UNCOMPRESSED, *CODECS[1:])),
    _from({name: name for name in (PRODUCER, UNCOMPRESSED, *CODECS[1:])}),
    missing=_missing_codec,
)


# --- texts and lists -------------------------------------------------------------------------------------------------


def words_of(text: str) -> tuple[str, ...]:
    """The words of a list, which are separated by commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _read_some(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _read_socket_path(text: str) -> str:
    if not 0 < len(text.encode(errors="surrogateescape")) <= _UNIX_PATH_BYTES_MAX:
        raise ValueError
    return text


def _read_directories(text: str) -> tuple[str, ...]:
    paths = words_of(text)
    if not paths or len({posixpath.normpath(path) for path in paths}) < len(paths):
        raise ValueError
    return paths


def some_of(expected: str, *words: str) -> ValueType:
    """A list of some words, each at most once, in any order; it may be empty."""

    def read(text: str) -> tuple[str, ...]:
        found = words_of(text)
        if not set(found) <= set(words) or len(set(found)) < len(found):
            raise ValueError
        return found

    return ValueType(Kind.LIST, expected, read, ",".join)


def _read_roles(text: str) -> tuple[str, ...]:
    roles = words_of(text.lower())
    if not roles or len(set(roles)) < len(roles) or not set(roles) <= {"broker", "controller"}:
        raise ValueError
    return roles


TEXT = ValueType(Kind.STRING, "some text", _read_some)
WORDS = ValueType(Kind.LIST, "words, separated by commas", words_of, ",".join)
SOCKET_PATH = ValueType(
    Kind.STRING, f"a path of 1 to {_UNIX_PATH_BYTES_MAX} bytes, as the system allows for sockets", _read_socket_path
)
DIRECTORIES = ValueType(
    Kind.LIST, "one or more directories, separated by commas, each once", _read_directories, ",".join
)
ROLES = ValueType(Kind.LIST, "broker, controller or broker,controller", _read_roles, ",".join)


# --- addresses -------------------------------------------------------------------------------------------------------


def _read_address(text: str) -> Address:
    host, separator, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError
    return host, int(port)


def _address_text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _read_servers(text: str) -> tuple[Address, ...]:
    servers = tuple(_read_address(word) for word in words_of(text))
    if not servers:
        raise ValueError
    return servers


def _read_addresses(text: str) -> Mapping[int, Address]:
    addresses: dict[int, Address] = {}
    for part in words_of(text):
        node_id, separator, address = part.partition("@")
        if not separator or not node_id.isdecimal() or int(node_id) in addresses:
            raise ValueError
        addresses[int(node_id)] = _read_address(address)
    return MappingProxyType(addresses)


def _addresses_text(addresses: Mapping[int, Address]) -> str:
    return ",".join(f"{node_id}@{_address_text(address)}" for node_id, address in addresses.items())


def _read_voters(text: str) -> Mapping[int, Address]:
    voters = _read_addresses(text)
    if not voters:
        raise ValueError
    return voters


def _read_listeners(text: str) -> tuple[Listener, ...]:
    listeners = []
    for part in words_of(text):
        name, separator, address = part.partition("://")
        if not separator or name not in (CLIENT_LISTENER, BROKER_LISTENER, CONTROLLER_LISTENER):
            raise ValueError
        listeners.append(Listener(name, *_read_address(address)))
    return tuple(listeners)


def _listeners_text(listeners: tuple[Listener, ...]) -> str:
    return ",".join(f"{each.name}://{_address_text((each.host, each.port))}" for each in listeners)


_PORT = "with a port from 1 to 65535"
ADDRESS = ValueType(Kind.STRING, f"host:port {_PORT}", _read_address, _address_text)
ADDRESSES = ValueType(Kind.LIST, f"ID@host:port,… with each ID once, {_PORT}", _read_addresses, _addresses_text)
SERVERS = ValueType(
    Kind.LIST, f"at least one host:port, {_PORT}", _read_servers, lambda value: ",".join(map(_address_text, value))
)
VOTERS = ValueType(Kind.LIST, f"at least one ID@host:port, with each ID once, {_PORT}", _read_voters, _addresses_text)
LISTENERS = ValueType(
    Kind.LIST,
    f"CLIENT://host:port,BROKER://host:port or CONTROLLER://host:port, {_PORT}",
    _read_listeners,
    _listeners_text,
)
