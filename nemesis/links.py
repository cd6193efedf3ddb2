"""Links that several faults may hold cut at once: a link is mended when the last of them lets go."""

from __future__ import annotations

from collections import Counter

from nemesis.cluster import Link, Network


class SharedLinks:
    """Counts who holds which link cut, in front of a network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._holders: Counter[Link] = Counter()

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

    def clear(self) -> None:
        """Mend everything, whoever holds it."""
        self._holders.clear()
        self._network.unblock(self._network.blocked())
