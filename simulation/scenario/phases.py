"""What a simulated test is, whatever the cluster: its outcome, its phases, and those phases that need no view of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from broker.core.broker_node.requests.deletion import FORGOTTEN
from broker.core.messages import AnyResponse, CreateTopicsRequest, CreateTopicsResponse, NewTopic
from broker.core.messages.errors import ErrorCode
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import NodeCrashed, SimulatedCluster, fingerprint
from simulation.engine.event_queue import MS
from simulation.invariants.properties import Violation, not_judged
from simulation.scenario.configuration import Configuration, SimulatedFault
from simulation.workload.administration import ADMINISTRATOR
from simulation.workload.interfaces import DELIVERY_TIMEOUT_MS, Clients
from simulation.workload.recording import SimulatedHistory
from simulation.workload.sampling import ReplicaLog, replica_logs

CRASH = "crash"
"""The property id of failures in which a node's core raised an exception."""

RECOVERY_MS = 60_000
"""What a cluster may take after healing to do what is expected of it."""


@dataclass
class SimulationOutcome:
    """The result of one simulation. `phases` holds start and end in microseconds of the phases that ended."""

    seed: int | None
    configuration: Configuration
    faults: Sequence[SimulatedFault]
    digest: str
    events: int
    virtual_ms: int
    failure: str | None
    failed_property: str | None
    history: SimulatedHistory
    ends: Mapping[int, int]
    marks: Mapping[str, int]
    values: Mapping[str, Sequence[int]]
    logs: Mapping[tuple[int, int], ReplicaLog]
    phases: Mapping[str, tuple[int, int]]
    log_entries: Sequence[tuple[int, int, str]] = field(default_factory=tuple)
    deleted: Mapping[int, int] = field(default_factory=dict)
    """Partition -> the offset below which an operator has asked for everything to be deleted."""

    clocks_jumped_ms: int = 0
    """How far the clock that has jumped most is ahead of the others."""

    @property
    def may_repeat(self) -> bool:
        """Whether a broker may have forgotten a producer while an attempt of one of its sends was under way.

        Idempotence is promised for `producer.id.expiration.ms` only. This is what can be told without an observer, who
        judges each batch by whether its leader had forgotten the producer (P-14).
        """
        held_ms = 2 * max((fault.duration_ms for fault in self.faults), default=0)
        last_attempt_ms = DELIVERY_TIMEOUT_MS + held_ms + self.clocks_jumped_ms
        is_brief = 0 < self.configuration.producer_expiration_ms <= last_attempt_ms
        return is_brief and bool(self.marks.get(FORGOTTEN.name))


class Administrator:
    """Creates the topic."""

    def __init__(self) -> None:
        self.created = False
        self.asked = 0

    def timer(self, cluster: SimulatedCluster, key: Hashable) -> None:
        """Ignored: it sets no timers."""

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:
        """Record whether the topic exists."""
        if isinstance(response, CreateTopicsResponse):
            codes = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            self.created = self.created or response.topics[0].error_code in codes


class SimulatedTest(ABC):
    """A test of one cluster with these clients, in four phases."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        configuration: Configuration,
        faults: Sequence[SimulatedFault],
        history: SimulatedHistory,
        clients: Clients,
    ) -> None:
        self.cluster = cluster
        self.configuration = configuration
        self.faults = faults
        self.history = history
        self.clients = clients
        self.producers, self.readers = clients.producers, clients.readers
        self.ends: dict[int, int] = {}
        self.phases: dict[str, tuple[int, int]] = {}
        self.administrator = Administrator()
        cluster.clients[ADMINISTRATOR] = self.administrator

    def outcome(self, choices: ChoiceSequence) -> SimulationOutcome:
        """Run all phases, or those before the first that fails."""
        cluster = self.cluster
        failure, failed_property = failure_of(cluster, self._run)
        digest, events = fingerprint(cluster)
        return SimulationOutcome(
            choices.seed,
            self.configuration,
            self.faults,
            digest,
            events,
            cluster.now_us // MS,
            failure,
            failed_property,
            self.history,
            self.ends,
            cluster.marks,
            choices.values(),
            replica_logs(cluster),
            self.phases,
            cluster.log_entries or (),
        )

    def _run(self) -> None:
        for name, phase in (
            ("set-up", self._set_up),
            ("main", self._main_phase),
            ("recovery", self._recover),
            ("final", self._read_everything),
        ):
            started_us = self.cluster.now_us
            phase()
            self.phases[name] = (started_us, self.cluster.now_us)

    @abstractmethod
    def _set_up(self) -> None:
        """Start all nodes and create the topic."""

    @abstractmethod
    def _main_phase(self) -> None:
        """Let clients work under faults; heal all."""

    @abstractmethod
    def _recover(self) -> None:
        """Wait for what a healthy cluster does. Raises `Violation`."""

    @abstractmethod
    def _read_everything(self) -> None:
        """Read all partitions from the start on. Raises `Violation`."""

    # --- parts of phases ---------------------------------------------------------------------------------------------

    def _create(self, topic: NewTopic) -> None:
        """Ask for the topic until it exists."""
        request = CreateTopicsRequest((topic,), 5_000)
        while not self.administrator.created:
            self.administrator.asked += 1
            self.cluster.send_from_client(ADMINISTRATOR, self.administrator.asked, 1, request, 6_000)
            self.cluster.run_until(self.cluster.now_us + 6_000 * MS, lambda: self.administrator.created)

    def _start_clients(self) -> None:
        for producer in self.producers:
            producer.start(self.cluster)
        for reader in self.readers:
            reader.start(self.cluster)

    def _finish_sending(self) -> None:
        """V-5: after healing each open operation ends, and every producer gets one more acknowledgement."""
        for producer in self.producers:
            producer.carry_on(self.cluster)
        if not self.cluster.run_until(self.cluster.now_us + RECOVERY_MS * MS, self._progress()):
            raise Violation("V-5", "no write was acknowledged within 60 s after the last fault was healed")
        for producer in self.producers:
            producer.stopped = True
        self.cluster.run_until(self.cluster.now_us + 10_000 * MS, lambda: all(one.idle for one in self.producers))
        for producer in self.producers:
            producer.give_up(self.cluster)

    def _progress(self) -> Callable[[], bool]:
        """Whether every producer has got one more acknowledgement since now."""
        before = {producer.client_id: producer.acknowledged for producer in self.producers}
        return lambda: all(producer.acknowledged > before[producer.client_id] for producer in self.producers)

    def _read_to_ends(self, also: Callable[[], bool] = lambda: True) -> None:
        """V-5: readers get to the ends, while `also` comes to hold; then all clients end."""

        def finished() -> bool:
            return also() and all(
                reader.positions[number] >= end for reader in self.readers for number, end in self.ends.items()
            )

        if not self.cluster.run_until(self.cluster.now_us + RECOVERY_MS * MS, finished):
            raise Violation("V-5", "the final reads did not reach the end of the log within 60 s")
        self.clients.close(self.cluster)


def failure_of(cluster: SimulatedCluster, run_test: Callable[[], None]) -> tuple[str | None, str | None]:
    """Run a test; what failed, and the property that is broken."""
    try:
        run_test()
    except Violation as violation:
        return str(violation), violation.property_id
    except NodeCrashed as crash:
        return str(crash), CRASH
    except Exception as error:
        unjudged = not_judged(error, f"at {cluster.now_us // MS} ms")
        return str(unjudged), unjudged.property_id
    return None, None


@contextmanager
def unreliable_network(cluster: SimulatedCluster, configuration: Configuration) -> Iterator[None]:
    """Messages are slow, repeated, or lost with their answers, as often as the configuration says."""
    faults = cluster.network.faults
    faults.slow_of_1000 = configuration.slow_of_1000
    faults.answer_lost_of_1000 = configuration.answer_lost_of_1000
    faults.repeated_of_1000 = configuration.repeated_of_1000
    yield
    faults.slow_of_1000 = faults.answer_lost_of_1000 = faults.repeated_of_1000 = 0
