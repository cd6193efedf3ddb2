"""The simulated cluster: an event queue, the machines that react to events, and the network between them.

Nodes are the broker's own cores; clients and the nemesis are state machines of the same kind. Nothing here knows what
is tested: observers are called after every step, and judge.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

from broker.core.configuration.settings import Settings
from broker.core.messages import AnyRequest, AnyResponse
from broker.core.node import make_node
from broker.core.ports.coordination import (
    Coordinate,
    Coordinated,
    CoordinationEffect,
    OpenSession,
    SessionChanged,
    WatchFired,
)
from broker.core.ports.events import (
    CancelTimer,
    CloseConnection,
    Disconnected,
    Effect,
    Event,
    Exit,
    Flush,
    FlushDone,
    LogEntry,
    Reply,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    Send,
    SetTimer,
    Started,
    StopRequested,
    TimerFired,
)
from broker.core.ports.files import StorageError
from broker.core.ports.marks import Mark, sometimes
from simulation.engine.choices import LATER_STREAMS, STREAMS, ChoiceSequence, RollingHash
from simulation.engine.disk import InterruptedChange, PowerFailed, Survival, Sync
from simulation.engine.event_queue import MS, EventQueue
from simulation.engine.machine import SimulatedMachine
from simulation.engine.transport import SimulatedNetwork, Transport

NAME_LOST = sometimes("disk: a power failure took the name of a file that was never synced (ST-3)")
CUT_UNDONE = sometimes("disk: a power failure brought back what had been cut off (ST-3)")
INDEX_DAMAGED = sometimes("disk: a power failure damaged an index of a segment that was not synced (ST-3)")
INTERRUPTED = sometimes("disk: the power failed in the middle of a change (ST-3)")
INTERRUPTED_AT_START = sometimes("disk: the power failed while a node started, in the middle of a change (ST-3)")

NOBODY = 0
"""The node id of log entries about the nemesis."""


class EventStep:
    """An event, the node that handled it, and the effects; passed to observers; there is one for every event."""

    __slots__ = ("effects", "event", "node_id")

    def __init__(self, node_id: int, event: Event, effects: Sequence[Effect]) -> None:
        self.node_id = node_id
        self.event = event
        self.effects = effects


class Observer(Protocol):
    """Is called after every step. Raises to report that a property is broken."""

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """A node has reacted; it may have ended in doing so, and what it wrote before may be on its disk."""
        ...

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """A node has crashed; with `lost_bytes` >= 0 its machine lost power, else only the process died."""
        ...


class Client(Protocol):
    """A client: receives answers and its own timers."""

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:
        """The answer to a request, None if there will be none."""
        ...

    def timer(self, cluster: SimulatedCluster, key: Hashable) -> None:
        """A timer of this client has fired."""
        ...


class Ensemble(Protocol):
    """The ZooKeeper ensemble of a cluster that has one."""

    def carry_out(self, node_id: int, incarnation: int, effect: CoordinationEffect) -> None:
        """A process of a node opens a session or makes a call."""
        ...


class NodeCrashed(Exception):
    """A node's core raised an exception: a defect of the protocol's implementation."""

    def __init__(self, node_id: int, error: BaseException) -> None:
        super().__init__(f"node {node_id} crashed: {type(error).__name__}: {error}")
        self.node_id = node_id
        self.error = error


class SimulatedCluster(EventQueue):
    """Machines, clients, network and the queue of events, in one process."""

    def __init__(
        self, choices: ChoiceSequence, settings: Sequence[Settings], observers: Sequence[Observer] = ()
    ) -> None:
        super().__init__()
        self.choices = choices
        self.digest = RollingHash()
        self.network = SimulatedNetwork(choices["network"])
        self.machines = {one.node_id: SimulatedMachine(one) for one in settings}
        self.clients: dict[int, Client] = {}
        self.byte_clients: tuple[int, ...] = ()
        """Endpoints of the clients that have connections of bytes."""
        self.observers = list(observers)
        self.marks: dict[str, int] = {}
        self.log_entries: list[tuple[int, int, str]] | None = None
        self.listen: Callable[[SimulatedCluster, EventStep], None] | None = None
        self.ensemble: Ensemble | None = None
        self.transport = Transport(self, self.network, self.machines, self.deliver, self._answered)

    # --- nodes -------------------------------------------------------------------------------------------------------

    def start(self, node_id: int) -> None:
        """Start a node's process on its disk."""
        machine = self.machines[node_id]
        if machine.node is not None:
            return
        machine.incarnation += 1
        machine.timers = {}
        machine.backlog = []
        machine.paused = False
        machine.exit_status = None
        machine.disk.refused = set()
        try:
            machine.node = make_node(machine.settings, machine.disk, f"{node_id}/{machine.incarnation}")
        except StorageError:
            machine.exit_status = 4
            return
        except PowerFailed:
            self.count(INTERRUPTED_AT_START)
            machine.when_power_fails()
            return
        except Exception as error:
            raise NodeCrashed(node_id, error) from error
        self.deliver(node_id, machine.incarnation, Started(machine.started_at_ms(self.now_us)))

    def kill(self, node_id: int, survival: Survival | None = None) -> int:
        """Kill a node's process; with `survival`, cut its power too. Returns how many bytes were lost, -1 for none."""
        machine = self.machines[node_id]
        alive, machine.node = machine.node is not None, None
        machine.paused = False
        self.transport.drop_connections(node_id)
        lost = -1 if survival is None else self._lose_power(machine, survival)
        if alive or survival is not None:
            for observer in self.observers:
                observer.crashed(self, node_id, lost)
        return lost

    def _lose_power(self, machine: SimulatedMachine, survival: Survival) -> int:
        loss = machine.disk.lose_power(survival, self.choices["disk"], self.choices["names"])
        if loss.names:
            self.count(NAME_LOST)
        if loss.cuts_undone:
            self.count(CUT_UNDONE)
        if loss.indexes:
            self.count(INDEX_DAMAGED)
        return loss.lost_bytes

    def interrupt(self, node_id: int, changes_before: int, when_power_fails: Callable[[], None]) -> None:
        """Let a node's power fail in the middle of a change to its disk, so many changes from now.

        `when_power_fails` is called then, and must kill the node.
        """
        machine = self.machines[node_id]
        machine.disk.interrupted = InterruptedChange(changes_before, self.choices["names"])
        machine.when_power_fails = when_power_fails

    def lose_disk(self, node_id: int) -> None:
        """Kill a node's process and erase its disk."""
        machine = self.machines[node_id]
        machine.node = None
        machine.paused = False
        self.transport.drop_connections(node_id)
        lost = machine.disk.lose()
        for observer in self.observers:
            observer.crashed(self, node_id, lost)

    def stop(self, node_id: int) -> None:
        """Ask a node for a controlled shutdown."""
        self.deliver(node_id, self.machines[node_id].incarnation, StopRequested())

    def pause(self, node_id: int) -> None:
        """Freeze a node's process: nothing reaches it until it is resumed."""
        self.machines[node_id].paused = True

    def resume(self, node_id: int) -> None:
        """Resume a frozen process; it handles the events that have piled up.

        A timer that was due, and that an event before it replaces or cancels now, does not fire, as on a real machine.
        """
        machine = self.machines[node_id]
        if not machine.paused:
            return
        machine.paused = False
        machine.resumed_us = self.now_us
        backlog, machine.backlog = machine.backlog, []
        for event, at_us in backlog:
            if at_us is None:
                self.deliver(node_id, machine.incarnation, event)
            elif isinstance(event, TimerFired):
                self._fire(node_id, machine.incarnation, event.key, at_us)
        if self.transport.byte_connections is not None:
            self.transport.byte_connections.resumed(node_id)

    def deliver(self, node_id: int, incarnation: int, event: Event) -> None:
        """Pass an event to a node, if it is still the same incarnation, and carry out the effects."""
        machine = self.machines[node_id]
        node = machine.node
        if node is None or machine.incarnation != incarnation:
            return
        if machine.paused:
            machine.backlog.append((event, None))
            return
        try:
            effects = node.handle(machine.clock.now_ms(self.now_us), event)
        except PowerFailed:
            self.count(INTERRUPTED_AT_START if event.__class__ is Started else INTERRUPTED)
            machine.node = None  # it answers nothing more
            for observer in self.observers:
                observer.after(self, EventStep(node_id, event, ()))
            machine.node = node  # and is still to be killed
            machine.when_power_fails()
            return
        except Exception as error:
            raise NodeCrashed(node_id, error) from error
        for effect in effects:
            _CARRY_OUT[type(effect)](self, node_id, machine, effect)
        self.digest.add(self.now_us << 24 ^ node_id << 12 ^ _EVENT_NUMBERS[type(event)] << 8 ^ len(effects))
        if self.observers or self.listen is not None:
            step = EventStep(node_id, event, effects)
            for observer in self.observers:
                observer.after(self, step)
            if self.listen is not None:
                self.listen(self, step)

    # --- effects -----------------------------------------------------------------------------------------------------

    def _send(self, node_id: int, machine: SimulatedMachine, effect: Send) -> None:
        self.transport.send(
            node_id,
            machine.incarnation,
            effect.request_id,
            effect.to,
            effect.request,
            effect.channel,
            effect.timeout_ms,
        )

    def _reply(self, node_id: int, machine: SimulatedMachine, effect: Reply) -> None:
        self.transport.reply(node_id, machine.incarnation, effect)

    def _set_timer(self, node_id: int, machine: SimulatedMachine, effect: SetTimer) -> None:
        at_us = machine.clock.virtual_us(effect.at_ms, self.now_us)
        machine.timers[effect.key] = at_us
        self.at(at_us, self._fire, node_id, machine.incarnation, effect.key, at_us)

    def _cancel_timer(self, node_id: int, machine: SimulatedMachine, effect: CancelTimer) -> None:
        machine.timers.pop(effect.key, None)

    def _flush(self, node_id: int, machine: SimulatedMachine, effect: Flush) -> None:
        syncs = [(name, machine.disk.begin_sync(name)) for name in effect.files]
        self.after(machine.fsync_us, self._flush_done, node_id, machine.incarnation, effect, syncs)

    def _log_entry(self, node_id: int, machine: SimulatedMachine, effect: LogEntry) -> None:
        if self.log_entries is not None:
            self.log_entries.append((self.now_us, node_id, effect.text))

    def _mark(self, node_id: int, machine: SimulatedMachine, effect: Mark) -> None:
        self.count(effect)

    def _close(self, node_id: int, machine: SimulatedMachine, effect: CloseConnection) -> None:
        self.transport.close(node_id, effect.connection)

    def _exit(self, node_id: int, machine: SimulatedMachine, effect: Exit) -> None:
        machine.exit_status = effect.status
        machine.node = None
        self.transport.drop_connections(node_id)
        if effect.status:
            for observer in self.observers:
                observer.crashed(self, node_id, -1)

    def _coordinate(self, node_id: int, machine: SimulatedMachine, effect: CoordinationEffect) -> None:
        assert self.ensemble is not None
        self.ensemble.carry_out(node_id, machine.incarnation, effect)

    def count(self, mark: Mark) -> None:
        """Count a mark, of a node or of a client."""
        self.marks[mark.name] = self.marks.get(mark.name, 0) + 1

    def say(self, text: str, endpoint: int = NOBODY) -> None:
        """Log something that no node did, but a client or the nemesis."""
        if self.log_entries is not None:
            self.log_entries.append((self.now_us, endpoint, text))

    def send_from_client(self, client_id: int, request_id: int, to: int, request: AnyRequest, timeout_ms: int) -> None:
        """A client's request; `answered` will be called once."""
        self.transport.send(client_id, 0, request_id, to, request, "client", timeout_ms)

    def _answered(self, client_id: int, request_id: int, response: AnyResponse | None) -> None:
        self.clients[client_id].answered(self, request_id, response)

    # --- timers and flushes ------------------------------------------------------------------------------------------

    def _fire(self, node_id: int, incarnation: int, key: Hashable, at_us: int) -> None:
        machine = self.machines[node_id]
        if machine.incarnation == incarnation and machine.timers.get(key) == at_us:
            if machine.paused:
                machine.backlog.append((TimerFired(key), at_us))
                return
            del machine.timers[key]
            self.deliver(node_id, incarnation, TimerFired(key))

    def _flush_done(self, node_id: int, incarnation: int, effect: Flush, syncs: list[tuple[str, Sync | None]]) -> None:
        machine = self.machines[node_id]
        if machine.incarnation != incarnation or machine.node is None:
            return
        error = None
        try:
            for name, sync in syncs:
                machine.disk.end_sync(name, sync)
        except StorageError as refused:
            error = str(refused)
        self.deliver(node_id, incarnation, FlushDone(effect.token, error))

    def jump_clock(self, node_id: int, by_ms: int) -> None:
        """Move a node's clock forward; timers that are due by it fire."""
        machine = self.machines[node_id]
        machine.clock.jump(self.now_us, by_ms)
        for key, at_us in list(machine.timers.items()):
            sooner_us = max(self.now_us, at_us - by_ms * MS)
            machine.timers[key] = sooner_us
            self.at(sooner_us, self._fire, node_id, machine.incarnation, key, sooner_us)


_EVENT_NUMBERS: dict[type, int] = {
    kind: number
    for number, kind in enumerate(
        (
            Started,
            RequestReceived,
            ResponseReceived,
            RequestFailed,
            Disconnected,
            TimerFired,
            FlushDone,
            StopRequested,
            SessionChanged,
            Coordinated,
            WatchFired,
        )
    )
}

_CARRY_OUT: dict[type, Callable[[SimulatedCluster, int, SimulatedMachine, Any], None]] = {
    Send: SimulatedCluster._send,
    Reply: SimulatedCluster._reply,
    SetTimer: SimulatedCluster._set_timer,
    CancelTimer: SimulatedCluster._cancel_timer,
    Flush: SimulatedCluster._flush,
    LogEntry: SimulatedCluster._log_entry,
    Mark: SimulatedCluster._mark,
    CloseConnection: SimulatedCluster._close,
    Exit: SimulatedCluster._exit,
    OpenSession: SimulatedCluster._coordinate,
    Coordinate: SimulatedCluster._coordinate,
}


def fingerprint(cluster: SimulatedCluster) -> tuple[str, int]:
    """The hash over all events and draws so far, and the number of events."""
    digest = RollingHash()
    digest.value, digest.count = cluster.digest.value, cluster.digest.count
    values = cluster.choices.values()
    for name in STREAMS[2:]:  # the other two decide before anything happens
        if values[name] or name not in LATER_STREAMS:
            digest.add_all(values[name])
    return str(digest), cluster.digest.count
