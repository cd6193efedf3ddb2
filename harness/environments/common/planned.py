"""The part of a node that its plan determines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from harness.environments.base import NodePlan
from nemesis.capabilities.cluster import NodeError, NodeRole


class PlannedNode(ABC):
    """Implements a part of `nemesis.capabilities.cluster.Node`."""

    @property
    @abstractmethod
    def plan(self) -> NodePlan:
        """Its id, role and paths, as the harness sees them."""

    @abstractmethod
    def log_tail(self) -> Sequence[str]:
        """The last lines of its log; empty when they cannot be read."""

    @property
    def node_id(self) -> int:
        """Its id in the cluster."""
        return self.plan.node_id

    @property
    def role(self) -> NodeRole:
        """Its role."""
        return self.plan.role

    def _error(self, summary: str) -> NodeError:
        """An error with the summary and the last log lines."""
        lines = self.log_tail()
        return NodeError("\n  ".join([f"{summary}; its last log lines:", *lines]) if lines else summary)
