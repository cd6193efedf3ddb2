"""Examines a machine for Python, packages and mechanisms, without changing anything on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from harness.environments.base import EnvironmentFailed

if TYPE_CHECKING:
    from harness.environments.ssh.connection.ssh import SshConnection

PYTHON_AT_LEAST = (3, 11)

_SCRIPT = r"""
PATH=$PATH:/usr/sbin:/sbin; export PATH
echo "user $(id -u)"
echo "python $("$1" -c 'import sys, platform; print(*sys.version_info[:2], platform.machine())' 2>/dev/null)"
"$1" -c 'import crc32c' 2>/dev/null && echo "has crc32c"
tries() { unshare -n /bin/sh -c "ip link set lo up; $1" >/dev/null 2>&1; }
tries 'nft add table inet probe' && echo "has nft"
tries 'iptables -t raw -A PREROUTING -s 192.0.2.1 -j DROP' && echo "has iptables"
tries 'tc qdisc add dev lo root netem delay 1ms' && echo "has netem"
[ -e /dev/loop-control ] && command -v mkfs.ext4 >/dev/null && echo "has ext4"
[ -e /dev/fuse ] && command -v fusermount3 >/dev/null && echo "has fuse"
ls "$2/packages" 2>/dev/null | sed 's/^/package /'
true
"""
"""Rules and queues are tried in a new network namespace, which ends with the probe."""


@dataclass(frozen=True)
class Facts:
    """The features of a machine, before anything is changed there."""

    python: tuple[int, int]
    machine: str  # processor, as Python calls it
    has: frozenset[str]  # of "crc32c", "nft", "iptables", "netem", "ext4", "fuse"
    packages: frozenset[str]  # digests of the installed ones
    harness_address: str  # ours, as its SSH server sees it
    ssh_port: int  # of its SSH server, as it sees it


def facts_to_json(facts: Facts) -> dict[str, object]:
    """Convert facts to JSON values, for the cache."""
    return {key: sorted(value) if isinstance(value, frozenset) else value for key, value in asdict(facts).items()}


def facts_from_json(data: Mapping[str, Any]) -> Facts:
    """Convert the JSON values of `facts_to_json` back to facts."""
    major, minor = data["python"]
    sets = {name: frozenset(data[name]) for name in ("has", "packages")}
    return Facts(**{**data, **sets, "python": (major, minor)})


def examine(connection: SshConnection) -> Facts:
    """Examine a machine. Raises `EnvironmentFailed`, with the reason, when it cannot be a node."""
    host = connection.host
    become = "sudo -n " if host.sudo else ""
    command = f'echo "ends $SSH_CONNECTION"; exec {become}sh -s {host.python} {host.directory}'
    answer = connection.run(command, _SCRIPT.encode())
    if answer.status != 0 and host.sudo:
        raise EnvironmentFailed(
            f"expected {host.user} to be root on host {host.name} by sudo without a password, "
            f"found: {answer.complaint}; add '{host.user} ALL=(ALL) NOPASSWD: ALL' to its sudoers"
        )
    lines = [line.split(maxsplit=1) for line in answer.output.splitlines()]
    values = {words[0]: words[1] for words in lines if len(words) == 2 and words[0] != "has"}
    if values.get("user") != "0":
        raise EnvironmentFailed(
            f"expected to be root on host {host.name}, found user {host.user}; add `sudo = true` to the inventory"
        )
    version = values.get("python", "").split()
    wanted = ".".join(map(str, PYTHON_AT_LEAST))
    if len(version) != 3:
        raise EnvironmentFailed(
            f"expected Python {wanted} as {host.python} on host {host.name}, found none; "
            f"apt-get install python3 there, or name another in the inventory (python)"
        )
    python = int(version[0]), int(version[1])
    if python < PYTHON_AT_LEAST:
        raise EnvironmentFailed(
            f"expected Python {wanted} or newer as {host.python} on host {host.name}, found "
            f"{'.'.join(version[:2])}; name a newer one in the inventory (python)"
        )
    ends = values.get("ends", "").split()
    if len(ends) != 4:
        raise EnvironmentFailed(f"expected host {host.name} to report its end of the connection, found {ends}")
    has = frozenset(words[1] for words in lines if words[0] == "has" and len(words) == 2)
    packages = frozenset(words[1] for words in lines if words[0] == "package" and len(words) == 2)
    return Facts(python, version[2], has, packages, ends[0], int(ends[3]))


def common(facts: Iterable[Facts]) -> frozenset[str]:
    """The features that all machines have."""
    return frozenset.intersection(*(one.has for one in facts))
