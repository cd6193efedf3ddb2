"""Seeing one fault through on real nodes, as the conductor does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from harness.environments.machine.environment import MachineEnvironment
from nemesis.clock import RealClock, becomes_true
from nemesis.cluster import Link
from nemesis.faults import KINDS
from nemesis.faults.base import Bounds, Injection, Restless, Site

BOUNDS = Bounds(hold_s=5.0, heal_s=20.0, stop_s=10.0)


@dataclass
class Fired:
    """A fault that has taken hold, and, after the `with`, healed."""

    injection: Injection
    evidence: str
    healing: str = ""

    def keep(self) -> None:
        assert isinstance(self.injection, Restless)
        self.injection.keep()


def real_site(environment: MachineEnvironment) -> Site:
    return Site.of(environment.cluster, RealClock(time.monotonic_ns), BOUNDS)


@contextmanager
def fire(
    site: Site, kind: str, targets: tuple[int, ...], parameters: Mapping[str, str] | None = None
) -> Iterator[Fired]:
    """Inject a fault; at the end of the `with` undo it and see that it heals."""
    injection = KINDS[kind].aim(site, targets, parameters or {})
    try:
        fault = Fired(injection, injection.inject())
        yield fault
    finally:
        injection.undo()
    told = []

    def healed() -> bool:
        told.append(injection.look())
        return told[-1].healed

    assert becomes_true(site.clock, healed, site.bounds.heal_s), told[-1]
    fault.healing = told[-1].told


def all_links(environment: MachineEnvironment) -> frozenset[Link]:
    endpoints = environment.cluster.network.endpoints
    return frozenset((a, b) for a in endpoints for b in endpoints if a != b)
