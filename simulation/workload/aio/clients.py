"""Makes the clients that are aiokafka, with what they need of the simulation (see `substitution`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from simulation.engine.cluster import SimulatedCluster
from simulation.scenario.clocks import BEGINNING_MS
from simulation.scenario.configuration import Configuration
from simulation.workload.aio.library import AiokafkaWorld
from simulation.workload.aio.producer import AiokafkaProducer
from simulation.workload.aio.reader import AiokafkaReader
from simulation.workload.aio.substitution import substituted
from simulation.workload.interfaces import Clients, looks_up_times, poll_interval_ms, producer_plan
from simulation.workload.recording import SimulatedHistory


@contextmanager
def aiokafka_clients(
    configuration: Configuration, cluster: SimulatedCluster, history: SimulatedHistory, producers: range, readers: range
) -> Iterator[Clients]:
    """Make the clients; at the end all they have opened is closed, and nothing is substituted any more."""
    world = AiokafkaWorld(cluster)
    cluster.transport.byte_connections = world.network
    cluster.byte_clients = (*producers, *readers)
    began_s = BEGINNING_MS / 1_000 if configuration.is_dated else 0.0
    with substituted(cluster, cluster.choices["workload"], cluster.say, began_s):
        try:
            yield Clients(
                [
                    AiokafkaProducer(number, producer_plan(configuration, number), history, world)
                    for number in producers
                ],
                [
                    AiokafkaReader(
                        number,
                        configuration.partitions,
                        history,
                        poll_interval_ms(configuration),
                        world,
                        looks_up_times=looks_up_times(configuration),
                    )
                    for number in readers
                ],
                lambda: not world.loops,
            )
        finally:
            world.close()
