"""The APIs of each listener: every core message has a codec, every admitted request is handled."""

from __future__ import annotations

import asyncio
import typing

import pytest

from broker.core import messages
from broker.core.messages import DescribeClusterRequest, Listener, MetadataRequest
from broker.core.ports.events import CloseConnection, Exit, Reply, RequestFailed, RequestReceived, Send
from broker.shell.codec import frames
from broker.shell.codec.apis import CODECS, LISTENER_APIS, codec_of
from broker.shell.network.peers import Peers
from broker.shell.network.server import Server
from tests.broker.shell.codec.wire_samples import Sampler
from tests.broker.shell.shell_fakes import RawClient, eventually
from tests.support.cluster import CONTROLLER, Cluster

SEEDS = range(12)
CONNECTION = 77


def members(union):
    return {kind.__name__ for kind in typing.get_args(union)}


def test_every_request_of_the_core_has_a_codec():
    assert {codec.request_type.__name__ for codec in CODECS} == members(messages.AnyRequest)


def test_every_response_of_the_core_answers_a_request():
    expected = {name.replace("Request", "Response") for name in members(messages.AnyRequest)}
    assert members(messages.AnyResponse) == expected


def test_a_node_can_say_whatever_the_core_may_send():
    class Unheard(typing.NamedTuple):
        """A request that no listener serves."""

    async def scenario():
        events = []
        peers = Peers(events.append, lambda _: ("127.0.0.1", 1), "node-1", 1 << 20)
        peers.send(Send(7, 100, Unheard(), "control", 1000))
        assert events == [RequestFailed(7, "no listener serves Unheard")]
        peers.close()

    assert codec_of(Unheard()) is None
    asyncio.run(scenario())


def test_a_client_that_asks_what_is_not_served_is_shown_the_door(caplog):
    async def scenario():
        received = []
        server = Server(received.append, 1 << 20, 60_000)
        client = await RawClient.connect(await server.listen(Listener("BROKER", "127.0.0.1", 0)))
        codec = codec_of(MetadataRequest())
        await client.send(frames.request_frame(codec, 9, 1, "raw", MetadataRequest()))
        assert await client.is_closed()
        await eventually(lambda: bool(received))
        assert not [event for event in received if isinstance(event, RequestReceived)]
        await server.close()

    asyncio.run(scenario())
    assert [record.message for record in caplog.records if "API 3 is not served on BROKER" in record.message]


@pytest.mark.parametrize("node_id", [1, CONTROLLER])
def test_a_node_closes_the_connection_of_a_request_that_is_not_its_business(node_id):
    cluster = Cluster()
    cluster.run(5_000)
    request = DescribeClusterRequest() if node_id == CONTROLLER else messages.VoteRequest("", 1, 1, 1, 1, 1)
    effects = cluster.machines[node_id].node.handle(cluster.now_ms, RequestReceived(9, CONNECTION, request))
    assert CloseConnection(CONNECTION) in effects
    assert not [effect for effect in effects if isinstance(effect, Reply | Exit)]


SERVED = [
    pytest.param(node_id, codec, id=f"{listener}-{codec.name}")
    for node_id, listener in ((1, "CLIENT"), (1, "BROKER"), (CONTROLLER, "CONTROLLER"))
    for codec in LISTENER_APIS[listener].values()
]


@pytest.mark.parametrize(("node_id", "codec"), SERVED)
def test_whatever_a_listener_lets_in_does_not_end_the_node(node_id, codec):
    """Most requests are nonsense: unknown topics, replicas and epochs."""
    cluster = Cluster()
    cluster.run(5_000)
    node = cluster.machines[node_id].node
    for seed in SEEDS:
        request = Sampler(seed).request(codec)
        effects = node.handle(cluster.now_ms, RequestReceived(1_000_000 + seed, CONNECTION, request))
        assert not [effect for effect in effects if isinstance(effect, Exit)]
