"""Instances of aiokafka's clients in a simulation, each on an event loop of its own: connected, stopped, dismissed.

The limits are those of the workloads for real clusters (`workloads.clients.producers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from aiokafka.errors import KafkaError

from simulation.engine.cluster import SimulatedCluster
from simulation.engine.connections import ByteNetwork
from simulation.engine.event_loop import SimulatedEventLoop
from simulation.engine.event_queue import MS
from workloads.clients.aio_calls import Untyped
from workloads.clients.base import ClientSettings
from workloads.clients.producers import RECONNECT_PAUSE_S, RETIREMENT_S

RECONNECT_PAUSE_US: Final = int(RECONNECT_PAUSE_S * 1_000 * MS)
METADATA_AGE_MS_MAX: Final = 1_000

_MARGIN_S: Final = 2.0


class AiokafkaWorld:
    """What all instances of a simulation share: the cluster, the connections, the list of their loops."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.network = ByteNetwork(
            cluster, cluster.transport, cluster.network, cluster.machines, cluster.deliver, cluster.digest
        )
        self.loops: list[SimulatedEventLoop] = []
        self.complaints: list[str] = []
        """What aiokafka left undone, as asyncio reports it: empty, if its clients are in order."""

    def loop(self, endpoint: int) -> SimulatedEventLoop:
        """A new loop."""
        loop = SimulatedEventLoop.make(self.cluster, endpoint, self.network)
        self.loops.append(loop)
        return loop

    def settings(self, client_id: int, request_timeout_ms: int, acks: int, *, idempotence: bool) -> ClientSettings:
        """Settings of an instance that knows all brokers."""
        return ClientSettings(
            bootstrap=tuple(f"{host}:{port}" for host, port in self.network.addresses),
            acks=acks,
            idempotence=idempotence,
            request_timeout_ms=request_timeout_ms,
            metadata_max_age_ms=METADATA_AGE_MS_MAX,
            client_id=f"client-{client_id}",
        )

    def watch(self, task: asyncio.Task[Any]) -> None:
        """Raise what a task of ours raises, in the simulation: nobody awaits it."""
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.cluster.after(0, _raise, error)

    def dismiss(self, loop: SimulatedEventLoop) -> None:
        """End what runs on a loop. Not for its own callbacks."""
        if loop in self.loops:
            self.loops.remove(loop)
            loop.dismiss()
            self.complaints += loop.complaints

    def close(self) -> None:
        """Dismiss all loops, and end all connections."""
        for loop in list(self.loops):
            self.dismiss(loop)
        self.network.shut_down()


def _raise(error: BaseException) -> None:
    raise error


class Instance:
    """One producer or consumer of aiokafka. `client` is there once it is connected.

    `start` connects; `opened` is called once it has, or `refused` if it cannot, and then nothing of it is left.
    """

    def __init__(
        self,
        world: AiokafkaWorld,
        settings: ClientSettings,
        endpoint: int,
        start: Callable[[], Coroutine[Any, Any, Untyped]],
        opened: Callable[[Instance], None],
        refused: Callable[[Instance], None],
    ) -> None:
        self.client: Untyped = None
        self.loop = world.loop(endpoint)
        self.born_us = world.cluster.now_us
        self._world = world
        self._opened = opened
        self._refused = refused
        self._connect_s_max = settings.request_timeout_ms / 1_000 + _MARGIN_S
        self.run(self._start(start))

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on its loop."""
        self._world.watch(self.loop.create_task(work))

    def retire(self) -> None:
        """Stop the client; what is still open a moment later is dropped, with its connections."""
        self.run(self._stop())

    async def _start(self, start: Callable[[], Coroutine[Any, Any, Untyped]]) -> None:
        try:
            async with asyncio.timeout(self._connect_s_max):
                self.client = await start()
        except (KafkaError, TimeoutError):
            self._world.cluster.after(0, self._world.dismiss, self.loop)
            self._refused(self)
        else:
            self._opened(self)

    async def _stop(self) -> None:
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(RETIREMENT_S):
                await self.client.stop()
        self._world.cluster.after(0, self._world.dismiss, self.loop)
