"""The reduced machines of the matrix: what each has and lacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Device = Literal["open", "closed", "absent"]
Release = Literal["bookworm", "trixie", "sid"]

DEBIAN_12: Release = "bookworm"
DEBIAN_13: Release = "trixie"
NEWEST: Release = "sid"


@dataclass(frozen=True)
class Row:
    """A machine, and the account and settings of its new user."""

    name: str
    description: str  # what is special about it, for readers of the table
    release: Release = DEBIAN_12
    python: str = "python3"
    packages: tuple[str, ...] = ()  # installed beside those that the README asks for
    tun: Device = "closed"
    fuse: Device = "closed"
    user_namespaces: bool = True
    ipv6: bool = True
    account: Literal["newuser", "root"] = "newuser"
    home: Literal["writable", "read-only"] = "writable"
    directory: str = "/home/newuser"  # the directory of the clone
    umask: str = "022"
    language: str = "C.UTF-8"
    columns: int | None = None
    load: int = 0  # processes that keep the processors busy meanwhile
    archives: bool = False  # an archive of Java's classes is made after the check; one row shows it
    container: tuple[str, ...] | None = None  # arguments of `docker run`; None: no container
    expected_absent: tuple[str, ...] = field(default=("java",))  # programs that must not be there

    @property
    def alone(self) -> bool:
        """Whether it would disturb others that run at the same time."""
        return self.load > 0


_OPEN: Device = "open"

ROWS = (
    Row(
        "plain",
        "Debian 12 as installed: only root may open `/dev/net/tun` and `/dev/fuse`; no Java, no compiler",
        archives=True,
    ),
    Row("no-devices", "neither `/dev/net/tun` nor `/dev/fuse` exists", tun="absent", fuse="absent"),
    Row("no-user-namespaces", "`user.max_user_namespaces` is 0, so proxies cut links", user_namespaces=False),
    Row(
        "no-java",
        "no Java, but everything else that Harrow uses: both devices open to all, fuse3, a C compiler",
        packages=("fuse3", "libfuse3-3", "gcc", "libc6-dev", "e2fsprogs", "iproute2"),
        tun=_OPEN,
        fuse=_OPEN,
    ),
    Row("debian-13", "Debian 13 with its Python", release=DEBIAN_13),
    Row("debian-sid", "Debian's newest release with its Python", release=NEWEST),
    Row("newest-python", "the newest Python that Debian packages", release=NEWEST, python="python3.15"),
    Row(
        "root-in-container",
        "root in a Docker container with default capabilities",
        account="root",
        directory="/root",
        container=(),
    ),
    Row(
        "awkward",
        "home read-only, a path with blanks, umask 077, `LANG=C`, no terminal, 80 columns",
        home="read-only",
        directory="/srv/a path with blanks",
        umask="077",
        language="C",
        columns=80,
    ),
    Row(
        "small",
        "one core and 3 GB, as a plain user in a container",
        container=("--cpuset-cpus=0", "--memory=3g", "--memory-swap=3g"),
    ),
    Row("no-ipv6", "a kernel without IPv6", ipv6=False),
    Row("load-of-10", "ten other processes that keep the processors busy once Harrow is installed", load=10),
)


def named(name: str) -> Row:
    """Return the row of that name. Raises `KeyError`."""
    return {row.name: row for row in ROWS}[name]
