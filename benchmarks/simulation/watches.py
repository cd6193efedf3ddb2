"""Counts the watches of the designs on ZooKeeper, and what they cost when a broker dies, in simulated clusters.

    python -m benchmarks.simulation.watches --topics 100 --partitions 3

Three brokers replicate every partition. Columns: watches that are set, of all sessions, once every partition is led;
then one broker is killed: watches that fire until each partition is led again, and how long that takes in simulated
time, of which the session that has to end first is the larger part. What a broker computes takes none of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from functools import partial

import click

from broker.core.messages import AnyResponse, CreateTopicsRequest, NewTopic
from broker.core.ports.coordination import WatchFired
from broker.zookeeper import paths
from broker.zookeeper.choices import ZOOKEEPER_GENERATIONS
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.scenario.configuration import Configuration
from simulation.zookeeper.ensemble import SimulatedEnsemble
from simulation.zookeeper.scenario import settings_of
from simulation.zookeeper.views import leader_of, open_leader

_BROKERS = 3
_CLIENT = 1_000
_LOOK_US = 10 * MS
_LIMIT_MS = 3_600_000


class Run:
    """A cluster without faults, whose delays are the shortest; a client of it; and an observer that counts watches."""

    def __init__(self, generation: str, topics: int, partitions: int) -> None:
        configuration = Configuration(
            generation=generation,
            brokers=_BROKERS,
            replication_factor=_BROKERS,
            partitions=partitions,
        )
        self.fired = 0
        self.answers: set[int] = set()
        self.keys = [(f"topic-{topic}", number) for topic in range(topics) for number in range(partitions)]
        self.cluster = SimulatedCluster(ChoiceSequence(given={}), settings_of(configuration), [self])
        self.ensemble = SimulatedEnsemble(self.cluster, self.cluster.choices["zookeeper"], generation)
        self.cluster.ensemble = self.ensemble
        self.cluster.clients[_CLIENT] = self
        for broker in range(1, _BROKERS + 1):
            self.cluster.start(broker)
        self.cluster.run_until(self.cluster.now_us + 5_000 * MS)
        for number in range(topics):
            wanted = NewTopic(f"topic-{number}", partitions, _BROKERS, ())
            self.cluster.send_from_client(_CLIENT, number, 1, CreateTopicsRequest((wanted,), 60_000), 120_000)
            self.until(partial(self.answers.__contains__, number))
        self.until(self.all_lead)
        self.cluster.run_until(self.cluster.now_us + 2_000 * MS)

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:  # noqa: ARG002
        """Count the watches that brokers hear of."""
        self.fired += isinstance(step.event, WatchFired)

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """It is meant to."""

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:  # noqa: ARG002
        """A topic is created."""
        self.answers.add(request_id)

    def timer(self, cluster: SimulatedCluster, key: Hashable) -> None:
        """It sets none."""

    def all_lead(self) -> bool:
        """Whether every partition has a leader that is open."""
        return all(open_leader(self.cluster, self.ensemble.tree, key) is not None for key in self.keys)

    def all_lead_again(self) -> bool:
        """Whether broker 1's session has ended, and every partition is led."""
        return self.ensemble.tree.data(paths.broker(1)) is None and self.all_lead()

    def until(self, holds: Callable[[], bool]) -> None:
        """Let time pass until something holds."""
        end_us = self.cluster.now_us + _LIMIT_MS * MS
        while not holds():
            if self.cluster.now_us >= end_us:
                raise click.ClickException(f"expected every partition to be led within {_LIMIT_MS / 1000:g} s")
            self.cluster.run_until(self.cluster.now_us + _LOOK_US)


@click.command()
@click.option("--topics", default=100, show_default=True)
@click.option("--partitions", default=3, show_default=True, help="Of each topic.")
@click.option("--generation", "generations", multiple=True, type=click.Choice(ZOOKEEPER_GENERATIONS))
def main(topics: int, partitions: int, generations: tuple[str, ...]) -> None:
    """Print the table."""
    click.echo(f"{_BROKERS} brokers, {topics} topics of {partitions} partitions, {_BROKERS} replicas each")
    click.echo("version  watches  a broker dies: led by it  watches fired  led again after s  processor s")
    for generation in generations or ("zk-v1", "zk-v2", "C1"):
        began = time.process_time()
        run = Run(generation, topics, partitions)
        watches = run.ensemble.tree.watches()
        led = sum(leader_of(run.ensemble.tree, key) == 1 for key in run.keys)
        before, at_us = run.fired, run.cluster.now_us
        run.cluster.kill(1)
        run.until(run.all_lead_again)
        took_s = (run.cluster.now_us - at_us) / 1_000_000
        cells = f"{watches:>8} {led:>25} {run.fired - before:>14} {took_s:>18.2f} {time.process_time() - began:>12.0f}"
        click.echo(f"{generation:<7} {cells}")


if __name__ == "__main__":
    main()
