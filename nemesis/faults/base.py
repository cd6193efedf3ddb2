"""What a kind of fault is, and what one fault that was fired can do.

A fault is tested while it runs: inject, verify that it took hold, undo, verify that it healed, each by
probes of the real thing. What the probes showed goes into the history as one sentence of evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from nemesis.capabilities.cluster import Capability, Cluster, NodeError
from nemesis.capabilities.links import SharedLinks
from nemesis.clock import Clock, becomes_true
from nemesis.draws import Draws
from nemesis.targets import Role

Family = Literal["process", "network", "page-cache", "disk", "clock", "administration"]
"""What a fault is done to."""

Parameters = Mapping[str, str]
"""Drawn with the schedule, so that a replay needs no draw."""


class NotInEffect(Exception):
    """The fault was injected but the probes do not show it. The message says what they show."""


class Healing(NamedTuple):
    """What a look at an undone fault shows."""

    healed: bool
    told: str  # the evidence, or what is still missing


@dataclass(frozen=True)
class Bounds:
    """Deadlines of the conditions that a fault waits for, in seconds."""

    hold_s: float = 10.0
    heal_s: float = 30.0  # includes the start of a process and its way back into the cluster
    stop_s: float = 20.0

    def at_pace(self, times: int) -> Bounds:
        """The deadlines of nodes that take so many times longer."""
        return Bounds(self.hold_s * times, self.heal_s * times, self.stop_s * times)


@dataclass(frozen=True)
class Site:
    """Where faults are injected."""

    cluster: Cluster
    links: SharedLinks
    clock: Clock
    bounds: Bounds = Bounds()

    @classmethod
    def of(cls, cluster: Cluster, clock: Clock, bounds: Bounds = Bounds()) -> Site:
        """Make the site of a cluster."""
        return cls(cluster, SharedLinks(cluster.network), clock, bounds)

    def require_alive(self, targets: Sequence[int]) -> None:
        """Raise `NotInEffect` if any of these nodes is dead before anything was done to it."""
        dead = self._dead(targets)
        if dead:
            raise NotInEffect(f"{named(dead)} had died before")

    def await_effect(self, condition: Callable[[], bool], otherwise: str) -> None:
        """Wait until the fault shows, or raise `NotInEffect`."""
        if not becomes_true(self.clock, condition, self.bounds.hold_s):
            raise NotInEffect(f"{otherwise} within {self.bounds.hold_s:g} s")

    def serving(self, targets: Sequence[int]) -> Healing:
        """Whether all of these nodes serve again. Raises `NodeError` for one that has died: it never will."""
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
        """Nodes with their process ids, so that evidence tells one incarnation from another."""
        told = [f"node {target} (process {self.cluster.nodes[target].pid})" for target in targets]
        return " and ".join(told)


class Injection(Protocol):
    """One fault, aimed. `inject` is called once at most; `undo` may follow, even when `inject` failed."""

    def inject(self) -> str:
        """Do it and see that it took hold; the evidence. Raises `NotInEffect`, `NodeError`."""
        ...

    def undo(self) -> None:
        """Undo it, without waiting for the consequences to pass. Raises `NodeError`."""
        ...

    def look(self) -> Healing:
        """Probe whether it has healed. Raises `NodeError` when it never will."""
        ...


@runtime_checkable
class Restless(Protocol):
    """An injection that has work to do while it holds."""

    def keep(self) -> None:
        """Do what is due; called again and again between `inject` and `undo`, must not wait. Raises `NodeError`."""
        ...


@dataclass(frozen=True)
class Kind:
    """A kind of fault."""

    name: str
    family: Family
    summary: str  # one line for `harrow faults`
    needs: frozenset[Capability]
    roles: tuple[Role, ...]  # whom the draw may aim it at; a role named twice is drawn twice as often
    draw: Callable[[Draws], dict[str, str]]
    aim: Callable[[Site, tuple[int, ...], Parameters], Injection]
    lossy: bool = False  # loses what a node had written, so that the durability contract counts it
    forgets: bool = False  # makes the controller forget who is complete, so that no loss may come near it (ELR-6)
    lasts_ms: tuple[int, int] | None = None  # from the injection to the healing, when the usual draw does not fit
    quorum_roles: tuple[Role, ...] = ()  # further roles where there are several controllers
    quorum_draw: Callable[[Draws], dict[str, str]] | None = None  # instead of `draw` where there are several

    @property
    def cuts(self) -> bool:
        """Whether it keeps packets from passing at all."""
        return "network" in self.needs

    def roles_among(self, controllers: int) -> tuple[Role, ...]:
        """Whom the draw may aim it at in a cluster with so many controllers."""
        return self.roles + self.quorum_roles if controllers > 1 else self.roles

    def parameters(self, draws: Draws, controllers: int) -> dict[str, str]:
        """Draw the parameters for a cluster with so many controllers."""
        return self.quorum_draw(draws) if self.quorum_draw is not None and controllers > 1 else self.draw(draws)


def no_parameters(_draws: Draws) -> dict[str, str]:
    """For kinds that have none."""
    return {}


def named(nodes: tuple[int, ...]) -> str:
    """Nodes in a sentence: "node 1", "nodes 1 and 2"."""
    if len(nodes) == 1:
        return f"node {nodes[0]}"
    return f"nodes {', '.join(map(str, nodes[:-1]))} and {nodes[-1]}"
