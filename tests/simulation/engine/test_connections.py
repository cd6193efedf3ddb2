"""Bytes between a client and a simulated broker: as the kernel would carry them, with the faults of the simulation."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.connections import ByteNetwork
from simulation.engine.event_loop import SimulatedEventLoop
from simulation.engine.event_queue import MS
from simulation.scenario.configuration import Configuration
from simulation.scenario.scenario import settings_of

CLIENT = 1_000
API_VERSIONS = 18


def request(correlation_id: int) -> bytes:
    body = struct.pack(">hhih", API_VERSIONS, 0, correlation_id, -1)
    return struct.pack(">i", len(body)) + body


class Recorder(asyncio.Protocol):
    """Records what it gets: the correlation ids of whole answers, and how the connection ended."""

    def __init__(self) -> None:
        self.data = b""
        self.ended: list[Exception | None] = []

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.append(exc)

    @property
    def answers(self) -> list[int]:
        found, at = [], 0
        while at < len(self.data):
            size, correlation_id = struct.unpack_from(">ii", self.data, at)
            found.append(correlation_id)
            at += 4 + size
        return found


class Bench:
    """A cluster of three brokers that are ready, and a client that connects to the first."""

    def __init__(self, choices: ChoiceSequence) -> None:
        self.cluster = SimulatedCluster(choices, settings_of(Configuration(controllers=1)))
        cluster = self.cluster
        self.network = ByteNetwork(
            cluster, cluster.transport, cluster.network, cluster.machines, cluster.deliver, cluster.digest
        )
        cluster.transport.byte_connections = self.network
        self.loop = SimulatedEventLoop.make(cluster, CLIENT, self.network)
        for node_id in cluster.machines:
            cluster.start(node_id)
        self.run(5_000)

    def run(self, ms: int) -> None:
        self.cluster.run_until(self.cluster.now_us + ms * MS)

    def connecting(self, host: str = "b1") -> asyncio.Task[tuple[asyncio.Transport, Recorder]]:
        return self.loop.create_task(self.loop.create_connection(Recorder, host, 1))  # type: ignore[arg-type]

    def connected(self) -> tuple[asyncio.Transport, Recorder]:
        task = self.connecting()
        self.run(100)
        return task.result()


@pytest.fixture
def bench() -> Bench:
    return Bench(ChoiceSequence(7))


def both_ways(node_id: int) -> frozenset[tuple[int, int]]:
    return frozenset({(CLIENT, node_id), (node_id, CLIENT)})


def test_pipelined_requests_are_answered_in_order_whatever_the_latencies(bench: Bench) -> None:
    transport, recorder = bench.connected()
    bench.cluster.network.faults.latency_us_max = 200_000
    wanted = list(range(1, 40))
    for number in wanted:
        for byte in request(number):
            transport.write(bytes([byte]))
    bench.run(4_000)
    assert recorder.answers == wanted


def test_bytes_on_a_cut_link_arrive_once_it_is_mended_or_the_connection_is_reset() -> None:
    for survives_of_1000 in (1_000, 0):
        bench = Bench(ChoiceSequence(3))
        bench.cluster.network.faults.held_survives_of_1000 = survives_of_1000
        transport, recorder = bench.connected()
        bench.cluster.transport.cut(both_ways(1))
        for number in (1, 2, 3):
            transport.write(request(number))
        bench.run(1_000)
        assert recorder.answers == []
        bench.cluster.transport.mend(both_ways(1))
        transport.write(request(4))
        bench.run(1_000)
        if survives_of_1000:
            assert (recorder.answers, recorder.ended) == ([1, 2, 3, 4], [])
        else:
            assert recorder.answers == []
            assert [type(error) for error in recorder.ended] == [ConnectionResetError]
            assert bench.network.open_connections == 0


def test_a_frozen_process_accepts_and_answers_when_it_is_resumed(bench: Bench) -> None:
    bench.cluster.pause(1)
    transport, recorder = bench.connected()
    transport.write(request(1))
    bench.run(1_000)
    assert recorder.answers == []
    bench.cluster.resume(1)
    bench.run(100)
    assert recorder.answers == [1]


def test_a_process_that_dies_resets_its_connections_and_refuses_new_ones(bench: Bench) -> None:
    _, recorder = bench.connected()
    bench.cluster.kill(1)
    refused = bench.connecting()
    bench.run(100)
    assert [type(error) for error in recorder.ended] == [ConnectionResetError]
    assert isinstance(refused.exception(), ConnectionRefusedError)
    assert bench.network.open_connections == 0


def test_the_next_incarnation_serves(bench: Bench) -> None:
    bench.connected()
    bench.cluster.kill(1)
    bench.cluster.start(1)
    bench.run(100)
    transport, recorder = bench.connected()
    transport.write(request(9))
    bench.run(100)
    assert recorder.answers == [9]


def test_a_client_that_gives_up_connecting_leaves_nothing(bench: Bench) -> None:
    bench.cluster.transport.stall(frozenset({(1, CLIENT)}))
    task = bench.connecting()
    bench.run(100)
    assert bench.network.open_connections == 1
    task.cancel()
    bench.run(100)
    bench.cluster.transport.unstall(frozenset({(1, CLIENT)}))
    bench.run(100)
    assert (task.cancelled(), bench.network.open_connections) == (True, 0)


def test_closing_and_aborting_reach_the_broker(bench: Bench) -> None:
    for end in ("close", "abort"):
        transport, recorder = bench.connected()
        getattr(transport, end)()
        bench.run(100)
        assert (recorder.ended, bench.network.open_connections) == ([None], 0)


def test_what_is_no_request_closes_the_connection(bench: Bench) -> None:
    transport, recorder = bench.connected()
    transport.write(struct.pack(">ihhih", 10, 999, 0, 1, -1))
    bench.run(100)
    assert (recorder.data, recorder.ended, bench.network.open_connections) == (b"", [None], 0)


def test_a_host_that_does_not_exist(bench: Bench) -> None:
    task = bench.connecting("b9")
    bench.run(100)
    assert isinstance(task.exception(), socket.gaierror)


def test_resets_are_seen_by_both_ends(bench: Bench) -> None:
    _, recorder = bench.connected()
    bench.cluster.transport.break_connections(1)
    bench.run(100)
    assert [type(error) for error in recorder.ended] == [ConnectionResetError]
    assert bench.network.open_connections == 0
