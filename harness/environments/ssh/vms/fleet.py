"""The fleet of a run with VMs, one for each node.

QEMU's user network forwards ports of loopback to each VM, for SSH and for clients; it needs no privilege. The VMs reach
each other over a second network: a multicast group on loopback to which each of them sends its frames.
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
from harness.environments.machine.helpers.supervisor_process import SupervisorSettings
from harness.environments.network.namespaces import address
from harness.environments.ssh.connection.facts import Facts
from harness.environments.ssh.connection.hosts import SSH_PORT, SshHost
from harness.environments.ssh.machine import PROBE_PORT
from harness.environments.ssh.vms import guest
from harness.environments.ssh.vms.template import CONTROL_MAC, GUEST_ADDRESS, Template, host, network_command, template
from harness.environments.ssh.vms.vm import Vm, free_port
from harness.environments.storage.page_cache import make_file_system
from nemesis.capabilities.cluster import CLIENTS, Endpoint

_PEERS_MAC = "52:54:00:70:00:{:02x}"
_DISK_BYTES = 1 << 30
_FIRST_PORT = 9092
_CLIENT_PORTS = (_FIRST_PORT,)
"""Ports of a node that clients connect to."""


class VmFleet:
    """Implements `harness.environments.ssh.fleet.Fleet`."""

    how = "QEMU VMs on this machine, restored from a template"
    ours = True

    def __init__(self) -> None:
        self._vms: dict[int, Vm] = {}
        self._hosts: dict[int, SshHost] = {}
        self._ports: dict[int, Mapping[int, int]] = {}  # guest port → loopback port
        self._group = f"239.{secrets.randbelow(256)}.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"
        self._group_port = 0
        self._template: Template | None = None
        self._supervisor: Supervisor | None = None
        self._place = Path()
        self.facts: Facts | None = None

    def settings(self, node_ids: Sequence[int]) -> SupervisorSettings:  # noqa: ARG002
        """Only processes."""
        return SupervisorSettings(network=False, mounts=False, endpoints=())

    def set_up(self, supervisor: Supervisor, place: Path, node_ids: Sequence[int]) -> None:
        """Create the template if there is none, and restore all VMs in parallel."""
        self._supervisor, self._place = supervisor, place
        self._template = template(supervisor)
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
        """None: connect to a port of loopback."""
        return None

    def bind(self, node_id: int) -> str:  # noqa: ARG002
        """The guest's address in QEMU's user network."""
        return GUEST_ADDRESS

    def reach(self, source: Endpoint, node_id: int, port: int) -> Address:
        """Clients connect to loopback, other VMs over the peer network."""
        if source == CLIENTS:
            return "127.0.0.1", self._ports[node_id][port]
        return address(node_id), port

    def clients_socket(self) -> socket.socket:
        """A socket on loopback, from where QEMU's user network sends."""
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(("127.0.0.1", 0))
        return receiver

    def cut_power(self, node_id: int) -> None:
        """Kill and restart the VM. Its memory is lost; data written to its disk remains."""
        self._vms[node_id].kill()
        self._start(node_id)

    def last_words(self, node_id: int) -> str:
        """Whether QEMU runs, and the last output of QEMU and of the guest."""
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
        assert self._supervisor is not None
        made = self._template
        vm = Vm(self._supervisor, made.image, self._place, f"vm-{node_id}", made.accelerator, made.memory)
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
            for command in (
                network_command(control, "control", f"{GUEST_ADDRESS}/24"),
                network_command(peers, "peers", f"{address(node_id)}/16"),
                f"hostname vm-{node_id}",
                guest.wait_command("[ -e /dev/vdb ]", "the disk /dev/vdb"),
            ):
                vm.run(command)
            vm.run(f"date -s @{time.time():.0f} >/dev/null")  # a separate command: the time is computed just before
        except EnvironmentFailed:
            vm.kill()
            raise
