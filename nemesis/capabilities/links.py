"""Counts which faults cut or shape a link, so that several faults can use the same link.

A link is mended when the last fault that cut it ends; the shapes of several faults add up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import reduce

from nemesis.capabilities.cluster import Link, Network
from nemesis.capabilities.shapes import PLAIN, Shape, both


class SharedLinks:
    """Tracks the cuts and shapes of every link, in front of a network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._holders: Counter[Link] = Counter()
        self._shapes: dict[Link, list[Shape]] = defaultdict(list)

    def cut(self, links: frozenset[Link]) -> None:
        """Cut links for one more fault."""
        self._holders.update(links)
        self._network.block(links)

    def let_go(self, links: frozenset[Link]) -> None:
        """End one fault's cut; mend those links that no other fault cuts."""
        self._holders.subtract(links)
        self._holders = +self._holders
        self._network.unblock(links - self.held)

    @property
    def held(self) -> frozenset[Link]:
        """Links that at least one fault cuts."""
        return frozenset(self._holders)

    def shape(self, links: frozenset[Link], shape: Shape) -> None:
        """Shape links for one more fault."""
        for link in links:
            self._shapes[link].append(shape)
        self._apply(links)

    def unshape(self, links: frozenset[Link], shape: Shape) -> None:
        """Remove one fault's shape from links; shapes of other faults stay. Safe to repeat."""
        for link in links:
            if shape in self._shapes[link]:
                self._shapes[link].remove(shape)
        self._apply(links)

    @property
    def shaped(self) -> frozenset[Link]:
        """Links that at least one fault shapes."""
        return frozenset(link for link, shapes in self._shapes.items() if shapes)

    def clear(self) -> None:
        """Mend all links and remove all shapes."""
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
