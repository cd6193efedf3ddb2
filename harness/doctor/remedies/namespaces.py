"""Rows for network namespaces: causes that keep a process from making or connecting them."""

from __future__ import annotations

import errno

from harness.doctor.remedies.machine_state import ALL_CAPABILITIES, CAP_SYS_ADMIN, MachineState
from harness.doctor.remedies.remedy import PRIVILEGED, UNFILTERED, Remedy, as_root, sentence, set_kernel
from harness.doctor.remedies.rows import RemedyRow, always, any_of, refused
from harness.environments.causes import Cause, Refused

_NEW_USER, _NEW_NETWORK = "unshare(CLONE_NEWUSER)", "unshare(CLONE_NEWNET)"
_USERS_MAX, _NETWORKS_MAX = "user.max_user_namespaces", "user.max_net_namespaces"
_ENOUGH = 10_000
_CLONE = "kernel.unprivileged_userns_clone"
_APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"
_CONFINED = {"bounding": ALL_CAPABILITIES & ~CAP_SYS_ADMIN, "filtered": True}


def _raise_limit(here: MachineState, name: str) -> Remedy:
    return set_kernel(here, name, max(_ENOUGH, 2 * (here.setting(name) or 0)))


def _restricted(here: MachineState) -> bool:
    return here.setting(_APPARMOR) == 1


def _veth(cause: Cause, here: MachineState) -> Remedy:  # noqa: ARG001
    if "veth" in here.modules and here.may_load_modules:
        return as_root(here, "modprobe veth")
    return sentence("boot a kernel with the module `veth`; after an upgrade of the kernel: reboot")


ROWS = (
    RemedyRow(
        "confined",
        "even root lacks capabilities here: usually in a container",
        any_of(
            refused(_NEW_USER, errno.EPERM, when=lambda here: here.confined),
            refused(_NEW_NETWORK, errno.EPERM, when=lambda here: here.confined),
        ),
        PRIVILEGED,
        Refused(errno.EPERM, _NEW_USER),
        _CONFINED,
    ),
    RemedyRow(
        "user-namespaces-forbidden",
        f"`{_CLONE}` is 0",
        refused(_NEW_USER, errno.EPERM, when=lambda here: here.setting(_CLONE) == 0),
        always(lambda here: set_kernel(here, _CLONE, 1)),
        Refused(errno.EPERM, _NEW_USER),
        {"settings": {_CLONE: 0}},
    ),
    RemedyRow(
        "user-namespaces-restricted",
        f"AppArmor restricts user namespaces: `{_APPARMOR}` is 1",
        any_of(
            refused(_NEW_USER, errno.EPERM, errno.EACCES, when=_restricted),
            refused("/proc/self/", errno.EPERM, errno.EACCES, when=_restricted),
        ),
        always(lambda here: set_kernel(here, _APPARMOR, 0)),
        Refused(errno.EACCES, "/proc/self/setgroups"),
        {"settings": {_APPARMOR: 1}},
    ),
    RemedyRow(
        "user-namespaces-used-up",
        f"`{_USERS_MAX}` allows no more user namespaces",
        refused(_NEW_USER, errno.ENOSPC),
        always(lambda here: _raise_limit(here, _USERS_MAX)),
        Refused(errno.ENOSPC, _NEW_USER),
        {"settings": {_USERS_MAX: 0}},
    ),
    RemedyRow(
        "network-namespaces-used-up",
        f"`{_NETWORKS_MAX}` allows no more network namespaces",
        refused(_NEW_NETWORK, errno.ENOSPC),
        always(lambda here: _raise_limit(here, _NETWORKS_MAX)),
        Refused(errno.ENOSPC, _NEW_NETWORK),
        {"settings": {_NETWORKS_MAX: 0}},
    ),
    RemedyRow(
        "filtered",
        "a filter of system calls (seccomp) forbids new namespaces",
        any_of(
            refused(_NEW_USER, errno.EPERM, when=lambda here: here.filtered),
            refused(_NEW_NETWORK, errno.EPERM, when=lambda here: here.filtered),
        ),
        UNFILTERED,
        Refused(errno.EPERM, _NEW_USER),
        {"filtered": True},
    ),
    RemedyRow(
        "chroot",
        "the kernel allows no user namespace to a process in a chroot",
        refused(_NEW_USER, errno.EPERM),
        always(lambda here: as_root(here, f"{here.harrow} run")),
        Refused(errno.EPERM, _NEW_USER),
    ),
    RemedyRow(
        "network-not-ours",
        "root may not administer networks here: usually in a container",
        any_of(refused("netlink ", errno.EPERM), refused("/proc/sys/net/", errno.EPERM, errno.EACCES)),
        PRIVILEGED,
        Refused(errno.EPERM, "netlink RTM_NEWLINK"),
        {"root": True},
    ),
    RemedyRow(
        "proc-read-only",
        "`/proc/sys` is read-only: usually in a container",
        refused("/proc/sys/net/", errno.EROFS),
        PRIVILEGED,
        Refused(errno.EROFS, "/proc/sys/net/ipv4/ip_forward"),
        _CONFINED,
    ),
    RemedyRow(
        "no-veth",
        "the kernel has not loaded its module `veth`",
        refused("netlink RTM_NEWLINK", errno.EOPNOTSUPP),
        _veth,
        Refused(errno.EOPNOTSUPP, "netlink RTM_NEWLINK"),
        {"modules": frozenset({"veth"})},
    ),
)
"""Order matters: causes that cannot be changed from within come first; a chroot, which cannot be detected, last."""
