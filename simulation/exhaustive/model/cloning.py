"""Copies nodes (sharing what never changes), and computes the canonical form by which two nodes are equal.

Both walk over the core's data by type, so that a new field of the core is copied and compared without being named
here. Fields that are not compared are named: times, numbers of requests, and what follows from other fields.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

from broker.core.broker_node.node import BrokerNode
from broker.core.configuration.settings import Settings
from broker.core.controller.node import ControllerNode
from broker.core.log.log import Log
from simulation.engine.disk import SimulatedDisk

CoreNode = TypeVar("CoreNode", BrokerNode, ControllerNode)

_ATOMS = (int, str, bytes, bool, float, type(None), tuple, frozenset, Enum, Settings)

_NOT_COMPARED = {
    "BrokerState": {
        "settings",
        "file",
        "configured",
        "rules",
        "files",
        "runtime",
        "incarnation_id",
        "previous_broker_epoch",
        "coordinator",
        "fetching_from",
        "leader_sessions",
        "fetch_sessions",
    },
    "ControllerState": {
        "settings",
        "file",
        "rules",
        "runtime",
        "quorum",
        "last_contact_ms",
        "metadata_offsets",
        "settled",
        "losses",
    },
    "RemoteReplica": {"caught_up_ms", "last_fetch_ms", "leader_end_at_last_fetch"},
    "BrokerImage": {"listeners", "rack", "incarnation_id"},
}
"""Fields that do not affect what a node will do: times are abstracted away, the rest follows from other fields."""


class UnknownState(TypeError):
    """The core holds something that cannot be copied or compared; the message names its type."""


def copy_node(node: CoreNode, disk: SimulatedDisk) -> CoreNode:
    """An independent copy of a node, over `disk`, which must be a copy of its disk."""
    twin = type(node).__new__(type(node))
    twin.__dict__.update({name: _Copier(disk)(value) for name, value in vars(node).items()})
    return twin


class _Copier:
    """Copies one node's data; shared objects stay shared."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.done: dict[int, Any] = {}

    def __call__(self, value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, _ATOMS):
            return value
        kind = type(value)
        if kind is dict:
            return {key: self(item) for key, item in value.items()}
        if kind is list:
            return [self(item) for item in value]
        if kind is set:
            return set(value)
        known = self.done.get(id(value))
        if known is not None:
            return known
        twin = self._copy_object(kind, value)
        self.done[id(value)] = twin
        return twin

    def _copy_object(self, kind: type, value: Any) -> Any:  # noqa: ANN401
        if kind is SimulatedDisk:
            return self.disk
        if kind is Log:
            return value.copy(self.disk)
        names = _plan(kind)
        if names is None:
            return value
        twin: Any = object.__new__(kind)
        for name in names:
            object.__setattr__(twin, name, self(getattr(value, name)))
        return twin


_PLANS: dict[type, tuple[str, ...] | None] = {}


def _plan(kind: type) -> tuple[str, ...] | None:
    """Names of the fields to copy; None for what can be shared: frozen data, and rules, which have no state."""
    if kind not in _PLANS:
        if is_dataclass(kind):
            frozen = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
            _PLANS[kind] = None if frozen else tuple(field.name for field in fields(kind))
        elif any(base.__module__.startswith("broker.core.rules") for base in kind.__mro__):
            _PLANS[kind] = None
        else:
            raise UnknownState(f"expected data of the core, found {kind.__qualname__}: say how it is copied")
    return _PLANS[kind]


# --- canonical form --------------------------------------------------------------------------------------------------


def canonical(value: Any) -> Hashable:  # noqa: ANN401
    """A value that is equal for two objects exactly if they will behave alike."""
    kind = type(value)
    handler = _CANONICAL.get(kind)
    if handler is None:
        handler = _CANONICAL[kind] = _handler(kind)
    return handler(value)


def _same(value: Hashable) -> Hashable:
    return value


def _of_sequence(value: Any) -> Hashable:  # noqa: ANN401
    return tuple([canonical(item) for item in value])


def _of_mapping(value: Any) -> Hashable:  # noqa: ANN401
    return tuple(sorted([(key, canonical(item)) for key, item in value.items()], key=_first))


def _first(item: tuple[Any, Hashable]) -> Any:  # noqa: ANN401
    return item[0]


def _of_log(log: Log) -> Hashable:
    """The bytes are on the disk, which is compared too."""
    return log.start_offset, log.end_offset, log.flushed_offset, log.epochs.entries, canonical(log.producers.states)


def _of_disk(disk: SimulatedDisk) -> Hashable:
    return tuple(
        [(name, bytes(file.data), file.durable) for name, file in sorted(disk.files.items())],
    )


def _handler(kind: type) -> Callable[[Any], Hashable]:
    if issubclass(kind, Enum) or kind in (int, str, bytes, bool, type(None), float):
        return _same
    name_of_kind = kind.__name__
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        omitted = _NOT_COMPARED.get(name_of_kind, set())
        indexes = [index for index, name in enumerate(kind._fields) if name not in omitted]
        return lambda value: tuple([canonical(value[index]) for index in indexes])
    if issubclass(kind, tuple | list):
        return _of_sequence
    if issubclass(kind, dict):
        return _of_mapping
    if issubclass(kind, frozenset | set):
        return lambda value: tuple(sorted(value))
    if is_dataclass(kind):
        omitted = _NOT_COMPARED.get(name_of_kind, set())
        kept = [field.name for field in fields(kind) if field.name not in omitted]
        return lambda value: tuple([canonical(getattr(value, name)) for name in kept])
    raise UnknownState(f"expected data of the core, found {kind.__qualname__}: say how it is compared")


_CANONICAL: dict[type, Callable[[Any], Hashable]] = {
    Log: _of_log,
    SimulatedDisk: _of_disk,
}
