"""Probes whether this machine can make and run VMs: programs, memory, disk; without changing anything."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
from functools import cache
from pathlib import Path

from common.directories import cache_directory
from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Missing, TooLittle, Unfit
from harness.environments.machine.feature_probes import ProbeResult, attempt

QEMU = "qemu-system-x86_64"
MEMORY_MIB = 320
"""Memory of each VM: for an agent, a broker and their page cache."""

_LISTS = Path("/var/lib/apt/lists")


def need_programs() -> None:
    """Check that this machine can build an image. Raises `EnvironmentFailed`."""
    if platform.machine() != "x86_64":
        raise EnvironmentFailed(
            f"expected a processor of the kind x86_64 to make a VM, found {platform.machine()}", Unfit("processor")
        )
    for program in ("apt-get", "dpkg-deb", "mkfs.ext4"):
        if find_program(program) is None:
            raise EnvironmentFailed(
                f"expected the program {program} to make a VM, found none", Missing("program", program)
            )


def need_package_lists() -> None:
    """Check that apt-get has package lists. Raises `EnvironmentFailed`."""
    if not any(_LISTS.glob("*_Packages*")):
        raise EnvironmentFailed(
            f"expected lists of packages in {_LISTS} to make a VM, found none",
            Missing("package lists", "package lists"),
        )


def need_qemu() -> None:
    """Check that QEMU is installed. Raises `EnvironmentFailed`."""
    if shutil.which(QEMU) is None:
        raise EnvironmentFailed(f"expected the program {QEMU} for VMs, found none", Missing("program", QEMU))


def find_program(name: str) -> str | None:
    """The path of a program; some are often not in a plain user's PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


_DISK_BYTES = 2 << 30
_OVERHEAD_MIB = 100  # of QEMU itself, for each VM
_MIB = 1 << 20


def need_vms(count: int) -> None:
    """Check that this machine can run `count` VMs. Raises `EnvironmentFailed`, with a remedy or what is missing."""
    if not (result := attempt("vms", lambda: _try(count))).available:
        if isinstance(result.cause, TooLittle):
            _try(count)  # its message has the amounts
        raise EnvironmentFailed(f"expected what VMs need, found that {result}", result.cause)


@cache
def try_vms() -> ProbeResult:
    """Probe whether this machine can run VMs, and how."""
    return attempt("vms", lambda: _try(1))


def _try(count: int) -> str:
    if importlib.util.find_spec("paramiko") is None:
        raise EnvironmentFailed(
            "expected the Python package paramiko, found none", Missing("Python package", "paramiko")
        )
    need_qemu()
    need_programs()
    kept = cache_directory() / "vms"
    if not any(kept.glob("*/root.img")):
        need_package_lists()
    _need_room(count)
    kvm = os.access("/dev/kvm", os.R_OK | os.W_OK)
    template = (
        "a template is kept" if any(kept.glob("templates/*.memory")) else "the first run makes a template, in a minute"
    )
    return f"QEMU, {'KVM if it works' if kvm else 'emulated'}; {template}"


def _need_room(count: int) -> None:
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free_mib = int(lines["MemAvailable"].split()[0]) // 1024
    needed_mib = count * (MEMORY_MIB + _OVERHEAD_MIB)
    if free_mib < needed_mib:
        raise EnvironmentFailed(
            f"expected {needed_mib} MiB of free memory for {count} VMs, found {free_mib}",
            TooLittle("memory", needed_mib * _MIB, free_mib * _MIB),
        )
    place = next(one for one in (cache_directory(), *cache_directory().parents) if one.exists())
    free = shutil.disk_usage(place).free
    if free < _DISK_BYTES:
        raise EnvironmentFailed(
            f"expected {_DISK_BYTES // _MIB} MiB of free disk at {place} for VMs, found {free // _MIB}",
            TooLittle("disk", _DISK_BYTES, free, str(place)),
        )
