"""The network between endpoints: interface of its engines, journaled cuts and shapes, the namespaces engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from harness.environments.base import Address, Addresses
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.network.namespaces import address
from harness.store.journal import Journal
from nemesis.capabilities.cluster import Endpoint, Link
from nemesis.capabilities.shapes import PLAIN, LinkSample, Shape

_FIRST_PORT = 9092
_PROBE_TIMEOUT_S = 0.1


class NetworkEngine(Protocol):
    """Carries packets between endpoints, and can cut and shape links."""

    @property
    def how(self) -> str:
        """Description for the report."""
        ...

    @property
    def addresses(self) -> Addresses:
        """Addresses of listeners."""
        ...

    def set_blocked(self, links: frozenset[Link]) -> None:
        """Cut exactly these links. Called only when they change."""
        ...

    def probe(self, links: Sequence[Link]) -> Sequence[bool]:
        """Send a packet over each link and return which arrived."""
        ...

    def set_shapes(self, shapes: Mapping[Link, Shape]) -> Mapping[str, int]:
        """Set the shapes of all links; returns counts of affected packets so far, by kind.

        Never called with no shapes before a call with some: the first shape opens the shaper.
        """
        ...

    def sample(self, links: Sequence[Link], count: int, size: int, timeout_s: float) -> LinkSample:
        """Send `count` packets of that size over each link, and summarize what arrives within the timeout."""
        ...

    def close(self) -> None:
        """Release the engine's resources. Safe to call twice."""
        ...


class JournaledNetwork:
    """The network as faults see it (`nemesis.capabilities.cluster.Network`). Safe to use from several threads."""

    def __init__(self, endpoints: Sequence[Endpoint], engine: NetworkEngine, journal: Journal) -> None:
        self.endpoints = tuple(endpoints)
        self._engine = engine
        self._journal = journal
        self._lock = threading.Lock()
        self._blocked: frozenset[Link] = frozenset()
        self._shapes: dict[Link, Shape] = {}

    def block(self, links: frozenset[Link]) -> None:
        """Cut these links in addition to those that are cut."""
        self._change(lambda blocked: blocked | self._known(links))

    def unblock(self, links: frozenset[Link]) -> None:
        """Restore these links."""
        self._change(lambda blocked: blocked - self._known(links))

    def blocked(self) -> frozenset[Link]:
        """The links that are cut."""
        return self._blocked

    def reaches(self, source: Endpoint, target: Endpoint) -> bool:
        """Probe, with real packets, whether a packet from source arrives at target."""
        return bool(self.reached([(source, target)]))

    def reached(self, links: Iterable[Link]) -> frozenset[Link]:
        """Probe many links at once, in the time of one; returns those that carried their packet."""
        asked = sorted(self._known(links))
        return frozenset(link for link, arrived in zip(asked, self._engine.probe(asked), strict=True) if arrived)

    def shape(self, links: frozenset[Link], shape: Shape) -> None:
        """Replace the shape of these links; `PLAIN` removes it."""
        with self._lock:
            kept = {link: other for link, other in self._shapes.items() if link not in links}
            shapes = kept if shape == PLAIN else kept | dict.fromkeys(sorted(self._known(links)), shape)
            if shapes == self._shapes:  # no change: do not open the shaper's device
                return
            self._journal.record("shapes", shapes=[[*link, str(shape)] for link, shape in shapes.items()])
            self._engine.set_shapes(shapes)
            self._shapes = shapes

    def shaped(self) -> Mapping[Link, Shape]:
        """The links that are shaped."""
        return dict(self._shapes)

    def shaping_counts(self) -> Mapping[str, int]:
        """Counts of affected packets of shaped links so far, by kind."""
        with self._lock:
            return self._engine.set_shapes(self._shapes) if self._shapes else {}

    def sample(self, links: Iterable[Link], count: int, size: int, timeout_s: float) -> LinkSample:
        """Send `count` packets of that size over each link, and summarize what arrives within the timeout."""
        return self._engine.sample(sorted(self._known(links)), count, size, timeout_s)

    def _known(self, links: Iterable[Link]) -> frozenset[Link]:
        links = frozenset(links)
        for source, target in links:
            if source == target or not {source, target} <= set(self.endpoints):
                raise ValueError(
                    f"expected a link between two of the endpoints {list(self.endpoints)}, found {(source, target)}"
                )
        return links

    def _change(self, change: Callable[[frozenset[Link]], frozenset[Link]]) -> None:
        with self._lock:
            blocked = change(self._blocked)
            if blocked == self._blocked:
                return
            self._journal.record("links", blocked=sorted(blocked))
            self._engine.set_blocked(blocked)
            self._blocked = blocked


@dataclass(frozen=True)
class SameForAll:
    """Addresses of a real network: they do not depend on the source."""

    listeners: Mapping[Endpoint, Sequence[str]]

    def bind(self, node_id: int, listener: str) -> Address:
        """Where a node's listener binds."""
        return address(node_id), port(self.listeners, node_id, listener)

    def reach(self, source: Endpoint, node_id: int, listener: str) -> Address:  # noqa: ARG002
        """Where any endpoint connects to reach that listener."""
        return self.bind(node_id, listener)


def port(listeners: Mapping[Endpoint, Sequence[str]], node_id: int, listener: str) -> int:
    """The port of a listener: they are numbered from 9092 on each node's own address."""
    return _FIRST_PORT + list(listeners[node_id]).index(listener)


class Namespaces:
    """The engine for machines that allow network namespaces; the supervisor owns them."""

    how = "a network namespace per node, links cut by routing rules in a switch between them"

    def __init__(self, supervisor: Supervisor, listeners: Mapping[Endpoint, Sequence[str]]) -> None:
        self._supervisor = supervisor
        self.addresses: Addresses = SameForAll(listeners)

    def set_blocked(self, links: frozenset[Link]) -> None:
        """Cut exactly these links."""
        self._supervisor.ask("block", links=sorted(links))

    def probe(self, links: Sequence[Link]) -> Sequence[bool]:
        """Send a datagram over each link."""
        arrived: Sequence[bool] = self._supervisor.ask("probe", links=list(links), timeout_s=_PROBE_TIMEOUT_S)
        return arrived

    def set_shapes(self, shapes: Mapping[Link, Shape]) -> Mapping[str, int]:
        """Send the packets of shaped links through the shaper; returns its counts."""
        values = [[*link, asdict(shape)] for link, shape in shapes.items()]
        counts: Mapping[str, int] = self._supervisor.ask("shape", shapes=values)
        return counts

    def sample(self, links: Sequence[Link], count: int, size: int, timeout_s: float) -> LinkSample:
        """Send datagrams over the links."""
        return LinkSample(
            **self._supervisor.ask("sample", links=list(links), count=count, size=size, timeout_s=timeout_s)
        )

    def close(self) -> None:
        """Nothing to do: the namespaces end with the supervisor."""
