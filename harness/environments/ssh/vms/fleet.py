"""The fleet of a run with VMs: one for each node.

QEMU's own network leads from loopback to each VM, for SSH and for clients; it needs no privilege. The VMs reach each
other over a wire of their own: a multicast group on loopback that each of them sends its frames to.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.environments.base import Address, EnvironmentFailed
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import Settings
from harness.environments.network.namespaces import address
from harness.environments.ssh.fleet.facts import Facts
from harness.environments.ssh.fleet.hosts import SSH_PORT, SshHost
from harness.environments.ssh.machine import PROBE_PORT
from harness.environments.ssh.vms import guest
from harness.environments.ssh.vms.template import CONTROL_MAC, GUEST_ADDRESS, Template, host, network_order, template
from harness.environments.ssh.vms.vm import Vm, free_port
from harness.environments.storage.page_cache import make_file_system
from nemesis.capabilities.cluster import CLIENTS, Endpoint

_PEERS_MAC = "52:54:00:70:00:{:02x}"
_DISK_BYTES = 1 << 30
_FIRST_PORT = 9092
_CLIENT_PORTS = (_FIRST_PORT,)
"""Ports of a node that clients connect to."""


class VmFleet:
    """Implements `harness.environments.ssh.fleet.hosts.Fleet`."""

    how = "QEMU VMs on this machine, restored from a template"
    ours = True

    def __init__(self) -> None:
        self._vms: dict[int, Vm] = {}
        self._hosts: dict[int, SshHost] = {}
        self._ports: dict[int, Mapping[int, int]] = {}  # of loopback, by the guest's
        self._group = f"239.{secrets.randbelow(256)}.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"
        self._group_port = 0
        self._template: Template | None = None
        self._keeper: Supervisor | None = None
        self._place = Path()
        self.facts: Facts | None = None

    def settings(self, node_ids: Sequence[int]) -> Settings:  # noqa: ARG002
        """Nothing but processes."""
        return Settings(network=False, mounts=False, endpoints=())

    def set_up(self, keeper: Supervisor, place: Path, node_ids: Sequence[int]) -> None:
        """Make the template if there is none, and restore all VMs at once."""
        self._keeper, self._place = keeper, place
        self._template = template(keeper)
        self.facts = self._template.facts
        self._group_port = free_port(socket.SOCK_DGRAM)
        for node_id in node_ids:
            tcp = {port: free_port(socket.SOCK_STREAM) for port in (SSH_PORT, *_CLIENT_PORTS)}
            self._ports[node_id] = {**tcp, PROBE_PORT: free_port(socket.SOCK_DGRAM)}
            name = f"vm-{node_id}"
            self._hosts[node_id] = host(self._template.image, place, name, tcp[SSH_PORT], address(node_id))
            with self._disk(node_id).open("wb") as file:
                file.truncate(_DISK_BYTES)
            make_file_system(self._disk(node_id))
        with ThreadPoolExecutor(len(node_ids)) as pool:
            list(pool.map(self._start, node_ids))

    def host(self, node_id: int) -> SshHost:
        """The node's VM."""
        return self._hosts[node_id]

    def dial(self, node_id: int) -> socket.socket | None:  # noqa: ARG002
        """A port of loopback is enough."""
        return None

    def bind(self, node_id: int) -> str:  # noqa: ARG002
        """Where QEMU's own network leads to."""
        return GUEST_ADDRESS

    def reach(self, source: Endpoint, node_id: int, port: int) -> Address:
        """Clients connect to loopback, the other VMs over their wire."""
        if source == CLIENTS:
            return "127.0.0.1", self._ports[node_id][port]
        return address(node_id), port

    def clients_socket(self) -> socket.socket:
        """On loopback: that is where QEMU's own network comes out."""
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(("127.0.0.1", 0))
        return receiver

    def cut_power(self, node_id: int) -> None:
        """End the VM's process at once. Its memory is gone; what it has written to its disk is there."""
        self._vms[node_id].kill()
        self._start(node_id)

    def last_words(self, node_id: int) -> str:
        """Whether QEMU runs, and what it and the guest said last."""
        return self._vms[node_id].last_words() if node_id in self._vms else ""

    def tear_down(self) -> None:
        """End all VMs. Safe at any time."""
        for vm in self._vms.values():
            vm.kill()
        self._vms.clear()

    def _disk(self, node_id: int) -> Path:
        return self._place / f"{node_id}.disk"

    def _start(self, node_id: int) -> None:
        assert self._template is not None
        assert self._keeper is not None
        made = self._template
        vm = Vm(self._keeper, made.image, self._place, f"vm-{node_id}", made.accelerator, made.memory)
        self._vms[node_id] = vm
        number = list(self._ports).index(node_id) + 1
        ports = self._ports[node_id]
        forwarded = [
            {"str": f"{'udp' if there == PROBE_PORT else 'tcp'}:127.0.0.1:{here}-:{there}"}
            for there, here in ports.items()
        ]
        control, peers = CONTROL_MAC.format(number), _PEERS_MAC.format(number)
        try:
            vm.plug_disk(self._disk(node_id))
            vm.plug_network("control", control, type="user", hostfwd=forwarded)
            wire = {"mcast": f"{self._group}:{self._group_port}", "localaddr": "127.0.0.1"}
            vm.plug_network("peers", peers, type="socket", **wire)
            for order in (
                network_order(control, "control", f"{GUEST_ADDRESS}/24"),
                network_order(peers, "peers", f"{address(node_id)}/16"),
                f"hostname vm-{node_id}",
                guest.wait_order("[ -e /dev/vdb ]", "the disk /dev/vdb"),
            ):
                vm.order(order)
            vm.order(f"date -s @{time.time():.0f} >/dev/null")  # by itself: it is true for a moment
        except EnvironmentFailed:
            vm.kill()
            raise
