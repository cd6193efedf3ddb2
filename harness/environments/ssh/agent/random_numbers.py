"""Reseeds the kernel's random numbers on a VM: all VMs restored from one template would draw the same."""

from __future__ import annotations

import fcntl
import os

_RNDRESEEDCRNG = 0x5207


def stir_random_numbers(entropy: bytes) -> None:
    """Add entropy and reseed the kernel's random numbers (random(4)). Needs root."""
    descriptor = os.open("/dev/urandom", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, entropy)
        fcntl.ioctl(descriptor, _RNDRESEEDCRNG)
    finally:
        os.close(descriptor)
