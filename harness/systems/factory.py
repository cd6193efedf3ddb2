"""Makes the system under test, after checking that it can run: Harrow's own broker, or one from a definition file."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from common.names import SpecError, unknown
from harness.environments.base import NodePlan, System
from harness.environments.common.layout import roles
from harness.environments.existing.discovery import discover
from harness.shipped import SYSTEMS
from harness.spec.designs import ON_ZOOKEEPER
from harness.spec.spec import OF_CONTAINERS, OWN_SYSTEM, Spec
from harness.systems.definition import Definition, load
from harness.systems.existing import ExistingCluster
from harness.systems.foreign import BrokerFromImage, ForeignBroker, sidecar_config
from harness.systems.runtime import MissingError, image_of, runtimes_of
from harness.systems.templating import TemplateError, fill, filled, node_names
from harness.systems.upgrade import UpgradableFromImages, UpgradableSystem
from nemesis.faults import KINDS

EXISTING_CLUSTER = "existing-cluster"
"""The shipped definition of a cluster of which nothing is known."""


def with_defaults(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the defaults of the system's definition to the given fields of a specification."""
    bootstrap = given.get("bootstrap")
    system = given.get("system", EXISTING_CLUSTER if bootstrap else OWN_SYSTEM)
    if system == OWN_SYSTEM or not isinstance(system, str):
        return given
    system = SYSTEMS.name_of(system) or str(_file(system).absolute())
    definition = load(SYSTEMS.find(system))
    made = {**({"controllers": 0} if definition.controller is None else {}), **definition.defaults, **given}
    made["system"] = system
    if isinstance(to := made.get("upgrade_to"), str) and to:
        made["upgrade_to"] = SYSTEMS.name_of(to) or str(_file(to, "upgrade-to").absolute())
    if isinstance(default := definition.defaults.get("client_config"), str) and "client_config" not in given:
        made["client_config"] = str(definition.path.absolute().parent / default)
    if isinstance(bootstrap, str) and bootstrap:
        made = {**_of_existing(definition, bootstrap, made.get("client_config", ""), given), **made}
    if made.get("environment") != "docker":  # settings of containers do not apply to other environments
        preset = OF_CONTAINERS & (definition.defaults.keys() - given.keys())
        return {key: value for key, value in made.items() if key not in preset}
    return made


def _of_existing(
    definition: Definition, bootstrap: str, client_config: str, given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The size of a cluster that runs already, and the faults for which there are hooks."""
    brokers = given.get("brokers") or len(discover(bootstrap, None, client_config).brokers)
    replication_factor = given.get("replication_factor") or min(Spec.replication_factor, brokers)
    return {
        "brokers": brokers,
        "replication_factor": replication_factor,
        "min_insync_replicas": min(Spec.min_insync_replicas, replication_factor),
        "faults": tuple(kind for kind in KINDS if kind in definition.hooks.faults),
    }


def _file(system: str, field: str = "system") -> Path:
    try:
        return SYSTEMS.find(system)
    except SpecError as error:
        raise SpecError(f"{field}: {error}") from error


def make_system(spec: Spec) -> System:
    """Create the system, with two versions for `upgrade_to`, and check that it can run with this specification.

    Raises `SpecError`; `EnvironmentFailed` when the image or the hosts of a third-party broker cannot be examined, or
    lack it.
    """
    first = _one_version(spec)
    if not spec.upgrade_to:
        return first
    try:
        second = _one_version(_upgraded(spec))
    except MissingError as error:
        raise SpecError(f"upgrade-to: {error}") from error
    if second.version_name == first.version_name:
        raise SpecError(
            f"upgrade-to: expected another version than {first.version_name}, found the same; name the system in "
            f"{spec.upgrade_to} differently"
        )
    if isinstance(first, BrokerFromImage) and isinstance(second, BrokerFromImage):
        return UpgradableFromImages(first, second)
    for having, lacking in ((first, second), (second, first)):
        if isinstance(having, BrokerFromImage):
            raise SpecError(
                f"upgrade-to: expected an image of both versions or of none, found {having.image} of {having.name} and "
                f"none of {lacking.name}"
            )
    return UpgradableSystem(first, second)


def _upgraded(spec: Spec) -> Spec:
    """The specification of a cluster of the version to upgrade to. Raises `SpecError`."""
    if spec.system == OWN_SYSTEM:
        from broker.core.rules.generations import GENERATIONS

        order = tuple(GENERATIONS)
        if spec.generation in ON_ZOOKEEPER:
            raise SpecError(f"upgrade-to: expected none from {spec.generation}, whose files no other version reads")
        if spec.upgrade_to not in order:
            raise SpecError(f"upgrade-to: {unknown(spec.upgrade_to, order, 'a protocol version')}")
        if spec.generation in order and order.index(spec.upgrade_to) <= order.index(spec.generation):
            raise SpecError(
                f"upgrade-to: expected a later protocol version than {spec.generation}, found {spec.upgrade_to}"
            )
        return replace(spec, generation=spec.upgrade_to, upgrade_to="", faults=())
    try:
        first, second = load(_file(spec.system)), load(SYSTEMS.find(spec.upgrade_to))
    except SpecError as error:
        raise SpecError(f"upgrade-to: {error}") from error
    for role, kind in first.kinds.items():
        if role not in second.kinds or second.kinds[role].listeners != kind.listeners:
            raise SpecError(
                f"upgrade-to: expected a {role} of {second.path} to have the listeners of {first.path}, "
                f"{', '.join(kind.listeners)}, found "
                f"{', '.join(second.kinds[role].listeners) if role in second.kinds else 'no such nodes'}"
            )
    # An image that was asked for is that of the first version.
    return replace(spec, system=str(second.path.absolute()), upgrade_to="", faults=(), image="")


def _one_version(spec: Spec) -> System:
    if spec.bootstrap:
        return _existing(spec)
    if spec.system != OWN_SYSTEM:
        return _from_definition(spec, load(_file(spec.system)))
    from simulation.scenario.overrides import check_any_names

    check_any_names(spec.generation, spec.flaws)
    if spec.controllers < 1:
        raise SpecError(f"controllers: expected at least 1 for Harrow's own broker, found {spec.controllers}")
    if spec.generation in ON_ZOOKEEPER:
        from harness.systems.own.on_zookeeper import HarrowOnZooKeeper

        return HarrowOnZooKeeper(spec)
    from harness.systems.own.harrow_broker import HarrowBroker

    return HarrowBroker(spec)


def _existing(spec: Spec) -> ExistingCluster:
    """The cluster at the addresses of `--bootstrap`. Raises `SpecError`, `EnvironmentFailed`."""
    if spec.system == OWN_SYSTEM:
        raise SpecError(
            f"system: expected a definition with --bootstrap, found Harrow's own broker; use {EXISTING_CLUSTER}"
        )
    definition = load(_file(spec.system))
    found = discover(spec.bootstrap, spec.brokers, spec.client_config)
    return ExistingCluster.of(spec, definition, found, f"harrow-{secrets.token_hex(4)}")


def _from_definition(spec: Spec, definition: Definition) -> ForeignBroker:
    """Create the system of a run, and check all its programs and templates.

    Raises `SpecError`, and `EnvironmentFailed` when an image or a host is missing or lacks the broker.
    """
    _check_definition(spec, definition)
    runtimes = runtimes_of(spec, definition)
    if image := image_of(spec, definition):
        system: ForeignBroker = BrokerFromImage(spec, definition, runtimes, image=image)
    else:
        system = ForeignBroker(spec, definition, runtimes)
    _try_templates(system)
    return system


def _check_definition(spec: Spec, definition: Definition) -> None:
    where = definition.path
    if not definition.starts:
        raise SpecError(
            f"{where}: broker: expected a table, found none: it says how a node is started; without it the definition "
            "is for clusters that run already, which --bootstrap names"
        )
    if not image_of(spec, definition) and any(kind.start is None for kind in definition.kinds.values()):
        raise SpecError(
            f"{where}: expected a start command for the environment {spec.environment}, which runs programs, found "
            f"only the image {definition.image}; add --environment docker"
        )
    if spec.brokers > definition.brokers_max:
        raise SpecError(
            f"brokers: expected at most {definition.brokers_max} for {definition.name}, found {spec.brokers}"
        )
    if spec.combined and definition.combined is None:
        raise SpecError(
            f"combined: expected a definition that says how to run combined nodes, found that {where} has no table "
            "[combined]; leave --combined out"
        )
    if (spec.controllers > 0) != (definition.controller is not None):
        expected = "at least 1" if definition.controller is not None else "0, for it has none"
        raise SpecError(f"controllers: expected {expected} for {definition.name}, found {spec.controllers}")
    if spec.flaws or spec.generation != Spec(seed=0).generation:
        raise SpecError(f"flaw, generation: expected none with --system {where}: they are of Harrow's own broker")


class _Anywhere:
    """Addresses of a hypothetical cluster."""

    def bind(self, node_id: int, listener: str) -> tuple[str, int]:  # noqa: ARG002
        return f"node-{node_id}", 9092

    def reach(self, source: int, node_id: int, listener: str) -> tuple[str, int]:  # noqa: ARG002
        return self.bind(node_id, listener)


def _try_templates(system: ForeignBroker) -> None:
    """Fill in all templates for a hypothetical cluster of this shape. Raises `SpecError`."""
    definition, spec = system.definition, system.spec
    nowhere = Path("/nowhere")
    plans = [
        NodePlan(node, role, nowhere, nowhere / "data", nowhere / "socket", "files")
        for node, role in roles(spec.brokers, spec.controllers, combined=spec.combined).items()
    ]
    listeners = {role: each.listeners for role, each in definition.kinds.items()}
    for plan in plans:
        kind, runtime = definition.kinds[plan.role], system.runtimes[plan.node_id]
        names = node_names(spec, plan, plans, listeners, _Anywhere(), runtime.names)
        try:
            config = sidecar_config(kind, runtime, plan, plans, _Anywhere(), names)
            for text in kind.files.values():
                fill(text, names)
            filled(kind.stop or (), {**names, "pid": 1})
        except TemplateError as error:
            raise SpecError(f"{definition.path}: expected a template that can be filled in, found: {error}") from error
        if not config.command:
            raise SpecError(f"{definition.path}: expected a start command{runtime.where} or for it, found none")
        for program in {config.command[0], *(command[0] for command in (*config.once, *config.prepare))}:
            if not runtime.where and shutil.which(program) is None:
                raise runtime.wrong(definition, f"expected the program {program!r}", "none of that name")
