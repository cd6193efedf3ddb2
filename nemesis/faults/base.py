"""Defines kinds of fault (`FaultKind`), one fault that is fired (`Injection`), and what it acts on (`Site`).

A fault is verified while it runs: inject, verify that it took effect, undo, verify that it healed, each by probes of
the real cluster. What the probes showed goes into the history as one sentence of evidence.

Several faults can use the same link (`SharedLinks`): it is mended when the last fault that cut it ends, and the shapes
of several faults add up.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, Protocol, runtime_checkable

from history.contract import LOSSY_KINDS
from nemesis.capabilities.cluster import Capability, Cluster, Link, Network, NodeLost
from nemesis.capabilities.shapes import PLAIN, Shape, both
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
    orderly_exits: frozenset[int] = frozenset({0})
    """The exit statuses of a process that was shut down in good order."""

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        clock: Clock,
        bounds: Bounds = Bounds(),
        orderly_exits: frozenset[int] = frozenset({0}),
    ) -> Site:
        """Return the site of a cluster."""
        return cls(cluster, SharedLinks(cluster.network), clock, bounds, orderly_exits)

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
        """Check that all of these nodes serve again. Raises `NodeLost` for one that has died: it never will."""
        dead = self._dead(targets)
        if dead:
            raise NodeLost(f"{named(dead)} died again")
        missing = tuple(target for target in targets if not self.cluster.nodes[target].is_ready())
        if missing:
            return Healing(False, f"{named(missing)} did not serve again")
        return Healing(True, f"{self.processes(targets)} served again")

    def _dead(self, targets: Sequence[int]) -> tuple[int, ...]:
        return tuple(target for target in targets if not self.cluster.nodes[target].is_alive())

    def sees_processes(self, targets: Sequence[int]) -> bool:
        """Whether the processes of these nodes are known, and not only what the nodes show to others."""
        return all(self.cluster.nodes[target].pid is not None for target in targets)

    def processes(self, targets: Sequence[int]) -> str:
        """Name nodes with their process ids, so that evidence distinguishes one incarnation from another."""
        pids = {target: self.cluster.nodes[target].pid for target in targets}
        return " and ".join(
            f"node {target}" + ("" if pid is None else f" (process {pid})") for target, pid in pids.items()
        )


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


@runtime_checkable
class Completing(Protocol):
    """An injection that is complete only after some steps, however long the drawn time is."""

    def is_complete(self) -> bool:
        """Whether all steps were taken. Before, it is not undone, for as long for each target as healing may take."""
        ...


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault that real nodes can suffer. What it is called and does is in the table `nemesis.kinds`."""

    name: str
    needs: frozenset[Capability]
    roles: tuple[Role, ...]  # possible targets; a role named twice is drawn twice as often
    draw: Callable[[Draws], dict[str, str]]
    aim: Callable[[Site, tuple[int, ...], Parameters], Injection]
    forgets: bool = False  # makes the controller forget which replicas are complete: no loss may overlap it (ELR-6)
    lasts_ms: tuple[int, int] | None = None  # from injection to undo; None: the usual draw
    quorum_roles: tuple[Role, ...] = ()  # further roles with several controllers
    quorum_draw: Callable[[Draws], dict[str, str]] | None = None  # instead of `draw` with several controllers
    whole: bool = False  # goes on after the end of the main phase until it is complete

    @property
    def lossy(self) -> bool:
        """Whether it loses what a node had written, so that the durability contract counts it."""
        return self.name in LOSSY_KINDS

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


# --- what faults share


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


POLL_S = 0.05
"""Interval between two checks of a condition."""


class Clock(Protocol):
    """The run's clock."""

    def now_ns(self) -> int:
        """Nanoseconds since the run's origin."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


@dataclass(frozen=True)
class NemesisClock:
    """The run's clock, in real time."""

    now: Callable[[], int]
    """Nanoseconds since the run's origin."""

    def now_ns(self) -> int:
        """Nanoseconds since the run's origin."""
        return self.now()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


def becomes_true(clock: Clock, condition: Callable[[], bool], timeout_s: float) -> bool:
    """Poll a condition until it holds or the deadline has passed. The last check is at the deadline."""
    deadline_ns = clock.now_ns() + int(timeout_s * 1e9)
    while not condition():
        if clock.now_ns() >= deadline_ns:
            return condition()
        clock.sleep(POLL_S)
    return True
