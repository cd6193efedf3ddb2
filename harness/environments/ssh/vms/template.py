"""Creates the template: the saved memory of a booted VM, from which others start in about a second.

It has no network card and no data disk, so that each VM gets its own. Harrow is installed in it, and a fork server
(`fork_server`) has imported the modules of the agent and the broker.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from socket import SOCK_STREAM
from typing import IO

from common.atomic_files import replacing
from common.directories import cache_directory
from harness.environments.base import EnvironmentFailed
from harness.environments.common.layout import place_for_sockets
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.ssh.connection.facts import Facts, examine, facts_from_json, facts_to_json
from harness.environments.ssh.connection.hosts import SshHost
from harness.environments.ssh.connection.installation import install, keep, package
from harness.environments.ssh.connection.ssh import SshConnection
from harness.environments.ssh.vms import guest
from harness.environments.ssh.vms.image import BootImage, image
from harness.environments.ssh.vms.probe import QEMU
from harness.environments.ssh.vms.vm import Vm, free_port, hardware

PLACE = "/harrow"
"""Harrow's directory in a VM."""

CONTROL_MAC = "52:54:00:68:00:{:02x}"
GUEST_ADDRESS = "10.0.2.15"
"""A guest's address in QEMU's user network (QEMU's documentation, "Using the user mode network stack")."""

_KVM_PROBE_S = 15.0
_IMPORT_TIMEOUT_S = 300.0
_FORK_SERVER = "/run/harrow-fork-server"
_PROGRAMS = (
    "harness.environments.ssh.agent.agent",
    "harness.environments.machine.helpers.supervisor_process",
    "harness.environments.machine.helpers.duty_cycle",
    "harness.environments.storage.fuse_process",
    "broker.shell",
)
"""The programs that a VM runs for a node."""

_START = """
export PYTHONPATH="$1"; shift
setsid python3 -m harness.environments.ssh.agent.fork_server "$@" >"$1.log" 2>&1 </dev/null &
while [ ! -S "$1" ]; do kill -0 $! 2>/dev/null || { cat "$1.log" >&2; exit 1; }; sleep 0.2; done
"""


@dataclass(frozen=True)
class Template:
    """A saved memory, with its image and accelerator."""

    image: BootImage
    accelerator: str
    facts: Facts  # of its machine, and so of all VMs restored from it
    kept: IO[bytes]  # its file, held open: another version of Harrow deletes it when it creates its own

    @property
    def memory(self) -> Path:
        """A path for processes of this machine, valid while this process holds the file open, even if deleted."""
        return Path(f"/proc/{os.getpid()}/fd/{self.kept.fileno()}")


def template(supervisor: Supervisor) -> Template:
    """The template, created if it is not cached. Raises `EnvironmentFailed`."""
    booted_from = image()
    accelerator = _accelerator(supervisor, booted_from)
    recipe = [
        *hardware(booted_from, accelerator),
        _version(),
        package().digest,
        *_PROGRAMS,
        _START,
        _processor(),
    ]
    name = hashlib.sha256("\n".join(recipe).encode()).hexdigest()[:16]
    memory = cache_directory() / "vms" / "templates" / f"{name}.memory"
    if not (memory.exists() and _facts_file(memory).exists()):
        memory.parent.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(prefix="harrow-vm-", dir=place_for_sockets()) as place,
            replacing(memory) as fresh,
        ):
            facts = _make(supervisor, booted_from, accelerator, Path(place), fresh)
            keep(_facts_file(memory), json.dumps(facts_to_json(facts)).encode())
            for old in memory.parent.iterdir():  # of another version; they are large
                if old.suffix in (".memory", ".facts") and old.stem != name:
                    old.unlink(missing_ok=True)  # another run may delete it, too
    return Template(
        booted_from, accelerator, facts_from_json(json.loads(_facts_file(memory).read_text())), memory.open("rb")
    )


def _facts_file(memory: Path) -> Path:
    return memory.with_suffix(".facts")


def known_hosts(booted_from: BootImage, place: Path, port: int) -> Path:
    """Write a `known_hosts` file for the SSH server of a VM at a port of loopback."""
    file = place / f"known-{port}"
    file.write_text(f"[127.0.0.1]:{port} {booted_from.host_key}\n")
    return file


def host(booted_from: BootImage, place: Path, name: str, port: int, peer: str = "", *, forks: bool = True) -> SshHost:
    """A VM as a machine reached by SSH; `forks`: its fork server runs."""
    return SshHost(
        name=name,
        address="127.0.0.1",
        port=port,
        key=booted_from.user_key,
        peer_address=peer,
        directory=PLACE,
        known_hosts=known_hosts(booted_from, place, port),
        device="/dev/vdb",
        fork_server=_FORK_SERVER if forks else "",
    )


def network_command(mac: str, name: str, address: str) -> str:
    """A shell command that waits for a network card in the guest, and sets its name and address."""
    look = f'for c in /sys/class/net/*; do [ "$(cat $c/address)" = {mac} ] && d=${{c##*/}}; done; [ -n "$d" ]'
    return (
        f"d=; {guest.wait_command(look, f'the network card {mac}')} && "
        f"ip link set $d name {name} && ip addr add {address} dev {name} && ip link set {name} up"
    )


def _make(supervisor: Supervisor, booted_from: BootImage, accelerator: str, place: Path, target: Path) -> Facts:
    vm = Vm(supervisor, booted_from, place, "template", accelerator)
    try:
        port, mac = free_port(SOCK_STREAM), CONTROL_MAC.format(0)
        vm.plug_network("control", mac, type="user", hostfwd=[{"str": f"tcp:127.0.0.1:{port}-:22"}])
        vm.run(network_command(mac, "control", f"{GUEST_ADDRESS}/24"))
        connection = SshConnection(host(booted_from, place, "template", port, forks=False))
        try:
            path = install(connection, examine(connection))
            command = shlex.join(["sh", "-c", _START, "sh", path, _FORK_SERVER, *_PROGRAMS])
            started = connection.run(command, timeout_s=_IMPORT_TIMEOUT_S)
            facts = examine(connection)
        finally:
            connection.close()
        if started.status != 0:
            raise EnvironmentFailed(f"expected a VM to import the broker, found: {started.complaint}")
        vm.unplug_network("control")
        vm.qmp("stop")
        vm.qmp("migrate", uri=f"exec:cat > {shlex.quote(str(target))}")
        vm.qmp.until(lambda: vm.qmp("query-migrate").get("status") in ("completed", "failed"), "to be kept")
        if vm.qmp("query-migrate")["status"] != "completed":
            raise EnvironmentFailed("expected QEMU to keep the memory of a VM, found that it could not")
        return facts
    finally:
        vm.kill()


def _accelerator(supervisor: Supervisor, booted_from: BootImage) -> str:
    """KVM when a VM boots with it, else emulation. The result is cached until this machine reboots."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    started = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    verdict = cache_directory() / "vms" / f"kvm-{started}-{os.geteuid()}"
    if not verdict.exists():
        with tempfile.TemporaryDirectory(prefix="harrow-kvm-", dir=place_for_sockets()) as place:
            try:
                Vm(supervisor, booted_from, Path(place), "probe", "kvm", boot_timeout_s=_KVM_PROBE_S).kill()
                found = "kvm"
            except EnvironmentFailed:
                found = "tcg"
        keep(verdict, found.encode())
    return verdict.read_text()


def _version() -> str:
    with contextlib.suppress(OSError):
        return subprocess.run([QEMU, "--version"], capture_output=True, text=True, check=False).stdout
    raise EnvironmentFailed(f"expected the program {QEMU}, found none; apt-get install qemu-system-x86")


def _processor() -> str:
    """The model of the processor: a memory can be restored only on the same model."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith("model name")), "")
