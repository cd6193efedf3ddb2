"""Creates the environment that a run's specification names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.environments.base import Environment, System
from harness.spec.designs import ON_ZOOKEEPER
from harness.spec.spec import EXISTING, OWN_SYSTEM, Spec
from harness.store.journal import Journal
from nemesis.capabilities.cluster import Capability

if TYPE_CHECKING:
    from harness.environments.docker.environment import Programs


def make(spec: Spec, needs: frozenset[Capability], directory: Path, system: System, journal: Journal) -> Environment:
    """Create the environment of a run whose faults have these needs; starts nothing. Raises `EnvironmentFailed`."""
    if spec.environment == EXISTING:
        from harness.environments.existing.environment import ExistingEnvironment
        from harness.systems.existing import ExistingCluster

        assert isinstance(system, ExistingCluster)
        return ExistingEnvironment(directory, system, journal)
    if spec.environment == "ssh":
        return _over_ssh(spec, needs, directory, system, journal)
    from harness.environments.docker.environment import DockerEnvironment
    from harness.environments.docker.host import Limits
    from harness.environments.local.environment import LocalEnvironment

    if spec.environment == "docker":
        from harness.systems.foreign import BrokerFromImage
        from harness.systems.upgrade import UpgradableFromImages

        return DockerEnvironment(
            directory,
            system,
            spec.brokers,
            spec.controllers,
            network=spec.network,
            page_cache=spec.page_cache,
            image_name=spec.image,
            limits=Limits(spec.node_memory, spec.node_cpus),
            programs=_programs(spec),
            contents=system if isinstance(system, BrokerFromImage | UpgradableFromImages) else None,
            needs=needs,
            journal=journal,
            combined=spec.combined,
        )
    return LocalEnvironment(
        directory,
        system,
        spec.brokers,
        spec.controllers,
        network=spec.network,
        page_cache=spec.page_cache,
        needs=needs,
        journal=journal,
        combined=spec.combined,
    )


def _programs(spec: Spec) -> Programs:
    """The image made of this machine's Python has neither Java nor an ensemble's member."""
    return "image" if spec.system == OWN_SYSTEM and spec.generation not in ON_ZOOKEEPER else "machine"


def _over_ssh(
    spec: Spec, needs: frozenset[Capability], directory: Path, system: System, journal: Journal
) -> Environment:
    from harness.environments.ssh import selection
    from harness.environments.ssh.environment import SshEnvironment

    return SshEnvironment(
        directory,
        system,
        spec.brokers,
        spec.controllers,
        selection.fleet_of(spec),
        selection.capabilities_of(spec),
        page_cache=spec.page_cache,
        needs=needs,
        journal=journal,
        combined=spec.combined,
    )
