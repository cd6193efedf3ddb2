"""The nemesis of a simulation: faults drawn from the tape, fired in virtual time, undone in virtual time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from broker.core.messages import (
    AlterPartitionReassignmentsRequest,
    ConfigOperation,
    ConfigResource,
    IncrementalAlterConfigsRequest,
    Reassignment,
)
from harness.simulation.clients import TOPIC
from harness.simulation.disk import Survival
from harness.simulation.records import FaultRow, SimulatedHistory
from harness.simulation.swarm import Configuration
from harness.simulation.tape import Stream
from harness.simulation.views import active_controller, broker_epoch, partition_states
from harness.simulation.world import MS, World

ADMINISTRATOR = 9_999
"""Client endpoint from which administration is asked for."""


class Fault(NamedTuple):
    """One entry of a schedule. `target` selects when it fires: 0 … n are brokers in order, larger ones roles."""

    at_ms: int
    kind: str
    target: int
    duration_ms: int
    parameter: int


def draw(stream: Stream, configuration: Configuration) -> list[Fault]:
    """The faults of a seed: one every so often, of the kinds that the configuration has."""
    faults: list[Fault] = []
    if not configuration.faults:
        return faults
    at_ms = 2_000
    while True:
        at_ms += 1 + stream.draw("pause before the fault", 2 * configuration.fault_interval_ms)
        if at_ms >= configuration.duration_ms - 5_000:
            return faults
        kind = stream.draw("kind", len(configuration.faults) + 1)
        if kind == 0:
            continue
        faults.append(
            Fault(
                at_ms,
                configuration.faults[kind - 1],
                stream.draw("target", configuration.brokers + configuration.controllers + 4),
                1 + stream.draw("duration", 2 * configuration.fault_duration_ms),
                stream.draw("parameter", 1_000),
            )
        )


class Nemesis:
    """Fires a schedule and undoes it."""

    def __init__(self, world: World, configuration: Configuration, history: SimulatedHistory) -> None:
        self.world = world
        self.configuration = configuration
        self.history = history
        self.brokers = list(range(1, configuration.brokers + 1))
        self.controllers = sorted(node for node, one in world.machines.items() if one.settings.is_controller)
        self.lossy: dict[int, int] = {}  # broker in a lossy window -> its epoch when it crashed
        self._undo: dict[int, tuple[str, tuple[int, ...], Callable[[], None], int, str]] = {}
        self._next = 1

    def plan(self, faults: list[Fault]) -> None:
        """Put the faults on the heap."""
        for fault in faults:
            self.world.at(fault.at_ms * MS, self._fire, fault)

    def _target(self, selector: int) -> int:
        nodes = self.brokers + self.controllers
        if selector < len(nodes):
            return nodes[selector]
        role = selector - len(nodes)
        states = partition_states(self.world)
        if role == 3:
            return active_controller(self.world) or self.controllers[0]
        if not states:
            return self.brokers[0]
        state = states[min(role, len(states) - 1)]
        return state.leader if state.leader > 0 else self.brokers[0]

    def _fire(self, fault: Fault) -> None:
        action = getattr(self, "_" + fault.kind.replace("-", "_"))
        action(fault, self._target(fault.target))

    def _opened(
        self, kind: str, targets: tuple[int, ...], undo: Callable[[], None], after_ms: int, why: str = ""
    ) -> None:
        number = self._next
        self._next += 1
        self.world.say(_told(kind, targets, why))
        self._undo[number] = (kind, targets, undo, self.world.now_us, why)
        self.world.after(after_ms * MS, self._close, number)

    def _close(self, number: int) -> None:
        opened = self._undo.pop(number, None)
        if opened is None:
            return
        kind, targets, undo, started_us, why = opened
        undo()
        if self.world.now_us - started_us > MS:
            self.world.say(f"end of {_told(kind, targets, why)}")
        self.history.faults.append(
            FaultRow(number, kind, targets, json.dumps({"what": why}), started_us * MS, self.world.now_us * MS)
        )

    def heal(self) -> None:
        """Undo everything that is still in place."""
        for number in list(self._undo):
            self._close(number)
        self.world.mend(frozenset(self.world.network.cut))
        for node_id, machine in self.world.machines.items():
            machine.fsync_us = 500
            self.world.resume(node_id)
            if machine.node is None:
                self.world.start(node_id)

    # --- process -----------------------------------------------------------------------------------------------------

    def _kill(self, fault: Fault, target: int) -> None:
        self.world.kill(target)
        self._opened("kill", (target,), lambda: self.world.start(target), fault.duration_ms)

    def _lossy_kill(self, fault: Fault, target: int) -> None:
        if target in self.brokers and not self._may_lose(target):
            return
        if target in self.brokers:
            self.lossy[target] = broker_epoch(self.world, target)
        survival = Survival(1 + fault.parameter % (len(Survival) - 1))
        lost = self.world.kill(target, survival)
        why = f"{survival.name.lower()}: {lost} bytes lost"
        self._opened("page-cache-loss", (target,), lambda: self.world.start(target), fault.duration_ms, why)

    def _disk_loss(self, fault: Fault, target: int) -> None:
        """ST-4, for brokers only: a voter that returns with an empty disk could vote twice (B-71)."""
        if target in self.controllers or not self._may_lose(target):
            return
        self.lossy[target] = broker_epoch(self.world, target)
        self.world.lose_disk(target)
        self._opened("page-cache-loss", (target,), lambda: self.world.start(target), fault.duration_ms, "disk lost")

    def _may_lose(self, target: int) -> bool:
        """ST-8: at most so many brokers may be incomplete through losses at one time."""
        states = partition_states(self.world)
        for broker, epoch in list(self.lossy.items()):
            new_life = broker_epoch(self.world, broker) > epoch
            if new_life and all(broker in state.isr for state in states if broker in state.replicas):
                del self.lossy[broker]
        return target in self.lossy or len(self.lossy) < self.configuration.lossy_budget

    def _pause(self, fault: Fault, target: int) -> None:
        self.world.pause(target)
        self._opened("pause", (target,), lambda: self.world.resume(target), fault.duration_ms)

    def _restart(self, fault: Fault, target: int) -> None:
        self.world.stop(target)

        def mend() -> None:
            self.world.kill(target)  # if it could not stop in good order within its time
            self.world.start(target)

        self._opened("restart", (target,), mend, fault.duration_ms + 1_000)

    # --- network -----------------------------------------------------------------------------------------------------

    def _cut(self, kind: str, links: frozenset[tuple[int, int]], targets: tuple[int, ...], duration_ms: int) -> None:
        self.world.cut(links)
        self._opened(kind, targets, lambda: self.world.mend(links), duration_ms)

    def _isolate(self, fault: Fault, target: int) -> None:
        others = [node for node in self.world.machines if node != target]
        with_clients = [*self.world.clients] if fault.parameter % 2 else []
        links = frozenset(pair for other in [*others, *with_clients] for pair in ((target, other), (other, target)))
        self._cut("isolate", links, (target,), fault.duration_ms)

    def _halves(self, fault: Fault, target: int) -> None:
        nodes = sorted(self.world.machines)
        ours = {node for place, node in enumerate(nodes) if (fault.parameter >> place) & 1} | {target}
        links = frozenset(pair for a in nodes for b in nodes if (a in ours) != (b in ours) for pair in ((a, b),))
        self._cut("halves", links, tuple(sorted(ours)), fault.duration_ms)

    def _one_way(self, fault: Fault, target: int) -> None:
        others = [node for node in sorted(self.world.machines) if node != target]
        chosen = [node for place, node in enumerate(others) if (fault.parameter >> place) & 1] or others
        outwards = fault.parameter & 512
        links = frozenset((target, node) if outwards else (node, target) for node in chosen)
        self._cut("one-way", links, (target,), fault.duration_ms)

    def _controllers_from_brokers(self, fault: Fault, target: int) -> None:
        links = frozenset(
            pair for broker in self.brokers for c in self.controllers for pair in ((broker, c), (c, broker))
        )
        self._cut("controllers-from-brokers", links, tuple(self.controllers), fault.duration_ms)

    def _break_connections(self, fault: Fault, target: int) -> None:
        self.world.break_connections(target)
        self._opened("break-connections", (target,), lambda: None, 1)

    # --- disk, clock, administration ---------------------------------------------------------------------------------

    def _slow_fsync(self, fault: Fault, target: int) -> None:
        machine = self.world.machines[target]
        machine.fsync_us = 1_000 * (1 + fault.parameter)

        def mend() -> None:
            machine.fsync_us = 500

        self._opened("slow-fsync", (target,), mend, fault.duration_ms)

    def _clock_jump(self, fault: Fault, target: int) -> None:
        self.world.jump_clock(target, 10 * (1 + fault.parameter))
        self._opened("clock-jump", (target,), lambda: None, 1)

    def _reassign(self, fault: Fault, target: int) -> None:
        factor = self.configuration.replication_factor
        count = len(self.brokers)
        first = fault.parameter % count
        replicas = tuple(self.brokers[(first + place) % count] for place in range(factor))
        partition = fault.parameter % self.configuration.partitions
        request = AlterPartitionReassignmentsRequest((Reassignment(TOPIC, partition, replicas),), 1_000)
        self._administer(request)
        self._opened("reassign", replicas, lambda: None, 1)

    def _min_isr(self, fault: Fault, target: int) -> None:
        operation = ConfigOperation("min.insync.replicas", 0, str(self.configuration.min_insync_replicas))
        self._administer(IncrementalAlterConfigsRequest((ConfigResource(2, TOPIC, (operation,)),)))
        self._opened("min-isr", (), lambda: None, 1)

    def _administer(self, request: AlterPartitionReassignmentsRequest | IncrementalAlterConfigsRequest) -> None:
        alive = [node for node in self.brokers if self.world.machines[node].node is not None]
        if alive:
            self.world.send_from_client(ADMINISTRATOR, self._next, alive[0], request, 2_000)


def _told(kind: str, targets: tuple[int, ...], why: str) -> str:
    who = f" of {', '.join(map(str, targets))}" if targets else ""
    return f"{kind}{who}{f' ({why})' if why else ''}"
