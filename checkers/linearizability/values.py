"""Makes the values of a history hashable, and states which of them are equal.

Values are equal as Python compares them: 1, 1.0 and True are one value, as are a list and a tuple of equal elements. A
reader of a format that tells these apart must tell them apart in the values that it gives. Two things differ from
Python: NaN equals itself, and a mapping equals only a mapping.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from checkers.linearizability.operations import MalformedOperation, Unknown

Value: TypeAlias = Any
"""Any value of a history."""

DEPTH_MAX: Final = 20

SCALARS: Final = frozenset({type(None), bool, int, str, Unknown})
"""The types whose values need no freezing."""


class NotANumber(Enum):
    """The floating-point value that Python holds different from itself."""

    NAN = "NaN"

    def __repr__(self) -> str:
        return "NaN"


NAN: Final = NotANumber.NAN


@dataclass(frozen=True)
class FrozenMapping:
    """A mapping as a hashable value."""

    items: frozenset[tuple[Hashable, Hashable]]

    def __repr__(self) -> str:
        return "{" + ", ".join(sorted(f"{name!r}: {item!r}" for name, item in self.items)) + "}"


def frozen(value: Value, depth: int = 0) -> Hashable:
    """Return a hashable value; those of equal values are equal (see the module), those of others are not.

    Raises `MalformedOperation` if there is none: the value cannot be hashed, or is nested too deep.
    """
    if depth > DEPTH_MAX:
        raise MalformedOperation(f"a value is nested deeper than {DEPTH_MAX} levels")
    if isinstance(value, float) and math.isnan(value):
        return NAN
    if isinstance(value, list | tuple):
        return tuple(frozen(item, depth + 1) for item in value)
    if isinstance(value, set | frozenset):
        return frozenset(frozen(item, depth + 1) for item in value)
    if isinstance(value, Mapping):
        return FrozenMapping(
            frozenset((frozen(name, depth + 1), frozen(item, depth + 1)) for name, item in value.items())
        )
    try:
        hash(value)
    except TypeError as error:
        raise MalformedOperation(f"a value of type {type(value).__name__} cannot be compared") from error
    hashable: Hashable = value
    return hashable


def quickly_frozen(value: Value) -> Hashable:
    """Return what `frozen` returns, at once for a pair of scalars and the like. Raises `MalformedOperation`."""
    is_frozen = type(value) is tuple and SCALARS.issuperset(map(type, value))
    found: Hashable = value if is_frozen else frozen(value)
    return found


def shown(value: object) -> str:
    """Return the text of a value: its `repr`, or its type where it has none, as an integer of over 4,300 digits has."""
    try:
        return repr(value)
    except ValueError:
        return f"(a value of type {type(value).__name__} too long to show)"
