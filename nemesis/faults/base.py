"""Defines kinds of fault (`FaultKind`) and the operations of one fault that is fired (`Injection`).

A fault is verified while it runs: inject, verify that it took effect, undo, verify that it healed, each by probes of
the real cluster. What the probes showed goes into the history as one sentence of evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from nemesis.capabilities.cluster import Capability, Cluster, NodeError
from nemesis.capabilities.links import SharedLinks
from nemesis.clock import Clock, becomes_true
from nemesis.draws import Draws
from nemesis.kinds import LISTED_KINDS, Family
from nemesis.targets import Role

Parameters = Mapping[str, str]
"""Parameters of a fault. They are drawn with the schedule, so that a replay needs no draw."""


class NotInEffect(Exception):
    """The fault was injected but the probes do not show it. The message says what they show."""


class Healing(NamedTuple):
    """The result of checking whether an undone fault has healed."""

    healed: bool
    evidence: str  # what the probes showed, or what is still missing


@dataclass(frozen=True)
class Bounds:
    """Deadlines of the conditions that a fault waits for, in seconds."""

    hold_s: float = 10.0
    heal_s: float = 30.0  # includes the start of a process and its way back into the cluster
    stop_s: float = 20.0

    def at_pace(self, times: int) -> Bounds:
        """Deadlines for nodes that are slower by the factor `times`."""
        return Bounds(self.hold_s * times, self.heal_s * times, self.stop_s * times)


@dataclass(frozen=True)
class Site:
    """What a fault is injected into: a cluster, its links, a clock and deadlines."""

    cluster: Cluster
    links: SharedLinks
    clock: Clock
    bounds: Bounds = Bounds()

    @classmethod
    def of(cls, cluster: Cluster, clock: Clock, bounds: Bounds = Bounds()) -> Site:
        """Return the site of a cluster."""
        return cls(cluster, SharedLinks(cluster.network), clock, bounds)

    def require_alive(self, targets: Sequence[int]) -> None:
        """Raise `NotInEffect` if any of these nodes is dead before the fault is injected."""
        dead = self._dead(targets)
        if dead:
            raise NotInEffect(f"{named(dead)} had died before")

    def await_effect(self, condition: Callable[[], bool], otherwise: str) -> None:
        """Wait until the condition shows the fault, or raise `NotInEffect`."""
        if not becomes_true(self.clock, condition, self.bounds.hold_s):
            raise NotInEffect(f"{otherwise} within {self.bounds.hold_s:g} s")

    def serving(self, targets: Sequence[int]) -> Healing:
        """Check that all of these nodes serve again. Raises `NodeError` for one that has died: it never will."""
        dead = self._dead(targets)
        if dead:
            raise NodeError(f"{named(dead)} died again")
        missing = tuple(target for target in targets if not self.cluster.nodes[target].is_ready())
        if missing:
            return Healing(False, f"{named(missing)} did not serve again")
        return Healing(True, f"{self.processes(targets)} served again")

    def _dead(self, targets: Sequence[int]) -> tuple[int, ...]:
        return tuple(target for target in targets if not self.cluster.nodes[target].is_alive())

    def processes(self, targets: Sequence[int]) -> str:
        """Name nodes with their process ids, so that evidence distinguishes one incarnation from another."""
        return " and ".join(f"node {target} (process {self.cluster.nodes[target].pid})" for target in targets)


class Injection(Protocol):
    """One fault with its targets. `inject` is called at most once; `undo` may follow, even when `inject` failed."""

    def inject(self) -> str:
        """Inject the fault and verify that it took effect; returns the evidence. Raises `NotInEffect`, `NodeError`."""
        ...

    def undo(self) -> None:
        """Undo the fault, without waiting until the cluster has recovered. Raises `NodeError`."""
        ...

    def check_healed(self) -> Healing:
        """Check whether the fault has healed. Raises `NodeError` when it never will."""
        ...


@runtime_checkable
class Recurring(Protocol):
    """An injection that has work to do while the fault is active."""

    def tick(self) -> None:
        """Do the work that is due; called repeatedly between `inject` and `undo`, must not wait. Raises `NodeError`."""
        ...


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault that real nodes can suffer. What it is called and does is in the table `nemesis.kinds`."""

    name: str
    needs: frozenset[Capability]
    roles: tuple[Role, ...]  # possible targets; a role named twice is drawn twice as often
    draw: Callable[[Draws], dict[str, str]]
    aim: Callable[[Site, tuple[int, ...], Parameters], Injection]
    lossy: bool = False  # loses what a node had written, so that the durability contract counts it
    forgets: bool = False  # makes the controller forget which replicas are complete: no loss may overlap it (ELR-6)
    lasts_ms: tuple[int, int] | None = None  # from injection to undo; None: the usual draw
    quorum_roles: tuple[Role, ...] = ()  # further roles with several controllers
    quorum_draw: Callable[[Draws], dict[str, str]] | None = None  # instead of `draw` with several controllers

    @property
    def family(self) -> Family:
        """The part of the system that it acts on."""
        return LISTED_KINDS[self.name].family

    @property
    def cuts(self) -> bool:
        """Whether it blocks all packets of some links."""
        return "network" in self.needs

    def roles_among(self, controllers: int) -> tuple[Role, ...]:
        """Return the roles that it may be drawn for in a cluster with so many controllers."""
        return self.roles + self.quorum_roles if controllers > 1 else self.roles

    def parameters(self, draws: Draws, controllers: int) -> dict[str, str]:
        """Draw the parameters for a cluster with so many controllers."""
        return self.quorum_draw(draws) if self.quorum_draw is not None and controllers > 1 else self.draw(draws)


def no_parameters(_draws: Draws) -> dict[str, str]:
    """Draw nothing: for kinds without parameters."""
    return {}


def named(nodes: tuple[int, ...]) -> str:
    """Name nodes in a sentence: "node 1", "nodes 1 and 2"."""
    if len(nodes) == 1:
        return f"node {nodes[0]}"
    return f"nodes {', '.join(map(str, nodes[:-1]))} and {nodes[-1]}"
