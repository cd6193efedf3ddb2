"""SSH servers in network namespaces of this machine: hosts for tests, as cheap as processes. Needs root."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import paramiko

from harness.environments.base import NodePlan
from harness.environments.machine.feature_probes import try_ext4, try_namespaces
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import SupervisorSettings
from harness.environments.machine.kernel import linux
from harness.environments.machine.kernel.process_identity import wait_until
from harness.environments.network.namespaces import address
from harness.environments.ssh.connection.hosts import SshHost
from harness.environments.ssh.connection.installation import package
from harness.environments.ssh.fleet import GivenFleet
from nemesis.capabilities.cluster import CLIENTS
from tests.support import stand_in
from tests.support.stand_in import StandIn

_CONFIGURATION = """
Port 22
HostKey {place}/host
AuthorizedKeysFile {place}/authorized
StrictModes no
UsePAM no
UseDNS no
PidFile none
PermitRootLogin prohibit-password
MaxStartups 100
MaxSessions 100
ClientAliveInterval 5
ClientAliveCountMax 3
"""
"""Sessions end by themselves: when a namespace ends, they are not notified that their client is gone."""


def lacking() -> str | None:
    """What this machine lacks for such servers; None if nothing."""
    for program in ("sshd", "nft"):
        if shutil.which(program, path="/usr/sbin:/usr/bin") is None:
            return f"no program {program}"
    if os.geteuid() != 0:
        return "a server in a namespace needs root"
    for result in (try_namespaces(), try_ext4()):
        if not result.available:
            return result.found
    return None


def bare_python(place: Path) -> str:
    """A Python without the packages of this one, Harrow's among them: a host has what Harrow brings along."""
    program = place / "python3"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    program.chmod(0o755)
    return str(program)


class NamespaceFleet(GivenFleet):
    """One namespace and one server for each node; the harness comes from where the clients are."""

    how = "SSH servers in network namespaces"

    def __init__(self, place: Path, count: int, *, installed: bool = True) -> None:
        """`installed`: Harrow is on the hosts already, which takes the longest."""
        self.place = place
        self._installed = installed
        place.mkdir(parents=True, exist_ok=True)
        Path("/run/sshd").mkdir(exist_ok=True)  # where a server locks its children up before they have logged in
        keys = {name: paramiko.ECDSAKey.generate() for name in ("host", "user")}
        for name, key in keys.items():
            key.write_private_key_file(str(place / name))
        (place / "authorized").write_text(f"{keys['user'].get_name()} {keys['user'].get_base64()}\n")
        (place / "sshd_config").write_text(_CONFIGURATION.format(place=place))
        known = f"{keys['host'].get_name()} {keys['host'].get_base64()}"
        (place / "known").write_text(
            "".join(f"{address(node_id)} {known}\n" for node_id in (*range(1, 110), *range(200, 210)))
        )
        host = SshHost("", "", key=place / "user", known_hosts=place / "known", python=bare_python(place))
        super().__init__([host] * count)

    def settings(self, node_ids: Sequence[int]) -> SupervisorSettings:
        super().settings(node_ids)
        self._by_node = {
            node_id: replace(
                host, name=f"host-{node_id}", address=address(node_id), directory=str(self.place / str(node_id))
            )
            for node_id, host in self._by_node.items()
        }
        return SupervisorSettings(network=True, mounts=False, endpoints=(CLIENTS, *node_ids))

    def set_up(self, supervisor: Supervisor, place: Path, node_ids: Sequence[int]) -> None:
        self._supervisor = supervisor
        for node_id in node_ids:  # one installation serves all: it is the same file system
            (self.place / str(node_id)).mkdir(exist_ok=True)
            (self.place / str(node_id) / "packages").symlink_to(self.place / "packages")
        if self._installed:
            with tarfile.open(fileobj=io.BytesIO(package().archive)) as archive:
                archive.extraction_filter = lambda member, _path: member
                archive.extractall(self.place / "packages" / package().digest)
        else:
            (self.place / "packages").mkdir()
        self.servers = {node_id: self._serve(node_id) for node_id in node_ids}
        holder = self._spawn(["sleep", "infinity"], CLIENTS)
        self._clients = os.open(f"/proc/{holder.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        for node_id in node_ids:
            assert wait_until(lambda node_id=node_id: self._answers(node_id), 10.0, 0.02)

    def _serve(self, node_id: int):
        return self._spawn(
            [shutil.which("sshd", path="/usr/sbin"), "-D", "-e", "-f", self.place / "sshd_config"], node_id
        )

    def _spawn(self, command: Sequence[str | Path | None], endpoint: int):
        log = os.open(self.place / f"server-{endpoint}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return self._supervisor.spawn([str(word) for word in command], endpoint, nothing, log, log)
        finally:
            os.close(log)
            os.close(nothing)

    def _answers(self, node_id: int) -> bool:
        try:
            self.dial(node_id).close()
        except OSError:
            return False
        return True

    def dial(self, node_id: int) -> socket.socket:
        connection = self._in_clients_namespace(socket.SOCK_STREAM)
        try:
            connection.settimeout(3)
            connection.connect((address(node_id), 22))
        except OSError:
            connection.close()
            raise
        return connection

    def clients_socket(self) -> socket.socket:
        receiver = self._in_clients_namespace(socket.SOCK_DGRAM)
        receiver.bind(("0.0.0.0", 0))
        return receiver

    def _in_clients_namespace(self, kind: socket.SocketKind) -> socket.socket:
        made = []

        def make() -> None:  # a thread enters the namespace for itself alone; the socket stays there
            linux.enter_namespace(self._clients, linux.CLONE_NEWNET)
            made.append(socket.socket(socket.AF_INET, kind))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]

    def tear_down(self) -> None:
        if hasattr(self, "_clients"):
            os.close(self._clients)


@contextmanager
def server_on_loopback(place: Path) -> Iterator[Path]:
    """An inventory of one host that is this machine, for what changes nothing there."""
    NamespaceFleet(place, 1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = (place / "sshd_config").read_text().replace("Port 22", f"Port {port}\nListenAddress 127.0.0.1")
    (place / "sshd_config").write_text(settings)
    (place / "known").write_text((place / "known").read_text().replace(f"{address(1)} ", f"[127.0.0.1]:{port} "))
    inventory = place / "hosts.toml"
    host = {"address": f"127.0.0.1:{port}", "key": "user", "known-hosts": "known", "python": str(place / "python3")}
    inventory.write_text("[[host]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in host.items()))
    server = subprocess.Popen([str(shutil.which("sshd", path="/usr/sbin")), "-D", "-f", str(place / "sshd_config")])
    try:
        assert wait_until(lambda: _listens(port), 10.0, 0.02)
        yield inventory
    finally:
        server.terminate()
        server.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


class FarStandIn(StandIn):
    """The stand-in on a machine that has not got the tests: its file goes there with the settings."""

    def configure(self, plan: NodePlan, plans: Sequence[NodePlan], addresses) -> None:
        super().configure(plan, plans, addresses)
        shutil.copy(stand_in.__file__, plan.directory / "stand_in.py")

    def command(self, plan: NodePlan) -> Sequence[str]:
        return [sys.executable, str(plan.directory / "stand_in.py"), str(plan.directory / "settings.json")]
