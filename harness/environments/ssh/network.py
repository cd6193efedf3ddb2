"""The network between machines: each machine's packet filter and queues do its part, probes show what it comes to."""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TypeVar

from harness.environments.base import Address
from harness.environments.network.link_probes import summary
from harness.environments.network.network import port
from harness.environments.ssh.agent.prober import Arrival, Prober
from harness.environments.ssh.fleet.fleet import Fleet
from harness.environments.ssh.machine import PROBE_PORT, Machine
from nemesis.capabilities.cluster import CLIENTS, Endpoint, Link
from nemesis.capabilities.shapes import LinkSample, Shape

_PROBE_TIMEOUT_S = 0.3
_SETTLE_S = 0.05
_OFFSET_LOOKS = 3

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class FleetAddresses:
    """Where listeners bind and are reached (`harness.environments.base.Addresses`)."""

    fleet: Fleet
    listeners: Mapping[Endpoint, Sequence[str]]

    def bind(self, node_id: int, listener: str) -> Address:
        """Clients are heard at one address, other nodes at another, which may be the same."""
        address = self.fleet.bind(node_id) if listener == "CLIENT" else self.fleet.host(node_id).peer
        return address, port(self.listeners, node_id, listener)

    def reach(self, source: Endpoint, node_id: int, listener: str) -> Address:
        """Where `source` connects to reach that listener."""
        return self.fleet.reach(source, node_id, port(self.listeners, node_id, listener))


class OnTheMachines:
    """Implements `harness.environments.network.network.NetworkEngine`."""

    how = "rules of each machine's packet filter, and netem"

    def __init__(self, machines: Mapping[int, Machine], fleet: Fleet, addresses: FleetAddresses) -> None:
        self.addresses = addresses
        self._machines = machines
        self._fleet = fleet
        self._prober = Prober(fleet.clients_socket())
        self._numbers = itertools.count(1)
        self._pool = ThreadPoolExecutor(max(1, len(machines)), "network")
        self._lock = threading.Lock()
        self._rules: dict[int, list[Link]] = {node_id: [] for node_id in machines}
        self._shapes: dict[int, list[tuple[int, int, Shape]]] = {node_id: [] for node_id in machines}

    def set_blocked(self, links: frozenset[Link]) -> None:
        """Make exactly these links the ones that are cut: each machine where its own end is concerned."""
        with self._lock:
            wanted = {node_id: [link for link in sorted(links) if node_id in link] for node_id in self._machines}
            changed = [node_id for node_id in self._machines if wanted[node_id] != self._rules[node_id]]
            self._rules = wanted
            self._on(changed, self._tell_rules)

    def set_shapes(self, shapes: Mapping[Link, Shape]) -> Mapping[str, int]:
        """Make these the shapes of all links; returns what was done to packets so far, by kind."""
        with self._lock:
            self._shapes = {
                node_id: [(a, b, shape) for (a, b), shape in sorted(shapes.items()) if node_id in (a, b)]
                for node_id in self._machines
            }
            counts = self._on(list(self._machines), self._tell_shapes)
        return {"reset": sum(count.get("reset", 0) for count in counts)}

    def tell_again(self, node_id: int) -> None:
        """Tell a machine that was started anew what holds."""
        with self._lock:
            if self._rules[node_id]:
                self._tell_rules(node_id)
            if self._shapes[node_id]:
                self._tell_shapes(node_id)

    def probe(self, links: Sequence[Link]) -> Sequence[bool]:
        """Send a datagram over each link."""
        arrived = self._send(links, 1, 0, _PROBE_TIMEOUT_S, 0.0)
        return [bool(arrived[link]) for link in links]

    def sample(self, links: Sequence[Link], count: int, size: int, timeout_s: float) -> LinkSample:
        """Send datagrams over the links; their times are compared by what the machines say of their clocks."""
        there = [node_id for node_id, machine in self._machines.items() if machine.is_there]
        offsets = {CLIENTS: 0, **dict(zip(there, self._each(there, self._offset), strict=True))}
        arrived = self._send(links, count, size, timeout_s, _SETTLE_S)
        told = {
            (source, target): [
                (datagram, sent_ns - offsets[source], at_ns - offsets[target]) for _, datagram, sent_ns, at_ns in found
            ]
            for (source, target), found in arrived.items()
            if found
        }
        return summary(told, count * len(links), size)

    def close(self) -> None:
        """Stop probing; the rules go with the agents. Safe to call twice."""
        self._pool.shutdown()
        self._prober.close()

    def _send(
        self, links: Sequence[Link], count: int, size: int, timeout_s: float, settle_s: float
    ) -> Mapping[Link, Sequence[Arrival]]:
        number = next(self._numbers)
        targets: defaultdict[Endpoint, list[Address]] = defaultdict(list)
        wanted: defaultdict[Endpoint, int] = defaultdict(int)
        for source, target in links:
            targets[source].append(self._where(source, target))
            wanted[target] += count
        deadline = time.monotonic() + timeout_s

        def send(endpoint: Endpoint) -> None:
            if endpoint == CLIENTS:
                self._prober.send(number, CLIENTS, targets[CLIENTS], count, size)
            else:
                self._machines[endpoint].ask("send", number=number, targets=targets[endpoint], count=count, size=size)

        def arrivals(endpoint: Endpoint) -> Sequence[Arrival]:
            left_s = max(timeout_s / 2, deadline - time.monotonic())
            if endpoint == CLIENTS:
                return self._prober.await_arrivals(number, wanted[CLIENTS], left_s, settle_s)
            told = self._machines[endpoint].ask(
                "arrivals", number=number, wanted=wanted[endpoint], timeout_s=left_s, settle_s=settle_s
            )
            return [(one[0], one[1], one[2], one[3]) for one in told]

        self._each(self._there(targets), send)
        there = self._there(wanted)
        found = dict(zip(there, self._each(there, arrivals), strict=True))
        return {
            (source, target): [arrival for arrival in found.get(target, ()) if arrival[0] == source]
            for source, target in links
        }

    def _there(self, endpoints: Mapping[Endpoint, object]) -> Sequence[Endpoint]:
        """Those that can be asked: not a machine without power."""
        return [one for one in endpoints if one == CLIENTS or self._machines[one].is_there]

    def _where(self, source: Endpoint, target: Endpoint) -> Address:
        if target != CLIENTS:
            return self._fleet.reach(source, target, PROBE_PORT)
        facts = self._machines[source].facts
        assert facts is not None
        return facts.harness_address, self._prober.port

    def _offset(self, node_id: int) -> int:
        """By how much a machine's monotonic clock is ahead of ours, in ns: half a round trip is the error."""
        looks = []
        for _ in range(_OFFSET_LOOKS):
            before = time.monotonic_ns()
            theirs = self._machines[node_id].ask("now")
            after = time.monotonic_ns()
            looks.append((after - before, theirs - (before + after) // 2))
        return int(min(looks)[1])

    def _tell_rules(self, node_id: int) -> None:
        self._machines[node_id].ask("rules", blocked=self._rules[node_id])

    def _tell_shapes(self, node_id: int) -> Mapping[str, int]:
        told = [[a, b, asdict(shape)] for a, b, shape in self._shapes[node_id]]
        counts: Mapping[str, int] = self._machines[node_id].ask("shapes", shapes=told)
        return counts

    def _on(self, node_ids: Sequence[int], work: Callable[[int], _Result]) -> list[_Result]:
        return self._each([node_id for node_id in node_ids if self._machines[node_id].is_there], work)

    def _each(self, endpoints: Sequence[Endpoint], work: Callable[[Endpoint], _Result]) -> list[_Result]:
        """Do it for all of them at once."""
        return list(self._pool.map(work, endpoints))
