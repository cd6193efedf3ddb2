"""Fires one fault on real nodes and verifies that it takes effect and heals, as the nemesis runner does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from harness.environments.common.environment import ClusterEnvironment
from nemesis.capabilities.cluster import Link
from nemesis.faults import KINDS
from nemesis.faults.base import Bounds, Injection, NemesisClock, Recurring, Site, becomes_true

EnvironmentT = TypeVar("EnvironmentT", bound=ClusterEnvironment[Any, Any])

BOUNDS = Bounds(hold_s=5.0, heal_s=20.0, stop_s=10.0)


@dataclass
class Fired:
    """A fault that has taken effect, and, after the `with`, healed."""

    injection: Injection
    evidence: str
    healing: str = ""

    def tick(self) -> None:
        assert isinstance(self.injection, Recurring)
        self.injection.tick()


@contextmanager
def running_cluster(environment: EnvironmentT, ready_s: float) -> Iterator[EnvironmentT]:
    """A cluster that serves; taken down at the end."""
    try:
        environment.set_up()
        environment.await_ready(ready_s)
        yield environment
    finally:
        environment.tear_down()


def real_site(environment: ClusterEnvironment[Any, Any], bounds: Bounds = BOUNDS) -> Site:
    return Site.of(environment.cluster, NemesisClock(time.monotonic_ns), bounds)


@contextmanager
def fresh_site(environment: ClusterEnvironment[Any, Any], ready_s: float) -> Iterator[Site]:
    """Nodes that serve, with empty disks, and at the end links that no fault cuts.

    `ready_s`: within which a node serves that was started, by this or by the end of a fault.
    """
    for node in environment.cluster.nodes.values():
        if node.disk.files():
            node.kill()
            node.disk.wipe()
        if not node.is_alive():
            node.start()
            node.await_ready(ready_s)
    site = real_site(environment, replace(BOUNDS, heal_s=max(BOUNDS.heal_s, ready_s)))
    yield site
    site.links.clear()


@contextmanager
def fire(
    site: Site, kind: str, targets: tuple[int, ...], parameters: Mapping[str, str] | None = None
) -> Iterator[Fired]:
    """Inject a fault; at the end of the `with` undo it and check that it heals."""
    injection = KINDS[kind].aim(site, targets, parameters or {})
    try:
        fault = Fired(injection, injection.inject())
        yield fault
    finally:
        injection.undo()
    checks = []

    def healed() -> bool:
        checks.append(injection.check_healed())
        return checks[-1].healed

    assert becomes_true(site.clock, healed, site.bounds.heal_s), checks[-1]
    fault.healing = checks[-1].evidence


def all_links(environment: ClusterEnvironment[Any, Any]) -> frozenset[Link]:
    endpoints = environment.cluster.network.endpoints
    return frozenset((a, b) for a in endpoints for b in endpoints if a != b)
