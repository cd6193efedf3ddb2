"""Validates decoded requests: the one place where a null is refused, and an array that is too long.

kafka-python's codec accepts a null for any string. The core relies on its annotations, so they are the schema here: a
field that is not `| None` must not be null, in every version of every API, from any sender. No request that is meant
well has more than `ELEMENTS_MAX` elements in an array; to serve one that has would take seconds.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, Union

from broker.shell.codec.wire import ELEMENTS_MAX, DecodeError

Check = Callable[[Any], bool]
"""Whether a value has a type."""


def check_request(request: tuple[Any, ...]) -> None:
    """Raise `DecodeError` unless every field of a request has its annotated type."""
    if not _check_of(type(request))(request):
        raise DecodeError(f"expected {_mismatch(type(request), request, type(request).__name__)}")


@cache
def _check_of(kind: Any) -> Check:  # noqa: ANN401
    """The check of one type: of a class, an optional, an array, a pair and the like, or a message."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _any_of([_check_of(option) for option in arguments])
    if origin is tuple and arguments[-1] is Ellipsis:
        element = _check_of(arguments[0])
        return lambda value: isinstance(value, tuple) and len(value) <= ELEMENTS_MAX and all(map(element, value))
    if origin is tuple:
        return _each_of(tuple, [_check_of(argument) for argument in arguments])
    if _is_message(kind):
        hints = typing.get_type_hints(kind)
        return _each_of(kind, [_check_of(hints[name]) for name in kind._fields])
    if isinstance(kind, type):
        return lambda value: isinstance(value, kind)
    raise TypeError(f"expected the type of a message's field, found {kind!r}")


def _is_message(kind: Any) -> bool:  # noqa: ANN401
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _any_of(checks: list[Check]) -> Check:
    def check(value: Any) -> bool:  # noqa: ANN401
        for one in checks:  # noqa: SIM110 - a generator takes half as long again, and this is done for every request
            if one(value):
                return True
        return False

    return check


def _each_of(kind: type, checks: list[Check]) -> Check:
    def check(value: Any) -> bool:  # noqa: ANN401
        if not isinstance(value, kind) or len(value) != len(checks):  # type: ignore[arg-type]
            return False
        for one, item in zip(checks, value, strict=True):  # type: ignore[call-overload] # noqa: SIM110
            if not one(item):
                return False
        return True

    return check


def _mismatch(kind: Any, value: Any, path: str) -> str:  # noqa: ANN401
    """The innermost difference, in words."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    parts: list[tuple[Any, Any, str]] = []
    if _is_message(kind) and isinstance(value, kind):
        hints = typing.get_type_hints(kind)
        parts = [(hints[name], item, f"{path}.{name}") for name, item in zip(kind._fields, value, strict=True)]
    elif origin is tuple and isinstance(value, tuple) and arguments[-1] is Ellipsis:
        parts = [(arguments[0], item, path) for item in value]
    elif origin is tuple and isinstance(value, tuple) and len(value) == len(arguments):
        parts = [(one, item, path) for one, item in zip(arguments, value, strict=True)]
    elif origin in (Union, types.UnionType) and value is not None:
        parts = [(one, value, path) for one in arguments if one is not type(None)]
    if isinstance(value, tuple) and len(value) > ELEMENTS_MAX:
        return f"at most {ELEMENTS_MAX} elements as {path}, found {len(value)}"
    for one, item, where in parts:
        if not _check_of(one)(item):
            return _mismatch(one, item, where)
    wanted = kind.__name__ if isinstance(kind, type) and origin is None else str(kind)
    return f"{wanted} as {path}, found {'null' if value is None else type(value).__name__}"
