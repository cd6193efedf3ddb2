"""What the environment `ssh` can do to a cluster: by what all its machines have, and by whose they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from harness.environments.base import EnvironmentFailed, Mechanisms
from harness.environments.machine import mechanisms as families
from harness.environments.machine.feature_probes import try_clock
from harness.environments.machine.mechanisms import ALWAYS, DISKS, Family
from harness.environments.ssh.vms.probe import try_vms
from nemesis.capabilities.cluster import Capability

FILTERS: Family = {"nftables": frozenset({"network"}), "iptables": frozenset({"network"})}
QUEUES: Family = {"netem": frozenset({"network-shaping"})}
CLOCKS: Family = {"VM": frozenset({"clock"}), "C compiler": frozenset({"clock"})}
POWER: Family = {"power-cut": frozenset({"page-cache-loss", "disk-damage", "disk-full"})}

_WITHOUT_DISK: frozenset[Capability] = frozenset({"disk-damage"})

Disk = Literal["ext4", "fuse", "power-cut", ""]

ALL_DISKS: Family = {**POWER, **{name: DISKS[name] for name in ("ext4", "fuse")}}

DISKS_TOLD = {
    "ext4": "an ext4 image on the node's machine, shut down without flushing and mounted again",
    "fuse": "a FUSE file system on the node's machine, which takes back what was not synced",
    "power-cut": "the node's VM loses its power, and comes back with its disk",
    "": "none",
}


@dataclass(frozen=True)
class SshCapabilities:
    """What a fleet can do (`harness.environments.base.Offers`)."""

    has: frozenset[str]  # what all its machines have, see `facts`
    ours: bool  # VMs that are made for the run

    def sure_of(self, needs: frozenset[Capability]) -> bool:  # noqa: ARG002
        """What machines have is known when they have been looked at, and not before."""
        return False

    def choose(self, network: str, page_cache: str, needs: frozenset[Capability]) -> Mechanisms:
        """See `harness.environments.base.Offers.choose`."""
        if network != "auto":
            raise EnvironmentFailed(f"expected network auto in the environment ssh, found {network}")
        return Mechanisms("nftables" if "nft" in self.has else "iptables", self.choose_disk(page_cache, needs))

    def choose_disk(self, page_cache: str, needs: frozenset[Capability]) -> Disk:
        """The disk to use: what was asked for, else the first that is there and offers what the faults need.

        Raises `EnvironmentFailed` when one was asked for that the machines do not have.
        """
        there = [name for name in ALL_DISKS if (self.ours if name == "power-cut" else name in self.has)]
        if page_cache != "auto":
            if page_cache not in there:
                raise EnvironmentFailed(
                    f"expected all machines to offer page cache by {page_cache}, found {', '.join(there) or 'none'}"
                )
            return cast("Disk", page_cache)
        wanted = needs & frozenset().union(*ALL_DISKS.values())
        fitting = [name for name in there if wanted <= ALL_DISKS[name]]
        return cast("Disk", (*fitting, *there, "")[0])

    def offered(self, mechanisms: Mechanisms) -> frozenset[Capability]:
        """What such machines can do."""
        capabilities = ALWAYS | ALL_DISKS.get(mechanisms.page_cache, _WITHOUT_DISK)
        if self.has & {"nft", "iptables"}:
            capabilities |= {"network"}
        if "netem" in self.has:
            capabilities |= {"network-shaping"}
        if self.ours or try_clock().available:
            capabilities |= {"clock"}
        return capabilities

    def ways(self, needs: frozenset[Capability]) -> tuple[tuple[str, ...], ...]:
        """See `harness.environments.base.Offers.ways`."""
        return families.ways(needs, ALWAYS, (FILTERS, QUEUES, ALL_DISKS, CLOCKS))

    def lacking(self, needs: frozenset[Capability]) -> str | None:
        """Why these machines cannot inject a fault with these needs; None if they can."""
        if self.ours and not (trial := try_vms()).available:
            return f"VMs: {trial}"
        missing = needs - self.offered(self.choose("auto", "auto", needs))
        return f"not on these machines: {', '.join(sorted(missing))}" if missing else None


OFFERS_OF_VMS = SshCapabilities(frozenset({"crc32c", "nft", "netem", "fuse"}), ours=True)
"""What VMs of our own have is known without looking: it was put there."""
