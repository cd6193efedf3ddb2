"""A whole cluster in one process for tests of the core: one heap of events, a fixed latency, links that can be cut."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Hashable, Mapping
from itertools import count

from broker.core.configuration.settings import Settings
from broker.core.messages import (
    AnyRequest,
    AnyResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    Listener,
    ListOffsetsPartition,
    ListOffsetsRequest,
    NewTopic,
    ProducePartition,
    ProduceRequest,
)
from broker.core.node import make_node
from broker.core.ports.events import (
    CancelTimer,
    CloseConnection,
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
from broker.core.ports.marks import Mark
from broker.core.ports.runtime import Node
from broker.core.records import decode_records, encode_batch, iterate_headers
from tests.support.memory_files import MemoryFiles

CONTROLLER = 100
TOPIC = "log"


class Machine:
    """One node's process and disk."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.files = MemoryFiles()
        self.node: Node | None = None
        self.life = 0
        self.timers: dict[Hashable, int] = {}
        self.notes: list[str] = []


class Cluster:
    """Controllers from 100 on and brokers 1…n. Time is virtual milliseconds; `seed` draws latencies of 1 to 3 ms."""

    def __init__(
        self,
        brokers: int = 3,
        controllers: int = 1,
        seed: int = 0,
        flaws: tuple[str, ...] = (),
        wall_clock_ms: int = 0,
        racks: Mapping[int, str] | None = None,
        **settings: object,
    ) -> None:
        self.now_ms = 0
        self.wall_clock_ahead_ms = wall_clock_ms
        self.random = random.Random(seed)
        self.cut: set[tuple[int, int]] = set()
        self.answers: dict[int, AnyResponse | None] = {}
        self.held: Callable[[int, int, object], bool] | None = None
        self._last_state: dict[str, object] = {"partitions": [], "brokers": []}
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count(1)
        self._clients = count(1_000_000)
        self._origin: dict[tuple[int, int], tuple[int, int, int]] = {}
        common: dict[str, object] = {
            "voters": dict.fromkeys(range(CONTROLLER, CONTROLLER + controllers), ("c", 1)),
            "broker_session_timeout_ms": 900,
            "broker_heartbeat_interval_ms": 200,
            "replica_lag_time_max_ms": 1500,
            "replica_fetch_wait_max_ms": 50,
            "replica_fetch_backoff_ms": 50,
            "request_timeout_ms": 300,
            "min_insync_replicas": 2,
            "controller_quorum_election_timeout_ms": 150,
            "controller_quorum_fetch_timeout_ms": 300,
            "controller_quorum_request_timeout_ms": 200,
            "metadata_fetch_wait_max_ms": 100,
            "flaws": flaws,
            "log_dirs": ("/",),
            **settings,
        }
        self.machines: dict[int, Machine] = {}
        for number in (*range(CONTROLLER, CONTROLLER + controllers), *range(1, brokers + 1)):
            is_controller = number >= CONTROLLER
            self.machines[number] = Machine(
                Settings(
                    node_id=number,
                    roles=("controller",) if is_controller else ("broker",),
                    listeners=(Listener("CLIENT", f"b{number}", 1), Listener("BROKER", f"b{number}", 2)),
                    rack=(racks or {}).get(number),
                    **common,  # type: ignore[arg-type]
                )
            )
            self.start(number)

    # --- nodes ---------------------------------------------------------------------------------------------------

    def start(self, number: int) -> None:
        machine = self.machines[number]
        machine.life += 1
        machine.timers.clear()
        machine.node = make_node(machine.settings, machine.files, f"{number}-{machine.life}")
        self._deliver(number, machine.life, Started(self.now_ms + self.wall_clock_ahead_ms))

    def kill(self, number: int, *, lose_page_cache: bool = False) -> None:
        machine = self.machines[number]
        machine.node = None
        for (node, request_id), (origin, life, own_id) in list(self._origin.items()):
            if node == number and origin:
                self._later(1, lambda o=origin, le=life, i=own_id: self._deliver(o, le, RequestFailed(i, "gone")))
                del self._origin[node, request_id]
        if lose_page_cache:
            machine.files = machine.files.crash()

    def stop(self, number: int) -> None:
        self._deliver(number, self.machines[number].life, StopRequested())

    def isolate(self, *numbers: int) -> None:
        for one in numbers:
            for other in self.machines:
                if other not in numbers:
                    self.cut |= {(one, other), (other, one)}

    def heal(self) -> None:
        self.cut.clear()

    # --- time ----------------------------------------------------------------------------------------------------

    def run(self, duration_ms: int) -> None:
        self.run_until(lambda: False, duration_ms, fail=False)

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 20_000, *, fail: bool = True) -> None:
        end_ms = self.now_ms + limit_ms
        while not condition():
            if not self._heap or self._heap[0][0] > end_ms:
                self.now_ms = end_ms
                if fail:
                    raise AssertionError(f"did not come true within {limit_ms} ms\n" + self.story())
                return
            self.now_ms, _, action = heapq.heappop(self._heap)
            action()

    def story(self) -> str:
        return "\n".join(f"{number}: {note}" for number, m in self.machines.items() for note in m.notes[-15:])

    def _later(self, after_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now_ms + after_ms, next(self._numbers), action))

    def _latency(self) -> int:
        return self.random.randint(1, 3)

    # --- effects -------------------------------------------------------------------------------------------------

    def _deliver(self, number: int, life: int, event: Event) -> None:
        machine = self.machines[number]
        if machine.node is None or machine.life != life:
            return
        for effect in machine.node.handle(self.now_ms, event):
            self._carry_out(number, machine, effect)

    def _carry_out(self, number: int, machine: Machine, effect: Effect) -> None:
        life = machine.life
        match effect:
            case Send(request_id, to, request, _, timeout_ms):
                self._later(timeout_ms, lambda: self._deliver(number, life, RequestFailed(request_id, "timeout")))
                if self._passes(number, to, request):
                    self._later(self._latency(), lambda: self._arrive(number, life, request_id, to, request))
            case Reply(request_id, response):
                origin, origin_life, own_id = self._origin.pop((number, request_id))
                if origin == 0:
                    self.answers[own_id] = response
                elif response is not None and self._passes(number, origin, response):
                    answer = ResponseReceived(own_id, response)
                    self._later(self._latency(), lambda: self._deliver(origin, origin_life, answer))
            case SetTimer(key, at_ms):
                machine.timers[key] = at_ms
                self._later(max(0, at_ms - self.now_ms), lambda: self._fire(number, life, key, at_ms))
            case CancelTimer(key):
                machine.timers.pop(key, None)
            case Flush(token, files):
                synced = list(files)
                self._later(2, lambda: self._flush(number, life, token, synced))
            case LogEntry(_, text):
                machine.notes.append(f"{self.now_ms} {text}")
            case Exit(status, reason):
                machine.notes.append(f"{self.now_ms} exit {status}: {reason}")
                self.kill(number)
            case CloseConnection() | Mark():
                pass

    def _passes(self, source: int, target: int, message: object) -> bool:
        return (source, target) not in self.cut and not (self.held and self.held(source, target, message))

    def _fire(self, number: int, life: int, key: Hashable, at_ms: int) -> None:
        machine = self.machines[number]
        if machine.life == life and machine.timers.get(key) == at_ms:
            del machine.timers[key]
            self._deliver(number, life, TimerFired(key))

    def _flush(self, number: int, life: int, token: Hashable, files: list[str]) -> None:
        machine = self.machines[number]
        if machine.life == life and machine.node is not None:
            error = None
            try:
                for name in files:
                    machine.files.sync(name)
            except StorageError as refused:
                error = str(refused)
            self._deliver(number, life, FlushDone(token, error))

    def _arrive(self, origin: int, life: int, own_id: int, to: int, request: AnyRequest, api_version: int = 0) -> None:
        if (origin, to) in self.cut or self.machines[to].node is None:
            return
        request_id = next(self._numbers)
        self._origin[to, request_id] = (origin, life, own_id)
        self._deliver(to, self.machines[to].life, RequestReceived(request_id, origin, request, api_version, "test"))

    # --- clients -------------------------------------------------------------------------------------------------

    def ask(self, number: int, request: AnyRequest, api_version: int = 0) -> int:
        """Send a client's request; its answer will be in `answers`."""
        own_id = next(self._clients)
        self._arrive(0, 0, own_id, number, request, api_version)
        return own_id

    def call(self, number: int, request: AnyRequest, limit_ms: int = 20_000) -> AnyResponse | None:
        own_id = self.ask(number, request)
        self.run_until(lambda: own_id in self.answers, limit_ms)
        return self.answers[own_id]

    def create_topic(self, partitions: int = 1, factor: int = 3, **configs: str) -> None:
        self.run_until(lambda: all(m.node is not None and m.node.is_ready() for m in self.machines.values()))
        topic = NewTopic(TOPIC, partitions, factor, configs=tuple((k.replace("_", "."), v) for k, v in configs.items()))
        response = self.call(1, CreateTopicsRequest((topic,)))
        assert isinstance(response, CreateTopicsResponse)
        assert response.topics[0].error_code == 0, response
        self.run_until(lambda: all(len(self.replica(b)) > 0 for b in self.view()["replicas"]))

    def send(self, number: int, *values: int, acks: int = -1, partition: int = 0, timeout_ms: int = 2000) -> int:
        batch = encode_batch([(None, value.to_bytes(8, "big")) for value in values], 0, 0, 0)
        part = ProducePartition(TOPIC, partition, batch)
        return self.ask(number, ProduceRequest(acks, timeout_ms, (part,)))

    def error_of(self, own_id: int) -> int | None:
        answer = self.answers.get(own_id)
        return None if answer is None else answer.partitions[0].error_code  # type: ignore[union-attr]

    def produce(self, number: int, *values: int, acks: int = -1, partition: int = 0) -> int:
        own_id = self.send(number, *values, acks=acks, partition=partition)
        self.run_until(lambda: own_id in self.answers)
        error = self.error_of(own_id)
        assert error is not None
        return error

    def read(self, number: int, offset: int = 0, partition: int = 0) -> list[int]:
        part = FetchPartition(TOPIC, partition, offset, 1 << 20)
        response = self.call(number, FetchRequest((part,), max_wait_ms=10))
        assert isinstance(response, FetchResponse)
        records = response.partitions[0].records
        return [
            int.from_bytes(record.value or b"", "big")
            for position, _ in iterate_headers(records)
            for record in decode_records(records, position)
        ]

    def latest(self, number: int, partition: int = 0) -> tuple[int, int]:
        response = self.call(number, ListOffsetsRequest((ListOffsetsPartition(TOPIC, partition, -1),)))
        return response.partitions[0].error_code, response.partitions[0].offset  # type: ignore[union-attr]

    # --- white box -----------------------------------------------------------------------------------------------

    def active_controllers(self) -> list[int]:
        """Controllers that think that they are active."""
        return [
            number
            for number, machine in self.machines.items()
            if number >= CONTROLLER and machine.node is not None and machine.node.describe()["active"]
        ]

    def _controller_state(self) -> dict[str, object]:
        active = [self.machines[number].node.describe() for number in self.active_controllers()]  # type: ignore[union-attr]
        if active:
            self._last_state = max(active, key=lambda state: state["epoch"])
        return self._last_state

    def view(self, partition: int = 0) -> dict[str, object]:
        """The active controller's view of a partition; that of the last one if there is none now."""
        for state in self._controller_state()["partitions"]:  # type: ignore[attr-defined]
            if (state["topic"], state["partition"]) == (TOPIC, partition):
                return state
        raise KeyError(partition)

    def broker_epoch(self, number: int) -> int:
        """The epoch of a broker's registration, by the controller."""
        brokers = self._controller_state()["brokers"]
        return next(b["epoch"] for b in brokers if b["id"] == number)  # type: ignore[attr-defined]

    def replica(self, number: int, partition: int = 0) -> dict[str, object]:
        """What a broker believes of its replica; empty if it has none."""
        node = self.machines[number].node
        for state in node.describe()["partitions"] if node else ():  # type: ignore[attr-defined]
            if (state["topic"], state["partition"]) == (TOPIC, partition):
                return state
        return {}

    def leader(self, partition: int = 0) -> int:
        return self.view(partition)["leader"]  # type: ignore[return-value]

    def is_whole(self, partition: int = 0) -> bool:
        """Every node reports a full ISR, and all replicas have the same end."""
        view = self.view(partition)
        replicas = [self.replica(number, partition) for number in view["replicas"]]  # type: ignore[attr-defined]
        return (
            all(replicas)
            and sorted(view["isr"]) == sorted(view["replicas"])  # type: ignore[call-overload]
            and len({(r["log_end"], r["high_watermark"], r["leader_epoch"]) for r in replicas}) == 1
            and all(r["log_end"] == r["high_watermark"] for r in replicas)
        )
