"""Delivers requests and answers over the simulated network; breaks connections; holds messages of cut links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

from broker.core.configuration.settings import BROKER_LISTENER, CLIENT_LISTENER, CONTROLLER_LISTENER
from broker.core.messages import AnyRequest, AnyResponse
from broker.core.messages.groups import JoinGroupRequest
from broker.core.ports.events import (
    CONTROLLER_CHANNELS,
    Disconnected,
    Event,
    Reply,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
)
from simulation.engine.choices import Stream
from simulation.engine.event_queue import MS, EventQueue
from simulation.engine.machine import SimulatedMachine

Endpoint = int

_CLIENT = "simulated"
"""The client id in every request."""

_VERSIONS: Mapping[type, int] = {JoinGroupRequest: 5}
"""Versions of requests, where the meaning depends on them: from 4 on a new member first gets an id (KIP-394)."""


@dataclass(slots=True)
class NetworkFaults:
    """Latencies and how often accidents happen; all zero is the simplest network. Chances are per thousand messages."""

    latency_us_min: int = 200
    latency_us_max: int = 2_000
    slow_of_1000: int = 0
    slow_us_max: int = 300_000
    answer_lost_of_1000: int = 0
    repeated_of_1000: int = 0
    held_survives_of_1000: int = 500


@dataclass(slots=True)
class SimulatedNetwork:
    """Delays and cuts. `last_arrival` keeps the order within a connection's direction.

    A message for a `cut` link is held or lost, one for a `stalled` link is held, or for the `late` connection of a
    channel, which is the one between the incarnations that both nodes then had; answers with metadata are held for
    `uninformed` nodes, so that several changes reach them at once (MD-2).
    """

    stream: Stream
    faults: NetworkFaults = field(default_factory=NetworkFaults)
    cut: set[tuple[Endpoint, Endpoint]] = field(default_factory=set)
    stalled: set[tuple[Endpoint, Endpoint]] = field(default_factory=set)
    late: dict[tuple[Endpoint, Endpoint, str], tuple[int, int]] = field(default_factory=dict)
    uninformed: set[Endpoint] = field(default_factory=set)
    last_arrival: dict[tuple[Endpoint, Endpoint, str], int] = field(default_factory=dict)
    mended_us: dict[tuple[Endpoint, Endpoint], int] = field(default_factory=dict)
    """When messages last began to pass a link again."""

    lost_us: dict[tuple[Endpoint, str], int] = field(default_factory=dict)
    """When an answer was last lost to a node on one of its channels."""

    def arrival_us(self, now_us: int, source: Endpoint, target: Endpoint, channel: str) -> int:
        """The virtual time at which a message that is sent now arrives."""
        faults = self.faults
        latency_us = faults.latency_us_min + self.stream.draw(
            "latency", faults.latency_us_max - faults.latency_us_min + 1
        )
        if faults.slow_of_1000 and self.stream.chance("slow", faults.slow_of_1000):
            latency_us += self.stream.draw("slow by", faults.slow_us_max)
        key = (source, target, channel)
        at_us = max(now_us + latency_us, self.last_arrival.get(key, 0))
        self.last_arrival[key] = at_us
        return at_us

    def stops(self, source: Endpoint, target: Endpoint, channel: str, is_answer: bool) -> bool:
        """Whether a message cannot arrive now."""
        link = (source, target)
        if link in self.cut or link in self.stalled:
            return True
        return is_answer and channel == "metadata" and target in self.uninformed

    def answer_is_lost(self) -> bool:
        """Whether the connection breaks before the answer is sent."""
        return bool(self.faults.answer_lost_of_1000) and self.stream.chance(
            "answer lost", self.faults.answer_lost_of_1000
        )

    def is_repeated(self) -> bool:
        """Whether a request between nodes arrives twice."""
        return bool(self.faults.repeated_of_1000) and self.stream.chance("repeated", self.faults.repeated_of_1000)

    def held_message_survives(self, source: Endpoint, target: Endpoint) -> bool:
        """Whether a message that cannot arrive now is held; on a cut link it may be lost instead."""
        return (source, target) not in self.cut or self.stream.chance("held", self.faults.held_survives_of_1000)


CLIENTS_FROM = 1_000
"""Endpoints from here on are clients."""


FIRST_CONNECTION = 1_000_000
"""Numbers of connections of bytes, beyond all endpoints."""


class Envelope(NamedTuple):
    """A message that is about to arrive. `deliver` completes the delivery."""

    source: int
    target: int
    message: AnyRequest | AnyResponse
    deliver: Callable[[], None]


class ByteConnections(Protocol):
    """The connections of clients that send bytes instead of messages (`simulation.engine.connections`)."""

    def reply(self, effect: Reply) -> None:
        """Send a node's answer to a request that came in bytes, if its connection is still there."""
        ...

    def close(self, node_id: int, connection: int) -> None:
        """Close a connection that a node has accepted."""
        ...

    def drop(self, node_id: int) -> None:
        """End the connections of a process that died."""
        ...

    def reset_all(self, node_id: int) -> None:
        """Reset all connections of a node; requests in progress may have been applied."""
        ...

    def resumed(self, node_id: int) -> None:
        """Let a process that was frozen read what has arrived meanwhile."""
        ...


class _OpenRequest:
    __slots__ = ("channel", "incarnation", "request_id", "source", "target", "target_incarnation")

    def __init__(
        self, source: int, incarnation: int, request_id: int, channel: str, target: int, target_incarnation: int
    ) -> None:
        self.source = source
        self.incarnation = incarnation
        self.request_id = request_id
        self.channel = channel
        self.target = target
        self.target_incarnation = target_incarnation


class Transport:
    """Messages between nodes and clients. `intercept` is called for each message and returns True to take it.

    `deliver` passes an event to one incarnation of a node; `answered` passes a client the answer to its request.
    """

    def __init__(
        self,
        timeline: EventQueue,
        network: SimulatedNetwork,
        machines: Mapping[int, SimulatedMachine],
        deliver: Callable[[int, int, Event], None],
        answered: Callable[[int, int, AnyResponse | None], None],
    ) -> None:
        self._timeline = timeline
        self._network = network
        self._machines = machines
        self._deliver = deliver
        self._answered = answered
        self.intercept: Callable[[Envelope], bool] | None = None
        self.byte_connections: ByteConnections | None = None
        self._requests: dict[int, _OpenRequest] = {}
        self._sent: dict[tuple[int, int, int], int] = {}
        self._next_request = 1
        self._held: dict[tuple[int, int], list[tuple[Callable[..., None], tuple[Any, ...]]]] = {}

    def send(
        self,
        source: int,
        incarnation: int,
        request_id: int,
        to: int,
        request: AnyRequest,
        channel: str,
        timeout_ms: int,
    ) -> None:
        """Send a request of a node or a client; the sender gets the answer, or a failure, exactly once."""
        self._transmit(source, incarnation, request_id, to, request, channel)
        self._timeline.after(timeout_ms * MS, self._time_out, source, incarnation, request_id)

    def reply(self, node_id: int, incarnation: int, effect: Reply) -> None:
        """Send a node's answer to a request, if the sender still waits for it."""
        opened = self._requests.pop(effect.request_id, None)
        if opened is None:
            if self.byte_connections is not None:
                self.byte_connections.reply(effect)
            return
        if effect.response is None:  # the sender waits for none (acks=0)
            self._sent.pop((opened.source, opened.incarnation, opened.request_id), None)
            return
        if self._network.answer_is_lost():
            self._network.lost_us[opened.source, opened.channel] = self._timeline.now_us
            self._timeline.after(MS, self._fail, opened, "connection lost")
            return
        at_us = self._network.arrival_us(self._timeline.now_us, node_id, opened.source, opened.channel)
        self._timeline.at(at_us, self._arrive_response, node_id, incarnation, opened, effect.response)

    def close(self, node_id: int, connection: int) -> None:
        """Close a connection that a node has accepted."""
        if connection >= FIRST_CONNECTION and self.byte_connections is not None:
            self.byte_connections.close(node_id, connection)
            return
        for number, opened in list(self._requests.items()):
            if opened.target == node_id and opened.source == connection:
                del self._requests[number]
                self._timeline.after(MS, self._fail, opened, "connection closed")

    def number_request(self) -> int:
        """A number by which a node knows a request."""
        self._next_request += 1
        return self._next_request - 1

    # --- messages ----------------------------------------------------------------------------------------------------

    def _transmit(
        self, source: int, incarnation: int, request_id: int, to: int, request: AnyRequest, channel: str
    ) -> None:
        number = self.number_request()
        self._sent[source, incarnation, request_id] = number
        target = self._machines[to]
        opened = _OpenRequest(source, incarnation, request_id, channel, to, target.incarnation)
        if target.node is None:
            self._timeline.after(MS, self._fail, opened, "connection refused")
            return
        at_us = self._network.arrival_us(self._timeline.now_us, source, to, channel)
        self._timeline.at(at_us, self._arrive_request, number, opened, request)
        if source < CLIENTS_FROM and self._network.is_repeated():
            again_us = self._network.arrival_us(at_us, source, to, channel)
            self._timeline.at(again_us, self._arrive_request, 0, opened, request)

    def _arrive_request(self, number: int, opened: _OpenRequest, request: AnyRequest) -> None:
        link = (opened.source, opened.target)
        if self.intercept is not None:
            again = partial(self._arrive_request, number, opened, request)
            if self.intercept(Envelope(*link, request, again)):
                return
        if self._network.stops(*link, opened.channel, False) or self._is_late(link, opened):
            if self._network.held_message_survives(*link):
                self.hold(link, self._arrive_request, number, opened, request)
            return
        machine = self._machines[opened.target]
        if machine.node is None or machine.incarnation != opened.target_incarnation:
            return
        if number == 0:  # a repetition; its answer is discarded
            number = self.number_request()
        else:
            self._requests[number] = opened
        self._deliver(
            opened.target,
            machine.incarnation,
            RequestReceived(
                number, opened.source, request, _VERSIONS.get(type(request), 0), _CLIENT, _listener(opened)
            ),
        )

    def _arrive_response(self, node_id: int, incarnation: int, opened: _OpenRequest, response: AnyResponse) -> None:
        link = (node_id, opened.source)
        if self.intercept is not None:
            again = partial(self._arrive_response, node_id, incarnation, opened, response)
            if self.intercept(Envelope(*link, response, again)):
                return
        if self._network.stops(*link, opened.channel, True) or self._is_late(link, opened):
            if self._network.held_message_survives(*link):
                self.hold(link, self._arrive_response, node_id, incarnation, opened, response)
            return
        if self._sent.pop((opened.source, opened.incarnation, opened.request_id), None) is None:
            return
        self._hand_over(opened, response)

    def _is_late(self, link: tuple[int, int], opened: _OpenRequest) -> bool:
        """Whether a message is of a late connection; what an ended process has sent may come after the next one's."""
        between = self._network.late.get((*link, opened.channel))
        ends = opened.incarnation, opened.target_incarnation
        return between is not None and between == (ends if link[0] == opened.source else ends[::-1])

    def _hand_over(self, opened: _OpenRequest, response: AnyResponse) -> None:
        if opened.source >= CLIENTS_FROM:
            self._answered(opened.source, opened.request_id, response)
        else:
            self._deliver(opened.source, opened.incarnation, ResponseReceived(opened.request_id, response))

    def _time_out(self, source: int, incarnation: int, request_id: int) -> None:
        if self._sent.pop((source, incarnation, request_id), None) is not None:
            self._report_failure(source, incarnation, request_id, "timeout")

    def _fail(self, opened: _OpenRequest, reason: str) -> None:
        if self._sent.pop((opened.source, opened.incarnation, opened.request_id), None) is not None:
            self._report_failure(opened.source, opened.incarnation, opened.request_id, reason)

    def _report_failure(self, source: int, incarnation: int, request_id: int, reason: str) -> None:
        if source >= CLIENTS_FROM:
            self._answered(source, request_id, None)
        else:
            self._deliver(source, incarnation, RequestFailed(request_id, reason))

    def drop_connections(self, node_id: int) -> None:
        """End the connections of a process that died: its clients get failures, its servers a disconnect."""
        if self.byte_connections is not None:
            self.byte_connections.drop(node_id)
        peers: set[int] = set()
        for number, opened in list(self._requests.items()):
            if opened.target == node_id:
                del self._requests[number]
                self._timeline.after(MS, self._fail, opened, "connection lost")
            elif opened.source == node_id:
                peers.add(opened.target)
        for peer in sorted(peers):
            machine = self._machines[peer]
            if (node_id, peer) not in self._network.cut:
                # at once, so that it cannot arrive after the first message of the next incarnation
                self._timeline.after(0, self._deliver, peer, machine.incarnation, Disconnected(node_id))

    # --- links -------------------------------------------------------------------------------------------------------

    def hold(self, link: tuple[int, int], action: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401
        """Let an arrival wait until messages pass this link again."""
        self._held.setdefault(link, []).append((action, arguments))

    def cut(self, links: frozenset[tuple[int, int]]) -> None:
        """Cut the links from the first node of each pair to the second."""
        self._network.cut |= links

    def mend(self, links: frozenset[tuple[int, int]]) -> None:
        """Let messages pass again; held ones arrive now."""
        self._network.cut -= links
        self._release(links)

    def stall(self, links: frozenset[tuple[int, int]]) -> None:
        """Hold messages from the first node of each pair to the second; none is lost."""
        self._network.stalled |= links

    def unstall(self, links: frozenset[tuple[int, int]]) -> None:
        """Let messages pass again; held ones arrive now."""
        self._network.stalled -= links
        self._release(links)

    def hold_back(self, source: int, target: int, channel: str) -> None:
        """Hold the messages of one channel from one node to another; those of other channels overtake them.

        So do those of the same channel once one of the two processes is another.
        """
        machines = self._machines
        self._network.late[source, target, channel] = machines[source].incarnation, machines[target].incarnation

    def let_pass(self, source: int, target: int, channel: str) -> None:
        """Deliver them again; held ones arrive now."""
        self._network.late.pop((source, target, channel), None)
        self._release(frozenset({(source, target)}))

    def withhold_metadata(self, node_id: int) -> None:
        """Hold the answers with metadata for a broker; all other messages reach it."""
        self._network.uninformed.add(node_id)

    def inform(self, node_id: int) -> None:
        """Deliver metadata to a broker again."""
        self._network.uninformed.discard(node_id)
        self._release(frozenset(link for link in self._held if link[1] == node_id))

    def _release(self, links: frozenset[tuple[int, int]]) -> None:
        for link in sorted(links):
            self._network.mended_us[link] = self._timeline.now_us
            for action, arguments in self._held.pop(link, []):
                self._timeline.after(self._network.faults.latency_us_min, action, *arguments)

    def break_connections(self, node_id: int) -> None:
        """Reset all connections of a node with open requests; the requests may have been applied."""
        if self.byte_connections is not None:
            self.byte_connections.reset_all(node_id)
        for number, opened in list(self._requests.items()):
            if node_id in (opened.target, opened.source):
                del self._requests[number]
                self._timeline.after(MS, self._fail, opened, "connection reset")


def _listener(opened: _OpenRequest) -> str:
    if opened.source >= CLIENTS_FROM:
        return CLIENT_LISTENER
    return CONTROLLER_LISTENER if opened.channel in CONTROLLER_CHANNELS else BROKER_LISTENER
