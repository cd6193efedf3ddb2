"""A broker that a definition file tells of, run from an image: nothing of ours is needed in there.

The node's container runs the broker alone. Its attendant is a process of this machine, in the node's network.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.environments.base import Addresses, NodePlan
from harness.environments.machine.helpers.own_python import module_command
from harness.systems.definition import Command
from harness.systems.foreign import ORDERS_NAME, ForeignBroker
from harness.systems.sidecar.config import SidecarConfig
from harness.systems.sidecar.launch import FAILED
from nemesis.capabilities.cluster import Capability


@dataclass(frozen=True)
class BrokerFromImage(ForeignBroker):
    """Implements `harness.environments.docker.contents.Contents` besides."""

    image: str = ""

    def cannot(self, network: str, page_cache: str) -> frozenset[Capability]:
        """A library that this machine's compiler made need not load in an image, whose C library may be another."""
        return super().cannot(network, page_cache) | {"clock"}

    def configure(self, plan: NodePlan, plans: Sequence[NodePlan], addresses: Addresses) -> None:
        """Write the node's files; its container sees them under the same path."""
        super().configure(plan, plans, addresses)
        plan.data.mkdir(parents=True, exist_ok=True)

    def command(self, plan: NodePlan) -> Sequence[str]:
        """The broker's own command, by way of the image's shell where there is something to prepare."""
        orders = _orders(plan)
        if not orders.prepare:
            return tuple(orders.command)
        prepared = [_or_give_up(command) for command in orders.prepare]
        return ("sh", "-c", "\n".join([*prepared, f"exec {shlex.join(orders.command)}"]))

    def environment(self, plan: NodePlan) -> Mapping[str, str]:
        """What the container has in its environment besides what its image gives it."""
        return _orders(plan).environment

    def attendant(self, plan: NodePlan, pid: int) -> Command:
        """The command that answers for the node's process, which has this id here."""
        orders = (plan.directory / ORDERS_NAME).absolute()
        return module_command("harness.systems.sidecar.standalone", str(orders), str(pid))


def _orders(plan: NodePlan) -> SidecarConfig:
    return SidecarConfig.load(plan.directory / ORDERS_NAME)


def _or_give_up(command: Sequence[str]) -> str:
    told = shlex.quote(f"expected `{' '.join(command)}` to prepare the node, found that it ended with status")
    return f"{shlex.join(command)} || {{ echo {told} $? >&2; exit {FAILED}; }}"
