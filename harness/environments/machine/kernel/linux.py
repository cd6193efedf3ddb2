"""System calls that Python 3.11 does not provide: namespaces, mounts, loop devices, death signals.

Every function raises `OSError` with the kernel's error number.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import struct
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

_NAMESPACES = {"CLONE_NEWUSER": CLONE_NEWUSER, "CLONE_NEWNS": CLONE_NEWNS, "CLONE_NEWNET": CLONE_NEWNET}
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_LOOP_CTL_GET_FREE = 0x4C82
_LOOP_CONFIGURE = 0x4C0A
_LO_FLAGS_AUTOCLEAR = 4
_EXT4_IOC_SHUTDOWN = 0x8004587D
_SHUTDOWN_WITHOUT_LOG_FLUSH = 2
_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000

_libc = ctypes.CDLL("libc.so.6", use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def unshare(flags: int) -> None:
    """Move this (single-threaded) process into new namespaces."""
    _check(_libc.unshare(flags), f"unshare({'|'.join(name for name, flag in _NAMESPACES.items() if flags & flag)})")


def enter_namespace(descriptor: int, kind: int) -> None:
    """Move this thread into the namespace of that kind that the descriptor refers to."""
    _check(_libc.setns(descriptor, kind), "setns")


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send this process a signal when the thread that started it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl")


def mount(source: str, target: Path | str, kind: str, flags: int = 0, options: str = "") -> None:
    """Mount a file system; the kernel validates kind and options."""
    _check(
        _libc.mount(
            source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode() or None
        ),
        str(target),
    )


def unmount(target: Path | str, *, lazily: bool = False) -> None:
    """Unmount without force: EBUSY while a file is open there; `lazily` defers it until none is."""
    _check(_libc.umount2(os.fsencode(target), _MNT_DETACH if lazily else 0), str(target))


def is_mounted(mount_point: Path) -> bool:
    """Whether something is mounted there, in this process's view."""
    mounts = Path("/proc/self/mountinfo").read_bytes().splitlines()
    escaped = re.compile(rb"\\([0-7]{3})")
    names = (escaped.sub(lambda octal: bytes([int(octal[1], 8)]), line.split()[4]) for line in mounts)
    return os.fsencode(mount_point) in names


def keep_mounts_to_ourselves() -> None:
    """Enter a new private mount namespace. Its mounts are invisible outside, and end with its last process."""
    unshare(CLONE_NEWNS)
    mount("none", "/", "none", MS_REC | MS_PRIVATE)


def write_setting(path: str, value: str) -> None:
    """Write to a kernel file. Errors of open and of write both name the file."""
    try:
        Path(path).write_text(value)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def become_owner_of_namespaces(flags: int) -> None:
    """Enter a user namespace in which we keep our user id but hold all capabilities, and new namespaces in it.

    A process started from here the usual way has no capabilities: for it nothing has changed.
    """
    user, group = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER | flags)
    write_setting("/proc/self/setgroups", "deny")
    write_setting("/proc/self/uid_map", f"{user} {user} 1")
    write_setting("/proc/self/gid_map", f"{group} {group} 1")


def attach_loop_device(image: Path) -> tuple[str, int]:
    """Attach an image to a free loop device, which is freed by the kernel when its last user is gone.

    Returns the device's path and an open descriptor that keeps it attached.
    """
    while True:
        control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
        try:
            number = fcntl.ioctl(control, _LOOP_CTL_GET_FREE)
        finally:
            os.close(control)
        device = f"/dev/loop{number}"
        try:
            return device, _attach(device, image)
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENXIO):  # another process took it: try the next free one
                raise


def _attach(device: str, image: Path) -> int:
    descriptor = os.open(device, os.O_RDWR | os.O_CLOEXEC)
    try:
        backing = os.open(image, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.ioctl(descriptor, _LOOP_CONFIGURE, _loop_configuration(backing, image))
        finally:
            os.close(backing)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _loop_configuration(backing: int, image: Path) -> bytes:
    """`struct loop_config`: descriptor, block size, `struct loop_info64`, reserved bytes."""
    name = os.fsencode(image)[-63:]
    information = struct.pack(
        "<QQQQQIIII64s64s32sQQ", 0, 0, 0, 0, 0, 0, 0, 0, _LO_FLAGS_AUTOCLEAR, name, b"", b"", 0, 0
    )
    return struct.pack("<II", backing, 0) + information + bytes(64)


def open_tun(name: str) -> int:
    """Create an interface whose packets are read from and written to a descriptor, in this network namespace."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def shut_down_file_system(mount_point: Path) -> None:
    """Stop an ext4 file system as a loss of power would: nothing more reaches the disk, not even the journal."""
    descriptor = os.open(mount_point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _EXT4_IOC_SHUTDOWN, struct.pack("I", _SHUTDOWN_WITHOUT_LOG_FLUSH))
    finally:
        os.close(descriptor)
