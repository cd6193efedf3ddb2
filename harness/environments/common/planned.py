"""What a node knows of itself by its plan, wherever it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from harness.environments.base import NodePlan
from nemesis.capabilities.cluster import NodeError, NodeRole


class PlannedNode(ABC):
    """A part of `nemesis.capabilities.cluster.Node`."""

    @property
    @abstractmethod
    def plan(self) -> NodePlan:
        """Where it is, as the harness sees it."""

    @abstractmethod
    def log_tail(self) -> Sequence[str]:
        """The last lines that it logged; none when nobody can tell."""

    @property
    def node_id(self) -> int:
        """Its id in the cluster."""
        return self.plan.node_id

    @property
    def role(self) -> NodeRole:
        """What it is."""
        return self.plan.role

    def _error(self, summary: str) -> NodeError:
        """What went wrong, with its last words."""
        lines = self.log_tail()
        return NodeError("\n  ".join([f"{summary}; its last log lines:", *lines]) if lines else summary)
