"""A third-party broker that runs from its image, which needs nothing of ours.

The node's container runs the broker alone. Its sidecar is a process of this machine, in the node's network.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.environments.base import Addresses, NodePlan
from harness.environments.machine.helpers.programs import module_command
from harness.systems.definition import Command
from harness.systems.foreign import CONFIG_NAME, ForeignBroker
from harness.systems.sidecar.config import SidecarConfig
from harness.systems.sidecar.launch import FAILED
from nemesis.capabilities.cluster import Capability


@dataclass(frozen=True)
class BrokerFromImage(ForeignBroker):
    """Also implements `harness.environments.docker.environment.Contents`."""

    image: str = ""

    def cannot(self, network: str, page_cache: str) -> frozenset[Capability]:
        """Also excludes clocks: a library compiled on this machine may not load with the image's C library."""
        return super().cannot(network, page_cache) | {"clock"}

    def configure(self, plan: NodePlan, plans: Sequence[NodePlan], addresses: Addresses) -> None:
        """Write the node's files; its container sees them under the same path."""
        super().configure(plan, plans, addresses)
        plan.data.mkdir(parents=True, exist_ok=True)

    def command(self, plan: NodePlan) -> Sequence[str]:
        """The broker's own command, run by the image's shell if there are commands to prepare the node."""
        config = _config(plan)
        if not config.prepare:
            return tuple(config.command)
        prepared = [_or_give_up(command) for command in config.prepare]
        return ("sh", "-c", "\n".join([*prepared, f"exec {shlex.join(config.command)}"]))

    def environment(self, plan: NodePlan) -> Mapping[str, str]:
        """Environment variables of the container, besides those of its image."""
        return _config(plan).environment

    def sidecar(self, plan: NodePlan, pid: int) -> Command:
        """The command of the sidecar of the node's process, which has this pid on this machine."""
        config = (plan.directory / CONFIG_NAME).absolute()
        return module_command("harness.systems.sidecar.standalone", str(config), str(pid))


def _config(plan: NodePlan) -> SidecarConfig:
    return SidecarConfig.load(plan.directory / CONFIG_NAME)


def _or_give_up(command: Sequence[str]) -> str:
    complaint = shlex.quote(f"expected `{' '.join(command)}` to prepare the node, found that it ended with status")
    return f"{shlex.join(command)} || {{ echo {complaint} $? >&2; exit {FAILED}; }}"
