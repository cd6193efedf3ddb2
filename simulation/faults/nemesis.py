"""The nemesis of a simulation: injects the faults of a schedule in virtual time, and heals them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import ParamSpec

from history.contract import DOWN_ALREADY
from nemesis.targets import Trigger, met
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.disk import Survival
from simulation.engine.event_queue import MS
from simulation.engine.node_views import active_controller, partition_states
from simulation.faults.loss_budget import SimulatedLossBudget
from simulation.faults.recipe import CHANNELS, Recipe, play
from simulation.faults.recipes import STEPS
from simulation.scenario.configuration import Configuration, SimulatedFault
from simulation.workload.administration import Administration
from simulation.workload.recording import FaultRow, SimulatedHistory

P = ParamSpec("P")

CHECK_MS = 20
"""Interval at which a fault that waits for a condition checks it."""


class SimulatedNemesis:
    """Injects the faults of a schedule and heals them."""

    def __init__(self, cluster: SimulatedCluster, configuration: Configuration, history: SimulatedHistory) -> None:
        self.cluster = cluster
        self.configuration = configuration
        self.history = history
        self.brokers = list(range(1, configuration.brokers + 1))
        self.controllers = sorted(node for node, one in cluster.machines.items() if one.settings.is_controller)
        self.administration = Administration(cluster, configuration)
        self.losses = SimulatedLossBudget(cluster, configuration.lossy_budget, self.administration.min_isr_differs)
        self._undo: dict[int, tuple[str, tuple[int, ...], Callable[[], None], int, str, int | None]] = {}
        self._lasting: dict[int, Callable[[], bool]] = {}
        self._ended_us: dict[int, int] = {}  # of what is over before it is due
        self._next = 1
        self._over = False
        self._striking: int | None = None  # the place in the schedule of the fault that strikes now

    def plan(self, faults: list[SimulatedFault]) -> None:
        """Schedule the faults; those that were due during set-up strike at once."""
        for place, fault in enumerate(faults):
            self.cluster.at(max(fault.at_ms * MS, self.cluster.now_us), self._fire, place, fault)

    def _target(self, selector: int) -> int:
        nodes = self.brokers + self.controllers
        if selector < len(nodes):
            return nodes[selector]
        role = selector - len(nodes)
        states = partition_states(self.cluster)
        if role == 3:
            return active_controller(self.cluster) or self.controllers[0]
        if not states:
            return self.brokers[0]
        state = states[min(role, len(states) - 1)]
        return state.leader if state.leader > 0 else self.brokers[0]

    def _fire(self, place: int, fault: SimulatedFault) -> None:
        if fault.when is not None and not self._holds(fault.when):
            if not self._over:
                self.cluster.after(CHECK_MS * MS, self._fire, place, fault)
            return
        if fault.kind in STEPS:
            self._as_part_of(place, self._cook, fault)
        else:
            self._as_part_of(place, self._act, fault, self._target(fault.target))

    def _as_part_of(self, place: int | None, action: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Act for the fault at this place in the schedule: what is opened is a part of it."""
        before, self._striking = self._striking, place
        try:
            action(*args, **kwargs)
        finally:
            self._striking = before

    def _act(self, fault: SimulatedFault, target: int) -> None:
        action = getattr(self, "_" + fault.kind.replace("-", "_"))
        action(fault, target)

    def _holds(self, trigger: Trigger) -> bool:
        return met(trigger, partition_states(self.cluster), lambda: active_controller(self.cluster))

    def _opened(
        self,
        kind: str,
        targets: tuple[int, ...],
        undo: Callable[[], None],
        after_ms: int,
        why: str = "",
        lasts: Callable[[], bool] | None = None,
    ) -> None:
        """`lasts`: whether it goes on. What another fault has undone has ended then, and not when it is due."""
        self._note_what_ended()
        number = self._next
        self._next += 1
        self.cluster.say(_describe(kind, targets, why))
        self._undo[number] = (kind, targets, undo, self.cluster.now_us, why, self._striking)
        if lasts is not None:
            self._lasting[number] = lasts
        self.cluster.after(after_ms * MS, self._close, number)

    def _close(self, number: int) -> None:
        opened = self._undo.pop(number, None)
        if opened is None:
            return
        kind, targets, undo, started_us, why, place = opened
        self._lasting.pop(number, None)
        self._as_part_of(place, undo)
        self._note_what_ended()
        ended_us = self._ended_us.pop(number, self.cluster.now_us)
        if self.cluster.now_us - started_us > MS:
            self.cluster.say(f"end of {_describe(kind, targets, why)}")
        self.history.faults.append(
            FaultRow(number, kind, targets, json.dumps({"what": why}), started_us * MS, ended_us * MS, place)
        )

    def _note_what_ended(self) -> None:
        for other in [other for other, lasts in self._lasting.items() if not lasts()]:
            del self._lasting[other]
            self._ended_us[other] = self.cluster.now_us

    def heal(self) -> None:
        """Heal all faults; those that still wait for a condition never strike."""
        self._over = True
        while self._undo:  # the end of a fault may begin a restart
            self._close(min(self._undo))
        self.cluster.transport.mend(frozenset(self.cluster.network.cut))
        for node_id, machine in self.cluster.machines.items():
            machine.fsync_us = 500
            self.cluster.resume(node_id)
            if machine.node is None:
                self.cluster.start(node_id)
        self.administration.restore_min_isr()

    # --- recipes -----------------------------------------------------------------------------------------------------

    def _cook(self, fault: SimulatedFault) -> None:
        self._opened(fault.kind, (), lambda: None, 1)
        parts = _PartsOf(self, self._striking)
        recipe = Recipe(self.cluster, self.brokers, self.controllers, parts, self.administration, fault.parameter)
        play(self.cluster, STEPS[fault.kind](recipe), lambda: self._over)

    def inject(self, place: int | None, kind: str, node: int, duration_ms: int, parameter: int = 0) -> None:
        """Inject a fault on a node now, as a part of the recipe at this place in the schedule."""
        self._as_part_of(
            place, self._act, SimulatedFault(self.cluster.now_us // MS, kind, 0, duration_ms, parameter), node
        )

    def hold(self, place: int | None, source: int, target: int, channel: str, duration_ms: int) -> None:
        """Let the messages of one channel, from one node to another, wait for a while; none is lost."""
        transport = self.cluster.transport
        transport.hold_back(source, target, channel)
        undo = partial(transport.let_pass, source, target, channel)
        way = f"{channel} from {source} to {target}"
        self._as_part_of(place, self._opened, "late-connection", (source, target), undo, duration_ms, way)

    # --- process -----------------------------------------------------------------------------------------------------

    def _kill(self, fault: SimulatedFault, target: int) -> None:
        is_down = self._is_down(target)
        why = DOWN_ALREADY if is_down() else ""
        self.cluster.kill(target)
        self._opened("kill", (target,), partial(self.cluster.start, target), fault.duration_ms, why, is_down)

    def _page_cache_loss(self, fault: SimulatedFault, target: int) -> None:
        self._power_lost(fault, target, Survival(1 + fault.parameter % (len(Survival) - 1)))

    def _torn_page_cache_loss(self, fault: SimulatedFault, target: int) -> None:
        self._power_lost(fault, target, Survival.TORN)

    def _power_lost(self, fault: SimulatedFault, target: int, survival: Survival) -> None:
        if target in self.brokers and not self.losses.allow(target):
            return
        if target in self.brokers:
            self.losses.open(target)
        lost = self.cluster.kill(target, survival)
        why = f"kept of unsynced data: {survival.name.lower()}; {lost} bytes lost"
        start = partial(self.cluster.start, target)
        self._opened(fault.kind, (target,), start, fault.duration_ms, why, self._is_down(target))

    def _is_down(self, node: int) -> Callable[[], bool]:
        return lambda: self.cluster.machines[node].node is None

    def _disk_loss(self, fault: SimulatedFault, target: int) -> None:
        """ST-4, for brokers only: a voter that returns with an empty disk could vote twice (B-71)."""
        if target in self.controllers or not self.losses.allow(target):
            return
        self.losses.open(target)
        self.cluster.lose_disk(target)
        self._opened("page-cache-loss", (target,), lambda: self.cluster.start(target), fault.duration_ms, "disk lost")

    def _bit_flip(self, fault: SimulatedFault, target: int) -> None:
        """ST-7: power fails; everything survives except one bit of what was being written."""
        if target in self.brokers and not self.losses.allow(target):
            return
        if target in self.brokers:
            self.losses.open(target)
        machine = self.cluster.machines[target]
        where = machine.disk.flip_unsynced_bit(self.cluster.choices["disk"])
        self.cluster.kill(target, Survival.EVERYTHING)
        self._opened("bit-flip", (target,), lambda: self.cluster.start(target), fault.duration_ms, where)

    def _power_cut(self, fault: SimulatedFault, target: int) -> None:
        """Several machines lose power at once; as many brokers as the contract allows lose what they had not synced."""
        nodes = sorted(self.cluster.machines)
        victims = [node for index, node in enumerate(nodes) if (fault.parameter >> index) & 1] or [target]
        survivals = []
        for node in victims:
            survival = Survival(fault.parameter % len(Survival))
            if node in self.brokers and survival is not Survival.EVERYTHING:
                if self.losses.allow(node):
                    self.losses.open(node)
                else:
                    survival = Survival.EVERYTHING
            self.cluster.kill(node, survival)
            survivals.append(f"{'broker' if node in self.brokers else 'controller'} {node} {survival.name.lower()}")

        def mend() -> None:
            for node in victims:
                self.cluster.start(node)

        self._opened(
            "power-cut", tuple(victims), mend, fault.duration_ms, f"kept of unsynced data: {', '.join(survivals)}"
        )

    def _disk_error(self, fault: SimulatedFault, target: int) -> None:
        """ST-7: every write and every fsync fails, so that the node exits; then the disk works again."""
        disk = self.cluster.machines[target].disk
        disk.failing = True

        def mend() -> None:
            disk.failing = False
            self.cluster.kill(target)
            self.cluster.start(target)

        self._opened("disk-error", (target,), mend, fault.duration_ms)

    def _directory_error(self, fault: SimulatedFault, target: int) -> None:
        """ST-7, KIP-112: every write in one of a broker's log directories fails, for a half every read too.

        Then it works again, and the broker is started again, for a half after a controlled shutdown: only so do the
        directory's replicas come back.
        """
        broker = target if target in self.brokers else self._target(len(self.brokers) + len(self.controllers))
        machine = self.cluster.machines[broker]
        index = fault.parameter % len(machine.settings.log_dirs)
        if index in machine.disk.failing_directories:
            return
        reads, stops = bool(fault.parameter // 10 % 2), bool(fault.parameter // 100 % 2)
        machine.disk.fail_directory(index, reads=reads)

        def mend() -> None:
            machine.disk.mend_directory(index)
            if stops:
                self._restart(fault, broker)
            else:
                self.cluster.kill(broker)
                self.cluster.start(broker)

        why = f"log directory {index}, {'reads and writes' if reads else 'writes'}"
        self._opened("directory-error", (broker,), mend, fault.duration_ms, why)

    def _torn_append(self, fault: SimulatedFault, target: int) -> None:
        """ST-7: the next append fails after some bytes, so that the node exits; then the disk works again."""
        disk = self.cluster.machines[target].disk
        disk.tears_next_append_at = fault.parameter

        def mend() -> None:
            disk.tears_next_append_at = None
            self.cluster.kill(target)
            self.cluster.start(target)

        self._opened("torn-append", (target,), mend, fault.duration_ms)

    def _interrupted_change(self, fault: SimulatedFault, target: int) -> None:
        """A node dies in the middle of one of its next changes to its files: of the first ones of a start, for a third.

        Its power fails too, if that is drawn, and if the contract allows a loss by then; otherwise it is killed.
        """
        disk = self.cluster.machines[target].disk
        at_start = fault.parameter % 3 == 2
        if at_start:
            self._lose_power(target, Survival.TORN)  # so that there is something to mend
        changes_before = fault.parameter // (300 if at_start else 10)
        dies = partial(self._as_part_of, self._striking, self._dies_in_a_change, fault, target)
        self.cluster.interrupt(target, changes_before, dies)
        if at_start:
            self.cluster.start(target)

        def over() -> None:
            disk.interrupted = None

        self._opened("interrupted-change", (target,), over, fault.duration_ms)

    def _dies_in_a_change(self, fault: SimulatedFault, target: int) -> None:
        lost = self._lose_power(target, Survival(fault.parameter % len(Survival)))
        kind = "page-cache-loss" if lost > 0 else fault.kind
        why = "killed in the middle of a change" if lost < 0 else f"{lost} bytes lost"
        self._opened(kind, (target,), lambda: self.cluster.start(target), fault.duration_ms, why)

    def _lose_power(self, target: int, survival: Survival) -> int:
        """Cut a node's power, or only kill it where everything survives or the contract allows no loss now.

        Returns how many bytes were lost, -1 if it was only killed.
        """
        if survival is Survival.EVERYTHING or (target in self.brokers and not self.losses.allow(target)):
            return self.cluster.kill(target)
        if target in self.brokers:
            self.losses.open(target)
        return self.cluster.kill(target, survival)

    def _pause(self, fault: SimulatedFault, target: int) -> None:
        self.cluster.pause(target)
        resume = partial(self.cluster.resume, target)
        self._opened("pause", (target,), resume, fault.duration_ms, lasts=lambda: self.cluster.machines[target].paused)

    def _lossy_restart(self, fault: SimulatedFault, target: int) -> None:
        """BL-8: power fails during a controlled shutdown, or right after it."""
        self.cluster.stop(target)
        fails = partial(self._as_part_of, self._striking, self._power_fails, fault, target)
        self.cluster.after((1 + fault.parameter) * MS // 10, fails)

    def _power_fails(self, fault: SimulatedFault, target: int) -> None:
        survival = Survival.EVERYTHING
        if target not in self.brokers or self.losses.allow(target):
            survival = Survival(1 + fault.parameter % (len(Survival) - 1))
        if target in self.brokers and survival is not Survival.EVERYTHING:
            self.losses.open(target)
        lost = self.cluster.kill(target, survival)
        why = f"kept of unsynced data: {survival.name.lower()}; {lost} bytes lost"
        kind = "page-cache-loss" if lost > 0 else fault.kind
        self._opened(kind, (target,), lambda: self.cluster.start(target), fault.duration_ms, why)

    def _restart(self, fault: SimulatedFault, target: int) -> None:
        why = DOWN_ALREADY if self._is_down(target)() else ""
        self.cluster.stop(target)

        def mend() -> None:
            self.cluster.kill(target)  # if its controlled shutdown took too long
            self.cluster.start(target)

        self._opened("restart", (target,), mend, fault.duration_ms + 1_000, why)

    # --- network -----------------------------------------------------------------------------------------------------

    def _cut(self, kind: str, links: frozenset[tuple[int, int]], targets: tuple[int, ...], duration_ms: int) -> None:
        self.cluster.transport.cut(links)
        network = self.cluster.network
        mend = partial(self.cluster.transport.mend, links)
        self._opened(kind, targets, mend, duration_ms, lasts=lambda: bool(network.cut & links))

    def _isolate(self, fault: SimulatedFault, target: int) -> None:
        others = [node for node in self.cluster.machines if node != target]
        with_clients = [*self.cluster.clients, *self.cluster.byte_clients] if fault.parameter % 2 else []
        links = frozenset(pair for other in [*others, *with_clients] for pair in ((target, other), (other, target)))
        self._cut("isolate", links, (target,), fault.duration_ms)

    def _halves(self, fault: SimulatedFault, target: int) -> None:
        nodes = sorted(self.cluster.machines)
        ours = {node for index, node in enumerate(nodes) if (fault.parameter >> index) & 1} | {target}
        links = frozenset(pair for a in nodes for b in nodes if (a in ours) != (b in ours) for pair in ((a, b),))
        self._cut("halves", links, tuple(sorted(ours)), fault.duration_ms)

    def _one_way(self, fault: SimulatedFault, target: int) -> None:
        others = [node for node in sorted(self.cluster.machines) if node != target]
        chosen = [node for index, node in enumerate(others) if (fault.parameter >> index) & 1] or others
        outwards = fault.parameter & 512
        links = frozenset((target, node) if outwards else (node, target) for node in chosen)
        self._cut("one-way", links, (target,), fault.duration_ms)

    def _stalled_link(self, fault: SimulatedFault, target: int) -> None:
        """Delay the messages between two nodes, in one direction or both; none is lost."""
        others = [node for node in sorted(self.cluster.machines) if node != target]
        other = others[fault.parameter // 4 % len(others)]
        directions = ((target, other), (other, target))
        one = directions[fault.parameter % 2]
        is_both = fault.parameter % 4 == 3
        links = frozenset(directions if is_both else (one,))
        way = "" if is_both else f"from {one[0]} to {one[1]}"
        self.cluster.transport.stall(links)
        undo = partial(self.cluster.transport.unstall, links)
        self._opened("stalled-link", (target, other), undo, 1 + fault.duration_ms // 8, way)

    def _late_connection(self, fault: SimulatedFault, target: int) -> None:
        """Delay one of the connections between two nodes, in one direction: what is sent on the others overtakes it."""
        others = [node for node in sorted(self.cluster.machines) if node != target]
        other = others[fault.parameter // 2 % len(others)]
        channel = CHANNELS[fault.parameter // 100 % len(CHANNELS)]
        link = (target, other) if fault.parameter % 2 else (other, target)
        self.hold(self._striking, *link, channel, 1 + fault.duration_ms // 2)

    def _late_metadata(self, fault: SimulatedFault, target: int) -> None:
        """MD-2: a broker receives the controller's decisions late, and then all at once."""
        broker = target if target in self.brokers else self._target(len(self.brokers) + len(self.controllers))
        self.cluster.transport.withhold_metadata(broker)
        self._opened(
            "late-metadata", (broker,), lambda: self.cluster.transport.inform(broker), 1 + fault.duration_ms // 4
        )

    def _brokers_from_controllers(self, fault: SimulatedFault, target: int) -> None:
        links = frozenset(
            pair for broker in self.brokers for c in self.controllers for pair in ((broker, c), (c, broker))
        )
        self._cut("brokers-from-controllers", links, tuple(self.controllers), fault.duration_ms)

    def _connection_resets(self, fault: SimulatedFault, target: int) -> None:
        self.cluster.transport.break_connections(target)
        self._opened("connection-resets", (target,), lambda: None, 1)

    # --- disk, clock, administration ---------------------------------------------------------------------------------

    def _slow_disk(self, fault: SimulatedFault, target: int) -> None:
        machine = self.cluster.machines[target]
        machine.fsync_us = 1_000 * (1 + fault.parameter)

        def mend() -> None:
            machine.fsync_us = 500

        self._opened("slow-disk", (target,), mend, fault.duration_ms)

    def _clock_jump(self, fault: SimulatedFault, target: int) -> None:
        self.cluster.jump_clock(target, 10 * (1 + fault.parameter))
        self._opened("clock-jump", (target,), lambda: None, 1)

    def _reassignment(self, fault: SimulatedFault, target: int) -> None:
        self._moved(fault.parameter % self.configuration.partitions, self._row_of(fault), "reassignment")

    def _row_of(self, fault: SimulatedFault, fewer: int = 0) -> tuple[int, ...]:
        """As many consecutive brokers as a partition has replicas, or `fewer`."""
        count = len(self.brokers)
        first = fault.parameter % count
        wanted = self.configuration.replication_factor - fewer
        return tuple(self.brokers[(first + index) % count] for index in range(wanted))

    def _moved(self, partition: int, replicas: tuple[int, ...], kind: str) -> None:
        self.administration.assign(partition, replicas)
        self._opened(kind, replicas, lambda: None, 1)

    def _shrunk_replicas(self, fault: SimulatedFault, target: int) -> None:
        """Remove a replica where min ISR allows it, or move all; restore the assignment a moment later."""
        replicas = self._row_of(fault, fewer=(fault.parameter // 10) % 2)
        if len(replicas) < self.administration.min_isr():
            return
        partition = (fault.parameter // 100) % self.configuration.partitions
        states = partition_states(self.cluster)
        before = states[partition].replicas if partition < len(states) else replicas
        self.administration.assign(partition, replicas)
        back = partial(self.administration.assign, partition, before)
        self._opened("shrunk-replicas", replicas, back, 1 + fault.duration_ms // 16)

    def _cancelled_reassignment(self, fault: SimulatedFault, target: int) -> None:
        self.administration.assign(fault.parameter % self.configuration.partitions, None)
        self._opened("cancelled-reassignment", (), lambda: None, 1)

    def _added_partition(self, fault: SimulatedFault, target: int) -> None:
        self.administration.add_partition(self.configuration.partitions + 2)
        self._opened("added-partition", (), lambda: None, 1)

    def _preferred_election(self, fault: SimulatedFault, target: int) -> None:
        partition = fault.parameter % self.configuration.partitions
        self.administration.elect(0, None if fault.parameter % 3 == 0 else (partition,))
        self._opened("preferred-election", (), lambda: None, 1)

    def _moved_leader(self, fault: SimulatedFault, target: int) -> None:
        """EL-7: elect up to three members of the ISR in quick succession, by making each the preferred leader."""
        partition = fault.parameter % self.configuration.partitions
        pause_ms = 5 + fault.parameter // 3 % 8 * 5
        for turn in range(1 + fault.parameter // 100 % 3):
            move = partial(self.administration.move_leader, partition, fault.parameter // 10 + turn)
            self.cluster.after(turn * pause_ms * MS, move)
        self._opened("moved-leader", (), lambda: None, 1)

    def _unclean_election(self, fault: SimulatedFault, target: int) -> None:
        if self.configuration.unclean_election:  # only where losses are accepted anyway
            self.administration.elect(1, tuple(range(len(partition_states(self.cluster)))))
        self._opened("unclean-election", (), lambda: None, 1)

    def _deleted_records(self, fault: SimulatedFault, target: int) -> None:
        """Ask a leader to move its log start to its high watermark, a little below it, or (refused) above it."""
        leader = self.administration.delete_records(
            fault.parameter % self.configuration.partitions, 2 - fault.parameter // 100
        )
        self._opened("deleted-records", (leader,), lambda: None, 1)

    def _same_min_isr(self, fault: SimulatedFault, target: int) -> None:
        self.administration.set_min_isr(self.configuration.min_insync_replicas)
        self._opened("same-min-isr", (), lambda: None, 1)

    def _changed_min_isr(self, fault: SimulatedFault, target: int) -> None:
        """Raise min ISR for a while; lower it only where no faults lose data (ST-8)."""
        if not self.losses.allow_change_of_min_isr():
            return
        configured = self.configuration.min_insync_replicas
        may_be_lower = self.configuration.lossy_budget == 0 and configured > 1 and fault.parameter % 2
        wanted = configured - 1 if may_be_lower else min(configured + 1, self.configuration.replication_factor)
        self.losses.min_isr_changes()
        self.administration.set_min_isr(wanted)

        def back() -> None:
            self.losses.min_isr_is_back()
            self.administration.set_min_isr(configured)

        self._opened("changed-min-isr", (), back, fault.duration_ms, f"to {wanted}")


class _PartsOf:
    """Injects what a recipe asks for, as parts of that recipe."""

    def __init__(self, nemesis: SimulatedNemesis, place: int | None) -> None:
        self.inject = partial(nemesis.inject, place)
        self.hold = partial(nemesis.hold, place)


def _describe(kind: str, targets: tuple[int, ...], why: str) -> str:
    who = f" of {', '.join(map(str, targets))}" if targets else ""
    return f"{kind}{who}{f' ({why})' if why else ''}"
