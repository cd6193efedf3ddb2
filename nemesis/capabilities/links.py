"""Links that several faults may hold at once.

A link is mended when the last fault that holds it cut lets go; what several faults do to its packets adds up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import reduce

from nemesis.capabilities.cluster import Link, Network
from nemesis.capabilities.shapes import PLAIN, Shape, both


class SharedLinks:
    """Counts who holds which link, in front of a network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._holders: Counter[Link] = Counter()
        self._shapes: dict[Link, list[Shape]] = defaultdict(list)

    def cut(self, links: frozenset[Link]) -> None:
        """Cut links on behalf of one more fault."""
        self._holders.update(links)
        self._network.block(links)

    def let_go(self, links: frozenset[Link]) -> None:
        """Mend those links that no other fault holds cut."""
        self._holders.subtract(links)
        self._holders = +self._holders
        self._network.unblock(links - self.held)

    @property
    def held(self) -> frozenset[Link]:
        """Links that some fault holds cut."""
        return frozenset(self._holders)

    def shape(self, links: frozenset[Link], shape: Shape) -> None:
        """Tamper with the packets of links on behalf of one more fault."""
        for link in links:
            self._shapes[link].append(shape)
        self._apply(links)

    def unshape(self, links: frozenset[Link], shape: Shape) -> None:
        """Leave to the packets of these links what other faults do to them. Safe when it has been done."""
        for link in links:
            if shape in self._shapes[link]:
                self._shapes[link].remove(shape)
        self._apply(links)

    @property
    def shaped(self) -> frozenset[Link]:
        """Links with whose packets some fault tampers."""
        return frozenset(link for link, shapes in self._shapes.items() if shapes)

    def clear(self) -> None:
        """Mend everything, whoever holds it."""
        self._holders.clear()
        self._shapes.clear()
        try:
            self._network.unblock(self._network.blocked())
        finally:
            self._network.shape(frozenset(self._network.shaped()), PLAIN)

    def _apply(self, links: frozenset[Link]) -> None:
        alike: dict[Shape, set[Link]] = defaultdict(set)
        for link in links:
            alike[reduce(both, self._shapes[link], PLAIN)].add(link)
        for shape, group in alike.items():
            self._network.shape(frozenset(group), shape)
