"""A small simulated cluster on ZooKeeper without chance: delays are the shortest, and a test decides what happens."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from broker.core.messages import (
    AnyRequest,
    AnyResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    NewTopic,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.coordination import Create, GetChildren
from broker.core.records import decode_records, iterate_headers
from broker.core.replica.state import Role
from broker.zookeeper import paths
from broker.zookeeper.choices import V1
from broker.zookeeper.state import Hosted
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.invariants.observer import FirstViolation
from simulation.invariants.properties import Violation
from simulation.scenario.configuration import Configuration
from simulation.workload.batches import Producer, encode_values
from simulation.workload.recording import value_of
from simulation.zookeeper.ensemble import ENSEMBLE, SimulatedEnsemble
from simulation.zookeeper.observer import ZooKeeperObserver
from simulation.zookeeper.scenario import settings_of
from simulation.zookeeper.views import hosted_by, leader_of, open_leader

TOPIC = "log"
KEY = (TOPIC, 0)
CLIENT = 1_000


class Stage:
    """Brokers from 1 on, and one partition; unless told otherwise all replicate it, and broker 1 is preferred."""

    def __init__(
        self,
        brokers: int = 2,
        switches: tuple[str, ...] = (),
        *,
        generation: str = V1,
        assigned: tuple[int, ...] = (),
        **settings: int,
    ) -> None:
        """With `assigned` these brokers replicate the partition, the preferred replica first."""
        configuration = Configuration(
            generation=generation,
            brokers=brokers,
            replication_factor=brokers,
            partitions=1,
            flaws=switches,
            **settings,
        )
        self.watch = FirstViolation([ZooKeeperObserver()])
        self.cluster = SimulatedCluster(ChoiceSequence(given={}), settings_of(configuration), [self.watch])
        self.cluster.log_entries = []
        self.ensemble = SimulatedEnsemble(self.cluster, self.cluster.choices["zookeeper"], generation)
        self.cluster.ensemble = self.ensemble
        self.cluster.clients[CLIENT] = self
        self._answers: dict[int, AnyResponse | None] = {}
        self._last = 0
        for broker in range(1, brokers + 1):
            self.cluster.start(broker)
        self.run(1_000)
        self.ask(1, self.creation(TOPIC, assigned or tuple(range(1, brokers + 1))))
        self.until(lambda: self.leader == (assigned or (1,))[0])

    # --- a client ----------------------------------------------------------------------------------------------------

    def creation(self, topic: str, assigned: tuple[int, ...], timeout_ms: int = 5_000) -> CreateTopicsRequest:
        """The request to create a topic of one partition."""
        return CreateTopicsRequest((NewTopic(topic, -1, -1, ((0, assigned),)),), timeout_ms)

    def create(self, topic: str, assigned: tuple[int, ...], timeout_ms: int = 5_000) -> int:
        """Create a topic of one partition by broker 1; the error."""
        return self.created(self.send(1, self.creation(topic, assigned, timeout_ms)))

    def created(self, number: int) -> int:
        """The error in the answer to a creation."""
        response = self.answer(number)
        assert isinstance(response, CreateTopicsResponse)
        return response.topics[0].error_code

    def delete(self, topic: str, timeout_ms: int = 4_000) -> int:
        """Delete a topic by broker 1; the error."""
        return self.deleted(self.send(1, self.deletion(topic, timeout_ms)))

    def deletion(self, topic: str, timeout_ms: int) -> DeleteTopicsRequest:
        """The request to delete a topic."""
        return DeleteTopicsRequest(((topic, ""),), timeout_ms)

    def deleted(self, number: int) -> int:
        """The error in the answer to a deletion."""
        response = self.answer(number)
        assert isinstance(response, DeleteTopicsResponse)
        return response.topics[0].error_code

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:
        self._answers[request_id] = response

    def timer(self, cluster: SimulatedCluster, key: Hashable) -> None:
        """It sets none."""

    def send(self, to: int, request: AnyRequest) -> int:
        """Send a request without waiting; its number."""
        self._last += 1
        self.cluster.send_from_client(CLIENT, self._last, to, request, 20_000)
        return self._last

    def ask(self, to: int, request: AnyRequest) -> AnyResponse | None:
        """The answer to a request."""
        return self.answer(self.send(to, request))

    def answer(self, number: int) -> AnyResponse | None:
        """Wait for an answer."""
        self.until(lambda: number in self._answers)
        return self._answers[number]

    def begin(self, to: int, *values: int, acks: int = -1) -> int:
        """Begin to produce one batch."""
        part = ProducePartition(TOPIC, 0, encode_values(values, Producer()))
        return self.send(to, ProduceRequest(acks, 15_000, (part,)))

    def produced(self, number: int) -> ProducedPartition:
        """The answer to `begin`."""
        response = self.answer(number)
        assert isinstance(response, ProduceResponse)
        return response.partitions[0]

    def produce(self, to: int, *values: int) -> int:
        """Produce one batch with acks=all; the offset of the first."""
        answer = self.produced(self.begin(to, *values))
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        return answer.base_offset

    def consume(self, broker: int) -> list[int | None]:
        """What a consumer reads from the start on."""
        response = self.ask(broker, FetchRequest((FetchPartition(TOPIC, 0, 0, 1 << 20),), max_wait_ms=0))
        assert isinstance(response, FetchResponse)
        return values_in(response.partitions[0].records)

    # --- the cluster -------------------------------------------------------------------------------------------------

    @property
    def leader(self) -> int | None:
        """The leader that the tree names, if its partition is open."""
        is_open = open_leader(self.cluster, self.ensemble.tree, KEY) is not None
        return leader_of(self.ensemble.tree, KEY) if is_open else None

    @property
    def violation(self) -> Violation:
        """What the observer has found, which must be something."""
        assert self.watch.violation is not None, self.cluster.log_entries
        return self.watch.violation

    def replica(self, broker: int) -> Hosted:
        """A broker's replica."""
        hosted = hosted_by(self.cluster, broker, KEY)
        assert hosted is not None
        return hosted

    def lose(self, broker: int, offset: int) -> None:
        """Take from a replica's log what is at an offset and above, as if nothing had been cut."""
        replica = self.replica(broker).replica
        truncations = replica.log.truncations
        replica.log.truncate_to(offset)
        replica.log.truncations = truncations
        replica.high_watermark = offset

    def follows(self, broker: int) -> int | None:
        """The broker that a broker's replica follows, if it is up and follows one."""
        hosted = hosted_by(self.cluster, broker, KEY)
        return hosted.replica.leader if hosted is not None and hosted.replica.role is Role.FOLLOWER else None

    def log(self, broker: int) -> list[int | None] | None:
        """All values in a broker's log; None while it has no replica."""
        hosted = hosted_by(self.cluster, broker, KEY)
        if hosted is None:
            return None
        log = hosted.replica.log
        return values_in(log.read(0, 1 << 20, log.end_offset))

    def has_log(self, broker: int, topic: str = TOPIC) -> bool:
        """Whether a broker's disk has anything of a topic's first partition."""
        return bool(self.cluster.machines[broker].disk.list(f"{topic}-0"))

    def high_watermark(self, broker: int) -> int:
        """A broker's high watermark."""
        return self.replica(broker).replica.high_watermark

    def cut(self, one: int, other: int) -> None:
        """Cut a link, both ways; messages that come to it are held or lost."""
        self.cluster.transport.cut(frozenset({(one, other), (other, one)}))

    def mend(self, one: int, other: int) -> None:
        """The opposite."""
        self.cluster.transport.mend(frozenset({(one, other), (other, one)}))

    def stall(self, one: int, other: int) -> None:
        """Hold what is under way between two brokers."""
        self.cluster.transport.stall(frozenset({(one, other), (other, one)}))

    def unstall(self, one: int, other: int) -> None:
        """The opposite."""
        self.cluster.transport.unstall(frozenset({(one, other), (other, one)}))

    def cut_from_ensemble(self, broker: int) -> None:
        """Cut a broker off from the ensemble alone."""
        self.cut(broker, ENSEMBLE)

    def run(self, ms: int) -> None:
        """Let time pass."""
        self.cluster.run_until(self.cluster.now_us + ms * MS)

    def until(self, holds: Callable[[], bool], at_most_ms: int = 60_000, every_us: int = MS) -> None:
        """Let time pass until something holds, which is looked at in this interval; with 0 after every event."""
        assert self.cluster.run_until(self.cluster.now_us + at_most_ms * MS, holds, every_us), self.cluster.log_entries

    def mend_to_ensemble(self, broker: int) -> None:
        """The opposite."""
        self.mend(broker, ENSEMBLE)

    def data(self, path: str) -> bytes | None:
        """What a znode holds; None if there is none."""
        return self.ensemble.tree.data(path)

    def children(self, path: str) -> tuple[str, ...]:
        """The children of a znode."""
        return self.ensemble.administer(GetChildren(path)).children

    def reassign(self, *replicas: int) -> None:
        """Ask for other replicas of the partition."""
        self.ensemble.administer(Create(paths.reassigned_topic(TOPIC)))
        self.ensemble.administer(Create(paths.reassigned(KEY), paths.encoded(replicas)))

    def lines(self, text: str) -> int:
        """How many lines the nodes have logged that have this text in them."""
        return sum(text in line for _, _, line in self.cluster.log_entries or ())


def values_in(records: bytes) -> list[int | None]:
    """The values in whole batches."""
    return [value_of(record) for at, _ in iterate_headers(records) for record in decode_records(records, at)]
