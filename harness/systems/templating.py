"""Fills in the templates of a system definition (Jinja), and defines the names that they may use.

An undefined name is an error, never an empty text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jinja2
import jinja2.meta

from harness.environments.base import Address, Addresses, NodePlan
from harness.spec.spec import Spec
from nemesis.capabilities.cluster import CLIENTS, is_broker, is_controller

_ENVIRONMENT = jinja2.Environment(  # noqa: S701 - the output is not HTML
    undefined=jinja2.StrictUndefined, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True
)

CLIENT = "CLIENT"
CONTROLLER = "CONTROLLER"


class TemplateError(Exception):
    """A template cannot be filled in. The message has the reason."""


class Bound(str):
    """An address: prints as host:port, and has both."""

    __slots__ = ("host", "port")

    def __new__(cls, address: Address) -> Bound:
        """Create it from host and port."""
        made = super().__new__(cls, f"{address[0]}:{address[1]}")
        made.host, made.port = address
        return made

    host: str
    port: int


@dataclass(frozen=True)
class Peer:
    """A node as another one, or itself, reaches it."""

    id: int
    role: str
    reach: Mapping[str, Bound]  # listener → address


def fill(template: str, names: Mapping[str, Any]) -> str:
    """Fill a template in. Raises `TemplateError`."""
    try:
        return _ENVIRONMENT.from_string(template).render(names)
    except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise TemplateError(f"{error} in {_shortened(template)}") from error


def filled(command: Sequence[str], names: Mapping[str, Any]) -> tuple[str, ...]:
    """Fill a command's words in. Raises `TemplateError`."""
    return tuple(fill(word, names) for word in command)


def names_in(template: str) -> frozenset[str]:
    """The undeclared names in a template. Raises `TemplateError`."""
    try:
        return frozenset(jinja2.meta.find_undeclared_variables(_ENVIRONMENT.parse(template)))
    except jinja2.TemplateError as error:
        raise TemplateError(f"{error} in {_shortened(template)}") from error


def node_names(
    spec: Spec,
    plan: NodePlan,
    plans: Sequence[NodePlan],
    listeners: Mapping[str, Sequence[str]],
    addresses: Addresses,
    outer: Mapping[str, Any],
) -> Mapping[str, Any]:
    """All names for the templates of a node (docs/guide/systems.md). `listeners`: by role; `outer`: of its runtime."""
    own = listeners[plan.role]
    bind = {name: Bound(addresses.bind(plan.node_id, name)) for name in own}

    def peer(other: NodePlan) -> Peer:
        if other == plan:
            return Peer(plan.node_id, plan.role, bind)
        reached = {name: Bound(addresses.reach(plan.node_id, other.node_id, name)) for name in listeners[other.role]}
        return Peer(other.node_id, other.role, reached)

    advertised = {
        name: Bound(addresses.reach(CLIENTS, plan.node_id, name)) if name == CLIENT else bind[name] for name in own
    }
    return {
        **outer,
        "node": {"id": plan.node_id, "role": plan.role},
        "bind": bind,
        "advertised": advertised,
        "brokers": [peer(other) for other in plans if is_broker(other)],
        "controllers": [peer(other) for other in plans if is_controller(other)],
        "data": str(plan.data.absolute()),
        "directory": str(plan.own_directory),
        "settings": asdict(spec),
    }


def _shortened(template: str) -> str:
    line = " ".join(template.split())
    return repr(line if len(line) <= 60 else f"{line[:60]}…")
