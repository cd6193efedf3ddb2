"""Capabilities and mechanisms of the environment `docker`: those of `local`, if there is a Docker engine."""

from __future__ import annotations

from harness.environments.base import EnvironmentFailed, Mechanisms
from harness.environments.docker.probe import try_docker
from harness.environments.machine.feature_probes import try_clock, try_ext4, try_fuse, try_shaping
from harness.environments.machine.mechanisms import (
    ALWAYS,
    CLOCKS,
    DISKS,
    MechanismGroup,
    mechanisms_of_groups,
    select_disk,
    why_none_works,
)
from nemesis.capabilities.cluster import Capability

NETWORKS: MechanismGroup = {"namespaces": frozenset({"network", "network-shaping"})}


def sure_of(needs: frozenset[Capability]) -> bool:  # noqa: ARG001
    """See `harness.environments.base.Capabilities.sure_of`: without an engine it has none."""
    return False


def choose(network: str, page_cache: str, needs: frozenset[Capability]) -> Mechanisms:
    """See `harness.environments.base.Capabilities.choose`."""
    if not (engine := try_docker()).available:
        raise EnvironmentFailed(f"expected a Docker engine for the environment docker, found: {engine}", engine.cause)
    if network == "proxies":
        raise EnvironmentFailed("expected containers to have a real network, found --network proxies; leave it out")
    return Mechanisms("namespaces", select_disk(page_cache, needs))


def offered(mechanisms: Mechanisms) -> frozenset[Capability]:
    """The capabilities of these mechanisms on this machine."""
    capabilities = ALWAYS | NETWORKS[mechanisms.network] | DISKS[mechanisms.page_cache]
    if not try_shaping().available:
        capabilities -= {"network-shaping"}
    if try_clock().available:
        capabilities |= CLOCKS["C compiler"]
    return capabilities


def mechanisms_for(needs: frozenset[Capability]) -> tuple[tuple[str, ...], ...]:
    """See `harness.environments.base.Capabilities.mechanisms_for`."""
    return mechanisms_of_groups(needs, ALWAYS, (NETWORKS, DISKS, CLOCKS))


def lacking(needs: frozenset[Capability]) -> str | None:
    """See `harness.environments.base.Capabilities.lacking`."""
    if not (engine := try_docker()).available:
        return str(engine)
    probes = {
        "namespaces": try_shaping if "network-shaping" in needs else try_docker,
        "ext4": try_ext4,
        "fuse": try_fuse,
        "C compiler": try_clock,
    }
    return why_none_works(mechanisms_for(needs), probes)
