"""Rows for external programs: a C compiler, a Docker engine, QEMU, client libraries, mypy's compiler."""

from __future__ import annotations

import errno

from harness.doctor.remedies.machine_state import MachineState
from harness.doctor.remedies.remedy import PRIVILEGED, Remedy, as_root, install, sentence
from harness.doctor.remedies.rows import (
    RemedyRow,
    always,
    any_of,
    missing,
    not_root,
    program,
    python_package,
    refused,
    too_little,
    unfit,
)
from harness.environments.causes import Cause, Missing, NotRoot, Refused, TooLittle, Unfit

_GIB = 1 << 30
COMPILER, _HEADERS, PYTHON_HEADERS = "C compiler", "headers of the C library", "headers of Python"
COPIES = "directory of compiled copies"
_ENGINE = "Docker engine"
_UNREACHED = (errno.ENOENT, errno.ECONNREFUSED)


CLOCK = (
    RemedyRow(
        "no-compiler",
        "there is no C compiler",
        missing(COMPILER),
        always(lambda here: install(here, "gcc", "libc6-dev")),
        Missing("program", COMPILER),
    ),
    RemedyRow(
        "no-headers",
        "the C compiler has no headers of the C library",
        missing(_HEADERS),
        always(lambda here: install(here, "libc6-dev")),
        Missing("header", _HEADERS),
    ),
)


def _engine(cause: Cause, here: MachineState) -> Remedy:  # noqa: ARG001
    if "dockerd" not in here.programs:
        start = () if here.systemd else ("service docker start",)
        return install(here, "docker.io", then=start)
    if here.systemd:
        return as_root(here, "systemctl start docker")
    return as_root(here, "service docker start")


DOCKER = (
    python_package("docker"),
    RemedyRow(
        "not-root",
        "the network between containers, and their disks, need root",
        not_root,
        always(lambda here: as_root(here, f"{here.harrow} run --environment docker")),
        NotRoot(),
    ),
    RemedyRow(
        "engine-named",
        "the Docker engine at `DOCKER_HOST` does not answer",
        refused(_ENGINE, *_UNREACHED, when=lambda here: bool(here.docker_host)),
        always(lambda here: sentence(f"start the engine at DOCKER_HOST ({here.docker_host}), or unset DOCKER_HOST")),
        Refused(errno.ECONNREFUSED, _ENGINE),
        {"root": True, "docker_host": "unix:///run/other.sock"},
    ),
    RemedyRow(
        "confined",
        "no Docker engine answers, and none can be started here: usually in a container",
        refused(_ENGINE, *_UNREACHED, when=lambda here: here.confined),
        PRIVILEGED,
        Refused(errno.ENOENT, _ENGINE),
        {"root": True, "bounding": 0},
    ),
    RemedyRow(
        "no-engine",
        "no Docker engine is installed",
        refused(_ENGINE, *_UNREACHED, when=lambda here: "dockerd" not in here.programs),
        _engine,
        Refused(errno.ENOENT, _ENGINE),
        {"root": True},
    ),
    RemedyRow(
        "engine-stopped",
        "the Docker engine is installed but does not run",
        refused(_ENGINE, *_UNREACHED),
        _engine,
        Refused(errno.ENOENT, _ENGINE),
        {"root": True, "programs": MachineState().programs | {"dockerd"}},
    ),
    RemedyRow(
        "engine-elsewhere",
        "the engine's containers run on another machine, or outside of this container",
        unfit(_ENGINE),
        sentence("run Harrow where the engine runs, outside of any container"),
        Unfit(_ENGINE),
        {"root": True},
    ),
)

SSH = (python_package("paramiko"),)


def _room(cause: Cause, here: MachineState) -> Remedy:  # noqa: ARG001
    assert isinstance(cause, TooLittle)
    if cause.resource == "memory":
        return sentence("run fewer VMs, or stop other programs")
    return sentence(
        f"make {cause.wanted / _GIB:.0f} GiB of space at {cause.where}, or set XDG_CACHE_HOME to a larger disk"
    )


VMS = (
    *SSH,
    program("qemu-system-x86_64", "qemu-system-x86", lean=True),
    program("mkfs.ext4", "e2fsprogs"),
    RemedyRow(
        "no-apt",
        "this machine is neither Debian nor Ubuntu, from whose packages VMs are built",
        missing("apt-get"),
        sentence("run Harrow on Debian or Ubuntu, or name your own hosts with --inventory"),
        Missing("program", "apt-get"),
        {"programs": MachineState().programs - {"apt-get"}},
    ),
    RemedyRow(
        "no-package-lists",
        "apt-get has no lists of packages",
        missing("package lists"),
        always(lambda here: as_root(here, "apt-get update")),
        Missing("package lists", "package lists"),
        {"package_lists": False},
    ),
    RemedyRow(
        "other-processor",
        "VMs are supported on x86_64 processors only",
        unfit("processor"),
        sentence("name your own hosts with --inventory"),
        Unfit("processor"),
    ),
    RemedyRow(
        "no-room",
        "there is too little memory or disk space",
        too_little(),
        _room,
        TooLittle("disk", 2 * _GIB, 0, "/home/you/.cache"),
    ),
)

AIOKAFKA = (python_package("aiokafka"),)
CONFLUENT = (python_package("confluent-kafka"),)
KCAT = (program("kcat", "kcat"),)

ZOOKEEPER = (
    python_package("kazoo"),
    RemedyRow(
        "no-zookeeper",
        "there is no ZooKeeper where Debian's package puts it, or no Java, which comes with it",
        any_of(missing("zookeeper.jar"), missing("java")),
        always(lambda here: install(here, "zookeeper")),
        Missing("file", "zookeeper.jar"),
    ),
)

COMPILED = (
    python_package("mypy"),
    python_package("setuptools"),
    RemedyRow(
        "no-compiler",
        "there is no C compiler",
        missing(COMPILER),
        always(lambda here: install(here, "gcc", "python3-dev")),
        Missing("program", COMPILER),
    ),
    RemedyRow(
        "no-headers",
        "the C compiler has no headers of Python, or none of the C library",
        missing(PYTHON_HEADERS),
        always(lambda here: install(here, "python3-dev")),
        Missing("header", PYTHON_HEADERS),
    ),
    RemedyRow(
        "no-cache",
        "this user may not write to the cache, or it is mounted `noexec`",
        unfit(COPIES),
        sentence("set XDG_CACHE_HOME to a directory that you may write to, on a file system that is not `noexec`"),
        Unfit(COPIES),
    ),
)
