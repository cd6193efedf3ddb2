"""Probes whether this machine can run VMs, without changing anything."""

from __future__ import annotations

import importlib.util
import os
import shutil
from functools import cache
from pathlib import Path

from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Missing, TooLittle
from harness.environments.machine.feature_probes import ProbeResult, attempt
from harness.environments.ssh.vms.cache import cache_directory
from harness.environments.ssh.vms.programs import MEMORY_MIB, need_package_lists, need_programs, need_qemu

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
