"""Simulated clusters without faults, in any protocol version, whose links and ensembles all have one delay.

A cluster has three brokers, each with a replica of every partition unless there are to be fewer, and either an ensemble
or one controller. What is measured is simulated time, of which what a broker computes takes none; a link takes a
millisecond in each direction, and so does the way to the ensemble and back. The model of the ensemble writes at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final, NamedTuple

import click

from broker.core.messages import AnyResponse, CreateTopicsRequest, NewTopic
from broker.core.ports.coordination import WatchFired
from broker.core.replica.state import Role
from broker.zookeeper import paths
from broker.zookeeper.choices import ZOOKEEPER_GENERATIONS
from simulation.engine.choices import ChoiceSequence, Stream
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import active_controller, brokers, leading
from simulation.scenario import scenario as quorum
from simulation.scenario.configuration import Configuration
from simulation.zookeeper import scenario as zookeeper
from simulation.zookeeper.ensemble import SimulatedEnsemble
from simulation.zookeeper.views import leader_of, open_leader

BROKERS: Final = 3
VICTIM: Final = 1
"""The broker that dies. With a quorum it has no controller; without, the controller is another broker."""

_CLIENT = 1_000
_DELAY_US = 1 * MS
_LOOK_US = 2 * MS
_LIMIT_MS = 3_600_000
_SETTLE_MS = 2_000


class _OneDelay(Stream):
    """Draws the same delay each time, and the simplest choice of everything else."""

    def draw(self, label: str, bound: int) -> int:
        """One less than the delay, to which the ensemble adds a microsecond."""
        return min(_DELAY_US, bound) - 1 if label == "latency" else 0


class Failover(NamedTuple):
    """What followed the death of a broker. Times are microseconds after its process was killed."""

    led: int  # partitions that it led
    noticed_us: int  # its session had ended, or the controller had fenced it
    led_again_us: int  # and every partition had a leader that serves
    watches: tuple[int, ...]  # when each watch fired


class QuietCluster:
    """One cluster, with a client of its own; as an observer it counts watches."""

    def __init__(self, generation: str, topics: int, partitions: int, replicas: int = BROKERS) -> None:
        """Start it, create the topics, and wait until every partition is led."""
        configuration = Configuration(
            generation=generation, brokers=BROKERS, controllers=1, replication_factor=replicas, partitions=partitions
        )
        self.fired: list[int] = []
        """When each watch fired."""

        self._answers: set[int] = set()
        self._on_zookeeper = generation in ZOOKEEPER_GENERATIONS
        self.keys = [(f"topic-{topic}", number) for topic in range(topics) for number in range(partitions)]
        choices = ChoiceSequence(given={})
        choices.streams["zookeeper"] = _OneDelay(None, (), keep_draws=False)
        settings = (zookeeper if self._on_zookeeper else quorum).settings_of(configuration)
        self.cluster = SimulatedCluster(choices, settings, [self])
        self.cluster.network.faults.latency_us_min = self.cluster.network.faults.latency_us_max = _DELAY_US
        if self._on_zookeeper:
            self.ensemble = SimulatedEnsemble(self.cluster, choices["zookeeper"], generation)
            self.cluster.ensemble = self.ensemble
        self.cluster.clients[_CLIENT] = self
        for node_id in sorted(self.cluster.machines, reverse=True):  # the first broker is not the controller
            self.cluster.start(node_id)
        self._until(self._all_ready)
        self._create(topics, partitions, replicas)

    def _create(self, topics: int, partitions: int, replicas: int) -> None:
        for number in range(topics):
            wanted = NewTopic(f"topic-{number}", partitions, replicas, ())
            target = VICTIM if self._on_zookeeper else active_controller(self.cluster) or VICTIM
            self.cluster.send_from_client(_CLIENT, number, target, CreateTopicsRequest((wanted,), 60_000), 120_000)
            self._until(partial(self._answers.__contains__, number))
        self._until(self.all_lead)
        self.cluster.run_until(self.cluster.now_us + _SETTLE_MS * MS)
        self._until(self.all_lead)

    def watches(self) -> Counter[str]:
        """How many watches all sessions have set, by what is watched; none without an ensemble."""
        found: Counter[str] = Counter()
        for path, sessions in self.ensemble.tree.watched() if self._on_zookeeper else ():
            place = paths.place(path)
            found["other" if place is None else place.kind] += sessions
        return found

    def leader(self, key: paths.Key) -> int | None:
        """The leader by the tree, or by the controller."""
        if self._on_zookeeper:
            return leader_of(self.ensemble.tree, key)
        state = leading(self.cluster)
        found = state.image.topics.get(key[0]) if state is not None else None
        leader = -1 if found is None or key[1] not in found.partitions else found.partitions[key[1]].leader
        return None if leader < 0 else leader

    def all_lead(self) -> bool:
        """Whether every partition has a leader that serves."""
        if self._on_zookeeper:
            return all(open_leader(self.cluster, self.ensemble.tree, key) is not None for key in self.keys)
        up = dict(brokers(self.cluster))
        for key in self.keys:
            leader = up.get(self.leader(key) or 0)
            replica = None if leader is None else leader.replicas.get(key)
            if replica is None or replica.role is not Role.LEADER:
                return False
        return True

    def fail_over(self) -> Failover:
        """Kill a broker, and wait until every partition is led again."""
        led = sum(self.leader(key) == VICTIM for key in self.keys)
        before, at_us = len(self.fired), self.cluster.now_us
        self.cluster.kill(VICTIM)
        self._until(self._noticed, 0)
        noticed_us = self.cluster.now_us
        self._until(self.all_lead)
        fired = tuple(one - at_us for one in self.fired[before:])
        return Failover(led, noticed_us - at_us, self.cluster.now_us - at_us, fired)

    def _noticed(self) -> bool:
        if self._on_zookeeper:
            return self.ensemble.tree.data(paths.broker(VICTIM)) is None
        state = leading(self.cluster)
        return state is not None and state.image.brokers[VICTIM].fenced

    def _all_ready(self) -> bool:
        return all(machine.node is not None and machine.node.is_ready() for machine in self.cluster.machines.values())

    def _until(self, holds: Callable[[], bool], every_us: int = _LOOK_US) -> None:
        if not holds() and not self.cluster.run_until(self.cluster.now_us + _LIMIT_MS * MS, holds, every_us):
            raise click.ClickException(f"expected every partition to be led within {_LIMIT_MS / 1000:g} s")

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """Count the watches that brokers hear of."""
        if isinstance(step.event, WatchFired):
            self.fired.append(cluster.now_us)

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """It is meant to."""

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:  # noqa: ARG002
        """A topic is created."""
        self._answers.add(request_id)

    def timer(self, cluster: SimulatedCluster, key: Hashable) -> None:
        """It sets none."""
