"""What this machine must have to make VMs and to run them."""

from __future__ import annotations

import os
import platform
import shutil

QEMU = "qemu-system-x86_64"
MEMORY_MIB = 320
"""Of each VM: an agent and a broker, and what they keep in the page cache."""


def missing_program() -> str | None:
    """What this machine lacks to make an image, in one line; None if nothing."""
    if platform.machine() != "x86_64":
        return f"expected a processor of the kind x86_64 to make a VM, found {platform.machine()}"
    for program, package in (("apt-get", ""), ("dpkg-deb", "dpkg"), ("mkfs.ext4", "e2fsprogs")):
        if find_program(program) is None:
            advice = f"apt-get install {package}" if package else "VMs are made of Debian's packages, by its own tools"
            return f"expected the program {program} to make a VM, found none; {advice}"
    return None


def find_program(name: str) -> str | None:
    """Where a program is; some are often not in a plain user's path."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
