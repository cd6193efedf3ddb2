"""The listeners with valid, invalid and slow clients."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import asynccontextmanager

import pytest
from kafka.protocol.metadata import ApiVersionsResponse

from broker.core.messages import (
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    Listener,
    MetadataRequest,
    ProducePartition,
    ProduceRequest,
)
from broker.core.ports.events import Disconnected, RequestReceived
from broker.core.rules.features import Feature
from broker.shell.codec.apis import LISTENER_APIS
from broker.shell.codec.clients.lookups import INIT_PRODUCER_ID
from broker.shell.codec.cluster.brokers import BROKER_HEARTBEAT
from broker.shell.network import server as server_module
from broker.shell.network.server import Server
from tests.broker.shell.shell_fakes import DEADLINE_S, RawClient, eventually

FRAME_MAX = 1 << 20


class Running:
    def __init__(self, server, port, events):
        self.server = server
        self.port = port
        self.events = events

    def requests(self):
        return [event for event in self.events if isinstance(event, RequestReceived)]

    def gone(self):
        return [event.connection for event in self.events if isinstance(event, Disconnected)]

    def reply_to_all(self):
        """From now on every InitProducerId request is answered at once with its own producer id."""

        def deliver(event):
            self.events.append(event)
            if isinstance(event, RequestReceived):
                answer = InitProducerIdResponse(0, event.request.producer_id, 0)
                self.server.reply(event.request_id, answer)

        self.server.deliver = deliver


@asynccontextmanager
async def running(listener="CLIENT", idle_ms_max=60_000, features=()):
    events = []
    server = Server(events.append, FRAME_MAX, idle_ms_max, features=features)
    port = await server.listen(Listener(listener, "127.0.0.1", 0))
    run = Running(server, port, events)
    try:
        yield run
    finally:
        await server.close()


async def still_serves(run):
    """A new client gets its response."""
    run.reply_to_all()
    client = await RawClient.connect(run.port)
    await client.request(4, 1, InitProducerIdRequest(producer_id=77))
    frame = await client.frame()
    client.close()
    return INIT_PRODUCER_ID.decode_response(frame, 5, 4).producer_id == 77


def heartbeat():
    return b"".join((BROKER_HEARTBEAT.api_key.to_bytes(2), (1).to_bytes(2), bytes(4), b"\xff\xff", bytes(40)))


def framed(data):
    return len(data).to_bytes(4) + data


@pytest.mark.parametrize(
    ("sent", "line"),
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "expected a frame of 0 to", id="HTTP"),
        pytest.param(b"\xff\xff\xff\xff", "expected a frame of 0 to", id="negative length"),
        pytest.param((FRAME_MAX + 1).to_bytes(4), "expected a frame of 0 to", id="too large"),
        pytest.param(framed(b""), "request header is malformed", id="empty frame"),
        pytest.param(framed(b"\0\0\0"), "request header is malformed", id="frame shorter than a header"),
        pytest.param(framed(b"\x03\xe7\0\0\0\0\0\1\xff\xff"), "API 999 is not served", id="unknown API"),
        pytest.param(framed(heartbeat()), "API 63 is not served on CLIENT", id="API of another listener"),
        pytest.param(framed(b"\0\3\0\x63\0\0\0\1\xff\xff"), "version 99 is not served", id="unknown version"),
        pytest.param(framed(b"\0\3\0\x05\0\0\0\1\xff\xff\0\0\0\7"), "malformed", id="body cut short"),
    ],
)
def test_what_is_no_request_closes_its_connection_and_no_other(sent, line, caplog):
    async def scenario():
        async with running() as run:
            client = await RawClient.connect(run.port)
            await client.send(sent)
            assert await client.is_closed()
            await eventually(lambda: run.gone() == [1])
            assert run.requests() == []
            assert await still_serves(run)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert len(caplog.records) == 1
    assert line in caplog.text


def test_random_bytes_never_bring_the_server_down():
    source = random.Random(5)

    async def scenario():
        async with running() as run:
            run.reply_to_all()
            run.server.deliver = run.events.append
            for _ in range(60):
                client = await RawClient.connect(run.port)
                data = source.randbytes(source.choice((1, 4, 30, 3000)))
                await client.send(framed(data) if source.random() < 0.7 else data)
                client.close()
            await eventually(lambda: len(run.gone()) == 60)
            assert await still_serves(run)

    asyncio.run(scenario())


def test_a_frame_may_arrive_byte_by_byte():
    async def scenario():
        async with running() as run:
            run.reply_to_all()
            client = await RawClient.connect(run.port)
            buffer = bytearray()

            class Collect:
                async def send(self, data):
                    buffer.extend(data)

            await RawClient.request(Collect(), 4, 9, InitProducerIdRequest(producer_id=5))
            for value in buffer:
                await client.send(bytes((value,)))
                await asyncio.sleep(0)
            assert (await client.frame())[:4] == (9).to_bytes(4)

    asyncio.run(scenario())


def test_requests_of_one_connection_are_handed_on_one_at_a_time_and_answered_in_order():
    async def scenario():
        async with running() as run:
            client = await RawClient.connect(run.port)
            for number in range(3):
                await client.request(4, number, InitProducerIdRequest(producer_id=number))
            for number in range(3):
                await eventually(lambda count=number + 1: len(run.requests()) == count)
                await asyncio.sleep(0.01)
                assert len(run.requests()) == number + 1
                request = run.requests()[-1]
                assert request.request.producer_id == number
                assert (request.api_version, request.client_id) == (4, "raw")
                run.server.reply(request.request_id, InitProducerIdResponse(0, number, 0))
                assert (await client.frame())[:4] == number.to_bytes(4)

    asyncio.run(scenario())


def test_hundreds_of_pipelined_requests_are_answered_without_recursion():
    async def scenario():
        async with running() as run:
            run.reply_to_all()
            client = await RawClient.connect(run.port)
            for number in range(2000):
                await client.request(4, number, InitProducerIdRequest(producer_id=number))
            for number in range(2000):
                assert (await client.frame())[:4] == number.to_bytes(4)

    asyncio.run(scenario())


def test_produce_without_acknowledgement_gets_no_answer_and_the_next_request_is_served():
    async def scenario():
        async with running() as run:
            client = await RawClient.connect(run.port)
            await client.request(9, 1, ProduceRequest(0, 100, (ProducePartition("t", 0, b"r"),)))
            await client.request(4, 2, InitProducerIdRequest())
            await eventually(lambda: len(run.requests()) == 1)
            run.server.reply(run.requests()[0].request_id, None)
            await eventually(lambda: len(run.requests()) == 2)
            run.server.reply(run.requests()[1].request_id, InitProducerIdResponse(0, 1, 0))
            assert (await client.frame())[:4] == (2).to_bytes(4)

    asyncio.run(scenario())


def test_a_reply_to_a_client_that_has_gone_is_dropped():
    async def scenario():
        async with running() as run:
            client = await RawClient.connect(run.port)
            await client.request(4, 1, InitProducerIdRequest())
            await eventually(lambda: len(run.requests()) == 1)
            client.close()
            await eventually(lambda: run.gone() == [1])
            run.server.reply(run.requests()[0].request_id, InitProducerIdResponse(0, 1, 0))
            assert await still_serves(run)

    asyncio.run(scenario())


def test_the_node_can_close_a_connection():
    async def scenario():
        async with running() as run:
            client = await RawClient.connect(run.port)
            await client.request(4, 1, InitProducerIdRequest())
            await eventually(lambda: len(run.requests()) == 1)
            run.server.close_connection(run.requests()[0].connection)
            assert await client.is_closed()
            await eventually(lambda: run.gone() == [1])

    asyncio.run(scenario())


def test_a_client_that_does_not_read_is_not_read_from_and_harms_no_other():
    records = bytes(1 << 20)

    async def scenario():
        async with running() as run:

            def deliver(event):
                run.events.append(event)
                if isinstance(event, RequestReceived):
                    fetched = FetchedPartition("t", 0, 0, records=records)
                    run.server.reply(event.request_id, FetchResponse((fetched,)))

            run.server.deliver = deliver
            client = await RawClient.connect(run.port)
            sending = asyncio.create_task(send_fetches(client))
            await eventually(lambda: len(run.requests()) > 0)
            answered = -1
            while answered != len(run.requests()):
                answered = len(run.requests())
                await asyncio.sleep(0.05)
            assert answered < 100
            assert run.server.held_bytes < 5 << 20
            sending.cancel()
            client.writer.transport.abort()
            assert await still_serves(run)

    async def send_fetches(client):
        for number in range(100):
            await client.request(12, number, FetchRequest(()))

    asyncio.run(scenario())


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_api_versions_lists_what_the_listener_serves(version):
    async def scenario():
        async with running("CONTROLLER") as run:
            client = await RawClient.connect(run.port)
            await client.send(framed(api_versions_request(version)))
            frame = await client.frame()
            assert frame[:4] == (7).to_bytes(4)
            answer = ApiVersionsResponse.decode(frame[4:], version=version)
            ranges = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
            expected = {key: codec.versions for key, codec in LISTENER_APIS["CONTROLLER"].items()}
            assert ranges == {**expected, 18: (0, 4)}

    asyncio.run(scenario())


FEATURES = (Feature("from.zero", 0, 2, 1), Feature("from.one", 1, 3, 2), Feature("off", 0, 1, 0))


@pytest.mark.parametrize(("version", "supported"), [(3, {"from.one"}), (4, {"from.zero", "from.one", "off"})])
def test_api_versions_tells_of_the_features(version, supported):
    async def scenario():
        async with running(features=FEATURES) as run:
            client = await RawClient.connect(run.port)
            await client.send(framed(api_versions_request(version)))
            answer = ApiVersionsResponse.decode((await client.frame())[4:], version=version)
            assert {each.name for each in answer.supported_features} == supported
            assert {each.name: each.max_version_level for each in answer.finalized_features} == {
                "from.zero": 1,
                "from.one": 2,
            }
            assert answer.finalized_features_epoch == 0

    asyncio.run(scenario())


def test_a_request_carries_the_address_of_its_client():
    async def scenario():
        async with running() as run:
            client = await RawClient.connect(run.port)
            await client.request(4, 1, InitProducerIdRequest(producer_id=77))
            await eventually(run.requests)
            assert run.requests()[0].client_host == "/127.0.0.1"
            client.close()

    asyncio.run(scenario())


def test_an_unknown_version_of_api_versions_is_answered_in_version_0_with_the_list():
    async def scenario():
        async with running() as run:
            client = await RawClient.connect(run.port)
            await client.send(framed(api_versions_request(9)))
            answer = ApiVersionsResponse.decode((await client.frame())[4:], version=0)
            assert answer.error_code == 35
            assert 18 in {each.api_key for each in answer.api_keys}
            await client.send(framed(api_versions_request(3)))
            assert (await client.frame())[4:6] == b"\0\0"

    asyncio.run(scenario())


def api_versions_request(version):
    body = b"\0\x02x\x02y\0" if version >= 3 else b""
    return b"\0\x12" + version.to_bytes(2) + b"\0\0\0\x07" + b"\0\x01c" + body


def test_half_a_frame_is_not_waited_for_forever(monkeypatch):
    monkeypatch.setattr(server_module, "HALF_FRAME_S_MAX", 0.05)
    monkeypatch.setattr(server_module, "_SWEEP_S", 0.02)

    async def scenario():
        async with running() as run:
            client = await RawClient.connect(run.port)
            await client.send((100).to_bytes(4) + b"half")
            assert await client.is_closed()

    asyncio.run(scenario())


def test_an_idle_connection_is_closed_but_not_one_that_waits_for_its_answer(monkeypatch):
    monkeypatch.setattr(server_module, "_SWEEP_S", 0.02)

    async def scenario():
        async with running(idle_ms_max=60) as run:
            waiting = await RawClient.connect(run.port)
            await waiting.request(4, 1, InitProducerIdRequest())
            await eventually(lambda: len(run.requests()) == 1)
            idle = await RawClient.connect(run.port)
            assert await idle.is_closed()
            await eventually(lambda: run.gone() == [2])
            run.server.reply(run.requests()[0].request_id, InitProducerIdResponse(0, 1, 0))
            assert (await waiting.frame())[:4] == (1).to_bytes(4)

    asyncio.run(scenario())


def test_closing_sends_what_was_answered_and_frees_the_port():
    async def scenario():
        async with running() as run:
            run.reply_to_all()
            client = await RawClient.connect(run.port)
            await client.request(4, 1, InitProducerIdRequest())
            await eventually(lambda: len(run.requests()) == 1)
        assert (await client.frame())[:4] == (1).to_bytes(4)
        assert await client.is_closed()
        again = Server(lambda event: None, FRAME_MAX, 1000)
        assert await again.listen(Listener("CLIENT", "127.0.0.1", run.port)) == run.port
        await again.close()

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))


@pytest.mark.parametrize("request_", [MetadataRequest(), FindCoordinatorRequest(0, ("g",)), FetchRequest(())])
def test_each_listener_serves_its_own_apis_only(request_):
    from broker.shell.codec.apis import codec_of

    key = codec_of(request_).api_key
    assert key in LISTENER_APIS["CLIENT"]
    assert (key in LISTENER_APIS["BROKER"]) == isinstance(request_, FetchRequest)
    for listener in ("CLIENT", "BROKER"):
        assert not {56, 62, 63, 67} & LISTENER_APIS[listener].keys()


def test_connections_that_hold_most_are_closed_when_all_hold_too_much(caplog):
    whole = framed(bytes(FRAME_MAX - 4))

    async def scenario():
        async with running() as run:
            patient = await RawClient.connect(run.port)
            await patient.send(whole[:100])
            greedy = [await RawClient.connect(run.port) for _ in range(6)]
            for client in greedy:
                await client.send(whole[:-1])
            await eventually(lambda: len(run.gone()) >= 2)
            assert run.server.held_bytes <= 4 * FRAME_MAX
            assert 1 not in run.gone()
            assert await still_serves(run)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert "and all may hold 4194304" in caplog.text


def test_a_response_that_cannot_be_written_refuses_its_client_alone(caplog):
    async def scenario():
        async with running() as run:
            client = await RawClient.connect(run.port)
            await client.request(4, 1, InitProducerIdRequest())
            await eventually(lambda: len(run.requests()) == 1)
            run.server.reply(run.requests()[0].request_id, InitProducerIdResponse(0, 1 << 70, 0))
            assert await client.is_closed()
            assert run.server.traffic.incidents == 1
            assert await still_serves(run)

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert "incident 1, a bug: the response of InitProducerId cannot be written" in caplog.text
