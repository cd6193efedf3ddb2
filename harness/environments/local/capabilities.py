"""What the environment `local` can do to a cluster, by which mechanisms, and which of them a run needs."""

from __future__ import annotations

from typing import cast

from harness.environments.base import Mechanisms
from harness.environments.machine import mechanisms as families
from harness.environments.machine.feature_probes import try_clock, try_ext4, try_fuse, try_namespaces, try_shaping
from harness.environments.machine.mechanisms import ALWAYS, CLOCKS, DISKS, Family
from harness.environments.machine.selection import NetworkChoice, choose_network
from nemesis.capabilities.cluster import Capability

NETWORKS: Family = {
    "namespaces": frozenset({"network", "network-shaping"}),
    "proxies": frozenset({"network"}),
}


def sure_of(needs: frozenset[Capability]) -> bool:
    """See `harness.environments.base.Offers.sure_of`: proxies and the ledger need nothing."""
    return needs <= ALWAYS | {"network", "page-cache-loss"}


def choose(network: str, page_cache: str, needs: frozenset[Capability]) -> Mechanisms:
    """See `harness.environments.base.Offers.choose`."""
    engine = choose_network(cast("NetworkChoice", network))
    return Mechanisms(engine, families.choose_disk(page_cache, needs))


def offered(mechanisms: Mechanisms) -> frozenset[Capability]:
    """What these mechanisms can do on this machine."""
    capabilities = ALWAYS | NETWORKS[mechanisms.network] | DISKS[mechanisms.page_cache]
    if "network-shaping" in capabilities and not try_shaping().available:
        capabilities -= {"network-shaping"}
    if try_clock().available:
        capabilities |= CLOCKS["C compiler"]
    return capabilities


def ways(needs: frozenset[Capability]) -> tuple[tuple[str, ...], ...]:
    """See `harness.environments.base.Offers.ways`."""
    return families.ways(needs, ALWAYS, (NETWORKS, DISKS, CLOCKS))


def lacking(needs: frozenset[Capability]) -> str | None:
    """See `harness.environments.base.Offers.lacking`."""
    trials = {
        "namespaces": try_shaping if "network-shaping" in needs else try_namespaces,
        "ext4": try_ext4,
        "fuse": try_fuse,
        "C compiler": try_clock,
    }
    return families.lacking(ways(needs), trials)
