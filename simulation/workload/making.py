"""Makes the clients of a simulation: the model, which sends the protocol's messages, or a library, which sends bytes.

Both send and read by the same plan, and record it in the same history. A library is imported only where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from typing import Final

from common.names import SpecError, unknown
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.transport import CLIENTS_FROM
from simulation.scenario.configuration import Configuration
from simulation.workload.clients import SimulatedProducer
from simulation.workload.interfaces import Clients, looks_up_times, poll_interval_ms, producer_plan
from simulation.workload.pipelined import PipelinedProducer
from simulation.workload.reader import SimulatedReader
from simulation.workload.recording import SimulatedHistory

MODEL: Final = "model"
AIOKAFKA: Final = "aiokafka"
CLIENTS: Final = (MODEL, AIOKAFKA)
"""What may send and read."""


def check_client(name: str) -> None:
    """Check that there are such clients, and that their library is installed. Raises `SpecError`."""
    if name not in CLIENTS:
        raise SpecError(f"client: {unknown(name, CLIENTS)}")
    if name != MODEL and find_spec(name) is None:
        raise SpecError(f"client: {name} is not installed: pip install 'harrow[clients]'")


def clients_of(
    configuration: Configuration, cluster: SimulatedCluster, history: SimulatedHistory
) -> AbstractContextManager[Clients]:
    """Make the clients; at the end of the context nothing of them is left."""
    ids = range(CLIENTS_FROM, CLIENTS_FROM + configuration.producers + configuration.readers)
    producers, readers = ids[: configuration.producers], ids[configuration.producers :]
    if configuration.client == MODEL:
        return _model(configuration, cluster, history, producers, readers)
    from simulation.workload.aio.clients import aiokafka_clients

    return aiokafka_clients(configuration, cluster, history, producers, readers)


@contextmanager
def _model(
    configuration: Configuration, cluster: SimulatedCluster, history: SimulatedHistory, producers: range, readers: range
) -> Iterator[Clients]:
    broker_ids = list(range(1, configuration.brokers + 1))
    plans = {number: producer_plan(configuration, number) for number in producers}
    producing: list[SimulatedProducer | PipelinedProducer] = [
        (SimulatedProducer if plan.in_flight == 1 else PipelinedProducer)(number, plan, broker_ids, history)
        for number, plan in plans.items()
    ]
    reading = [
        SimulatedReader(
            number,
            configuration.partitions,
            broker_ids,
            history,
            poll_interval_ms(configuration),
            looks_up_times=looks_up_times(configuration),
            fetch_bytes=configuration.fetch_bytes,
        )
        for number in readers
    ]
    cluster.clients |= {producer.client_id: producer for producer in producing}
    cluster.clients |= {reader.client_id: reader for reader in reading}
    yield Clients(producing, reading)
