"""How many replicas may be forgetful at once.

A *lossy window* of a node lasts from a page-cache loss until the node is back in the ISR of all partitions
that it replicates. With `min.insync.replicas` = f + 1 acknowledged records must survive f overlapping
windows; a nemesis that opens more proves nothing about the broker.
"""

from __future__ import annotations

from nemesis.cluster import Cluster


class LossyBudget:
    """Counts open lossy windows."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._open: set[int] = set()  # nodes in a window
        self._healed: set[int] = set()  # those of them that run again

    def open(self, targets: tuple[int, ...]) -> None:
        """Targets are about to lose data."""
        self._open.update(targets)
        self._healed.difference_update(targets)

    def healed(self, targets: tuple[int, ...]) -> None:
        """Targets run again. Only now does the controller's view of their ISR membership mean anything."""
        self._healed.update(self._open.intersection(targets))

    def refresh(self, cluster: Cluster) -> None:
        """Close the windows of nodes that are back in the ISR of all their partitions."""
        if not self._healed:
            return
        views = cluster.partitions()
        if not views:
            return
        behind = {replica for view in views for replica in view.replicas if replica not in view.isr}
        back = self._healed - behind
        self._open -= back
        self._healed -= back

    @property
    def in_window(self) -> frozenset[int]:
        """Nodes whose window is open."""
        return frozenset(self._open)

    def allows(self, more: int) -> bool:
        """Whether `more` further nodes may lose data now."""
        return len(self._open) + more <= self.limit
