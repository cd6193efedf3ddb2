"""An asyncio event loop on simulated time: what asynchronous code waits for are events of the simulation's queue.

The library that runs on it is not changed: it gets tasks, futures, timers and connections from its loop, as always.
Futures and tasks are hashed by the order in which they were made instead of by their address, since libraries keep them
in sets and iterate over these.
"""

from __future__ import annotations

import asyncio
import math
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, Protocol, TypeVar

from simulation.engine.event_queue import MS, EventQueue

T = TypeVar("T")

CALLBACKS_MAX = 200
"""Callbacks that run at one time; a loop with more to do is busy, and goes on `BUSY_US` later.

So code that waits for nothing, which a real processor would run for ever, takes time here too: 50 µs a callback."""

BUSY_US = 10 * MS

_US_PER_S = 1_000_000
_ROUNDS_MAX = 100
"""How often `dismiss` cancels tasks that start others, or go on."""


class Connector(Protocol):
    """Opens connections for the code on a loop."""

    def connect(
        self,
        loop: SimulatedEventLoop,
        address: tuple[str, int],
        protocol: asyncio.BaseProtocol,
        opened: asyncio.Future[asyncio.Transport],
    ) -> None:
        """Connect, and set the result of `opened`, or an OSError; a cancelled `opened` gives up."""
        ...

    def abandon(self, loop: SimulatedEventLoop) -> None:
        """Abort the connections of a loop that ends."""
        ...


class SimulatedFuture(asyncio.Future[Any]):
    """A future whose hash is its number in its loop."""

    def __init__(self, *, loop: SimulatedEventLoop) -> None:
        self.number = loop.next_number()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class SimulatedTask(asyncio.Task[Any]):
    """A task whose hash is its number in its loop."""

    def __init__(
        self,
        work: Generator[Any, None, Any] | Coroutine[Any, Any, Any],
        *,
        loop: SimulatedEventLoop,
        name: str | None,
        context: Context | None,
    ) -> None:
        self.number = loop.next_number()  # before the base registers it in a set
        super().__init__(work, loop=loop, name=name or f"task-{self.number}", context=context)

    def __hash__(self) -> int:
        return self.number


class SimulatedEventLoop(asyncio.AbstractEventLoop):
    """A loop of one simulated process, `endpoint` on the network. Without a `connector` it only accepts connections.

    What asyncio would log, such as an exception that a callback raised, is in `complaints`.
    """

    def __init__(self, timeline: EventQueue, endpoint: int, connector: Connector | None = None) -> None:
        self.timeline = timeline
        self.endpoint = endpoint
        self.complaints: list[str] = []
        self._connector = connector
        self._ready: deque[asyncio.Handle] = deque()
        self._due = False
        self._running = False
        self._closed = False
        self._numbers = 0

    @classmethod
    def make(cls, timeline: EventQueue, endpoint: int, connector: Connector | None = None) -> SimulatedEventLoop:
        """A new loop. What it does not have raises NotImplementedError: files, signals, threads, processes."""
        return cls(timeline, endpoint, connector)

    def next_number(self) -> int:
        """Number a future or a task."""
        self._numbers += 1
        return self._numbers

    # --- asyncio -----------------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Virtual seconds."""
        return self.timeline.now_us / _US_PER_S

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        """See `asyncio.AbstractEventLoop`."""
        handle = asyncio.Handle(callback, args, self, context)
        self._enqueue(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See `asyncio.AbstractEventLoop`."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See `asyncio.AbstractEventLoop`."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        at_us = math.ceil(when * _US_PER_S - 1e-3)  # never early; the margin is what adding floats may lose
        # Time passes: who waits for the rest of a time, which may be less than a clock can tell, must get on.
        self.timeline.at(max(self.timeline.now_us + 1, at_us), self._enqueue, handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """See `asyncio.AbstractEventLoop`."""
        return SimulatedFuture(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """See `asyncio.AbstractEventLoop`."""
        return SimulatedTask(coro, loop=self, name=name, context=context)

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, ssl: None = None
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect over the simulated network. Raises OSError as a real one would."""
        if self._connector is None:
            raise OSError(f"endpoint {self.endpoint} opens no connections")
        protocol = protocol_factory()
        opened: asyncio.Future[asyncio.Transport] = self.create_future()
        self._connector.connect(self, (host, port), protocol, opened)
        return await opened, protocol

    def get_debug(self) -> bool:
        """See `asyncio.AbstractEventLoop`."""
        return False

    def is_running(self) -> bool:
        """See `asyncio.AbstractEventLoop`."""
        return self._running

    def is_closed(self) -> bool:
        """See `asyncio.AbstractEventLoop`."""
        return self._closed

    def close(self) -> None:
        """Stop: nothing that is due runs any more."""
        self._closed = True
        self._ready.clear()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what asyncio would log."""
        if not self._closed:
            self.complaints.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """See `asyncio.TimerHandle.cancel`; its event finds it cancelled."""

    # --- virtual time ------------------------------------------------------------------------------------------------

    @contextmanager
    def running(self) -> Iterator[None]:
        """Be the running loop of this thread."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        self._running = True
        try:
            yield
        finally:
            self._running = False
            events._set_running_loop(before)

    def _enqueue(self, handle: asyncio.Handle) -> None:
        if self._closed or handle.cancelled():
            return
        self._ready.append(handle)
        if not self._due:
            self._due = True
            self.timeline.after(0, self._run_ready)

    def _run_ready(self) -> None:
        self._due = False
        self._run(CALLBACKS_MAX)
        if self._ready and not self._due:
            self._due = True
            self.timeline.after(BUSY_US, self._run_ready)

    def _run(self, callbacks_max: int) -> None:
        self._due = True  # what becomes ready meanwhile runs too
        with self.running():
            while self._ready and callbacks_max:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    callbacks_max -= 1
                    handle._run()
        self._due = False

    # --- the end -----------------------------------------------------------------------------------------------------

    def tasks(self) -> list[SimulatedTask]:
        """The tasks that have not ended, oldest first."""
        pending = [task for task in asyncio.all_tasks(self) if isinstance(task, SimulatedTask)]
        return sorted(pending, key=lambda task: task.number)

    def dismiss(self) -> None:
        """Cancel all tasks, let them end, abort all connections, and close: all at once, and not from a callback."""
        for _ in range(_ROUNDS_MAX):
            left = self.tasks()
            for task in left:
                task.cancel()
            self._run(CALLBACKS_MAX)
            if not left:
                break
        else:
            self.complaints.append(f"tasks that cannot be cancelled: {self.tasks()}")
        if self._connector is not None:
            self._connector.abandon(self)
            self._run(CALLBACKS_MAX)
        self.close()
