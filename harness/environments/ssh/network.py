"""The network engine between machines: sets each machine's packet filter and queues, and probes the links."""

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
from harness.environments.network.link_probes import Arrival, Prober, summary
from harness.environments.network.network import port
from harness.environments.ssh.fleet import Fleet
from harness.environments.ssh.machine import PROBE_PORT, Machine
from nemesis.capabilities.cluster import CLIENTS, Endpoint, Link
from nemesis.capabilities.shapes import LinkSample, Shape

_PROBE_TIMEOUT_S = 0.3
_SETTLE_S = 0.05
_OFFSET_SAMPLES = 3

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class FleetAddresses:
    """Addresses of listeners (`harness.environments.base.Addresses`)."""

    fleet: Fleet
    listeners: Mapping[Endpoint, Sequence[str]]

    def bind(self, node_id: int, listener: str) -> Address:
        """The address for clients, or that for other nodes, which may be the same."""
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
        """Cut exactly these links: each machine gets the rules for its own end."""
        with self._lock:
            wanted = {node_id: [link for link in sorted(links) if node_id in link] for node_id in self._machines}
            changed = [node_id for node_id in self._machines if wanted[node_id] != self._rules[node_id]]
            self._rules = wanted
            self._on(changed, self._send_rules)

    def set_shapes(self, shapes: Mapping[Link, Shape]) -> Mapping[str, int]:
        """Set the shapes of all links; returns counts of affected packets so far, by kind."""
        with self._lock:
            self._shapes = {
                node_id: [(a, b, shape) for (a, b), shape in sorted(shapes.items()) if node_id in (a, b)]
                for node_id in self._machines
            }
            counts = self._on(list(self._machines), self._send_shapes)
        return {"reset": sum(count.get("reset", 0) for count in counts)}

    def reapply(self, node_id: int) -> None:
        """Send the current rules and shapes to a restarted machine."""
        with self._lock:
            if self._rules[node_id]:
                self._send_rules(node_id)
            if self._shapes[node_id]:
                self._send_shapes(node_id)

    def probe(self, links: Sequence[Link]) -> Sequence[bool]:
        """Send a datagram over each link."""
        arrived = self._send(links, 1, 0, _PROBE_TIMEOUT_S, 0.0)
        return [bool(arrived[link]) for link in links]

    def sample(self, links: Sequence[Link], count: int, size: int, timeout_s: float) -> LinkSample:
        """Send datagrams over the links; their times are corrected by the offsets of the machines' clocks."""
        there = [node_id for node_id, machine in self._machines.items() if machine.is_there]
        offsets = {CLIENTS: 0, **dict(zip(there, self._each(there, self._offset), strict=True))}
        arrived = self._send(links, count, size, timeout_s, _SETTLE_S)
        corrected = {
            (source, target): [
                (datagram, sent_ns - offsets[source], at_ns - offsets[target]) for _, datagram, sent_ns, at_ns in found
            ]
            for (source, target), found in arrived.items()
            if found
        }
        return summary(corrected, count * len(links), size)

    def close(self) -> None:
        """Stop probing; the rules end with the agents. Safe to call twice."""
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
            found = self._machines[endpoint].ask(
                "arrivals", number=number, wanted=wanted[endpoint], timeout_s=left_s, settle_s=settle_s
            )
            return [(one[0], one[1], one[2], one[3]) for one in found]

        self._each(self._there(targets), send)
        there = self._there(wanted)
        found = dict(zip(there, self._each(there, arrivals), strict=True))
        return {
            (source, target): [arrival for arrival in found.get(target, ()) if arrival[0] == source]
            for source, target in links
        }

    def _there(self, endpoints: Mapping[Endpoint, object]) -> Sequence[Endpoint]:
        """The endpoints that can answer: not a machine without power."""
        return [one for one in endpoints if one == CLIENTS or self._machines[one].is_there]

    def _where(self, source: Endpoint, target: Endpoint) -> Address:
        if target != CLIENTS:
            return self._fleet.reach(source, target, PROBE_PORT)
        facts = self._machines[source].facts
        assert facts is not None
        return facts.harness_address, self._prober.port

    def _offset(self, node_id: int) -> int:
        """How far a machine's monotonic clock is ahead of ours, in ns, within half a round trip."""
        samples = []
        for _ in range(_OFFSET_SAMPLES):
            before = time.monotonic_ns()
            theirs = self._machines[node_id].ask("now")
            after = time.monotonic_ns()
            samples.append((after - before, theirs - (before + after) // 2))
        return int(min(samples)[1])

    def _send_rules(self, node_id: int) -> None:
        self._machines[node_id].ask("rules", blocked=self._rules[node_id])

    def _send_shapes(self, node_id: int) -> Mapping[str, int]:
        shapes = [[a, b, asdict(shape)] for a, b, shape in self._shapes[node_id]]
        counts: Mapping[str, int] = self._machines[node_id].ask("shapes", shapes=shapes)
        return counts

    def _on(self, node_ids: Sequence[int], work: Callable[[int], _Result]) -> list[_Result]:
        return self._each([node_id for node_id in node_ids if self._machines[node_id].is_there], work)

    def _each(self, endpoints: Sequence[Endpoint], work: Callable[[Endpoint], _Result]) -> list[_Result]:
        """Run `work` for all of them in parallel."""
        return list(self._pool.map(work, endpoints))
