"""The host with a scripted node: effects are executed in order, and their events are delivered."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from broker.core.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    BrokerHeartbeatRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    Listener,
)
from broker.core.ports.events import (
    CancelTimer,
    CloseConnection,
    Disconnected,
    Exit,
    Flush,
    FlushDone,
    LogEntry,
    Reply,
    RequestFailed,
    RequestReceived,
    Send,
    SetTimer,
    Started,
    StopRequested,
    TimerFired,
)
from broker.core.ports.files import StorageError
from broker.shell.host import EXIT_CRASHED, NodeHost
from tests.broker.shell.shell_fakes import GatedFiles, RawClient, ScriptedNode, eventually, settings

STOP = [Exit(0, "done")]


def run(script, during=None, files=None, **changes):
    """Run a scripted node until it exits; returns the node and its exit status."""
    node = ScriptedNode(script)

    async def scenario():
        host = NodeHost(node, settings(**changes), files or GatedFiles(), lambda: None)
        ports = await host.listen()
        running = asyncio.create_task(host.run())
        if during is not None:
            await during(host, ports)
        return await asyncio.wait_for(running, 10)

    return node, asyncio.run(scenario())


def on(kind, effects, otherwise=()):
    return lambda event: list(effects) if isinstance(event, kind) else list(otherwise)


def test_the_first_event_is_the_start():
    node, status = run(on(Started, STOP))
    assert status == 0
    assert isinstance(node.events[0][1], Started)


def test_the_start_event_carries_the_time_of_day():
    earliest_ms = time.time_ns() // 1_000_000
    (started,) = run(on(Started, STOP))[0].seen(Started)
    assert earliest_ms <= started.wall_clock_ms <= time.time_ns() // 1_000_000


def test_the_exit_status_is_the_nodes_own():
    assert run(on(Started, [Exit(4, "disk failed")]))[1] == 4


def test_nothing_is_carried_out_or_handled_after_the_exit():
    node, _ = run(on(Started, [SetTimer("t", 0), Exit(0, "done")]))
    assert node.seen(TimerFired) == []


def test_a_timer_fires_at_its_time_never_before():
    fired = []

    def script(event):
        if isinstance(event, Started):
            fired.append(node_box[0].events[-1][0])
            return [SetTimer(("k", 1), fired[0] + 30)]
        return STOP

    node_box = []
    node = ScriptedNode(script)
    node_box.append(node)

    async def scenario():
        host = NodeHost(node, settings(listeners=()), GatedFiles(), lambda: None)
        return await asyncio.wait_for(host.run(), 10)

    assert asyncio.run(scenario()) == 0
    at, event = node.events[-1]
    assert event == TimerFired(("k", 1))
    assert fired[0] + 30 <= at < fired[0] + 1000


def test_a_later_timer_of_the_same_key_replaces_the_earlier():
    def script(event):
        match event:
            case Started():
                return [SetTimer("a", 0), SetTimer("a", 1 << 50), SetTimer("end", 0)]
            case TimerFired("end"):
                return STOP
        return []

    assert run(script)[0].seen(TimerFired) == [TimerFired("end")]


def test_a_cancelled_timer_does_not_fire():
    def script(event):
        match event:
            case Started():
                return [SetTimer("a", 0), CancelTimer("a"), CancelTimer("never set"), SetTimer("end", 0)]
            case TimerFired("end"):
                return STOP
        return []

    assert run(script)[0].seen(TimerFired) == [TimerFired("end")]


def test_a_timer_may_be_set_again_when_it_fires():
    rounds = iter(range(5))

    def script(event):
        return [SetTimer("a", 0)] if next(rounds, None) is not None else STOP

    assert len(run(script)[0].seen(TimerFired)) == 5


def test_time_never_runs_backwards():
    rounds = iter(range(200))

    def script(event):
        if next(rounds, None) is None:
            return STOP
        return [SetTimer("a", node_time() + 1)]

    def node_time():
        return times[-1] if times else 0

    times = []
    node = ScriptedNode(script)
    original = node.handle

    def handle(now_ms, event):
        if isinstance(event, TimerFired):
            assert now_ms >= times[-1] + 1
        times.append(now_ms)
        return original(now_ms, event)

    node.handle = handle

    async def scenario():
        return await NodeHost(node, settings(listeners=()), GatedFiles(), lambda: None).run()

    assert asyncio.run(scenario()) == 0
    assert times == sorted(times)


def test_a_flush_ends_with_its_event_while_the_node_continues():
    files = GatedFiles()
    gate = files.gate("slow")

    def script(event):
        match event:
            case Started():
                return [Flush("one", ("slow",)), SetTimer("meanwhile", 0)]
            case TimerFired():
                gate.set()
            case FlushDone():
                return STOP
        return []

    node, _ = run(script, files=files)
    assert [type(event) for _, event in node.events] == [Started, TimerFired, FlushDone]
    assert node.seen(FlushDone) == [FlushDone("one", None)]


def test_a_failed_flush_is_reported_to_the_node():
    files = GatedFiles({"a": StorageError("I/O error")})
    script = lambda event: [Flush(7, ("a",))] if isinstance(event, Started) else STOP  # noqa: E731
    assert run(script, files=files)[0].seen(FlushDone) == [FlushDone(7, "I/O error")]


def test_a_hanging_disk_does_not_keep_the_process_from_its_end():
    files = GatedFiles()
    gate = files.gate("stuck")
    assert run(on(Started, [Flush("x", ("stuck",)), *STOP]), files=files)[1] == 0
    gate.set()


def test_requests_are_answered_and_connections_closed_in_the_order_of_the_effects():
    def script(event):
        match event:
            case RequestReceived(request_id, connection):
                answer = InitProducerIdResponse(0, 7, 0)
                return [Reply(request_id, answer), CloseConnection(connection)]
            case Disconnected():
                return STOP
        return []

    async def during(host, ports):
        client = await RawClient.connect(ports[0])
        await client.request(4, 3, InitProducerIdRequest())
        assert (await client.frame())[:4] == (3).to_bytes(4)
        assert await client.is_closed()

    assert run(script, during)[1] == 0


def test_two_nodes_talk_through_their_hosts():
    def served(event):
        if isinstance(event, RequestReceived):
            return [Reply(event.request_id, AllocateProducerIdsResponse(0, 42, 1000))]
        return STOP if isinstance(event, Disconnected) else []

    def asking(event):
        match event:
            case Started():
                return [Send(5, 100, AllocateProducerIdsRequest(1, 7), "control", 2000)]
        return STOP

    async def scenario():
        controller = ScriptedNode(served)
        listener = Listener("CONTROLLER", "127.0.0.1", 0)
        host = NodeHost(controller, settings(listeners=(listener,)), GatedFiles(), lambda: None)
        (port,) = await host.listen()
        first = asyncio.create_task(host.run())
        broker = ScriptedNode(asking)
        voters = {100: ("127.0.0.1", port)}
        second = NodeHost(broker, settings(voters=voters, listeners=()), GatedFiles(), lambda: None)
        assert await asyncio.wait_for(second.run(), 10) == 0
        assert await asyncio.wait_for(first, 10) == 0
        return broker.events[-1][1]

    event = asyncio.run(scenario())
    assert event.request_id == 5
    assert event.response == AllocateProducerIdsResponse(0, 42, 1000)


def test_a_broker_is_reached_where_the_operator_says_and_a_controller_where_it_votes():
    async def scenario():
        node = ScriptedNode(on(Started, STOP))
        node.addresses = {2: ("metadata", 2), 3: ("metadata", 3)}
        made = settings(voters={2: ("voter", 1), 100: ("voter", 1)}, peer_addresses={2: ("p", 9)})
        host = NodeHost(node, made, GatedFiles(), lambda: None)
        asked = [(2, "replication"), (3, "recovery"), (4, "replication")]
        asked += [(2, "quorum"), (2, "control"), (100, "metadata"), (3, "quorum-fetch")]
        return [host.address_of(*each) for each in asked]

    as_brokers = [("p", 9), ("metadata", 3), None]
    assert asyncio.run(scenario()) == [*as_brokers, ("voter", 1), ("voter", 1), ("voter", 1), None]


def test_a_broker_without_voters_reaches_itself_at_its_listener_for_brokers():
    async def scenario():
        node = ScriptedNode(on(Started, STOP))
        node.addresses = {1: ("for-clients", 9), 2: ("metadata", 2)}
        listeners = (Listener("CLIENT", "127.0.0.1", 1), Listener("BROKER", "127.0.0.2", 2))
        host = NodeHost(node, settings(node_id=1, voters={}, listeners=listeners), GatedFiles(), lambda: None)
        return [host.address_of(node_id, "control") for node_id in (1, 2)]

    assert asyncio.run(scenario()) == [("127.0.0.2", 2), ("metadata", 2)]


def test_a_request_that_cannot_be_sent_fails_only_after_the_event_that_sent_it():
    def script(event):
        if isinstance(event, Started):
            return [Send(1, 55, BrokerHeartbeatRequest(1, 1, 1, True, False), "c", 1000), LogEntry("info", "sent")]
        return STOP

    node, _ = run(script)
    assert [type(event) for _, event in node.events] == [Started, RequestFailed]


def test_readiness_is_announced_once():
    announced = []
    node = ScriptedNode(lambda event: STOP if len(node.seen(StopRequested)) == 3 else [])

    async def scenario():
        host = NodeHost(node, settings(listeners=()), GatedFiles(), lambda: announced.append(len(node.events)))
        running = asyncio.create_task(host.run())
        await eventually(lambda: len(node.seen(Started)) == 1)
        for _ in range(3):
            host.post(StopRequested())
            node.ready = True
        return await running

    assert asyncio.run(scenario()) == 0
    assert announced == [3]


def test_a_node_that_raises_ends_the_process_with_a_traceback(caplog):
    def script(event):
        raise ZeroDivisionError("the node's own bug")

    node, status = run(script)
    assert status == EXIT_CRASHED
    assert len(node.events) == 1
    assert "this is a bug" in caplog.text
    assert "ZeroDivisionError: the node's own bug" in caplog.text


def test_an_effect_that_cannot_be_carried_out_is_a_crash_too():
    nonsense = [Reply(1, None), LogEntry("no level of that name", "text")]
    assert run(on(Started, nonsense))[1] == EXIT_CRASHED


def test_a_crash_while_a_request_is_handled_is_a_crash():
    def script(event):
        if isinstance(event, RequestReceived):
            raise KeyError("bug")
        return []

    async def during(host, ports):
        client = await RawClient.connect(ports[0])
        await client.request(4, 3, InitProducerIdRequest())
        assert await client.is_closed()

    assert run(script, during)[1] == EXIT_CRASHED


def test_a_bug_under_a_flush_is_a_crash():
    files = GatedFiles({"a": ZeroDivisionError("bug")})
    assert run(on(Started, [Flush("t", ("a",))]), files=files)[1] == EXIT_CRASHED


@pytest.mark.parametrize(("level", "number"), [("info", logging.INFO), ("error", logging.ERROR)])
def test_notes_go_to_the_log(level, number, caplog):
    with caplog.at_level(logging.DEBUG):
        run(on(Started, [LogEntry(level, "100 % strange"), *STOP]))
    assert ("broker.node", number, "100 % strange") in caplog.record_tuples


def test_a_taken_port_is_an_os_error():
    async def scenario():
        node = ScriptedNode(on(Started, STOP))
        host = NodeHost(node, settings(), GatedFiles(), lambda: None)
        (port,) = await host.listen()
        taken = (Listener("CLIENT", "127.0.0.1", port),)
        with pytest.raises(OSError, match="address already in use"):
            await NodeHost(node, settings(listeners=taken), GatedFiles(), lambda: None).listen()

    asyncio.run(scenario())


def test_a_request_that_raises_is_refused_where_the_node_can_go_on(caplog):
    def script(event):
        if isinstance(event, RequestReceived):
            raise RuntimeError("a bug in one request")
        return STOP if isinstance(event, StopRequested) else []

    node = ScriptedNode(script)
    node.instead = [CloseConnection(1)]

    async def scenario():
        host = NodeHost(node, settings(), GatedFiles(), lambda: None)
        await host.listen()
        running = asyncio.create_task(host.run())
        for number in (1, 2):
            host.post(RequestReceived(number, 1, InitProducerIdRequest(), 0, "c"))
        metrics = host.metrics()
        host.post(StopRequested())
        return metrics, await asyncio.wait_for(running, 10)

    metrics, status = asyncio.run(scenario())
    assert status == 0
    assert "harrow_incidents_total 2" in metrics
    assert "incident 2, a bug: InitProducerIdRequest is refused" in caplog.text
    assert "a bug in one request" in caplog.text


def test_a_request_that_raises_ends_a_node_that_cannot_go_on():
    def script(event):
        if isinstance(event, RequestReceived):
            raise RuntimeError("a bug in one request")
        return []

    async def during(host, ports):
        host.post(RequestReceived(1, 1, InitProducerIdRequest(), 0, "c"))

    assert run(script, during)[1] == EXIT_CRASHED
