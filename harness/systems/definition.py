"""Reads a system definition: the TOML file that describes how to run a third-party broker (docs/guide/systems.md).

An error in a file is reported in one line, before anything is started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from harness.spec.spec import Spec
from harness.spec.toml_table import Table
from harness.systems.hooks import NO_HOOKS, Hooks, read_hooks
from harness.systems.inheritance import EXTENDS, lineage
from harness.systems.templating import CLIENT, CONTROLLER
from nemesis.capabilities.cluster import Capability
from nemesis.kinds import LISTED_KINDS

Command = tuple[str, ...]

_LEVEL_MAX = 32_767
"""A level is an INT16 in Kafka's protocol."""

_NOT_FOR_DEFAULTS = frozenset({"seed", "system", "flaws", "generation", "bootstrap"})


@dataclass(frozen=True)
class NodeKind:
    """How the nodes of one role are run. Texts are templates."""

    listeners: tuple[str, ...]
    start: Command | None = None  # None: only an image is known
    stop: Command | None = None  # None: SIGTERM
    once: tuple[Command, ...] = ()  # before the first start, and again if the data are gone
    prepare: tuple[Command, ...] = ()  # before every start
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # name in the node's directory → text
    ready: Literal["kafka", "port"] | Command = "kafka"
    logs: tuple[str, ...] = ()  # patterns in the node's directory

    @property
    def templates(self) -> Sequence[str]:
        """All templates except those of the stop command."""
        ready = () if isinstance(self.ready, str) else self.ready
        prepared = (word for command in (*self.once, *self.prepare) for word in command)
        return [*(self.start or ()), *prepared, *ready, *self.environment.values(), *self.files.values()]


@dataclass(frozen=True)
class Definition:
    """A system under test that is described by a file alone."""

    path: Path
    name: str
    broker: NodeKind
    controller: NodeKind | None = None  # None: it has no separate controllers
    combined: NodeKind | None = None  # of nodes that are broker and controller; None: it has none
    image: str | None = None
    install: str = ""  # advice for the user when a program is missing
    keeps: Literal["files", "memory"] = "files"
    brokers_max: int = 9
    stops_with: frozenset[int] = frozenset({0})  # exit statuses of a controlled shutdown
    start_within: int = 30  # seconds
    stop_within: int = 20  # seconds
    session_ms_min: int = 1  # the shortest session timeout that it accepts of a member of a group
    offsets_partitions: int | None = None  # of `__consumer_offsets`, if it stores groups as Kafka does; None: unknown
    parameters: Mapping[str, Any] = field(default_factory=dict)  # for the templates
    features: Mapping[str, int] = field(default_factory=dict)  # name → level that must be finalized (KIP-584)
    not_back_after: frozenset[str] = frozenset()  # kinds of fault after which a node need not come back
    values: Mapping[str, Command] = field(default_factory=dict)  # name → command that prints the value
    version: Command | None = None
    without: frozenset[Capability] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of the specification, by field name
    upgrades_first: Literal["brokers", "controllers"] = "brokers"  # the nodes that an upgrade restarts first
    hooks: Hooks = NO_HOOKS  # for a cluster that Harrow did not start
    starts: bool = True  # it says how a node is started; else it is for existing clusters only

    @property
    def kinds(self) -> Mapping[str, NodeKind]:
        """Node kinds by role."""
        further = {"controller": self.controller, "combined": self.combined}
        return {"broker": self.broker} | {role: kind for role, kind in further.items() if kind is not None}


def load(path: Path) -> Definition:
    """Read a definition, with those that it extends. Raises `SpecError`, for a wrong base with that file's name."""
    *_, own = [_definition(table, file) for file, table in lineage(path)]
    return own


def _definition(table: Table, path: Path) -> Definition:
    table.only(
        "name", "about", EXTENDS, "image", "install", "keeps", "brokers-max", "stops-with", "start-within",
        "stop-within", "session-ms-min", "offsets-partitions", "not-back-after", "upgrades-first", "version", "without",
        "parameters", "features", "values", "defaults", "broker", "controller", "combined", "hooks",
    )  # fmt: skip
    table.text("about", "")
    broker, controller, combined = (table.table(role) for role in ("broker", "controller", "combined"))
    if broker is None and controller is not None:
        raise table.wrong("broker", "a table, beside that of the controller", "none")
    if controller is None and combined is not None:
        raise table.wrong("controller", "a table, beside that of combined nodes", "none")
    image = table.text("image", "") or None
    values, parameters = table.table("values"), table.table("parameters")
    return Definition(
        path=path,
        name=table.text("name"),
        broker=NodeKind((CLIENT,)) if broker is None else _node_kind(broker, (CLIENT,), has_image=image is not None),
        controller=None if controller is None else _node_kind(controller, (CONTROLLER,), has_image=image is not None),
        combined=None if combined is None else _combined(combined, has_image=image is not None),
        image=image,
        install=table.text("install", ""),
        keeps="memory" if table.one_of("keeps", ("files", "memory")) == "memory" else "files",
        brokers_max=table.number("brokers-max", 9, 1, 9),
        stops_with=_stops_with(table),
        start_within=table.number("start-within", 30, 1, 3_600),
        stop_within=table.number("stop-within", 20, 1, 3_600),
        not_back_after=_faults(table),
        session_ms_min=table.number("session-ms-min", 1, 1, 3_600_000),
        offsets_partitions=table.number("offsets-partitions", 1, 1, 10_000)
        if "offsets-partitions" in table.raw
        else None,
        parameters={} if parameters is None else parameters.raw,
        features=_features(table.table("features")),
        values={} if values is None else {name: values.command(name) or () for name in values.raw},
        version=table.command("version"),
        without=_without(table),
        defaults=_defaults(table.table("defaults")),
        upgrades_first="controllers"
        if table.one_of("upgrades-first", ("brokers", "controllers")) == "controllers"
        else "brokers",
        hooks=read_hooks(table.table("hooks")),
        starts=broker is not None,
    )


def _node_kind(table: Table, usual: tuple[str, ...], *, has_image: bool) -> NodeKind:
    table.only("listeners", "start", "stop", "once", "prepare", "environment", "files", "ready", "logs")
    listeners = table.texts("listeners") or usual
    if listeners[0] != usual[0] or len(set(listeners)) != len(listeners):
        raise table.wrong("listeners", f"different names, {usual[0]} first", list(listeners))
    start = table.command("start")
    if start is None and not has_image:
        raise table.wrong("start", "the command that runs a node, or an image", "neither")
    return NodeKind(
        listeners=listeners,
        start=start,
        stop=table.command("stop"),
        once=table.commands("once"),
        prepare=table.commands("prepare"),
        environment=table.mapping("environment"),
        files=_files(table),
        ready=_ready(table),
        logs=_inside(table, "logs", table.texts("logs")),
    )


def _combined(table: Table, *, has_image: bool) -> NodeKind:
    kind = _node_kind(table, (CLIENT, CONTROLLER), has_image=has_image)
    if CONTROLLER not in kind.listeners:
        raise table.wrong(
            "listeners", f"{CONTROLLER} among the names, at which the quorum is asked", list(kind.listeners)
        )
    return kind


def _ready(table: Table) -> Literal["kafka", "port"] | Command:
    value = table.raw.get("ready", "kafka")
    if value == "kafka":
        return "kafka"
    if value == "port":
        return "port"
    if isinstance(value, list):
        return table.command("ready") or ()
    raise table.wrong("ready", "kafka, port or a command", repr(value))


def _files(table: Table) -> Mapping[str, str]:
    files = table.mapping("files")
    _inside(table, "files", tuple(files))
    return files


def _inside(table: Table, key: str, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise table.wrong(key, "names inside the node's directory", repr(name))
    return names


def _faults(table: Table) -> frozenset[str]:
    named = table.texts("not-back-after")
    table.require_known("not-back-after", named, LISTED_KINDS)
    return frozenset(named)


def _features(table: Table | None) -> Mapping[str, int]:
    return {} if table is None else {name: table.number(name, 0, 0, _LEVEL_MAX) for name in table.raw}


def _stops_with(table: Table) -> frozenset[int]:
    """The exit statuses of an orderly stop. One of 128 + N may be reported as -N: Docker cannot tell these apart."""
    listed = table.numbers("stops-with", (0,), 0, 255)
    return frozenset({*listed, *(128 - status for status in listed if status > 128)})


def _without(table: Table) -> frozenset[Capability]:
    known: tuple[Capability, ...] = get_args(Capability)
    named = table.texts("without")
    table.require_known("without", named, known)
    return frozenset(capability for capability in known if capability in named)


def _defaults(table: Table | None) -> Mapping[str, Any]:
    if table is None:
        return {}
    known = [each.name.replace("_", "-") for each in fields(Spec) if each.name not in _NOT_FOR_DEFAULTS]
    table.only(*known)
    return {key.replace("-", "_"): value for key, value in table.raw.items()}
