"""The network between endpoints, whichever engine cuts its links."""

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
    """What carries packets between endpoints and can stop carrying them."""

    @property
    def how(self) -> str:
        """In words, for the report."""
        ...

    @property
    def addresses(self) -> Addresses:
        """Where listeners bind and are reached."""
        ...

    def set_blocked(self, links: frozenset[Link]) -> None:
        """Make exactly these links the ones that are cut. Called only when they change."""
        ...

    def probe(self, links: Sequence[Link]) -> Sequence[bool]:
        """Send something over each link and say which of it arrived."""
        ...

    def set_shapes(self, shapes: Mapping[Link, Shape]) -> Mapping[str, int]:
        """Make these the shapes of all links; returns what was done to packets so far, by kind.

        Not called with no shapes before it was called with some: what shapes links is opened by the first.
        """
        ...

    def sample(self, links: Sequence[Link], count: int, size: int, timeout_s: float) -> LinkSample:
        """Send so many packets of that size over each link, and see what becomes of them within the time."""
        ...

    def close(self) -> None:
        """Release what the engine holds. Safe to call twice."""
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
        """Mend these links."""
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
        """Treat packets of these links so, whatever was done to them before; `PLAIN` leaves them alone."""
        with self._lock:
            kept = {link: other for link, other in self._shapes.items() if link not in links}
            shapes = kept if shape == PLAIN else kept | dict.fromkeys(sorted(self._known(links)), shape)
            if shapes == self._shapes:  # an engine may have to open a device, which nothing is owed to
                return
            self._journal.record("shapes", shapes=[[*link, str(shape)] for link, shape in shapes.items()])
            self._engine.set_shapes(shapes)
            self._shapes = shapes

    def shaped(self) -> Mapping[Link, Shape]:
        """The links that are shaped."""
        return dict(self._shapes)

    def shaping_counts(self) -> Mapping[str, int]:
        """What was done to packets of shaped links so far, by kind."""
        with self._lock:
            return self._engine.set_shapes(self._shapes) if self._shapes else {}

    def sample(self, links: Iterable[Link], count: int, size: int, timeout_s: float) -> LinkSample:
        """Send so many packets of that size over each link, and see what becomes of them within the time."""
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
    """Addresses of a real network: who asks does not matter."""

    listeners: Mapping[Endpoint, Sequence[str]]

    def bind(self, node_id: int, listener: str) -> Address:
        """Where a node's listener binds."""
        return address(node_id), port(self.listeners, node_id, listener)

    def reach(self, source: Endpoint, node_id: int, listener: str) -> Address:  # noqa: ARG002
        """Where anybody connects to reach that listener."""
        return self.bind(node_id, listener)


def port(listeners: Mapping[Endpoint, Sequence[str]], node_id: int, listener: str) -> int:
    """The port of a listener: they are numbered from 9092 on each node's own address."""
    return _FIRST_PORT + list(listeners[node_id]).index(listener)


class Namespaces:
    """The engine for machines that allow network namespaces; the keeper owns them."""

    how = "a network namespace per node, links cut by routing rules in a switch between them"

    def __init__(self, keeper: Supervisor, listeners: Mapping[Endpoint, Sequence[str]]) -> None:
        self._keeper = keeper
        self.addresses: Addresses = SameForAll(listeners)

    def set_blocked(self, links: frozenset[Link]) -> None:
        """Make exactly these links the ones that are cut."""
        self._keeper.ask("block", links=sorted(links))

    def probe(self, links: Sequence[Link]) -> Sequence[bool]:
        """Send a datagram over each link."""
        arrived: Sequence[bool] = self._keeper.ask("probe", links=list(links), timeout_s=_PROBE_TIMEOUT_S)
        return arrived

    def set_shapes(self, shapes: Mapping[Link, Shape]) -> Mapping[str, int]:
        """Send the packets of shaped links through the shaper; returns its counts."""
        told = [[*link, asdict(shape)] for link, shape in shapes.items()]
        counts: Mapping[str, int] = self._keeper.ask("shape", shapes=told)
        return counts

    def sample(self, links: Sequence[Link], count: int, size: int, timeout_s: float) -> LinkSample:
        """Send datagrams over the links."""
        return LinkSample(**self._keeper.ask("sample", links=list(links), count=count, size=size, timeout_s=timeout_s))

    def close(self) -> None:
        """Nothing to do: the namespaces end with the keeper."""
