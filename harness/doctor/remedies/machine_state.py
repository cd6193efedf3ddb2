"""Inspects this machine for the facts on which remedies depend, without changing anything."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

CAP_SYS_ADMIN, CAP_SYS_MODULE, CAP_MKNOD = 1 << 21, 1 << 16, 1 << 27
ALL_CAPABILITIES = (1 << 41) - 1

SETTINGS = (
    "user.max_user_namespaces",
    "user.max_net_namespaces",
    "kernel.unprivileged_userns_clone",
    "kernel.apparmor_restrict_unprivileged_userns",
)
"""Kernel settings (sysctl) that can prevent a capability."""

PROGRAMS = ("apt-get", "dockerd", "fusermount3", "ip", "modprobe", "service", "sudo", "sysctl", "systemctl", "uv")
"""Programs that a remedy may use or install."""

DEVICES = ("/dev/net/tun", "/dev/fuse", "/dev/loop-control")

_SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"

Installer = Literal["pip", "uv", "none"]


@dataclass(frozen=True)
class MachineState:
    """A machine and the user who runs Harrow on it. The default is a plain user on Debian, with nothing missing."""

    root: bool = False
    python: str = ".venv/bin/python"
    """The interpreter that runs Harrow."""
    harrow: str = ".venv/bin/harrow"
    """The command `harrow` of that interpreter, as a path: root's PATH does not have it."""
    virtual: bool = True
    """Whether the interpreter is that of a virtual environment."""
    managed: bool = False
    """Whether the distribution manages it, so that pip needs an option to change it (PEP 668)."""
    packages_writable: bool = True
    """Whether this user may change its installed packages."""
    installer: Installer = "pip"
    programs: frozenset[str] = frozenset({"apt-get", "ip", "modprobe", "service", "sudo", "sysctl", "systemctl"})
    package_lists: bool = True
    """Whether apt-get has lists of packages."""
    systemd: bool = True
    """Whether systemd started this machine."""
    bounding: int = ALL_CAPABILITIES
    """Linux capabilities that root can have here, as a bit set."""
    filtered: bool = False
    """Whether system calls are filtered (seccomp)."""
    no_new_privileges: bool = False
    own_users: bool = False
    """Whether this process is in another user namespace than the machine's initial one."""
    unowned: frozenset[str] = frozenset()
    """Device files whose owner is not in our user namespace, so that our root cannot change their mode."""
    settings: Mapping[str, int] = field(default_factory=dict)
    """Kernel settings that exist: name → value."""
    drivers: frozenset[str] = frozenset({"tun", "fuse", "loop-control"})
    """Drivers of character devices in the kernel, by their names in /proc/misc."""
    modules: frozenset[str] = frozenset()
    """Modules that can be loaded into the kernel."""
    fusermount_gains: bool = True
    """Whether fusermount3, if it is installed, has its set-user-id bit and runs as root."""
    docker_host: str = ""
    """The engine in the environment variable DOCKER_HOST, if any."""

    @property
    def confined(self) -> bool:
        """Whether root lacks CAP_SYS_ADMIN: usually in a container."""
        return not self.bounding & CAP_SYS_ADMIN

    @property
    def may_load_modules(self) -> bool:
        """Whether root can load modules into the kernel."""
        return bool(self.bounding & CAP_SYS_MODULE) and not self.own_users

    @property
    def may_make_devices(self) -> bool:
        """Whether root can make device files that can be opened."""
        return bool(self.bounding & CAP_MKNOD) and not self.own_users and not self.confined

    def setting(self, name: str) -> int | None:
        """The value of a kernel setting; None if it does not exist."""
        return self.settings.get(name)


def inspect_machine() -> MachineState:
    """Inspect this machine."""
    status = dict(_status())
    packages = sysconfig.get_path("purelib")
    return MachineState(
        root=os.geteuid() == 0,
        python=sys.executable,
        harrow=_harrow(),
        virtual=sys.prefix != sys.base_prefix,
        managed=Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists(),
        packages_writable=os.access(packages, os.W_OK),
        installer=_installer(),
        programs=frozenset(name for name in PROGRAMS if find(name) is not None),
        package_lists=any(Path("/var/lib/apt/lists").glob("*_Packages*")),
        systemd=Path("/run/systemd/system").is_dir(),
        bounding=int(status.get("CapBnd", "0"), 16),
        filtered=status.get("Seccomp", "0") != "0",
        no_new_privileges=status.get("NoNewPrivs", "0") != "0",
        own_users=_lines("/proc/self/uid_map") != ["0 0 4294967295"],
        unowned=frozenset(path for path in DEVICES if _is_unowned(path)),
        settings=dict(_settings()),
        drivers=frozenset(line.split()[1] for line in _lines("/proc/misc")),
        modules=frozenset(_modules()),
        fusermount_gains=_gains(find("fusermount3")),
        docker_host=os.environ.get("DOCKER_HOST", ""),
    )


def find(program: str) -> str | None:
    """The path of a program; root's programs are often not in a plain user's PATH."""
    return shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_PATH}")


def _harrow() -> str:
    script = Path(sys.executable).with_name("harrow")
    return shlex.quote(str(script)) if script.exists() else f"{shlex.quote(sys.executable)} -m harness"


def _installer() -> Installer:
    if find_spec("pip") is not None:
        return "pip"
    return "uv" if shutil.which("uv") is not None else "none"


def _lines(path: str) -> list[str]:
    """The lines of a file of the kernel, with single blanks; none if the file does not exist."""
    try:
        return [" ".join(line.split()) for line in Path(path).read_text().splitlines()]
    except OSError:
        return []


def _status() -> Iterator[tuple[str, str]]:
    for line in _lines("/proc/self/status"):
        name, _, value = line.partition(":")
        yield name, value.strip()


def _settings() -> Iterator[tuple[str, int]]:
    for name in SETTINGS:
        for line in _lines(f"/proc/sys/{name.replace('.', '/')}"):
            yield name, int(line)


def _modules() -> Iterator[str]:
    directory = f"/lib/modules/{os.uname().release}"
    for line in _lines(f"{directory}/modules.dep"):
        yield Path(line.partition(":")[0]).name.partition(".")[0].replace("-", "_")


def _is_unowned(path: str) -> bool:
    nobody = _lines("/proc/sys/kernel/overflowuid")
    try:
        return str(Path(path).stat().st_uid) in nobody
    except OSError:
        return False


def _gains(program: str | None) -> bool:
    if program is None:
        return False
    status = Path(program).stat()
    return status.st_uid == 0 and bool(status.st_mode & 0o4000)
