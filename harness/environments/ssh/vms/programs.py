"""Checks for the programs that creating and running VMs needs."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Missing, Unfit

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
