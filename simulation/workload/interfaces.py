"""What a simulated test needs of its clients, whether they are the model or a real library, and their common plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from simulation.engine.cluster import SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.scenario.clocks import clock_ahead_ms
from simulation.scenario.configuration import Configuration
from simulation.workload.clients import ProducerPlan

DELIVERY_TIMEOUT_MS = 6_000
"""How long after its first attempt a producer begins another one of a send."""

_CLOSING_US_MAX: Final = 10_000 * MS


class ProducingClient(Protocol):
    """Sends, one operation at a time. `acknowledged` counts those that succeeded."""

    client_id: int
    acknowledged: int
    stopped: bool

    @property
    def idle(self) -> bool:
        """Whether no operation is open."""
        ...

    def start(self, cluster: SimulatedCluster) -> None:
        """Begin to send."""
        ...

    def carry_on(self, cluster: SimulatedCluster) -> None:
        """Go on without a limit of operations, at once if none is open."""
        ...

    def give_up(self, cluster: SimulatedCluster) -> None:
        """End the run: the outcome of an open operation stays unknown."""
        ...


class ReadingClient(Protocol):
    """Reads all partitions by assignment. `positions` are what it reads next, by partition."""

    client_id: int
    partitions: int
    interval_ms: int
    positions: dict[int, int]

    def start(self, cluster: SimulatedCluster) -> None:
        """Begin to read."""
        ...

    def assign_from_start(self) -> None:
        """Begin again at offset 0 of every partition, for the final phase."""
        ...

    def give_up(self, cluster: SimulatedCluster) -> None:
        """End the run."""
        ...


def _at_once() -> bool:
    return True


@dataclass
class Clients:
    """The clients of a simulation. `are_closed`: whether nothing of those that gave up is left."""

    producers: Sequence[ProducingClient]
    readers: Sequence[ReadingClient]
    are_closed: Callable[[], bool] = _at_once

    def close(self, cluster: SimulatedCluster) -> None:
        """End the readers, after the producers, and give all clients ten virtual seconds to disconnect."""
        for reader in self.readers:
            reader.give_up(cluster)
        if not self.are_closed():
            cluster.run_until(cluster.now_us + _CLOSING_US_MAX, self.are_closed)


def producer_plan(configuration: Configuration, client_id: int) -> ProducerPlan:
    """How a producer of a configuration behaves."""
    return ProducerPlan(
        configuration.partitions,
        configuration.acks,
        configuration.idempotence and configuration.acks == -1,
        configuration.retries,
        interval_ms=max(1, configuration.duration_ms * configuration.producers // (2 * configuration.operations)),
        batch_max=3,
        request_timeout_ms=1_500,
        delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
        operations=-(-configuration.operations // configuration.producers),
        compression="none" if configuration.compacted else configuration.compression,
        keyed=configuration.compacted,
        clock_ahead_ms=clock_ahead_ms(configuration, client_id) if configuration.is_dated else None,
        in_flight=configuration.in_flight if configuration.idempotence and configuration.acks == -1 else 1,
    )


def poll_interval_ms(configuration: Configuration) -> int:
    """The pause of a reader after each poll."""
    return max(1, configuration.duration_ms * configuration.readers // configuration.polls)


def looks_up_times(configuration: Configuration) -> bool:
    """Whether readers look up records by time."""
    return not configuration.compacted and (configuration.compression != "none" or configuration.is_dated)
