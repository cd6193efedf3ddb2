"""Rows for a device file that cannot be opened."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from harness.doctor.remedies.commands import as_root, sentence
from harness.doctor.remedies.containers import with_device
from harness.doctor.remedies.here import ALL_CAPABILITIES, CAP_SYS_ADMIN, MachineState
from harness.doctor.remedies.rows import RemedyRow, always, refused
from harness.environments.causes import Refused

_NO_DEVICE = (errno.ENODEV, errno.ENXIO)


def device_rows(path: str, driver: str, module: str, make: Sequence[str], use: Sequence[str]) -> tuple[RemedyRow, ...]:
    """Rows for a character device, `driver` as /proc/misc names it.

    `make` are root's commands that make its file, `use` those that give users access once the driver has made it.
    """
    outside = sentence(f"outside of the container, on the machine: `sudo chmod a+rw {path}`")

    def has_driver(here: MachineState) -> bool:
        return driver in here.drivers

    def loadable(here: MachineState) -> bool:
        return driver not in here.drivers and module in here.modules and here.may_load_modules

    def unknown(here: MachineState) -> bool:
        return not has_driver(here) and not loadable(here)

    return (
        RemedyRow(
            f"{driver}-closed-outside",
            f"this user may not open `{path}`, and its owner is not in this user namespace",
            refused(path, errno.EACCES, when=lambda here: path in here.unowned),
            outside,
            Refused(errno.EACCES, path),
            {"own_users": True, "unowned": frozenset({path})},
        ),
        RemedyRow(
            f"{driver}-closed",
            f"this user may not open `{path}`",
            refused(path, errno.EACCES),
            always(lambda here: as_root(here, f"chmod a+rw {path}")),
            Refused(errno.EACCES, path),
        ),
        RemedyRow(
            f"{driver}-forbidden",
            f"the container may not use `{path}`",
            refused(path, errno.EPERM),
            with_device(path),
            Refused(errno.EPERM, path),
            {"root": True, "bounding": ALL_CAPABILITIES & ~CAP_SYS_ADMIN},
        ),
        RemedyRow(
            f"{driver}-not-given",
            f"the container has no `{path}`",
            refused(path, errno.ENOENT, when=lambda here: not here.may_make_devices),
            with_device(path),
            Refused(errno.ENOENT, path),
            {"bounding": ALL_CAPABILITIES & ~CAP_SYS_ADMIN},
        ),
        RemedyRow(
            f"{driver}-absent",
            f"there is no `{path}`, but the kernel has its driver",
            refused(path, errno.ENOENT, when=has_driver),
            always(lambda here: as_root(here, *make)),
            Refused(errno.ENOENT, path),
        ),
        RemedyRow(
            f"{driver}-not-loaded",
            f"the kernel has not loaded its module `{module}`",
            refused(path, errno.ENOENT, *_NO_DEVICE, when=loadable),
            always(lambda here: as_root(here, f"modprobe {module}", *use)),
            Refused(errno.ENOENT, path),
            {"drivers": frozenset(), "modules": frozenset({module})},
        ),
        RemedyRow(
            f"{driver}-unknown",
            f"the kernel has no driver `{module}`, neither loaded nor as a module",
            refused(path, errno.ENOENT, *_NO_DEVICE, when=unknown),
            sentence(f"boot a kernel with the module `{module}`; after an upgrade of the kernel: reboot"),
            Refused(errno.ENOENT, path),
            {"drivers": frozenset()},
        ),
    )
