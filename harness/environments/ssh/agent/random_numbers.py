"""The kernel's random numbers on a machine that was restored from a memory which others were restored from, too."""

from __future__ import annotations

import fcntl
import os

_RNDRESEEDCRNG = 0x5207


def stir_random_numbers(entropy: bytes) -> None:
    """Have the kernel draw from here on what no other machine draws (random(4)). Needs root."""
    descriptor = os.open("/dev/urandom", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, entropy)
        fcntl.ioctl(descriptor, _RNDRESEEDCRNG)
    finally:
        os.close(descriptor)
