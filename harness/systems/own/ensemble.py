"""The members of a ZooKeeper ensemble: what their machine needs for one, its configuration, and how it is started."""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness.environments.base import Addresses, EnvironmentFailed, NodePlan
from harness.environments.causes import Missing

if TYPE_CHECKING:
    from harness.environments.ssh.connection.hosts import SshHost
    from harness.spec.spec import Spec

JAR = Path("/usr/share/java/zookeeper.jar")
"""Of Debian's package `zookeeper`."""

_LOGGER = Path("/usr/share/java/slf4j-simple.jar")
"""Writes the log to standard error; a member runs without it, too, and then has no log."""

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_VERSION_COMMAND = ("java", "-cp", str(JAR), "org.apache.zookeeper.version.VersionInfoMain")
_PROBE_TIMEOUT_S = 60.0

CLIENT_PORT, PEER_PORT, VOTE_PORT = LISTENERS = ("ZOOKEEPER", "PEER", "VOTE")
"""Where clients, followers and voters connect to a member."""

TICK_MS = 250
_JOIN_TICKS = 40
"""A follower has ten seconds to join a leader, and to get all that it lacks."""

_SILENT_TICKS = 12
"""A leader and a follower give each other up after three seconds of silence, as brokers and controllers do."""

_SESSION_MS_MAX = 60_000

_JVM = (
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dzookeeper.jmx.log4j.disable=true",
    # Members that were apart would otherwise wait for up to a minute before they try to elect a leader again.
    "-Dzookeeper.fastleader.maxNotificationInterval=1000",
    "-Dzookeeper.cnxTimeout=1000",
)
"""Small and quick to start: a member of a run holds a few hundred znodes."""

CONFIG_NAME = "zoo.cfg"
MEMBER_NAME = "member.json"


def version(spec: Spec) -> str:
    """Require what the ensemble of a run needs where its members run, and ask for the version of ZooKeeper.

    Starts nothing. Raises `EnvironmentFailed`.
    """
    if spec.environment != "ssh":
        need_ensemble()
        return version_here()
    from harness.environments.ssh import selection

    selection.capabilities_of(spec)  # reports other errors of the hosts first
    _need_kazoo()
    members = selection.hosts_of(spec)[spec.brokers :]
    with ThreadPoolExecutor(len(members)) as pool:
        return ", ".join(dict.fromkeys(pool.map(_version_on, members)))


def need_ensemble() -> None:
    """Require what an ensemble needs of this machine. Raises `EnvironmentFailed`."""
    _need_kazoo()
    _need(found=shutil.which("java") is not None, cause=Missing("program", "java"), what="Java")
    _need(found=JAR.exists(), cause=Missing("file", JAR.name), what=str(JAR))


@cache
def version_here() -> str:
    """The version of this machine's ZooKeeper. Raises `EnvironmentFailed`."""
    need_ensemble()
    asked = subprocess.run(_VERSION_COMMAND, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False)
    if known := _version_in(asked.stdout):
        return known
    found = (asked.stderr or asked.stdout).strip().splitlines()[-1:] or ["no answer"]
    raise EnvironmentFailed(f"expected ZooKeeper to tell its version, found: {found[0]}")


@cache
def _version_on(host: SshHost) -> str:
    """The version of a host's ZooKeeper. Raises `EnvironmentFailed`."""
    from harness.environments.ssh.connection.ssh import SshConnection

    with closing(SshConnection(host)) as connection:
        answer = connection.run(shlex.join(_VERSION_COMMAND), as_root=True, timeout_s=_PROBE_TIMEOUT_S)
    if known := _version_in(answer.output):
        return known
    raise EnvironmentFailed(
        f"expected ZooKeeper on host {host.name}, for a member of the ensemble, found: {answer.complaint}; "
        "apt-get install zookeeper there"
    )


def _version_in(output: str) -> str:
    """The version in what ZooKeeper prints; empty if it prints none."""
    words = output.partition("version ")[2].split()
    return f"ZooKeeper {words[0]}" if words else ""


def _need_kazoo() -> None:
    _need(found=importlib.util.find_spec("kazoo") is not None, cause=Missing("Python package", "kazoo"), what="kazoo")


def _need(*, found: bool, cause: Missing, what: str) -> None:
    from harness.doctor.remedies.table import explain

    if not found:
        known = explain("zookeeper", cause)
        advice = f"; {known.remedy.text}" if known is not None else ""
        raise EnvironmentFailed(f"expected {what} for an ensemble of ZooKeeper, found none{advice}", cause)


@dataclass(frozen=True)
class MemberConfig:
    """How to run one member, and where its sidecar finds it and is found."""

    member: int
    """Its number in the ensemble, from 1 on."""

    command: Sequence[str]
    data: str
    socket: str
    address: tuple[str, int]

    def dumps(self) -> str:
        """Format as JSON."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def load(cls, path: Path) -> MemberConfig:
        """Read a file written by `dumps`."""
        raw = json.loads(path.read_text())
        host, port = raw.pop("address")
        return cls(address=(host, port), **raw)


def configure(plan: NodePlan, members: Sequence[NodePlan], addresses: Addresses) -> None:
    """Write the member's configuration, and that of its sidecar, into its directory."""
    host, port = addresses.bind(plan.node_id, CLIENT_PORT)
    settings: Mapping[str, object] = {
        "dataDir": plan.data.absolute(),
        "clientPort": port,
        "clientPortAddress": host,
        "tickTime": TICK_MS,
        "initLimit": _JOIN_TICKS,
        "syncLimit": _SILENT_TICKS,
        "minSessionTimeout": 2 * TICK_MS,
        "maxSessionTimeout": _SESSION_MS_MAX,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr",
    }
    numbers = {member.node_id: number for number, member in enumerate(members, 1)}
    if len(members) > 1:
        settings = {**settings, **{f"server.{numbers[m.node_id]}": _server(plan, m, addresses) for m in members}}
    (plan.directory / CONFIG_NAME).write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    config = plan.own_directory / CONFIG_NAME
    command = ("java", *_JVM, "-cp", f"{JAR}:{_LOGGER}", _MAIN, str(config))
    member = MemberConfig(
        numbers[plan.node_id], command, str(plan.data.absolute()), str(plan.socket.absolute()), (host, port)
    )
    (plan.directory / MEMBER_NAME).write_text(member.dumps())


def _server(plan: NodePlan, member: NodePlan, addresses: Addresses) -> str:
    host, peer = addresses.reach(plan.node_id, member.node_id, PEER_PORT)
    _, vote = addresses.reach(plan.node_id, member.node_id, VOTE_PORT)
    return f"{host}:{peer}:{vote}"
