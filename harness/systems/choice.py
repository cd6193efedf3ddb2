"""Which system a run is about: Harrow's own broker, or one that a definition file tells of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.environments.base import System
from harness.spec import OWN_SYSTEM, Spec, SpecError


def defaults(system: str) -> Mapping[str, Any]:
    """Settings of the specification that the system's definition gives; flags and files override them."""
    if system == OWN_SYSTEM:
        return {}
    from harness.systems.definition import load

    definition = load(Path(system))
    return {**({"controllers": 0} if definition.controller is None else {}), **definition.defaults}


def make(spec: Spec) -> System:
    """Make the system, and see that it can be run with this specification. Raises `SpecError`."""
    if spec.system != OWN_SYSTEM:
        from harness.systems import foreign
        from harness.systems.definition import load

        return foreign.make(spec, load(Path(spec.system)))
    from harness.systems.harrow_broker import HarrowBroker, check_rules

    check_rules(spec)
    if spec.controllers < 1:
        raise SpecError(f"controllers: expected at least 1 for Harrow's own broker, found {spec.controllers}")
    return HarrowBroker(spec)
