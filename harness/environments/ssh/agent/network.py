"""One machine's part of the network: rules and queues for its ends of the links, and probes of them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Mapping, Sequence

from harness.environments.network.link_probes import Prober
from harness.environments.ssh.agent.config import AgentConfig
from harness.environments.ssh.agent.firewall import Firewall, FirewallRules
from harness.environments.ssh.agent.netem import Netem
from nemesis.capabilities.cluster import CLIENTS, Link
from nemesis.capabilities.shapes import Shape


class AgentNetwork:
    """One machine's part of the network of a run."""

    def __init__(self, config: AgentConfig, *, listen: bool = True) -> None:
        self._me = config.node_id
        self._addresses = {int(endpoint): address for endpoint, address in config.peers.items()}
        self._addresses[CLIENTS] = config.harness
        name = f"harrow_{config.token[:10]}"
        self._firewall = Firewall(config.filter, name, config.harness, config.ssh_port)
        self._netem = Netem(f"ifb{config.token[:10]}", config.harness, config.ssh_port) if config.netem else None
        self._prober: Prober | None = None
        self._rules = FirewallRules()
        self._shapes: tuple[Mapping[str, Shape], Mapping[str, Shape]] = {}, {}
        self._lock = threading.Lock()
        if listen:
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            receiver.bind(tuple(config.probe_address))
            self._prober = Prober(receiver)

    def set_blocked(self, links: Iterable[Sequence[int]]) -> None:
        """Cut exactly these links.

        A link between machines is cut at its target, so that it is silent; a link to the clients at its source, because
        no agent runs on their side.
        """
        ours = [(source, target) for source, target in links]
        with self._lock:
            self._apply(
                not_from=[self._addresses[source] for source, target in ours if target == self._me],
                not_to=[self._addresses[CLIENTS] for link in ours if link == (self._me, CLIENTS)],
                reset_from=self._rules.reset_from,
                reset_to=self._rules.reset_to,
            )

    def set_shapes(self, shapes: Sequence[tuple[int, int, Shape]]) -> Mapping[str, int]:
        """Set the shapes of links; returns how many segments were answered with resets so far."""
        outgoing = {self._addresses[b]: shape for a, b, shape in shapes if a == self._me}
        incoming = {self._addresses[a]: shape for a, b, shape in shapes if (a, b) == (CLIENTS, self._me)}
        resets: dict[Link, bool] = {(a, b): shape.reset for a, b, shape in shapes}
        with self._lock:
            self._apply(
                not_from=self._rules.not_from,
                not_to=self._rules.not_to,
                reset_from=[self._addresses[a] for (a, b), reset in resets.items() if reset and b == self._me],
                reset_to=[self._addresses[b] for (a, b), reset in resets.items() if reset and a == self._me],
            )
            if self._netem is not None and (outgoing, incoming) != self._shapes:
                self._netem.set(outgoing, incoming)
                self._shapes = outgoing, incoming
            return {"reset": self._firewall.resets()}

    def send(self, number: int, targets: Sequence[tuple[str, int]], count: int, size: int) -> None:
        """Send the datagrams of a probe."""
        if self._prober is not None:
            self._prober.send(number, self._me, targets, count, size)

    def arrivals(self, number: int, wanted: int, timeout_s: float, settle_s: float) -> Sequence[Sequence[int]]:
        """The datagrams of a probe that have arrived."""
        return () if self._prober is None else self._prober.await_arrivals(number, wanted, timeout_s, settle_s)

    def clear_all(self) -> list[str]:
        """Remove everything of an earlier agent of this run; returns a line for each item."""
        self._firewall.clear()
        if self._netem is None:
            return ["rules of the network deleted"]
        self._netem.clear_all()
        return ["rules and queues of the network deleted"]

    def close(self) -> None:
        """Undo all changes. Safe to call twice."""
        if self._prober is not None:
            self._prober.close()
        self._firewall.clear()
        if self._netem is not None:
            self._netem.clear()

    def _apply(
        self,
        not_from: Sequence[str],
        not_to: Sequence[str],
        reset_from: Sequence[str],
        reset_to: Sequence[str],
    ) -> None:
        rules = FirewallRules(tuple(not_from), tuple(not_to), tuple(reset_from), tuple(reset_to))
        if rules != self._rules:
            self._firewall.set(rules)
            self._rules = rules
