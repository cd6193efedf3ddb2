"""A fake cluster: nodes are flags, packets are set operations, time passes when the code under test sleeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from nemesis.capabilities.cluster import CLIENTS, Link, NodeError, NodeRole, PartitionView, VoterView, is_controller
from nemesis.capabilities.disks import PageCacheLoss, Survival, Trouble
from nemesis.capabilities.shapes import PLAIN, LinkSample, Shape, both
from nemesis.faults.base import Bounds, Site


class FakeClock:
    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns

    def sleep(self, seconds: float) -> None:
        self.ns += int(seconds * 1e9)


@dataclass
class FakeDisk:
    """A log directory that knows how often it was asked: it always was, when it is in trouble."""

    sizes: dict[str, int] = field(
        default_factory=lambda: {
            "harrow-0/00000000000000000000.log": 9000,
            "harrow-0/00000000000000000000.index": 80,
            "recovery-point-offset-checkpoint": 30,
        }
    )
    copy: dict[str, int] | None = None
    flipped: list[tuple[str, int]] = field(default_factory=list)
    trouble: Trouble | None = None
    unasked: bool = False

    def files(self) -> dict[str, int]:
        return dict(self.sizes)

    def flip_bit(self, name: str, bit: int) -> None:
        assert bit < self.sizes[name] * 8
        self.flipped.append((name, bit))

    def truncate(self, name: str, size: int) -> None:
        self.sizes[name] = size

    def remove(self, name: str) -> None:
        del self.sizes[name]

    def wipe(self) -> int:
        lost = sum(self.sizes.values())
        self.sizes.clear()
        return lost

    def keep_copy(self) -> int:
        self.copy = dict(self.sizes)
        return sum(self.copy.values())

    def go_back_to_copy(self) -> int:
        assert self.copy is not None
        before, self.sizes = self.sizes, self.copy
        return sum(before.values()) - sum(self.sizes.values())

    def make_trouble(self, trouble: Trouble, delay_ms: int = 0) -> None:
        self.trouble = trouble

    def end_trouble(self) -> None:
        self.trouble = None

    def met_trouble(self) -> int:
        return int(self.trouble is not None and not self.unasked)


@dataclass
class FakeWallClock:
    offset_ms: float = 0.0
    ppm: int = 0
    stubborn: bool = False

    def bend(self, offset_ms: float, drift_ppm: int = 0) -> None:
        self.offset_ms, self.ppm = (0.0, 0) if self.stubborn else (offset_ms, drift_ppm)

    def straighten(self) -> None:
        self.offset_ms, self.ppm = 0.0, 0

    def error_ms(self) -> float:
        return self.offset_ms + self.ppm / 1000

    def answers(self) -> int:
        return 3

    def governs(self, pid: int) -> bool:
        return True


@dataclass
class FakeNode:
    node_id: int
    role: NodeRole = "broker"
    pid: int = 1000
    alive: bool = True
    paused: bool = False
    unsynced_bytes: int = 4096
    immortal: bool = False  # survives SIGKILL
    sleepless: bool = False  # runs on when it is stopped
    refuses_to_start: bool = False
    never_ready: bool = False
    stops_with: int = 0
    ends_with: int = -9
    log: tuple[str, ...] = ()
    deaths: int = 0
    throttled_to: int = 100
    memory: int | None = None
    runs: str = "9.0"  # as its process reports
    installed: str = "9.0"  # what its next process is
    next_version: str = "9.1"
    mute: bool = False  # does not tell its version
    disk: FakeDisk = field(default_factory=FakeDisk)
    clock: FakeWallClock = field(default_factory=FakeWallClock)

    def is_alive(self) -> bool:
        return self.alive

    def is_ready(self) -> bool:
        return self.alive and not self.paused and not self.never_ready

    def start(self) -> None:
        if self.refuses_to_start:
            raise NodeError(f"node {self.node_id} ended with status 4; its last log lines:\n  no room")
        self.alive = True
        self.pid += 1
        self.runs = self.installed

    def stop(self, timeout_s: float) -> int:
        self.alive = False
        return self.stops_with

    def version(self) -> str | None:
        return self.runs if self.alive and not self.mute else None

    def use_next_version(self) -> None:
        assert not self.alive, "the settings of a node that runs are its own"
        self.installed = self.next_version

    def kill(self) -> None:
        if not self.immortal:
            self.alive, self.paused = False, False
            self.deaths += 1

    def pause(self) -> None:
        self.paused = not self.sleepless

    def resume(self) -> None:
        self.paused = False

    def is_paused(self) -> bool:
        return self.paused

    def throttle(self, percent: int) -> None:
        self.throttled_to = 100 if self.sleepless else percent

    def unthrottle(self) -> None:
        self.throttled_to = 100

    def running_percent(self, seconds: float) -> float:
        return float(self.throttled_to)

    def limit_memory(self) -> int:
        self.memory = 64 << 20
        return self.memory

    def unlimit_memory(self) -> None:
        self.memory = None

    def memory_limit(self) -> int | None:
        return self.memory

    def exit_status(self) -> int | None:
        return None if self.alive else self.ends_with

    def log_tail(self, lines: int = 8) -> list[str]:
        return list(self.log) or [f"last words of node {self.node_id}"]

    def lose_page_cache(self, survival: Survival = "nothing", seed: int = 0) -> PageCacheLoss:
        assert not self.alive, "only the dead forget"
        lost, self.unsynced_bytes = self.unsynced_bytes, 0
        return PageCacheLoss("fake", lost, {"log": (lost, 0)} if lost else {})


@dataclass
class FakeNetwork:
    endpoints: tuple[int, ...]
    cut: frozenset[Link] = frozenset()
    leaky: bool = False  # cut links carry packets all the same
    clumsy: bool = False  # cutting one direction cuts the other too
    stuck: bool = False  # mended links carry nothing
    shapes: dict[Link, Shape] = field(default_factory=dict)
    shapeless: bool = False  # shapes have no effect

    def block(self, links: frozenset[Link]) -> None:
        self.cut |= links

    def unblock(self, links: frozenset[Link]) -> None:
        self.cut -= links

    def blocked(self) -> frozenset[Link]:
        return self.cut

    def reaches(self, source: int, target: int) -> bool:
        return (source, target) in self.reached([(source, target)])

    def shape(self, links: frozenset[Link], shape: Shape) -> None:
        for link in links:
            self.shapes.pop(link, None)
            if shape != PLAIN:
                self.shapes[link] = shape

    def shaped(self) -> dict[Link, Shape]:
        return self.shapes

    def shaping_counts(self) -> dict[str, int]:
        return {"reset": sum(shape.reset for shape in self.shapes.values()) * (not self.shapeless)}

    def sample(self, links: Iterable[Link], count: int, size: int, timeout_s: float) -> LinkSample:
        shapes = [PLAIN if self.shapeless else self.shapes.get(link, PLAIN) for link in links]
        shape = reduce(both, shapes, PLAIN)
        sent = count * len(shapes)
        arrived = round(sent * (100 - shape.loss_percent) / 100)
        delay_ms = max((each.delay_ms for each in shapes), default=0.0)
        copies = arrived + (shape.duplicate_percent > 0)
        return LinkSample(sent, arrived, copies, int(shape.reorder_percent > 0), delay_ms, shape.kbit_per_s or 1e6)

    def reached(self, links: Iterable[Link]) -> frozenset[Link]:
        if self.leaky:
            return frozenset(links)
        if self.stuck:
            return frozenset()
        dead = self.cut | ({(b, a) for a, b in self.cut} if self.clumsy else set())
        return frozenset(links) - dead


@dataclass
class FakeAdministrator:
    """Writes down what the cluster shall be; it is so at once, unless it is lazy."""

    lazy: bool = False
    busy: int = 0
    """So many requests to move a partition are refused, because it moves."""

    topics: dict[str, int] = field(default_factory=dict)
    replicas: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    leaders: dict[tuple[str, int], int] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=lambda: {"min.insync.replicas": "2"})

    def create_topic(self, topic: str, partitions: int, replication_factor: int) -> None:
        if not self.lazy:
            self.topics[topic] = partitions

    def delete_topic(self, topic: str) -> None:
        del self.topics[topic]

    def add_partitions(self, topic: str, total: int) -> None:
        self.topics[topic] = total

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        if self.busy:
            self.busy -= 1
            raise NodeError(f"expected to reassign {topic}, found: ReassignmentInProgressError")
        if not self.lazy:
            self.replicas[topic, partition] = tuple(replicas)

    def elect(self, topic: str, partition: int) -> None:
        if not self.lazy:
            self.leaders[topic, partition] = self.replicas.get((topic, partition), (1, 2, 3))[0]

    def setting(self, topic: str, name: str) -> str:
        return self.settings[name]

    def set(self, topic: str, name: str, value: str) -> None:
        if not self.lazy:
            self.settings[name] = value


@dataclass
class FakeCluster:
    """Three brokers and a controller; broker 1 leads partition 0, 2 leads 1, 3 leads 2.

    Of the controllers the first one that serves leads the quorum.
    """

    nodes: dict[int, FakeNode] = field(
        default_factory=lambda: {**{i: FakeNode(i) for i in (1, 2, 3)}, 100: FakeNode(100, "controller")}
    )
    network: FakeNetwork = field(default_factory=lambda: FakeNetwork((CLIENTS, 1, 2, 3, 100)))
    capabilities: frozenset[str] = frozenset({"process", "starvation", "network", "page-cache-loss"})
    insync: tuple[int, ...] = (1, 2, 3, 4)  # of those that have a replica
    speechless: bool = False
    lacking_metadata: frozenset[int] = frozenset()  # controllers whose metadata log is short
    administrator: FakeAdministrator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.administrator = FakeAdministrator()

    def partitions(self) -> list[PartitionView]:
        if self.speechless:
            return []
        return [self._view("harrow", number) for number in range(3)] + [
            self._view(topic, number) for topic, size in self.administrator.topics.items() for number in range(size)
        ]

    def _view(self, topic: str, number: int) -> PartitionView:
        replicas = self.administrator.replicas.get((topic, number), (1, 2, 3))
        leader = self.administrator.leaders.get((topic, number), number % 3 + 1)
        insync = tuple(broker for broker in self.insync if broker in replicas)
        return PartitionView(topic, number, leader, 7, insync, (), replicas)

    def active_controller(self) -> int | None:
        controllers = (node for node in self.nodes.values() if is_controller(node) and node.is_ready())
        return next((node.node_id for node in controllers), None)

    def voters(self) -> list[VoterView]:
        active = self.active_controller()
        return [
            VoterView(
                number,
                "leader" if number == active else "follower",
                -1 if active is None else active,
                3,
                40 if number in self.lacking_metadata else 50,
                50,
            )
            for number, node in self.nodes.items()
            if is_controller(node) and node.is_ready()
        ]


def quorum_cluster(controllers: int = 3) -> FakeCluster:
    """Three brokers and so many controllers, of which 100 is the active one."""
    numbers = tuple(range(100, 100 + controllers))
    nodes = {**{i: FakeNode(i) for i in (1, 2, 3)}, **{number: FakeNode(number, "controller") for number in numbers}}
    return FakeCluster(nodes, FakeNetwork((CLIENTS, *nodes)))


def combined_cluster(controllers: int = 3) -> FakeCluster:
    """Three brokers, so many of which are controllers, too."""
    nodes = {number: FakeNode(number, "combined" if number <= controllers else "broker") for number in (1, 2, 3)}
    return FakeCluster(nodes, FakeNetwork((CLIENTS, *nodes)))


def site_of(cluster: FakeCluster, clock: FakeClock | None = None) -> Site:
    return Site.of(cluster, clock or FakeClock(), Bounds(hold_s=1.0, heal_s=2.0, stop_s=1.0))
