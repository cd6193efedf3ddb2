"""Rows for disks that lose unsynced data: file systems in user space, and ext4 images on loop devices."""

from __future__ import annotations

import errno

from harness.doctor.remedies.machine_state import ALL_CAPABILITIES, CAP_SYS_ADMIN
from harness.doctor.remedies.remedy import GAINING, OF_THE_MACHINE, PRIVILEGED, as_root, confined, sentence
from harness.doctor.remedies.rows import (
    RemedyRow,
    always,
    any_of,
    device_rows,
    missing,
    not_root,
    program,
    python_package,
    refused,
)
from harness.environments.causes import Missing, NotRoot, Refused

_CONFINED = {"bounding": ALL_CAPABILITIES & ~CAP_SYS_ADMIN}
_ROOT_CONFINED = {**_CONFINED, "root": True}
_LOOP_CONTROL, _LOOP = "/dev/loop-control", "/dev/loop"
_MAKE_LOOPS = (
    f"{{ [ -e {_LOOP_CONTROL} ] || mknod -m 660 {_LOOP_CONTROL} c 10 237; }}",
    f"for n in $(seq 0 63); do [ -e {_LOOP}$n ] || mknod -m 660 {_LOOP}$n b 7 $n || exit; done",
)

FUSE = (
    program("fusermount3", "fuse3"),
    python_package("mfusepy"),
    RemedyRow(
        "no-mtab",
        "there is no `/etc/mtab`, without which `fusermount3` does not unmount",
        missing("/etc/mtab"),
        always(lambda here: as_root(here, "ln -s /proc/self/mounts /etc/mtab")),
        Missing("file", "/etc/mtab"),
    ),
    *device_rows(
        "/dev/fuse",
        "fuse",
        "fuse",
        make=("mknod -m 666 /dev/fuse c 10 229",),
        use=("chmod a+rw /dev/fuse",),
    ),
    RemedyRow(
        "confined",
        "even root may not mount here: usually in a container",
        refused("mount", errno.EPERM, when=confined),
        PRIVILEGED,
        Refused(errno.EPERM, "mount of a FUSE file system"),
        _CONFINED,
    ),
    RemedyRow(
        "no-new-privileges",
        "`fusermount3` cannot become root: this process runs with `no-new-privileges`",
        refused("mount", errno.EPERM, when=lambda here: here.no_new_privileges and not here.root),
        GAINING,
        Refused(errno.EPERM, "mount of a FUSE file system"),
        {"no_new_privileges": True},
    ),
    RemedyRow(
        "fusermount-gains-nothing",
        "`fusermount3` does not run as root (its set-user-id bit is off)",
        refused("mount", errno.EPERM, when=lambda here: not here.fusermount_gains and not here.root),
        always(lambda here: as_root(here, "chmod u+s $(command -v fusermount3)")),
        Refused(errno.EPERM, "mount of a FUSE file system"),
        {"fusermount_gains": False},
    ),
)

EXT4 = (
    RemedyRow(
        "not-root",
        "loop devices and mounts need root",
        not_root,
        always(lambda here: as_root(here, f"{here.harrow} run")),
        NotRoot(),
    ),
    program("mkfs.ext4", "e2fsprogs", root=True),
    RemedyRow(
        "confined",
        "even root may not mount, or has no loop devices here: usually in a container",
        any_of(
            refused("unshare(CLONE_NEWNS)", errno.EPERM, when=confined),
            refused(_LOOP, errno.EPERM, errno.ENOENT, when=confined),
        ),
        PRIVILEGED,
        Refused(errno.EPERM, "unshare(CLONE_NEWNS)"),
        _ROOT_CONFINED,
    ),
    RemedyRow(
        "in-user-namespace",
        "loop devices need the root of the machine, and this is the root of a user namespace",
        refused("", errno.EPERM, errno.EACCES, errno.ENOENT, when=lambda here: here.own_users),
        OF_THE_MACHINE,
        Refused(errno.EACCES, _LOOP_CONTROL),
        {"root": True, "own_users": True},
    ),
    RemedyRow(
        "loop-forbidden",
        "the container may not use loop devices",
        refused(_LOOP, errno.EPERM),
        PRIVILEGED,
        Refused(errno.EPERM, _LOOP_CONTROL),
        {"root": True},
    ),
    RemedyRow(
        "loop-absent",
        f"there is no `{_LOOP_CONTROL}`, or no file for a free loop device, but the kernel has their driver",
        refused(_LOOP, errno.ENOENT, when=lambda here: "loop-control" in here.drivers),
        always(lambda here: as_root(here, *_MAKE_LOOPS)),
        Refused(errno.ENOENT, _LOOP_CONTROL),
        {"root": True},
    ),
    RemedyRow(
        "loop-not-loaded",
        "the kernel has not loaded its module `loop`",
        refused(
            _LOOP,
            errno.ENOENT,
            errno.ENODEV,
            errno.ENXIO,
            when=lambda here: "loop" in here.modules and here.may_load_modules,
        ),
        always(lambda here: as_root(here, "modprobe loop")),
        Refused(errno.ENOENT, _LOOP_CONTROL),
        {"root": True, "drivers": frozenset(), "modules": frozenset({"loop"})},
    ),
    RemedyRow(
        "loop-unknown",
        "the kernel has no driver `loop`, neither loaded nor as a module",
        refused(_LOOP, errno.ENOENT, errno.ENODEV, errno.ENXIO),
        sentence("boot a kernel with the module `loop`; after an upgrade of the kernel: reboot"),
        Refused(errno.ENOENT, _LOOP_CONTROL),
        {"root": True, "drivers": frozenset()},
    ),
)
