"""Runs one QEMU process, and commands in the guest before it has a network."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from harness.environments.base import EnvironmentFailed
from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.machine.helpers.supervisor import SupervisedProcess, Supervisor
from harness.environments.ssh.vms import guest
from harness.environments.ssh.vms.image import BootImage
from harness.environments.ssh.vms.probe import MEMORY_MIB, QEMU
from harness.environments.ssh.vms.qmp import Qmp, connect
from nemesis.capabilities.cluster import CLIENTS

BOOT_TIMEOUT_S = 120.0
_COMMAND_TIMEOUT_S = 120.0  # longer than a guest waits for a plugged device
_POLL_S = 0.05
_TAIL_LINES = 3
_END_S = 2.0
"""Timeout for the end of a process whose connections are closed already."""

_KERNEL_ARGUMENTS = (
    "console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check nowatchdog mitigations=off random.trust_cpu=on"
)
_CLOCK_IF_EMULATED = "clocksource=acpi_pm"
"""The kernel measures the speed of its time stamp counter when it boots. While this machine is busy the result is
wrong, and the clock of every VM restored from that memory runs several times too fast. QEMU counts this one."""


class Vm:
    """A running VM. It has no network and no data disk until they are plugged in."""

    def __init__(
        self,
        supervisor: Supervisor,
        image: BootImage,
        place: Path,
        name: str,
        accelerator: str,
        incoming: Path | None = None,
        boot_timeout_s: float = BOOT_TIMEOUT_S,
    ) -> None:
        """Boot it, or restore it from a saved memory. Raises `EnvironmentFailed`."""
        self._place = place
        self._boot_timeout_s = boot_timeout_s
        self._name = name
        self._console = place / f"{name}.console"
        self._errors = place / f"{name}.errors"
        for file in ("qmp", "commands", "console", "errors"):
            (place / f"{name}.{file}").unlink(missing_ok=True)
        self._process = self._start(supervisor, image, accelerator, incoming)
        try:
            self.qmp = Qmp(place / f"{name}.qmp", self.is_alive, BOOT_TIMEOUT_S)
            self._commands = connect(place / f"{name}.commands", self.is_alive, _COMMAND_TIMEOUT_S)
            if incoming is None:
                self._await_boot()
            else:
                self.qmp.until(lambda: self.qmp("query-status")["status"] != "inmigrate", "to be restored")
                self.qmp("cont")
        except EnvironmentFailed as error:
            self.kill()
            raise EnvironmentFailed(f"{error}; {self.last_words()}") from error

    def _start(
        self, supervisor: Supervisor, image: BootImage, accelerator: str, incoming: Path | None
    ) -> SupervisedProcess:
        program = shutil.which(QEMU)
        if program is None:
            raise EnvironmentFailed(f"expected the program {QEMU}, found none; apt-get install qemu-system-x86")
        command = [program, *hardware(image, accelerator)]
        command += ["-qmp", f"unix:{self._place}/{self._name}.qmp,server=on,wait=off"]
        command += ["-chardev", f"socket,id=commands,path={self._place}/{self._name}.commands,server=on,wait=off"]
        command += ["-serial", f"file:{self._console}", "-device", "isa-serial,chardev=commands,index=1"]
        if incoming is not None:
            command += ["-incoming", f"exec:cat {shlex.quote(str(incoming))}"]
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        errors = os.open(self._errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            return supervisor.spawn(command, CLIENTS, nothing, errors, errors)
        except HelperRefused as refusal:
            raise EnvironmentFailed(f"expected to run {QEMU}, found: {refusal}") from None
        finally:
            os.close(nothing)
            os.close(errors)

    @property
    def pid(self) -> int:
        """Id of its process on this machine."""
        return self._process.pid

    @property
    def start_time(self) -> int:
        """Start time of its process, in clock ticks since boot."""
        return self._process.start_time

    def is_alive(self) -> bool:
        """Whether its process exists."""
        return self._process.poll() is None

    def run(self, line: str) -> str:
        """Run a shell command in the guest's init process; returns its output. Raises `EnvironmentFailed`."""
        output = b""
        try:
            self._commands.sendall(line.encode() + b"\n")
            while not (output.endswith(b"\n") and b"STATUS " in output):
                data = self._commands.recv(1 << 16)
                if not data:
                    break
                output += data
        except OSError as error:
            raise EnvironmentFailed(f"expected a VM to run a command, found: {error}; {self.last_words()}") from error
        text, _, status = output.decode(errors="replace").replace("\r", "").rpartition("STATUS ")
        if status.strip() != "0":
            raise EnvironmentFailed(f"expected a VM to run a command, found: {' '.join(text.split())[-200:]}")
        return text

    def plug_disk(self, file: Path) -> None:
        """Plug in a disk: the guest's second, /dev/vdb."""
        self.qmp("blockdev-add", driver="raw", node_name="data", file={"driver": "file", "filename": str(file)})
        self.qmp("device_add", driver="virtio-blk-pci", drive="data", id="disk")

    def plug_network(self, name: str, mac: str, **settings: object) -> None:
        """Plug in a network card."""
        self.qmp("netdev_add", id=f"net-{name}", **settings)
        self.qmp("device_add", driver="virtio-net-pci", netdev=f"net-{name}", mac=mac, romfile="", id=name)

    def unplug_network(self, name: str) -> None:
        """Unplug a network card, and wait until the guest has released it."""
        self.qmp("device_del", id=name)
        self.qmp.until(lambda: self.qmp.saw("DEVICE_DELETED"), "to release a network card")
        self.qmp("netdev_del", id=f"net-{name}")

    def kill(self) -> None:
        """Kill it, as a power loss does. Safe to call twice."""
        self._process.kill()
        for connection in (getattr(self, "qmp", None), getattr(self, "_commands", None)):
            if connection is not None:
                with contextlib.suppress(OSError):
                    connection.close()

    def _await_boot(self) -> None:
        deadline = time.monotonic() + self._boot_timeout_s
        while guest.READY not in (output := _read(self._console)):
            if not self.is_alive() or "Kernel panic" in output or time.monotonic() > deadline:
                raise EnvironmentFailed(
                    f"expected a VM to boot within {self._boot_timeout_s:g} s, found that it did not"
                )
            time.sleep(_POLL_S)

    def last_words(self) -> str:
        """Describe in one line whether its process runs, with the last output of QEMU and of the guest's kernel."""
        try:
            state = f"its VM ended with status {self._process.wait(_END_S)}"
        except TimeoutError:
            state = "its VM runs"
        except (HelperRefused, EnvironmentFailed) as error:
            state = f"whether its VM runs is not known: {error}"
        tails = {name: _tail(file) for name, file in (("QEMU", self._errors), ("its console", self._console))}
        return "; ".join([state, *(f"{name} says last: {tail}" for name, tail in tails.items() if tail)])


def hardware(image: BootImage, accelerator: str) -> Sequence[str]:
    """The arguments of QEMU for the machine and its boot image."""
    return (*_machine(accelerator), *_boot(image, accelerator))


def _machine(accelerator: str) -> Sequence[str]:
    return (
        *("-machine", f"pc,accel={accelerator},usb=off,vmport=off", "-cpu", "host" if accelerator == "kvm" else "max"),
        *("-m", str(MEMORY_MIB), "-smp", "1", "-nodefaults", "-no-user-config", "-display", "none"),
        *("-device", "virtio-rng-pci"),
    )


def _boot(image: BootImage, accelerator: str) -> Sequence[str]:
    arguments = _KERNEL_ARGUMENTS if accelerator == "kvm" else f"{_KERNEL_ARGUMENTS} {_CLOCK_IF_EMULATED}"
    return (
        *("-kernel", str(image.kernel), "-initrd", str(image.first), "-append", arguments),
        *("-drive", f"file={image.root},format=raw,if=none,id=root,readonly=on,file.locking=off"),
        *("-device", "virtio-blk-pci,drive=root"),
    )


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except FileNotFoundError:
        return ""


def _tail(file: Path) -> str:
    lines = [line.strip() for line in _read(file).splitlines() if line.strip()]
    return " / ".join(lines[-_TAIL_LINES:])


def free_port(kind: socket.SocketKind) -> int:
    """A currently unused port of loopback."""
    with socket.socket(socket.AF_INET, kind) as trying:
        trying.bind(("127.0.0.1", 0))
        return int(trying.getsockname()[1])
