"""The disk and the network of an existing cluster, as far as hooks reach: not the one, and of the other whole nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harness.environments.existing.node import HookedNode
from nemesis.capabilities.cluster import CLIENTS, Endpoint, Link, NodeError
from nemesis.capabilities.shapes import LinkSample, Shape


class HookedNetwork:
    """Implements `Network` and `nemesis.capabilities.cluster.CutsOffNodes`: single links are out of reach."""

    def __init__(self, nodes: Mapping[int, HookedNode]) -> None:
        self._nodes = nodes

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """All node ids and `CLIENTS`."""
        return (CLIENTS, *self._nodes)

    def cut_off(self, node: int) -> None:
        """Cut one node off."""
        self._nodes[node].cut_off()

    def rejoin(self, node: int) -> None:
        """Connect it again. Safe when it is not cut off."""
        self._nodes[node].rejoin()

    def is_cut_off(self, node: int) -> bool:
        """Whether it was cut off and not connected again."""
        return self._nodes[node].is_cut_off()

    def block(self, links: frozenset[Link]) -> None:
        """No hook can."""
        if links:
            raise _out_of_reach()

    def unblock(self, links: frozenset[Link]) -> None:
        """Nothing to undo."""

    def blocked(self) -> frozenset[Link]:
        """No single link is ever cut."""
        return frozenset()

    def reaches(self, source: Endpoint, target: Endpoint) -> bool:  # noqa: ARG002
        """No packet can be sent from a node."""
        raise _out_of_reach()

    def reached(self, links: Iterable[Link]) -> frozenset[Link]:  # noqa: ARG002
        """No packet can be sent from a node."""
        raise _out_of_reach()

    def shape(self, links: frozenset[Link], shape: Shape) -> None:  # noqa: ARG002
        """No hook can; removing the shapes of no links is nothing."""
        if links:
            raise _out_of_reach()

    def shaped(self) -> Mapping[Link, Shape]:
        """No link is ever shaped."""
        return {}

    def shaping_counts(self) -> Mapping[str, int]:
        """No link is ever shaped."""
        return {}

    def sample(self, links: Iterable[Link], count: int, size: int, timeout_s: float) -> LinkSample:  # noqa: ARG002
        """No packet can be sent from a node."""
        raise _out_of_reach()


def _out_of_reach() -> NodeError:
    return NodeError("expected a hook for single links, found that hooks can only cut off whole nodes")
