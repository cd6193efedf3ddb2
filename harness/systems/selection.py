"""Selects the system under test: Harrow's own broker, or one from a definition file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.environments.base import System
from harness.shipped import SYSTEMS
from harness.spec.spec import OF_CONTAINERS, OWN_SYSTEM, Spec
from naming import SpecError


def with_defaults(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the defaults of the system's definition to the given fields of a specification."""
    system = given.get("system", OWN_SYSTEM)
    if system == OWN_SYSTEM or not isinstance(system, str):
        return given
    from harness.systems.definition import load

    system = SYSTEMS.name_of(system) or str(_file(system).absolute())
    definition = load(SYSTEMS.find(system))
    made = {**({"controllers": 0} if definition.controller is None else {}), **definition.defaults, **given}
    made["system"] = system
    if made.get("environment") != "docker":  # settings of containers do not apply to other environments
        preset = OF_CONTAINERS & (definition.defaults.keys() - given.keys())
        return {key: value for key, value in made.items() if key not in preset}
    return made


def _file(system: str) -> Path:
    try:
        return SYSTEMS.find(system)
    except SpecError as error:
        raise SpecError(f"system: {error}") from error


def make(spec: Spec) -> System:
    """Create the system, and check that it can run with this specification.

    Raises `SpecError`; and `EnvironmentFailed` when the image or the hosts of a third-party broker cannot be examined,
    or lack it.
    """
    if spec.system != OWN_SYSTEM:
        from harness.systems import factory
        from harness.systems.definition import load

        return factory.make(spec, load(_file(spec.system)))
    from harness.systems.harrow_broker import HarrowBroker
    from simulation.scenario.overrides import check_names

    check_names(spec.generation, spec.flaws)
    if spec.controllers < 1:
        raise SpecError(f"controllers: expected at least 1 for Harrow's own broker, found {spec.controllers}")
    return HarrowBroker(spec)
