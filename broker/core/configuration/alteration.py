"""Validates alterations of settings: what becomes of a resource's own settings, or why that is refused."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from broker.core.configuration.brokers import BROKER_SETTINGS, Scope
from broker.core.configuration.topics import TOPIC_SETTINGS
from broker.core.configuration.values import ImpossibleValue, Kind, ValueType, words_of
from broker.core.messages import ConfigOperation
from broker.core.messages.errors import ErrorCode
from broker.core.messages.refusals import shown


class Operation(IntEnum):
    """What IncrementalAlterConfigs may do to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Refused(Exception):
    """An alteration that is refused; the message says what was expected and found."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class Alterable(NamedTuple):
    """A setting that a resource may have, with its default."""

    type: ValueType
    default: str | None


def topic_setting(key: str) -> Alterable:
    """A setting of a topic. Raises `Refused`."""
    setting = TOPIC_SETTINGS.get(key)
    if setting is None:
        raise Refused(
            ErrorCode.INVALID_CONFIG, f"expected a setting of topics, found {shown(repr(key))}; Harrow has none such"
        )
    return Alterable(setting.type, setting.broker.default)


def broker_setting(key: str, *, of_all: bool) -> Alterable:
    """A setting that all brokers, or one, may get while they run. Raises `Refused`."""
    setting = BROKER_SETTINGS.get(key)
    if setting is None:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"expected a setting of brokers, found {shown(repr(key))}; Harrow has none such"
        )
    if setting.scope is Scope.READ_ONLY:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"expected a setting that can be altered while brokers run, found {key}, which is read-only: "
            "change it in the file, and start the broker again",
        )
    if setting.scope is Scope.CLUSTER and not of_all:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"expected a setting that brokers may have apart, found {key}: alter it for all brokers, "
            "as a resource without a name",
        )
    return Alterable(setting.type, setting.default)


def checked(key: str, value: str | None, alterable: Alterable, error: ErrorCode) -> str:
    """A new value as it is stored. Raises `Refused` with `error` if it is no legal one."""
    if value is None:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"expected a value of {shown(key)}, found null; to remove it, delete it"
        )
    try:
        return alterable.type.check(value)
    except ImpossibleValue as impossible:
        raise Refused(error, f"{key}: {impossible}") from None


def created(configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The settings with which a topic is created, as they are stored. Raises `Refused`."""
    found: dict[str, str] = {}
    for key, value in configs:
        if value is None:
            raise Refused(ErrorCode.INVALID_CONFIG, f"expected a value of {shown(key)}, found null; leave it out")
        found[key] = checked(key, value, topic_setting(key), ErrorCode.INVALID_CONFIG)
    return found


def refuse_repeated(keys: Iterable[str]) -> None:
    """Raise `Refused` if a request names a setting twice."""
    seen = set()
    for key in keys:
        if key in seen:
            raise Refused(ErrorCode.INVALID_REQUEST, f"expected each setting once, found {shown(key)} again")
        seen.add(key)


def altered(operation: ConfigOperation, alterable: Alterable, own: str | None, error: ErrorCode) -> str:
    """The value of one setting after any operation but DELETE, as it is stored.

    `own` is the resource's value before, None if it has the default. Raises `Refused`; `error` is for values that are
    not legal.
    """
    key, kind, value = operation
    match kind:
        case Operation.SET:
            return checked(key, value, alterable, error)
        case Operation.APPEND | Operation.SUBTRACT:
            if alterable.type.kind is not Kind.LIST:
                raise Refused(
                    ErrorCode.INVALID_CONFIG,
                    f"expected a list to change by single words, found {key}, which is none: set it",
                )
            if value is None:
                raise Refused(ErrorCode.INVALID_REQUEST, f"expected words for {key}, found null")
            before = words_of((alterable.default if own is None else own) or "")
            named = words_of(value)
            if kind == Operation.SUBTRACT:
                left = [word for word in before if word not in named]
            else:
                left = [*before, *(word for word in dict.fromkeys(named) if word not in before)]
            return checked(key, ",".join(left), alterable, error)
        case _:
            raise Refused(ErrorCode.INVALID_REQUEST, f"expected operation 0 to 3 on {shown(key)}, found {kind}")
