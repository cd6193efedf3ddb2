"""Defines what every format is read into: events in the order of the file, and malformed rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple, TypeAlias

DEPTH_MAX = 100
"""Deeper nesting than this is no history."""
TYPES = frozenset({"invoke", "ok", "fail", "info"})


Value: TypeAlias = Any
"""Any value of EDN or JSON."""


class Event(NamedTuple):
    """One event of a history: a process begins an operation, or learns its outcome."""

    position: int
    """Number of the event in its file, from 0."""
    process: Hashable
    type: str
    """invoke, ok, fail (it certainly did not happen) or info (unknown)."""
    f: str
    value: Value
    key: Hashable = None
    """Of a key-value history: the object that the operation is on."""
    time: int | None = None
    """Nanoseconds, if the history has them; the order of the file decides what came first."""
    rebalanced: frozenset[Hashable] = frozenset()
    """Partitions that the operation's consumer was given or lost meanwhile."""


class Malformed(NamedTuple):
    """A malformed row of a file: its `line` (from 1) and what is wrong with it."""

    line: int
    problem: str


class Aside(NamedTuple):
    """An event of a process that is no client, such as a nemesis."""

    process: str
    what: str


Rows = Iterator[Event | Malformed | Aside]


class Keyword(str):
    """A keyword or symbol of EDN. It equals the string of its name, so that `:ok` of EDN is "ok" of JSON."""

    __slots__ = ()


def frozen(value: Value, depth: int = 0) -> Hashable:
    """Make a value of EDN or JSON hashable; equal values stay equal, and true is not 1.

    Raises `ValueError` for what is nested too deep.
    """
    if depth > DEPTH_MAX:
        raise ValueError(f"nested deeper than {DEPTH_MAX} levels")
    depth += 1
    if value is None or isinstance(value, str | bytes):
        return value
    if isinstance(value, bool | float):
        return (type(value).__name__, repr(value))
    if isinstance(value, int):
        return value
    if isinstance(value, dict):
        return ("map", frozenset((frozen(key, depth), frozen(each, depth)) for key, each in value.items()))
    if isinstance(value, set | frozenset):
        return ("set", frozenset(frozen(each, depth) for each in value))
    if isinstance(value, list | tuple):
        return tuple(frozen(each, depth) for each in value)
    return (type(value).__name__, repr(value))


def event_of(form: object, position: int, line: int) -> Event | Malformed | Aside:
    """Make an event of an operation map, as EDN and JSON lines have it."""
    if not isinstance(form, dict):
        return Malformed(line, "expected an operation, a map")
    kind, f = form.get("type"), form.get("f")
    if not isinstance(kind, str) or kind not in TYPES:
        return Malformed(line, "expected a :type among invoke, ok, fail and info")
    if not isinstance(f, str):
        return Malformed(line, "expected an :f, the name of what was done")
    process = form.get("process")
    if process is None:
        return Malformed(line, "expected a :process")
    if isinstance(process, bool) or not isinstance(process, int):
        return Aside(str(process), str(f))
    time = form.get("time")
    try:
        key, rebalanced = frozen(form.get("key")), _rebalanced(form)
    except ValueError as error:
        return Malformed(line, str(error))
    time_known = isinstance(time, int) and not isinstance(time, bool)
    return Event(position, process, str(kind), str(f), form.get("value"), key, time if time_known else None, rebalanced)


def _rebalanced(form: dict[Any, Any]) -> frozenset[Hashable]:
    log = form.get("rebalance-log") or form.get("rebalance_log")
    if not isinstance(log, list | tuple):
        return frozenset()
    keys: set[Hashable] = set()
    for entry in log:
        named = entry.get("keys") if isinstance(entry, dict) else None
        if isinstance(named, list | tuple | set | frozenset):
            keys.update(frozen(key) for key in named)
    return frozenset(keys)
