"""The network engine for machines without namespaces: starts and controls the link proxies (`link_proxy`).

All endpoints are on loopback. A run uses a network 127.N.0.0/16: node number T binds at 127.N.0.T, and endpoint number
S reaches it at 127.N.S.T, where the proxies listen for that link.
"""

from __future__ import annotations

import secrets
import select
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from harness.environments.base import Address, EnvironmentFailed
from harness.environments.machine.helpers.helper import Helper, HelperRefused
from harness.environments.network.link_proxy import Route
from nemesis.capabilities.cluster import CLIENTS, Endpoint, Link
from nemesis.capabilities.shapes import LinkSample, Shape

_PROBE_TIMEOUT_S = 0.25
_PROBE_SET_UP_S = 10.0
_ATTEMPTS = 20
_WORD_BYTES = 8


@dataclass(frozen=True)
class _PerLink:
    """Addresses that depend on the source."""

    network: int
    first_port: int
    listeners: Mapping[Endpoint, Sequence[str]]

    def bind(self, node_id: int, listener: str) -> Address:
        """Where a node's listener binds."""
        return f"127.{self.network}.0.{self._number(node_id)}", self._port(node_id, listener)

    def reach(self, source: Endpoint, node_id: int, listener: str) -> Address:
        """Where `source` connects to reach that listener: a proxy. A node reaches itself directly."""
        if source == node_id:
            return self.bind(node_id, listener)
        return f"127.{self.network}.{self._number(source)}.{self._number(node_id)}", self._port(node_id, listener)

    def _port(self, node_id: int, listener: str) -> int:
        return self.first_port + list(self.listeners[node_id]).index(listener)

    def _number(self, endpoint: Endpoint) -> int:
        return 1 + [CLIENTS, *self.listeners].index(endpoint)


class Proxies:
    """The proxy process of all links, and probe connections through it."""

    how = "a proxy per link on loopback, which holds the bytes of a direction that is cut"

    def __init__(self, listeners: Mapping[Endpoint, Sequence[str]], environment: Mapping[str, str]) -> None:
        """Start the proxies on free ports."""
        self._helper, self.addresses, probe_ports, probe_server = _start(listeners, environment)
        self._probes = 0
        self._ends: dict[Link, tuple[socket.socket, socket.socket]] = {}
        with probe_server:
            for (one, other), address in probe_ports.items():
                here = socket.create_connection(address, timeout=_PROBE_SET_UP_S)
                there, _ = probe_server.accept()
                self._ends[one, other] = here, there
                self._ends[other, one] = there, here
                here.setblocking(False)
                there.setblocking(False)

    def set_blocked(self, links: frozenset[Link]) -> None:
        """Cut exactly these links."""
        self._helper.ask(blocked=sorted(links))

    def probe(self, links: Sequence[Link]) -> Sequence[bool]:
        """Send a number over each link, on a connection that was opened at the start."""
        self._probes += 1
        word = self._probes.to_bytes(_WORD_BYTES, "big")
        waiting: dict[int, tuple[Link, socket.socket]] = {}
        poll = select.poll()
        for link in dict.fromkeys(links):
            sender, receiver = self._ends[link]
            sender.send(word)
            waiting[receiver.fileno()] = link, receiver
            poll.register(receiver.fileno(), select.POLLIN)
        arrived: set[Link] = set()
        deadline = time.monotonic() + _PROBE_TIMEOUT_S
        while waiting and (left := deadline - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(left * 1000):
                link, receiver = waiting[descriptor]
                # Numbers that an earlier cut held come first; only the last one counts.
                if receiver.recv(65_536)[-_WORD_BYTES:] == word:
                    arrived.add(link)
                    poll.unregister(descriptor)
                    del waiting[descriptor]
        return [link in arrived for link in links]

    def set_shapes(self, shapes: Mapping[Link, Shape]) -> Mapping[str, int]:
        """Proxies carry bytes, not packets: there is nothing to delay, lose or reorder."""
        if shapes:
            raise EnvironmentFailed("expected a network that can shape links, found proxies; use --network namespaces")
        return {}

    def sample(self, links: Sequence[Link], count: int, size: int, timeout_s: float) -> LinkSample:  # noqa: ARG002
        """See `set_shapes`."""
        raise EnvironmentFailed("expected a network that carries packets, found proxies; use --network namespaces")

    def close(self) -> None:
        """End the proxies. Safe to call twice."""
        for end, _ in self._ends.values():
            end.close()
        self._helper.close()


def _start(
    listeners: Mapping[Endpoint, Sequence[str]], environment: Mapping[str, str]
) -> tuple[Helper, _PerLink, dict[Link, Address], socket.socket]:
    """Start the proxies in a random network of 127.0.0.0/8 in which all ports are free."""
    endpoints = (CLIENTS, *listeners)
    reason = ""
    for _ in range(_ATTEMPTS):
        addresses = _PerLink(16 + secrets.randbelow(239), 10_000 + secrets.randbelow(20_000), listeners)
        routes = [
            Route(*addresses.reach(source, target, name), source, target, *addresses.bind(target, name))
            for source in endpoints
            for target, names in listeners.items()
            for name in names
            if source != target
        ]
        probe_server = socket.create_server(("127.0.0.1", 0), backlog=len(endpoints) ** 2)
        probe_server.settimeout(_PROBE_SET_UP_S)
        probe_ports: dict[Link, Address] = {
            pair: (f"127.{addresses.network}.255.{1 + number % 250}", addresses.first_port + number // 250)
            for number, pair in enumerate(combinations(endpoints, 2))
        }
        routes += [Route(*probe_ports[pair], *pair, *probe_server.getsockname()) for pair in probe_ports]
        try:
            helper = Helper("harness.environments.network.link_proxy", {"routes": routes}, environment)
        except HelperRefused as refusal:
            reason = str(refusal)
            probe_server.close()
            continue
        return helper, addresses, probe_ports, probe_server
    raise EnvironmentFailed(f"expected free ports on loopback for the link proxies, found none: {reason}")
