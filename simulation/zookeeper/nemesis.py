"""Injects the faults of a schedule into a simulated cluster on ZooKeeper: of brokers, links, sessions and the ensemble.

The kinds are those of other simulations as far as they mean something here; the ensemble is in the controllers' place:
`brokers-from-controllers` cuts a broker off from it, ends a broker's session, or takes its majority.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial

from broker.core.ports.coordination import Create
from broker.zookeeper import paths
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.disk import Survival
from simulation.engine.event_queue import MS
from simulation.scenario.configuration import Configuration, SimulatedFault
from simulation.workload.clients import TOPIC
from simulation.workload.recording import FaultRow, SimulatedHistory
from simulation.zookeeper.ensemble import ENSEMBLE, SimulatedEnsemble
from simulation.zookeeper.views import leader_of

LOSSY = ("page-cache-loss", "disk-loss")
"""Kinds that may lose what a broker has not synced, or has."""

REASSIGNMENT = "reassignment"

KINDS = (
    "kill",
    *LOSSY,
    "pause",
    "isolate",
    "halves",
    "one-way",
    "brokers-from-controllers",
    "connection-resets",
    "restart",
    "slow-disk",
    "stalled-link",
    REASSIGNMENT,
)
"""The kinds of fault that a cluster on ZooKeeper can have; others are left out of its schedule."""

_SLOW_FSYNC_US = 300 * MS


class ZooKeeperNemesis:
    """Injects faults and heals them."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        ensemble: SimulatedEnsemble,
        configuration: Configuration,
        history: SimulatedHistory,
    ) -> None:
        self.cluster = cluster
        self.ensemble = ensemble
        self.configuration = configuration
        self.history = history
        self.brokers = list(range(1, configuration.brokers + 1))
        self._undo: dict[int, tuple[str, tuple[int, ...], Callable[[], None], int, str, int | None]] = {}
        self._next = 1
        self._over = False
        self._striking: int | None = None  # the place in the schedule of the fault that strikes now

    def plan(self, faults: Sequence[SimulatedFault]) -> None:
        """Schedule the faults; those that were due during set-up strike at once."""
        for place, fault in enumerate(faults):
            self.cluster.at(max(fault.at_ms * MS, self.cluster.now_us), self._fire, place, fault)

    def heal(self) -> None:
        """Heal all faults, and start what is down."""
        self._over = True
        for number in list(self._undo):
            self._close(number)
        self.cluster.transport.mend(frozenset(self.cluster.network.cut))
        self.ensemble.serve_again()
        for node_id, machine in self.cluster.machines.items():
            machine.fsync_us = 500
            self.cluster.resume(node_id)
            self.cluster.start(node_id)

    def _target(self, selector: int) -> int:
        """A broker by its place, or the leader of a partition."""
        if selector < len(self.brokers):
            return self.brokers[selector]
        partition = (selector - len(self.brokers)) % self.configuration.partitions
        return leader_of(self.ensemble.tree, (TOPIC, partition)) or self.brokers[0]

    def _fire(self, place: int, fault: SimulatedFault) -> None:
        if not self._over:
            self._striking = place
            getattr(self, "_" + fault.kind.replace("-", "_"))(fault, self._target(fault.target))

    def _opened(
        self, kind: str, targets: tuple[int, ...], undo: Callable[[], None], after_ms: int, why: str = ""
    ) -> None:
        number = self._next
        self._next += 1
        who = f" of {', '.join(map(str, targets))}" if targets else ""
        self.cluster.say(f"{kind}{who}{f' ({why})' if why else ''}")
        self._undo[number] = (kind, targets, undo, self.cluster.now_us, why, self._striking)
        self.cluster.after(after_ms * MS, self._close, number)

    def _close(self, number: int) -> None:
        opened = self._undo.pop(number, None)
        if opened is None:
            return
        kind, targets, undo, started_us, why, place = opened
        undo()
        self.cluster.say(f"end of {kind} of {', '.join(map(str, targets))}")
        self.history.faults.append(
            FaultRow(number, kind, targets, json.dumps({"what": why}), started_us * MS, self.cluster.now_us * MS, place)
        )

    # --- processes and disks -----------------------------------------------------------------------------------------

    def _kill(self, fault: SimulatedFault, target: int) -> None:
        self.cluster.kill(target)
        self._opened("kill", (target,), partial(self.cluster.start, target), fault.duration_ms)

    def _restart(self, fault: SimulatedFault, target: int) -> None:
        self.cluster.stop(target)
        self._opened("restart", (target,), partial(self._start_again, target), fault.duration_ms)

    def _start_again(self, target: int) -> None:
        self.cluster.kill(target)  # if it has not stopped, because it was frozen
        self.cluster.start(target)

    def _pause(self, fault: SimulatedFault, target: int) -> None:
        self.cluster.pause(target)
        self._opened("pause", (target,), partial(self.cluster.resume, target), fault.duration_ms)

    def _page_cache_loss(self, fault: SimulatedFault, target: int) -> None:
        survival = Survival(1 + fault.parameter % (len(Survival) - 1))
        lost = self.cluster.kill(target, survival)
        why = f"{survival.name.lower()}: {lost} bytes lost"
        self._opened("page-cache-loss", (target,), partial(self.cluster.start, target), fault.duration_ms, why)

    def _disk_loss(self, fault: SimulatedFault, target: int) -> None:
        self.cluster.lose_disk(target)
        self._opened("page-cache-loss", (target,), partial(self.cluster.start, target), fault.duration_ms, "disk lost")

    def _slow_disk(self, fault: SimulatedFault, target: int) -> None:
        machine = self.cluster.machines[target]
        machine.fsync_us = _SLOW_FSYNC_US

        def mend() -> None:
            machine.fsync_us = 500

        self._opened("slow-disk", (target,), mend, fault.duration_ms)

    # --- links -------------------------------------------------------------------------------------------------------

    def _cut(self, kind: str, links: frozenset[tuple[int, int]], targets: tuple[int, ...], duration_ms: int) -> None:
        self.cluster.transport.cut(links)
        self._opened(kind, targets, partial(self.cluster.transport.mend, links), duration_ms)

    def _isolate(self, fault: SimulatedFault, target: int) -> None:
        """From brokers and ensemble; for half of the parameters from clients too."""
        clients = list(self.cluster.clients) if fault.parameter % 2 else []
        others = [*(one for one in self.brokers if one != target), ENSEMBLE, *clients]
        self._cut("isolate", _both_ways(target, others), (target,), fault.duration_ms)

    def _halves(self, fault: SimulatedFault, target: int) -> None:
        nodes = [*self.brokers, ENSEMBLE]
        ours = {node for index, node in enumerate(nodes) if (fault.parameter >> index) & 1} | {target}
        links = frozenset((one, other) for one in nodes for other in nodes if (one in ours) != (other in ours))
        self._cut("halves", links, tuple(sorted(ours)), fault.duration_ms)

    def _one_way(self, fault: SimulatedFault, target: int) -> None:
        others = [one for one in (*self.brokers, ENSEMBLE) if one != target]
        chosen = [one for index, one in enumerate(others) if (fault.parameter >> index) & 1] or others
        links = frozenset((target, one) if fault.parameter & 512 else (one, target) for one in chosen)
        self._cut("one-way", links, (target,), fault.duration_ms)

    def _stalled_link(self, fault: SimulatedFault, target: int) -> None:
        others = [one for one in (*self.brokers, ENSEMBLE) if one != target]
        links = _both_ways(target, [others[fault.parameter % len(others)]])
        self.cluster.transport.stall(links)
        undo = partial(self.cluster.transport.unstall, links)
        self._opened("stalled-link", (target,), undo, fault.duration_ms)

    def _connection_resets(self, fault: SimulatedFault, target: int) -> None:
        self.cluster.transport.break_connections(target)
        self._opened("connection-resets", (target,), lambda: None, 1)

    # --- the ensemble ------------------------------------------------------------------------------------------------

    def _brokers_from_controllers(self, fault: SimulatedFault, target: int) -> None:
        match fault.parameter % 3:
            case 0:
                self._cut("brokers-from-controllers", _both_ways(target, [ENSEMBLE]), (target,), fault.duration_ms)
            case 1:
                ended = self.ensemble.expire(target)
                why = "its session ends" if ended else "it has no session"
                self._opened("brokers-from-controllers", (target,), lambda: None, 1, why)
            case _:
                self.ensemble.stop_serving()
                undo = self.ensemble.serve_again
                why = "the ensemble has no majority"
                self._opened("brokers-from-controllers", tuple(self.brokers), undo, fault.duration_ms, why)

    def _reassignment(self, fault: SimulatedFault, target: int) -> None:
        """An administrator asks for other replicas of a partition: as many as now, from another first broker on."""
        key = (TOPIC, fault.parameter % self.configuration.partitions)
        first = fault.parameter // 10 % len(self.brokers)
        chosen = [*self.brokers[first:], *self.brokers[:first]][: self.configuration.replication_factor]
        self.ensemble.administer(Create(paths.reassigned_topic(TOPIC)))
        refused = self.ensemble.administer(Create(paths.reassigned(key), paths.encoded(chosen))).error is not None
        self._opened("reassignment", tuple(chosen), lambda: None, 1, "one is under way" if refused else "")


def _both_ways(target: int, others: Sequence[int]) -> frozenset[tuple[int, int]]:
    return frozenset(pair for other in others for pair in ((target, other), (other, target)))
