"""Outgoing connections, to a node's own server and to unreachable addresses."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import asynccontextmanager

import pytest

from broker.core.messages import (
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    Listener,
)
from broker.core.ports.events import Disconnected, RequestFailed, RequestReceived, ResponseReceived, Send
from broker.shell.network.peers import Peers
from broker.shell.network.server import Server
from tests.broker.shell.shell_fakes import eventually, free_port

FRAME_MAX = 1 << 20
TOPIC_ID = "6f1c2bb1-4a57-4f8e-9d32-0f2a4c5d6e7f"


class Pair:
    """A controller's server (node 100) and another node's peers."""

    def __init__(self):
        self.received = []
        self.events = []
        self.addresses = {}
        self.server = None
        self.peers = Peers(self.events.append, lambda node_id, _: self.addresses.get(node_id), "node-1", FRAME_MAX)

    async def serve(self, port=0):
        self.server = Server(self.received.append, FRAME_MAX, 60_000)
        port = await self.server.listen(Listener("CONTROLLER", "127.0.0.1", port))
        self.addresses[100] = ("127.0.0.1", port)
        return port

    def requests(self):
        return [event for event in self.received if isinstance(event, RequestReceived)]

    def heartbeat(self, request_id, timeout_ms=5000, channel="control", to=100):
        request = BrokerHeartbeatRequest(1, request_id, 0, False, False)
        self.peers.send(Send(request_id, to, request, channel, timeout_ms))

    def answer(self, number):
        request = self.requests()[number]
        epoch = request.request.broker_epoch
        self.server.reply(request.request_id, BrokerHeartbeatResponse(0, epoch % 2 == 0, False, False))


@asynccontextmanager
async def pair(serve=True):
    made = Pair()
    if serve:
        await made.serve()
    try:
        yield made
    finally:
        made.peers.close()
        if made.server is not None:
            await made.server.close()


def test_requests_of_a_channel_share_a_connection_and_are_answered_in_order():
    async def scenario():
        async with pair() as p:
            for request_id in (1, 2, 3):
                p.heartbeat(request_id)
            for number in range(3):
                await eventually(lambda count=number + 1: len(p.requests()) == count)
                p.answer(number)
            await eventually(lambda: len(p.events) == 3)
            assert [(event.request_id, event.response.is_caught_up) for event in p.events] == [
                (1, False),
                (2, True),
                (3, False),
            ]
            assert {event.connection for event in p.requests()} == {1}
            assert p.requests()[0].client_id == "node-1"

    asyncio.run(scenario())


def test_channels_have_connections_of_their_own():
    async def scenario():
        async with pair() as p:
            p.heartbeat(1, channel="control")
            p.heartbeat(2, channel="fetch")
            await eventually(lambda: len(p.requests()) == 2)
            assert {event.connection for event in p.requests()} == {1, 2}

    asyncio.run(scenario())


def test_the_answer_names_the_topics_that_the_wire_has_ids_for():
    async def scenario():
        async with pair() as p:
            asked = AlterPartitionPartition("t", 0, 1, 2, ((1, 5),), topic_id=TOPIC_ID)
            p.peers.send(Send(1, 100, AlterPartitionRequest(1, 5, (asked,)), "control", 5000))
            await eventually(lambda: len(p.requests()) == 1)
            received = p.requests()[0]
            assert received.request.partitions == (asked._replace(topic=""),)
            answered = AlteredPartition("t", 0, 0, 1, 1, (1,), 0, 3, TOPIC_ID)
            p.server.reply(received.request_id, AlterPartitionResponse(0, (answered,)))
            await eventually(lambda: len(p.events) == 1)
            assert p.events == [ResponseReceived(1, AlterPartitionResponse(0, (answered,)))]

    asyncio.run(scenario())


def failures(p):
    return [event for event in p.events if isinstance(event, RequestFailed)]


def test_a_request_to_a_node_without_an_address_fails():
    async def scenario():
        async with pair(serve=False) as p:
            p.heartbeat(1)
            await eventually(lambda: len(p.events) == 1)
            assert "address is not known" in failures(p)[0].reason

    asyncio.run(scenario())


def test_a_refused_connection_fails_all_that_wait_for_it_and_a_later_one_succeeds():
    async def scenario():
        async with pair(serve=False) as p:
            port = free_port()
            p.addresses[100] = ("127.0.0.1", port)
            p.heartbeat(1)
            p.heartbeat(2)
            await eventually(lambda: len(p.events) == 2)
            assert [event.request_id for event in failures(p)] == [1, 2]
            await p.serve(port)
            p.heartbeat(3)
            await eventually(lambda: len(p.requests()) == 1)
            p.answer(0)
            await eventually(lambda: len(p.events) == 3)
            assert p.events[2].request_id == 3
            assert isinstance(p.events[2], ResponseReceived)

    asyncio.run(scenario())


def test_failures_in_a_row_slow_the_attempts_down():
    async def scenario():
        async with pair(serve=False) as p:
            p.addresses[100] = ("127.0.0.1", free_port())
            began = time.monotonic()
            for request_id in range(1, 6):
                p.heartbeat(request_id)
                await eventually(lambda count=request_id: len(p.events) == count)
            assert time.monotonic() - began >= 0.02 + 0.04 + 0.08 + 0.16

    asyncio.run(scenario())


def test_a_node_may_try_again_from_within_the_failure():
    async def scenario():
        async with pair(serve=False) as p:
            p.addresses[100] = ("127.0.0.1", free_port())
            retries = iter(range(2, 6))

            def deliver(event):
                p.events.append(event)
                if (request_id := next(retries, None)) is not None:
                    p.heartbeat(request_id)

            p.peers.deliver = deliver
            p.heartbeat(1)
            await eventually(lambda: len(p.events) == 5)
            assert [event.request_id for event in failures(p)] == [1, 2, 3, 4, 5]

    asyncio.run(scenario())


def test_a_late_answer_fails_its_request_and_all_behind_it():
    async def scenario():
        async with pair() as p:
            p.heartbeat(1, timeout_ms=60)
            p.heartbeat(2, timeout_ms=60_000)
            await eventually(lambda: len(p.events) == 2)
            assert [event.request_id for event in failures(p)] == [1, 2]
            assert "no answer from node 100 (control) in 60 ms" in failures(p)[0].reason
            await eventually(lambda: Disconnected(1) in p.received)
            p.heartbeat(3)
            await eventually(lambda: len(p.requests()) == 2)
            p.answer(1)
            await eventually(lambda: len(p.events) == 3)
            assert isinstance(p.events[2], ResponseReceived)

    asyncio.run(scenario())


def test_a_request_that_waits_for_a_connection_still_has_its_timeout():
    # A full backlog on loopback simulates a cut link: the handshake gets no answer.
    async def scenario():
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            address = full.getsockname()
            fillers = []
            try:
                for _ in range(4):
                    filler = socket.socket()
                    filler.setblocking(False)
                    filler.connect_ex(address)
                    fillers.append(filler)
                async with pair(serve=False) as p:
                    p.addresses[100] = address
                    began = time.monotonic()
                    p.heartbeat(1, timeout_ms=100)
                    await eventually(lambda: len(p.events) == 1)
                    assert time.monotonic() - began >= 0.09
                    assert "no answer from node 100" in failures(p)[0].reason
            finally:
                for filler in fillers:
                    filler.close()

    asyncio.run(scenario())


def test_a_lost_connection_fails_what_was_sent_on_it():
    async def scenario():
        async with pair() as p:
            p.heartbeat(1)
            await eventually(lambda: len(p.requests()) == 1)
            p.server.close_connection(1)
            await eventually(lambda: len(p.events) == 1)
            assert "connection lost" in failures(p)[0].reason

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"\0\0\0\x02hi", id="too short"),
        pytest.param(b"\0\0\0\x10\0\0\0\x63" + bytes(12), id="another correlation id"),
        pytest.param(b"\x7f\xff\xff\xff", id="too large"),
    ],
)
def test_an_answer_that_is_not_understood_fails_the_request_and_the_connection(answer):
    async def scenario():
        async def impostor(reader, writer):
            await reader.read(4)
            writer.write(answer)
            assert await reader.read() is not None
            writer.close()

        server = await asyncio.start_server(impostor, "127.0.0.1", 0)
        async with pair(serve=False) as p:
            p.addresses[100] = server.sockets[0].getsockname()
            p.heartbeat(1)
            await eventually(lambda: len(p.events) == 1)
            assert "not understood" in failures(p)[0].reason
        server.close()

    asyncio.run(scenario())


def test_an_unexpected_answer_closes_the_connection():
    async def scenario():
        closed = asyncio.Event()

        async def impostor(reader, writer):
            size = int.from_bytes(await reader.readexactly(4))
            frame = await reader.readexactly(size)
            body = frame[4:8] + bytes(11)
            writer.write((len(body).to_bytes(4) + body) * 2)
            assert await reader.read() == b""
            closed.set()
            writer.close()

        server = await asyncio.start_server(impostor, "127.0.0.1", 0)
        async with pair(serve=False) as p:
            p.addresses[100] = server.sockets[0].getsockname()
            p.heartbeat(1)
            await asyncio.wait_for(closed.wait(), 5)
            assert len(p.events) == 1
            assert isinstance(p.events[0], ResponseReceived)
        server.close()

    asyncio.run(scenario())


def test_sockets_to_peers_give_up_on_a_cut_link_within_seconds():
    async def scenario():
        async with pair() as p:
            p.heartbeat(1)
            await eventually(lambda: len(p.requests()) == 1)
            (link,) = p.peers._links.values()
            connection = link._transport.get_extra_info("socket")
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert 1000 <= connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 5000

    asyncio.run(scenario())
