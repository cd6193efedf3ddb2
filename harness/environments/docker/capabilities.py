"""What the environment `docker` can do to a cluster: all that the environment `local` can, if there is an engine."""

from __future__ import annotations

from harness.environments.base import EnvironmentFailed, Mechanisms
from harness.environments.docker.probe import try_docker
from harness.environments.machine import mechanisms as families
from harness.environments.machine.feature_probes import try_clock, try_ext4, try_fuse, try_shaping
from harness.environments.machine.mechanisms import ALWAYS, CLOCKS, DISKS, Family
from nemesis.capabilities.cluster import Capability

NETWORKS: Family = {"namespaces": frozenset({"network", "network-shaping"})}


def sure_of(needs: frozenset[Capability]) -> bool:  # noqa: ARG001
    """See `harness.environments.base.Offers.sure_of`: without an engine there is nothing."""
    return False


def choose(network: str, page_cache: str, needs: frozenset[Capability]) -> Mechanisms:
    """See `harness.environments.base.Offers.choose`."""
    if not (engine := try_docker()).available:
        raise EnvironmentFailed(f"expected a Docker engine for the environment docker, found: {engine}", engine.cause)
    if network == "proxies":
        raise EnvironmentFailed("expected containers to have a real network, found --network proxies; leave it out")
    return Mechanisms("namespaces", families.choose_disk(page_cache, needs))


def offered(mechanisms: Mechanisms) -> frozenset[Capability]:
    """What these mechanisms can do on this machine."""
    capabilities = ALWAYS | NETWORKS[mechanisms.network] | DISKS[mechanisms.page_cache]
    if not try_shaping().available:
        capabilities -= {"network-shaping"}
    if try_clock().available:
        capabilities |= CLOCKS["C compiler"]
    return capabilities


def ways(needs: frozenset[Capability]) -> tuple[tuple[str, ...], ...]:
    """See `harness.environments.base.Offers.ways`."""
    return families.ways(needs, ALWAYS, (NETWORKS, DISKS, CLOCKS))


def lacking(needs: frozenset[Capability]) -> str | None:
    """See `harness.environments.base.Offers.lacking`."""
    if not (engine := try_docker()).available:
        return str(engine)
    trials = {
        "namespaces": try_shaping if "network-shaping" in needs else try_docker,
        "ext4": try_ext4,
        "fuse": try_fuse,
        "C compiler": try_clock,
    }
    return families.lacking(ways(needs), trials)
