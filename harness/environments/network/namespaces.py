"""Creates one network namespace per endpoint and a switch between them, in the supervisor process.

Each endpoint has one virtual cable to the switch, a namespace that forwards. A routing rule in the switch cuts a link:
it drops packets that come in from the one endpoint and go to the other. So a cut has one direction, affects established
connections as well as new ones, and is as silent as a pulled cable; address resolution is only ever between an endpoint
and the switch and is never cut. The rules are part of every distribution's kernel, work in a user namespace, and need
no program. Links that are shaped are routed through the user-space shaper (`shaper`), which `ShaperRoute` starts.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from pathlib import Path

from harness.environments.machine.helpers.jsonl import receive_line
from harness.environments.machine.helpers.programs import module_command
from harness.environments.machine.kernel import linux
from harness.environments.network import link_probes
from harness.environments.network.rtnetlink import Wire
from nemesis.capabilities.cluster import CLIENTS, Endpoint, Link
from nemesis.capabilities.shapes import LinkSample, Shape

_SHAPER_INTERFACE = "shaper"
_SHAPER_TABLE = 100
_SHAPER_RULE_PRIORITY = 110  # after the black holes of links that are cut, before the main table
_ANSWER_TIMEOUT_S = 5.0
_REVERSE_PATH_FILTERS = ("all", _SHAPER_INTERFACE)


class ShaperRoute:
    """The shaper and the routes to it. Created in the switch's namespace, by the supervisor."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._rules: set[tuple[str, str]] = set()
        tun = linux.open_tun(_SHAPER_INTERFACE)
        for name in _REVERSE_PATH_FILTERS:  # packets return by another interface
            linux.write_setting(f"/proc/sys/net/ipv4/conf/{name}/rp_filter", "0")
        index = socket.if_nametoindex(_SHAPER_INTERFACE)
        wire.bring_up(index)
        wire.add_route_into(index, _SHAPER_TABLE)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._control.settimeout(_ANSWER_TIMEOUT_S)
        supervisor = os.getpid()

        def prepare() -> None:
            linux.die_with_parent(signal.SIGKILL)
            if os.getppid() != supervisor:
                os._exit(1)

        with theirs:
            # It ends when our end of its socket closes.
            self._process = subprocess.Popen(
                module_command("harness.environments.network.shaper", str(tun), str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                pass_fds=[tun, theirs.fileno()],
                start_new_session=True,
                preexec_fn=prepare,  # noqa: PLW1509 - this process has one thread
            )
        os.close(tun)

    def set_shapes(self, shapes: Mapping[Link, Shape], port: Mapping[int, str], address: Mapping[int, str]) -> object:
        """Set the shapes of all links; returns counts of affected packets so far, by kind.

        `port` is the name of the switch's interface to each endpoint, `address` the endpoint's address.
        """
        values = [[address[a], address[b], asdict(shape)] for (a, b), shape in shapes.items()]
        self._control.sendall(json.dumps({"shapes": values}).encode() + b"\n")
        line, _ = receive_line(self._control)
        if not line:
            raise OSError(0, "expected an answer of the shaper, found that it died")
        wanted = {(port[a], address[b]) for a, b in shapes}
        for incoming, target in sorted(wanted - self._rules):
            self._wire.add_shaper_route(incoming, target, _SHAPER_RULE_PRIORITY, _SHAPER_TABLE)
            self._rules.add((incoming, target))
        for incoming, target in sorted(self._rules - wanted):
            self._wire.remove_shaper_route(incoming, target, _SHAPER_RULE_PRIORITY, _SHAPER_TABLE)
            self._rules.remove((incoming, target))
        return json.loads(line)


_GATEWAY = "169.254.0.1"
_PROBE_PORT = 9
_RULE_PRIORITY = 100  # before the main table (32766), after the local one (0)
_RETRANSMISSION_BOUND_MS = 1000
_CABLES_TIMEOUT_S = 10.0
_CABLES_INTERVAL_S = 0.1


def address(endpoint: Endpoint) -> str:
    """The address of an endpoint inside the cluster's network."""
    return "10.77.0.254" if endpoint == CLIENTS else f"10.77.{endpoint // 250}.{endpoint % 250}"


def _port(endpoint: Endpoint) -> str:
    return f"to{endpoint}"


@dataclass(frozen=True)
class _Namespace:
    descriptor: int
    probe: socket.socket


class Switch:
    """The namespaces of all endpoints and the switch. Created by a single-threaded process with the privilege to do so.

    `namespaces` are the paths of those that exist already; the other endpoints get one that ends with this process.
    """

    def __init__(self, endpoints: Sequence[Endpoint], namespaces: Mapping[Endpoint, str]) -> None:
        self._blocked: set[Link] = set()
        self._probes = 0
        self._shaper_route: ShaperRoute | None = None
        self._not_ours = Path("/proc/self/ns/net").stat().st_ino
        linux.unshare(linux.CLONE_NEWNET)
        self._wire = Wire()
        _write_setting("ip_forward", 1)
        self._guests = frozenset(namespaces)
        self._namespaces = {endpoint: self._add(endpoint, namespaces.get(endpoint)) for endpoint in endpoints}
        self._await_links()

    def _add(self, endpoint: Endpoint, path: str | None) -> _Namespace:
        home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        if path is None:
            linux.unshare(linux.CLONE_NEWNET)
            descriptor = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        else:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            if os.fstat(descriptor).st_ino == self._not_ours:
                raise OSError(errno.EINVAL, "expected another namespace than the machine's own", path)
            linux.enter_namespace(descriptor, linux.CLONE_NEWNET)
        wire = Wire()
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # Kernels before 6.15 lack it: there a connection needs longer to recover from a long cut.
        if (_SETTINGS / "tcp_rto_max_ms").exists():
            _write_setting("tcp_rto_max_ms", _RETRANSMISSION_BOUND_MS)
        linux.enter_namespace(home, linux.CLONE_NEWNET)
        os.close(home)
        self._wire.add_pair(_port(endpoint), "eth0", descriptor)
        here = socket.if_nametoindex(_port(endpoint))
        self._wire.bring_up(here)
        self._wire.add_address(here, _GATEWAY)
        self._wire.add_host_route(address(endpoint), here)
        with _inside(descriptor):
            there = socket.if_nametoindex("eth0")
        wire.bring_up(1)
        wire.bring_up(there)
        wire.add_address(there, address(endpoint))
        wire.add_default_route(_GATEWAY, there)
        wire.close()
        probe.bind((address(endpoint), _PROBE_PORT))
        probe.setblocking(False)
        return _Namespace(descriptor, probe)

    def _await_links(self) -> None:
        """Wait until every endpoint reaches every other: the kernel may take up to a second to notice a new cable."""
        links = list(permutations(self._namespaces, 2))
        deadline = time.monotonic() + _CABLES_TIMEOUT_S
        while links := [
            link for link, fine in zip(links, self.probe(links, _CABLES_INTERVAL_S), strict=True) if not fine
        ]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"expected packets to pass between new namespaces, found none over {links}")

    def enter(self, endpoint: Endpoint) -> None:
        """Move the calling process into an endpoint's namespace (for a child, before it runs its program)."""
        linux.enter_namespace(self._namespaces[endpoint].descriptor, linux.CLONE_NEWNET)

    def kill_guests(self) -> None:
        """SIGKILL the processes in namespaces that existed already. All others end with this process."""
        homes = {os.fstat(self._namespaces[endpoint].descriptor).st_ino for endpoint in self._guests}
        for entry in Path("/proc").iterdir() if homes else ():
            with contextlib.suppress(OSError):  # it is gone, or no process at all
                if entry.name.isdigit() and (entry / "ns/net").stat().st_ino in homes:
                    os.kill(int(entry.name), signal.SIGKILL)

    def set_blocked(self, links: Iterable[Link]) -> None:
        """Cut exactly these links."""
        wanted = set(links)
        for link in sorted(wanted - self._blocked):
            self._wire.add_black_hole(_port(link[0]), address(link[1]), _RULE_PRIORITY)
            self._blocked.add(link)
        for link in sorted(self._blocked - wanted):
            self._wire.remove_black_hole(_port(link[0]), address(link[1]), _RULE_PRIORITY)
            self._blocked.remove(link)

    def probe(self, links: Sequence[Link], timeout_s: float) -> list[bool]:
        """Send one datagram over each link and return which arrived within the timeout."""
        self._probes += 1
        number = self._probes.to_bytes(8, "big")
        for source, target in links:
            payload = number + source.to_bytes(4, "big")
            self._namespaces[source].probe.sendto(payload, (address(target), _PROBE_PORT))
        sockets = {self._namespaces[target].probe: target for _, target in links}
        arrived: set[Link] = set()
        deadline = time.monotonic() + timeout_s
        while len(arrived) < len(set(links)) and (left := deadline - time.monotonic()) > 0:
            for ready in select.select(list(sockets), [], [], left)[0]:
                payload = ready.recv(64)
                if payload[:8] == number:
                    arrived.add((int.from_bytes(payload[8:12], "big"), sockets[ready]))
        return [link in arrived for link in links]

    def set_shapes(self, shapes: Mapping[Link, Shape]) -> object:
        """Set the shapes of all links; returns counts of affected packets so far, by kind.

        The first shape opens the shaper's device: a run that shapes nothing does not need it.
        """
        if self._shaper_route is None:
            if not shapes:
                return {}
            self._shaper_route = ShaperRoute(self._wire)
        ports = {endpoint: _port(endpoint) for endpoint in self._namespaces}
        return self._shaper_route.set_shapes(
            shapes, ports, {endpoint: address(endpoint) for endpoint in self._namespaces}
        )

    def sample(self, links: Sequence[Link], count: int, size: int, timeout_s: float) -> LinkSample:
        """Send `count` datagrams of that size over each link, and summarize what arrives within the timeout."""
        self._probes += 1
        return link_probes.sample(
            {endpoint: namespace.probe for endpoint, namespace in self._namespaces.items()},
            lambda endpoint: (address(endpoint), _PROBE_PORT),
            self._probes,
            link_probes.SampleRequest(links, count, size, timeout_s),
        )


_SETTINGS = Path("/proc/sys/net/ipv4")


def _write_setting(name: str, value: int) -> None:
    linux.write_setting(str(_SETTINGS / name), str(value))


class _inside:  # noqa: N801
    """Enter another network namespace for a few lines."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> None:
        self._home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        linux.enter_namespace(self._descriptor, linux.CLONE_NEWNET)

    def __exit__(self, *_: object) -> None:
        linux.enter_namespace(self._home, linux.CLONE_NEWNET)
        os.close(self._home)
