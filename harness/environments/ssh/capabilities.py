"""Capabilities of the environment `ssh`: from what all its machines have, and from whether they are VMs of the run.

`try_ssh` probes what this machine needs to reach them.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Literal, cast

from harness.environments.base import EnvironmentFailed, Mechanisms
from harness.environments.causes import Missing
from harness.environments.machine.feature_probes import ProbeResult, attempt, try_clock
from harness.environments.machine.mechanisms import ALWAYS, DISKS, MechanismGroup, mechanisms_of_groups
from harness.environments.ssh.vms.probe import try_vms
from nemesis.capabilities.cluster import Capability

FILTERS: MechanismGroup = {"nftables": frozenset({"network"}), "iptables": frozenset({"network"})}
QUEUES: MechanismGroup = {"netem": frozenset({"network-shaping"})}
CLOCKS: MechanismGroup = {"VM": frozenset({"clock"}), "C compiler": frozenset({"clock"})}
POWER: MechanismGroup = {"power-cut": frozenset({"page-cache-loss", "disk-damage", "disk-full"})}

_WITHOUT_DISK: frozenset[Capability] = frozenset({"disk-damage"})

DiskName = Literal["ext4", "fuse", "power-cut", ""]

ALL_DISKS: MechanismGroup = {**POWER, **{name: DISKS[name] for name in ("ext4", "fuse")}}

DISK_DESCRIPTIONS = {
    "ext4": "an ext4 image on the node's machine, shut down without flushing and mounted again",
    "fuse": "a FUSE file system on the node's machine, which takes back what was not synced",
    "power-cut": "the node's VM loses its power, and comes back with its disk",
    "": "none",
}


@dataclass(frozen=True)
class SshCapabilities:
    """The capabilities of a fleet (`harness.environments.base.Capabilities`)."""

    has: frozenset[str]  # features that all its machines have, see `facts`
    ours: bool  # VMs created for the run

    def sure_of(self, needs: frozenset[Capability]) -> bool:  # noqa: ARG002
        """Never: the features of machines are known only after they were examined."""
        return False

    def choose(self, network: str, page_cache: str, needs: frozenset[Capability]) -> Mechanisms:
        """See `harness.environments.base.Capabilities.choose`."""
        if network != "auto":
            raise EnvironmentFailed(f"expected network auto in the environment ssh, found {network}")
        return Mechanisms("nftables" if "nft" in self.has else "iptables", self.select_disk(page_cache, needs))

    def select_disk(self, page_cache: str, needs: frozenset[Capability]) -> DiskName:
        """Select the disk: the one that the user asked for, else the first available with the needed capabilities.

        Raises `EnvironmentFailed` when the machines lack the one that the user asked for.
        """
        available = [name for name in ALL_DISKS if (self.ours if name == "power-cut" else name in self.has)]
        if page_cache != "auto":
            if page_cache not in available:
                raise EnvironmentFailed(
                    f"expected all machines to offer page cache by {page_cache}, found {', '.join(available) or 'none'}"
                )
            return cast("DiskName", page_cache)
        wanted = needs & frozenset().union(*ALL_DISKS.values())
        fitting = [name for name in available if wanted <= ALL_DISKS[name]]
        return cast("DiskName", (*fitting, *available, "")[0])

    def offered(self, mechanisms: Mechanisms) -> frozenset[Capability]:
        """The capabilities of such machines with these mechanisms."""
        capabilities = ALWAYS | ALL_DISKS.get(mechanisms.page_cache, _WITHOUT_DISK)
        if self.has & {"nft", "iptables"}:
            capabilities |= {"network"}
        if "netem" in self.has:
            capabilities |= {"network-shaping"}
        if self.ours or try_clock().available:
            capabilities |= {"clock"}
        return capabilities

    def mechanisms_for(self, needs: frozenset[Capability]) -> tuple[tuple[str, ...], ...]:
        """See `harness.environments.base.Capabilities.mechanisms_for`."""
        return mechanisms_of_groups(needs, ALWAYS, (FILTERS, QUEUES, ALL_DISKS, CLOCKS))

    def lacking(self, needs: frozenset[Capability]) -> str | None:
        """Why these machines cannot inject a fault with these needs; None if they can."""
        if self.ours and not (result := try_vms()).available:
            return f"VMs: {result}"
        missing = needs - self.offered(self.choose("auto", "auto", needs))
        return f"not on these machines: {', '.join(sorted(missing))}" if missing else None


CAPABILITIES_OF_VMS = SshCapabilities(frozenset({"crc32c", "nft", "netem", "fuse"}), ours=True)
"""The features of our own VMs are known without an examination: their image contains them."""


def try_ssh() -> ProbeResult:
    """Check for the library; hosts are examined when a run names them."""

    def probe() -> str:
        if importlib.util.find_spec("paramiko") is None:
            raise EnvironmentFailed("no Python package paramiko", Missing("Python package", "paramiko"))
        return "installed"

    return attempt("ssh", probe)
