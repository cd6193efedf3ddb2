"""Simulates a ZooKeeper ensemble: a tree of znodes, with delays, lost connections and expired sessions.

Fault model. The ensemble is one endpoint of the network, which links reach or do not, and which as a whole serves or
does not (a lost majority). Every call, every answer and every watch has a delay of its own; those of one session keep
their order. A connection that is cut holds what is under way; after two thirds of the session's timeout the client
gives up: its open calls fail, applied or not, and its watches are gone. The ensemble ends a session that it has not
heard of for the whole timeout, unless it does not serve; when it serves again every session gets its timeout anew. A
process that is frozen or dead is not heard of, and a client hears of the end of its session only when it reaches the
ensemble again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from broker.core.ports.coordination import (
    NO_SESSION,
    Answer,
    Call,
    CallError,
    Coordinate,
    Coordinated,
    CoordinationEffect,
    CoordinationEvent,
    Create,
    Delete,
    OpenSession,
    SessionChanged,
    SessionState,
    SetData,
)
from broker.zookeeper import paths
from broker.zookeeper.tree import Fired, ZooKeeperTree
from common import wording
from simulation.engine.choices import Stream
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.zookeeper.views import isr_of

ENSEMBLE = wording.ENSEMBLE
"""Its endpoint on the network."""

_LATENCY_US_MAX = 4_000
_SLOW_OF_1000 = 15
_SLOW_US_MAX = 400_000
_RETRY_US = 50 * MS
_CHECKS_A_TIMEOUT = 6


@dataclass(slots=True)
class _Connection:
    """The client library in one process of a node."""

    node_id: int
    incarnation: int
    timeout_us: int
    session: int = NO_SESSION
    state: SessionState | None = None
    heard_us: int = 0
    """When the two last heard of each other."""

    calls: deque[tuple[int, int, Call]] = field(default_factory=deque)
    """On their way to the ensemble: (when they arrive, id, call)."""

    events: deque[tuple[int, CoordinationEvent]] = field(default_factory=deque)
    """On their way back: (when they arrive, event)."""

    open_calls: dict[int, None] = field(default_factory=dict)


class SimulatedEnsemble:
    """The ensemble of a simulated cluster; carries out the nodes' effects. `tree` is the truth."""

    def __init__(self, cluster: SimulatedCluster, stream: Stream, generation: str) -> None:
        self._cluster = cluster
        self._stream = stream
        self.generation = generation
        """The protocol version that keeps its state here."""

        self.tree = ZooKeeperTree()
        self._administrator = self.tree.open_session()
        self.overwritten: set[paths.Key] = set()
        """Partitions whose ISR was written by a session that did not own the leader znode then, if there was one."""

        self.won_outside: set[paths.Key] = set()
        """Partitions whose leader znode was created by a broker outside of the ISR, which had read an earlier one."""

        self._serves = True
        self._connections: dict[int, _Connection] = {}  # by node: of its last process
        self._by_session: dict[int, _Connection] = {}

    # --- nodes -------------------------------------------------------------------------------------------------------

    def carry_out(self, node_id: int, incarnation: int, effect: CoordinationEffect) -> None:
        """An effect of a node."""
        if isinstance(effect, OpenSession):
            connection = _Connection(node_id, incarnation, effect.timeout_ms * MS)
            self._connections[node_id] = connection
            self._cluster.after(self._delay_us(), self._open, connection)
            return
        self._coordinate(node_id, incarnation, effect)

    def _coordinate(self, node_id: int, incarnation: int, effect: Coordinate) -> None:
        connection = self._connections[node_id]
        connection.open_calls[effect.call_id] = None
        if connection.state in (SessionState.OPEN, SessionState.RESTORED):
            latest = connection.calls[-1][0] if connection.calls else 0
            at_us = max(self._cluster.now_us + self._delay_us(), latest)
            connection.calls.append((at_us, effect.call_id, effect.call))
            self._cluster.at(at_us, self._arrive, connection)
        else:
            expired = connection.state in (None, SessionState.EXPIRED)
            self._fail_calls(connection, CallError.SESSION_EXPIRED if expired else CallError.CONNECTION_LOSS)

    # --- faults ------------------------------------------------------------------------------------------------------

    def stop_serving(self) -> None:
        """Lose the majority."""
        self._serves = False

    def serve_again(self) -> None:
        """Have a majority again; every session is as if it had just been heard of."""
        if self._serves:
            return
        self._serves = True
        for connection in self._by_session.values():
            connection.heard_us = self._cluster.now_us

    def expire(self, node_id: int) -> bool:
        """End the session of a node, whose process does not know yet; whether it had one."""
        connection = self._connections.get(node_id)
        if connection is None or not self.tree.has_session(connection.session):
            return False
        self._end(connection)
        return True

    def administer(self, call: Call) -> Answer:
        """Make a call at once, in the session of an administrator."""
        answer, fired = self.tree.call(self._administrator, call)
        self._notify(fired)
        return answer

    # --- sessions ----------------------------------------------------------------------------------------------------

    def _open(self, connection: _Connection) -> None:
        if self._connections.get(connection.node_id) is not connection or self._is_dead(connection):
            return
        if not self._reaches(connection):
            self._cluster.after(_RETRY_US, self._open, connection)
            return
        connection.session = self.tree.open_session()
        self._by_session[connection.session] = connection
        connection.heard_us = self._cluster.now_us
        self._become(connection, SessionState.OPEN)
        self._cluster.after(connection.timeout_us // _CHECKS_A_TIMEOUT, self._check, connection)

    def _check(self, connection: _Connection) -> None:
        """Heartbeats, what follows from their lack at both ends, and reconnecting."""
        now_us = self._cluster.now_us
        silent_us = now_us - connection.heard_us
        ended = not self.tree.has_session(connection.session)
        awake = not self._is_dead(connection) and not self._cluster.machines[connection.node_id].paused
        if awake and self._reaches(connection):
            if ended:
                self._fail_calls(connection, CallError.SESSION_EXPIRED)
                self._become(connection, SessionState.EXPIRED)
                return
            connection.heard_us = now_us
            if connection.state is SessionState.SUSPENDED:
                self._become(connection, SessionState.RESTORED)
        else:
            if awake and connection.state is not SessionState.SUSPENDED and silent_us >= connection.timeout_us * 2 // 3:
                self._lose(connection)
            if self._serves and not ended and silent_us >= connection.timeout_us:
                self._end(connection)
                ended = True
        if ended and self._is_dead(connection):
            return
        self._cluster.after(connection.timeout_us // _CHECKS_A_TIMEOUT, self._check, connection)

    def _lose(self, connection: _Connection) -> None:
        """The client gives the connection up: what is under way is lost, in both directions."""
        connection.calls.clear()
        connection.events.clear()
        self.tree.drop_watches(connection.session)
        self._fail_calls(connection, CallError.CONNECTION_LOSS)
        self._become(connection, SessionState.SUSPENDED)

    def _end(self, connection: _Connection) -> None:
        self._by_session.pop(connection.session, None)
        self._notify(self.tree.end_session(connection.session))

    def _become(self, connection: _Connection, state: SessionState) -> None:
        connection.state = state
        self._send(connection, SessionChanged(state, connection.session))

    def _fail_calls(self, connection: _Connection, error: CallError) -> None:
        connection.calls.clear()
        open_calls, connection.open_calls = connection.open_calls, {}
        for call_id in open_calls:
            self._send(connection, Coordinated(call_id, Answer(error)))

    # --- calls and events --------------------------------------------------------------------------------------------

    def _arrive(self, connection: _Connection) -> None:
        """Apply the calls that have arrived, in their order, if anything arrives."""
        if connection.calls and not self._reaches(connection) and not self._is_dead(connection):
            self._cluster.after(_RETRY_US, self._arrive, connection)
            return
        while connection.calls and connection.calls[0][0] <= self._cluster.now_us:
            _, call_id, call = connection.calls.popleft()
            self._note(connection, call)
            answer, fired = self.tree.call(connection.session, call)
            self._notify(fired)
            if answer.error is not CallError.SESSION_EXPIRED:  # else the client hears of that by the next heartbeat
                self._send(connection, Coordinated(call_id, answer))

    def _note(self, connection: _Connection, call: Call) -> None:
        """Note what a call that is about to be made does to a partition that it should not."""
        place = paths.place(call.path)
        if place is None or not self.tree.has_session(connection.session):
            return
        match call, place.kind:
            case SetData(), "ISR" if self.tree.owner(paths.leader(place.key)) != connection.session:
                self.overwritten.add(place.key)
            case Create(), "leader" if self.tree.data(call.path) is None:
                insync = isr_of(self.tree, place.key)
                if insync and connection.node_id not in insync:
                    self.won_outside.add(place.key)
            case Delete(), "partition":
                self.overwritten.discard(place.key)
                self.won_outside.discard(place.key)

    def _notify(self, fired: list[Fired]) -> None:
        for session, event in fired:
            connection = self._by_session.get(session)
            if connection is not None:
                self._send(connection, event)

    def _send(self, connection: _Connection, event: CoordinationEvent) -> None:
        latest = connection.events[-1][0] if connection.events else 0
        at_us = max(self._cluster.now_us + self._delay_us(), latest)
        connection.events.append((at_us, event))
        self._cluster.at(at_us, self._deliver, connection)

    def _deliver(self, connection: _Connection) -> None:
        """Hand over what has come back, in its order. What the client library says itself needs no link."""
        for event in self._arrived(connection):
            if isinstance(event, Coordinated):
                connection.open_calls.pop(event.call_id, None)
            self._cluster.deliver(connection.node_id, connection.incarnation, event)

    def _arrived(self, connection: _Connection) -> Iterator[CoordinationEvent]:
        while connection.events and connection.events[0][0] <= self._cluster.now_us:
            needs_link = connection.state in (SessionState.OPEN, SessionState.RESTORED)
            if needs_link and not self._answers(connection):
                self._cluster.after(_RETRY_US, self._deliver, connection)
                return
            yield connection.events.popleft()[1]

    # --- the network -------------------------------------------------------------------------------------------------

    def _delay_us(self) -> int:
        delay_us = 1 + self._stream.draw("latency", _LATENCY_US_MAX)
        if self._stream.chance("slow", _SLOW_OF_1000):
            delay_us += self._stream.draw("slow by", _SLOW_US_MAX)
        return delay_us

    def _reaches(self, connection: _Connection) -> bool:
        return (
            self._serves
            and not self._is_cut(connection.node_id, ENSEMBLE)
            and not self._is_cut(ENSEMBLE, connection.node_id)
        )

    def _answers(self, connection: _Connection) -> bool:
        return not self._is_cut(ENSEMBLE, connection.node_id)

    def _is_cut(self, source: int, target: int) -> bool:
        network = self._cluster.network
        return (source, target) in network.cut or (source, target) in network.stalled

    def _is_dead(self, connection: _Connection) -> bool:
        machine = self._cluster.machines[connection.node_id]
        return machine.node is None or machine.incarnation != connection.incarnation
