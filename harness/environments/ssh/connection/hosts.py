"""Hosts with their SSH settings, and the inventory: a TOML file that lists the hosts of a cluster.

user = "admin"              # the default of all hosts, like all that follows
key = "~/.ssh/id_ed25519"
sudo = true

[[host]]
address = "10.0.0.11"       # or "name" or "name:port"

[[host]]
address = "10.0.0.12:2222"
peer-address = "192.168.7.12"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from common.names import SpecError, unknown

SSH_PORT = 22


@dataclass(frozen=True)
class SshHost:
    """A machine with an SSH server."""

    name: str  # the user's name for it
    address: str  # where its SSH server listens
    port: int = SSH_PORT
    user: str = "root"
    key: Path | None = None  # private key; None: those of the SSH agent and of the usual files
    sudo: bool = False  # whether commands run as root by `sudo -n`
    peer_address: str = ""  # its address for the other machines; empty: `address`
    directory: str = "/var/lib/harrow"  # Harrow's directory on it
    python: str = "python3"
    known_hosts: Path | None = None  # besides the user's own
    device: str = ""  # only of our own VMs: the disk for the node's data
    fork_server: str = ""  # only of our own VMs: the socket of the fork server

    @property
    def peer(self) -> str:
        """Its address for the other machines."""
        return self.peer_address or self.address

    def to_json(self) -> dict[str, object]:
        """Convert a host to JSON values, for the journal."""
        return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(self).items()}


def host_from_json(data: Mapping[str, Any]) -> SshHost:
    """Convert the JSON values of `SshHost.to_json` back to a host."""
    values = {field.name: data[field.name] for field in fields(SshHost)}
    for key in ("key", "known_hosts"):
        values[key] = None if values[key] is None else Path(values[key])
    return SshHost(**values)


_PATHS: Final = ("key", "known_hosts")
_KNOWN: Final = {field.name.replace("_", "-") for field in fields(SshHost)} - {"device"}
_TYPES: Final[Mapping[str, type]] = {"port": int, "sudo": bool}


def load_inventory(path: Path) -> Sequence[SshHost]:
    """Read an inventory, hosts in order. Raises `SpecError`."""
    try:
        raw = tomllib.loads(path.read_text())
    except OSError as error:
        raise SpecError(f"inventory: expected a readable file, found {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"inventory: expected TOML in {path}, found: {error}") from error
    listed = raw.pop("host", None)
    if not isinstance(listed, list) or not listed or not all(isinstance(one, dict) for one in listed):
        raise SpecError(f"inventory: expected at least one [[host]] in {path}, found none")
    hosts = [_host(path, {**raw, **one}) for one in listed]
    for number, host in enumerate(hosts):
        for other in hosts[:number]:
            if host.peer == other.peer:
                raise SpecError(f"inventory: expected each host once in {path}, found {host.peer} twice")
    return hosts


def _host(path: Path, given: Mapping[str, Any]) -> SshHost:
    for key in sorted(given.keys() - _KNOWN):
        raise SpecError(f"inventory: {path}: {unknown(key, sorted(_KNOWN), 'a setting of a host')}")
    for key, value in given.items():
        wanted = _TYPES.get(key, str)
        if type(value) is not wanted:
            raise SpecError(f"inventory: {key}: expected {_TYPE_NAMES[wanted]} in {path}, found {value!r}")
    address = given.get("address", "")
    if not address:
        raise SpecError(f"inventory: expected an address of each host in {path}, found a host without")
    values = {key.replace("-", "_"): value for key, value in given.items()}
    for key in _PATHS:
        if key in values:
            values[key] = _file(path, key, values[key])
    name, colon, port = address.rpartition(":")
    if colon and port.isdigit() and ":" not in name:
        values |= {"address": name, "port": int(port)}
    host = SshHost(**{"name": address, **values})
    if not 0 < host.port < 1 << 16:
        raise SpecError(f"inventory: port: expected a number from 1 to 65535 in {path}, found {host.port}")
    if not host.directory.startswith("/"):
        raise SpecError(f"inventory: directory: expected an absolute path in {path}, found {host.directory!r}")
    return host


def _file(path: Path, key: str, value: str) -> Path:
    """A file named in the inventory, relative to it."""
    file = path.parent / Path(value).expanduser()
    if not file.is_file():
        raise SpecError(f"inventory: {key.replace('_', '-')}: expected a file, found none at {file}")
    return file


_TYPE_NAMES: Final = {int: "a whole number", bool: "true or false", str: "a text"}


def hosts_for_nodes(path: Path, count: int) -> Sequence[SshHost]:
    """The first `count` hosts of an inventory. Raises `SpecError`."""
    hosts = load_inventory(path)
    if len(hosts) < count:
        raise SpecError(
            f"inventory: expected a host for each of {count} nodes in {path}, found {len(hosts)}; "
            f"add hosts, or lower --brokers or --controllers"
        )
    return hosts[:count]
