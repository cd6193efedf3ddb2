"""Capabilities and mechanisms of the environment `local`: what faults can use on this machine, or why they cannot."""

from __future__ import annotations

from typing import cast

from harness.environments.base import Mechanisms
from harness.environments.machine.feature_probes import try_clock, try_ext4, try_fuse, try_namespaces, try_shaping
from harness.environments.machine.mechanisms import (
    ALWAYS,
    CLOCKS,
    DISKS,
    MechanismGroup,
    NetworkSelection,
    mechanisms_of_groups,
    select_disk,
    select_network,
    why_none_works,
)
from nemesis.capabilities.cluster import Capability

HERE: frozenset[Capability] = ALWAYS | {"upgrade"}
"""What nodes that are processes of this machine can suffer, whatever the mechanisms."""

NETWORKS: MechanismGroup = {
    "namespaces": frozenset({"network", "network-shaping"}),
    "proxies": frozenset({"network"}),
}


def sure_of(needs: frozenset[Capability]) -> bool:
    """See `harness.environments.base.Capabilities.sure_of`: proxies and the ledger need nothing."""
    return needs <= HERE | {"network", "page-cache-loss"}


def choose(network: str, page_cache: str, needs: frozenset[Capability]) -> Mechanisms:
    """See `harness.environments.base.Capabilities.choose`."""
    engine = select_network(cast("NetworkSelection", network))
    return Mechanisms(engine, select_disk(page_cache, needs))


def offered(mechanisms: Mechanisms) -> frozenset[Capability]:
    """The capabilities of these mechanisms on this machine."""
    capabilities = HERE | NETWORKS[mechanisms.network] | DISKS[mechanisms.page_cache]
    if "network-shaping" in capabilities and not try_shaping().available:
        capabilities -= {"network-shaping"}
    if try_clock().available:
        capabilities |= CLOCKS["C compiler"]
    return capabilities


def mechanisms_for(needs: frozenset[Capability]) -> tuple[tuple[str, ...], ...]:
    """See `harness.environments.base.Capabilities.mechanisms_for`."""
    return mechanisms_of_groups(needs, HERE, (NETWORKS, DISKS, CLOCKS))


def lacking(needs: frozenset[Capability]) -> str | None:
    """See `harness.environments.base.Capabilities.lacking`."""
    probes = {
        "namespaces": try_shaping if "network-shaping" in needs else try_namespaces,
        "ext4": try_ext4,
        "fuse": try_fuse,
        "C compiler": try_clock,
    }
    return why_none_works(mechanisms_for(needs), probes)
