"""Whether this machine can run VMs, found out before anything is changed."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from harness.environments.base import EnvironmentFailed
from harness.environments.machine.trials import Trial
from harness.environments.ssh.cache import cache_directory
from harness.environments.ssh.vms.programs import MEMORY_MIB, QEMU, missing_program

_DISK_BYTES = 2 << 30
_OVERHEAD_MIB = 100  # of QEMU itself, for each VM


def need_vms(count: int) -> None:
    """See that so many VMs can be run here. Raises `EnvironmentFailed`."""
    for line in _lacks(count):
        raise EnvironmentFailed(line)


@cache
def try_vms() -> Trial:
    """Whether VMs can be run here, and how."""
    if importlib.util.find_spec("paramiko") is None:
        return Trial(False, "expected the package paramiko, found none; pip install 'harrow[ssh]'")
    for line in _lacks(1):
        return Trial(False, line)
    templates = list((cache_directory() / "vms" / "templates").glob("*.memory"))
    kvm = os.access("/dev/kvm", os.R_OK | os.W_OK)
    told = "a template is kept" if templates else "a template is made at the first run, in about a minute"
    return Trial(True, f"QEMU, {'KVM if it works' if kvm else 'emulated'}; {told}")


def _lacks(count: int) -> Iterator[str]:
    if shutil.which(QEMU) is None:
        yield f"expected the program {QEMU} for VMs, found none; apt-get install qemu-system-x86"
    if (line := missing_program()) is not None:
        yield line
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free_mib = int(lines["MemAvailable"].split()[0]) // 1024
    needed_mib = count * (MEMORY_MIB + _OVERHEAD_MIB)
    if free_mib < needed_mib:
        yield f"expected {needed_mib} MiB of free memory for {count} VMs, found {free_mib}; run fewer"
    place = next(one for one in (cache_directory(), *cache_directory().parents) if one.exists())
    free = shutil.disk_usage(place).free
    if free < _DISK_BYTES:
        yield f"expected {_DISK_BYTES >> 20} MiB of free disk at {place} for VMs, found {free >> 20}; make room"
