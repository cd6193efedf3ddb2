"""A VM that was booted once and whose memory is kept: from it others are there in about a second.

It has no network card and no disk of its own, so that each VM gets those of its own. Harrow is installed in it, and a
fork server (`fork_server`) has imported what the agent and the broker are made of.
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

from harness.environments.base import EnvironmentFailed
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.kernel.sockets import place_for_sockets
from harness.environments.ssh.connection.installation import install
from harness.environments.ssh.connection.package import package
from harness.environments.ssh.connection.ssh import Connection
from harness.environments.ssh.fleet.facts import Facts, examine, facts_as_told, facts_told
from harness.environments.ssh.fleet.hosts import SshHost
from harness.environments.ssh.vms import guest
from harness.environments.ssh.vms.cache import cache_directory, keep
from harness.environments.ssh.vms.image import Image, image
from harness.environments.ssh.vms.programs import QEMU
from harness.environments.ssh.vms.vm import Vm, free_port, hardware

PLACE = "/harrow"
"""What is Harrow's in a VM."""

CONTROL_MAC = "52:54:00:68:00:{:02x}"
GUEST_ADDRESS = "10.0.2.15"
"""What QEMU's own network gives a guest (QEMU's documentation, "Using the user mode network stack")."""

_KVM_TRIAL_S = 15.0
_IMPORT_TIMEOUT_S = 300.0
_FORK_SERVER = "/run/harrow-fork-server"
_PROGRAMS = (
    "harness.environments.ssh.agent.agent",
    "harness.environments.machine.helpers.supervisor_process",
    "harness.environments.machine.helpers.duty_cycle",
    "harness.environments.storage.fuse_process",
    "broker.shell",
)
"""What a VM runs for a node."""

_START = """
export PYTHONPATH="$1"; shift
setsid python3 -m harness.environments.ssh.agent.fork_server "$@" >"$1.log" 2>&1 </dev/null &
while [ ! -S "$1" ]; do kill -0 $! 2>/dev/null || { cat "$1.log" >&2; exit 1; }; sleep 0.2; done
"""


@dataclass(frozen=True)
class Template:
    """A memory, what it booted from, and what ran it."""

    image: Image
    accelerator: str
    facts: Facts  # what is known of its machine, and so of all that are restored from it
    kept: IO[bytes]  # its file, held open: another version of Harrow deletes it when it makes its own

    @property
    def memory(self) -> Path:
        """Where processes of this machine find it as long as this one holds it, whatever was deleted."""
        return Path(f"/proc/{os.getpid()}/fd/{self.kept.fileno()}")


def template(keeper: Supervisor) -> Template:
    """The template, made if it is not kept. Raises `EnvironmentFailed`."""
    booted_from = image()
    accelerator = _accelerator(keeper, booted_from)
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
        with tempfile.TemporaryDirectory(prefix="harrow-vm-", dir=place_for_sockets()) as place:
            fresh = memory.with_suffix(f".{os.getpid()}")
            try:
                facts = _make(keeper, booted_from, accelerator, Path(place), fresh)
                keep(_facts_file(memory), json.dumps(facts_as_told(facts)).encode())
                for old in memory.parent.iterdir():  # of another version, and as large as this one
                    if old.suffix in (".memory", ".facts") and old.stem != name:
                        old.unlink(missing_ok=True)  # another run may be making room, too
                fresh.replace(memory)
            finally:
                fresh.unlink(missing_ok=True)
    return Template(
        booted_from, accelerator, facts_told(json.loads(_facts_file(memory).read_text())), memory.open("rb")
    )


def _facts_file(memory: Path) -> Path:
    return memory.with_suffix(".facts")


def known_hosts(booted_from: Image, place: Path, port: int) -> Path:
    """A file by which the SSH server of a VM is known that is reached at a port of loopback."""
    file = place / f"known-{port}"
    file.write_text(f"[127.0.0.1]:{port} {booted_from.host_key}\n")
    return file


def host(booted_from: Image, place: Path, name: str, port: int, peer: str = "", *, forks: bool = True) -> SshHost:
    """A VM as a machine that is reached by SSH; `forks`: a fork server is there."""
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


def network_order(mac: str, name: str, address: str) -> str:
    """The order that has a guest wait for a network card, name it, and give it an address."""
    look = f'for c in /sys/class/net/*; do [ "$(cat $c/address)" = {mac} ] && d=${{c##*/}}; done; [ -n "$d" ]'
    return (
        f"d=; {guest.wait_order(look, f'the network card {mac}')} && "
        f"ip link set $d name {name} && ip addr add {address} dev {name} && ip link set {name} up"
    )


def _make(keeper: Supervisor, booted_from: Image, accelerator: str, place: Path, target: Path) -> Facts:
    vm = Vm(keeper, booted_from, place, "template", accelerator)
    try:
        port, mac = free_port(SOCK_STREAM), CONTROL_MAC.format(0)
        vm.plug_network("control", mac, type="user", hostfwd=[{"str": f"tcp:127.0.0.1:{port}-:22"}])
        vm.order(network_order(mac, "control", f"{GUEST_ADDRESS}/24"))
        connection = Connection(host(booted_from, place, "template", port, forks=False))
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


def _accelerator(keeper: Supervisor, booted_from: Image) -> str:
    """KVM when a VM boots with it, else emulation. What was found holds until this machine is started anew."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    started = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    verdict = cache_directory() / "vms" / f"kvm-{started}-{os.geteuid()}"
    if not verdict.exists():
        with tempfile.TemporaryDirectory(prefix="harrow-kvm-", dir=place_for_sockets()) as place:
            try:
                Vm(keeper, booted_from, Path(place), "trial", "kvm", boot_timeout_s=_KVM_TRIAL_S).kill()
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
    """A memory can be restored on the same kind of processor only."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith("model name")), "")
