"""One setting of a broker or controller: its name, type, default, and for whom it can be altered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from enum import Enum

from broker.core.configuration.settings import Settings
from broker.core.configuration.values import ValueType


class Scope(Enum):
    """For whom a setting can be altered while the nodes run."""

    READ_ONLY = "read-only"
    CLUSTER = "cluster"
    """For all nodes at once: the controller decides by it, or all nodes must agree."""

    BROKER = "broker"
    """For one broker, or for all."""


@dataclass(frozen=True)
class BrokerSetting:
    """One setting. `field` is its place in `Settings`, whose default is its default."""

    name: str
    type: ValueType
    documentation: str
    scope: Scope
    field: str

    @property
    def default(self) -> str | None:
        """The default as text; None if there is none."""
        value = _DEFAULTS.get(self.field)
        return None if value is None else self.type.text(value)


def broker_setting(
    name: str, kind: ValueType, documentation: str, scope: Scope = Scope.READ_ONLY, field: str = ""
) -> BrokerSetting:
    """A setting whose field is its name with underscores, if no other is given."""
    return BrokerSetting(name, kind, documentation, scope, field or name.replace(".", "_"))


def _defaults() -> Iterator[tuple[str, object]]:
    for field in fields(Settings):
        if field.default is not MISSING:
            yield field.name, field.default
        elif field.default_factory is not MISSING:
            yield field.name, field.default_factory()


_DEFAULTS = dict(_defaults())
