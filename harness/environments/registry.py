"""The environments by name: what they can do to a cluster, and how they are made."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from harness.environments.base import Environment, EnvironmentFailed, System
from harness.journal import Journal
from harness.spec import Spec, SpecError
from nemesis.cluster import Capability
from nemesis.faults.base import Kind

if TYPE_CHECKING:
    from harness.environments.local.choice import NetworkChoice, PageCacheChoice

CAPABILITIES: dict[str, frozenset[Capability]] = {
    "local": frozenset({"process", "starvation", "network", "page-cache-loss"}),
}


def check(spec: Spec, kinds: Iterable[Kind]) -> None:
    """See that the environment can inject these faults by the mechanisms that were asked for.

    Nothing is started but, for mechanisms, a short trial. Raises `SpecError`.
    """
    offered = CAPABILITIES[spec.environment]
    for kind in kinds:
        if kind.needs - offered:
            raise SpecError(
                f"faults: {kind.name} needs {', '.join(sorted(kind.needs - offered))}, which the environment "
                f"{spec.environment} does not offer; leave it out of --faults or choose another --environment"
            )
    if (spec.network, spec.page_cache) != ("auto", "auto"):
        from harness.environments.local.choice import choose_network, choose_page_cache

        try:
            choose_network(cast("NetworkChoice", spec.network))
            choose_page_cache(cast("PageCacheChoice", spec.page_cache))
        except EnvironmentFailed as error:
            raise SpecError(str(error)) from error


def make(spec: Spec, directory: Path, system: System, journal: Journal) -> Environment:
    """Make the environment of a run; nothing is started. Raises `EnvironmentFailed`."""
    from harness.environments.local.environment import LocalEnvironment

    return LocalEnvironment(
        directory,
        system,
        spec.brokers,
        spec.controllers,
        network=cast("NetworkChoice", spec.network),
        page_cache=cast("PageCacheChoice", spec.page_cache),
        journal=journal,
    )
