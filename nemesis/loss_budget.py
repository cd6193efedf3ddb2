"""Limits how many nodes may have lost unsynced data at the same time (ST-8).

`LossWindows` counts, for real clusters and for simulations; who is complete again is found out in different ways.

A *lossy window* of a broker lasts from a page-cache loss until the broker is back in the ISR of all partitions that it
replicates. With `min.insync.replicas` = f + 1 acknowledged records must survive f overlapping windows; a nemesis that
opens more proves nothing about the broker.

A change of `min.insync.replicas` makes the controller forget which replicas outside the ISR are complete (ELR-6,
KIP-966): until every ISR is complete again, a single loss may take acknowledged records. So such a change waits until
no window is open, and losses of brokers wait for it.

The window of a controller lasts until its metadata log is level with the quorum's again. 2f + 1 controllers
tolerate f of them in a window, so f is the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nemesis.capabilities.cluster import Cluster, active_among, is_broker, is_controller
from nemesis.targets import OF_CONTROLLERS, Role

Behind = Callable[[Cluster], frozenset[int] | None]
"""The nodes that lack data according to the cluster's metadata; None if it is not available."""


class LossWindows:
    """The nodes in a lossy window, at most `limit` at a time, and whether the controller knows who is complete."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.forgotten = False
        """The controller forgot which replicas are complete, and not all were observed complete since."""
        self._nodes: set[int] = set()
        self._forgetting = 0  # active changes that made the controller forget

    def open(self, nodes: Iterable[int]) -> None:
        """Nodes are about to lose data."""
        self._nodes.update(nodes)

    def close(self, nodes: Iterable[int]) -> None:
        """Nodes have caught up."""
        self._nodes.difference_update(nodes)

    def forget(self) -> None:
        """The controller is about to forget which replicas are complete."""
        self._forgetting += 1
        self.forgotten = True

    def remembered(self) -> None:
        """The change that made the controller forget was reverted."""
        self._forgetting -= 1

    def all_complete(self) -> None:
        """Every node was observed complete; that counts once no change is active that made the controller forget."""
        self.forgotten = self._forgetting > 0

    @property
    def in_window(self) -> frozenset[int]:
        """Nodes whose window is open."""
        return frozenset(self._nodes)

    def allows(self, more: int) -> bool:
        """Whether `more` further nodes may lose data now."""
        return not self.forgotten and len(self._nodes) + more <= self.limit

    def allows_forgetting(self) -> bool:
        """Whether no window is open, so that the controller may forget which replicas are complete."""
        return not self._nodes


class LossyBudget(LossWindows):
    """The windows of real nodes of one role, which end as the cluster's metadata says."""

    def __init__(self, limit: int, behind: Behind) -> None:
        super().__init__(limit)
        self._behind = behind
        self._healed: set[int] = set()  # nodes in a window that run again

    def open(self, nodes: Iterable[int]) -> None:
        """Nodes are about to lose data."""
        lost = frozenset(nodes)
        super().open(lost)
        self._healed -= lost

    def healed(self, nodes: Iterable[int]) -> None:
        """Nodes run again. Only from now on is the cluster's metadata about them meaningful."""
        self._healed.update(self.in_window.intersection(nodes))

    def refresh(self, cluster: Cluster) -> None:
        """Close the windows of nodes that have caught up."""
        if not self._healed and not self.forgotten:
            return
        behind = self._behind(cluster)
        if behind is None:
            return
        if not behind:
            self.all_complete()
        back = self._healed - behind
        self.close(back)
        self._healed -= back


class Budgets:
    """The budgets of brokers and of controllers. They are separate; a node with both roles counts in both."""

    def __init__(self, brokers: int, cluster: Cluster) -> None:
        """`brokers`: how many brokers may be in a window at once."""
        nodes = cluster.nodes.items()
        self._brokers = frozenset(node_id for node_id, node in nodes if is_broker(node))
        self._controllers = frozenset(node_id for node_id, node in nodes if is_controller(node))
        self.brokers = LossyBudget(brokers, out_of_sync)
        self.controllers = LossyBudget(max(1, (len(self._controllers) - 1) // 2), behind_the_quorum)

    def allow(self, role: Role) -> bool:
        """Whether one more node of this role may lose data now. If nodes have both roles, it may be one of them."""
        own, other = self.brokers, self.controllers
        if role in OF_CONTROLLERS:
            own, other = other, own
        return own.allows(1) and (not self._brokers & self._controllers or other.allows(1))

    def open(self, targets: tuple[int, ...]) -> None:
        """Targets are about to lose data."""
        self.brokers.open(tuple(target for target in targets if target in self._brokers))
        self.controllers.open(tuple(target for target in targets if target in self._controllers))

    def healed(self, targets: tuple[int, ...]) -> None:
        """Targets run again."""
        self.brokers.healed(targets)
        self.controllers.healed(targets)

    def refresh(self, cluster: Cluster) -> None:
        """Close the windows that have ended."""
        self.brokers.refresh(cluster)
        self.controllers.refresh(cluster)


def out_of_sync(cluster: Cluster) -> frozenset[int] | None:
    """Brokers that are not in the ISR of a partition that they replicate."""
    views = cluster.partitions()
    if not views:
        return None
    return frozenset(replica for view in views for replica in view.replicas if replica not in view.isr)


def behind_the_quorum(cluster: Cluster) -> frozenset[int] | None:
    """Controllers that lack committed metadata, or do not report that they have it."""
    voters = cluster.voters()
    active = active_among(voters)
    if active is None:
        return None
    level = {voter.controller for voter in voters if voter.log_end >= active.high_watermark}
    return frozenset(node_id for node_id, node in cluster.nodes.items() if is_controller(node)) - level
